# SPDX-License-Identifier: BSD-3-Clause

"""Means of a few seeds, with an interval that says how much they tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

FEWEST_VALUES = 3
"""Fewer values than this have no interval: resampling two of them says nothing about a third.

Of three it is just the smallest to the largest, which holds the true mean in three cases of four rather than 95 %.
"""


def bootstrap_interval(
    groups: Sequence[Sequence[float]], level: float = 0.95, num_samples: int = 10_000
) -> tuple[float, float] | None:
    """Return the percentile bootstrap interval of the mean of the groups' means.

    With several groups, say robots with some seeds each, groups are drawn anew, and then values within each of those:
    the interval is for robots like these, not for these seeds alone. With one group its values are drawn anew.

    Args:
        groups: Values, in groups that weigh the same whatever their size.
        level: Probability that the interval stands for.
        num_samples: Number of times that all is drawn anew; the generator is always seeded alike.

    Returns:
        Low and high end, or None where there are too few to draw from: fewer than three groups, or values in a single
        one.
    """
    if (len(groups) if len(groups) > 1 else sum(map(len, groups))) < FEWEST_VALUES:
        return None
    generator = np.random.default_rng(0)
    arrays = [np.asarray(group, dtype=float) for group in groups]
    # Means of every group's values drawn anew, [num_samples, groups as drawn].
    drawn = generator.integers(len(arrays), size=(num_samples, len(arrays))) if len(arrays) > 1 else None
    means = np.empty((num_samples, len(arrays)))
    for place in range(len(arrays)):
        for index, array in enumerate(arrays):
            rows = np.arange(num_samples) if drawn is None else np.flatnonzero(drawn[:, place] == index)
            means[rows, place] = generator.choice(array, (len(rows), len(array))).mean(axis=1)
    low, high = np.quantile(means.mean(axis=1), (0.5 - level / 2, 0.5 + level / 2))
    return float(low), float(high)


def mean_with_interval(groups: Sequence[Sequence[float]], digits: int = 3, sign: bool = False) -> str:
    """Return the mean of the groups' means as text, with its 95 % interval where there is one.

    Args:
        groups: As in :func:`bootstrap_interval`.
        digits: Digits after the point.
        sign: Whether to show a plus.
    """
    form = f"{'+' if sign else ''}.{digits}f"
    mean = np.mean([np.mean(group) for group in groups])
    interval = bootstrap_interval(groups)
    return f"{mean:{form}}" + (f" [{interval[0]:{form}}, {interval[1]:{form}}]" if interval is not None else "")
