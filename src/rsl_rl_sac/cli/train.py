# SPDX-License-Identifier: BSD-3-Clause

"""``rsl-rl-sac train TASK``: train a policy on a task of the suite."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from rsl_rl_sac.cli.display import TrainingDisplay, clock
from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.locomotion.evaluation import Score
from rsl_rl_sac.locomotion.registry import task_cfg, task_names
from rsl_rl_sac.locomotion.training import Training
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.presets import preset
from rsl_rl_sac.utils.checkpoint import find_checkpoints, write_text_atomically
from rsl_rl_sac.utils.config_file import dump_config, load_config
from rsl_rl_sac.utils.errors import ConfigError

_AGENTS = {"sac": "", "ppo": "ppo_"}


@dataclass
class TrainOptions:
    """Train a policy on a task of the suite, on all cores of this machine.

    The folder of the run holds the configuration, the learning curve, checkpoints and TensorBoard's files. Ctrl-C saves
    and stops; the same command with --resume goes on from there.
    """

    task: tyro.conf.Positional[str]
    """Task, for example Velocity-Flat-Unitree-Go1 (see rsl-rl-sac list)."""

    agent: str = "sac"
    """Algorithm: sac, or rsl_rl's ppo."""

    preset: str = "cpu"
    """Settings to start from: cpu (chosen by experiment for machines without a GPU) or paper."""

    minutes: float | None = None
    """Training time, without evaluations; by default the number of iterations decides."""

    logs: Path = Path("logs")
    """Folder of all runs."""

    name: str = ""
    """Suffix of the folder of this run."""

    folder: Path | None = None
    """Folder of this run, in place of a new one; a run that is there already goes on."""

    resume: Path | None = None
    """Folder of a run to go on with, with its own configuration."""

    cores: int | None = None
    """Cores to use; by default all that the process may use."""

    evaluation_minutes: float = 1.0
    """Training time between evaluations."""

    evaluation_envs: int = 64
    """Episodes per evaluation."""


@dataclass
class TrainSACOptions(TrainOptions):
    """SAC: the options above and every field of its configuration."""

    cfg: Annotated[RunnerCfg, tyro.conf.arg(name="")] = field(default_factory=RunnerCfg)
    """Configuration."""


@dataclass
class TrainPPOOptions(TrainOptions):
    """PPO: the options above and every field of its configuration."""

    cfg: Annotated[PPORunnerCfg, tyro.conf.arg(name="")] = field(default_factory=PPORunnerCfg)
    """Configuration."""


def run(arguments: Sequence[str]) -> None:
    """Run the verb."""
    options = parse(arguments)
    task_cfg(options.task)  # a typo is found before anything is written
    folder = options.resume or options.folder or _new_folder(options)
    if options.resume is not None and not find_checkpoints(folder):
        raise ConfigError(f"There is nothing to resume in '{folder}': it holds no checkpoint model_<iteration>.pt.")
    if options.resume is not None:
        task, options.cfg = load_config(folder / "config.yaml")
        if task != options.task:
            raise ConfigError(f"The run in '{folder}' is of the task '{task}', not '{options.task}'.")
    folder.mkdir(parents=True, exist_ok=True)
    write_text_atomically(dump_config(options.task, options.cfg), folder / "config.yaml")
    agent = "SAC" if isinstance(options.cfg, RunnerCfg) else "PPO"  # of the configuration: a resumed run has its own
    title = f"{agent} on {options.task}, seed {options.cfg.seed}, {folder}"
    with TrainingDisplay(title) as display:
        training = Training(
            options.task,
            options.cfg,
            folder,
            options.minutes,
            options.evaluation_minutes,
            options.evaluation_envs,
            options.cores,
            display,
        )
        score = training.run()
        training.close()
    report(training, score)


def report(training: Training, score: Score) -> None:
    """Print the outcome."""
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    progress = training.progress
    console.print(
        f"Tracking {score.tracking:.3f}, return {score.episode_return:.2f}, survival {score.survival:.2f} after"
        f" {clock(progress.seconds)} of training and {progress.env_steps / 1e6:.2f} M environment steps."
    )
    console.print(f"The run is in {training.folder}")
    if training.stop_requested:
        console.print(f"Go on with: rsl-rl-sac train {training.task} --resume {training.folder}")


def parse(arguments: Sequence[str]) -> TrainSACOptions | TrainPPOOptions:
    """Parse the command line; the preset and the task decide on the defaults."""
    agent = _peek(arguments, "--agent", "sac")
    if agent not in _AGENTS:
        raise ConfigError(f"There is no agent '{agent}'. Known agents: {', '.join(_AGENTS)}.")
    robot = next((argument for argument in arguments if argument in task_names()), "")
    cfg = preset(_AGENTS[agent] + _peek(arguments, "--preset", "cpu"), robot)
    kind = TrainSACOptions if agent == "sac" else TrainPPOOptions
    default = kind(task=tyro.MISSING, cfg=cfg)  # type: ignore[arg-type]
    return tyro.cli(kind, prog="rsl-rl-sac train", args=list(arguments), default=default)


def _peek(arguments: Sequence[str], flag: str, default: str) -> str:
    """Return the value of a flag that decides on the defaults of others."""
    for argument, value in zip(arguments, [*arguments[1:], default], strict=True):
        if argument == flag:
            return value
        if argument.startswith(f"{flag}="):
            return argument.split("=", 1)[1]
    return default


def _new_folder(options: TrainOptions) -> Path:
    now = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    return options.logs / options.task / (f"{now}_{options.name}" if options.name else now)
