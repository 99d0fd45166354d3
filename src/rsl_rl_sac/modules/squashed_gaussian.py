# SPDX-License-Identifier: BSD-3-Clause

"""Tanh-squashed Gaussian with per-joint affine bounds (Sec. 3.2 and 3.3 of the paper)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from rsl_rl.modules.distribution import Distribution

from rsl_rl_sac.utils.errors import ConfigError

LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)
LOG_2 = math.log(2.0)

_NUM_QUADRATURE_NODES = 32
"""Gauss-Hermite nodes of the entropy. 32 agree with adaptive integration to 1e-7 nats for sigma up to 1."""


class RecordedSample(NamedTuple):
    """Actions with what their gradient needs."""

    actions: torch.Tensor
    """Actions."""

    log_prob: torch.Tensor
    """Their log-probabilities."""

    deviation: torch.Tensor
    """Distance of the latent from its mean, sigma times noise."""

    squashed: torch.Tensor
    """The latent, squashed by tanh."""

    within_range: torch.Tensor
    """Where the log standard deviation was not clipped."""


class SquashedGaussian(Distribution):
    r"""Actions :math:`a = b + c \odot \tanh(x)` with :math:`x \sim \mathcal{N}(\mu(s), \sigma(s)^2)`.

    The network outputs ``[..., 2, d]``: the latent mean and the raw log standard deviation, which is clipped to
    ``log_std_range``. The centre ``b`` and half-width ``c`` of the bounds are buffers, so they travel with the
    state dict, with TorchScript and with ONNX.

    Note:
        ``std`` is the latent :math:`\sigma` (the paper's "action noise std"); ``action_std`` is in action units.
    """

    bias: torch.Tensor
    """Centre of the action bounds, :math:`b`. Shape: ``(output_dim,)``."""

    scale: torch.Tensor
    """Half-width of the action bounds, :math:`c`. Shape: ``(output_dim,)``."""

    def __init__(
        self,
        output_dim: int,
        low: torch.Tensor | Sequence[float] | float = -1.0,
        high: torch.Tensor | Sequence[float] | float = 1.0,
        init_std: float = 0.15,
        log_std_range: tuple[float, float] = (-5.0, 2.0),
        mean_weight_std: float = 0.01,
        mean_bias: str = "default_pose",
    ) -> None:
        """Initialize the distribution.

        Args:
            output_dim: Number of actions.
            low: Lower action bound, for all actions or one per action.
            high: Upper action bound, for all actions or one per action.
            init_std: Initial latent standard deviation sigma_0.
            log_std_range: Clipping range of the raw log standard deviation.
            mean_weight_std: Standard deviation of the initial weights of the mean head.
            mean_bias: ``"default_pose"`` starts at the action 0 even if the bounds are asymmetric, ``"zero"`` is the
                paper's zero bias, whose first action is the centre of the bounds.
        """
        super().__init__(int(output_dim))  # NumPy's will do
        low = _as_bound("low", low, output_dim)
        high = _as_bound("high", high, output_dim)
        if not bool(torch.all(low < high)):
            bad = torch.nonzero(low >= high).flatten().tolist()
            raise ConfigError(f"Action bounds need low < high, which fails for the actions {bad}.")
        if not log_std_range[0] < log_std_range[1]:
            raise ConfigError(f"log_std_range needs min < max, got {tuple(log_std_range)}.")
        if not (init_std > 0.0 and log_std_range[0] <= math.log(init_std) <= log_std_range[1]):
            std_range = tuple(round(math.exp(limit), 4) for limit in log_std_range)
            raise ConfigError(f"init_std must lie in {std_range}, the range log_std_range allows; got {init_std}.")
        if mean_bias not in ("default_pose", "zero"):
            raise ConfigError(f"mean_bias must be 'default_pose' or 'zero', got '{mean_bias}'.")
        self.init_std = init_std
        self.log_std_range = (float(log_std_range[0]), float(log_std_range[1]))
        self.mean_weight_std = mean_weight_std
        self.mean_bias = mean_bias
        self.register_buffer("bias", 0.5 * (high + low))
        self.register_buffer("scale", 0.5 * (high - low))
        self._mean: torch.Tensor | None = None
        self._log_std: torch.Tensor | None = None

    @property
    def low(self) -> torch.Tensor:
        """Lower action bound."""
        return self.bias - self.scale

    @property
    def high(self) -> torch.Tensor:
        """Upper action bound."""
        return self.bias + self.scale

    @property
    def input_dim(self) -> list[int]:
        """Shape of the network output: latent mean and raw log standard deviation, ``[2, output_dim]``."""
        return [2, self.output_dim]

    def init_mlp_weights(self, mlp: nn.Module) -> None:
        """Start near one pose with the same small noise in every state (Sec. 3.3)."""
        head, d = _head(mlp), self.output_dim
        with torch.no_grad():
            head.weight[:d].normal_(0.0, self.mean_weight_std)
            head.weight[d:].zero_()
            head.bias[:d] = self._initial_latent_mean()
            head.bias[d:].fill_(math.log(self.init_std))

    @torch.no_grad()
    def move_bounds(self, mlp: nn.Module, low: torch.Tensor, high: torch.Tensor, *others: nn.Module) -> None:
        """Change the bounds so that the policy acts as before, where it does not lean on them.

        In the middle of the range tanh is linear: mean and noise stay what they are if what goes into it shrinks as the
        range grows. Near a bound the policy moves with it, as it would have gone further.

        Args:
            mlp: Network of the policy, whose last layer is adjusted.
            low: New lower bounds. Shape: ``(output_dim,)``.
            high: New upper bounds. Shape: ``(output_dim,)``.
            others: Networks that share this distribution, and are adjusted alike.
        """
        bias, scale = 0.5 * (high + low), 0.5 * (high - low)
        if torch.equal(bias, self.bias) and torch.equal(scale, self.scale):
            return
        d, ratio = self.output_dim, self.scale / scale
        for head in map(_head, (mlp, *others)):
            head.weight[:d] *= ratio.unsqueeze(-1)
            head.bias[:d] = ratio * head.bias[:d] + (self.bias - bias) / scale
            head.bias[d:] += ratio.log()
        self.bias.copy_(bias)
        self.scale.copy_(scale)

    def _initial_latent_mean(self) -> torch.Tensor:
        """Latent mean of the first action: 0, or where ``b + c tanh(x)`` is the default pose (action 0)."""
        if self.mean_bias == "zero":
            return torch.zeros_like(self.bias)
        # A default pose at (or beyond) a soft limit has no finite pre-image: stay 0.5 % of the range inside, where
        # tanh still has 2 % of its slope.
        return torch.atanh((-self.bias / self.scale).clamp(-0.99, 0.99))

    def update(self, mlp_output: torch.Tensor) -> None:
        """Set the parameters from the network output."""
        self._mean, raw_log_std = torch.unbind(mlp_output, dim=-2)
        self._log_std = raw_log_std.clamp(*self.log_std_range)

    def sample(self) -> torch.Tensor:
        """Sample actions (the gradient flows if it is enabled)."""
        return self.action_of_noise(torch.randn_like(self._parameters_or_raise()[0]))

    def action_of_noise(self, noise: torch.Tensor) -> torch.Tensor:
        """Return the actions that standard normal noise stands for, ``b + c tanh(mu + sigma noise)``."""
        mean, log_std = self._parameters_or_raise()
        return self._squash(mean + log_std.exp() * noise)

    def sample_with_log_prob(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Sample actions by reparameterization, with their log-probability, in one pass.

        Returns:
            Actions of shape ``[..., output_dim]`` and log-probabilities of shape ``[...]``.
        """
        mean, log_std = self._parameters_or_raise()
        return _SquashedSample.apply(mean, log_std, torch.randn_like(mean), self.bias, self.scale)  # type: ignore[return-value]

    def record_sample(self, mlp_output: torch.Tensor) -> RecordedSample:
        """Sample as :meth:`sample_with_log_prob` from a network output, for a gradient that is written out."""
        mean, raw_log_std = torch.unbind(mlp_output, dim=-2)
        log_std = raw_log_std.clamp(*self.log_std_range)
        drawn = _draw(mean, log_std, torch.randn_like(mean), self.bias, self.scale)
        return RecordedSample(*drawn, raw_log_std == log_std)

    def output_gradient(
        self, sample: RecordedSample, action_grad: torch.Tensor, log_prob_grad: torch.Tensor
    ) -> torch.Tensor:
        """Return the gradient with respect to the network output, given those of actions and log-probabilities."""
        grads = _pull_back(action_grad, log_prob_grad, sample.deviation, sample.squashed, self.scale)
        return torch.stack((grads[0], grads[1] * sample.within_range), dim=-2)

    def log_prob(self, outputs: torch.Tensor) -> torch.Tensor:
        """Compute the log-probability of given actions, summed over the last dimension.

        Actions on (or outside) the bounds are taken as the nearest representable action inside them.
        """
        mean, log_std = self._parameters_or_raise()
        limit = 1.0 - torch.finfo(outputs.dtype).eps
        latent = torch.atanh(((outputs - self.bias) / self.scale).clamp(-limit, limit))
        return _log_prob((latent - mean) / log_std.exp(), log_std, latent, self.scale)

    def deterministic_output(self, mlp_output: torch.Tensor) -> torch.Tensor:
        """Return ``b + c tanh(mu)``."""
        return self._squash(mlp_output[..., 0, :])

    def as_deterministic_output_module(self) -> nn.Module:
        """Return an export-friendly module that computes ``b + c tanh(mu)`` from the network output."""
        return _SquashedDeterministicOutput(self.bias, self.scale)

    @property
    def mean(self) -> torch.Tensor:
        """The deterministic action ``b + c tanh(mu)``."""
        return self._squash(self._parameters_or_raise()[0])

    @property
    def std(self) -> torch.Tensor:
        """The latent standard deviation sigma."""
        return self._parameters_or_raise()[1].exp()

    @property
    def action_std(self) -> torch.Tensor:
        """Standard deviation of the action, in action units (by quadrature)."""
        latent, weights = self._quadrature()
        actions = self._squash(latent)
        mean = torch.tensordot(weights, actions, dims=1)
        return torch.tensordot(weights, (actions - mean).square(), dims=1).sqrt()

    @property
    def entropy(self) -> torch.Tensor:
        """Entropy of the action distribution, summed over the last dimension.

        The Gaussian part is exact. The expectation of the log-Jacobian has no closed form; each action needs only a
        one-dimensional integral, so Gauss-Hermite quadrature beats sampling and draws no random number.
        """
        _, log_std = self._parameters_or_raise()
        latent, weights = self._quadrature()
        gaussian = log_std + LOG_SQRT_2_PI + 0.5
        log_jacobian = torch.tensordot(weights, _log_tanh_derivative(latent), dims=1)
        return (gaussian + log_jacobian + self.scale.log()).sum(dim=-1)

    @property
    def params(self) -> tuple[torch.Tensor, ...]:
        """Latent mean and standard deviation."""
        return (self._parameters_or_raise()[0], self.std)

    def kl_divergence(self, old_params: tuple[torch.Tensor, ...], new_params: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Compute KL(old || new). A bijection leaves it unchanged, so it is that of the latent Gaussians."""
        old, new = (torch.distributions.Normal(mean, std) for mean, std in (old_params, new_params))
        return torch.distributions.kl_divergence(old, new).sum(dim=-1)

    def _squash(self, latent: torch.Tensor) -> torch.Tensor:
        return self.bias + self.scale * torch.tanh(latent)

    def _quadrature(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Latent Gauss-Hermite nodes of the current distribution, ``[nodes, ..., d]``, and their weights."""
        mean, log_std = self._parameters_or_raise()
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NUM_QUADRATURE_NODES)
        nodes = torch.as_tensor(nodes, dtype=mean.dtype, device=mean.device)
        weights = torch.as_tensor(weights / weights.sum(), dtype=mean.dtype, device=mean.device)
        return mean + log_std.exp() * nodes.view(-1, *[1] * mean.dim()), weights

    def _parameters_or_raise(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self._mean is None or self._log_std is None:
            raise RuntimeError("Call update() with a network output before using the distribution.")
        return self._mean, self._log_std


class _SquashedDeterministicOutput(nn.Module):
    """Exportable module that computes ``b + c tanh(mu)`` from the network output."""

    def __init__(self, bias: torch.Tensor, scale: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("bias", bias.detach().clone())
        self.register_buffer("scale", scale.detach().clone())

    def forward(self, mlp_output: torch.Tensor) -> torch.Tensor:
        # Declaring the buffers would please the type checker, but TorchScript cannot read such declarations.
        return self.bias + self.scale * torch.tanh(mlp_output[..., 0, :])  # pyright: ignore[reportOperatorIssue]


class _SquashedSample(torch.autograd.Function):
    """Reparameterized actions and their log-probabilities, with the gradient written out.

    Autograd would record every small operation; this saves about 2 % of a gradient step at size S.
    """

    @staticmethod
    def forward(
        ctx,  # noqa: ANN001
        mean: torch.Tensor,
        log_std: torch.Tensor,
        noise: torch.Tensor,
        bias: torch.Tensor,
        scale: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        actions, log_prob, deviation, squashed = _draw(mean, log_std, noise, bias, scale)
        ctx.save_for_backward(deviation, squashed, scale)
        return actions, log_prob

    @staticmethod
    def backward(ctx, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # noqa: ANN001
        return (*_pull_back(*grads, *ctx.saved_tensors), None, None, None)


def _draw(
    mean: torch.Tensor, log_std: torch.Tensor, noise: torch.Tensor, bias: torch.Tensor, scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return actions, log-probabilities, and the deviations and squashed latents that :func:`_pull_back` takes."""
    deviation = log_std.exp() * noise
    latent = mean + deviation
    squashed = torch.tanh(latent)
    return torch.addcmul(bias, scale, squashed), _log_prob(noise, log_std, latent, scale), deviation, squashed


def _pull_back(
    action_grad: torch.Tensor,
    log_prob_grad: torch.Tensor,
    deviation: torch.Tensor,
    squashed: torch.Tensor,
    scale: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients with respect to mean and log standard deviation."""
    log_prob_grad = log_prob_grad.unsqueeze(-1)
    # With x the latent: da/dx = c (1 - tanh^2 x) and dlog pi/dx = 2 tanh x; dx/dlog sigma = sigma epsilon.
    mean_grad = action_grad * scale * (1.0 - squashed.square()) + 2.0 * log_prob_grad * squashed
    return mean_grad, mean_grad * deviation - log_prob_grad


def _log_prob(noise: torch.Tensor, log_std: torch.Tensor, latent: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Compute Eq. 6 from the standardized noise of a latent."""
    density = torch.addcmul(-log_std - _log_tanh_derivative(latent), noise, noise, value=-0.5)
    return density.sum(dim=-1) - (scale.log() + LOG_SQRT_2_PI).sum()


def _log_tanh_derivative(x: torch.Tensor) -> torch.Tensor:
    """Compute ``log(1 - tanh(x)^2)`` without cancellation: ``2 (log 2 - x - softplus(-2 x))``."""
    return 2.0 * LOG_2 - 2.0 * (x + F.softplus(-2.0 * x))


def _head(mlp: nn.Module) -> nn.Linear:
    """Return the last layer of a network."""
    return [module for module in mlp.modules() if isinstance(module, nn.Linear)][-1]


def _as_bound(name: str, value: torch.Tensor | Sequence[float] | float, output_dim: int) -> torch.Tensor:
    bound = torch.as_tensor(value, dtype=torch.get_default_dtype()).detach().clone()
    if bound.dim() == 0:
        bound = bound.repeat(output_dim)
    if bound.shape != (output_dim,):
        raise ConfigError(f"The bound '{name}' has shape {tuple(bound.shape)}, expected ({output_dim},).")
    if not bool(torch.isfinite(bound).all()):
        bad = torch.nonzero(~torch.isfinite(bound)).flatten().tolist()
        raise ConfigError(f"The bound '{name}' is not finite for the actions {bad}. Give bounds in 'action_bounds'.")
    return bound
