# SPDX-License-Identifier: BSD-3-Clause

"""The maze: walls and goal by hand, the contract, and that chance does not solve it."""

from __future__ import annotations

import torch

from rsl_rl_sac.envs import PointMaze, check_vec_env


def test_walls_by_hand() -> None:
    """Along the corridor is free, across is not, each axis counts on its own, and in the corner the way goes on."""
    env = PointMaze(num_envs=3)
    env.positions = torch.tensor([[1.5, 1.5], [1.95, 1.5], [1.5, 3.95]])
    env.step(torch.tensor([[0.0, 1.0], [1.0, 0.4], [1.0, 1.0]]))
    expected = [[1.5, 1.6], [1.95, 1.54], [1.6, 3.95]]
    torch.testing.assert_close(env.positions, torch.tensor(expected))


def test_reward_by_hand() -> None:
    """The cell (3, 3) is worth 1 per step, its neighbour nothing."""
    env = PointMaze(num_envs=2)
    env.positions = torch.tensor([[2.95, 3.5], [2.5, 3.5]])
    obs, rewards, _, _ = env.step(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    assert rewards.tolist() == [1.0, 0.0]
    torch.testing.assert_close(obs["policy"][0], torch.tensor([2.0 * 3.05 / 5.0 - 1.0, 2.0 * 3.5 / 5.0 - 1.0]))


def test_contract() -> None:
    """The checker of the environment contract finds nothing."""
    check_vec_env(PointMaze(num_envs=4, max_episode_length=7))


def test_chance_does_not_solve_it() -> None:
    """500 random walks of an episode do not get past the corner; at full speed the way takes half an episode."""
    env = PointMaze(num_envs=500, max_episode_length=1000)
    generator = torch.Generator().manual_seed(0)
    furthest = 0.0
    for _ in range(80):
        env.step(2.0 * torch.rand(500, 2, generator=generator) - 1.0)
        furthest = max(furthest, float(env.positions[:, 0].max()))
    assert furthest < 2.5

    env, num_steps = PointMaze(num_envs=1, max_episode_length=1000), 0
    for corner in torch.tensor([[1.5, 3.5], [3.5, 3.5]]):
        while float((env.positions - corner).abs().max()) > 0.01:
            env.step((corner - env.positions) / env.max_speed)
            num_steps += 1
    assert bool(env.at_goal().all()) and num_steps <= 44
