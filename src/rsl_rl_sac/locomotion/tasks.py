# SPDX-License-Identifier: BSD-3-Clause

"""The velocity tasks as numbers: rewards, commands and events of each family of robots.

Numbers are those of Isaac Lab 2.3.2 (BSD-3-Clause), ``Isaac-Velocity-{Flat,Rough}-*-v0``; the rough weights are the
paper's Tables B5 to B8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from rsl_rl_sac.locomotion.commands import CommandCfg
from rsl_rl_sac.locomotion.rewards import RewardTerm
from rsl_rl_sac.locomotion.scene import PhysicsCfg
from rsl_rl_sac.locomotion.terrain import TerrainCfg
from rsl_rl_sac.utils.errors import ConfigError

Range = tuple[float, float]


@dataclass(frozen=True)
class EventCfg:
    """What differs between environments and episodes."""

    base_mass: Range = (0.0, 0.0)
    """Mass added to the base of each environment, in kg."""
    base_com: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Largest shift of the base's centre of mass along x, y, z of each environment, in m."""
    reset_position: float = 0.5
    """Largest distance along x and y from the origin at reset, in m."""
    reset_yaw: float = 3.14
    """Largest yaw at reset, in rad."""
    reset_velocity: float = 0.0
    """Largest of each of the six base velocities at reset."""
    reset_joint_scale: Range = (1.0, 1.0)
    """Range of the factor on each default joint position at reset."""
    push_velocity: float = 0.0
    """Largest velocity added along x and y by a push, in m/s; 0 is no pushes."""
    push_interval: Range = (10.0, 15.0)
    """Range of the seconds between pushes."""

    def __post_init__(self) -> None:
        """Check the values."""
        for name in ("base_mass", "reset_joint_scale", "push_interval"):
            low, high = getattr(self, name)
            if not -math.inf < low <= high < math.inf:
                raise ConfigError(f"{name} must be a range, low <= high, got {(low, high)}.")
        if self.push_interval[0] <= 0.0:
            raise ConfigError(f"push_interval must be positive, got {self.push_interval}.")
        for name in ("reset_position", "reset_yaw", "reset_velocity", "push_velocity", "base_com"):
            value = getattr(self, name)
            if not all(0.0 <= size < math.inf for size in (value if name == "base_com" else (value,))):
                raise ConfigError(f"{name} must be finite and not negative, got {getattr(self, name)}.")


@dataclass(frozen=True)
class VelocityTaskCfg:
    """A velocity task."""

    robot: str
    """Name of the robot's data file, or a path to one."""
    rewards: dict[str, RewardTerm]
    """Reward terms by the name they are logged under."""
    terrain: TerrainCfg | None = None
    """Rough terrain; None is a plane."""
    commands: CommandCfg = field(default_factory=CommandCfg)
    """Velocity commands."""
    events: EventCfg = field(default_factory=EventCfg)
    """Randomisation, resets and pushes."""
    physics: PhysicsCfg = field(default_factory=PhysicsCfg)
    """Physics."""
    episode_length: float = 20.0
    """Seconds after which an episode ends by time."""
    observation_noise: bool = True
    """Whether observations are noisy."""
    curriculum: bool = True
    """Whether a robot's terrain level follows its progress; otherwise every end of an episode draws one."""
    max_initial_level: int = 5
    """Highest terrain level at the start."""

    def __post_init__(self) -> None:
        """Check the values that users change."""
        if not isinstance(self.episode_length, int | float) or not 0.0 < self.episode_length < math.inf:
            raise ConfigError(f"episode_length must be a positive number of seconds, got {self.episode_length!r}.")
        step = self.physics.time_step * self.physics.decimation
        if round(self.episode_length / step) < 1:
            raise ConfigError(f"episode_length is {self.episode_length!r} s, less than a control step of {step:g} s.")
        if round(self.commands.resampling_time / step) < 1:
            time = self.commands.resampling_time
            raise ConfigError(f"resampling_time is {time!r} s, less than a control step of {step:g} s.")
        if not isinstance(self.max_initial_level, int) or self.max_initial_level < 0:
            raise ConfigError(f"max_initial_level must be an integer >= 0, got {self.max_initial_level!r}.")


def _quadruped(**terms: RewardTerm) -> dict[str, RewardTerm]:
    return {
        "track_lin_vel_xy_exp": RewardTerm(1.0, "track_lin_vel_xy"),
        "track_ang_vel_z_exp": RewardTerm(0.5, "track_ang_vel_z"),
        "lin_vel_z_l2": RewardTerm(-2.0, "lin_vel_z"),
        "ang_vel_xy_l2": RewardTerm(-0.05, "ang_vel_xy"),
        "dof_torques_l2": RewardTerm(-1e-5, "joint_torques"),
        "dof_acc_l2": RewardTerm(-2.5e-7, "joint_accelerations"),
        "action_rate_l2": RewardTerm(-0.01, "action_rate"),
        "feet_air_time": RewardTerm(0.125, "feet_air_time", threshold=0.5),
        "flat_orientation_l2": RewardTerm(0.0, "flat_orientation"),
        **terms,
    }


