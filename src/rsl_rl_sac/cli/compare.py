# SPDX-License-Identifier: BSD-3-Clause

"""``rsl-rl-sac compare TASK``: train SAC and rsl_rl's PPO side by side."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rsl_rl_sac.cli.console import plain_console
from rsl_rl_sac.cli.display import clock, sparkline
from rsl_rl_sac.cli.main import INTERRUPTED_EXIT_CODE
from rsl_rl_sac.cli.options import check_folder, parse_options
from rsl_rl_sac.locomotion.comparison import AGENTS, Comparison, Run, folder_of_run
from rsl_rl_sac.locomotion.curves import Curve, end_differences, read_curves
from rsl_rl_sac.locomotion.figures import draw_comparison
from rsl_rl_sac.locomotion.registry import task_cfg
from rsl_rl_sac.locomotion.statistics import FEWEST_VALUES, mean_with_interval
from rsl_rl_sac.locomotion.world import LocomotionWorld
from rsl_rl_sac.presets import preset
from rsl_rl_sac.utils.checkpoint import find_checkpoints
from rsl_rl_sac.utils.errors import ConfigError


@dataclass
class CompareOptions:
    """Train SAC and rsl_rl's PPO side by side, each on its own half of the cores.

    Writes one table (curves.csv) and one figure (curves.png): tracking and return against environment steps and
    against training time. Ctrl-C saves; the same command goes on with what is missing.

    For example:
      rsl-rl-sac compare Velocity-Flat-Unitree-Go2 --minutes 20 --seeds 3
      rsl-rl-sac compare Velocity-Rough-Anymal-D --preset paper --minutes 600
      rsl-rl-sac compare Velocity-Rough-Anymal-D --start-from Velocity-Flat-Anymal-D
    """

    task: tyro.conf.Positional[str]
    """Task, for example Velocity-Flat-Unitree-Go1 (see rsl-rl-sac list)."""

    minutes: float = 20.0
    """Training time of each run, without evaluations."""

    evaluation_minutes: float = 1.0
    """Training time between evaluations, each some 20 seconds of a core on rough ground; 0 only evaluates the end."""

    seeds: int = 1
    """Number of seeds."""

    first_seed: int = 0
    """First of them; the others follow."""

    start_from: str | None = None
    """Task, compared before in the same folder, from whose runs these start, each from that of its agent and seed."""

    preset: str = "cpu"
    """Settings of both algorithms: cpu or paper."""

    fine_physics: bool = False
    """Train both in the physics of the evaluation, in place of the preset's coarse one."""

    folder: Path = Path("logs/compare")
    """Folder of all comparisons; this one goes into a folder of the task's name."""


def run(arguments: Sequence[str]) -> None:
    """Run the verb."""
    options = parse_options(CompareOptions, "rsl-rl-sac compare", arguments)
    if ":" in options.task:
        raise ConfigError(
            f"compare is for tasks of the suite: train {options.task} with --agent sac, and with --agent ppo."
        )
    task_cfg(options.task)  # a typo is found before anything is written
    for agent_preset in (options.preset, f"ppo_{options.preset}"):
        preset(agent_preset, options.task)
    if options.first_seed < 0:
        raise ConfigError(f"--first-seed must not be negative, got {options.first_seed}.")
    if options.seeds < 1 or not 0.0 < options.minutes < math.inf:
        raise ConfigError("A comparison needs at least one seed and a positive training time.")
    if not 0.0 <= options.evaluation_minutes < math.inf:
        raise ConfigError(f"--evaluation-minutes must not be negative, got {options.evaluation_minutes:g}.")
    check_folder("--folder", options.folder)
    folder = options.folder / options.task
    seeds = list(range(options.first_seed, options.first_seed + options.seeds))
    start = None
    if options.start_from is not None:
        start, folder = (
            options.folder / options.start_from,
            options.folder / f"{options.task}_from_{options.start_from}",
        )
        _check_start(options.task, start, seeds)
    with _Display(options) as display:
        more = ["--evaluation-minutes", str(options.evaluation_minutes)]
        comparison = Comparison(
            options.task, folder, options.minutes, seeds, options.preset, more, display, start, options.fine_physics
        )
        try:
            comparison.run()
        except KeyboardInterrupt:
            print("Stopped and saved; the same command goes on with what is missing.", file=sys.stderr)
            raise SystemExit(INTERRUPTED_EXIT_CODE) from None
    curves = read_curves(comparison.table_path)
    draw_comparison(curves, folder / "curves.png", options.task)
    console = plain_console(120)
    console.print(result_table(curves))
    for line in difference_lines(curves):
        console.print(line, soft_wrap=True)
    print(f"Curves: {comparison.table_path}, figure: {folder / 'curves.png'}")


