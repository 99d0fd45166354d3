# SPDX-License-Identifier: BSD-3-Clause

"""Worlds: where tasks come from, by the prefix of their names.

``gym:Ant-v5`` is the task ``Ant-v5`` of the world ``gym``; a name without a prefix is a task of the locomotion suite.
A world is imported when one of its tasks is asked for, so that nobody needs the simulators of the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from rsl_rl.env import VecEnv
from rsl_rl.utils import resolve_callable

from rsl_rl_sac.envs.evaluation import EpisodeOutcomes, EpisodeScore, Policy
from rsl_rl_sac.utils.errors import ConfigError

WORLDS: dict[str, str] = {
    "": "rsl_rl_sac.locomotion.world:LocomotionWorld",
    "gym": "rsl_rl_sac.envs.gymnasium:GymnasiumWorld",
    "mjlab": "rsl_rl_sac.envs.mjlab:MjlabWorld",
    "isaaclab": "rsl_rl_sac.envs.isaaclab:isaaclab_world",  # says which script trains there
}
"""Classes of the worlds by prefix."""


class World(ABC):
    """A family of tasks: makes their environments and says how a policy is scored on them."""

    preset: str = "cpu"
    """Preset of its tasks."""

    evaluation_envs: int = 64
    """Episodes per evaluation."""

    score_class: type[EpisodeScore] = EpisodeScore
    """What :meth:`evaluate` returns; its fields are columns of the learning curve."""

    @abstractmethod
    def check_task(self, name: str) -> None:
        """Raise a ConfigError if there is no such task. It is called before anything is written, so it is quick."""

    @abstractmethod
    def make_env(self, name: str, num_envs: int, seed: int, num_threads: int | None = None) -> VecEnv:
        """Make the environments of a task for training.

        Args:
            name: Task, without the prefix of the world.
            num_envs: Number of environments.
            seed: Seed of everything random.
            num_threads: Threads or processes of the physics, for worlds that let you choose; None takes all cores.
        """

    def make_coarse_env(self, name: str, num_envs: int, seed: int, num_threads: int | None = None) -> VecEnv:
        """Make the environments of a task for training with ``coarse_physics``; a world that cannot says so."""
        raise ConfigError("coarse_physics is for tasks of the locomotion suite; set it to False.")

    @abstractmethod
    def make_evaluation_env(self, name: str, num_envs: int, num_threads: int | None = None) -> VecEnv:
        """Make the environments of a task for :meth:`evaluate`, seeded apart from those of training."""

    @abstractmethod
    def evaluate(self, policy: Policy, env: VecEnv) -> EpisodeScore:
        """Score a deterministic policy on the first episode of each environment; every call meets the same episodes."""

    def extends(self, name: str, other: str) -> bool:
        """Return whether a task has all observations of another one, first and in the same order, and its actions."""
        return name == other

    def run_episodes(self, policy: Policy, env: VecEnv) -> EpisodeOutcomes:
        """Run the episodes of :meth:`evaluate` and return each outcome, for ``rsl-rl-sac evaluate``."""
        raise ConfigError(f"{type(self).__name__} scores policies in trainings only: it has no run_episodes().")

    def preset_key(self, name: str) -> str:
        """Return the words by which :func:`rsl_rl_sac.presets.preset` tells robots apart."""
        return name

    def training_log(self, env: VecEnv) -> dict[str, float]:
        """Return what people who watch a training want to know of its environments; not a part of the curve."""
        return {}

    def training_columns(self, env: VecEnv) -> dict[str, float]:
        """Return numbers on the last step of the environments that train, for the learning curve."""
        return {}


def find_world(task: str) -> tuple[World, str]:
    """Return the world of a task and the task's name in it.

    Raises:
        ConfigError: If there is no such world or task.
        MissingDependencyError: If the world's package is not installed.
    """
    prefix, name = task.split(":", 1) if ":" in task else ("", task)
    if prefix not in WORLDS:
        known = ", ".join(f"{prefix}:" for prefix in WORLDS if prefix)
        raise ConfigError(f"There is no world '{prefix}:'. Known: {known}, and no prefix for the locomotion suite.")
    world: World = resolve_callable(WORLDS[prefix])()
    world.check_task(name)
    return world, name
