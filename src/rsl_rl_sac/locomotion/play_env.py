# SPDX-License-Identifier: BSD-3-Clause

"""Environments to look at: a ground and a command of the user's choice, no noise, no time-outs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rsl_rl_sac.locomotion.commands import CommandCfg, VelocityCommand
from rsl_rl_sac.locomotion.events import TerrainLevels
from rsl_rl_sac.locomotion.observations import Observations
from rsl_rl_sac.locomotion.registry import load_robot, task_cfg
from rsl_rl_sac.locomotion.terrain import SUB_TERRAINS, TerrainCfg
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv
from rsl_rl_sac.utils.errors import ConfigError

Command = tuple[float, float, float]
"""Forward speed and speed to the left in m/s, turning speed in rad/s."""

GROUNDS: tuple[str, ...] = ("flat", *SUB_TERRAINS)
"""Kinds of ground to play on."""

TOUR: tuple[Command, ...] = (
    (0.8, 0.0, 0.0),
    (0.6, 0.0, 0.8),
    (0.0, 0.6, 0.0),
    (-0.6, 0.0, 0.0),
    (0.0, 0.0, -0.8),
    (0.0, 0.0, 0.0),
)
"""Forwards, a left turn, sideways, backwards, turn on the spot, stand."""

NO_TIME_OUT = 86_400.0
"""Seconds of an episode, a day: while somebody watches, only a fall ends one."""

DEFAULT_LEVEL = 5
"""Difficulty of rough ground unless another is asked for."""

MAX_ROBOTS = 64
"""Most robots in a picture."""

SPACING = 1.2
"""Metres between robots."""

PLATE = 1.8
"""Metres across which robots stand on the plate in the centre of a rough tile, which is 2 m wide or more."""


@dataclass(frozen=True)
class Ground:
    """What the robots walk on."""

    kind: str = "flat"
    """One of :data:`GROUNDS`."""
    level: int = DEFAULT_LEVEL
    """Difficulty, from 0; flat ground has only one."""


class SteeredCommand(VelocityCommand):
    """One command for all robots, set from outside."""

    def __init__(self, cfg: CommandCfg, num_envs: int, step_dt: float, rng: np.random.Generator) -> None:
        """Begin with the command nearest to standing.

        Args:
            cfg: Ranges.
            num_envs: Number of environments.
            step_dt: Seconds per control step.
            rng: Random generator, of which nothing is drawn.
        """
        super().__init__(cfg, num_envs, step_dt, rng)
        self._target = np.zeros(3, dtype=np.float32)
        self.steer((0.0, 0.0, 0.0))

    @property
    def target(self) -> Command:
        """Present command."""
        x, y, turn = self._target.tolist()
        return x, y, turn

    def steer(self, command: Sequence[float]) -> None:
        """Set the command, moved into the ranges of the task; it takes effect with the next step.

        Raises:
            ConfigError: If it is not three finite numbers.
        """
        if len(command) != 3 or not all(math.isfinite(value) for value in command):
            raise ConfigError(f"A command is three finite numbers, got {tuple(command)}.")
        self._target[:] = nearest_command(command, self.cfg)

    def resample(self, rows: np.ndarray) -> None:
        """Give robots that begin anew the present command."""
        self.velocity[rows] = self._target

    def update(self, heading: np.ndarray) -> None:
        """Give all robots the present command."""
        self.velocity[:] = self._target


class TourCommand(SteeredCommand):
    """Commands one after another, for the same time each, then again from the first."""

    def __init__(
        self,
        cfg: CommandCfg,
        num_envs: int,
        step_dt: float,
        rng: np.random.Generator,
        commands: Sequence[Command],
        seconds: float,
    ) -> None:
        """Begin with the first command.

        Args:
            cfg: Ranges.
            num_envs: Number of environments.
            step_dt: Seconds per control step.
            rng: Random generator, of which nothing is drawn.
            commands: Commands.
            seconds: Length of the whole tour.
        """
        super().__init__(cfg, num_envs, step_dt, rng)
        self._commands = list(commands)
        self._steps_per_command = max(1, round(seconds / step_dt / len(commands)))
        self._num_steps = 0
        self.steer(self._commands[0])

    def update(self, heading: np.ndarray) -> None:
        """Advance by one control step."""
        self._num_steps += 1
        self.steer(self._commands[self._num_steps // self._steps_per_command % len(self._commands)])
        super().update(heading)


class FixedPlaces(TerrainLevels):
    """Robots that begin every episode at the same place, whatever their progress."""

    def __init__(self, origins: np.ndarray) -> None:
        """Keep the places.

        Args:
            origins: Places on the ground ``(N, 3)``.
        """
        self._origins = origins
        self.levels = np.zeros(len(origins), dtype=np.int64)

    def origins(self, rows: np.ndarray) -> np.ndarray:
        """Return where robots start."""
        return self._origins[rows]

    def update(self, rows: np.ndarray, position: np.ndarray, command: np.ndarray, episode_length: float) -> None:
        """Leave the robots where they are."""


def command_ranges(cfg: CommandCfg) -> list[tuple[float, float]]:
    """Return the lowest and highest forward speed, speed to the left and turning speed."""
    return [cfg.lin_vel_x, cfg.lin_vel_y, cfg.ang_vel_z]


def nearest_command(command: Sequence[float], cfg: CommandCfg) -> Command:
    """Return a command moved into the ranges of a task."""
    x, y, turn = np.clip(command, *np.transpose(command_ranges(cfg))).tolist()
    return x, y, turn


def check_command(command: Command, cfg: CommandCfg) -> None:
    """Refuse a command that the robot was not trained for.

    Raises:
        ConfigError: If a number is not finite or out of the task's range.
    """
    names = ("forward speed", "speed to the left", "turning speed")
    for name, value, (low, high) in zip(names, command, command_ranges(cfg), strict=True):
        if not low <= value <= high:  # a NaN fails this comparison too
            raise ConfigError(f"The {name} must be from {low:g} to {high:g} in this task, got {value:g}.")


def tour(cfg: CommandCfg) -> list[Command]:
    """Return the commands of :data:`TOUR` that a task allows, each once."""
    return list(dict.fromkeys(nearest_command(command, cfg) for command in TOUR))


def default_ground(task: str) -> Ground:
    """Return the ground to show a task on: stairs, if it has rough terrain."""
    return Ground("flat" if task_cfg(task).terrain is None else "pyramid_stairs")


def make_play_env(
    task: str, num_robots: int = 1, ground: Ground | None = None, num_threads: int | None = None, seed: int = 0
) -> VelocityEnv:
    """Make environments whose observations are those of a task, on any ground.

    A policy of a flat task does not see the ground, on none; one of a rough task sees it, also if it is flat. Robots
    stand side by side, look along x, pass through each other, and end an episode only by a fall,
    be it off the edge of the world, 100 m of level ground around rough one and a kilometre away elsewhere.

    Args:
        task: Task that the policy was trained on.
        num_robots: Number of robots.
        ground: Ground; None is that of :func:`default_ground`.
        num_threads: Threads of the physics; None takes one for each core this process may use.
        seed: Seed of terrain, masses and all else that is random.

    Raises:
        ConfigError: If there is no such task, ground or level, or if there are too many robots.
    """
    cfg = task_cfg(task)
    if not 1 <= num_robots <= MAX_ROBOTS:
        raise ConfigError(f"The number of robots must be from 1 to {MAX_ROBOTS}, got {num_robots}.")
    ground = ground or default_ground(task)
    terrain = _terrain_cfg(task, ground)
    sees_ground = cfg.terrain is not None
    cfg = replace(
        cfg,
        terrain=terrain,
        observation_noise=False,
        curriculum=False,
        episode_length=NO_TIME_OUT,
        events=replace(cfg.events, push_velocity=0.0, reset_position=0.0, reset_yaw=0.0),
    )
    env = VelocityEnv(cfg, load_robot(cfg.robot), num_robots, seed, num_threads=num_threads)
    if not sees_ground:
        env.observations = Observations(env.robot, None, noise=False)
    env.levels = FixedPlaces(_places(env, ground))
    env.commands = SteeredCommand(cfg.commands, num_robots, env.step_dt, env.rng)
    env.reset()
    return env


def num_levels(task: str) -> int:
    """Return how many levels the rough ground of a task's robot has."""
    return _rough_terrain(task).num_levels


