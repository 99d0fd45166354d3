# SPDX-License-Identifier: BSD-3-Clause

"""The policy network."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn as nn
from rsl_rl.models import MLPModel
from rsl_rl.modules import HiddenState
from tensordict import TensorDict

from rsl_rl_sac.models.observations import normalized_observations
from rsl_rl_sac.modules import RecordedSample, SquashedGaussian, Tape, can_fuse, fused_mlp, mlp_gradient, record_mlp
from rsl_rl_sac.utils.errors import ConfigError
from rsl_rl_sac.utils.flat_parameters import FlatParameters


class ActorSample(NamedTuple):
    """Actions of some states, with what the gradient of the policy needs."""

    actions: torch.Tensor
    """Actions."""

    log_prob: torch.Tensor
    """Their log-probabilities."""

    recorded: RecordedSample | None = None
    """What the distribution keeps; None if autograd does."""

    tape: Tape | None = None
    """What the network keeps; None if autograd does, or no gradient was asked for."""


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
        self, latent: torch.Tensor, num_constant: int, keep: bool
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], ActorSample]:
        """Sample as :meth:`sample`, in one pass for two sets of states of which only the second needs a gradient.

        Args:
            latent: Output of :meth:`get_latent`.
            num_constant: Rows at the beginning through which no gradient flows.
            keep: Whether to keep for the others what :meth:`compute_gradient` needs.

        Returns:
            Actions and log-probabilities of those rows, and the sample of the others.
        """
        layers = self._fused_layers()
        if layers is None:
            with torch.no_grad():
                constants = self.sample(latent[:num_constant])
            with torch.set_grad_enabled(keep):
                return constants, ActorSample(*self.sample(latent[num_constant:]))
        with torch.no_grad():
            output, tape = record_mlp([latent], *layers) if keep else (fused_mlp([latent], *layers), None)
            output = output.view(-1, *self.distribution.input_dim)
            constant = self.distribution.record_sample(output[:num_constant])
            live = self.distribution.record_sample(output[num_constant:])
        tape = tape.rows(num_constant) if tape is not None else None
        return (constant.actions, constant.log_prob), ActorSample(live.actions, live.log_prob, live, tape)

    def compute_gradient(
        self, sample: ActorSample, action_grad: torch.Tensor, log_prob_grad: torch.Tensor, parameters: FlatParameters
    ) -> None:
        """Set the gradient of the parameters, given those with respect to actions and log-probabilities of a sample."""
        if sample.recorded is None or sample.tape is None:
            parameters.differentiate((sample.actions, sample.log_prob), (action_grad, log_prob_grad))
            return
        layers = self._fused_layers()
        assert layers is not None
        with torch.no_grad():
            grad = self.distribution.output_gradient(sample.recorded, action_grad, log_prob_grad)
            weight_grads, bias_grads = parameters.gradients[0::2], parameters.gradients[1::2]
            mlp_gradient(sample.tape, layers[0], grad.flatten(1).unsqueeze(0), weight_grads, bias_grads)

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
        """Evaluate the network, as one operation if that can be."""
        layers = self._fused_layers()
        if layers is None:
            return self.mlp(latent)
        return fused_mlp([latent], *layers).view(-1, *self.distribution.input_dim)

    def _fused_layers(self) -> tuple[list[torch.Tensor], list[torch.Tensor], nn.Module] | None:
        """Return weights, biases and activation if there are only linear layers and an activation that can be fused."""
        *hidden, head, _ = self.mlp
        if not all(isinstance(layer, nn.Linear) or can_fuse(layer) for layer in hidden):
            return None
        linears = [layer for layer in (*hidden, head) if isinstance(layer, nn.Linear)]
        return [layer.weight for layer in linears], [layer.bias for layer in linears], hidden[1]


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
