# SPDX-License-Identifier: BSD-3-Clause

"""What differs between environments and episodes: inertia, reset states, pushes, terrain levels."""

from __future__ import annotations

import numpy as np

from rsl_rl_sac.locomotion.kinematics import cross, rotate, rotate_inverse, rotation_matrices
from rsl_rl_sac.locomotion.physics import Physics
from rsl_rl_sac.locomotion.robot import Robot
from rsl_rl_sac.locomotion.scene import joint_addresses
from rsl_rl_sac.locomotion.tasks import EventCfg
from rsl_rl_sac.locomotion.terrain import Terrain
from rsl_rl_sac.utils.errors import ConfigError


class BaseInertia:
    """Mass and centre of mass of each environment's base, drawn once for the whole run."""

    def __init__(self, cfg: EventCfg, physics: Physics, rng: np.random.Generator) -> None:
        """Draw them.

        Args:
            cfg: Ranges.
            physics: Simulations, which take the values over.
            rng: Random generator.
        """
        model, count = physics.model, physics.num_envs
        self.physics = physics
        self.nominal_mass, self.nominal_inertia = float(model.body_mass[1]), model.body_inertia[1].copy()
        self.varies = cfg.base_mass != (0.0, 0.0) or any(cfg.base_com)
        if self.nominal_mass + cfg.base_mass[0] <= 0.0:
            raise ConfigError(
                f"The base weighs {self.nominal_mass:.3g} kg, from which events.base_mass = {cfg.base_mass} would leave"
                " nothing: choose a smaller range."
            )
        self.mass = self.nominal_mass + rng.uniform(*cfg.base_mass, size=count)
        self.com = model.body_ipos[1] + rng.uniform(-1.0, 1.0, size=(count, 3)) * np.array(cfg.base_com)
        self.apply()

    def apply(self) -> None:
        """Hand the values to the physics; the inertia grows with the mass."""
        if self.varies:
            inertia = self.nominal_inertia * (self.mass / self.nominal_mass)[:, None]
            self.physics.set_base_inertia(self.mass, self.com, inertia)


class ResetStates:
    """States at the beginning of an episode."""

    def __init__(self, cfg: EventCfg, robot: Robot, physics: Physics, base_com: np.ndarray) -> None:
        """Prepare the ranges.

        Args:
            cfg: Ranges.
            robot: Robot.
            physics: Simulations.
            base_com: Centre of mass of each base.
        """
        self.cfg = cfg
        self.robot = robot
        self.base_com = base_com
        self.physics = physics
        self.joint_addresses = joint_addresses(robot, physics.model)[0]

    def apply(self, rows: np.ndarray, origins: np.ndarray, rng: np.random.Generator) -> None:
        """Put robots near their origins, in a random pose and at a random velocity.

        Args:
            rows: Environments.
            origins: Their origins on the ground ``(rows, 3)``.
            rng: Random generator.
        """
        cfg, count, model = self.cfg, len(rows), self.physics.model
        qpos, qvel = np.zeros((count, model.nq)), np.zeros((count, model.nv))
        qpos[:, :3] = origins
        qpos[:, :2] += rng.uniform(-cfg.reset_position, cfg.reset_position, size=(count, 2))
        qpos[:, 2] += self.robot.base_height
        yaw = rng.uniform(-cfg.reset_yaw, cfg.reset_yaw, size=count)
        qpos[:, 3], qpos[:, 6] = np.cos(0.5 * yaw), np.sin(0.5 * yaw)
        scale = rng.uniform(*cfg.reset_joint_scale, size=(count, len(self.joint_addresses)))
        qpos[:, self.joint_addresses] = np.clip(self.robot.default_pos * scale, *self.robot.soft_limits)
        if cfg.reset_velocity:
            # Drawn in the world frame and for the centre of mass; MuJoCo wants the origin's, and turning in the body.
            velocity = rng.uniform(-cfg.reset_velocity, cfg.reset_velocity, size=(count, 6))
            rotation = rotation_matrices(qpos[:, 3:7])
            qvel[:, :3] = velocity[:, :3] - cross(velocity[:, 3:], rotate(rotation, self.base_com[rows]))
            qvel[:, 3:6] = rotate_inverse(rotation, velocity[:, 3:])
        self.physics.reset(rows, qpos, qvel)


