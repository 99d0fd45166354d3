# SPDX-License-Identifier: BSD-3-Clause

"""Base inertia, reset states and pushes, by statistics, by hand and by MuJoCo."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch
from scipy import stats

from rsl_rl_sac.locomotion import VelocityEnv, make_env, task_cfg
from rsl_rl_sac.locomotion.robot import Robot
from tests.locomotion.velocity_helpers import (
    base_rotation,
    base_velocity,
    end_by_time,
    observe,
    zero_actions,
)

ANYMALS = ["Velocity-Flat-Anymal-B", "Velocity-Rough-Anymal-D"]
UNITREE_QUADRUPEDS = ["Velocity-Rough-Unitree-A1", "Velocity-Flat-Unitree-Go1", "Velocity-Flat-Unitree-Go2"]
HUMANOIDS = ["Velocity-Flat-Unitree-H1", "Velocity-Rough-Unitree-G1"]


def assert_uniform(values: np.ndarray, low: float, high: float) -> None:
    """Check that values are inside a range and spread evenly over all of it."""
    assert values.min() >= low and values.max() <= high
    # That the last ten of N equal parts of the range are all empty has a probability of exp(-10).
    margin = 10.0 * (high - low) / len(values)
    assert values.min() < low + margin and values.max() > high - margin
    assert stats.kstest(values, "uniform", args=(low, high - low)).pvalue > 1e-3


def models(env: VelocityEnv) -> list[mujoco.MjModel]:
    """Return the models that MuJoCo simulates, one for each environment."""
    return [env.physics.batch.get_model(row) for row in range(env.num_envs)]


def base_values(env: VelocityEnv) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mass, centre of mass and principal inertia of all bases, as MuJoCo has them."""
    parts = [(model.body_mass[1], model.body_ipos[1], model.body_inertia[1]) for model in models(env)]
    mass, com, inertia = zip(*parts, strict=True)
    return np.array(mass), np.array(com), np.array(inertia)


def principal_inertia(robot: Robot) -> np.ndarray:
    """Return the eigenvalues of the base's inertia in the data of the robot, largest first."""
    xx, yy, zz, xy, xz, yz = robot.base.inertia
    return np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])[::-1]


def joint_positions(env: VelocityEnv) -> np.ndarray:
    """Return the joint positions in the order of the robot's default pose, by name."""
    return np.stack(
        [env.physics.qpos[:, env.physics.model.joint(name).qposadr[0]] for name in env.robot.default_pose], 1
    )


