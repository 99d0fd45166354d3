# SPDX-License-Identifier: BSD-3-Clause

"""What ``rsl-rl-sac compare`` prints at the end."""

from __future__ import annotations

import io

import numpy as np
from rich.console import Console

from rsl_rl_sac.cli.compare import difference_lines, result_table
from rsl_rl_sac.locomotion.curves import Curve


def make_curve(agent: str, seed: int, tracking: list[float], end: tuple[float, float]) -> Curve:
    """Return a curve evaluated every two minutes and 1.5 million steps, with a return and a survival at the end."""
    grid = np.arange(len(tracking))
    columns = {"tracking": np.array(tracking), "seconds": 120.0 * grid, "env_steps": 1.5e6 * grid}
    columns |= {"episode_return": np.full(len(grid), end[0]), "survival": np.full(len(grid), end[1])}
    return Curve("task", agent, seed, columns)


def test_result_table() -> None:
    """A line for each run: how it ended, and when it first scored 0.8, if ever."""
    curves = [
        make_curve("sac", 0, [0.2, 0.5, 0.85, 0.9], (31.25, 1.0)),
        make_curve("ppo", 0, [0.2, 0.3, 0.4, 0.75], (12.5, 0.5)),
    ]
    console = Console(file=io.StringIO(), width=120)
    console.print(result_table(curves))
    _, sac, ppo = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert sac.split() == ["SAC", "0", "0.900", "31.25", "1.00", "4.50", "4.0", "3.00"]
    assert ppo.split() == ["PPO", "0", "0.750", "12.50", "0.50", "4.50", "-", "-"]


def test_differences() -> None:
    """One seed is no mean, two have no interval, three do; seeds that only one of both has are left out."""
    ends = {"sac": [(0.9, 30.0, 1.0), (0.8, 28.0, 1.0), (0.7, 29.0, 1.0)], "ppo": [(0.5, 20.0, 0.5)] * 3}
    curves = {
        agent: [make_curve(agent, seed, [0.2, tracking], end) for seed, (tracking, *end) in enumerate(values)]  # type: ignore[arg-type]
        for agent, values in ends.items()
    }
    assert difference_lines([*curves["sac"], curves["ppo"][0]]) == []
    assert difference_lines([*curves["sac"], *curves["ppo"][:2]]) == [
        "SAC - PPO at the end, mean of 2 seeds:",
        "  tracking +0.350",
        "  return +9.00",
        "  survival +0.50",
    ]
    # Three values 0.4, 0.3 and 0.2: each end of 95 % is a draw of three times the same, which 1 of 27 is.
    assert difference_lines([*curves["sac"], *curves["ppo"]]) == [
        "SAC - PPO at the end, mean of 3 seeds with 95 % bootstrap interval:",
        "  tracking +0.300 [+0.200, +0.400]",
        "  return +9.00 [+8.00, +10.00]",
        "  survival +0.50 [+0.50, +0.50]",
    ]
