# SPDX-License-Identifier: BSD-3-Clause

"""``rsl-rl-sac info RUN``: what a checkpoint or an exported file is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from rsl_rl_sac.locomotion.run_info import describe
from rsl_rl_sac.locomotion.runs import resolve_run


@dataclass
class InfoOptions:
    """Tell what a run is: task, steps, scores, versions, and how its settings differ from the nearest preset.

    For example:
      rsl-rl-sac info Velocity-Flat-Unitree-Go2     newest run of the task
      rsl-rl-sac info RUN/export/policy.onnx        what an exported file says of itself
    """

    run: tyro.conf.Positional[str]
    """Run: folder, checkpoint, ONNX or TorchScript file, or a task (its newest run)."""

    task: str | None = None
    """Task of ONNX and TorchScript files that do not say theirs."""

    logs: Path = Path("logs")
    """Folder of all runs."""


def run(arguments: Sequence[str]) -> None:
    """Run the verb."""
    options = tyro.cli(InfoOptions, prog="rsl-rl-sac info", args=list(arguments))
    info = describe(resolve_run(options.run, options.logs, options.task))
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(_table(info.facts))
    if info.versions:
        console.print("\n[bold]Made with[/bold]", _table(info.versions))
    if info.preset:
        same = "" if info.differences else ": nothing"
        console.print(f"\n[bold]Other than the preset {info.preset}[/bold]{same}")
    if info.differences:
        console.print(_table({name: f"{here}  (preset: {there})" for name, (there, here) in info.differences.items()}))


def _table(rows: dict[str, str]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, value)
    return table
