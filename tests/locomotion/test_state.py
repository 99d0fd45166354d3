# SPDX-License-Identifier: BSD-3-Clause

"""State of the robots against MuJoCo's own quantities, contacts and air times by hand."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rsl_rl_sac.locomotion import Robot, VelocityEnv, make_env
from rsl_rl_sac.locomotion.state import RobotState
from rsl_rl_sac.utils.errors import ConfigError
from tests.locomotion.velocity_helpers import forward, link_force

QUADRUPED, HUMANOID = "Velocity-Flat-Anymal-D", "Velocity-Flat-Unitree-G1"
ROBOTS = [QUADRUPED, "Velocity-Flat-Unitree-Go2", HUMANOID, "Velocity-Flat-Unitree-H1"]

JOINT_ORDER = {
    "Velocity-Flat-Anymal-D": "LF_HAA LH_HAA RF_HAA RH_HAA LF_HFE LH_HFE RF_HFE RH_HFE LF_KFE LH_KFE RF_KFE RH_KFE",
    "Velocity-Flat-Unitree-H1": (
        "left_hip_yaw right_hip_yaw torso left_hip_roll right_hip_roll left_shoulder_pitch right_shoulder_pitch"
        " left_hip_pitch right_hip_pitch left_shoulder_roll right_shoulder_roll left_knee right_knee left_shoulder_yaw"
        " right_shoulder_yaw left_ankle right_ankle left_elbow right_elbow"
    ),
}
"""Isaac Lab's order: breadth first over the kinematic tree."""


def make(task: str, num_envs: int = 4) -> VelocityEnv:
    """Make environments of a task, always the same."""
    return make_env(task, num_envs, seed=7, num_threads=1)


def tumble(env: VelocityEnv) -> None:
    """Throw the robots into the air, turned, turning and with moving joints, and let one control step pass."""
    rng = np.random.default_rng(11)
    physics, robot = env.physics, env.robot
    physics.qpos[:, :3] = rng.uniform([-1.0, -1.0, 3.0], [1.0, 1.0, 5.0], size=(env.num_envs, 3))
    quat = rng.normal(size=(env.num_envs, 4))
    physics.qpos[:, 3:7] = quat / np.linalg.norm(quat, axis=1, keepdims=True)
    physics.qvel[:] = rng.uniform(-2.0, 2.0, size=physics.qvel.shape)
    physics.step(robot.default_pos + rng.normal(size=(env.num_envs, env.num_actions)))
    env.state.after_step()


def body_velocity(model: mujoco.MjModel, data: mujoco.MjData, body: str) -> tuple[np.ndarray, np.ndarray]:
    """Return linear velocity of the centre of mass and angular velocity of a body, in the axes of the world."""
    result = np.zeros(6)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, data.body(body).id, result, 0)
    return result[3:], result[:3]


def feed(env: VelocityEnv, **contacts: str) -> None:
    """Let a control step pass in which links feel 5 N, in the physics steps marked ``x``; no other link feels any."""
    env.physics.step(env.robot.default_pos[None])
    sensors = env.physics.sensordata
    sensors[:] = 0.0
    for link, pattern in contacts.items():
        column = env.physics.model.sensor(f"contact/{link}").adr[0] + 2
        sensors[:, [mark == "x" for mark in pattern], column] = 5.0
    env.state.after_step()


@pytest.mark.parametrize("task", ROBOTS)
def test_base(task: str) -> None:
    """Velocities are those of the centre of mass, in the root frame and in the frame that only follows the yaw."""
    env = make(task)
    tumble(env)
    state, robot = env.state, env.robot
    yaw_frame, world, turning = state.lin_vel_yaw, state.lin_vel_world, state.ang_vel_z_world
    for row in range(env.num_envs):
        model, data = forward(env, row)
        linear, angular = body_velocity(model, data, robot.base.name)
        root = Rotation.from_matrix(data.body(robot.base.name).xmat.reshape(3, 3))
        np.testing.assert_allclose(state.root_pos[row], data.qpos[:3], atol=1e-5)
        np.testing.assert_allclose(state.rotation[row], root.as_matrix(), atol=1e-5)
        np.testing.assert_allclose(state.lin_vel[row], root.apply(linear, inverse=True), atol=1e-5)
        np.testing.assert_allclose(state.ang_vel[row], root.apply(angular, inverse=True), atol=1e-5)
        np.testing.assert_allclose(state.gravity[row], root.apply([0.0, 0.0, -1.0], inverse=True), atol=1e-5)
        np.testing.assert_allclose(world[row], linear, atol=1e-5)
        yaw = root.as_euler("ZYX")[0]
        assert state.heading[row] == pytest.approx(yaw, abs=1e-5)
        expected = Rotation.from_euler("z", yaw).apply(linear, inverse=True)[:2]
        np.testing.assert_allclose(yaw_frame[row], expected, atol=1e-5)
        assert turning[row] == pytest.approx(angular[2], abs=1e-5)