def _check_start(task: str, folder: Path, seeds: Sequence[int]) -> None:
    """Raise an error if a run to start from is not there or does not fit, before anything is trained."""
    if not LocomotionWorld().extends(task, folder.name):
        raise ConfigError(f"{task} cannot start from {folder.name}: another robot, or one that sees more.")
    for agent in AGENTS:
        runs = [Run(agent, seed, folder_of_run(folder, agent, seed)) for seed in seeds]
        missing = [run.seed for run in runs if run.had_minutes is None or not find_checkpoints(run.folder)]
        if missing:
            raise ConfigError(
                f"There is nothing to start from in '{folder}': {agent.upper()} has no finished run with seed"
                f" {missing[0]}. Make it with: rsl-rl-sac compare {folder.name} --first-seed {seeds[0]} --seeds"
                f" {len(seeds)}"
            )


def result_table(curves: Sequence[Curve]) -> Table:
    """Return the outcome of each run: its last score, and what it took to a tracking score of 0.8."""
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in (
        "Agent",
        "Seed",
        "Tracking",
        "Return",
        "Survival",
        "Steps (M)",
        "Minutes to 0.8",
        "Steps to 0.8 (M)",
    ):
        table.add_column(column, justify="left" if column == "Agent" else "right")
    for curve in curves:
        last = {name: values[-1] for name, values in curve.columns.items()}
        minutes = curve.first("tracking", 0.8, "seconds") / 60.0
        steps = curve.first("tracking", 0.8, "env_steps") / 1e6
        table.add_row(
            curve.agent.upper(),
            str(curve.seed),
            f"{last['tracking']:.3f}",
            f"{last['episode_return']:.2f}",
            f"{last['survival']:.2f}",
            f"{last['env_steps'] / 1e6:.2f}",
            f"{minutes:.1f}" if minutes < float("inf") else "-",
            f"{steps:.2f}" if steps < float("inf") else "-",
        )
    return table


def difference_lines(curves: Sequence[Curve]) -> list[str]:
    """Return by how much SAC ends above PPO, if both have several seeds; of three or more with an interval."""
    columns = {"tracking": ("tracking", 3), "return": ("episode_return", 2), "survival": ("survival", 2)}
    differences = {name: end_differences(curves, column) for name, (column, _) in columns.items()}
    num_seeds = len(differences["tracking"])
    if num_seeds < 2:
        return []
    interval = " with 95 % bootstrap interval" if num_seeds >= FEWEST_VALUES else ""
    return [f"SAC - PPO at the end, mean of {num_seeds} seeds{interval}:"] + [
        f"  {name} {mean_with_interval([differences[name]], digits, sign=True)}"
        for name, (_, digits) in columns.items()
    ]


class _Display:
    """Both curves, redrawn in place on a terminal; elsewhere a line for every evaluation."""

    def __init__(self, options: CompareOptions) -> None:
        self.options = options
        self.console = plain_console(stderr=True)
        self._live = Live(console=self.console, refresh_per_second=2) if self.console.is_terminal else None
        self._told: dict[tuple[str, int], int] = {}

    def __enter__(self) -> _Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, runs: list[Run]) -> None:
        for run in runs:
            told = self._told.get((run.agent, run.seed), 0)
            self._told[run.agent, run.seed] = len(run.rows)
            for row in run.rows[told:] if self._live is None else []:
                self.console.print(f"{run.agent.upper()} seed {run.seed}  {_summary(row)}", soft_wrap=True)
        if self._live is not None:
            self._live.update(Group(*(self._draw(run) for run in runs)))

    def _draw(self, run: Run) -> Text:
        if not run.rows:
            return Text(f"{run.agent.upper()} seed {run.seed}  starting ...")
        left = clock(max(0.0, 60.0 * self.options.minutes - run.rows[-1]["seconds"]))
        curve = sparkline([row["tracking"] for row in run.rows][-60:])
        return Text(f"{run.agent.upper()} seed {run.seed}  {curve}\n  {_summary(run.rows[-1])}  left {left}")


def _summary(row: dict[str, float]) -> str:
    return (
        f"{clock(row['seconds'])}  {row['env_steps'] / 1e6:.2f} M steps  tracking {row['tracking']:.3f}"
        f"  return {row['episode_return']:.2f}  survival {row['survival']:.2f}"
    )
