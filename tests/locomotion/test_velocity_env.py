# SPDX-License-Identifier: BSD-3-Clause

"""Ends of episodes and what they return: flags, observations before and after the reset, log."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

from rsl_rl_sac.locomotion import VelocityEnv, make_env, task_names
from tests.locomotion.velocity_helpers import COMMAND, end_by_time, observe, random_actions, zero_actions

FLAT, ROUGH = "Velocity-Flat-Unitree-Go1", "Velocity-Rough-Unitree-Go1"
FLAT_TASKS = [task for task in task_names() if "Flat" in task]

QUADRUPED_TERMS = [
    "track_lin_vel_xy_exp",
    "track_ang_vel_z_exp",
    "lin_vel_z_l2",
    "ang_vel_xy_l2",
    "dof_torques_l2",
    "dof_acc_l2",
    "action_rate_l2",
    "feet_air_time",
]
HUMANOID_TERMS = [
    "termination_penalty",
    "track_lin_vel_xy_exp",
    "track_ang_vel_z_exp",
    "ang_vel_xy_l2",
    "dof_acc_l2",
    "action_rate_l2",
    "feet_air_time",
    "feet_slide",
    "flat_orientation_l2",
    "dof_pos_limits",
    "joint_deviation_hip",
    "joint_deviation_arms",
    "joint_deviation_torso",
]
TERMS = {
    "Velocity-Flat-Unitree-Go1": [*QUADRUPED_TERMS, "flat_orientation_l2"],
    "Velocity-Rough-Unitree-Go1": QUADRUPED_TERMS,
    "Velocity-Flat-Anymal-D": [*QUADRUPED_TERMS, "flat_orientation_l2", "undesired_contacts"],
    "Velocity-Rough-Anymal-B": [*QUADRUPED_TERMS, "undesired_contacts"],
    "Velocity-Rough-Unitree-H1": HUMANOID_TERMS,
    "Velocity-Flat-Unitree-G1": [*HUMANOID_TERMS, "dof_torques_l2", "lin_vel_z_l2", "joint_deviation_fingers"],
    "Velocity-Rough-Unitree-G1": [*HUMANOID_TERMS, "dof_torques_l2", "joint_deviation_fingers"],
}
"""Isaac Lab's names of the reward terms whose weight is not 0."""


def quiet_env(task: str, num_envs: int, seed: int = 0) -> VelocityEnv:
    """Return environments without observation noise."""
    return make_env(task, num_envs, seed, observation_noise=False)


def test_progress_is_tracking() -> None:
    """The progress of a step is the mean of both tracking kernels, of the command before and what came of it."""
    env = quiet_env(FLAT, 8)
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        command = observe(env)[:, COMMAND]
        _, _, dones, extras = env.step(random_actions(env, generator))
        assert not dones.any()
        velocity = observe(env)[:, [0, 1, 5]]
        squares = (command - velocity) ** 2
        kernels = np.exp(-np.column_stack([squares[:, :2].sum(axis=1), squares[:, 2]]) / 0.25)
        assert extras["progress"] == pytest.approx(kernels.mean(), abs=1e-5)
    rewards = {name: term for name, term in env.task.rewards.items() if name != "track_ang_vel_z_exp"}
    assert "progress" not in make_env(FLAT, 2, rewards=rewards).step(torch.zeros(2, 12))[3]  # half of it is none


def make_fall(env: VelocityEnv, rows: list[int]) -> None:
    """Put the base of some robots into the ground, so that they fail in the next step."""
    env.physics.qpos[rows, 2] -= env.robot.base_height


