# SPDX-License-Identifier: BSD-3-Clause

"""The evaluation rule behind every score of this project."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from tensordict import TensorDict

from rsl_rl_sac.locomotion.registry import make_env
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv

EVALUATION_SEED = 1_000_000
"""Seed of the evaluation's environments, apart from those of training."""

Policy = Callable[[TensorDict], torch.Tensor]


@dataclass
class Score:
    """How well a policy does; numbers are means over episodes, falls included."""

    episode_return: float
    """Sum of rewards."""
    tracking: float
    """Mean of the two tracking terms, each from 0 to 1, over the full length of the episode; 0 after a fall."""
    tracking_lin: float
    """Tracking of the horizontal velocity."""
    tracking_ang: float
    """Tracking of the turning speed."""
    survival: float
    """Share of the episodes that did not end by a fall."""
    episode_length: float
    """Steps until the fall, or the full length."""
    num_episodes: int
    """Episodes."""


def make_evaluation_env(task: str, num_envs: int, num_threads: int | None = None) -> VelocityEnv:
    """Make the environments of an evaluation: no observation noise, any terrain level, a seed of their own."""
    return make_env(
        task, num_envs, seed=EVALUATION_SEED, num_threads=num_threads, observation_noise=False, curriculum=False
    )


def evaluate(policy: Policy, env: VelocityEnv) -> Score:
    """Score a policy on the first episode of each environment.

    Args:
        policy: Deterministic policy.
        env: Environments of :func:`make_evaluation_env`. They are seeded and reset, so that every policy meets the same
            episodes.
    """
    env.seed(EVALUATION_SEED)
    env.commands.steps_left[:] = 0
    if env.levels is not None:
        env.levels.levels = env.rng.integers(0, env.levels.num_levels, size=env.num_envs)
    obs, _ = env.reset()
    terms = [env.rewards.names.index(name) for name in ("track_lin_vel_xy_exp", "track_ang_vel_z_exp")]
    weights = env.rewards.weights[terms]
    running = np.ones(env.num_envs, dtype=bool)
    survived = np.ones(env.num_envs, dtype=bool)
    returns, lengths, tracking = np.zeros(env.num_envs), np.zeros(env.num_envs), np.zeros((env.num_envs, 2))
    with torch.inference_mode():
        for _ in range(env.max_episode_length):
            obs, rewards, dones, extras = env.step(policy(obs))
            returns += running * rewards.cpu().numpy()
            tracking += running[:, None] * env.rewards.last[:, terms] / weights
            lengths += running
            ended = dones.cpu().numpy().astype(bool)
            survived &= ~(running & ended & ~extras["time_outs"].cpu().numpy())
            running &= ~ended
            if not running.any():
                break
    linear, angular = tracking.mean(axis=0) / env.max_episode_length
    return Score(
        episode_return=float(returns.mean()),
        tracking=float((linear + angular) / 2),
        tracking_lin=float(linear),
        tracking_ang=float(angular),
        survival=float(survived.mean()),
        episode_length=float(lengths.mean()),
        num_episodes=env.num_envs,
    )
