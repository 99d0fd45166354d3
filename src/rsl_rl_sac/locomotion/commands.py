# SPDX-License-Identifier: BSD-3-Clause

"""Velocity commands: what the robot is asked to do."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rsl_rl_sac.locomotion.kinematics import wrap_to_pi
from rsl_rl_sac.utils.errors import ConfigError


@dataclass(frozen=True)
class CommandCfg:
    """Ranges of the commands."""

    lin_vel_x: tuple[float, float] = (-1.0, 1.0)
    """Forward speed in m/s."""
    lin_vel_y: tuple[float, float] = (-1.0, 1.0)
    """Speed to the left in m/s."""
    ang_vel_z: tuple[float, float] = (-1.0, 1.0)
    """Turning speed in rad/s, to which heading control is clipped."""
    heading: tuple[float, float] = (-np.pi, np.pi)
    """Heading to turn to, in rad."""
    heading_stiffness: float = 0.5
    """Turning speed per rad of heading error."""
    standing_share: float = 0.02
    """Probability that a command is to stand."""
    resampling_time: float = 10.0
    """Seconds between commands."""

    def __post_init__(self) -> None:
        """Check the values."""
        for name in ("lin_vel_x", "lin_vel_y", "ang_vel_z", "heading"):
            low, high = getattr(self, name)
            if not -math.inf < low <= high < math.inf:
                raise ConfigError(f"{name} must be a range (low, high), got {getattr(self, name)}.")
        if not math.isfinite(self.heading_stiffness):
            raise ConfigError(f"heading_stiffness must be finite, got {self.heading_stiffness}.")
        if not 0.0 <= self.standing_share <= 1.0 or not 0.0 < self.resampling_time < math.inf:
            raise ConfigError("standing_share must be in [0, 1] and resampling_time a positive number of seconds.")


class VelocityCommand:
    """Commands of all environments."""

    def __init__(self, cfg: CommandCfg, num_envs: int, step_dt: float, rng: np.random.Generator) -> None:
        """Create commands that are all zero until the first :meth:`resample`.

        Args:
            cfg: Ranges.
            num_envs: Number of environments.
            step_dt: Seconds per control step.
            rng: Random generator.
        """
        self.cfg = cfg
        self.rng = rng
        self.resampling_steps = round(cfg.resampling_time / step_dt)
        self.velocity = np.zeros((num_envs, 3), dtype=np.float32)
        self.heading_target = np.zeros(num_envs, dtype=np.float32)
        self.standing = np.zeros(num_envs, dtype=bool)
        # Counted in steps: summing 0.02 s in float32 would miss the 10 s by a step.
        self.steps_left = np.zeros(num_envs, dtype=np.int64)

    def resample(self, rows: np.ndarray) -> None:
        """Draw new commands; heading control and standing take effect at the next :meth:`update`."""
        cfg, count = self.cfg, len(rows)
        low, high = np.array([cfg.lin_vel_x, cfg.lin_vel_y, cfg.ang_vel_z, cfg.heading], dtype=np.float32).T
        draw = low + (high - low) * self.rng.random((count, 4), dtype=np.float32)
        self.velocity[rows] = draw[:, :3]
        self.heading_target[rows] = draw[:, 3]
        self.standing[rows] = self.rng.random(count) <= cfg.standing_share
        self.steps_left[rows] = self.resampling_steps

    def update(self, heading: np.ndarray) -> None:
        """Advance by one control step: draw commands that are due, turn towards the heading, stand where asked.

        Args:
            heading: Present heading of the robots.
        """
        self.steps_left -= 1
        due = np.flatnonzero(self.steps_left <= 0)
        if len(due):
            self.resample(due)
        error = wrap_to_pi(self.heading_target - heading)
        self.velocity[:, 2] = np.clip(self.cfg.heading_stiffness * error, *self.cfg.ang_vel_z)
        self.velocity[self.standing] = 0.0

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the arrays that the future commands depend on."""
        names = ("velocity", "heading_target", "standing", "steps_left")
        return {name: getattr(self, name) for name in names}