class TestEnds:
    """Which episodes end, and why."""

    def test_time_out_at_step_1000(self) -> None:
        """An episode that does not fail ends in its thousandth step, and the next one begins at 0."""
        env = quiet_env(FLAT, num_envs=2)
        assert env.max_episode_length == 1000
        ends = []
        for step in range(1, 1011):
            _, _, dones, extras = env.step(zero_actions(env))
            assert torch.equal(dones, extras["time_outs"])
            assert env.episode_length_buf.tolist() == [step % 1000] * 2
            ends += [step] * bool(dones.all())
        assert ends == [1000]

    @pytest.mark.parametrize("task", [FLAT, ROUGH])
    def test_counter_that_is_set(self, task: str) -> None:
        """The counter is incremented before it is compared: 999 and more end at once, 998 one step later."""
        env = quiet_env(task, num_envs=4)
        env.episode_length_buf = torch.tensor([998, 999, 1500, 5])
        assert env.episode_length_buf.tolist() == [998, 999, 1500, 5]
        _, _, dones, extras = env.step(zero_actions(env))
        assert dones.tolist() == extras["time_outs"].tolist() == [False, True, True, False]
        assert env.episode_length_buf.tolist() == [999, 0, 0, 6]
        _, _, dones, extras = env.step(zero_actions(env))
        assert dones.tolist() == extras["time_outs"].tolist() == [True, False, False, False]
        env.episode_length_buf[3] = 999  # a copy
        assert env.episode_length_buf.tolist() == [0, 1, 1, 7]

    @pytest.mark.parametrize("task", FLAT_TASKS)
    def test_upside_down(self, task: str) -> None:
        """A robot that is rolled onto its back fails, as one that is pitched onto it; one on its feet does not."""
        env = quiet_env(task, num_envs=3)
        env.physics.qpos[1, 3:7] = [0.0, 1.0, 0.0, 0.0]
        # The back of a quadruped is up, that of a humanoid behind it: half a turn, or a quarter.
        pitched = [0.0, 0.0, 1.0, 0.0] if env.robot.kind == "quadruped" else [np.sqrt(0.5), 0.0, -np.sqrt(0.5), 0.0]
        env.physics.qpos[2, 3:7] = pitched
        failed = torch.zeros(3, dtype=torch.bool)
        for _ in range(60):
            _, _, dones, extras = env.step(zero_actions(env))
            assert not extras["time_outs"].any()
            failed |= dones
            if bool(failed[1:].all()):
                break
        assert failed.tolist() == [False, True, True]

    @pytest.mark.parametrize("task", [FLAT, ROUGH])
    def test_failure_in_the_last_step_is_no_time_out(self, task: str) -> None:
        """Done by time, by both at once, by failure, and not at all."""
        env = quiet_env(task, num_envs=4)
        env.episode_length_buf = torch.tensor([999, 999, 3, 3])
        make_fall(env, [1, 2])
        _, _, dones, extras = env.step(zero_actions(env))
        assert dones.tolist() == [True, True, True, False]
        assert extras["time_outs"].tolist() == [True, False, False, False]
        assert extras["log"]["Episode_Termination/time_out"] == pytest.approx(1 / 3)
        assert extras["log"]["Episode_Termination/base_contact"] == pytest.approx(2 / 3)
        assert extras["log"]["Episode_Termination/diverged"] == 0.0

    @pytest.mark.parametrize("task", ["Velocity-Flat-Unitree-Go1", "Velocity-Flat-Anymal-D"])
    def test_failure_is_contact_of_the_base(self, task: str) -> None:
        """A robot fails exactly if the net force on its base exceeds 1 N in the last three of four physics steps."""
        env, generator = quiet_env(task, num_envs=12), torch.Generator().manual_seed(1)
        num_failures = 0
        for _ in range(100):
            actions = random_actions(env, generator)
            pushed_into = [_base_force(env, row, actions[row].numpy()) for row in range(12)]
            expected = [bool((forces[1:] > 1.0).any()) for forces in pushed_into]
            _, _, dones, _ = env.step(actions)
            assert dones.tolist() == expected
            num_failures += sum(expected)
        assert num_failures > 2

    @pytest.mark.parametrize("leaves", [True, False])
    def test_first_of_the_four_physics_steps_does_not_count(self, leaves: bool) -> None:
        """A robot on its back that leaves the ground in the first physics step has not failed; one that lands has."""
        env = quiet_env(FLAT, num_envs=1)
        env.physics.qpos[0, 2:7] = [0.5, 0.0, 1.0, 0.0, 0.0]
        env.physics.qvel[0, 2] = 2.0 if leaves else -2.0
        forces = np.zeros(4)
        while not forces.any():  # lower it, until it touches during the step
            env.physics.qpos[0, 2] -= 0.002
            forces = _base_force(env, 0, np.zeros(12))
        assert (forces > 1.0).tolist() == ([True, False, False, False] if leaves else [False, False, False, True])
        _, _, dones, _ = env.step(zero_actions(env))
        assert dones.tolist() == [not leaves]

    @pytest.mark.parametrize("task", ["Velocity-Flat-Unitree-H1", "Velocity-Rough-Unitree-G1"])
    def test_penalty_of_a_fall(self, task: str) -> None:
        """A fall costs 200 x 0.02 s; that term's share of the log is -4 / 20 s."""
        env = quiet_env(task, num_envs=2)
        env.physics.qpos[0, 3:7] = [0.0, 1.0, 0.0, 0.0]
        _, rewards, dones, extras = env.step(zero_actions(env))
        while not dones.any():
            assert float(rewards[0]) > -1.0 and int(env.episode_length_buf[0]) < 60
            _, rewards, dones, extras = env.step(zero_actions(env))
        assert dones.tolist() == [True, False]
        assert extras["log"]["Episode_Reward/termination_penalty"] == pytest.approx(-0.2)
        assert float(rewards[0]) < -3.5


