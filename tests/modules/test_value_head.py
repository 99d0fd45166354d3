# SPDX-License-Identifier: BSD-3-Clause

"""Values from outputs, and the distance of outputs from a target."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from scipy.stats import norm

from rsl_rl_sac.modules import CategoricalHead, ScalarHead, make_head


def test_scalar_head_is_regression() -> None:
    """Outputs are values; errors 1, 2 of one critic and 3, 0 of the other have the mean square 14 / 4."""
    head = ScalarHead()
    outputs, target = torch.tensor([[1.0, 5.0], [3.0, 3.0]]), torch.tensor([0.0, 3.0])
    assert torch.equal(head(outputs), outputs)
    assert head.loss(outputs, target) == pytest.approx((1.0 + 4.0 + 9.0 + 0.0) / 4)


def test_atoms_and_mean() -> None:
    """Equal logits have the mean of the atoms; all mass on one atom has its value."""
    head = CategoricalHead(5, -2.0, 6.0)
    assert head.support.tolist() == [-2.0, 0.0, 2.0, 4.0, 6.0]
    assert head(torch.zeros(2, 3, 5)).tolist() == [[2.0] * 3] * 2
    logits = torch.full((1, 1, 5), -100.0)
    logits[..., 3] = 100.0
    assert head(logits).item() == pytest.approx(4.0)


@pytest.mark.parametrize("value", [0.3, -1.9, 5.5])
def test_target_is_a_gaussian_over_the_bins(value: float) -> None:
    """Probabilities are those of a Gaussian in the bins, renormalized over all bins."""
    head = CategoricalHead(9, -2.0, 6.0, smoothing=0.75)
    gaussian = norm(loc=value, scale=0.75 * 1.0)
    edges = [-2.5 + i for i in range(10)]
    masses = [gaussian.cdf(b) - gaussian.cdf(a) for a, b in itertools.pairwise(edges)]
    expected = [mass / sum(masses) for mass in masses]
    assert head.probabilities(torch.tensor(value)).tolist() == pytest.approx(expected, abs=1e-6)


def test_target_beyond_the_atoms_is_the_last_one() -> None:
    """Targets out of range count as the first or last atom, finite even far away."""
    head = CategoricalHead(9, -2.0, 6.0)
    far = head.probabilities(torch.tensor([1e9, -1e9]))
    assert torch.equal(far, head.probabilities(torch.tensor([6.0, -2.0])))
    assert torch.isfinite(far).all()


def test_loss_is_cross_entropy() -> None:
    """With equal logits the cross-entropy is the logarithm of the number of atoms, whatever the target."""
    head = CategoricalHead(9, -2.0, 6.0)
    loss = head.loss(torch.zeros(2, 4, 9), torch.tensor([0.0, 1.0, 5.0, -1.0]))
    assert loss.item() == pytest.approx(math.log(9))


def test_descent_finds_the_target() -> None:
    """The logits of least loss have the target as their mean, inside of the range."""
    head = CategoricalHead(21, -10.0, 10.0)
    logits = torch.zeros(1, 3, 21, requires_grad=True)
    target = torch.tensor([-4.2, 0.0, 3.3])
    optimizer = torch.optim.Adam([logits], lr=0.3)
    for _ in range(300):
        optimizer.zero_grad()
        head.loss(logits, target).backward()
        optimizer.step()
    assert torch.allclose(head(logits)[0], target, atol=0.05)


def test_one_atom_is_a_scalar() -> None:
    """The number of atoms chooses the head."""
    assert isinstance(make_head(1, (-1.0, 1.0)), ScalarHead)
    head = make_head(51, (-1.0, 1.0))
    assert isinstance(head, CategoricalHead) and len(head.support) == 51
