# SPDX-License-Identifier: BSD-3-Clause

"""Small environments of mjlab for the tests."""

from __future__ import annotations

from collections.abc import Callable

from mjlab.envs import ManagerBasedRlEnv, ManagerBasedRlEnvCfg
from mjlab.rl import RslRlVecEnvWrapper
from mjlab.tasks.registry import load_env_cfg

from rsl_rl_sac.envs.mjlab import MjlabVecEnv

GO1 = "Mjlab-Velocity-Flat-Unitree-Go1"
G1 = "Mjlab-Velocity-Flat-Unitree-G1"

EPISODE_STEPS = 20
"""Steps of an episode of the tests; mjlab's have 1000."""


def make_env(
    task: str,
    num_envs: int = 4,
    change: Callable[[ManagerBasedRlEnvCfg], None] | None = None,
    clip_actions: float | None = None,
) -> MjlabVecEnv:
    """Build environments with short episodes.

    Args:
        task: Task of mjlab.
        num_envs: Number of environments.
        change: Changes the configuration.
        clip_actions: Size at which mjlab's wrapper cuts actions off.
    """
    cfg = load_env_cfg(task)
    cfg.scene.num_envs, cfg.seed, cfg.episode_length_s = num_envs, 0, EPISODE_STEPS * 0.02
    if change is not None:
        change(cfg)
    return MjlabVecEnv(RslRlVecEnvWrapper(ManagerBasedRlEnv(cfg, "cpu"), clip_actions))


def without_noise(cfg: ManagerBasedRlEnvCfg) -> None:
    """Let observations say the truth."""
    for group in cfg.observations.values():
        group.enable_corruption = False
