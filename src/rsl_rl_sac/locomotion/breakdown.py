# SPDX-License-Identifier: BSD-3-Clause

"""An evaluation in detail: by direction of the command and, on rough terrain, by kind and level of the tiles.

The total is the evaluation rule itself, the number in every learning curve. For the directions, the same environments
run once more with commands that stay: full speed of the task's range in one direction, from the first step to the last.
Terrain is taken from the episodes of the total.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from rsl_rl_sac.envs.evaluation import EpisodeOutcomes, Policy
from rsl_rl_sac.locomotion.commands import CommandCfg
from rsl_rl_sac.locomotion.evaluation import Episodes, ScheduledCommand, Score, run_episodes
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv
from rsl_rl_sac.utils.errors import ConfigError


@dataclass
class Direction:
    """Outcome of the episodes with one command."""

    command: tuple[float, float, float]
    """Velocity forwards and to the left in m/s, turning speed in rad/s."""
    velocity: tuple[float, float, float]
    """Mean velocity of the robots, as long as they did not fall."""
    score: Score
    """Score."""

    @property
    def commanded_speed(self) -> float:
        """Size of the command."""
        return float(np.linalg.norm(self.command))

    @property
    def reached_speed(self) -> float:
        """Mean velocity along the command; the size of the drift where the command is to stand."""
        if self.commanded_speed == 0.0:
            return float(np.linalg.norm(self.velocity))
        return float(np.dot(self.command, self.velocity) / self.commanded_speed)


@dataclass
class Breakdown:
    """An evaluation in detail."""

    total: Score
    """The evaluation rule: commands of the task's whole range, a new one every ten seconds."""
    directions: dict[str, Direction]
    """By direction of the command."""
    terrains: dict[str, Score]
    """By kind of the tile on which the robot starts; empty on flat ground."""
    levels: dict[int, Score]
    """By level of the tile on which the robot starts; empty on flat ground."""
    episodes: Episodes
    """Each episode of the total."""

    def to_dict(self) -> dict:
        """Return plain values, for JSON."""
        return {
            "total": asdict(self.total),
            "directions": {name: asdict(direction) for name, direction in self.directions.items()},
            "terrains": {name: asdict(score) for name, score in self.terrains.items()},
            "levels": {str(level): asdict(score) for level, score in self.levels.items()},
            "episodes": {name: values.tolist() for name, values in vars(self.episodes).items()},
        }


class FixedCommand(ScheduledCommand):
    """A command for each environment that stays as it is: no new ones, no heading to turn to."""

    def __init__(self, cfg: CommandCfg, step_dt: float, velocity: np.ndarray) -> None:
        """Set the commands.

        Args:
            cfg: Ranges.
            step_dt: Seconds per control step.
            velocity: Velocity forwards, to the left and about the vertical axis of each environment ``(N, 3)``.
        """
        num_envs = len(velocity)
        super().__init__(cfg, num_envs, step_dt, num_commands=1)
        self._table = [(velocity.astype(np.float32), np.zeros(num_envs), np.zeros(num_envs, dtype=bool))]

    def update(self, heading: np.ndarray) -> None:
        """Keep the commands."""


def break_down(policy: Policy, env: VelocityEnv) -> Breakdown:
    """Evaluate a policy in detail.

    Args:
        policy: Deterministic policy.
        env: Environments of ``make_evaluation_env()``, at least one for each of :func:`directions`.
    """
    commands = directions(env.task.commands)
    if env.num_envs < len(commands):
        raise ConfigError(f"An evaluation in detail needs at least {len(commands)} episodes, got {env.num_envs}.")
    episodes, terrains, levels = run_episodes(policy, env), {}, {}
    if env.terrain is not None and env.levels is not None:
        kinds = np.array(env.terrain.column_types)[env.levels.columns]
        terrains = {str(kind): episodes.score(kinds == kind) for kind in dict.fromkeys(kinds)}
        levels = {int(level): episodes.score(episodes.levels == level) for level in np.unique(episodes.levels)}
    return Breakdown(episodes.score(), _by_direction(policy, env, commands), terrains, levels, episodes)


def directions(ranges: CommandCfg) -> dict[str, tuple[float, float, float]]:
    """Return full speed in each direction that a task commands, by name; a task without a direction leaves it out."""
    candidates = {
        "forward": (ranges.lin_vel_x[1], 0.0, 0.0),
        "back": (min(ranges.lin_vel_x[0], 0.0), 0.0, 0.0),
        "left": (0.0, ranges.lin_vel_y[1], 0.0),
        "right": (0.0, min(ranges.lin_vel_y[0], 0.0), 0.0),
        "turn left": (0.0, 0.0, ranges.ang_vel_z[1]),
        "turn right": (0.0, 0.0, min(ranges.ang_vel_z[0], 0.0)),
    }
    moving = {name: command for name, command in candidates.items() if any(command)}
    return {**moving, "stand": (0.0, 0.0, 0.0)}


def paired_difference(
    first: Episodes | EpisodeOutcomes, second: Episodes | EpisodeOutcomes, quantity: str
) -> tuple[float, float]:
    """Return by how much the second policy is above the first on the same episodes: the mean and its standard error.

    Args:
        first: Episodes of one policy.
        second: The same episodes of the other.
        quantity: Field of theirs; ``tracking`` is the mean of its two columns.
    """
    before, after = (np.asarray(getattr(episodes, quantity), dtype=np.float64) for episodes in (first, second))
    difference = (after - before).reshape(len(before), -1).mean(axis=1)
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference)))


def _by_direction(
    policy: Policy, env: VelocityEnv, commands: dict[str, tuple[float, float, float]]
) -> dict[str, Direction]:
    # Neighbours differ in direction, so that every direction meets every kind of terrain.
    group = np.arange(env.num_envs) % len(commands)
    scheduled = env.commands
    env.commands = FixedCommand(env.task.commands, env.step_dt, np.array(list(commands.values()))[group])
    try:
        episodes = run_episodes(policy, env)
    finally:
        env.commands = scheduled
    found = {}
    for number, (name, command) in enumerate(commands.items()):
        rows = group == number
        forward, left, turning = episodes.velocity[rows].mean(axis=0).tolist()
        found[name] = Direction(command, (forward, left, turning), episodes.score(rows))
    return found
