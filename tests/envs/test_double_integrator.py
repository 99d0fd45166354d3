# SPDX-License-Identifier: BSD-3-Clause

"""The example environment: dynamics, optimum and state."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import linalg

from rsl_rl_sac.envs import DoubleIntegrator


def test_optimal_gain_equals_scipy() -> None:
    """The Riccati iteration finds what scipy's solver finds for the discounted problem."""
    env, gamma = DoubleIntegrator(), 0.97
    a, b = (matrix.double().numpy() * np.sqrt(gamma) for matrix in env.dynamics())
    position, velocity, force = env.cost_weights
    p = linalg.solve_discrete_are(a, b, np.diag([position, velocity]), np.array([[force]]))
    k = np.linalg.solve(force + b.T @ p @ b, b.T @ p @ a)
    gain, cost_to_go = env.optimal_gain(gamma)
    # Dynamics are kept in float32, hence the tolerance.
    np.testing.assert_allclose(cost_to_go.numpy(), p, rtol=1e-5)
    np.testing.assert_allclose(gain.numpy(), k, rtol=1e-5)
    low, high = env.action_bounds
    largest = float(gain.abs().sum())  # at position = velocity = 1
    assert -float(low) > largest and float(high) > largest


def test_dynamics_by_hand() -> None:
    """A force of 2 N for 0.1 s from rest at 0: x = 0.01 m, v = 0.2 m/s."""
    env = DoubleIntegrator(num_envs=1)
    env.states = torch.tensor([[0.0, 0.0]])
    obs, rewards, _, _ = env.step(torch.tensor([[2.0]]))
    torch.testing.assert_close(obs["policy"], torch.tensor([[0.01, 0.2]]))
    assert float(rewards) == pytest.approx(-4.0)


def test_ends() -> None:
    """Failures are no time-outs, even in the last step, and final observations are those before the reset."""
    env = DoubleIntegrator(num_envs=2, max_episode_length=1, failure_position=1.5)
    env.states = torch.tensor([[1.49, 1.0], [0.5, 0.0]])
    obs, _, dones, extras = env.step(torch.zeros(2, 1))
    assert dones.tolist() == [True, True] and extras["time_outs"].tolist() == [False, True]
    torch.testing.assert_close(extras["final_obs"]["policy"], torch.tensor([[1.59, 1.0], [0.5, 0.0]]))
    assert not torch.equal(obs["policy"], extras["final_obs"]["policy"])


def test_state_dict_round_trip() -> None:
    """A restored environment goes on as the original."""
    one, other = DoubleIntegrator(num_envs=8, seed=1), DoubleIntegrator(num_envs=8, seed=2)
    for _ in range(10):
        one.step(torch.randn(8, 1))
    other.load_state_dict(one.state_dict())
    for _ in range(40):
        actions = torch.randn(8, 1)
        results = [env.step(actions) for env in (one, other)]
        assert torch.equal(results[0][0]["policy"], results[1][0]["policy"])