def test_centre_of_mass_of_each_base() -> None:
    """ANYmal's centres of mass are shifted in each environment, and the velocities follow."""
    env = make(QUADRUPED)
    tumble(env)
    shifts = [env.physics.batch.get_model(row).body_ipos[1] for row in range(env.num_envs)]
    assert np.abs(np.diff(shifts, axis=0)).max() > 0.01
    assert env.physics.model.body_ipos[1] == pytest.approx([-0.01644811, 0.0006821068, -0.01195417])
    state = env.state
    origin = np.array([state.rotation[row].T @ env.physics.qvel[row, :3] for row in range(env.num_envs)])
    np.testing.assert_allclose(state.lin_vel - origin, np.cross(env.physics.qvel[:, 3:6], shifts), atol=1e-5)


@pytest.mark.parametrize("task", ROBOTS)
def test_joints_by_name(task: str) -> None:
    """Positions and velocities are in the order of the robot's joint names, which is not that of the tree."""
    env = make(task)
    tumble(env)
    names = JOINT_ORDER[task].split() if task in JOINT_ORDER else env.robot.joint_names
    for row in range(env.num_envs):
        data = env.physics.batch.get_data(row)
        position = [data.joint(name).qpos[0] for name in names]
        assert not np.allclose(position, data.qpos[7:], atol=1e-3)
        np.testing.assert_allclose(env.state.joint_pos[row], position, atol=1e-6)
        np.testing.assert_allclose(env.state.joint_vel[row], [data.joint(name).qvel[0] for name in names], rtol=1e-5)


@pytest.mark.parametrize("task", ROBOTS)
def test_step_by_step(task: str) -> None:
    """Accelerations, torques and contacts are those of four single steps of MuJoCo, until robots fall."""
    env = make(task, 3)
    robot, names, physics, state = env.robot, env.robot.joint_names, env.physics, env.state
    links = [*robot.foot_links, *robot.termination_links, *robot.undesired_contact_links]
    columns = [physics.model.sensor(f"contact/{link}").adr[0] for link in links]
    # The first robot falls on its back or its face, for contacts of the trunk.
    physics.qpos[0, 2:7] = [0.3, 0.0, 1.0, 0.0, 0.0] if robot.kind == "quadruped" else [0.5, 0.7071, 0.0, 0.7071, 0.0]
    rng = np.random.default_rng(3)
    seen = np.zeros(len(links), dtype=int)
    limited = 0
    for _ in range(25):
        targets = robot.default_pos + rng.normal(size=(env.num_envs, env.num_actions))
        models = [physics.batch.get_model(row) for row in range(env.num_envs)]
        singles = [physics.batch.get_data(row) for row in range(env.num_envs)]
        physics.step(targets)
        state.after_step()
        for row, (model, data) in enumerate(zip(models, singles, strict=True)):
            data.ctrl[: len(names)] = targets[row]
            forces = np.zeros((4, len(links)))
            before, positions = np.zeros(len(names)), np.zeros(len(names))
            for step in range(4):
                before = np.array([data.joint(name).qvel[0] for name in names])
                positions = np.array([data.joint(name).qpos[0] for name in names])
                mujoco.mj_step(model, data)
                forces[step] = [link_force(model, data, robot, link) for link in links]
            after = np.array([data.joint(name).qvel[0] for name in names])
            np.testing.assert_allclose(state.joint_acc[row], (after - before) / 0.005, rtol=1e-5, atol=1e-3)
            torque, clipped = applied_torque(robot, targets[row], positions, before)
            limited += clipped
            np.testing.assert_allclose(state.joint_torque[row], torque, rtol=1e-4, atol=1e-4)
            sensed = [np.linalg.norm(physics.sensordata[row, :, column : column + 3], axis=1) for column in columns]
            np.testing.assert_allclose(np.transpose(sensed), forces, rtol=1e-5, atol=1e-5)
            assert np.array_equal(state.contacts[row][:, state.link_indices(links)], forces > 1.0)
            seen += (forces > 1.0).any(axis=0)
    assert seen[: len(robot.foot_links) + 1].min() > 2
    assert limited > 0


