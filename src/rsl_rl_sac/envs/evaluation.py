# SPDX-License-Identifier: BSD-3-Clause

"""The evaluation rule for environments of any kind: a deterministic policy, the first episode of each environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import ClassVar

import numpy as np
import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

EVALUATION_SEED = 1_000_000
"""Seed of the evaluation's environments, apart from those of training."""

Policy = Callable[[TensorDict], torch.Tensor]


@dataclass
class EpisodeScore:
    """How well a policy does; numbers are means over episodes."""

    episode_return: float
    """Sum of rewards."""
    episode_length: float
    """Steps until the end, by failure or by time."""
    num_episodes: int
    """Episodes."""

    headline_column: ClassVar[str] = "episode_return"
    """Field by which policies are ranked."""

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """Return the names of the numbers that go into a learning curve."""
        return tuple(f.name for f in fields(cls) if f.name != "num_episodes")

    @property
    def headline(self) -> tuple[str, float]:
        """The one number that stands for all, with its name."""
        return "return", self.episode_return

    def facts(self) -> list[tuple[str, str]]:
        """Return names and values for a table."""
        return [("return", f"{self.episode_return:.2f}"), ("episode length", f"{self.episode_length:.0f}")]

    def line(self) -> str:
        """Return a line for people."""
        return f"return {self.episode_return:.2f}, episode length {self.episode_length:.0f}"


@dataclass
class EpisodeOutcomes:
    """Outcome of each episode, in the order of the environments."""

    returns: np.ndarray
    """Sum of rewards."""
    lengths: np.ndarray
    """Steps until the end, by failure or by time."""
    survived: np.ndarray
    """Whether nothing but time ended the episode."""

    @property
    def survival(self) -> float:
        """Share of the episodes that nothing but time ended."""
        return float(self.survived.mean())

    def score(self) -> EpisodeScore:
        """Return the means over the episodes."""
        return EpisodeScore(float(self.returns.mean()), float(self.lengths.mean()), len(self.returns))

    def to_dict(self) -> dict:
        """Return plain values, for JSON."""
        return {
            "total": {**asdict(self.score()), "survival": self.survival},
            "episodes": {name: values.tolist() for name, values in vars(self).items()},
        }


def evaluate_episodes(policy: Policy, env: VecEnv, obs: TensorDict) -> EpisodeScore:
    """Score a policy on the first episode of each environment: the mean over :func:`run_episodes`."""
    return run_episodes(policy, env, obs).score()


def run_episodes(policy: Policy, env: VecEnv, obs: TensorDict) -> EpisodeOutcomes:
    """Run the first episode of each environment.

    Args:
        policy: Deterministic policy.
        env: Environments that were just reset.
        obs: Observations of that reset.
    """
    running, survived = (torch.ones(env.num_envs, dtype=torch.bool) for _ in range(2))
    returns, lengths = torch.zeros(env.num_envs, dtype=torch.double), torch.zeros(env.num_envs)
    with torch.inference_mode():
        for _ in range(int(torch.as_tensor(env.max_episode_length).max())):
            obs, rewards, dones, extras = env.step(policy(obs).to(env.device))
            returns += torch.where(running, rewards.cpu(), 0.0)  # whatever comes after the end, it does not count
            lengths += running
            ended = dones.cpu() > 0
            # An environment without time limits says nothing of them: every end is a failure there.
            by_time = extras["time_outs"].cpu() > 0 if "time_outs" in extras else torch.zeros_like(ended)
            survived &= ~(running & ended & ~by_time)
            running &= ~ended
            if not bool(running.any()):
                break
    return EpisodeOutcomes(returns.numpy(), lengths.numpy(), survived.numpy())
