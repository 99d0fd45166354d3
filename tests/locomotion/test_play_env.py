# SPDX-License-Identifier: BSD-3-Clause

"""Environments to look at: the command asked for, the ground asked for, and nothing that ends an episode but a fall."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rsl_rl_sac.locomotion.commands import CommandCfg
from rsl_rl_sac.locomotion.play_env import (
    GROUNDS,
    Ground,
    SteeredCommand,
    TourCommand,
    check_command,
    make_play_env,
    tour,
)
from rsl_rl_sac.utils.errors import ConfigError
from tests.locomotion.velocity_helpers import COMMAND, observe, zero_actions

FLAT, ROUGH = "Velocity-Flat-Unitree-Go2", "Velocity-Rough-Unitree-Go2"


def test_the_command_reaches_every_robot() -> None:
    """It is observed after the next step, moved into the ranges, and also by robots that begin anew."""
    env = make_play_env(FLAT, 3, num_threads=1)
    assert isinstance(env.commands, SteeredCommand)
    np.testing.assert_array_equal(observe(env)[:, COMMAND], np.zeros((3, 3)))
    env.commands.steer((0.5, -7.0, 0.25))
    env.step(zero_actions(env))
    np.testing.assert_array_equal(observe(env)[:, COMMAND], [[0.5, -1.0, 0.25]] * 3)
    env.reset()
    np.testing.assert_array_equal(observe(env)[:, COMMAND], [[0.5, -1.0, 0.25]] * 3)
    with pytest.raises(ConfigError, match="finite"):
        env.commands.steer((0.5, float("nan"), 0.0))


def test_tour() -> None:
    """Two commands over 0.2 s are five steps of 0.02 s each, then the first comes again."""
    commands = [(0.5, 0.0, 0.0), (0.0, 0.25, 0.0)]
    command = TourCommand(CommandCfg(), 1, 0.02, np.random.default_rng(0), commands, seconds=0.2)
    command.resample(np.array([0]))
    seen = []
    for _ in range(11):
        seen.append(command.velocity[0].tolist())
        command.update(np.zeros(1))
    assert seen == [[0.5, 0.0, 0.0]] * 5 + [[0.0, 0.25, 0.0]] * 5 + [[0.5, 0.0, 0.0]]


def test_tour_of_a_robot_that_only_walks_forwards() -> None:
    """Sideways and backwards become standing, which is there once."""
    cfg = CommandCfg(lin_vel_x=(0.0, 1.0), lin_vel_y=(0.0, 0.0))
    assert tour(cfg) == [(0.8, 0.0, 0.0), (0.6, 0.0, 0.8), (0.0, 0.0, 0.0), (0.0, 0.0, -0.8)]
    check_command((1.0, 0.0, -1.0), cfg)
    for command, message in (((-0.1, 0.0, 0.0), "forward speed must be from 0 to 1"), ((0.0, 0.1, 0.0), "to the left")):
        with pytest.raises(ConfigError, match=message):
            check_command(command, cfg)


@pytest.mark.parametrize("task", [FLAT, ROUGH])
@pytest.mark.parametrize("kind", GROUNDS)
def test_ground(task: str, kind: str) -> None:
    """Robots begin at their standing height over a tile of the level; only policies of rough tasks see the ground."""
    env = make_play_env(task, 4, Ground(kind, level=7), num_threads=1)
    assert observe(env).shape[1] == (48 if task == FLAT else 48 + 187)
    above = env.state.root_pos[:, 2] - env.robot.base_height
    if env.terrain is None:
        assert (task, kind) == (FLAT, "flat")
        np.testing.assert_allclose(above, 0.0, atol=1e-6)
        return
    ground = env.terrain.height_at(env.state.root_pos[:, 0], env.state.root_pos[:, 1])
    # On random ground they begin above the highest point nearby, which is at most 5 cm higher for small robots.
    tolerance = 0.051 if kind == "random_rough" else 1e-5
    assert np.all(above - ground >= -1e-5) and np.all(above - ground <= tolerance)
    # Levels are 8 m long and centred at the origin: level 7 of 10 is from 16 m to 24 m.
    assert np.all((env.state.root_pos[:, 0] > 16.0) & (env.state.root_pos[:, 0] < 24.0))
    if kind == "flat":
        assert np.ptp(env.terrain.heights) == 0.0
    else:
        assert np.ptp(env.terrain.heights) > 0.04
        assert env.terrain.column_types == (kind,)


def test_places_and_time() -> None:
    """Four robots stand 1.2 m apart in a square and look along x; there is no time-out and no push."""
    env = make_play_env("Velocity-Flat-Anymal-D", 4, num_threads=1)
    expected = np.array([[0.6, -0.6], [0.6, 0.6], [-0.6, -0.6], [-0.6, 0.6]])
    np.testing.assert_allclose(env.state.root_pos[:, :2], expected, atol=1e-6)
    np.testing.assert_allclose(env.state.heading, 0.0, atol=1e-6)
    env.episode_length_buf = torch.full((4,), 1_000_000)
    _, _, dones, _ = env.step(zero_actions(env))
    assert not dones.any() and np.all(env.pushes.time_left == np.inf)


@pytest.mark.parametrize(
    ("robots", "ground", "message"),
    [
        (0, Ground(), "number of robots"),
        (65, Ground(), "number of robots"),
        (1, Ground("lava"), "no ground 'lava'"),
        (1, Ground("boxes", 10), "level must be from 0 to 9"),
        (1, Ground("flat", -1), "level must be from 0 to 9"),
    ],
)
def test_refuses(robots: int, ground: Ground, message: str) -> None:
    """What does not exist is named."""
    with pytest.raises(ConfigError, match=message):
        make_play_env(FLAT, robots, ground)
