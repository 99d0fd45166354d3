# SPDX-License-Identifier: BSD-3-Clause

"""The written-out gradient against finite differences and against plain autograd."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn as nn
from rsl_rl.modules import MLP

from rsl_rl_sac.modules import can_fuse, fused_mlp, fused_mlp_in_parts

ACTIVATIONS = [nn.ReLU(), nn.SiLU(), nn.ELU(), nn.Tanh()]


def stacked(num_members: int, sizes: list[int]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Draw weights and biases of several perceptrons."""
    pairs = list(itertools.pairwise(sizes))
    weights = [torch.randn(num_members, i, o, requires_grad=True) for i, o in pairs]
    return weights, [torch.randn(num_members, 1, o, requires_grad=True) for _, o in pairs]


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.usefixtures("double_precision")
def test_gradient_by_finite_differences(activation: nn.Module, outputs: int) -> None:
    """Gradients of both inputs, all weights and all biases."""
    weights, biases = stacked(2, [5, 4, 3, outputs])
    one, other = torch.randn(6, 3, requires_grad=True), torch.randn(6, 2, requires_grad=True)

    def evaluate(*tensors: torch.Tensor) -> torch.Tensor:
        return fused_mlp(list(tensors[:2]), list(tensors[2:5]), list(tensors[5:]), activation)

    assert torch.autograd.gradcheck(evaluate, (one, other, *weights, *biases))


@pytest.mark.parametrize("activation", ["relu", "swish", "elu", "tanh"])
@pytest.mark.usefixtures("double_precision")
def test_layout_of_linear_layers(activation: str) -> None:
    """Weights as ``nn.Linear`` keeps them give the module's own outputs and gradients."""
    mlp = MLP(5, 3, [8, 4], activation)
    linears = [layer for layer in mlp if isinstance(layer, nn.Linear)]
    weights: list[torch.Tensor] = [layer.weight for layer in linears]
    biases: list[torch.Tensor] = [layer.bias for layer in linears]
    x = torch.randn(7, 5)
    expected, output = mlp(x), fused_mlp([x], weights, biases, mlp[1])[0]
    torch.testing.assert_close(output, expected)
    gradients = torch.autograd.grad(output.square().sum(), weights + biases)
    expected_gradients = torch.autograd.grad(expected.square().sum(), weights + biases)
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: type(a).__name__)
def test_same_without_gradient(activation: nn.Module) -> None:
    """Evaluation in place, without a gradient, gives the same numbers and leaves the inputs alone."""
    weights, biases = stacked(2, [5, 4, 1])
    x = torch.randn(6, 5)
    before = x.clone()
    with torch.no_grad():
        output = fused_mlp([x], weights, biases, activation)
    assert torch.equal(output, fused_mlp([x], weights, biases, activation).detach())
    assert torch.equal(x, before)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: type(a).__name__)
@pytest.mark.usefixtures("double_precision")
def test_parts(activation: nn.Module) -> None:
    """Of a batch in two parts the first is a constant; the gradient is that of the second on its own."""
    weights, biases = stacked(2, [5, 4, 3])
    one, other = torch.randn(7, 3, requires_grad=True), torch.randn(7, 2, requires_grad=True)
    constant, live = fused_mlp_in_parts([one, other], weights, biases, activation, 3)
    expected = fused_mlp([one, other], weights, biases, activation)
    torch.testing.assert_close(torch.cat([constant, live], dim=1), expected)
    assert not constant.requires_grad and constant.shape == (2, 3, 3)
    gradients = torch.autograd.grad(live.square().sum(), [one, other, *weights, *biases])
    expected_gradients = torch.autograd.grad(expected[:, 3:].square().sum(), [one, other, *weights, *biases])
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient)
    assert not bool(gradients[0][:3].any())
    with torch.no_grad():
        for part, with_gradient in zip(
            fused_mlp_in_parts([one, other], weights, biases, activation, 3), (constant, live), strict=True
        ):
            assert torch.equal(part, with_gradient)


def test_unknown_activation() -> None:
    """Others are not claimed."""
    assert not can_fuse(nn.Softplus()) and not can_fuse(nn.LayerNorm(3)) and can_fuse(nn.SiLU())
