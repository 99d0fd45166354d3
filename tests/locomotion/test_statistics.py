# SPDX-License-Identifier: BSD-3-Clause

"""Bootstrap intervals, against all that can be drawn and against scipy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats

from rsl_rl_sac.locomotion.statistics import bootstrap_interval, mean_with_interval


def all_means_of_draws(groups: list[list[float]]) -> np.ndarray:
    """Return the mean of every draw there is, of groups and then of values in them, each as often as it is likely."""

    def group_means(group: list[float]) -> list[float]:
        return [float(np.mean(values)) for values in itertools.product(group, repeat=len(group))]

    means = []
    for drawn in itertools.product(groups, repeat=len(groups)):
        means += [float(np.mean(values)) for values in itertools.product(*map(group_means, drawn))]
    return np.array(means)


def test_one_group_is_scipys() -> None:
    """Of one group the interval is the percentile bootstrap of scipy, up to what 10 000 draws are good for."""
    values = np.random.default_rng(3).normal(size=12)
    reference = scipy.stats.bootstrap((values,), np.mean, method="percentile", n_resamples=50_000, rng=1)
    assert bootstrap_interval([list(values)]) == pytest.approx(tuple(reference.confidence_interval), abs=0.02)


def test_three_values_by_hand() -> None:
    """Of 0, 0 and 1 a draw is all ones in one case of 27, and all zeros in eight: both ends of 95 % are there."""
    assert bootstrap_interval([[0.0, 0.0, 1.0]]) == (0.0, 1.0)
    low, high = bootstrap_interval([[0.0, 0.0, 1.0]], level=0.5)  # type: ignore[misc]
    assert (low, high) == pytest.approx((0.0, 2 / 3))  # 20 of 27 draws have at most one 1, 12 of 27 just one


def test_groups_are_drawn_too() -> None:
    """Of several groups, the quantiles are those of every draw of groups and of values in them."""
    groups = [[0.0, 1.0], [5.0, 5.5], [9.0, 12.0]]
    means = all_means_of_draws(groups)
    for level in (0.5, 0.8, 0.95):
        expected = np.quantile(means, (0.5 - level / 2, 0.5 + level / 2))
        assert bootstrap_interval(groups, level, 200_000) == pytest.approx(tuple(expected), abs=0.1)


def test_groups_of_one_value() -> None:
    """With one value in each, groups are values; only the order of the draws differs."""
    values = [0.1, 0.4, 0.7, 0.2, 0.9]
    one, many = bootstrap_interval([values]), bootstrap_interval([[value] for value in values])
    assert one is not None and many == pytest.approx(one, abs=0.02)


@pytest.mark.parametrize("groups", ([[1.0, 2.0]], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0]]))
def test_too_few(groups: list[list[float]]) -> None:
    """Two values, or two groups, have no interval, and the text says just the mean."""
    assert bootstrap_interval(groups) is None
    assert mean_with_interval(groups, digits=2) == f"{np.mean(groups):.2f}"


def test_text() -> None:
    """Groups weigh the same whatever their size; equal values have an interval of no width."""
    assert mean_with_interval([[0.25] * 3], digits=2, sign=True) == "+0.25 [+0.25, +0.25]"
    assert mean_with_interval([[1.0], [3.0, 3.0, 3.0]], digits=1) == "2.0"