class TestBaseInertia:
    """Mass and centre of mass differ between environments, not between episodes."""

    @pytest.mark.parametrize(
        ("robot", "low", "high"),
        [
            ("Anymal-B", -5.0, 5.0),
            ("Anymal-D", -5.0, 5.0),
            ("Unitree-A1", -1.0, 3.0),
            ("Unitree-Go1", -1.0, 3.0),
            ("Unitree-Go2", -1.0, 3.0),
        ],
    )
    def test_mass(self, robot: str, low: float, high: float) -> None:
        """The added mass is uniform, the inertia grows in proportion, and nothing else is heavier."""
        env = make_env(f"Velocity-Flat-{robot}", num_envs=300)
        mass, _, inertia = base_values(env)
        nominal = env.robot.base.mass
        assert_uniform(mass - nominal, low, high)
        expected = principal_inertia(env.robot) * (mass / nominal)[:, None]
        np.testing.assert_allclose(np.sort(inertia)[:, ::-1], expected, rtol=1e-6)
        others = [body.mass for body in env.robot.bodies[1:]]
        for row in (0, 150, 299):
            model = env.physics.batch.get_model(row)
            np.testing.assert_allclose(model.body_mass[2:], others)
            assert model.body_subtreemass[1] == pytest.approx(mass[row] + sum(others))  # derived by MuJoCo itself

    @pytest.mark.parametrize("robot", ["Anymal-B", "Anymal-D"])
    def test_centre_of_mass(self, robot: str) -> None:
        """ANYmal's moves by up to 5 cm along x and y and 1 cm along z, independently."""
        env = make_env(f"Velocity-Flat-{robot}", num_envs=300, seed=1)
        mass, com, _ = base_values(env)
        shift = com - env.robot.base.com
        for axis, largest in enumerate((0.05, 0.05, 0.01)):
            assert_uniform(shift[:, axis], -largest, largest)
        together = np.corrcoef(np.column_stack([mass, shift]).T)
        assert np.abs(together - np.eye(4)).max() < 0.2

    def test_rough_tasks_too(self) -> None:
        """The rough tasks draw from the same ranges."""
        env = make_env("Velocity-Rough-Anymal-D", num_envs=20)
        mass, com, _ = base_values(env)
        assert 3.0 < np.abs(mass - env.robot.base.mass).max() <= 5.0
        assert 0.03 < np.abs(com - env.robot.base.com).max() <= 0.05
        env = make_env("Velocity-Rough-Unitree-A1", num_envs=20)
        added = base_values(env)[0] - env.robot.base.mass
        assert -1.0 <= added.min() < 0.0 and 2.0 < added.max() <= 3.0

    @pytest.mark.parametrize("task", UNITREE_QUADRUPEDS)
    def test_centre_of_mass_stays(self, task: str) -> None:
        """That of the Unitree quadrupeds is as in the data."""
        env = make_env(task, num_envs=3)
        np.testing.assert_allclose(base_values(env)[1], np.tile(env.robot.base.com, (3, 1)))

    @pytest.mark.parametrize("task", HUMANOIDS)
    def test_humanoids_are_all_alike(self, task: str) -> None:
        """H1 and G1 are as in the data."""
        env = make_env(task, num_envs=3)
        mass, com, inertia = base_values(env)
        np.testing.assert_allclose(mass, env.robot.base.mass)
        np.testing.assert_allclose(com, np.tile(env.robot.base.com, (3, 1)))
        np.testing.assert_allclose(np.sort(inertia)[:, ::-1], np.tile(principal_inertia(env.robot), (3, 1)), rtol=1e-6)

    def test_once_per_run(self) -> None:
        """Resets, in a step or explicit, change nothing; another seed draws other values."""
        env = make_env("Velocity-Flat-Anymal-D", num_envs=20, seed=3)
        before = base_values(env)
        end_by_time(env, list(range(20)))
        env.step(zero_actions(env))
        env.reset()
        for old, new in zip(before, base_values(env), strict=True):
            assert np.array_equal(old, new)
        again, other = (make_env("Velocity-Flat-Anymal-D", num_envs=20, seed=seed) for seed in (3, 4))
        assert np.array_equal(base_values(again)[0], before[0])
        assert (base_values(other)[0] != before[0]).all()

    def test_physics_feels_it(self) -> None:
        """A step equals MuJoCo's own with each environment's model, and not that with the nominal one."""
        env = make_env("Velocity-Flat-Anymal-D", num_envs=4)
        qpos, qvel = env.physics.qpos.copy(), env.physics.qvel.copy()
        env.step(zero_actions(env))
        for row, model in enumerate(models(env)):
            results = []
            for simulated in (model, env.physics.model):
                data = mujoco.MjData(simulated)
                data.qpos[:], data.qvel[:] = qpos[row], qvel[row]
                data.ctrl[:12] = env.robot.default_pos
                for _ in range(4):
                    mujoco.mj_step(simulated, data)
                results.append(data.qvel.copy())
            np.testing.assert_allclose(results[0], env.physics.qvel[row], atol=1e-5)
            assert np.abs(results[1] - results[0]).max() > 1e-3


