# SPDX-License-Identifier: BSD-3-Clause

"""Collection of experience beside the learner."""

from __future__ import annotations

import copy
import time
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from tensordict import TensorDict

from rsl_rl_sac.models import Actor
from rsl_rl_sac.modules.explorer import Explorer
from rsl_rl_sac.runners.numbers import Numbers, VectorStep


class Collector:
    """Steps the environment in a thread, with a copy of the policy and the generator of the exploration.

    The learner may change the policy and draw random numbers meanwhile, and the outcome is still the same in every
    run: nothing is shared. A thread is enough, since physics and matrix products hold no lock of Python's.
    """

    def __init__(self, numbers: Numbers, actor: Actor, explorer: Explorer) -> None:
        """Copy the policy.

        Args:
            numbers: Steps the environment.
            actor: Policy of the learner.
            explorer: Exploration, which is the collector's alone from now on.
        """
        self.numbers = numbers
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
                step = self.numbers.step(obs, self.explorer.act(self.actor, obs))
                # Copies, since an environment may write its next step into the same memory.
                step.obs, step.rewards, step.dones = step.obs.clone(), step.rewards.clone(), step.dones.clone()
                step.extras = _cloned(step.extras)
                steps.append(step)
                obs = step.obs
        return steps, time.perf_counter() - start


def _cloned(extras: dict) -> dict:
    """Copy the tensors of a dictionary, one level deep."""
    return {
        name: value.clone() if isinstance(value, torch.Tensor | TensorDict) else value for name, value in extras.items()
    }
