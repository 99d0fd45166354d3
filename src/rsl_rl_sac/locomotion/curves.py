# SPDX-License-Identifier: BSD-3-Clause

"""Learning curves of several runs: read from a table, averaged, subtracted."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass
class Curve:
    """The learning curve of one run, in columns."""

    task: str
    """Task."""
    agent: str
    """Algorithm."""
    seed: int
    """Seed."""
    columns: dict[str, np.ndarray]
    """Values by name, one for each evaluation."""

    def first(self, column: str, at_least: float, of: str) -> float:
        """Return where one column first reaches a value, in terms of another one; infinity if it never does."""
        reached = np.nonzero(self.columns[column] >= at_least)[0]
        return float(self.columns[of][reached[0]]) if len(reached) else float("inf")


def read_curves(path: Path) -> list[Curve]:
    """Read the table that a comparison wrote."""
    runs: dict[tuple[str, str, int], list[dict[str, str]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            runs.setdefault((row.pop("task"), row.pop("agent"), int(row.pop("seed"))), []).append(row)
    return [
        Curve(task, agent, seed, {name: np.array([float(row[name]) for row in rows]) for name in rows[0]})
        for (task, agent, seed), rows in runs.items()
    ]


def mean_curve(curves: Sequence[Curve], unit: str, column: str, num_points: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of curves that were sampled at different points, as far as all of them reach."""
    grid = np.linspace(0.0, min(curve.columns[unit][-1] for curve in curves), num_points)
    return grid, np.mean([np.interp(grid, curve.columns[unit], curve.columns[column]) for curve in curves], axis=0)


def end_differences(curves: Sequence[Curve], column: str, of: str = "sac", over: str = "ppo") -> list[float]:
    """Return by how much one agent ends above another, for every seed that both have."""
    ends = {(curve.agent, curve.seed): float(curve.columns[column][-1]) for curve in curves}
    seeds = [seed for agent, seed in ends if agent == of and (over, seed) in ends]
    return [ends[of, seed] - ends[over, seed] for seed in seeds]
