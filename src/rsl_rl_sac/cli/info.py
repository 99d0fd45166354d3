# SPDX-License-Identifier: BSD-3-Clause

"""``rsl-rl-sac info RUN``: what a checkpoint, an exported file or a dump is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from rsl_rl_sac.cli.console import plain_console
from rsl_rl_sac.cli.options import parse_options
from rsl_rl_sac.locomotion.run_info import describe
from rsl_rl_sac.locomotion.runs import resolve_run
from rsl_rl_sac.runners.dump import Dump, is_dump, load_dump, replay_dump
from rsl_rl_sac.utils.errors import ConfigError


@dataclass
class InfoOptions:
    """Tell what a run is: task, steps, scores, versions, and how its settings differ from the nearest preset.

    For example:
      rsl-rl-sac info Velocity-Flat-Unitree-Go2     newest run of the task
      rsl-rl-sac info RUN/export/policy.onnx        what an exported file says of itself
      rsl-rl-sac info RUN/dump_120.pt               the last steps before a number was NaN or infinite
    """

    run: tyro.conf.Positional[str]
    """Run: folder, checkpoint, ONNX or TorchScript file, dump, or a task (its newest run)."""

    task: str | None = None
    """Task of ONNX and TorchScript files that do not say theirs."""

    logs: Path = Path("logs")
    """Folder of all runs."""

    env: int | None = None
    """Environment of a dump to show; by default the first that went wrong."""


def run(arguments: Sequence[str]) -> None:
    """Run the verb."""
    options = parse_options(InfoOptions, "rsl-rl-sac info", arguments)
    console = plain_console(120)
    if is_dump(Path(options.run)):
        _print_dump(load_dump(Path(options.run)), options.env, console)
        return
    file = resolve_run(options.run, options.logs, options.task)
    if options.env is not None:
        raise ConfigError(f"--env would be ignored: it is for dumps (dump_<iteration>.pt), '{file.path}' is none.")
    info = describe(file)
    console.print(_table(info.facts))
    if info.versions:
        console.print("\nMade with", style="bold")
        console.print(_table(info.versions))
    if info.preset:
        same = "" if info.differences else ": nothing"
        console.print(f"\nOther than the preset {info.preset}{same}", style="bold")
    if info.differences:
        console.print(_table({name: f"{here}  (preset: {there})" for name, (there, here) in info.differences.items()}))


def _print_dump(dump: Dump, env: int | None, console: Console) -> None:
    steps = replay_dump(dump, env)
    held = f"{len(dump.envs)} of {dump.num_envs}: {', '.join(map(str, dump.envs))}"
    shown = str(dump.envs[0] if env is None else env)
    facts = {"reason": dump.reason, "iteration": str(dump.iteration), "environments": held, "shown": shown}
    console.print(_table(facts), "")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("step", "what", "values", "not finite"):
        table.add_column(title, style="red" if title == "not finite" else "")
    last = ""
    for number, *cells in steps:
        table.add_row(number if number != last else "", *cells)
        last = number
    console.print(table)


def _table(rows: dict[str, str]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, value)
    return table