def _humanoid(**terms: RewardTerm) -> dict[str, RewardTerm]:
    return {
        "termination_penalty": RewardTerm(-200.0, "is_terminated"),
        "track_lin_vel_xy_exp": RewardTerm(1.0, "track_lin_vel_xy_yaw_frame"),
        "track_ang_vel_z_exp": RewardTerm(1.0, "track_ang_vel_z_world"),
        "ang_vel_xy_l2": RewardTerm(-0.05, "ang_vel_xy"),
        "dof_acc_l2": RewardTerm(-1.25e-7, "joint_accelerations"),
        "action_rate_l2": RewardTerm(-0.005, "action_rate"),
        "feet_air_time": RewardTerm(0.25, "feet_air_time_biped", threshold=0.4),
        "feet_slide": RewardTerm(-0.25, "feet_slide"),
        "flat_orientation_l2": RewardTerm(-1.0, "flat_orientation"),
        "dof_pos_limits": RewardTerm(-1.0, "joint_pos_limits", joints="ankles"),
        "joint_deviation_hip": RewardTerm(-0.2, "joint_deviation", joints="hips_yaw_roll"),
        "joint_deviation_arms": RewardTerm(-0.2, "joint_deviation", joints="arms"),
        "joint_deviation_torso": RewardTerm(-0.1, "joint_deviation", joints="torso"),
        **terms,
    }


def anymal(robot: str, rough: bool) -> VelocityTaskCfg:
    """Return the task of ANYmal B and D."""
    rewards = _quadruped(undesired_contacts=RewardTerm(-1.0, "undesired_contacts"))
    if not rough:
        rewards = _reweight(rewards, flat_orientation_l2=-5.0, dof_torques_l2=-2.5e-5, feet_air_time=0.5)
    events = EventCfg(
        base_mass=(-5.0, 5.0),
        base_com=(0.05, 0.05, 0.01),
        reset_velocity=0.5,
        reset_joint_scale=(0.5, 1.5),
        push_velocity=0.5,
    )
    return VelocityTaskCfg(robot, rewards, TerrainCfg() if rough else None, events=events)


def unitree_quadruped(robot: str, rough: bool) -> VelocityTaskCfg:
    """Return the task of A1, Go1 and Go2, whose terrain is scaled down."""
    weights = {
        "track_lin_vel_xy_exp": 1.5,
        "track_ang_vel_z_exp": 0.75,
        "dof_torques_l2": -2e-4,
        "feet_air_time": 0.01 if rough else 0.25,
        "flat_orientation_l2": 0.0 if rough else -2.5,
    }
    terrain = TerrainCfg.small_robots() if rough else None
    return VelocityTaskCfg(robot, _reweight(_quadruped(), **weights), terrain, events=EventCfg(base_mass=(-1.0, 3.0)))


def h1(robot: str, rough: bool) -> VelocityTaskCfg:
    """Return the task of H1."""
    rewards = _humanoid()
    if not rough:
        rewards["feet_air_time"] = RewardTerm(1.0, "feet_air_time_biped", threshold=0.6)
    commands = CommandCfg(lin_vel_x=(0.0, 1.0), lin_vel_y=(0.0, 0.0))
    return VelocityTaskCfg(robot, rewards, TerrainCfg() if rough else None, commands=commands)


def g1(robot: str, rough: bool) -> VelocityTaskCfg:
    """Return the task of G1."""
    rewards = _humanoid(
        dof_torques_l2=RewardTerm(-1.5e-7, "joint_torques", joints="hips_knees_ankles"),
        dof_acc_l2=RewardTerm(-1.25e-7, "joint_accelerations", joints="hips_knees"),
        lin_vel_z_l2=RewardTerm(0.0, "lin_vel_z"),
        joint_deviation_fingers=RewardTerm(-0.05, "joint_deviation", joints="fingers"),
    )
    rewards = _reweight(
        rewards, track_ang_vel_z_exp=2.0, feet_slide=-0.1, joint_deviation_hip=-0.1, joint_deviation_arms=-0.1
    )
    if not rough:
        rewards["dof_torques_l2"] = RewardTerm(-2e-6, "joint_torques", joints="hips_knees")
        rewards = _reweight(rewards, track_ang_vel_z_exp=1.0, lin_vel_z_l2=-0.2, dof_acc_l2=-1e-7, feet_air_time=0.75)
    commands = CommandCfg(lin_vel_x=(0.0, 1.0), lin_vel_y=(0.0, 0.0) if rough else (-0.5, 0.5))
    return VelocityTaskCfg(robot, rewards, TerrainCfg() if rough else None, commands=commands)


def _reweight(rewards: dict[str, RewardTerm], **weights: float) -> dict[str, RewardTerm]:
    """Return the terms with other weights."""
    return {name: replace(term, weight=weights.get(name, term.weight)) for name, term in rewards.items()}
