# SPDX-License-Identifier: BSD-3-Clause

"""The flat layout against torch's own optimizer and clipping."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn as nn

from rsl_rl_sac.utils.flat_parameters import FlatAdam, FlatParameters


def make_network() -> nn.Sequential:
    """Build a small network."""
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))


@pytest.mark.parametrize("max_norm", [0.1, 100.0])
@pytest.mark.usefixtures("double_precision")
def test_equals_torch(max_norm: float) -> None:
    """Ten clipped steps of Adam end where torch's do, and the norms are torch's."""
    network = make_network()
    reference = copy.deepcopy(network)
    flat = FlatParameters(network.parameters())
    optimizer = FlatAdam(flat.vector, 1e-2)
    reference_optimizer = torch.optim.Adam(reference.parameters(), 1e-2)
    for _ in range(10):
        x = torch.randn(16, 3)
        norm = flat.compute_gradient(network(x).square().mean(), max_norm)
        optimizer.step()
        reference_optimizer.zero_grad()
        reference(x).square().mean().backward()
        expected_norm = nn.utils.clip_grad_norm_(reference.parameters(), max_norm)
        reference_optimizer.step()
        torch.testing.assert_close(norm, expected_norm)
    for one, other in zip(network.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_follow() -> None:
    """The target moves by the given share."""
    one, other = make_network(), make_network()
    expected = [0.75 * p + 0.25 * q for p, q in zip(one.parameters(), other.parameters(), strict=True)]
    FlatParameters(one.parameters()).follow(FlatParameters(other.parameters()), 0.25)
    for parameter, value in zip(one.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter, value)


def test_survives_a_move() -> None:
    """Parameters that were given memory of their own, with other values, are taken over and train on."""
    network = make_network()
    flat = FlatParameters(network.parameters())
    for parameter in network.parameters():
        parameter.data = parameter.data.clone() + 1.0
    moved = [parameter.detach().clone() for parameter in network.parameters()]
    flat.ensure_bound()
    for parameter, value in zip(network.parameters(), moved, strict=True):
        assert torch.equal(parameter, value)
    flat.compute_gradient(network(torch.randn(4, 3)).sum(), 1.0)
    FlatAdam(flat.vector, 0.1).step()
    assert not any(torch.equal(p, value) for p, value in zip(network.parameters(), moved, strict=True))


def test_optimizer_state_round_trip() -> None:
    """The state is that of torch.optim.Adam and goes on exactly."""
    vectors = [nn.Parameter(torch.ones(5)) for _ in range(2)]
    optimizers = [FlatAdam(vector, 0.1) for vector in vectors]
    gradients = torch.randn(4, 5)
    for gradient in gradients[:2]:
        vectors[0].grad = gradient
        optimizers[0].step()
    vectors[1].data.copy_(vectors[0])
    optimizers[1].load_state_dict(copy.deepcopy(optimizers[0].state_dict()))
    for gradient in gradients[2:]:
        for vector, optimizer in zip(vectors, optimizers, strict=True):
            vector.grad = gradient.clone()
            optimizer.step()
    assert torch.equal(*vectors)
    assert set(optimizers[0].state_dict()["state"][0]) == {"step", "exp_avg", "exp_avg_sq"}
