# SPDX-License-Identifier: BSD-3-Clause

"""Observations in Isaac Lab's order, with its noise."""

from __future__ import annotations

import numpy as np

from rsl_rl_sac.locomotion.robot import Robot
from rsl_rl_sac.locomotion.state import RobotState
from rsl_rl_sac.locomotion.terrain import Terrain, scan_points

SCAN_OFFSET = 0.5
"""Metres subtracted from the height of the scanner over the ground."""

NOISE = {
    "base_lin_vel": 0.1,
    "base_ang_vel": 0.2,
    "projected_gravity": 0.05,
    "velocity_commands": 0.0,
    "joint_pos": 0.01,
    "joint_vel": 1.5,
    "actions": 0.0,
    "height_scan": 0.1,
}
"""Half width of the uniform noise on each term."""


class Observations:
    """Layout and noise of the observations."""

    def __init__(self, robot: Robot, terrain: Terrain | None, noise: bool) -> None:
        """Lay the terms out.

        Args:
            robot: Robot.
            terrain: Terrain to scan; None leaves the height scan out.
            noise: Whether to add noise.
        """
        self.terms = self.sizes(robot, rough=terrain is not None)
        self.size = sum(self.terms.values())
        ends = np.cumsum(list(self.terms.values())).tolist()
        self.columns = {
            name: slice(end - size, end) for (name, size), end in zip(self.terms.items(), ends, strict=True)
        }
        self.terrain = terrain
        self._points = scan_points()
        widths = [np.full(size, 2.0 * NOISE[name], dtype=np.float32) for name, size in self.terms.items()]
        self._noise_width = np.concatenate(widths) if noise else None
        self._default_pos = robot.default_pos.astype(np.float32)

    @staticmethod
    def sizes(robot: Robot, rough: bool) -> dict[str, int]:
        """Return the terms and how many numbers each has."""
        joints = len(robot.joint_names)
        sizes = {"base_lin_vel": 3, "base_ang_vel": 3, "projected_gravity": 3, "velocity_commands": 3}
        sizes |= {"joint_pos": joints, "joint_vel": joints, "actions": joints}
        return sizes | {"height_scan": len(scan_points())} if rough else sizes

    def compute(
        self,
        state: RobotState,
        command: np.ndarray,
        action: np.ndarray,
        rng: np.random.Generator,
        rows: np.ndarray | slice = slice(None),
    ) -> np.ndarray:
        """Return new observations ``(rows, size)``.

        Args:
            state: State of the robots.
            command: Commands.
            action: Last actions.
            rng: Random generator of the noise.
            rows: Environments to observe.
        """
        columns = self.columns
        observation = np.empty((len(state.root_pos[rows]), self.size), dtype=np.float32)
        observation[:, columns["base_lin_vel"]] = state.lin_vel[rows]
        observation[:, columns["base_ang_vel"]] = state.ang_vel[rows]
        observation[:, columns["projected_gravity"]] = state.gravity[rows]
        observation[:, columns["velocity_commands"]] = command[rows]
        np.subtract(state.joint_pos[rows], self._default_pos, out=observation[:, columns["joint_pos"]])
        observation[:, columns["joint_vel"]] = state.joint_vel[rows]
        observation[:, columns["actions"]] = action[rows]
        if self.terrain is not None:
            observation[:, columns["height_scan"]] = self.scan(state, rows)
        if self._noise_width is not None:
            noise = rng.random(observation.shape, dtype=np.float32)
            noise -= 0.5
            noise *= self._noise_width
            observation += noise
        if self.terrain is not None:
            scan = observation[:, columns["height_scan"]]
            np.clip(scan, -1.0, 1.0, out=scan)
        return observation

    def scan(self, state: RobotState, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return the height of the scanner over each point of a grid that follows its yaw, less half a metre."""
        assert self.terrain is not None
        position, heading = state.scan_frame(rows)
        cos, sin = np.cos(heading)[:, None], np.sin(heading)[:, None]
        along, across = self._points.T
        x = position[:, :1] + cos * along - sin * across
        y = position[:, 1:2] + sin * along + cos * across
        return position[:, 2:] - SCAN_OFFSET - self.terrain.height_at(x, y)
