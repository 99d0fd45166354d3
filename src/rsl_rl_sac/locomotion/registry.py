# SPDX-License-Identifier: BSD-3-Clause

"""Names of the tasks."""

from __future__ import annotations

import difflib
import os
import runpy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from rsl_rl_sac.locomotion import tasks
from rsl_rl_sac.locomotion.robot import Robot
from rsl_rl_sac.locomotion.tasks import VelocityTaskCfg
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv
from rsl_rl_sac.utils.errors import ConfigError

TERRAINS = ("Flat", "Rough")
"""Kinds of terrain, as in the names of the tasks."""


@dataclass(frozen=True)
class RobotEntry:
    """A robot and the family of tasks it has."""

    file: str
    """Name of a data file of this package, or a path to one."""
    family: Callable[[str, bool], VelocityTaskCfg]
    """Function of :mod:`rsl_rl_sac.locomotion.tasks`: rewards, commands and events, given rough or flat."""


ROBOTS: dict[str, RobotEntry] = {
    "Anymal-B": RobotEntry("anymal_b", tasks.anymal),
    "Anymal-D": RobotEntry("anymal_d", tasks.anymal),
    "Unitree-A1": RobotEntry("unitree_a1", tasks.unitree_quadruped),
    "Unitree-Go1": RobotEntry("unitree_go1", tasks.unitree_quadruped),
    "Unitree-Go2": RobotEntry("unitree_go2", tasks.unitree_quadruped),
    "Unitree-H1": RobotEntry("unitree_h1", tasks.h1),
    "Unitree-G1": RobotEntry("unitree_g1", tasks.g1),
}
"""Robots by the name they have in tasks."""

OWN_ROBOTS = "RSL_RL_SAC_ROBOTS"
"""Environment variable with Python files that register robots, separated like the folders of PATH."""

_files_run: set[str] = set()


def register_robot(name: str, file: str | Path, family: Callable[[str, bool], VelocityTaskCfg]) -> None:
    """Add a robot, which gives it a flat and a rough task.

    Args:
        name: Name in the names of the tasks.
        file: Path of its data file.
        family: Function of :mod:`rsl_rl_sac.locomotion.tasks`, or one of your own.

    Raises:
        ConfigError: If the name is taken by another robot.
    """
    entry = RobotEntry(str(Path(file).resolve()), family)
    if ROBOTS.get(name, entry) != entry:
        raise ConfigError(f"There is a robot '{name}' already, of {ROBOTS[name].file}: choose another name.")
    ROBOTS[name] = entry


def task_names() -> list[str]:
    """Return the names of all tasks."""
    _register_own_robots()
    return [f"Velocity-{terrain}-{robot}" for robot in ROBOTS for terrain in TERRAINS]


def task_cfg(task: str) -> VelocityTaskCfg:
    """Return the configuration of a task.

    Raises:
        ConfigError: If there is no such task; the message names the closest.
    """
    _register_own_robots()
    for terrain in TERRAINS:
        robot = task.removeprefix(f"Velocity-{terrain}-")
        if robot != task and robot in ROBOTS:
            entry = ROBOTS[robot]
            return entry.family(entry.file, terrain == "Rough")
    near = nearest_tasks(task)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise ConfigError(f"There is no task '{task}'.{hint} rsl-rl-sac list shows all.")


def nearest_tasks(name: str) -> list[str]:
    """Return up to three tasks that somebody who typed a name may mean."""
    names = {task.lower(): task for task in task_names()}
    # Who types go2 means one of two tasks, which its letters alone are far from.
    parts = [task for task in names if name and name.lower() in task]
    near = parts or difflib.get_close_matches(name.lower(), names, n=3)
    return [names[task] for task in near[:3]]


def load_robot(name_or_path: str) -> Robot:
    """Return a robot by the name of a data file of this package, or by the path of one."""
    path = Path(name_or_path)
    if path.suffix != ".json":
        path = Path(__file__).parent / "robots" / f"{name_or_path}.json"
    return _load(path)


def make_env(
    task: str,
    num_envs: int,
    seed: int = 0,
    device: str = "cpu",
    num_threads: int | None = None,
    **overrides: object,
) -> VelocityEnv:
    """Make the environments of a task.

    Args:
        task: Name of the task, as ``Velocity-Flat-Unitree-Go1``.
        num_envs: Number of robots.
        seed: Seed of everything random.
        device: Device of the tensors that are returned; the physics runs on the CPU.
        num_threads: Threads of the physics; None takes one for each core this process may use.
        **overrides: Fields of :class:`VelocityTaskCfg` to change, as ``observation_noise=False``.
    """
    cfg = task_cfg(task)
    unknown = sorted(set(overrides) - set(VelocityTaskCfg.__dataclass_fields__))
    if unknown:
        known = ", ".join(VelocityTaskCfg.__dataclass_fields__)
        raise ConfigError(f"A velocity task has no field(s) {', '.join(unknown)}; it has {known}.")
    cfg = replace(cfg, **overrides)
    return VelocityEnv(cfg, load_robot(cfg.robot), num_envs, seed, device, num_threads)


def preset_key(task: str) -> str:
    """Return a task's name, the kind of its robot and its unit of action, for :func:`rsl_rl_sac.presets.preset`."""
    robot = load_robot(task_cfg(task).robot)
    return f"{task}-{robot.kind}-{robot.action_scale:g}rad"


def _register_own_robots() -> None:
    """Run the files that :data:`OWN_ROBOTS` names, each once in a process, so that commands know their robots."""
    for file in filter(None, os.environ.get(OWN_ROBOTS, "").split(os.pathsep)):
        if file in _files_run:
            continue
        _files_run.add(file)  # first, since the file may ask for tasks itself
        try:
            runpy.run_path(file, run_name="rsl_rl_sac_robots")
        except Exception as error:
            _files_run.discard(file)
            reason = " ".join(str(error).split())
            raise ConfigError(f"{OWN_ROBOTS} names '{file}', which fails: {type(error).__name__}: {reason}") from error


@lru_cache
def _load(path: Path) -> Robot:
    return Robot.from_file(path)
