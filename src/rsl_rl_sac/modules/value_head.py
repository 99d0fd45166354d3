# SPDX-License-Identifier: BSD-3-Clause

"""How the outputs of a Q-network become a value, and how far they are from a target."""

from __future__ import annotations

import math

import torch
import torch.nn as nn


class ScalarHead(nn.Module):
    """The output is the value; the loss is the mean squared error (Eq. 2)."""

    def forward(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return the values."""
        return outputs

    def loss(self, outputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the mean over critics and batch.

        Args:
            outputs: Outputs of the networks, shape ``[N, batch]``.
            target: Target values, shape ``[batch]``.
        """
        return nn.functional.mse_loss(outputs, target.expand_as(outputs))

    def loss_gradient(
        self, outputs: torch.Tensor, target: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return :meth:`loss`, its gradient with respect to the outputs, and the values."""
        errors = outputs - target
        return errors.square().mean(), errors * (2.0 / errors.numel()), outputs

    def value_gradient(self, outputs: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        """Return the gradient with respect to the outputs, given that with respect to the values."""
        return grad


class CategoricalHead(nn.Module):
    """The outputs are logits of a distribution over fixed values; the loss is the cross-entropy to a smoothed target.

    Beyond the paper: classification instead of regression keeps the gradient bounded however wrong the value is. The
    target is a Gaussian around the target value, integrated over the bins around each atom (HL-Gauss).

    Reference:
        - Farebrother et al. "Stop Regressing: Training Value Functions via Classification for Scalable Deep RL."
          (2024).
    """

    support: torch.Tensor
    """Values of the atoms."""

    edges: torch.Tensor
    """Edges of the bins around the atoms."""

    def __init__(self, num_atoms: int, low: float, high: float, smoothing: float = 0.75) -> None:
        """Lay out the atoms.

        Args:
            num_atoms: Number of atoms.
            low: Value of the first atom.
            high: Value of the last atom.
            smoothing: Standard deviation of the target's Gaussian in distances between atoms.
        """
        super().__init__()
        spacing = (high - low) / (num_atoms - 1)
        self.register_buffer("support", torch.linspace(low, high, num_atoms))
        self.register_buffer("edges", torch.linspace(low - spacing / 2, high + spacing / 2, num_atoms + 1))
        self.scale = 1.0 / (math.sqrt(2.0) * smoothing * spacing)

    def forward(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return the mean of the distribution."""
        return torch.softmax(outputs, dim=-1) @ self.support

    def loss(self, outputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the mean over critics and batch.

        Args:
            outputs: Logits, shape ``[N, batch, atoms]``.
            target: Target values, shape ``[batch]``; beyond the atoms they count as the last one.
        """
        probabilities = self.probabilities(target)
        return -(probabilities * torch.log_softmax(outputs, dim=-1)).sum(dim=-1).mean()

    def loss_gradient(
        self, outputs: torch.Tensor, target: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return :meth:`loss`, its gradient with respect to the outputs, and the values."""
        probabilities, log_softmax = self.probabilities(target), torch.log_softmax(outputs, dim=-1)
        softmax = log_softmax.exp()
        count = outputs[..., 0].numel()
        loss = (probabilities * log_softmax).sum() / -count
        return loss, (softmax - probabilities).div_(count), softmax @ self.support

    def value_gradient(self, outputs: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        """Return the gradient with respect to the outputs, given that with respect to the values."""
        softmax = torch.softmax(outputs, dim=-1)
        values = (softmax @ self.support).unsqueeze(-1)
        return softmax * (self.support - values) * grad.unsqueeze(-1)

    def probabilities(self, values: torch.Tensor) -> torch.Tensor:
        """Return the smoothed distributions ``[..., atoms]`` around values."""
        values = values.clamp(self.support[0], self.support[-1])
        cumulative = torch.erf((self.edges - values.unsqueeze(-1)) * self.scale)
        mass = cumulative[..., 1:] - cumulative[..., :-1]
        return mass / (cumulative[..., -1:] - cumulative[..., :1])


def make_head(num_atoms: int, value_range: tuple[float, float]) -> ScalarHead | CategoricalHead:
    """Return a scalar head for one atom, a categorical head for more."""
    return ScalarHead() if num_atoms == 1 else CategoricalHead(num_atoms, *value_range)