def applied_torque(
    robot: Robot, target: np.ndarray, position: np.ndarray, velocity: np.ndarray
) -> tuple[np.ndarray, int]:
    """Return torques by the formulas of the actuators, and how many were clipped."""
    motors = [robot.actuator_of(name) for name in robot.joint_names]
    stiffness, damping, limit = np.array([(m.stiffness, m.damping, m.effort_limit) for m in motors]).T
    wanted = stiffness * (target - position) - damping * velocity
    low, high = -limit, limit
    if motors[0].model == "dc_motor":
        stall, speed = np.array([(m.saturation_effort, m.velocity_limit) for m in motors]).T
        # The bounds fall with the speed, down to the limit on the other side.
        low = np.clip(stall * (-1.0 - velocity / speed), -limit, limit)
        high = np.clip(stall * (1.0 - velocity / speed), -limit, limit)
    torque = np.clip(wanted, low, high)
    return torque, int((torque != wanted).sum())


@pytest.mark.parametrize(
    ("force", "touches"),
    [((0.0, 0.0, 1.01), True), ((0.0, 0.0, 0.99), False), ((0.8, -0.7, 0.0), True), ((0.6, -0.6, 0.5), False)],
)
def test_contact_threshold(force: tuple[float, float, float], touches: bool) -> None:
    """More than 1 N in any direction is a contact: 0.8 and 0.7 are 1.06 together, 0.6, 0.6 and 0.5 are 0.98."""
    env = make(QUADRUPED, 2)
    feed(env)
    address = env.physics.model.sensor("contact/RF_THIGH").adr[0]
    env.physics.sensordata[1, :, address : address + 3] = force
    env.state.after_step()
    expected = np.zeros_like(env.state.contacts)
    expected[1][:, env.state.link_indices(["RF_THIGH"])] = touches
    assert np.array_equal(env.state.contacts, expected)


@pytest.mark.parametrize(("pattern", "seen"), [("x...", False), (".x..", True), ("..x.", True), ("...x", True)])
def test_contact_history(pattern: str, seen: bool) -> None:
    """Of four physics steps only the last three are looked at."""
    env = make(HUMANOID, 2)
    feed(env, torso_link=pattern)
    assert env.state.recent_contacts[:, env.state.link_indices(["torso_link"])].tolist() == [[seen], [seen]]
    feed(env)
    assert not env.state.recent_contacts.any()


def test_air_time() -> None:
    """Times advance by 5 ms per physics step, on a pattern of two feet over seven control steps."""
    env = make(HUMANOID, 2)
    state = env.state
    state.clear_contacts(np.arange(2))
    # Contacts of the left and right foot; air, contact and last air time of each in ms; which just touched down.
    steps = [
        ("xxxx", "....", (0, 20), (20, 0), (0, 0), (True, False)),  # a contact without an air time before it
        ("x...", "...x", (15, 0), (0, 5), (0, 40), (False, True)),  # the step of landing counts as air: 7 + 1
        ("..x.", "xxxx", (5, 0), (0, 25), (30, 40), (False, False)),  # gone again; touched for longer than a step
        (".xxx", "xx.x", (0, 0), (15, 5), (15, 10), (True, True)),  # 1 + 1 + 1 in the air; 1 + 1
        ("xxxx", "xxxx", (0, 0), (35, 25), (15, 10), (False, False)),
        ("....", ".xxx", (20, 0), (0, 15), (15, 10), (False, True)),
        ("xxxx", "....", (0, 20), (20, 0), (25, 10), (True, False)),  # landed in the first of the four: 4 + 1
    ]
    for left, right, air, contact, last_air, first in steps:
        feed(env, left_ankle_roll_link=left, right_ankle_roll_link=right)
        for row in range(2):
            np.testing.assert_allclose(state.air_time[row], np.array(air) / 1000.0, atol=1e-6)
            np.testing.assert_allclose(state.contact_time[row], np.array(contact) / 1000.0, atol=1e-6)
            np.testing.assert_allclose(state.last_air_time[row], np.array(last_air) / 1000.0, atol=1e-6)
            assert tuple(state.first_contact[row]) == first


def test_long_air_time() -> None:
    """Half a second is a hundred physics steps, without a step too many or too few by rounding."""
    env = make(QUADRUPED, 2)
    env.state.clear_contacts(np.arange(2))
    for _ in range(25):
        feed(env)
    feed(env, LF_FOOT="xxxx")
    np.testing.assert_allclose(env.state.last_air_time[:, 0], 0.505, atol=1e-5)
    np.testing.assert_allclose(env.state.air_time[:, 1:], 0.52, atol=1e-5)
    assert env.state.first_contact.tolist() == [[True, False, False, False]] * 2


