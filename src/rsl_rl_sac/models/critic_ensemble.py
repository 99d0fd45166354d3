# SPDX-License-Identifier: BSD-3-Clause

"""The ensemble of Q-functions."""

from __future__ import annotations

import copy

import torch
import torch.nn as nn
from rsl_rl.models import MLPModel
from rsl_rl.modules import MLP, HiddenState
from tensordict import TensorDict

from rsl_rl_sac.models.observations import normalized_observations
from rsl_rl_sac.modules import CategoricalHead, EnsembleMLP, ScalarHead, make_head
from rsl_rl_sac.utils.flat_parameters import FlatParameters


class CriticEnsemble(MLPModel):
    """N Q-functions of (observation, action) that share observation groups and normalization."""

    mlp: EnsembleMLP
    """The stacked Q-networks."""

    head: ScalarHead | CategoricalHead
    """How outputs become values."""

    def __init__(
        self,
        obs: TensorDict,
        obs_groups: dict[str, list[str]],
        obs_set: str,
        num_actions: int,
        num_critics: int = 2,
        hidden_dims: tuple[int, ...] | list[int] = (1024, 512, 256),
        activation: str = "swish",
        obs_normalization: bool = True,
        layer_norm: bool = False,
        num_atoms: int = 1,
        value_range: tuple[float, float] | list[float] = (-10.0, 30.0),
    ) -> None:
        """Initialize the ensemble.

        Args:
            obs: Observations of the environment.
            obs_groups: Observation groups of each observation set.
            obs_set: Observation set of this model.
            num_actions: Number of actions.
            num_critics: Number N of Q-functions.
            hidden_dims: Sizes of the hidden layers.
            activation: Activation function, by rsl_rl's name (``"swish"`` is SiLU).
            obs_normalization: Whether to normalize observations by running statistics.
            layer_norm: Whether to normalize every hidden layer before its activation.
            num_atoms: Atoms of each Q-function's distribution; 1 regresses the value, as the paper does.
            value_range: Values of the first and the last atom.
        """
        self.num_actions = num_actions
        super().__init__(obs, obs_groups, obs_set, num_atoms, hidden_dims, activation, obs_normalization)
        others = [MLP(self._get_latent_dim(), num_atoms, hidden_dims, activation) for _ in range(num_critics - 1)]
        self.mlp = EnsembleMLP([self.mlp, *others], layer_norm)  # type: ignore[reportArgumentType]
        self.head = make_head(num_atoms, tuple(value_range))  # type: ignore[reportArgumentType]

    def forward(self, obs: TensorDict, actions: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """Return the values of all Q-functions, shape ``[N, batch]``."""
        return self.head(self.mlp(self.get_latent(obs), actions))

    def compute_gradient(
        self, latent: torch.Tensor, actions: torch.Tensor, target: torch.Tensor, parameters: FlatParameters
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Set the gradient of the parameters to that of the distance from a target.

        Args:
            latent: Output of :meth:`get_latent`.
            actions: Actions.
            target: Values to come closer to, shape ``[batch]``.
            parameters: Parameters of the networks.

        Returns:
            The loss and the mean of all values.
        """
        if not self.mlp.fused:
            outputs = self.mlp(latent, actions)
            loss = self.head.loss(outputs, target)
            parameters.differentiate(loss)
            return loss.detach(), self.head(outputs.detach()).mean()
        with torch.no_grad():
            outputs, tape = self.mlp.record(latent, actions)
            loss, gradient, values = self.head.loss_gradient(outputs, target)
            self.mlp.write_gradient(tape, gradient, parameters.gradients)
            return loss, values.mean()

    def reduce(self, values: torch.Tensor, reduction: str) -> torch.Tensor:
        """Return one value for those of all critics, ``[N, batch]``: their "min" (clipped double Q) or "mean"."""
        return values.amin(dim=0) if reduction == "min" and len(values) > 1 else values.mean(dim=0)

    def action_gradient(
        self, latent: torch.Tensor, actions: torch.Tensor, reduction: str
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Differentiate the mean of :meth:`reduce` over a batch with respect to the actions; parameters are constants.

        Args:
            latent: Output of :meth:`get_latent`.
            actions: Actions.
            reduction: As there.

        Returns:
            The mean, and its gradient of the shape of the actions.
        """
        if not self.mlp.fused:
            with torch.enable_grad():
                actions = actions.detach().requires_grad_()
                mean = self.reduce(self.head(self.mlp(latent, actions)), reduction).mean()
            return mean.detach(), torch.autograd.grad(mean, actions)[0]
        with torch.no_grad():
            outputs, tape = self.mlp.record(latent, actions)
            values = self.head(outputs)
            if reduction == "min" and len(values) > 1:
                grad = torch.zeros_like(values).scatter_(0, values.argmin(dim=0, keepdim=True), 1.0 / values.shape[1])
            else:
                grad = torch.full_like(values, 1.0 / values.numel())
            grad = self.head.value_gradient(outputs, grad)
            mean = self.reduce(values, reduction).mean()
            return mean, self.mlp.action_gradient(tape, grad, self.num_actions)

    def get_latent(
        self, obs: TensorDict, masks: torch.Tensor | None = None, hidden_state: HiddenState = None
    ) -> torch.Tensor:
        """Return the normalized observations; a single group is not copied."""
        return normalized_observations(self, obs)

    def _get_latent_dim(self) -> int:
        """Return the input size of one Q-network: observation and action."""
        return self.obs_dim + self.num_actions

    def as_jit(self) -> nn.Module:
        """Return a TorchScript module of (concatenated observations, actions)."""
        exported = _ExportedCritic(self).cpu().eval()
        return torch.jit.trace(exported, exported.get_dummy_inputs())  # type: ignore[return-value]

    def as_onnx(self, verbose: bool = False) -> nn.Module:
        """Return a module of (concatenated observations, actions) for ONNX export."""
        return _ExportedCritic(self)


class _ExportedCritic(nn.Module):
    """Exportable Q-functions on pre-concatenated observations."""

    input_names = ("obs", "actions")
    output_names = ("values",)

    def __init__(self, model: CriticEnsemble) -> None:
        """Copy the normalizer and the networks."""
        super().__init__()
        self.obs_normalizer = copy.deepcopy(model.obs_normalizer)
        self.mlp = copy.deepcopy(model.mlp)
        self.head = copy.deepcopy(model.head)
        self.mlp.fused = False  # exporters can follow plain operations only
        self.input_sizes = (model.obs_dim, model.num_actions)

    def forward(self, obs: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the values of all Q-functions, shape ``[N, batch]``."""
        return self.head(self.mlp(self.obs_normalizer(obs), actions))

    def get_dummy_inputs(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return representative inputs for tracing."""
        obs_dim, num_actions = self.input_sizes
        return torch.zeros(1, obs_dim), torch.zeros(1, num_actions)
