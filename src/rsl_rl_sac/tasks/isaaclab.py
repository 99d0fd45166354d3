# SPDX-License-Identifier: BSD-3-Clause

"""SAC for every velocity task of Isaac Lab, in its own unmodified script.

``train.py --task TASK --agent rsl_rl_sac_cfg_entry_point --external_callback rsl_rl_sac.tasks.isaaclab.register``
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import gymnasium
from isaaclab.utils import configclass
from isaaclab_rl.rsl_rl import RslRlBaseRunnerCfg

from rsl_rl_sac.config import ActorCfg, CriticCfg, RunnerCfg, SACCfg
from rsl_rl_sac.presets import preset

ENTRY_POINT = "rsl_rl_sac_cfg_entry_point"
"""Name of the configuration, for the flag ``--agent``."""

PLAYER_REPLAY_SIZE = 10_000
"""Transitions of the replay in tasks that are made for playing, which need none."""


@dataclass
class IsaacLabCriticCfg(CriticCfg):
    """Q-networks, with what Isaac Lab looks for as it translates configurations of older versions of rsl_rl."""

    distribution_cfg: None = None
    """Output distribution: none."""

    stochastic: bool = False
    """Whether the output is stochastic, in the words of rsl_rl 4."""


@configclass
class IsaacLabRunnerCfg(RslRlBaseRunnerCfg):
    """A training run with SAC, with the fields that Isaac Lab's scripts ask for."""

    class_name: str = "OnPolicyRunner"
    """Runner class; Isaac Lab's script knows rsl_rl's own ones only."""

    check_for_nan: bool = True
    """Whether to check what the environment returns."""

    actor: ActorCfg = field(default_factory=ActorCfg)
    """Policy network."""

    critic: IsaacLabCriticCfg = field(default_factory=IsaacLabCriticCfg)
    """Q-networks."""

    algorithm: SACCfg = field(default_factory=SACCfg)
    """The algorithm."""


def make_runner_cfg(task: str) -> IsaacLabRunnerCfg:
    """Return the configuration of a task: the preset ``paper``, and an experiment of the task's name."""
    cfg = preset("paper", task)
    assert isinstance(cfg, RunnerCfg)
    cfg.algorithm.class_name = "rsl_rl_sac.algorithms.isaaclab_sac:IsaacLabSAC"
    if "-Play" in task:
        cfg.algorithm.replay_size = PLAYER_REPLAY_SIZE
    experiment = re.sub(r"^isaac-|-play|-v\d+$", "", task.lower()).replace("-", "_")
    return IsaacLabRunnerCfg(
        num_steps_per_env=cfg.num_steps_per_env,
        max_iterations=cfg.max_iterations,
        save_interval=cfg.save_interval,
        obs_groups=cfg.obs_groups,
        experiment_name=f"{experiment}_sac",
        check_for_nan=cfg.check_for_nan,
        actor=cfg.actor,
        critic=IsaacLabCriticCfg(**vars(cfg.critic)),
        algorithm=cfg.algorithm,
    )


def add_sac(task: str) -> None:
    """Add the configuration :data:`ENTRY_POINT` to a task, beside those it has.

    Args:
        task: A task that is registered with Gymnasium, whose policy observes the group ``policy``.
    """
    gymnasium.spec(task).kwargs[ENTRY_POINT] = _entry_point(task)


def register() -> list[str]:
    """Add SAC to every velocity task: the callback for Isaac Lab's flag ``--external_callback``.

    Returns:
        The arguments of the command line that are left for Isaac Lab, which are all.
    """
    import isaaclab_tasks  # noqa: F401  (registers Isaac Lab's own tasks)

    for task, spec in gymnasium.registry.items():
        if "-Velocity-" in task and "env_cfg_entry_point" in spec.kwargs:
            add_sac(task)
    return sys.argv[1:]


def _entry_point(task: str) -> Callable[[], IsaacLabRunnerCfg]:
    def make() -> IsaacLabRunnerCfg:
        return make_runner_cfg(task)

    return make
