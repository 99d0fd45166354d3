# SPDX-License-Identifier: BSD-3-Clause

"""``rsl-rl-sac export RUN``: a policy for deployment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from rsl_rl_sac.cli.options import parse_options
from rsl_rl_sac.locomotion.export import TOLERANCE, export_policy
from rsl_rl_sac.locomotion.runs import resolve_run


@dataclass
class ExportOptions:
    """Write a policy as ONNX and TorchScript, with all a deployment needs to know inside, and a MuJoCo scene.

    Before anything is written, both are compared with the policy on observations of its task. docs/deploy.md says how
    to use them; examples/deploy.py is a complete program.

    For example:
      rsl-rl-sac export Velocity-Flat-Unitree-Go2           newest run of the task, into its folder
      rsl-rl-sac export RUN/model_best.pt --output robot/   a certain checkpoint, into another folder
    """

    run: tyro.conf.Positional[str]
    """Run: folder, checkpoint, or a task (its newest run); of SAC or PPO."""

    output: Path | None = None
    """Folder to write to; by default 'export' in the folder of the run."""

    tolerance: float = TOLERANCE
    """Largest difference between the actions of the files and of the policy; beyond it nothing is written."""

    logs: Path = Path("logs")
    """Folder of all runs."""


def run(arguments: Sequence[str]) -> None:
    """Run the verb."""
    options = parse_options(ExportOptions, "rsl-rl-sac export", arguments)
    file = resolve_run(options.run, options.logs)
    exported = export_policy(file, options.output or file.folder / "export", options.tolerance)
    print(f"{file.title}")
    print(f"Compared with the policy on {exported.num_observations} observations, largest difference of an action:")
    print(f"  {exported.onnx}  {exported.onnx_difference:.2g}")
    print(f"  {exported.torchscript}  {exported.torchscript_difference:.2g}")
    print(f"MuJoCo scene: {exported.scene}")
    print("docs/deploy.md shows how to run it without this package.")
