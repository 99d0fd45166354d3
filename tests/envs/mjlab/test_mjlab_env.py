# SPDX-License-Identifier: BSD-3-Clause

"""The adapter on mjlab's Go1: final observations by hand from the state of the physics, and all of the contract."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

pytest.importorskip("mjlab")

from rsl_rl_sac.envs import check_vec_env
from rsl_rl_sac.envs.mjlab import MjlabVecEnv
from rsl_rl_sac.utils.errors import MissingDependencyError
from tests.envs.mjlab.helpers import EPISODE_STEPS, GO1, make_env, without_noise

IMU_POSITION = np.array([-0.01592, -0.06659, -0.00617])
"""Site of the IMU in the trunk's frame, from mjlab's go1.xml."""

DEFAULT_POSE = np.array([0.1, 0.9, -1.8, -0.1, 0.9, -1.8] * 2)
"""Of the legs FR, FL, RR, RL: hip, thigh, calf."""


@pytest.fixture(scope="module")
def true_env() -> Iterator[MjlabVecEnv]:
    """Environments without noise."""
    env = make_env(GO1, change=without_noise)
    yield env
    env.close()


@pytest.fixture(scope="module")
def noisy_env() -> Iterator[MjlabVecEnv]:
    """Environments as they train."""
    env = make_env(GO1)
    yield env
    env.close()


def end_soon(env: MjlabVecEnv, rows: list[int]) -> None:
    """Restart all, and let some environments end by time in the next step."""
    env.reset(seed=1)
    env.episode_length_buf[rows] = EPISODE_STEPS - 1


def rotation(quaternion: np.ndarray) -> np.ndarray:
    """Return the rotation matrix of a unit quaternion, scalar first, by the formula of Rodrigues."""
    axis = quaternion[1:]
    cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    return np.eye(3) + 2.0 * quaternion[0] * cross + 2.0 * cross @ cross


def observe(
    qpos: np.ndarray, qvel: np.ndarray, bias: np.ndarray, action: np.ndarray, command: np.ndarray
) -> np.ndarray:
    """Return what the policy sees of a state, from MuJoCo's conventions.

    The free joint has its linear velocity in the world and its angular velocity in the body.
    """
    to_body = rotation(qpos[3:7]).T
    linear = to_body @ qvel[:3] + np.cross(qvel[3:6], IMU_POSITION)
    gravity = to_body @ np.array([0.0, 0.0, -1.0])
    joints = qpos[7:] + bias - DEFAULT_POSE
    return np.concatenate([linear, qvel[3:6], gravity, joints, qvel[6:], action, command])


def test_final_observation_is_that_of_the_last_state(true_env: MjlabVecEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """The final observation is worked out from positions and velocities as they were before the reset."""
    env, base = true_env, true_env.unwrapped
    end_soon(env, [1, 3])
    env.step(0.5 * torch.randn(4, 12))
    env.episode_length_buf[[1, 3]] = EPISODE_STEPS - 1
    actions = 0.5 * torch.randn(4, 12)
    before_reset = {}
    reset = base.reset

    def spy(env_ids: torch.Tensor) -> object:
        before_reset.update(
            qpos=base.sim.data.qpos[:].numpy().copy(),
            qvel=base.sim.data.qvel[:].numpy().copy(),
            command=base.command_manager.get_command("twist").numpy().copy(),
        )
        return reset(env_ids=env_ids)

    monkeypatch.setattr(base, "reset", spy)
    obs, _, dones, extras = env.step(actions)
    assert dones.tolist() == [0, 1, 0, 1] and extras["time_outs"].tolist() == [False, True, False, True]
    bias = base.scene["robot"].data.encoder_bias.numpy()
    for row in range(4):
        qpos, qvel, command = (before_reset[name][row].astype(float) for name in ("qpos", "qvel", "command"))
        expected = observe(qpos, qvel, bias[row], actions[row].numpy(), command)
        np.testing.assert_allclose(extras["final_obs"]["actor"][row].numpy(), expected, atol=2e-5)
    # After the reset: at rest in the default pose, no last action.
    for row in (1, 3):
        at_rest = obs["actor"][row]
        np.testing.assert_allclose(at_rest[9:21].numpy(), bias[row], atol=1e-6)
        assert at_rest[21:45].abs().max() == 0.0


def test_other_rows_are_untouched(noisy_env: MjlabVecEnv) -> None:
    """A reset of some does not draw the noise of the others again, nor does asking for the observations."""
    end_soon(noisy_env, [2])
    obs, _, dones, extras = noisy_env.step(torch.zeros(4, 12))
    assert dones.tolist() == [0, 0, 1, 0]
    for group in ("actor", "critic"):
        same = (obs[group] == extras["final_obs"][group]).all(dim=1)
        assert same.tolist() == [True, True, False, True]
        assert torch.equal(noisy_env.get_observations()[group], obs[group])


def test_a_failure_is_no_time_out(true_env: MjlabVecEnv) -> None:
    """A robot that lies on its back as its time runs out has failed; one that only runs out of time has not."""
    end_soon(true_env, [0, 1])
    pose = true_env.unwrapped.scene["robot"].data.root_link_pose_w.clone()
    pose[0, 2:] = torch.tensor([0.5, 0.0, 1.0, 0.0, 0.0])
    true_env.unwrapped.scene["robot"].write_root_link_pose_to_sim(pose)
    _, _, dones, extras = true_env.step(torch.zeros(4, 12))
    assert dones.tolist() == [1, 1, 0, 0]
    assert extras["time_outs"].tolist() == [False, True, False, False]


def test_log_of_the_step_and_of_the_episodes(true_env: MjlabVecEnv) -> None:
    """What rewards log in the step and what managers log at the reset both arrive, once."""
    end_soon(true_env, [0, 3])
    _, _, _, extras = true_env.step(torch.zeros(4, 12))
    assert extras["log"]["Episode_Termination/time_out"] == 2
    assert "Episode_Reward/track_linear_velocity" in extras["log"]
    assert "Metrics/slip_velocity_mean" in extras["log"]
    _, _, _, extras = true_env.step(torch.zeros(4, 12))
    assert "Episode_Termination/time_out" not in extras["log"]


def test_results_are_not_overwritten(true_env: MjlabVecEnv) -> None:
    """What a step returned stays as it was, for those who store it later."""
    end_soon(true_env, [0])
    first = true_env.step(torch.ones(4, 12))
    rewards, time_outs, log = first[1].clone(), first[3]["time_outs"].clone(), dict(first[3]["log"])
    true_env.step(-torch.ones(4, 12))
    assert torch.equal(first[1], rewards) and torch.equal(first[3]["time_outs"], time_outs)
    assert first[3]["log"] == log


def test_recorders_see_the_end_of_an_episode(true_env: MjlabVecEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorders of mjlab are told before the reset, as they are by the automatic one."""
    told = []
    recorders = true_env.unwrapped.recorder_manager
    monkeypatch.setattr(recorders, "record_pre_reset", lambda rows: told.extend(rows.tolist()))
    end_soon(true_env, [1, 2])
    true_env.step(torch.zeros(4, 12))
    assert told == [1, 2]


def test_the_wrapper_inside_still_resets_by_itself(true_env: MjlabVecEnv) -> None:
    """Viewers of mjlab step its own wrapper; what they did is what the next observations say."""
    true_env.step(torch.zeros(4, 12))
    assert true_env.cfg.auto_reset
    true_env.episode_length_buf[:] = EPISODE_STEPS - 1
    obs, _, dones, _ = true_env.env.step(torch.zeros(4, 12))
    assert dones.all() and true_env.episode_length_buf.tolist() == [0, 0, 0, 0]
    assert torch.equal(true_env.get_observations()["actor"], obs["actor"])


def test_contract(noisy_env: MjlabVecEnv) -> None:
    """The checker finds nothing."""
    check_vec_env(noisy_env)


def test_old_version(true_env: MjlabVecEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions whose resets reach into other environments are refused."""
    monkeypatch.setattr("rsl_rl_sac.envs.mjlab.package_version", lambda name: "1.5.0")
    with pytest.raises(MissingDependencyError, match=r"mjlab 1\.5\.0 is too old: before 1\.6"):
        MjlabVecEnv(true_env.env)
