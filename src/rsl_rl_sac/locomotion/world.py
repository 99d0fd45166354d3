# SPDX-License-Identifier: BSD-3-Clause

"""The suite as a world, for trainings."""

from __future__ import annotations

from rsl_rl.env import VecEnv

from rsl_rl_sac.envs.evaluation import Policy
from rsl_rl_sac.envs.worlds import World
from rsl_rl_sac.locomotion.evaluation import Score, evaluate, make_evaluation_env
from rsl_rl_sac.locomotion.registry import make_env, preset_key, task_cfg
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv
from rsl_rl_sac.runners.training import PROGRESS_COLUMNS

CURVE_COLUMNS: tuple[str, ...] = (*PROGRESS_COLUMNS, "training_tracking", *Score.columns())
"""Columns of ``curve.csv`` of a task of the suite."""


class LocomotionWorld(World):
    """The tasks of the suite, scored by how well commands are tracked."""

    score_class = Score

    def check_task(self, name: str) -> None:
        """Raise an error if there is no such task; it names the closest."""
        task_cfg(name)

    def make_env(self, name: str, num_envs: int, seed: int, num_threads: int | None = None) -> VelocityEnv:
        """Make the environments of a task for training."""
        return make_env(name, num_envs, seed, num_threads=num_threads)

    def make_coarse_env(self, name: str, num_envs: int, seed: int, num_threads: int | None = None) -> VelocityEnv:
        """Make the environments of a task for training, with half as many physics steps, twice as long."""
        task = task_cfg(name)
        physics = task.physics.coarse(on_height_field=task.terrain is not None)
        return make_env(name, num_envs, seed, num_threads=num_threads, physics=physics)

    def make_evaluation_env(self, name: str, num_envs: int, num_threads: int | None = None) -> VelocityEnv:
        """Make the environments of a task for evaluation: no noise, no pushes."""
        return make_evaluation_env(name, num_envs, num_threads)

    def evaluate(self, policy: Policy, env: VecEnv) -> Score:
        """Score a policy by the rule of the suite."""
        assert isinstance(env, VelocityEnv)
        return evaluate(policy, env)

    def extends(self, name: str, other: str) -> bool:
        """Return whether both are of the same robot: on rough terrain the heights come after all else."""
        own, others = task_cfg(name), task_cfg(other)
        return own.robot == others.robot and (own.terrain is not None or others.terrain is None)

    def preset_key(self, name: str) -> str:
        """Return the task and the kind of its robot."""
        return preset_key(name)

    def training_log(self, env: VecEnv) -> dict[str, float]:
        """Return the mean level of the terrain, if there is one."""
        assert isinstance(env, VelocityEnv)
        return {} if env.levels is None else {"terrain level": float(env.levels.levels.mean())}

    def training_columns(self, env: VecEnv) -> dict[str, float]:
        """Return how well the robots that train tracked their commands in the last step."""
        assert isinstance(env, VelocityEnv)
        return {"training_tracking": float(env.rewards.tracking.mean())}