class TestResetStates:
    """States at the beginning of an episode."""

    @pytest.mark.parametrize("task", [*ANYMALS, *UNITREE_QUADRUPEDS, *HUMANOIDS])
    def test_pose_of_the_base(self, task: str) -> None:
        """Upright, within half a metre of the origin along x and y, turned anywhere, at the height of the data."""
        env = make_env(task, num_envs=300)
        end_by_time(env, list(range(150)))
        env.step(zero_actions(env))
        rows = np.arange(300) < 150  # those that were reset in the step
        origins = np.zeros((300, 3))
        if env.levels is not None and env.terrain is not None:
            origins = env.terrain.origins[env.levels.levels, env.levels.columns]
        offset = (env.physics.qpos[:, :3] - origins)[rows]
        np.testing.assert_allclose(offset[:, 2], env.robot.base_height, atol=1e-9)
        yaw, pitch, roll = base_rotation(env).as_euler("ZYX")[rows].T
        for values, largest in ((offset[:, 0], 0.5), (offset[:, 1], 0.5), (yaw, 3.14)):
            assert_uniform(values, -largest, largest)
        assert np.abs([pitch, roll]).max() < 1e-7

    @pytest.mark.parametrize("task", ANYMALS)
    def test_joints_of_anymal(self, task: str) -> None:
        """Every joint has its own factor from 0.5 to 1.5; hip abduction, whose default is 0, stays there."""
        env = make_env(task, num_envs=300)
        default = np.array(list(env.robot.default_pose.values()))
        bent = default != 0.0
        assert [name for name, angle in env.robot.default_pose.items() if angle == 0.0] == [
            f"{leg}_HAA" for leg in ("LF", "LH", "RF", "RH")
        ]
        positions = joint_positions(env)
        assert (positions[:, ~bent] == 0.0).all()
        factors = positions[:, bent] / default[bent]
        for column in factors.T:
            assert_uniform(column, 0.5, 1.5)
        assert np.abs(np.corrcoef(factors.T) - np.eye(8)).max() < 0.25
        assert (env.physics.qvel[:, 6:] == 0.0).all()

    def test_joints_are_clamped_to_soft_limits(self) -> None:
        """A knee whose range ends at 0.9 rad is put at 95 % of the range at most: half of 0.05 x 1.8 from its end."""
        env = make_env("Velocity-Flat-Anymal-D", num_envs=1)
        bodies = [
            replace(body, joint=replace(body.joint, range=[-0.9, 0.9])) if body.joint and "SHANK" in body.name else body
            for body in env.robot.bodies
        ]
        robot = replace(env.robot, bodies=bodies)
        narrow = VelocityEnv(env.task, robot, num_envs=300)
        knees = [i for i, name in enumerate(robot.default_pose) if name.endswith("KFE")]
        angles = np.abs(joint_positions(narrow)[:, knees])
        assert angles.max() == pytest.approx(0.855)
        assert (angles > 0.8549).mean() == pytest.approx((1.2 - 0.855) / 0.8, abs=0.05)

    @pytest.mark.parametrize("task", [*UNITREE_QUADRUPEDS, *HUMANOIDS])
    def test_other_robots_stand_still_in_the_default_pose(self, task: str) -> None:
        """Nothing moves, and joints are at their default, in G1's case moved into the soft limits at four fingers."""
        env = make_env(task, num_envs=10)
        expected = np.array(list(env.robot.default_pose.values()))
        for i, name in enumerate(env.robot.default_pose):
            if name in ("left_four_joint", "left_six_joint", "right_four_joint", "right_six_joint"):
                # From 0 to 1.84 rad, or minus that: the soft limits are the inner 90 %.
                expected[i] = 0.092 if name.startswith("right") else -0.092
        for _ in range(2):
            np.testing.assert_allclose(joint_positions(env), np.tile(expected, (10, 1)))
            assert (env.physics.qvel == 0.0).all()
            env.step(zero_actions(env))
            assert (env.physics.qvel != 0.0).any()
            env.reset()

    @pytest.mark.parametrize("task", ANYMALS)
    def test_velocity_of_anymal(self, task: str) -> None:
        """All six world velocities of the centre of mass, as MuJoCo computes them, are uniform up to 0.5."""
        env = make_env(task, num_envs=250, observation_noise=False)
        velocities = np.array([base_velocity(env, row) for row in range(250)])
        for component in velocities.T:
            assert_uniform(component, -0.5, 0.5)
        assert np.abs(np.corrcoef(velocities.T) - np.eye(6)).max() < 0.25
        # And it is what the robot observes, in its own frame.
        rotation = base_rotation(env)
        np.testing.assert_allclose(observe(env)[:, :3], rotation.inv().apply(velocities[:, 3:]), atol=1e-6)
        np.testing.assert_allclose(observe(env)[:, 3:6], rotation.inv().apply(velocities[:, :3]), atol=1e-6)


