# SPDX-License-Identifier: BSD-3-Clause

"""The evaluation rule for environments of any kind: a deterministic policy, the first episode of each environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar

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


def evaluate_episodes(policy: Policy, env: VecEnv, obs: TensorDict) -> EpisodeScore:
    """Score a policy on the first episode of each environment.

    Args:
        policy: Deterministic policy.
        env: Environments that were just reset.
        obs: Observations of that reset.
    """
    running = torch.ones(env.num_envs, dtype=torch.bool)
    returns, lengths = torch.zeros(env.num_envs, dtype=torch.double), torch.zeros(env.num_envs)
    with torch.inference_mode():
        for _ in range(int(torch.as_tensor(env.max_episode_length).max())):
            obs, rewards, dones, _ = env.step(policy(obs).to(env.device))
            returns += running * rewards.cpu()
            lengths += running
            running &= ~(dones.cpu() > 0)
            if not bool(running.any()):
                break
    return EpisodeScore(float(returns.mean()), float(lengths.mean()), env.num_envs)
