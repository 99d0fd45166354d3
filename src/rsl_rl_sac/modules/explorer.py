# SPDX-License-Identifier: BSD-3-Clause

"""How the policy explores."""

from __future__ import annotations

import math

import torch
from tensordict import TensorDict

from rsl_rl_sac.models import Actor


class Explorer:
    """Acts with the policy's mean and standard deviation, and with noise of its own.

    Environments may differ: some act as the policy samples, others with larger or with lasting noise. SAC learns from
    any behaviour, so the policy itself can stay quiet while some of its copies try what it would hardly ever do.
    """

    def __init__(
        self,
        num_envs: int,
        num_actions: int,
        noise_scale: tuple[float, float] = (1.0, 1.0),
        noise_correlation: tuple[float, float] = (0.0, 0.0),
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        """Give every environment its noise.

        Args:
            num_envs: Number of environments.
            num_actions: Number of actions.
            noise_scale: Factors on the standard deviation, from the first to the last, evenly spaced in the logarithm.
            noise_correlation: Correlation of the noise in successive steps, spread evenly over the environments of any
                scale.
            seed: Seed.
            device: Device of the policy.
        """
        self.generator = torch.Generator(device).manual_seed(seed)
        share = torch.linspace(0.0, 1.0, num_envs, device=device).unsqueeze(1)
        low, high = (math.log(factor) for factor in noise_scale)
        self.scale = torch.exp(low + (high - low) * share)
        # The golden ratio spreads a second quantity evenly whatever the range of the first.
        spread = torch.remainder(0.6180339887 * torch.arange(num_envs, device=device), 1.0).unsqueeze(1)
        self.correlation = noise_correlation[0] + (noise_correlation[1] - noise_correlation[0]) * spread
        self._innovation = (1.0 - self.correlation.square()).sqrt()
        self._noise = torch.zeros(num_envs, num_actions, device=device).normal_(generator=self.generator)

    def act(self, actor: Actor, obs: TensorDict) -> torch.Tensor:
        """Return the next actions of all environments."""
        fresh = torch.empty_like(self._noise).normal_(generator=self.generator)
        # A variance of 1 at any correlation.
        self._noise = self.correlation * self._noise + self._innovation * fresh
        return actor.act_with_noise(obs, self.scale * self._noise)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return what the future noise depends on."""
        return {"noise": self._noise, "generator": self.generator.get_state()}

    def load_state_dict(self, state_dict: dict[str, torch.Tensor]) -> None:
        """Restore what :meth:`state_dict` returned, if it is of as many environments."""
        if state_dict["noise"].shape == self._noise.shape:
            self._noise = state_dict["noise"].clone().to(self._noise.device)
            if state_dict["generator"].shape == self.generator.get_state().shape:  # a GPU's differs from a CPU's
                self.generator.set_state(state_dict["generator"].cpu())
