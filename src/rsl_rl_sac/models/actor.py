# SPDX-License-Identifier: BSD-3-Clause

"""The policy network."""

from __future__ import annotations

import torch
import torch.nn as nn
from rsl_rl.models import MLPModel
from rsl_rl.modules import HiddenState
from tensordict import TensorDict

from rsl_rl_sac.models.observations import normalized_observations
from rsl_rl_sac.modules import SquashedGaussian, can_fuse, fused_mlp_in_parts
from rsl_rl_sac.utils.errors import ConfigError


class Actor(MLPModel):
    """rsl_rl's MLP model with a squashed Gaussian output and optional layer normalization.

    Observation groups, normalization, deterministic inference and export are rsl_rl's own.
    """

    distribution: SquashedGaussian
    """The action distribution."""

    def __init__(
        self,
        obs: TensorDict,
        obs_groups: dict[str, list[str]],
        obs_set: str,
        output_dim: int,
        hidden_dims: tuple[int, ...] | list[int] = (1024, 512, 256),
        activation: str = "swish",
        obs_normalization: bool = True,
        layer_norm: bool = False,
        distribution_cfg: dict | None = None,
    ) -> None:
        """Initialize the actor.

        Args:
            obs: Observations of the environment.
            obs_groups: Observation groups of each observation set.
            obs_set: Observation set of this model.
            output_dim: Number of actions.
            hidden_dims: Sizes of the hidden layers.
            activation: Activation function, by rsl_rl's name (``"swish"`` is SiLU).
            obs_normalization: Whether to normalize observations by running statistics.
            layer_norm: Whether to normalize every hidden layer before its activation.
            distribution_cfg: Class name and arguments of the distribution.
        """
        distribution_cfg = dict(distribution_cfg or {"class_name": SquashedGaussian})
        super().__init__(
            obs, obs_groups, obs_set, output_dim, hidden_dims, activation, obs_normalization, distribution_cfg
        )
        if not isinstance(self.distribution, SquashedGaussian):
            raise ConfigError(
                f"SAC needs a squashed distribution, got '{type(self.distribution).__name__}'. Set"
                " actor.distribution_cfg.class_name to 'rsl_rl_sac.modules:SquashedGaussian'."
            )
        if layer_norm:
            self.mlp = _with_layer_norm(self.mlp)

    def sample(self, latent: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Sample actions and their log-probabilities from the output of :meth:`get_latent`."""
        self.distribution.update(self._evaluate(latent))
        return self.distribution.sample_with_log_prob()

    def sample_in_parts(
        self, latent: torch.Tensor, num_constant: int
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
        """Sample as :meth:`sample`, in one pass for two sets of states of which only the second needs a gradient.

        Args:
            latent: Output of :meth:`get_latent`.
            num_constant: Rows at the beginning through which no gradient flows.

        Returns:
            Actions and log-probabilities of those rows, and of the others.
        """
        constant, live = self._evaluate_in_parts(latent, num_constant)
        with torch.no_grad():
            self.distribution.update(constant)
            constants = self.distribution.sample_with_log_prob()
        self.distribution.update(live)
        return constants, self.distribution.sample_with_log_prob()

    @torch.no_grad()
    def distribution_parameters(self, latent: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return mean and standard deviation before the squashing, without gradients."""
        self.distribution.update(self._evaluate(latent))
        return self.distribution.params

    def act_with_noise(self, obs: TensorDict, noise: torch.Tensor) -> torch.Tensor:
        """Return the actions that standard normal noise stands for."""
        self.distribution.update(self._evaluate(self.get_latent(obs)))
        return self.distribution.action_of_noise(noise)

    def get_latent(
        self, obs: TensorDict, masks: torch.Tensor | None = None, hidden_state: HiddenState = None
    ) -> torch.Tensor:
        """Return the normalized observations; a single group is not copied."""
        return normalized_observations(self, obs)

    def _evaluate(self, latent: torch.Tensor) -> torch.Tensor:
        """Evaluate the network."""
        return self._evaluate_in_parts(latent, 0)[1]

    def _evaluate_in_parts(self, latent: torch.Tensor, num_constant: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Evaluate the network, as one operation if it consists of linear layers and a known activation only."""
        *hidden, head, _ = self.mlp
        if not all(isinstance(layer, nn.Linear) or can_fuse(layer) for layer in hidden):
            with torch.no_grad():
                constant = self.mlp(latent[:num_constant])
            return constant, self.mlp(latent[num_constant:])
        linears = [layer for layer in (*hidden, head) if isinstance(layer, nn.Linear)]
        weights: list[torch.Tensor] = [layer.weight for layer in linears]
        biases: list[torch.Tensor] = [layer.bias for layer in linears]
        parts = fused_mlp_in_parts([latent], weights, biases, hidden[1], num_constant)
        constant, live = (part.view(-1, *self.distribution.input_dim) for part in parts)
        return constant, live


def _with_layer_norm(mlp: nn.Sequential) -> nn.Sequential:
    """Insert a layer normalization after every linear layer but the last."""
    layers = list(mlp)
    last_linear = max(index for index, layer in enumerate(layers) if isinstance(layer, nn.Linear))
    normalized: list[nn.Module] = []
    for index, layer in enumerate(layers):
        normalized.append(layer)
        if isinstance(layer, nn.Linear) and index < last_linear:
            normalized.append(nn.LayerNorm(layer.out_features))
    return nn.Sequential(*normalized)
