# SPDX-License-Identifier: BSD-3-Clause

"""Tests of the squashed Gaussian against numerical integration and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from rsl_rl.modules import MLP
from scipy import integrate

from rsl_rl_sac.modules import SquashedGaussian
from rsl_rl_sac.utils import ConfigError

LOW, HIGH = [-0.5, -3.0], [2.0, 1.0]


def make(dim: int = 2, mean: float = 0.3, log_std: float = -0.7, **kwargs: object) -> SquashedGaussian:
    """Build a distribution with asymmetric bounds and the same latent mean and log-sigma in every dimension."""
    distribution = SquashedGaussian(dim, LOW[:dim], HIGH[:dim], **kwargs)  # type: ignore[arg-type]
    distribution.update(torch.tensor([[mean] * dim, [log_std] * dim]))
    return distribution


def density(distribution: SquashedGaussian, *action: float) -> float:
    """Return the probability density of one action."""
    return math.exp(float(distribution.log_prob(torch.tensor(action))))


@pytest.mark.usefixtures("double_precision")
class TestLogProbability:
    """log pi is a density in action units."""

    @pytest.mark.parametrize(("mean", "log_std"), [(0.3, -0.7), (-1.5, 0.2), (0.0, -2.0)])
    def test_integrates_to_one_in_1d(self, mean: float, log_std: float) -> None:
        """The density over the interval of the bounds has mass 1."""
        distribution = make(1, mean, log_std)
        mass, _ = integrate.quad(lambda a: density(distribution, a), LOW[0], HIGH[0], limit=400)
        assert mass == pytest.approx(1.0, abs=1e-6)

    def test_integrates_to_one_in_2d(self) -> None:
        """The density over the rectangle of the bounds has mass 1 (Gauss-Legendre on 200 x 200 nodes)."""
        distribution = make(2)
        nodes, weights = np.polynomial.legendre.leggauss(200)
        axes = [0.5 * (h - low) * nodes + 0.5 * (h + low) for low, h in zip(LOW, HIGH, strict=True)]
        grid = torch.tensor(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1))
        distribution.update(torch.tensor([[0.3, 0.3], [-0.7, -0.7]]).expand(200, 200, 2, 2))
        area = math.prod(0.5 * (h - low) for low, h in zip(LOW, HIGH, strict=True))
        mass = float((distribution.log_prob(grid).exp() * torch.tensor(np.outer(weights, weights))).sum()) * area
        assert mass == pytest.approx(1.0, abs=1e-6)

    def test_equals_torch_transformed_distribution(self) -> None:
        """An independent library agrees."""
        distribution = make(2)
        reference = torch.distributions.TransformedDistribution(
            torch.distributions.Normal(torch.full((2,), 0.3), math.exp(-0.7)),
            [
                torch.distributions.transforms.TanhTransform(),
                torch.distributions.transforms.AffineTransform(distribution.bias, distribution.scale),
            ],
        )
        actions = torch.tensor([1.2, -2.0])
        assert float(distribution.log_prob(actions)) == pytest.approx(
            float(reference.log_prob(actions).sum()), abs=1e-10
        )

    def test_sample_and_log_prob_agree(self) -> None:
        """The log-probability of a sample is that of the same action given from outside."""
        distribution = make(2)
        distribution.update(torch.randn(1000, 2, 2).clamp(-1.5, 0.5))
        actions, log_prob = distribution.sample_with_log_prob()
        torch.testing.assert_close(distribution.log_prob(actions), log_prob, rtol=1e-7, atol=1e-7)

    @pytest.mark.parametrize("latent", [-20.0, 20.0])
    def test_stable_at_large_latents(self, latent: float) -> None:
        """Far out, log(1 - tanh(x)^2) = log 4 - 2|x|, where the naive formula is minus infinity."""
        distribution = make(1, latent, -5.0)
        torch.manual_seed(3)
        _, log_prob = distribution.sample_with_log_prob()
        torch.manual_seed(3)
        noise = torch.randn(1)
        x = latent + math.exp(-5.0) * float(noise)
        gaussian = -0.5 * float(noise) ** 2 + 5.0 - 0.5 * math.log(2 * math.pi)
        expected = gaussian - (math.log(4.0) - 2.0 * abs(x)) - math.log(0.5 * (HIGH[0] - LOW[0]))
        assert float(log_prob) == pytest.approx(expected, abs=1e-9)

    def test_finite_in_float32(self) -> None:
        """Single precision stays finite at |x| = 20, gradient included."""
        torch.set_default_dtype(torch.float32)
        distribution = SquashedGaussian(2, LOW, HIGH)
        output = torch.tensor([[20.0, -20.0], [-1.0, -1.0]], requires_grad=True)
        distribution.update(output)
        actions, log_prob = distribution.sample_with_log_prob()
        (actions.sum() + log_prob).backward()
        assert torch.isfinite(log_prob) and torch.isfinite(output.grad).all()  # type: ignore[arg-type]

    def test_gradient(self) -> None:
        """Actions and log-probabilities have the gradient that finite differences find."""
        distribution = SquashedGaussian(2, LOW, HIGH)

        def sample(output: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            torch.manual_seed(1)
            distribution.update(output)
            return distribution.sample_with_log_prob()

        output = torch.tensor([[[0.4, -1.0], [-1.0, 0.3]], [[2.0, 0.1], [-0.2, -3.0]]], requires_grad=True)
        assert torch.autograd.gradcheck(sample, output)

    def test_clipping_limits_sigma(self) -> None:
        """Sigma stays in exp(log_std_range)."""
        distribution = make(2, log_std_range=(-3.0, 0.0))
        distribution.update(torch.tensor([[0.0, 0.0], [-9.0, 4.0]]))
        torch.testing.assert_close(distribution.std, torch.tensor([math.exp(-3.0), 1.0]))


@pytest.mark.usefixtures("double_precision")
class TestMoments:
    """Quadrature against adaptive integration."""

    @pytest.mark.parametrize(
        ("mean", "log_std", "tolerance"), [(0.3, -1.9, 1e-9), (-1.0, -0.7, 1e-9), (0.5, 0.0, 1e-6)]
    )
    def test_entropy(self, mean: float, log_std: float, tolerance: float) -> None:
        """The entropy is minus the integral of p log p."""
        distribution = make(1, mean, log_std)
        half_range = float(HIGH[0] - LOW[0]) / 2.0

        def integrand(latent: float) -> float:
            std = math.exp(log_std)
            gaussian = math.exp(-0.5 * ((latent - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))
            slope = half_range / math.cosh(latent) ** 2  # of b + c tanh(x)
            return -gaussian * (math.log(gaussian) - math.log(slope))

        width = 10 * math.exp(log_std)
        expected, _ = integrate.quad(integrand, mean - width, mean + width, limit=400)
        assert float(distribution.entropy) == pytest.approx(expected, abs=tolerance)

    def test_action_std(self) -> None:
        """The spread in action units is that of many samples."""
        distribution = make(2)
        distribution.update(torch.tensor([[0.3, -0.5], [-0.7, 0.0]]).expand(200_000, 2, 2))
        samples = distribution.sample()
        torch.testing.assert_close(distribution.action_std[0], samples.std(dim=0), rtol=0.01, atol=0.0)

    def test_kl_divergence(self) -> None:
        """KL of equal distributions is 0, and that of latent Gaussians one sigma apart is 1/2 per dimension."""
        distribution = make(2)
        params = distribution.params
        shifted = (params[0] + params[1], params[1])
        assert float(distribution.kl_divergence(params, params)) == 0.0
        assert float(distribution.kl_divergence(params, shifted)) == pytest.approx(1.0)


class TestInitialization:
    """The first policy is the default pose with noise sigma_0 in every state."""

    def test_first_action_is_default_pose(self) -> None:
        """With asymmetric limits the deterministic action is 0, not the centre of the bounds."""
        distribution, mlp = self._build(mean_weight_std=0.0)
        actions = distribution.deterministic_output(mlp(torch.randn(50, 7)))
        torch.testing.assert_close(actions, torch.zeros(50, 2), atol=1e-6, rtol=0.0)

    def test_zero_bias_option(self) -> None:
        """The paper's zero bias starts at the centre of the bounds: (-0.5 + 2) / 2 and (-3 + 1) / 2."""
        distribution, mlp = self._build(mean_weight_std=0.0, mean_bias="zero")
        actions = distribution.deterministic_output(mlp(torch.randn(50, 7)))
        torch.testing.assert_close(actions, torch.tensor([0.75, -1.0]).expand(50, 2))

    def test_initial_sigma(self) -> None:
        """Sigma is sigma_0 in every state."""
        distribution, mlp = self._build(init_std=0.15)
        distribution.update(mlp(torch.randn(50, 7)))
        torch.testing.assert_close(distribution.std, torch.full((50, 2), 0.15))

    def test_mean_head_weights(self) -> None:
        """The mean head has normal weights of the given spread, so it is weakly state-dependent."""
        distribution = SquashedGaussian(64, mean_weight_std=0.02)
        mlp = MLP(7, distribution.input_dim, [512], "relu")
        distribution.init_mlp_weights(mlp)
        weights: torch.Tensor = mlp[-2].weight[:64].detach()  # type: ignore[index]
        assert float(weights.std()) == pytest.approx(0.02, rel=0.02)
        assert float(weights.mean()) == pytest.approx(0.0, abs=1e-3)

    def test_default_pose_at_a_limit_stays_finite(self) -> None:
        """A default pose on its own limit has no pre-image; the start is near it and trainable."""
        distribution = SquashedGaussian(1, [0.0], [2.0])
        mlp = MLP(3, distribution.input_dim, [8], "relu")
        distribution.init_mlp_weights(mlp)
        action = float(distribution.deterministic_output(mlp(torch.zeros(1, 3))))
        assert 0.0 < action < 0.05

    @staticmethod
    def _build(**kwargs: object) -> tuple[SquashedGaussian, MLP]:
        distribution = SquashedGaussian(2, LOW, HIGH, **kwargs)  # type: ignore[arg-type]
        mlp = MLP(7, distribution.input_dim, [16, 16], "relu")
        distribution.init_mlp_weights(mlp)
        return distribution, mlp


def test_bounds_travel_in_state_dict() -> None:
    """A policy loaded elsewhere acts in the bounds it was trained with."""
    other = SquashedGaussian(2)
    other.load_state_dict(SquashedGaussian(2, LOW, HIGH).state_dict())
    torch.testing.assert_close(other.low, torch.tensor(LOW))
    torch.testing.assert_close(other.high, torch.tensor(HIGH))


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"low": [1.0, 0.0], "high": [1.0, 1.0]}, "low < high"),
        ({"low": [float("-inf"), 0.0]}, "not finite"),
        ({"low": [0.0, 0.0, 0.0]}, "shape"),
        ({"init_std": 100.0}, "init_std"),
        ({"mean_bias": "middle"}, "mean_bias"),
        ({"log_std_range": (1.0, -1.0)}, "log_std_range"),
    ],
)
def test_bad_arguments(kwargs: dict, words: str) -> None:
    """Bad arguments are named."""
    with pytest.raises(ConfigError, match=words):
        SquashedGaussian(2, **kwargs)