def _base_force(env: VelocityEnv, row: int, action: np.ndarray) -> np.ndarray:
    """Return the contact force on the base in each physics step of a control step that is made on a copy."""
    model, data = env.physics.batch.get_model(row), env.physics.batch.get_data(row)
    data.ctrl[: env.num_actions] = env.robot.default_pos + env.robot.action_scale * action
    forces = []
    for _ in range(4):
        mujoco.mj_step(model, data)
        total, wrench = np.zeros(3), np.zeros(6)
        for i, contact in enumerate(data.contact):
            bodies = model.geom_bodyid[contact.geom]
            if 1 in bodies:
                mujoco.mj_contactForce(model, data, i, wrench)
                total += contact.frame.reshape(3, 3).T @ wrench[:3]
        forces.append(np.linalg.norm(total))
    return np.array(forces)


class TestObservations:
    """What is observed before and after a reset."""

    @pytest.mark.parametrize("task", [FLAT, ROUGH, "Velocity-Flat-Anymal-B", "Velocity-Rough-Unitree-G1"])
    def test_final_observation_equals_that_of_a_twin_that_goes_on(self, task: str) -> None:
        """Cutting off an episode does not change its last observation and reward, only the next observation."""
        env, twin = quiet_env(task, num_envs=6), quiet_env(task, num_envs=6)
        generator = torch.Generator().manual_seed(0)
        for _ in range(5):
            actions = random_actions(env, generator)
            env.step(actions)
            twin.step(actions)
        before = observe(env)
        end_by_time(env, [1, 4])
        actions = random_actions(env, generator)
        obs, rewards, dones, extras = env.step(actions)
        twin_obs, twin_rewards, twin_dones, twin_extras = twin.step(actions)
        assert dones.tolist() == [False, True, False, False, True, False] and not twin_dones.any()
        final, expected = extras["final_obs"]["policy"].numpy(), twin_obs["policy"].numpy().copy()
        # The command is that of the step that ended; the twin has already turned it towards its heading.
        expected[[1, 4], COMMAND] = before[[1, 4], COMMAND]
        assert np.array_equal(final[[1, 4]], expected[[1, 4]])
        # Others are not touched by it.
        others = [0, 2, 3, 5]
        assert np.array_equal(final[others], obs["policy"].numpy()[others])
        assert np.array_equal(obs["policy"].numpy()[others], expected[others])
        assert torch.equal(rewards, twin_rewards)
        assert (final[[1, 4]] != obs["policy"].numpy()[[1, 4]]).mean() > 0.5
        assert torch.equal(twin_extras["final_obs"]["policy"], twin_obs["policy"])

    def test_final_observation_has_the_noise_of_an_observation(self) -> None:
        """With noise the final observation is as far from the truth as any other, but not more."""
        finals = []
        for env in (make_env(FLAT, num_envs=200), quiet_env(FLAT, num_envs=200)):  # in the same state
            end_by_time(env, list(range(200)))
            _, _, _, extras = env.step(zero_actions(env))
            finals.append(extras["final_obs"]["policy"].numpy())
        noise = finals[0] - finals[1]
        for columns, largest in ((slice(0, 3), 0.1), (slice(3, 6), 0.2), (slice(6, 9), 0.05), (slice(12, 24), 0.01)):
            assert 0.9 * largest < np.abs(noise[:, columns]).max() <= 1.0001 * largest
        assert 1.4 < np.abs(noise[:, 24:36]).max() <= 1.5001
        assert (noise[:, COMMAND] == 0.0).all() and (noise[:, 36:] == 0.0).all()

    @pytest.mark.parametrize("task", [FLAT, ROUGH])
    def test_first_observation_of_the_next_episode(self, task: str) -> None:
        """The returned observation is that of a robot that stands in its default pose and has done nothing yet."""
        env, generator = quiet_env(task, num_envs=8), torch.Generator().manual_seed(0)
        env.step(random_actions(env, generator))
        end_by_time(env, [2, 3])
        make_fall(env, [5])
        before = observe(env)
        obs, _, dones, extras = env.step(random_actions(env, generator))
        rows = [2, 3, 5]
        assert torch.equal(torch.nonzero(dones)[:, 0], torch.tensor(rows))
        first = obs["policy"].numpy()[rows]
        still = np.concatenate([first[:, :6], first[:, 12:48]], axis=1)  # velocities, joints, last action
        np.testing.assert_allclose(still, 0.0, atol=1e-6)
        np.testing.assert_allclose(first[:, 6:9], np.tile([0.0, 0.0, -1.0], (3, 1)), atol=1e-6)
        assert (first[:, 9:11] != before[rows, 9:11]).all()
        assert (np.abs(extras["final_obs"]["policy"].numpy()[rows, 36:48]).max(axis=1) > 0.1).all()
        # In the next step the change of the action is counted from zero.
        actions = torch.zeros_like(zero_actions(env))
        actions[2] = 0.3
        env.step(actions)
        rate = env.rewards.last[:, env.rewards.names.index("action_rate_l2")]
        assert rate[[2, 3]] == pytest.approx([-0.01 * 0.02 * 12 * 0.09, 0.0], abs=1e-9)

    def test_get_observations_returns_the_last(self) -> None:
        """Asking again gives the same, in memory of its own."""
        env = make_env(FLAT, num_envs=3)
        obs, *_ = env.step(zero_actions(env))
        expected, asked = obs["policy"].clone(), env.get_observations()
        assert torch.equal(asked["policy"], expected)
        asked["policy"].zero_()
        assert torch.equal(env.get_observations()["policy"], expected)
        reset_obs, extras = env.reset()
        assert torch.equal(reset_obs["policy"], env.get_observations()["policy"]) and extras == {}
        assert env.episode_length_buf.tolist() == [0, 0, 0]


