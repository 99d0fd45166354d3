# SPDX-License-Identifier: BSD-3-Clause

"""Samples to a fixed score with and without mirrored transitions, on a quadruped and a humanoid.

Both train with the preset ``cpu`` of humanoids. The score is that of the policy as it trains, noise included, over the
last 50 000 steps: on the quadruped how well it turns as told, which is what it learns first, on the humanoid how long
it stays on its feet.

    python benchmarks/symmetry.py
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
import tyro
from common import write_rows

from rsl_rl_sac.config import RunnerCfg, SACCfg, SymmetryCfg
from rsl_rl_sac.locomotion import make_env
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv
from rsl_rl_sac.presets import preset
from rsl_rl_sac.runners import OffPolicyRunner

WINDOW = 50_000
"""Steps of all environments over which a score is taken."""


@dataclass
class Options:
    """Options of the benchmark."""

    quadruped: str = "Velocity-Flat-Unitree-Go2"
    """Task on which turning is scored."""
    turning: float = 0.45
    """Score of the turning speed to reach, 1 is perfect; standing has 0.29."""
    humanoid: str = "Velocity-Flat-Unitree-H1"
    """Task on which staying on the feet is scored."""
    upright_seconds: float = 10.0
    """Mean time between falls to reach."""
    max_steps: float = 1.0e6
    """Steps after which to give up."""
    seeds: int = 3
    """Seeds."""
    processes: int = 2
    """Trainings at the same time, a core each."""


class Watch:
    """Scores what an environment does while somebody else steps it."""

    def __init__(self, env: VelocityEnv, is_humanoid: bool) -> None:
        """Watch an environment from now on."""
        self.env, self.is_humanoid = env, is_humanoid
        self.num_steps = 0
        self._values: deque[float] = deque(maxlen=WINDOW // env.num_envs)
        self._term = next(i for i, name in enumerate(env.rewards.names) if name.startswith("track_ang_vel_z"))
        self._step = env.step
        env.step = self  # type: ignore[method-assign]

    def __call__(self, actions: torch.Tensor) -> tuple:
        """Step the environment and take note."""
        result = self._step(actions)
        self.num_steps += self.env.num_envs
        if self.is_humanoid:
            fell = result[2].bool() & ~result[3]["time_outs"].bool()
            self._values.append(float(fell.float().mean()))
        else:
            rewards = self.env.rewards
            self._values.append(float(rewards.last[:, self._term].mean() / rewards.weights[self._term]))
        return result

    @property
    def score(self) -> float | None:
        """The score of the last steps: turning, or seconds between falls; None before there are enough of them."""
        if len(self._values) < WINDOW // self.env.num_envs:
            return None
        mean = float(np.mean(self._values))
        return self.env.step_dt / max(mean, 1e-9) if self.is_humanoid else mean


def quiet_cfg(humanoid: str) -> RunnerCfg:
    """Return little noise of one size within wide bounds, in the suite's own physics: first skills without a fall."""
    cfg = preset("cpu", humanoid)
    assert isinstance(cfg, RunnerCfg)
    cfg.coarse_physics = False
    cfg.actor.distribution_cfg.init_std, cfg.actor.distribution_cfg.log_std_range = 0.09, (-2.45, -2.35)
    algorithm = cfg.algorithm
    algorithm.num_mini_batches, algorithm.batch_size, algorithm.training_start_iteration = 24, 512, 5
    algorithm.policy_update_frequency, algorithm.desired_kl, algorithm.actor_learning_rate = 3, 0.05, 2e-4
    algorithm.n_step, algorithm.largest_action = 3, 5.0
    algorithm.auto_temperature, algorithm.init_temperature = False, 0.01
    algorithm.final_target_entropy_scale, algorithm.final_learning_rate_scale = None, 1.0
    algorithm.target_entropy_scale, algorithm.anneal_progress = SACCfg().target_entropy_scale, None
    algorithm.temperature_learning_rate = SACCfg().temperature_learning_rate
    return cfg


def train(task: str, with_symmetry: bool, seed: int, options: Options) -> dict[str, object]:
    """Train until the score is reached and return a row of the table."""
    torch.set_num_threads(1)
    is_humanoid = task == options.humanoid
    bar = options.upright_seconds if is_humanoid else options.turning
    cfg = quiet_cfg(options.humanoid)
    cfg.seed, cfg.overlap = seed, False  # repeatable on one core
    cfg.algorithm.replay_size = int(options.max_steps)
    cfg.algorithm.symmetry_cfg = SymmetryCfg() if with_symmetry else None
    env = make_env(task, cfg.num_envs, seed, num_threads=1)
    watch = Watch(env, is_humanoid)
    with contextlib.redirect_stdout(io.StringIO()):
        runner = OffPolicyRunner(env, cfg.to_dict())
        runner.learn(1, init_at_random_ep_len=True)
        while watch.num_steps < options.max_steps and (watch.score is None or watch.score < bar):
            runner.learn(1)
    assert watch.score is not None
    reached = watch.score >= bar
    return {
        "task": task,
        "symmetry": with_symmetry,
        "seed": seed,
        "bar": bar,
        "env_steps": watch.num_steps if reached else "not reached",
        "last_score": round(watch.score, 3),
    }


def main(options: Options) -> None:
    """Train all, print and write a table."""
    tasks = (options.quadruped, options.humanoid)
    runs = [(task, way, seed) for task in tasks for seed in range(options.seeds) for way in (True, False)]
    rows = []
    with multiprocessing.get_context("spawn").Pool(options.processes, maxtasksperchild=1) as pool:
        results = [pool.apply_async(train, (*run, options)) for run in runs]
        for result in results:
            rows.append(result.get())
            print(" ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    write_rows("symmetry", rows)


if __name__ == "__main__":
    main(tyro.cli(Options))
