# SPDX-License-Identifier: BSD-3-Clause

"""A twin with SAC for every velocity task of mjlab: ``train`` and ``play`` know ``Mjlab-Velocity-...-SAC``.

mjlab imports this module itself, through the entry point ``mjlab.tasks`` of this package.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import mjlab.tasks  # noqa: F401  (registers mjlab's own tasks)
from mjlab.rl import RslRlBaseRunnerCfg
from mjlab.tasks.registry import list_tasks, load_env_cfg, load_rl_cfg, register_mjlab_task

from rsl_rl_sac.config import ActorCfg, CriticCfg, RunnerCfg, SACCfg
from rsl_rl_sac.presets import preset
from rsl_rl_sac.runners.mjlab_runner import MjlabRunner

SUFFIX = "-SAC"
"""What the name of a twin ends with."""


@dataclass
class MjlabRunnerCfg(RslRlBaseRunnerCfg):
    """A training run with SAC, with the fields that mjlab's scripts ask for."""

    logger: Literal["wandb", "tensorboard"] = "tensorboard"
    """The logger to use; unlike mjlab's default, this one needs no account."""

    load_checkpoint: str = r"model_\d+\.pt"
    """Checkpoint to resume from, as a regular expression; mjlab's own matches files of the replay, too."""

    check_for_nan: bool = True
    """Whether to check what the environment returns."""

    keep_checkpoints: int = 0
    """Number of newest checkpoints to keep; 0 keeps all."""

    actor: ActorCfg = field(default_factory=ActorCfg)
    """Policy network."""

    critic: CriticCfg = field(default_factory=CriticCfg)
    """Q-networks."""

    algorithm: SACCfg = field(default_factory=SACCfg)
    """The algorithm."""


def make_runner_cfg(task: str) -> MjlabRunnerCfg:
    """Return the configuration of a task's twin: the preset ``mjlab``, and the experiment's name of the task."""
    cfg = preset("mjlab", task)
    assert isinstance(cfg, RunnerCfg)
    return MjlabRunnerCfg(
        num_steps_per_env=cfg.num_steps_per_env,
        max_iterations=cfg.max_iterations,
        save_interval=cfg.save_interval,
        obs_groups={name: tuple(groups) for name, groups in cfg.obs_groups.items()},
        experiment_name=f"{load_rl_cfg(task).experiment_name}_sac",
        check_for_nan=cfg.check_for_nan,
        keep_checkpoints=cfg.keep_checkpoints,
        actor=cfg.actor,
        critic=cfg.critic,
        algorithm=cfg.algorithm,
    )


def register_twin(task: str) -> None:
    """Register ``<task>-SAC``: the same environments, trained with SAC.

    Args:
        task: A task that mjlab knows, whose policy sets joint positions and observes the group ``actor``.
    """
    register_mjlab_task(
        task_id=task + SUFFIX,
        env_cfg=load_env_cfg(task),
        play_env_cfg=load_env_cfg(task, play=True),
        rl_cfg=make_runner_cfg(task),
        runner_cls=MjlabRunner,
    )


for _task in list_tasks():
    if "-Velocity-" in _task and not _task.endswith(SUFFIX):
        register_twin(_task)