class TestLog:
    """What is logged of the episodes that ended."""

    @pytest.mark.parametrize("task", list(TERMS))
    def test_names(self, task: str) -> None:
        """Isaac Lab's names, and the share of simulations that failed; only in steps in which an episode ended."""
        env = quiet_env(task, num_envs=4)
        _, _, _, extras = env.step(zero_actions(env))
        assert set(extras) == {"time_outs", "final_obs", "progress"}
        end_by_time(env, [0, 2])
        _, _, dones, extras = env.step(zero_actions(env))
        assert dones.tolist() == [True, False, True, False]
        names = [f"Episode_Reward/{term}" for term in TERMS[task]]
        names += [f"Episode_Termination/{term}" for term in ("time_out", "base_contact", "diverged")]
        names += [f"Metrics/base_velocity/error_vel_{part}" for part in ("xy", "yaw")]
        names += ["Curriculum/terrain_levels"] if "Rough" in task else []
        assert sorted(extras["log"]) == sorted(names)
        assert all(np.isfinite(value) for value in extras["log"].values())
        _, _, _, extras = env.step(zero_actions(env))
        assert set(extras) == {"time_outs", "final_obs", "progress"}

    @pytest.mark.parametrize("task", [FLAT, "Velocity-Rough-Anymal-B"])
    def test_episode_rewards(self, task: str) -> None:
        """The log holds the mean over the ended episodes of the sums of all terms, divided by 20 s."""
        env, generator = quiet_env(task, num_envs=10, seed=1), torch.Generator().manual_seed(0)
        env.episode_length_buf = torch.arange(10) * 5 + 940
        returns, sums = np.zeros(10), np.zeros((10, len(TERMS[task])))
        rate, last = np.zeros(10), np.zeros((10, 12))
        num_logs = 0
        for _ in range(70):
            actions = random_actions(env, generator)
            _, rewards, dones, extras = env.step(actions)
            returns += rewards.numpy()
            sums += env.rewards.last
            rate -= 0.01 * 0.02 * ((actions.numpy() - last) ** 2).sum(axis=1)
            last = actions.numpy().copy()
            assert ("log" in extras) == bool(dones.any())
            if "log" not in extras:
                continue
            ended, log = dones.numpy(), extras["log"]
            for column, name in enumerate(env.rewards.names):
                expected = sums[ended, column].mean() / 20.0
                assert log[f"Episode_Reward/{name}"] == pytest.approx(expected, rel=1e-4, abs=1e-7)
            assert log["Episode_Reward/action_rate_l2"] == pytest.approx(rate[ended].mean() / 20.0, rel=1e-4)
            total = sum(value for name, value in log.items() if name.startswith("Episode_Reward"))
            assert total == pytest.approx(returns[ended].mean() / 20.0, rel=1e-4)
            for array in (returns, sums, rate, last):
                array[ended] = 0.0
            num_logs += 1
        assert num_logs >= 10

    def test_metrics(self) -> None:
        """Errors of the velocity, summed over all steps but the last and divided by the 500 steps of a command."""
        env, generator = quiet_env(FLAT, num_envs=5), torch.Generator().manual_seed(0)
        env.episode_length_buf = torch.tensor([970, 970, 980, 0, 0])
        errors = np.zeros((5, 2))
        first_episode = np.ones(5, dtype=bool)
        num_logs = 0
        for _ in range(30):
            command = observe(env)[:, COMMAND]
            # The actions are small: a fall would begin an episode whose first command is not observed.
            _, _, dones, extras = env.step(0.1 * random_actions(env, generator))
            ended = dones.numpy()
            if bool((ended & first_episode).any()):
                expected = errors[ended].mean(axis=0)
                log = extras["log"]
                assert log["Metrics/base_velocity/error_vel_xy"] == pytest.approx(expected[0], rel=1e-4)
                assert log["Metrics/base_velocity/error_vel_yaw"] == pytest.approx(expected[1], rel=1e-4)
                num_logs += 1
            first_episode &= ~ended
            after = observe(env)
            errors[:, 0] += np.linalg.norm(command[:, :2] - after[:, :2], axis=1) / 500.0
            errors[:, 1] += np.abs(command[:, 2] - after[:, 5]) / 500.0
        assert num_logs == 2 and first_episode.sum() == 2

    def test_metrics_of_the_next_episode(self) -> None:
        """They begin at zero: an episode of one step has one error, in a robot at rest that of the command alone."""
        env = quiet_env(FLAT, num_envs=5)
        for _ in range(30):
            env.step(zero_actions(env))
        end_by_time(env, list(range(5)))
        env.step(zero_actions(env))
        forward = observe(env)[:, 9:11]
        assert (forward != 0.0).all()  # nobody stands, so the command has been this from the draw on
        end_by_time(env, list(range(5)))
        _, _, _, extras = env.step(zero_actions(env))
        expected = np.linalg.norm(forward, axis=1).mean() / 500.0
        assert extras["log"]["Metrics/base_velocity/error_vel_xy"] == pytest.approx(expected, rel=1e-4)
        assert 0.0 < extras["log"]["Metrics/base_velocity/error_vel_yaw"] <= 1.0 / 500.0


def test_reward_is_of_the_command_before_its_update() -> None:
    """A step is rewarded by the command that was observed before it, also when a new one is drawn in the step."""
    env, generator = quiet_env(FLAT, num_envs=64), torch.Generator().manual_seed(0)
    for _ in range(3):
        env.step(random_actions(env, generator))
    env.commands.steps_left[:] = 1
    before = observe(env)
    _, _, dones, extras = env.step(random_actions(env, generator))
    final = extras["final_obs"]["policy"].numpy()
    assert (final[~dones.numpy(), 9] != before[~dones.numpy(), 9]).all()
    for name, weight, command, velocity in (
        ("track_lin_vel_xy_exp", 1.5, before[:, 9:11], final[:, 0:2]),
        ("track_ang_vel_z_exp", 0.75, before[:, 11:12], final[:, 5:6]),
    ):
        expected = 0.02 * weight * np.exp(-((command - velocity) ** 2).sum(axis=1) / 0.25)
        np.testing.assert_allclose(env.rewards.last[:, env.rewards.names.index(name)], expected, rtol=1e-4)
