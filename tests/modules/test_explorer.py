# SPDX-License-Identifier: BSD-3-Clause

"""Exploration noise: its size, how long it lasts, and that it goes on after a resume."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rsl_rl_sac.modules.explorer import Explorer

OBS = TensorDict({"policy": torch.zeros(5, 1)}, batch_size=[5])


class Recorder:
    """Stands for the policy and returns the noise it is given."""

    def act_with_noise(self, obs: TensorDict, noise: torch.Tensor) -> torch.Tensor:
        """Return the noise."""
        return noise.clone()


def record(explorer: Explorer, num_steps: int) -> np.ndarray:
    """Return the noise of some steps, ``[steps, envs, actions]``."""
    return torch.stack([explorer.act(Recorder(), OBS) for _ in range(num_steps)]).numpy()  # type: ignore[arg-type]


def test_white_by_default() -> None:
    """Without options the noise is that of the policy: variance 1, no memory, independent over actions."""
    noise = record(Explorer(5, 3), 4000)
    np.testing.assert_allclose(noise.std(axis=0), 1.0, atol=0.06)
    np.testing.assert_allclose((noise[1:] * noise[:-1]).mean(axis=0), 0.0, atol=0.06)
    np.testing.assert_allclose((noise[:, :, 0] * noise[:, :, 1]).mean(axis=0), 0.0, atol=0.06)


def test_scales_are_spaced_in_the_logarithm() -> None:
    """From 0.5 to 8 in five environments the factors are 0.5, 1, 2, 4 and 8."""
    noise = record(Explorer(5, 3, noise_scale=(0.5, 8.0)), 4000)
    np.testing.assert_allclose(noise.std(axis=(0, 2)), [0.5, 1.0, 2.0, 4.0, 8.0], rtol=0.05)


def test_correlation() -> None:
    """The noise of step k + 2 is correlated with that of step k by the square of the correlation; its size stays."""
    explorer = Explorer(5, 3, noise_correlation=(0.0, 0.9))
    noise = record(explorer, 20_000)
    correlation = explorer.correlation.flatten().numpy()
    assert correlation.min() >= 0.0 and correlation.max() < 0.9 and len(set(correlation.tolist())) == 5
    variance = noise.var(axis=(0, 2))
    np.testing.assert_allclose(variance, 1.0, atol=0.1)
    np.testing.assert_allclose((noise[2:] * noise[:-2]).mean(axis=(0, 2)), correlation**2, atol=0.06)


def test_correlation_does_not_go_with_scale() -> None:
    """Quiet and loud environments have noise of every duration: their rank correlation is near zero."""
    explorer = Explorer(512, 1, noise_scale=(1.0, 4.0), noise_correlation=(0.0, 0.95))
    scale, correlation = explorer.scale.flatten().log().numpy(), explorer.correlation.flatten().numpy()
    assert abs(np.corrcoef(scale, correlation)[0, 1]) < 0.05
    assert correlation.mean() == pytest.approx(0.475, abs=0.01)


def test_goes_on_exactly() -> None:
    """With its state restored, another explorer of another seed makes the same noise."""
    explorer = Explorer(5, 3, noise_correlation=(0.5, 0.9), seed=1)
    record(explorer, 3)
    state = {name: value.clone() for name, value in explorer.state_dict().items()}
    expected = record(explorer, 4)
    other = Explorer(5, 3, noise_correlation=(0.5, 0.9), seed=2)
    assert not np.array_equal(record(other, 4), expected)
    other.load_state_dict(state)
    assert np.array_equal(record(other, 4), expected)


def test_generator_of_another_device() -> None:
    """The state of a GPU's generator, which is shorter, is left aside on a CPU; the noise goes on."""
    explorer = Explorer(5, 3, seed=1)
    state = {**Explorer(5, 3, seed=9).state_dict(), "generator": torch.zeros(16, dtype=torch.uint8)}
    expected = explorer.generator.get_state()
    explorer.load_state_dict(state)
    assert torch.equal(explorer.generator.get_state(), expected)
    assert torch.equal(explorer.state_dict()["noise"], state["noise"])


def test_other_number_of_environments() -> None:
    """The state of more environments is left aside: a policy can be trained on with another number of them."""
    explorer, other = Explorer(5, 3, seed=1), Explorer(5, 3, seed=1)
    other.load_state_dict(Explorer(7, 3, seed=9).state_dict())
    assert np.array_equal(record(explorer, 2), record(other, 2))
