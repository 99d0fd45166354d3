# SPDX-License-Identifier: BSD-3-Clause

"""Figures of learning curves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rsl_rl_sac.locomotion.curves import Curve, mean_curve

COLOURS = {"sac": "#0072b2", "ppo": "#d55e00"}
"""Colour-blind safe."""

TITLES = {"sac": "SAC", "ppo": "PPO"}


@contextlib.contextmanager
def drawing(path: Path, rows: int, columns: int, size: tuple[float, float], **shared: Any) -> Iterator[tuple]:  # noqa: ANN401
    """Give a figure and its axes to draw on, then write it; no display is needed.

    Args:
        path: Picture to write.
        rows: Rows of axes.
        columns: Columns of axes.
        size: Width and height in inches.
        **shared: Which axes are shared, ``sharex`` and ``sharey`` of ``matplotlib.pyplot.subplots``.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", **shared)
    try:
        yield figure, axes
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
    finally:
        plt.close(figure)


def draw_comparison(curves: Sequence[Curve], path: Path, title: str = "") -> None:
    """Draw tracking and return against environment steps and against time: a line per seed, their mean in bold."""
    with drawing(path, 2, 2, (9, 6), sharey="row", sharex="col") as (figure, axes):
        _draw_panels(axes, curves)
        figure.suptitle(title)


def _draw_panels(axes: np.ndarray, curves: Sequence[Curve]) -> None:
    for row, (column, label) in enumerate((("tracking", "tracking score"), ("episode_return", "return"))):
        for side, (unit, scale, unit_label) in enumerate(
            (("env_steps", 1e6, "environment steps (millions)"), ("seconds", 60.0, "training time (minutes)"))
        ):
            axis = axes[row][side]
            for agent in sorted({curve.agent for curve in curves}, reverse=True):
                _draw_agent(axis, [curve for curve in curves if curve.agent == agent], unit, scale, column)
            axis.grid(alpha=0.3)
            axis.set_ylabel(label if side == 0 else "")
            axis.set_xlabel(unit_label if row == 1 else "")
    axes[0][0].legend(loc="lower right")


def _draw_agent(axis: Any, curves: Sequence[Curve], unit: str, scale: float, column: str) -> None:  # noqa: ANN401
    colour = COLOURS.get(curves[0].agent, "black")
    for curve in curves:
        axis.plot(curve.columns[unit] / scale, curve.columns[column], color=colour, alpha=0.35, linewidth=1)
    grid, mean = mean_curve(curves, unit, column)
    label = f"{TITLES.get(curves[0].agent, curves[0].agent)} (mean of {len(curves)})"
    axis.plot(grid / scale, mean, color=colour, linewidth=2, label=label)
