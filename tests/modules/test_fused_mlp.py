# SPDX-License-Identifier: BSD-3-Clause

"""The written-out gradient against finite differences and against plain autograd."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn as nn
from rsl_rl.modules import MLP

from rsl_rl_sac.modules import Tape, can_fuse, fused_mlp, input_gradient, mlp_gradient, record_mlp

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
@pytest.mark.parametrize("is_linear", [False, True], ids=["stacked", "linear"])
@pytest.mark.usefixtures("double_precision")
def test_tape(activation: nn.Module, is_linear: bool) -> None:
    """Gradients from the tape of the last rows are autograd's, through plain operations, of those rows on their own."""
    weights, biases = stacked(1 if is_linear else 2, [5, 4, 3])
    one, other = torch.randn(7, 3), torch.randn(7, 2, requires_grad=True)
    hidden = torch.cat([one[3:], other[3:]], dim=-1).expand(len(weights[0]), 4, 5)
    expected = torch.baddbmm(biases[1], activation(torch.baddbmm(biases[0], hidden, weights[0])), weights[1])
    grad = torch.randn_like(expected)
    expected_gradients = torch.autograd.grad(expected, [*weights, *biases, other], grad)
    given_weights, given_biases = [weight.detach() for weight in weights], [bias.detach() for bias in biases]
    if is_linear:
        given_weights = [weight[0].t().contiguous() for weight in given_weights]
        given_biases = [bias.flatten() for bias in given_biases]

    def record() -> tuple[torch.Tensor, Tape]:
        output, tape = record_mlp([one, other.detach()], given_weights, given_biases, activation)
        return output, tape.rows(3)

    output, tape = record()
    torch.testing.assert_close(output[:, 3:], expected.detach())
    weight_grads, bias_grads = ([torch.full_like(p, torch.nan) for p in ps] for ps in (given_weights, given_biases))
    mlp_gradient(tape, given_weights, grad, weight_grads, bias_grads)
    for written, gradient in zip([*weight_grads, *bias_grads], expected_gradients, strict=False):
        torch.testing.assert_close(written, gradient[0].t() if written.dim() == 2 else gradient.view_as(written))
    if not is_linear:
        torch.testing.assert_close(input_gradient(record()[1], given_weights, grad, 3), expected_gradients[-1][3:])


def test_unknown_activation() -> None:
    """Others are not claimed."""
    assert not can_fuse(nn.Softplus()) and not can_fuse(nn.LayerNorm(3)) and can_fuse(nn.SiLU())
