# SPDX-License-Identifier: BSD-3-Clause

"""The evaluation rule behind every score of this project."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from rsl_rl_sac.envs.evaluation import EVALUATION_SEED, EpisodeScore, Policy
from rsl_rl_sac.locomotion.commands import CommandCfg, VelocityCommand
from rsl_rl_sac.locomotion.registry import make_env, task_cfg
from rsl_rl_sac.locomotion.rewards import TRACKING_TERMS
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv
from rsl_rl_sac.utils.errors import ConfigError


@dataclass
class Score(EpisodeScore):
    """How well a policy does; numbers are means over episodes, falls included."""

    tracking: float
    """Mean of the two tracking terms, each from 0 to 1, over the full length of the episode; 0 after a fall."""
    tracking_lin: float
    """Tracking of the horizontal velocity."""
    tracking_ang: float
    """Tracking of the turning speed."""
    survival: float
    """Share of the episodes that lasted their full length."""

    headline_column: ClassVar[str] = "tracking"
    """Field by which policies are ranked."""

    @property
    def headline(self) -> tuple[str, float]:
        """The one number that stands for all, with its name."""
        return "tracking", self.tracking

    def facts(self) -> list[tuple[str, str]]:
        """Return names and values for a table."""
        return [
            ("tracking (0 to 1)", f"{self.tracking:.3f}"),
            ("survival", f"{self.survival:.2f}"),
            *super().facts(),
        ]

    def line(self) -> str:
        """Return a line for people."""
        return (
            f"tracking {self.tracking:.3f} (linear {self.tracking_lin:.2f}, turning {self.tracking_ang:.2f}),"
            f" return {self.episode_return:.2f}, survival {self.survival:.2f}"
        )


class ScheduledCommand(VelocityCommand):
    """Commands from a table, so that those of one robot do not depend on when another one falls."""

    def __init__(self, cfg: CommandCfg, num_envs: int, step_dt: float, num_commands: int) -> None:
        """Draw the table.

        Args:
            cfg: Ranges.
            num_envs: Number of environments.
            step_dt: Seconds per control step.
            num_commands: Commands of each environment, after which they repeat.
        """
        super().__init__(cfg, num_envs, step_dt, np.random.default_rng(EVALUATION_SEED))
        rows = np.arange(num_envs)
        self._count = np.zeros(num_envs, dtype=np.int64)
        self._table = []
        for _ in range(num_commands):
            super().resample(rows)
            self._table.append((self.velocity.copy(), self.heading_target.copy(), self.standing.copy()))

    def restart(self) -> None:
        """Begin with the first commands again."""
        self._count[:] = 0

    def resample(self, rows: np.ndarray) -> None:
        """Take the next commands of the table."""
        for number, (velocity, heading_target, standing) in enumerate(self._table):
            due = rows[self._count[rows] % len(self._table) == number]
            self.velocity[due], self.heading_target[due], self.standing[due] = (
                velocity[due],
                heading_target[due],
                standing[due],
            )
        self._count[rows] += 1
        self.steps_left[rows] = self.resampling_steps

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the arrays that the future commands depend on."""
        return {**super().state_dict(), "count": self._count}


def make_evaluation_env(task: str, num_envs: int, num_threads: int | None = None) -> VelocityEnv:
    """Make the environments of an evaluation: no noise, no pushes, any terrain level, a seed of their own.

    Raises:
        ConfigError: If the task has nothing to score.
    """
    env = make_env(
        task,
        num_envs,
        seed=EVALUATION_SEED,
        num_threads=num_threads,
        observation_noise=False,
        curriculum=False,
        events=replace(task_cfg(task).events, push_velocity=0.0),
    )
    missing = [name for name in TRACKING_TERMS if name not in env.rewards.names]
    if missing:
        raise ConfigError(f"{task} cannot be scored: its rewards lack {' and '.join(missing)}, or give them no weight.")
    num_commands = math.ceil(env.task.episode_length / env.task.commands.resampling_time) + 1
    env.commands = ScheduledCommand(env.task.commands, num_envs, env.step_dt, num_commands)
    return env


@dataclass
class Episodes:
    """Outcome of each episode, in the order of the environments."""

    returns: np.ndarray
    """Sum of rewards."""
    tracking: np.ndarray
    """Tracking of the horizontal velocity and of the turning speed ``(N, 2)``, 0 to 1, over the full length."""
    lengths: np.ndarray
    """Steps until the fall, or the full length."""
    survived: np.ndarray
    """Whether the episode lasted its full length."""
    velocity: np.ndarray
    """Mean velocity forwards, to the left and about the vertical axis ``(N, 3)``, as long as it lasted."""
    levels: np.ndarray
    """Level of the tile on which the robot started; 0 on flat ground."""

    def score(self, rows: np.ndarray | slice = slice(None)) -> Score:
        """Return the means over some episodes."""
        linear, angular = self.tracking[rows].mean(axis=0)
        return Score(
            episode_return=float(self.returns[rows].mean()),
            tracking=float((linear + angular) / 2),
            tracking_lin=float(linear),
            tracking_ang=float(angular),
            survival=float(self.survived[rows].mean()),
            episode_length=float(self.lengths[rows].mean()),
            num_episodes=len(self.returns[rows]),
        )


def evaluate(policy: Policy, env: VelocityEnv) -> Score:
    """Score a policy on the first episode of each environment: the mean over :func:`run_episodes`."""
    return run_episodes(policy, env).score()


def run_episodes(policy: Policy, env: VelocityEnv) -> Episodes:
    """Run the first episode of each environment.

    Args:
        policy: Deterministic policy.
        env: Environments of :func:`make_evaluation_env`. They are seeded and reset, so that every policy meets the same
            episodes.
    """
    if not isinstance(env.commands, ScheduledCommand):
        raise ConfigError("Evaluate on environments of make_evaluation_env().")
    env.seed(EVALUATION_SEED)
    env.commands.restart()
    levels = np.zeros(env.num_envs, dtype=np.int64)
    if env.levels is not None:
        levels = env.rng.integers(0, env.levels.num_levels, size=env.num_envs)
        env.levels.levels = levels.copy()  # it moves on when an episode ends
    obs, _ = env.reset()
    running = np.ones(env.num_envs, dtype=bool)
    survived = np.ones(env.num_envs, dtype=bool)
    returns, lengths, tracking = np.zeros(env.num_envs), np.zeros(env.num_envs), np.zeros((env.num_envs, 2))
    way = np.zeros((env.num_envs, 3))
    with torch.inference_mode():
        for _ in range(env.max_episode_length):
            obs, rewards, dones, extras = env.step(policy(obs))
            returns += running * rewards.cpu().numpy()
            tracking += running[:, None] * env.rewards.tracking
            lengths += running
            ended = dones.cpu().numpy().astype(bool)
            fell = ended & ~extras["time_outs"].cpu().numpy()
            # An episode that ends before its time without a fall is a broken simulation, which proves nothing good.
            survived &= ~(running & (fell | (ended & (lengths < env.max_episode_length))))
            running &= ~ended
            # Where an episode ended, the state is that of the next one already.
            way += running[:, None] * np.column_stack([env.state.lin_vel[:, :2], env.state.ang_vel[:, 2]])
            if not running.any():
                break
    velocity = way / np.maximum(lengths - 1, 1)[:, None]
    return Episodes(returns, tracking / env.max_episode_length, lengths, survived, velocity, levels)
