# SPDX-License-Identifier: BSD-3-Clause

"""Teach a quadruped to walk on flat ground, from nothing, on the cores of this machine.

    python examples/quadruped.py [--task Velocity-Flat-Unitree-Go2] [--seed 0] [--minutes 8] [--folder logs/demo]

Ends with a table of scores, a learning curve, the policy as an ONNX file and a film of the robot.
"""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import torch
import tyro
from rich.console import Console
from rich.table import Table
from tensordict import TensorDict

from rsl_rl_sac.cli.display import TrainingDisplay, clock
from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.locomotion.evaluation import Policy, evaluate, make_evaluation_env
from rsl_rl_sac.locomotion.figures import Curve, draw_comparison
from rsl_rl_sac.locomotion.video import record_video
from rsl_rl_sac.locomotion.world import CURVE_COLUMNS
from rsl_rl_sac.presets import preset
from rsl_rl_sac.runners.curve import read_curve
from rsl_rl_sac.runners.training import Training


@dataclass
class Options:
    """Teach a quadruped to walk on flat ground, from nothing, on the cores of this machine."""

    task: str = "Velocity-Flat-Unitree-Go2"
    """Task of the suite."""
    seed: int = 0
    """Seed of every random generator."""
    minutes: float = 8.0
    """Training time."""
    folder: Path = Path("logs/demo")
    """Where results go; an earlier demo there is replaced."""


def main(options: Options) -> None:
    """Train, score, export, film."""
    cfg = preset("cpu", options.task)
    assert isinstance(cfg, RunnerCfg)
    cfg.seed, cfg.max_iterations = options.seed, 10**6
    if options.folder.exists():
        shutil.rmtree(options.folder)
    with TrainingDisplay(f"SAC on {options.task}, {options.minutes:g} minutes of training") as display:
        training = Training(
            options.task, cfg, options.folder, options.minutes, evaluation_minutes=0.5, listener=display
        )
        training.run()
    policy = training.runner.get_inference_policy()
    export(training, options.folder)
    session = onnxruntime.InferenceSession(str(options.folder / "policy.onnx"))
    env = make_evaluation_env(options.task, 64)
    standing = torch.zeros(env.num_envs, env.num_actions)
    generator = torch.Generator().manual_seed(0)
    policies: dict[str, Policy] = {
        "default pose": lambda obs: standing,
        "random actions": lambda obs: torch.randn(standing.shape, generator=generator),
        "SAC": policy,
        "SAC, exported to ONNX": lambda obs: run_onnx(session, obs),
    }
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("Policy", "Tracking", "Return", "Survival"):
        table.add_column(column, justify="left" if column == "Policy" else "right")
    for name, candidate in policies.items():
        score = evaluate(candidate, env)
        table.add_row(name, f"{score.tracking:.3f}", f"{score.episode_return:.2f}", f"{score.survival:.2f}")
    rows = read_curve(training.curve_path)
    columns = {name: np.array([row[name] for row in rows]) for name in CURVE_COLUMNS}
    draw_comparison([Curve(options.task, "sac", options.seed, columns)], options.folder / "curve.png", options.task)
    record_video(policy, env, options.folder / "walk.mp4")
    console = Console(highlight=False)
    console.print(table)
    progress = training.progress
    console.print(
        f"{clock(progress.seconds)} of training, {progress.env_steps / 1e6:.2f} M environment steps,"
        f" {progress.updates} gradient steps. Written to {options.folder}: curve.csv, curve.png, policy.onnx, walk.mp4",
        soft_wrap=True,
    )


def export(training: Training, folder: Path) -> None:
    """Export the policy to ONNX, without the exporter's remarks on libraries that are not needed."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        training.runner.export_policy_to_onnx(str(folder), "policy.onnx")


def run_onnx(session: onnxruntime.InferenceSession, obs: TensorDict) -> torch.Tensor:
    """Run the exported policy, which takes one observation at a time."""
    rows = [session.run(["actions"], {"obs": row[None].numpy()})[0] for row in obs["policy"]]
    return torch.from_numpy(np.concatenate(rows))  # type: ignore[arg-type]


if __name__ == "__main__":
    main(tyro.cli(Options))
