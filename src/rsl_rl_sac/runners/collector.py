# SPDX-License-Identifier: BSD-3-Clause

"""Collection of experience beside the learner."""

from __future__ import annotations

import copy
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rsl_rl_sac.models import Actor
from rsl_rl_sac.modules.explorer import Explorer


@dataclass
class VectorStep:
    """One step of all environments."""

    actions: torch.Tensor
    """Actions taken."""
    obs: TensorDict
    """Observations after the step, and after the reset of those that ended."""
    rewards: torch.Tensor
    """Rewards."""
    dones: torch.Tensor
    """Whether the episode ended."""
    extras: dict
    """What else the environment returned."""


class Collector:
    """Steps the environment in a thread, with a copy of the policy and the generator of the exploration.

    The learner may change the policy and draw random numbers meanwhile, and the outcome is still the same in every
    run: nothing is shared. A thread is enough, since physics and matrix products hold no lock of Python's.
    """

    def __init__(self, env: VecEnv, actor: Actor, explorer: Explorer) -> None:
        """Copy the policy.

        Args:
            env: Environment.
            actor: Policy of the learner.
            explorer: Exploration, which is the collector's alone from now on.
        """
        self.env = env
        self.explorer = explorer
        self.actor = copy.deepcopy(actor).requires_grad_(False)
        self.device = next(actor.parameters()).device
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="collector")

    def follow(self, actor: Actor) -> None:
        """Take over the weights and the observation statistics of the policy. Not while :meth:`start` is at work."""
        self.actor.load_state_dict(actor.state_dict())

    def start(self, obs: TensorDict, num_steps: int) -> Future[tuple[list[VectorStep], float]]:
        """Begin to collect; the future holds the steps and the seconds they took.

        Args:
            obs: Observations to begin with.
            num_steps: Number of vector steps.
        """
        return self._pool.submit(self._collect, obs, num_steps)

    def _collect(self, obs: TensorDict, num_steps: int) -> tuple[list[VectorStep], float]:
        start = time.perf_counter()
        steps = []
        with torch.inference_mode():
            for _ in range(num_steps):
                actions = self.explorer.act(self.actor, obs)
                obs, rewards, dones, extras = self.env.step(actions.to(self.env.device))
                # Copies, since an environment may write its next step into the same memory.
                obs, rewards, dones = obs.to(self.device).clone(), rewards.clone(), dones.clone()
                steps.append(VectorStep(actions, obs, rewards, dones, _cloned(extras)))
        return steps, time.perf_counter() - start


def _cloned(extras: dict) -> dict:
    """Copy the tensors of a dictionary, one level deep."""
    return {
        name: value.clone() if isinstance(value, torch.Tensor | TensorDict) else value for name, value in extras.items()
    }
