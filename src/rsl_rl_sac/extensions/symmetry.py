# SPDX-License-Identifier: BSD-3-Clause

"""Symmetry: mirrored transitions in the mini-batches, and a loss for a policy that is not symmetric."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rsl_rl_sac.config import SymmetryCfg
from rsl_rl_sac.models import Actor
from rsl_rl_sac.storage import Batch
from rsl_rl_sac.utils.config_base import resolve
from rsl_rl_sac.utils.errors import ConfigError

AugmentationFunction = Callable[..., tuple[TensorDict | None, torch.Tensor | None]]
"""rsl_rl's signature: ``(env, obs, actions)`` to the batch and then its images, one after the other."""

_BOUND_TOLERANCE = 1e-3
"""Share of an action's range by which its bounds may differ from the image of its counterpart's."""


class Symmetry:
    """Makes use of transitions that the symmetric robot could have met just as well, in either or both of two ways.

    Augmentation replaces transitions by their mirror images. rsl_rl's PPO appends the images to a batch. A replay has
    enough transitions, so each of them is taken once, as one of its images in turn: the batch stays as large as it was,
    and no two of its samples say the same.

    The mirror loss, as in rsl_rl, is the mean squared difference between the policy's mean actions in mirrored states
    and the mirror images of its mean actions. If neither is asked for, it is reported only.
    """

    def __init__(
        self,
        env: VecEnv,
        data_augmentation_func: AugmentationFunction | str,
        use_data_augmentation: bool = True,
        use_mirror_loss: bool = False,
        mirror_loss_coeff: float = 1.0,
    ) -> None:
        """Resolve the function.

        Args:
            env: Environment, which the function may ask for the layout of observations and actions.
            data_augmentation_func: Function with rsl_rl's signature, or its name ``module:function``.
            use_data_augmentation: Whether to replace transitions by their images.
            use_mirror_loss: Whether to add the mirror loss to the actor's.
            mirror_loss_coeff: Factor on the mirror loss.
        """
        self.env = env
        self.function: AugmentationFunction = resolve(data_augmentation_func, "symmetry_cfg.data_augmentation_func")
        self.use_data_augmentation = use_data_augmentation
        self.use_mirror_loss = use_mirror_loss
        self.mirror_loss_coeff = mirror_loss_coeff
        self._is_checked = False

    @property
    def has_mirror_loss(self) -> bool:
        """Whether the mirror loss is asked for, to learn from or to report."""
        return self.use_mirror_loss or not self.use_data_augmentation

    def augment(self, batch: Batch) -> Batch:
        """Return the batch with each transition replaced by one of its images."""
        if not self.use_data_augmentation:
            return batch
        observations, actions = self.function(env=self.env, obs=batch.observations, actions=batch.actions)
        next_observations, _ = self.function(env=self.env, obs=batch.next_observations, actions=None)
        assert observations is not None and actions is not None and next_observations is not None
        if not self._is_checked:
            self._check_groups(batch.observations, observations)
            self._is_checked = True
        rows = self._rows(len(batch.actions), len(actions))
        return replace(
            batch, observations=observations[rows], actions=actions[rows], next_observations=next_observations[rows]
        )

    def mirror_loss(self, actor: Actor, observations: TensorDict) -> torch.Tensor:
        """Return the mirror loss. As in rsl_rl, the gradient moves the actions in the images only."""
        batch_size = len(observations)
        with torch.no_grad():
            images, _ = self.function(env=self.env, obs=observations, actions=None)
            _, expected = self.function(env=self.env, obs=None, actions=actor(observations))
        assert images is not None and expected is not None
        with torch.set_grad_enabled(self.use_mirror_loss):
            return torch.nn.functional.mse_loss(actor(images[batch_size:]), expected[batch_size:])

    def check_action_bounds(self, low: torch.Tensor, high: torch.Tensor) -> None:
        """Raise an error if the images of the action bounds are not the bounds.

        The critics would learn about mirrored actions that the policy cannot take, and no policy could be symmetric.
        """
        _, actions = self.function(env=self.env, obs=None, actions=torch.stack([low, high]))
        assert actions is not None
        for image in actions.view(-1, 2, len(low))[1:]:
            image_low, image_high = image.min(dim=0).values, image.max(dim=0).values
            gaps = torch.maximum((image_low - low).abs(), (image_high - high).abs())
            wrong = (gaps > _BOUND_TOLERANCE * (high - low)).nonzero().flatten().tolist()
            if wrong:
                i = wrong[0]
                raise ConfigError(
                    f"The action bounds are not symmetric: those of action {i} are [{low[i]:.4g}, {high[i]:.4g}], but"
                    f" the mirror image of its counterpart's is [{image_low[i]:.4g}, {image_high[i]:.4g}]. Set"
                    " algorithm.action_bounds to bounds that are their own mirror image."
                )

    @staticmethod
    def _check_groups(observations: TensorDict, images: TensorDict) -> None:
        """Raise an error if the function lost an observation group, and warn if it left one as it was."""
        batch_size = len(observations)
        for group in observations.keys():  # noqa: SIM118, iterates over rows otherwise
            if group not in images.keys():  # noqa: SIM118
                raise ConfigError(f"The symmetry function returned no observation group '{group}', which it was given.")
            values = observations[group]
            copies = values.repeat(len(images) // batch_size, *(1,) * (values.dim() - 1))
            if bool(values.any()) and torch.equal(images[group], copies):
                warnings.warn(
                    f"The symmetry function leaves the observation group '{group}' as it is; is that right?",
                    stacklevel=2,
                )

    @staticmethod
    def _rows(batch_size: int, num_rows: int) -> torch.Tensor:
        """Return the row of the image that each sample is replaced by: the first, second, ... image in turn."""
        if num_rows % batch_size:
            raise ConfigError(
                f"The symmetry function made {num_rows} rows of a batch of {batch_size}; it must return the batch and"
                " its images, each as long as the batch."
            )
        samples = torch.arange(batch_size)
        return samples % (num_rows // batch_size) * batch_size + samples


def build_symmetry(
    cfg: SymmetryCfg, env: VecEnv, low: torch.Tensor, high: torch.Tensor, device: torch.device | str
) -> Symmetry:
    """Build the symmetry of an environment whose actions have the given bounds.

    Raises:
        ConfigError: If the bounds, or the environment, are not symmetric.
    """
    symmetry = Symmetry(env, **cfg.to_dict())
    try:
        symmetry.check_action_bounds(low.to(device), high.to(device))
    except ConfigError as error:
        raise ConfigError(
            f"{error} To train without mirrored transitions: algorithm.symmetry-cfg:none on the command line,"
            " algorithm.symmetry_cfg = None in Python."
        ) from error
    return symmetry
