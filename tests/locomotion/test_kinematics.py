# SPDX-License-Identifier: BSD-3-Clause

"""Rotations against scipy, forward kinematics against MuJoCo."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rsl_rl_sac.locomotion.kinematics import (
    LinkChains,
    cross,
    rotate,
    rotate_inverse,
    rotation_matrices,
    wrap_to_pi,
)
from rsl_rl_sac.locomotion.registry import load_robot
from rsl_rl_sac.locomotion.robot import Robot
from rsl_rl_sac.locomotion.scene import build_spec, compile_model
from rsl_rl_sac.utils.errors import ConfigError

CHAINS = [
    ("unitree_h1", ["left_ankle_link", "right_ankle_link"]),
    ("unitree_h1", ["right_elbow_link", "left_ankle_link"]),
    ("unitree_h1", ["torso_link"]),
    ("unitree_g1", ["left_ankle_roll_link", "right_ankle_roll_link"]),
    ("unitree_g1", ["left_two_link", "right_two_link"]),
    ("unitree_g1", ["pelvis"]),
    ("anymal_d", ["LF_SHANK", "RF_SHANK", "LH_SHANK", "RH_SHANK"]),
]
"""Robots and bodies that are as many joints away from the base, among them none at all."""


def skewed(robot: Robot) -> Robot:
    """Return a robot whose bodies are turned and whose joint axes point anywhere, neither of them by unit vectors."""
    rng = np.random.default_rng(5)
    bodies = []
    for body in robot.bodies:
        quat = rng.normal(size=4)
        changed = replace(body, com=rng.normal(size=3).tolist())
        if body.joint is not None:
            joint = replace(body.joint, axis=(3.0 * rng.normal(size=3)).tolist())
            changed = replace(changed, joint=joint, quat=quat.tolist(), pos=rng.normal(size=3).tolist())
        bodies.append(changed)
    return replace(robot, bodies=bodies)


def random_states(robot: Robot, count: int) -> tuple[mujoco.MjModel, list[mujoco.MjData], np.ndarray, np.ndarray]:
    """Return robots in random states, and the joint positions and velocities in the order of the actions."""
    model = compile_model(robot, build_spec(robot))
    rng = np.random.default_rng(1)
    states = []
    for _ in range(count):
        data = mujoco.MjData(model)
        data.qpos[:] = rng.uniform(-2.0, 2.0, size=model.nq)
        data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
        data.qvel[:] = rng.uniform(-2.0, 2.0, size=model.nv)
        mujoco.mj_forward(model, data)
        states.append(data)
    names = robot.joint_names
    position = np.array([[data.joint(name).qpos[0] for name in names] for data in states], dtype=np.float32)
    velocity = np.array([[data.joint(name).qvel[0] for name in names] for data in states], dtype=np.float32)
    return model, states, position, velocity


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-14), (np.float32, 1e-6)])
def test_rotation_matrices(dtype: type, tolerance: float) -> None:
    """They are scipy's, for quaternions with the scalar first, and keep their precision."""
    quat = np.random.default_rng(0).normal(size=(100, 4))
    quat /= np.linalg.norm(quat, axis=1, keepdims=True)
    matrices = rotation_matrices(quat.astype(dtype))
    assert matrices.dtype == dtype
    expected = Rotation.from_quat(quat[:, [1, 2, 3, 0]]).as_matrix()
    np.testing.assert_allclose(matrices, expected, atol=tolerance)


def test_rotate() -> None:
    """From the body into the world and back, one vector or several per matrix."""
    turns = Rotation.from_quat(np.random.default_rng(2).normal(size=(20, 4)))
    vectors = np.random.default_rng(3).normal(size=(20, 4, 3))
    matrices = turns.as_matrix()
    np.testing.assert_allclose(rotate(matrices, vectors[:, 0]), turns.apply(vectors[:, 0]), atol=1e-14)
    np.testing.assert_allclose(
        rotate_inverse(matrices, vectors[:, 0]), turns.apply(vectors[:, 0], inverse=True), atol=1e-14
    )
    into_world, into_body = rotate(matrices[:, None], vectors), rotate_inverse(matrices[:, None], vectors)
    for i in range(20):
        np.testing.assert_allclose(into_world[i], turns[i].apply(vectors[i]), atol=1e-14)
        np.testing.assert_allclose(into_body[i], turns[i].apply(vectors[i], inverse=True), atol=1e-14)