def test_clear_contacts() -> None:
    """Only the given robots forget, and they forget everything about contacts."""
    env = make(HUMANOID, 3)
    state = env.state
    state.clear_contacts(np.arange(3))
    feed(env, left_ankle_roll_link="....", torso_link="xxxx")
    feed(env, left_ankle_roll_link=".xxx", torso_link="xxxx")
    state.clear_contacts(np.array([1]))
    for array in (state.air_time, state.contact_time, state.last_air_time, state.contacts):
        assert not array[1].any()
        assert array[0].any()
        assert np.array_equal(array[0], array[2])
    assert state.recent_contacts.any(axis=1).tolist() == [True, False, True]


def test_only_changed_robots_are_read() -> None:
    """After a reset or a push of some robots the others keep what they had."""
    env = make(QUADRUPED)
    tumble(env)
    state = env.state
    names = ("root_pos", "rotation", "lin_vel", "ang_vel", "gravity", "joint_pos", "joint_vel")
    before = {name: getattr(state, name).copy() for name in names}
    env.physics.qpos[:] = np.roll(env.physics.qpos, 1, axis=0)
    env.physics.qvel[:] = np.roll(env.physics.qvel, 1, axis=0)
    state.after_change(np.array([2]))
    for name in set(names) - {"lin_vel"}:
        expected = before[name].copy()
        expected[2] = before[name][1]
        np.testing.assert_allclose(getattr(state, name), expected, atol=1e-6)
    assert [np.array_equal(state.lin_vel[row], before["lin_vel"][row]) for row in range(4)] == [True, True, False, True]


@pytest.mark.parametrize("task", [HUMANOID, "Velocity-Flat-Unitree-H1"])
def test_foot_velocity(task: str) -> None:
    """Velocities of the centres of mass of the foot bodies in the world are MuJoCo's."""
    env = make(task)
    tumble(env)
    velocity = env.state.foot_velocity
    for row in range(env.num_envs):
        model, data = forward(env, row)
        expected = [body_velocity(model, data, link)[0] for link in env.robot.foot_links]
        np.testing.assert_allclose(velocity[row], expected, atol=1e-4)


def test_feet_without_bodies_have_no_velocity() -> None:
    """ANYmal's feet are part of its shanks; the error says so."""
    with pytest.raises(ConfigError, match=r"anymal_d: the feet must be bodies"):
        _ = make(QUADRUPED).state.foot_velocity


@pytest.mark.parametrize("body", ["torso_link", "left_elbow_pitch_link"])
def test_scan_frame_follows_the_waist(body: str) -> None:
    """The scanner's body is not the base: its position and yaw follow the joints in between."""
    env = make(HUMANOID)
    tumble(env)
    state = RobotState(replace(env.robot, height_scan_body=body), env.physics, env.base_inertia.com)
    state.after_step()
    position, heading = state.scan_frame()
    for row in range(env.num_envs):
        frame = forward(env, row)[1].body(body)
        np.testing.assert_allclose(position[row], frame.xpos, atol=1e-5)
        assert heading[row] == pytest.approx(np.arctan2(frame.xmat[3], frame.xmat[0]), abs=1e-4)
    some_position, some_heading = state.scan_frame(np.array([2, 0]))
    np.testing.assert_allclose(some_position, position[[2, 0]], atol=1e-6)
    np.testing.assert_allclose(some_heading, heading[[2, 0]], atol=1e-6)


def test_turned_waist_by_hand() -> None:
    """An upright robot that heads along y and turns its waist by -0.5 rad scans along 90 degrees less 0.5 rad."""
    env = make(HUMANOID, 1)
    env.physics.qpos[0, 3:7] = [np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)]
    address = env.physics.model.joint("torso_joint").qposadr[0]
    env.physics.qpos[0, address] = -0.5
    env.state.after_change(slice(None))
    position, heading = env.state.scan_frame()
    np.testing.assert_allclose(position, env.physics.qpos[:, :3], atol=1e-6)
    assert env.state.heading[0] == pytest.approx(np.pi / 2.0)
    assert heading[0] == pytest.approx(np.pi / 2.0 - 0.5)


def test_scan_frame_of_a_quadruped() -> None:
    """The scanner is the base."""
    env = make(QUADRUPED)
    tumble(env)
    position, heading = env.state.scan_frame()
    np.testing.assert_allclose(position, env.physics.qpos[:, :3], atol=1e-6)
    np.testing.assert_allclose(heading, env.state.heading)