def _rough_terrain(task: str) -> TerrainCfg:
    """Return the terrain of a task, or of the rough task of the same robot."""
    return task_cfg(task.replace("Velocity-Flat-", "Velocity-Rough-", 1)).terrain or TerrainCfg()


def _terrain_cfg(task: str, ground: Ground) -> TerrainCfg | None:
    """Return one column of tiles, from easy to hard; None is a plane."""
    if ground.kind not in GROUNDS:
        raise ConfigError(f"There is no ground '{ground.kind}'. Kinds of ground: {', '.join(GROUNDS)}.")
    rough = _rough_terrain(task)
    if not 0 <= ground.level < rough.num_levels:
        raise ConfigError(f"The level must be from 0 to {rough.num_levels - 1}, got {ground.level}.")
    if ground.kind == "flat" and task_cfg(task).terrain is None:
        return None
    # A policy that sees the ground needs some to see: a slope of 0.
    kind = "pyramid_slope" if ground.kind == "flat" else ground.kind
    slope = (0.0, 0.0) if ground.kind == "flat" else rough.slope
    return replace(rough, num_columns=1, slope=slope, proportions=tuple(float(name == kind) for name in SUB_TERRAINS))


def _places(env: VelocityEnv, ground: Ground) -> np.ndarray:
    """Return places in a square grid, on rough ground within the plate of the tile."""
    side = math.ceil(math.sqrt(env.num_envs))
    spacing = SPACING if ground.kind == "flat" else min(SPACING, PLATE / max(side - 1, 1))
    index = np.arange(env.num_envs)
    places = np.zeros((env.num_envs, 3))
    places[:, 0] = -(index // side) * spacing
    places[:, 1] = (index % side) * spacing
    places -= (places.max(axis=0) + places.min(axis=0)) / 2
    return places if env.terrain is None else places + env.terrain.origins[ground.level, 0]