class Pushes:
    """Sudden changes of the horizontal velocity, at random times."""

    def __init__(self, cfg: EventCfg, num_envs: int, step_dt: float, rng: np.random.Generator) -> None:
        """Create the timers, which run from the first :meth:`restart` on.

        Args:
            cfg: Sizes and times.
            num_envs: Number of environments.
            step_dt: Seconds per control step.
            rng: Random generator.
        """
        self.cfg = cfg
        self.step_dt = step_dt
        self.rng = rng
        self.time_left = np.full(num_envs, np.inf)

    def restart(self, rows: np.ndarray) -> None:
        """Draw the time to the next push."""
        if self.cfg.push_velocity:
            self.time_left[rows] = self.rng.uniform(*self.cfg.push_interval, size=len(rows))

    def update(self, physics: Physics) -> np.ndarray:
        """Advance by one control step; return the environments that were pushed."""
        self.time_left -= self.step_dt
        rows = np.flatnonzero(self.time_left < 1e-6)
        if len(rows):
            # Adds to the velocity, despite the name of Isaac Lab's function (push_by_setting_velocity).
            size = self.cfg.push_velocity
            physics.qvel[rows, :2] += self.rng.uniform(-size, size, size=(len(rows), 2))
            self.restart(rows)
        return rows


class TerrainLevels:
    """The tile of each environment: its column is fixed, its level follows the robot's progress."""

    def __init__(
        self, terrain: Terrain, num_envs: int, max_initial_level: int, curriculum: bool, rng: np.random.Generator
    ) -> None:
        """Draw the first levels.

        Args:
            terrain: Terrain.
            num_envs: Number of environments.
            max_initial_level: Highest first level.
            curriculum: Whether levels follow the progress; otherwise every end of an episode draws one.
            rng: Random generator.
        """
        self.terrain = terrain
        self.curriculum = curriculum
        self.rng = rng
        self.num_levels, num_columns = terrain.origins.shape[:2]
        self.columns = np.arange(num_envs) * num_columns // num_envs
        highest = min(max_initial_level, self.num_levels - 1) if curriculum else self.num_levels - 1
        self.levels = rng.integers(0, highest, size=num_envs, endpoint=True)

    def origins(self, rows: np.ndarray) -> np.ndarray:
        """Return where robots start."""
        return self.terrain.origins[self.levels[rows], self.columns[rows]]

    def update(self, rows: np.ndarray, position: np.ndarray, command: np.ndarray, episode_length: float) -> None:
        """Move robots up or down at the end of an episode.

        Up, if they walked farther than half a tile from its centre; else down, if they made less than half of the way
        that the command asks for in a full episode; from beyond the last level to any.

        Args:
            rows: Environments whose episode ended.
            position: Positions of their bases.
            command: Their commands.
            episode_length: Length of a full episode in seconds.
        """
        if not self.curriculum:
            self.levels[rows] = self.rng.integers(0, self.num_levels, size=len(rows))
            return
        distance = np.linalg.norm(position[:, :2] - self.origins(rows)[:, :2], axis=1)
        up = distance > 0.5 * self.terrain.cfg.tile_size
        down = (distance < 0.5 * episode_length * np.linalg.norm(command[:, :2], axis=1)) & ~up
        levels = self.levels[rows] + up - down
        anywhere = self.rng.integers(0, self.num_levels, size=len(rows))
        self.levels[rows] = np.where(levels >= self.num_levels, anywhere, np.maximum(levels, 0))
