# SPDX-License-Identifier: BSD-3-Clause

"""Symmetry augmentation of the replay's mini-batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from rsl_rl.env import VecEnv
from rsl_rl.utils import resolve_callable
from tensordict import TensorDict

from rsl_rl_sac.storage import Batch
from rsl_rl_sac.utils.errors import ConfigError

AugmentationFunction = Callable[..., tuple[TensorDict | None, torch.Tensor | None]]
"""rsl_rl's signature: ``(env, obs, actions)`` to the batch and then its images, one after the other."""


class Symmetry:
    """Replaces transitions by their mirror images, which the symmetric robot could have met just as well.

    rsl_rl's PPO appends the images to a batch. A replay has enough transitions, so each of them is taken once, as one
    of its images in turn: the batch stays as large as it was, and no two of its samples say the same.
    """

    def __init__(self, env: VecEnv, function: AugmentationFunction | str) -> None:
        """Resolve the function.

        Args:
            env: Environment, which the function may ask for the layout of observations and actions.
            function: Function with rsl_rl's signature, or its name ``module:function``.
        """
        self.env = env
        self.function: AugmentationFunction = resolve_callable(function)  # type: ignore[assignment]

    def augment(self, batch: Batch) -> Batch:
        """Return the batch with each transition replaced by one of its images."""
        observations, actions = self.function(env=self.env, obs=batch.observations, actions=batch.actions)
        next_observations, _ = self.function(env=self.env, obs=batch.next_observations, actions=None)
        assert observations is not None and actions is not None and next_observations is not None
        rows = self._rows(len(batch.actions), len(actions))
        return replace(
            batch, observations=observations[rows], actions=actions[rows], next_observations=next_observations[rows]
        )

    def _rows(self, batch_size: int, num_rows: int) -> torch.Tensor:
        """Return the row of the image that each sample is replaced by: the first, second, ... image in turn."""
        if num_rows % batch_size:
            raise ConfigError(
                f"The symmetry function made {num_rows} rows of a batch of {batch_size}; it must return the batch and"
                " its images, each as long as the batch."
            )
        samples = torch.arange(batch_size)
        return samples % (num_rows // batch_size) * batch_size + samples
