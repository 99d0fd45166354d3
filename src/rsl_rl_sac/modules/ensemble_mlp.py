# SPDX-License-Identifier: BSD-3-Clause

"""N equal Q-networks as one batched computation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn as nn

from rsl_rl_sac.modules.fused_mlp import Tape, can_fuse, fused_mlp, input_gradient, mlp_gradient, record_mlp


class EnsembleMLP(nn.Module):
    """N equal multi-layer perceptrons of (observation, action), with stacked weights.

    Each layer of all members is one batched matrix product over weights of shape ``[N, in, out]``. On two CPU cores
    that is faster than one network after the other (see ``benchmarks/ensemble.py``), on a GPU it saves launches.

    Common activations without layer normalization go through :func:`fused_mlp`, and their gradients can be had without
    autograd: that of the parameters for the critics' step, that with respect to the actions for the actor's.
    """

    def __init__(self, members: Sequence[nn.Sequential], layer_norm: bool = False) -> None:
        """Stack the weights of the members.

        Args:
            members: Perceptrons of equal shape, for example rsl_rl's ``MLP``; their initial weights are kept.
            layer_norm: Whether to normalize every hidden layer before its activation.
        """
        super().__init__()
        linears = [[layer for layer in member if isinstance(layer, nn.Linear)] for member in members]
        self.num_members = len(linears)
        self.num_layers = len(linears[0])
        self.activation = next(layer for layer in members[0] if not isinstance(layer, nn.Linear))
        self.layer_norm = layer_norm
        self.fused = can_fuse(self.activation) and not layer_norm
        # [N, in, out] is the layout in which the weight gradient is fastest: 29 % on 60 -> 256 at batch 1024.
        weights = [torch.stack([layers[i].weight.detach().T for layers in linears]) for i in range(self.num_layers)]
        biases = [torch.stack([layers[i].bias.detach() for layers in linears]) for i in range(self.num_layers)]
        self.weights = nn.ParameterList(weight.contiguous() for weight in weights)
        self.biases = nn.ParameterList(bias.unsqueeze(1) for bias in biases)
        # The same parameters in plain lists: walking a ParameterList takes 10 microseconds, six times a step.
        self._weights: list[torch.Tensor] = list(self.weights)
        self._biases: list[torch.Tensor] = list(self.biases)
        if layer_norm:
            hidden = [bias.unsqueeze(1) for bias in biases[:-1]]
            self.norm_weights = nn.ParameterList(torch.ones_like(bias) for bias in hidden)
            self.norm_biases = nn.ParameterList(torch.zeros_like(bias) for bias in hidden)

    def forward(self, observations: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Evaluate all members.

        Args:
            observations: Network inputs of shape ``[batch, observation_dim]``.
            actions: Actions of shape ``[batch, num_actions]``.

        Returns:
            Outputs of shape ``[N, batch]`` for one output per member, ``[N, batch, outputs]`` for more.
        """
        if self.fused:
            return fused_mlp([observations, actions], self._weights, self._biases, self.activation).squeeze(-1)
        hidden = self._repeat(torch.cat([observations, actions], dim=-1))
        hidden = torch.baddbmm(self.biases[0], hidden, self.weights[0])
        for layer in range(1, self.num_layers):
            if self.layer_norm:
                hidden = nn.functional.layer_norm(hidden, hidden.shape[-1:])
                hidden = torch.addcmul(self.norm_biases[layer - 1], hidden, self.norm_weights[layer - 1])
            hidden = self.activation(hidden)
            hidden = torch.baddbmm(self.biases[layer], hidden, self.weights[layer])
        return hidden.squeeze(-1)

    def record(self, observations: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, Tape]:
        """Evaluate all members, which must be :attr:`fused`, and keep what their gradients need."""
        outputs, tape = record_mlp([observations, actions], self._weights, self._biases, self.activation)
        return outputs.squeeze(-1), tape

    def write_gradient(self, tape: Tape, grad: torch.Tensor, gradients: list[torch.Tensor]) -> None:
        """Write the gradient of all parameters, in their order, given that with respect to the outputs."""
        grad = grad.unsqueeze(-1) if grad.dim() == 2 else grad
        mlp_gradient(tape, self._weights, grad, gradients[: self.num_layers], gradients[self.num_layers :])

    def action_gradient(self, tape: Tape, grad: torch.Tensor, num_actions: int) -> torch.Tensor:
        """Return the gradient with respect to the actions, given that with respect to the outputs."""
        grad = grad.unsqueeze(-1) if grad.dim() == 2 else grad
        return input_gradient(tape, self._weights, grad, self._weights[0].shape[1] - num_actions)

    def _repeat(self, x: torch.Tensor) -> torch.Tensor:
        return x.expand(self.num_members, *x.shape)

    def extra_repr(self) -> str:
        """Describe the stack in one line."""
        dims = [self.weights[0].shape[1]] + [weight.shape[2] for weight in self.weights]
        return f"{self.num_members} x {' -> '.join(map(str, dims))}, layer_norm={self.layer_norm}"
