# SPDX-License-Identifier: BSD-3-Clause

"""Rotations and forward kinematics of many robots at once."""

from __future__ import annotations

import numpy as np

from rsl_rl_sac.locomotion.robot import Body, Robot
from rsl_rl_sac.utils.errors import ConfigError


def rotation_matrices(quat: np.ndarray) -> np.ndarray:
    """Return the rotation matrices ``(N, 3, 3)`` of unit quaternions (w, x, y, z)."""
    w, x, y, z = np.ascontiguousarray(quat.T)
    matrices = np.empty((3, 3, len(quat)), dtype=quat.dtype)
    x2, y2, z2 = x + x, y + y, z + z
    xx, yy, zz = x * x2, y * y2, z * z2
    xy, xz, yz = x * y2, x * z2, y * z2
    wx, wy, wz = w * x2, w * y2, w * z2
    matrices[0, 0] = 1.0 - (yy + zz)
    matrices[0, 1] = xy - wz
    matrices[0, 2] = xz + wy
    matrices[1, 0] = xy + wz
    matrices[1, 1] = 1.0 - (xx + zz)
    matrices[1, 2] = yz - wx
    matrices[2, 0] = xz - wy
    matrices[2, 1] = yz + wx
    matrices[2, 2] = 1.0 - (xx + yy)
    return np.ascontiguousarray(matrices.transpose(2, 0, 1))


def rotate(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Rotate vectors from the body into the world."""
    return np.matmul(matrices, vectors[..., None])[..., 0]


def rotate_inverse(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Rotate vectors from the world into the body."""
    return np.matmul(vectors[..., None, :], matrices)[..., 0, :]


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the cross product over the last axis; several times faster than numpy's on small arrays."""
    result = np.empty(np.broadcast_shapes(a.shape, b.shape), dtype=np.result_type(a, b))
    result[..., 0] = a[..., 1] * b[..., 2] - a[..., 2] * b[..., 1]
    result[..., 1] = a[..., 2] * b[..., 0] - a[..., 0] * b[..., 2]
    result[..., 2] = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return result


def wrap_to_pi(angle: np.ndarray) -> np.ndarray:
    """Return angles in (-pi, pi]."""
    return np.pi - np.remainder(np.pi - angle, 2.0 * np.pi)


class LinkChains:
    """Forward kinematics of some bodies of all robots.

    MuJoCo's own body poses and sensors describe the state before the last physics step; a task needs the state after.
    """

    def __init__(self, robot: Robot, bodies: list[str]) -> None:
        """Prepare the chains of joints from the base to each body, which must be equally long.

        Args:
            robot: Robot.
            bodies: Names of the bodies.
        """
        chains = [_chain(robot, body) for body in bodies]
        self.depth = len(chains[0])
        if any(len(chain) != self.depth for chain in chains):
            raise ConfigError(f"{robot.name}: the numbers of joints from the base to each of {bodies} must be equal.")
        shape = (len(bodies), self.depth, 3)
        self.com = np.array([_body(robot, body).com for body in bodies], dtype=np.float32)
        self.pos = np.array([[body.pos for body in chain] for chain in chains], dtype=np.float32).reshape(shape)
        quat = np.array([[body.quat for body in chain] for chain in chains], dtype=np.float32).reshape(-1, 4)
        self.frame = rotation_matrices(quat).reshape(len(bodies), self.depth, 3, 3)
        joints = [[body.joint for body in chain if body.joint] for chain in chains]
        axis = np.array([[joint.axis for joint in chain] for chain in joints], dtype=np.float32).reshape(shape)
        self.axis = axis / np.linalg.norm(axis, axis=-1, keepdims=True)
        names = robot.joint_names
        self.joints = np.array([[names.index(joint.name) for joint in chain] for chain in joints], dtype=np.intp)

    def pose(self, joint_pos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return positions ``(N, bodies, 3)`` and rotations ``(N, bodies, 3, 3)`` in the frame of the base."""
        count, bodies = len(joint_pos), len(self.com)
        frame = np.broadcast_to(np.eye(3, dtype=np.float32), (count, bodies, 3, 3))
        position = np.zeros((count, bodies, 3), dtype=np.float32)
        for i in range(self.depth):
            position += rotate(frame, self.pos[:, i])
            frame = frame @ self.frame[:, i] @ _axis_rotations(self.axis[:, i], joint_pos[:, self.joints[:, i]])
        return position, frame

    def velocity(
        self, lin_vel: np.ndarray, ang_vel: np.ndarray, joint_pos: np.ndarray, joint_vel: np.ndarray
    ) -> np.ndarray:
        """Return the velocities of the centres of mass ``(N, bodies, 3)``, in the axes of the base.

        Args:
            lin_vel: Velocity of the base's origin in its own axes.
            ang_vel: Angular velocity of the base in its own axes.
            joint_pos: Joint positions.
            joint_vel: Joint velocities.
        """
        count, bodies = len(joint_pos), len(self.com)
        angular = np.repeat(ang_vel[:, None], bodies, axis=1)
        linear = np.repeat(lin_vel[:, None], bodies, axis=1)
        frame = np.broadcast_to(np.eye(3, dtype=np.float32), (count, bodies, 3, 3))
        for i in range(self.depth):
            linear += cross(angular, rotate(frame, self.pos[:, i]))
            frame = frame @ self.frame[:, i]
            joint, axis = self.joints[:, i], self.axis[:, i]
            angular += rotate(frame, axis) * joint_vel[:, joint, None]
            frame = frame @ _axis_rotations(axis, joint_pos[:, joint])
        return linear + cross(angular, rotate(frame, self.com))


def _axis_rotations(axis: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Return rotation matrices about fixed axes ``(bodies, 3)`` by angles ``(N, bodies)`` (Rodrigues' formula)."""
    x, y, z = axis.T
    zero = np.zeros_like(x)
    skew = np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]]).transpose(2, 0, 1)
    sin, cos = np.sin(angle)[..., None, None], np.cos(angle)[..., None, None]
    return np.eye(3, dtype=angle.dtype) + sin * skew + (1.0 - cos) * (skew @ skew)


def _body(robot: Robot, name: str) -> Body:
    return next(body for body in robot.bodies if body.name == name)


def _chain(robot: Robot, name: str) -> list[Body]:
    """Return the bodies from below the base down to ``name``."""
    chain: list[Body] = []
    body = _body(robot, name)
    while body.parent is not None:
        chain.insert(0, body)
        body = _body(robot, body.parent)
    return chain
