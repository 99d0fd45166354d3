# SPDX-License-Identifier: BSD-3-Clause

"""What the page steers, without the page."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rsl_rl_sac.locomotion.play_env import Ground
from rsl_rl_sac.locomotion.viewer import Session
from rsl_rl_sac.utils.errors import ConfigError


def stand(obs: TensorDict) -> torch.Tensor:
    """Return actions that ask for the default pose of a Go2."""
    return torch.zeros(len(obs["policy"]), 12)


@pytest.fixture
def session() -> Iterator[Session]:
    """Two robots."""
    session = Session("Velocity-Flat-Unitree-Go2", stand, num_robots=2, num_threads=1)
    yield session
    session.close()


def test_pause_step_and_reset(session: Session) -> None:
    """A paused session stands still, a step is one control step, a reset is where it began."""
    start = session.env.physics.qpos.copy()
    assert session.tick() and session.num_steps == 1
    moved = session.env.physics.qpos.copy()
    assert not np.array_equal(moved, start)
    session.paused = True
    assert not session.tick()
    np.testing.assert_array_equal(session.env.physics.qpos, moved)
    session.step()
    assert session.paused and session.num_steps == 2
    # Two control steps are eight of 5 ms.
    assert session.env.physics.batch.get_data(0).time == pytest.approx(0.04)
    session.reset()
    np.testing.assert_allclose(session.env.physics.qpos, start)
    assert session.num_steps == 0 and session.paused


def test_the_policy_sees_the_command(session: Session) -> None:
    """The command arrives at the policy in the second step, and a new policy takes over at once."""
    seen: list[list[float]] = []

    def policy(obs: TensorDict) -> torch.Tensor:
        seen.append(obs["policy"][1, 9:12].tolist())
        return stand(obs)

    session.policy = policy
    session.steer((0.5, 0.0, -9.0))
    assert session.command == (0.5, 0.0, -1.0)
    session.tick()
    session.tick()
    assert seen == [[0.0, 0.0, 0.0], [0.5, 0.0, -1.0]]


def test_push(session: Session) -> None:
    """Each robot gets 1 m/s more in a horizontal direction of its own, and nothing else."""
    before = session.env.physics.qvel.copy()
    session.push()
    change = session.env.physics.qvel - before
    np.testing.assert_allclose(np.linalg.norm(change[:, :2], axis=1), 1.0)
    assert np.all(change[:, 2:] == 0.0) and not np.allclose(change[0], change[1])
    # The base's speed is that of its centre of mass; nothing turns, so it is the same.
    np.testing.assert_allclose(np.linalg.norm(session.env.state.lin_vel, axis=1), 1.0, rtol=1e-5)


def test_rewards(session: Session) -> None:
    """Terms per second: the tracking kernel worked out from the speed, and the mean of two steps after two."""
    session.steer((0.5, 0.0, 0.0))
    session.reset()
    tracking = []
    for _ in range(2):
        session.tick()
        velocity = session.env.state.lin_vel[:, :2].astype(float)
        tracking.append(np.mean(1.5 * np.exp(-np.sum((velocity - [0.5, 0.0]) ** 2, axis=1) / 0.25)))
    assert session.reward_rates()["track_lin_vel_xy_exp"] == pytest.approx(np.mean(tracking), rel=1e-4)
    assert 0.5 < np.mean(tracking) < 0.6  # standing while 0.5 m/s are asked for: 1.5 / e
    x, y, turn = session.velocity()
    assert (x, y) == pytest.approx(session.env.state.lin_vel[0, :2].tolist())
    assert turn == pytest.approx(session.env.state.ang_vel[0, 2].item())


def test_another_ground(session: Session) -> None:
    """The command stays, the robots stand on the new ground; what does not exist leaves all as it was."""
    session.steer((0.5, 0.0, 0.0))
    session.choose_ground(Ground("pyramid_stairs", 9))
    assert session.env.terrain is not None and session.env.num_envs == 2
    # Level 9: steps of at least 5 cm + 0.9 x 18 cm, eight of them up to the plate.
    assert np.all(session.env.state.root_pos[:, 2] > 8 * 0.212)
    session.tick()
    np.testing.assert_array_equal(session.env.commands.velocity, [[0.5, 0.0, 0.0]] * 2)
    env = session.env
    for ground in (Ground("lava"), Ground("boxes", 99)):
        with pytest.raises(ConfigError):
            session.choose_ground(ground)
    assert session.env is env and session.ground == Ground("pyramid_stairs", 9)


def test_poses(session: Session) -> None:
    """Positions and rotations of the base are those of the state; a fall is counted and begins anew."""
    session.tick()
    positions, rotations = session.poses()
    assert positions.shape == (2, session.env.physics.model.nbody, 3)
    np.testing.assert_allclose(positions[:, 1], session.env.state.root_pos, atol=1e-6)
    np.testing.assert_allclose(rotations[:, 1], session.env.state.rotation, atol=1e-6)
    np.testing.assert_array_equal(positions[:, 0], 0.0)
    session.env.physics.qpos[1, 2:7] = [0.1, 0.0, 1.0, 0.0, 0.0]  # on its back
    for _ in range(5):
        session.tick()
    assert session.num_falls == 1
