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
        self.com = np.array([_body(robot, body).com for body in bodies], dtype=np.float32)
        # Index 0 runs over the joints, so that each step of a recursion reads one row.
        chains = list(zip(*chains, strict=True))
        joints = [[body.joint for body in level if body.joint] for level in chains]
        shape = (self.depth, len(bodies))
        names = robot.joint_names
        self.joints = np.array([[names.index(joint.name) for joint in level] for level in joints], dtype=np.intp)
        self.pos = np.array([[body.pos for body in level] for level in chains], dtype=np.float32).reshape(*shape, 3)
        axis = np.array([[joint.axis for joint in level] for level in joints], dtype=np.float32).reshape(*shape, 3)
        self._skew = _skew(axis / np.linalg.norm(axis, axis=-1, keepdims=True))
        quat = np.array([[body.quat for body in level] for level in chains], dtype=np.float32).reshape(-1, 4)
        quat /= np.linalg.norm(quat, axis=1, keepdims=True)  # as MuJoCo does
        frame = rotation_matrices(quat).reshape(*shape, 3, 3)
        # By Rodrigues' formula the rotation to the parent is frame (1 + sin(q) skew + (1 - cos(q)) skew^2).
        self._constant = frame + frame @ self._skew @ self._skew
        self._sine, self._cosine = frame @ self._skew, -frame @ self._skew @ self._skew

    def pose(self, joint_pos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return positions ``(N, bodies, 3)`` and rotations ``(N, bodies, 3, 3)`` in the frame of the base."""
        count, bodies = len(joint_pos), len(self.com)
        position = np.zeros((count, bodies, 3), dtype=np.float32)
        rotation = np.broadcast_to(np.eye(3, dtype=np.float32), (count, bodies, 3, 3))
        for i in reversed(range(self.depth)):
            to_parent = self._rotations(i, joint_pos)
            position = self.pos[i] + rotate(to_parent, position)
            rotation = to_parent @ rotation
        return position, rotation

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
        # From the body to the base, point and velocity side by side in the columns of one matrix: that takes no
        # products of rotations, and half the time of going from the base to the body.
        point = np.zeros((len(joint_pos), len(self.com), 3, 2), dtype=np.float32)
        point[..., 0] = self.com
        for i in reversed(range(self.depth)):
            turning = rotate(self._skew[i], point[..., 0])
            turning *= joint_vel[:, self.joints[i], None]
            point[..., 1] += turning
            point = self._rotations(i, joint_pos) @ point
            point[..., 0] += self.pos[i]
        return lin_vel[:, None] + cross(ang_vel[:, None], point[..., 0]) + point[..., 1]

    def _rotations(self, i: int, joint_pos: np.ndarray) -> np.ndarray:
        """Return the rotations from the bodies at depth ``i`` to their parents ``(N, bodies, 3, 3)``."""
        angle = joint_pos[:, self.joints[i], None, None]
        return self._constant[i] + np.sin(angle) * self._sine[i] + np.cos(angle) * self._cosine[i]


def _skew(vectors: np.ndarray) -> np.ndarray:
    """Return the matrices that multiply by vectors as the cross product does."""
    x, y, z = np.moveaxis(vectors, -1, 0)
    zero = np.zeros_like(x)
    return np.moveaxis(np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]]), (0, 1), (-2, -1))


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
