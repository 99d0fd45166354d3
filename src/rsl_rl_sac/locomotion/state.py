# SPDX-License-Identifier: BSD-3-Clause

"""What observations, rewards and terminations read: the state of all robots in the order of the actions."""

from __future__ import annotations

import numpy as np

from rsl_rl_sac.locomotion.kinematics import LinkChains, cross, rotate, rotate_inverse, rotation_matrices
from rsl_rl_sac.locomotion.physics import HISTORY, Physics
from rsl_rl_sac.locomotion.robot import Robot
from rsl_rl_sac.locomotion.scene import joint_addresses, sensor_links
from rsl_rl_sac.utils.errors import ConfigError

CONTACT_THRESHOLD = 1.0
"""Newtons above which a link is in contact."""


class RobotState:
    """Quantities of all robots, derived from the physics in float32, joints in the order of the actions."""

    def __init__(self, robot: Robot, physics: Physics, base_com: np.ndarray) -> None:
        """Allocate the arrays.

        Args:
            robot: Robot.
            physics: Simulations.
            base_com: Centre of mass of each base in its own frame ``(N, 3)``.
        """
        num_envs, num_joints = physics.num_envs, len(robot.joint_names)
        self.physics = physics
        self.robot = robot
        self.base_com = base_com.astype(np.float32)
        self.physics_dt = physics.model.opt.timestep
        self._qpos_index, self._qvel_index = joint_addresses(robot, physics.model)
        self._links = sensor_links(robot)
        self.feet = self.link_indices(robot.foot_links)

        def zeros(*shape: int, dtype: type = np.float32) -> np.ndarray:
            return np.zeros((num_envs, *shape), dtype=dtype)

        self.root_pos, self.rotation = zeros(3), zeros(3, 3)
        self.lin_vel, self.ang_vel, self.gravity = zeros(3), zeros(3), zeros(3)
        self.joint_pos, self.joint_vel = zeros(num_joints), zeros(num_joints)
        self.joint_acc, self.joint_torque = zeros(num_joints), zeros(num_joints)
        self.contacts = zeros(physics.decimation, len(self._links), dtype=bool)
        self.air_time, self.contact_time = zeros(len(self.feet)), zeros(len(self.feet))
        self.last_air_time = zeros(len(self.feet))
        bodies = {body.name for body in robot.bodies}
        self._foot_chains = LinkChains(robot, robot.foot_links) if bodies.issuperset(robot.foot_links) else None
        self._scan_chain = LinkChains(robot, [robot.height_scan_body])

    def link_indices(self, links: list[str]) -> np.ndarray:
        """Return the columns of links in :attr:`contacts`."""
        return np.array([self._links.index(link) for link in links], dtype=np.intp)

    def after_step(self) -> None:
        """Take over the state after a control step, contacts and torques included."""
        self.after_change(slice(None))
        num_joints = len(self._qvel_index)
        previous = self.physics.previous_qvel[:, self._qvel_index]
        present = self.physics.qvel[:, self._qvel_index]
        self.joint_acc = ((present - previous) / self.physics_dt).astype(np.float32)
        sensors = self.physics.sensordata
        self.joint_torque = sensors[:, -1, :num_joints].astype(np.float32)
        force = sensors[:, :, num_joints:].reshape(*sensors.shape[:2], -1, 3)
        self.contacts = np.einsum("nslk,nslk->nsl", force, force) > CONTACT_THRESHOLD**2
        for step in range(self.contacts.shape[1]):
            self._advance_air_time(self.contacts[:, step][:, self.feet])

    def after_change(self, rows: np.ndarray | slice) -> None:
        """Take over positions and velocities of some robots, after a reset or a push."""
        qpos, qvel = self.physics.qpos[rows], self.physics.qvel[rows]
        self.root_pos[rows] = qpos[:, :3]
        rotation = rotation_matrices(qpos[:, 3:7].astype(np.float32))
        angular = qvel[:, 3:6].astype(np.float32)
        self.rotation[rows] = rotation
        self.ang_vel[rows] = angular
        # MuJoCo has the velocity of the body's origin; Isaac Lab observes that of its centre of mass.
        linear = rotate_inverse(rotation, qvel[:, :3].astype(np.float32))
        self.lin_vel[rows] = linear + cross(angular, self.base_com[rows])
        self.gravity[rows] = -rotation[:, 2]
        self.joint_pos[rows] = qpos[:, self._qpos_index]
        self.joint_vel[rows] = qvel[:, self._qvel_index]

    def clear_contacts(self, rows: np.ndarray) -> None:
        """Forget contacts and air times of some robots, at a reset."""
        for array in (self.contacts, self.air_time, self.contact_time, self.last_air_time):
            array[rows] = 0

    @property
    def heading(self) -> np.ndarray:
        """Direction of the root's x axis in the horizontal plane."""
        return np.arctan2(self.rotation[:, 1, 0], self.rotation[:, 0, 0])

    @property
    def lin_vel_world(self) -> np.ndarray:
        """Velocity of the base's centre of mass in the world frame."""
        return rotate(self.rotation, self.lin_vel)

    @property
    def lin_vel_yaw(self) -> np.ndarray:
        """Horizontal velocity of the base's centre of mass in the frame that shares only the root's yaw."""
        velocity, heading = self.lin_vel_world, self.heading
        cos, sin = np.cos(heading), np.sin(heading)
        forward = cos * velocity[:, 0] + sin * velocity[:, 1]
        left = cos * velocity[:, 1] - sin * velocity[:, 0]
        return np.stack([forward, left], axis=1)

    @property
    def ang_vel_z_world(self) -> np.ndarray:
        """Turning speed about the world's vertical."""
        return (self.rotation[:, 2] * self.ang_vel).sum(axis=1)

    @property
    def recent_contacts(self) -> np.ndarray:
        """Whether each link touched in any of the last three physics steps, or of all if a control step has fewer."""
        return np.any(self.contacts[:, -HISTORY:], axis=1)

    @property
    def first_contact(self) -> np.ndarray:
        """Whether each foot touched down during the last control step and still touches."""
        # The margin is far from both a physics step and the rounding of sums of it.
        longest = self.physics_dt * self.physics.decimation + 1e-4
        return np.logical_and(self.contact_time > 0.0, self.contact_time < longest)

    @property
    def foot_velocity(self) -> np.ndarray:
        """Velocity of the centre of mass of each foot body in the world frame ``(N, feet, 3)``."""
        if self._foot_chains is None:
            raise ConfigError(f"{self.robot.name}: the feet must be bodies of their own for their velocity to be read.")
        origin_velocity = self.lin_vel - cross(self.ang_vel, self.base_com)
        velocity = self._foot_chains.velocity(origin_velocity, self.ang_vel, self.joint_pos, self.joint_vel)
        return rotate(self.rotation[:, None], velocity)

    def scan_frame(self, rows: np.ndarray | slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Return position and heading of the body that carries the height scanner."""
        position, rotation = self.root_pos[rows], self.rotation[rows]
        if self._scan_chain.depth:
            offset, frame = self._scan_chain.pose(self.joint_pos[rows])
            position = position + rotate(rotation, offset[:, 0])
            rotation = rotation @ frame[:, 0]
        return position, np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0])

    def _advance_air_time(self, contact: np.ndarray) -> None:
        """Advance the air and contact times of the feet by one physics step."""
        landing = contact & (self.air_time > 0.0)
        self.air_time += self.physics_dt
        self.contact_time += self.physics_dt
        np.copyto(self.last_air_time, self.air_time, where=landing)
        self.air_time[contact] = 0.0
        self.contact_time[~contact] = 0.0
