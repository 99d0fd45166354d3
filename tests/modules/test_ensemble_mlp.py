# SPDX-License-Identifier: BSD-3-Clause

"""The stacked ensemble equals its members, one by one."""

from __future__ import annotations

import pytest
import torch
import torch.nn as nn
from rsl_rl.modules import MLP

from rsl_rl_sac.modules import EnsembleMLP


@pytest.mark.parametrize("activation", ["swish", "relu", "elu", "tanh"])
@pytest.mark.parametrize("num_members", [1, 2, 5])
@pytest.mark.usefixtures("double_precision")
def test_equals_members(num_members: int, activation: str) -> None:
    """Values and gradients are those of the separate networks."""
    members = [MLP(7, 1, [16, 8], activation) for _ in range(num_members)]
    ensemble = EnsembleMLP(members)
    observations, actions = torch.randn(32, 4), torch.randn(32, 3, requires_grad=True)
    values = ensemble(observations, actions)
    expected = torch.stack([member(torch.cat([observations, actions], dim=-1)).squeeze(-1) for member in members])
    torch.testing.assert_close(values, expected)

    values.square().sum().backward()
    gradient = actions.grad.clone()  # type: ignore[union-attr]
    actions.grad = None
    expected.square().sum().backward()
    torch.testing.assert_close(gradient, actions.grad)
    for i, member in enumerate(members):
        linears = [layer for layer in member if isinstance(layer, nn.Linear)]
        for weight, bias, linear in zip(ensemble.weights, ensemble.biases, linears, strict=True):
            torch.testing.assert_close(weight.grad[i].T, linear.weight.grad)  # type: ignore[index]
            torch.testing.assert_close(bias.grad[i, 0], linear.bias.grad)  # type: ignore[index]


def test_layer_norm_equals_torch() -> None:
    """Layer normalization comes before the activation, per member, and has learnable weights."""
    members = [MLP(5, 1, [16, 8], "swish") for _ in range(2)]
    ensemble = EnsembleMLP(members, layer_norm=True)
    for parameter in (*ensemble.norm_weights, *ensemble.norm_biases):
        nn.init.normal_(parameter)
    observations, actions = torch.randn(32, 3), torch.randn(32, 2)
    values = ensemble(observations, actions)
    for i, member in enumerate(members):
        hidden = torch.cat([observations, actions], dim=-1)
        for layer in range(2):
            hidden = member[2 * layer](hidden)
            weight, bias = ensemble.norm_weights[layer][i, 0], ensemble.norm_biases[layer][i, 0]
            hidden = nn.functional.silu(nn.functional.layer_norm(hidden, hidden.shape[-1:], weight, bias))
        torch.testing.assert_close(values[i], member[4](hidden).squeeze(-1))