def test_cross() -> None:
    """It is numpy's, broadcast over leading axes and without a change of the number type."""
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(7, 5, 3)), rng.normal(size=(7, 5, 3))
    np.testing.assert_allclose(cross(a, b), np.cross(a, b), atol=1e-15)
    np.testing.assert_allclose(cross(a, b[0, 0]), np.cross(a, b[0, 0]), atol=1e-15)
    assert cross(a.astype(np.float32), b.astype(np.float32)).dtype == np.float32
    assert cross(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])).tolist() == [0.0, 0.0, 1.0]


def test_wrap_to_pi() -> None:
    """Angles come into (-pi, pi], by hand and as the angle of their sine and cosine."""
    pi = np.pi
    angles = np.array([0.0, 1.0, -1.0, pi, -pi, 1.5 * pi, -1.5 * pi, 2.0 * pi, 4.0, -4.0, 5.0 * pi, 7.0])
    by_hand = [0.0, 1.0, -1.0, pi, pi, -0.5 * pi, 0.5 * pi, 0.0, 4.0 - 2.0 * pi, 2.0 * pi - 4.0, pi, 7.0 - 2.0 * pi]
    np.testing.assert_allclose(wrap_to_pi(angles), by_hand, atol=1e-12)
    angles = np.random.default_rng(0).uniform(-20.0, 20.0, size=1000)
    wrapped = wrap_to_pi(angles)
    np.testing.assert_allclose(wrapped, np.arctan2(np.sin(angles), np.cos(angles)), atol=1e-12)
    assert wrap_to_pi(angles.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize(("name", "bodies"), CHAINS)
@pytest.mark.parametrize("change", [False, True], ids=["robot", "skewed"])
def test_pose(name: str, bodies: list[str], change: bool) -> None:
    """Positions and rotations relative to the base are MuJoCo's."""
    robot = skewed(load_robot(name)) if change else load_robot(name)
    _, states, joint_pos, _ = random_states(robot, 6)
    position, rotation = LinkChains(robot, bodies).pose(joint_pos)
    assert position.shape == (6, len(bodies), 3)
    assert rotation.shape == (6, len(bodies), 3, 3)
    for i, data in enumerate(states):
        base = data.body(robot.base.name)
        base_rotation = base.xmat.reshape(3, 3)
        for j, body in enumerate(bodies):
            expected = base_rotation.T @ (data.body(body).xpos - base.xpos)
            np.testing.assert_allclose(position[i, j], expected, atol=1e-5)
            expected = base_rotation.T @ data.body(body).xmat.reshape(3, 3)
            np.testing.assert_allclose(rotation[i, j], expected, atol=1e-5)


@pytest.mark.parametrize(("name", "bodies"), CHAINS)
@pytest.mark.parametrize("change", [False, True], ids=["robot", "skewed"])
def test_velocity(name: str, bodies: list[str], change: bool) -> None:
    """Velocities of the centres of mass, in the axes of the base, are MuJoCo's."""
    robot = skewed(load_robot(name)) if change else load_robot(name)
    model, states, joint_pos, joint_vel = random_states(robot, 6)
    frames = [data.body(robot.base.name).xmat.reshape(3, 3) for data in states]
    # MuJoCo has the base's linear velocity in the world and its angular velocity in the body.
    linear = np.array([frame.T @ data.qvel[:3] for frame, data in zip(frames, states, strict=True)], dtype=np.float32)
    angular = np.array([data.qvel[3:6] for data in states], dtype=np.float32)
    before = linear.copy(), angular.copy()
    velocity = LinkChains(robot, bodies).velocity(linear, angular, joint_pos, joint_vel)
    assert velocity.shape == (6, len(bodies), 3)
    result = np.zeros(6)  # angular, then linear
    for i, data in enumerate(states):
        for j, body in enumerate(bodies):
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, data.body(body).id, result, 0)
            np.testing.assert_allclose(velocity[i, j], frames[i].T @ result[3:], atol=1e-4)
    assert np.array_equal(linear, before[0])  # the arguments stay as they are
    assert np.array_equal(angular, before[1])


def test_chains_of_unequal_length_are_refused() -> None:
    """The error names the robot and the bodies: one joint to the torso, five to an ankle."""
    with pytest.raises(ConfigError, match=r"unitree_h1: .*'torso_link', 'left_ankle_link'.* must be equal"):
        LinkChains(load_robot("unitree_h1"), ["torso_link", "left_ankle_link"])