class TestPushes:
    """Sudden velocities, compared with a twin that is never pushed."""

    @staticmethod
    def twins(num_envs: int, seed: int = 0) -> tuple[VelocityEnv, VelocityEnv]:
        """Return two ANYmals in the same state, of which only the first is pushed."""
        task = "Velocity-Flat-Anymal-D"
        calm = replace(task_cfg(task).events, push_velocity=0.0)
        pushed = make_env(task, num_envs, seed, observation_noise=False)
        twin = make_env(task, num_envs, seed, observation_noise=False, events=calm)
        assert np.array_equal(pushed.physics.qvel, twin.physics.qvel)
        return pushed, twin

    def test_first_push_after_10_to_15_seconds(self) -> None:
        """Nothing happens in the first 499 steps; by step 750 all were pushed, along x and y only."""
        pushed, twin = self.twins(num_envs=6)
        first = np.zeros(6, dtype=int)
        for step in range(1, 751):
            _, _, dones, _ = pushed.step(zero_actions(pushed))
            twin.step(zero_actions(twin))
            assert not dones.any()  # a fall would restart the timer
            difference = pushed.physics.qvel - twin.physics.qvel
            new = (first == 0) & (difference != 0.0).any(axis=1)
            first[new] = step
            assert (difference[new][:, 2:] == 0.0).all() and (np.abs(difference[new][:, :2]) <= 0.5).all()
            assert np.array_equal(pushed.physics.qpos[new], twin.physics.qpos[new])
        assert first.min() >= 500 and len(set(first.tolist())) == 6

    def test_timer_is_drawn_at_resets_and_after_pushes(self) -> None:
        """The time to the next push is uniform from 10 to 15 s; the step of a reset is its first."""
        env = make_env("Velocity-Flat-Anymal-D", num_envs=300)
        assert_uniform(env.pushes.time_left, 10.0, 15.0)
        env.pushes.time_left[:] = 0.05
        end_by_time(env, list(range(150)))
        for _ in range(3):
            env.step(zero_actions(env))
        # Reset in step 1, then two steps more; pushed in step 3.
        assert_uniform(env.pushes.time_left[:150] + 3 * 0.02, 10.0, 15.0)
        assert_uniform(env.pushes.time_left[150:], 10.0, 15.0)
        before = env.pushes.time_left.copy()
        env.reset()
        assert (env.pushes.time_left != before).all()

    def test_adds_to_the_velocity_and_is_observed_at_once(self) -> None:
        """A robot that moves at 2 m/s goes on at 2 m/s plus the push, and the observation of that step shows it."""
        pushed, twin = self.twins(num_envs=300)
        for env in (pushed, twin):
            env.physics.qpos[:, 2] += 5.0
            env.physics.qvel[:, :3] += [2.0, -2.0, 0.0]
        pushed.pushes.time_left[:200] = 0.02
        results = [env.step(zero_actions(env)) for env in (pushed, twin)]
        size = pushed.physics.qvel - twin.physics.qvel
        assert_uniform(size[:200, 0], -0.5, 0.5)
        assert_uniform(size[:200, 1], -0.5, 0.5)
        assert abs(np.corrcoef(size[:200, :2].T)[0, 1]) < 0.2
        assert (size[:200, 2:] == 0.0).all() and (size[200:] == 0.0).all()
        velocities = np.array([base_velocity(pushed, row)[3:] for row in range(300)])
        observed = base_rotation(pushed).inv().apply(velocities)
        np.testing.assert_allclose(results[0][0]["policy"][:, :3].numpy(), observed, atol=1e-5)
        assert torch.equal(results[0][0]["policy"][200:], results[1][0]["policy"][200:])
        assert torch.equal(results[0][1], results[1][1])  # the reward is that of the state before

    @pytest.mark.parametrize("task", [*UNITREE_QUADRUPEDS, *HUMANOIDS])
    def test_none_for_unitree_robots(self, task: str) -> None:
        """No timer runs, also not after a reset."""
        env = make_env(task, num_envs=4)
        env.reset()
        assert np.isinf(env.pushes.time_left).all() and env.task.events.push_velocity == 0.0
