# SPDX-License-Identifier: BSD-3-Clause

"""Evaluations by direction and terrain."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rsl_rl_sac.locomotion.breakdown import break_down, directions, paired_difference
from rsl_rl_sac.locomotion.evaluation import Episodes, evaluate, make_evaluation_env
from rsl_rl_sac.locomotion.registry import task_cfg
from rsl_rl_sac.utils.errors import ConfigError


def stand(obs: TensorDict) -> torch.Tensor:
    """Hold Go1's default pose."""
    return torch.zeros(len(obs["policy"]), 12)


def test_directions_of_tasks() -> None:
    """Directions are those that a task commands: H1 walks forward only, G1 not backward."""
    assert directions(task_cfg("Velocity-Flat-Unitree-Go1").commands) == {
        "forward": (1.0, 0.0, 0.0),
        "back": (-1.0, 0.0, 0.0),
        "left": (0.0, 1.0, 0.0),
        "right": (0.0, -1.0, 0.0),
        "turn left": (0.0, 0.0, 1.0),
        "turn right": (0.0, 0.0, -1.0),
        "stand": (0.0, 0.0, 0.0),
    }
    assert list(directions(task_cfg("Velocity-Flat-Unitree-H1").commands)) == [
        "forward",
        "turn left",
        "turn right",
        "stand",
    ]
    g1 = directions(task_cfg("Velocity-Flat-Unitree-G1").commands)
    assert "back" not in g1 and g1["right"] == (0.0, -0.5, 0.0)


def test_standing_by_hand() -> None:
    """A robot that stands tracks the other of its two commands, and the one at 1 m/s by exp(-1 / 0.25)."""
    env = make_evaluation_env("Velocity-Flat-Unitree-Go1", 14, 1)
    env.max_episode_length = 150
    commands = env.commands
    result = break_down(stand, env)
    missed = math.exp(-1.0 / 0.25)
    for name, direction in result.directions.items():
        score = direction.score
        linear = missed if name in ("forward", "back", "left", "right") else 1.0
        angular = missed if name.startswith("turn") else 1.0
        # Robots drop from 0.4 m and settle within the first tenths of a second.
        assert (score.tracking_lin, score.tracking_ang) == pytest.approx((linear, angular), abs=0.05), name
        assert score.num_episodes == 2 and score.survival == 1.0
        assert direction.commanded_speed == (0.0 if name == "stand" else 1.0)
        assert abs(direction.reached_speed) < 0.05
    assert result.terrains == {} and result.levels == {}
    # The total is the rule itself, and the environments are as they were.
    assert env.commands is commands and result.total == evaluate(stand, env)


def test_velocity_is_measured() -> None:
    """The velocity reached is that of the base, in the robot's frame."""
    env = make_evaluation_env("Velocity-Flat-Unitree-Go1", 7, 1)
    env.max_episode_length = 25
    ways = []
    original = env.step

    def step(actions: torch.Tensor) -> tuple:
        env.physics.qvel[:, :2] = 0.0
        result = original(actions)
        ways.append(np.column_stack([env.state.lin_vel[:, :2], env.state.ang_vel[:, 2]]).copy())
        return result

    env.step = step  # type: ignore[method-assign]
    result = break_down(stand, env)
    by_hand = np.mean(ways[25:49], axis=0)  # of the second run, all but the last step, after which all are reset
    np.testing.assert_allclose(result.directions["back"].velocity, by_hand[1], atol=1e-6)


def test_terrain_is_a_partition() -> None:
    """Scores by kind and by level have the episodes that start there, and together they are the total."""
    env = make_evaluation_env("Velocity-Rough-Unitree-Go1", 40, 1)
    env.max_episode_length = 10
    result = break_down(stand, env)
    # 20 columns for 40 robots, two each; 4 columns of every kind but the slopes, which have 2.
    assert {name: score.num_episodes for name, score in result.terrains.items()} == {
        "pyramid_stairs": 8,
        "inverted_pyramid_stairs": 8,
        "boxes": 8,
        "random_rough": 8,
        "pyramid_slope": 4,
        "inverted_pyramid_slope": 4,
    }
    assert set(result.levels) <= set(range(10)) and len(result.levels) > 5
    for parts in (result.terrains, result.levels):
        counts = [score.num_episodes for score in parts.values()]
        returns = [score.episode_return for score in parts.values()]
        assert sum(counts) == 40
        assert np.average(returns, weights=counts) == pytest.approx(result.total.episode_return)


def test_too_few_episodes() -> None:
    """Fewer episodes than directions are refused."""
    with pytest.raises(ConfigError, match="at least 7 episodes, got 3"):
        break_down(stand, make_evaluation_env("Velocity-Flat-Unitree-Go1", 3, 1))


def test_paired_difference() -> None:
    """Differences 1, 2, 3 and 6 have the mean 3 and the standard error sqrt(14 / 3) / 2."""
    first, second = (
        Episodes(np.array(returns), np.array(tracking), *(np.zeros(4) for _ in range(4)))
        for returns, tracking in (
            ([0.0, 10.0, 20.0, 30.0], [[0.0, 0.0]] * 4),
            ([1.0, 12.0, 23.0, 36.0], [[0.2, 0.4]] * 4),
        )
    )
    assert paired_difference(first, second, "returns") == pytest.approx((3.0, math.sqrt(14.0 / 3.0) / 2.0))
    assert paired_difference(first, second, "tracking") == pytest.approx((0.3, 0.0))
