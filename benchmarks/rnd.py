# SPDX-License-Identifier: BSD-3-Clause

"""What random network distillation finds in a maze whose only reward is at its end.

SAC without it, with rewards that are computed when a batch is drawn, and with those of the time of collection. For
every seed: when the first reward was found, the longest way from the start, and the reward per step in the time of the
last episode (1 is that of the goal).

    python benchmarks/rnd.py
"""

from __future__ import annotations

import contextlib
import csv
import io
import multiprocessing
import pathlib
import time
from dataclasses import dataclass

import torch
import tyro

from rsl_rl_sac.config import RndCfg, RunnerCfg
from rsl_rl_sac.envs import PointMaze
from rsl_rl_sac.runners import OffPolicyRunner

RESULTS = pathlib.Path(__file__).parent / "results"
VARIANTS: dict[str, RndCfg | None] = {
    "plain": None,
    "rnd": RndCfg(weight=10.0, learning_rate=1e-4),
    "rnd_stored": RndCfg(weight=10.0, learning_rate=1e-4, recompute_rewards=False),
}


@dataclass
class Options:
    """Options of the measurement."""

    variants: tuple[str, ...] = tuple(VARIANTS)
    """Variants."""
    seeds: int = 5
    """Number of seeds."""
    iterations: int = 60
    """Iterations of a run."""
    num_envs: int = 32
    """Points in the maze."""
    processes: int = 1
    """Runs at the same time."""


def maze_cfg(rnd_cfg: RndCfg | None, seed: int, num_envs: int) -> RunnerCfg:
    """Return settings that learn the maze in seconds."""
    cfg = RunnerCfg(seed=seed, num_envs=num_envs, num_steps_per_env=16)
    cfg.actor.hidden_dims = cfg.critic.hidden_dims = [64, 64]
    algorithm = cfg.algorithm
    algorithm.num_mini_batches, algorithm.batch_size, algorithm.replay_size = 8, 128, 100_000
    algorithm.n_step, algorithm.tau = 3, 0.05
    algorithm.actor_learning_rate = algorithm.critic_learning_rate = 3e-3
    algorithm.init_temperature, algorithm.target_entropy_scale, algorithm.temperature_learning_rate = 0.01, 0.5, 1e-3
    algorithm.rnd_cfg = rnd_cfg
    return cfg


def train(variant: str, seed: int, options: Options) -> dict[str, object]:
    """Train once and return a row of the table."""
    start = time.process_time()
    cfg = maze_cfg(VARIANTS[variant], seed, options.num_envs)
    env = PointMaze(options.num_envs, seed=seed)
    rewards: list[float] = []
    furthest = 0.0
    step = env.step

    def watched_step(actions: torch.Tensor) -> tuple:
        nonlocal furthest
        result = step(actions)
        rewards.append(float(result[1].mean()))
        # The corridor never leads back, so the way along both axes is that along the corridor, to a cell's width.
        furthest = max(furthest, float((env.positions - env.start).sum(dim=1).max()))
        return result

    env.step = watched_step  # type: ignore[method-assign]
    with contextlib.redirect_stdout(io.StringIO()):
        OffPolicyRunner(env, cfg.to_dict()).learn(options.iterations)
    last = rewards[-env.max_episode_length :]
    found = next((i + 1 for i, reward in enumerate(rewards) if reward > 0.0), None)
    return {
        "variant": variant,
        "seed": seed,
        "env_steps": len(rewards) * options.num_envs,
        "first_reward_at": found * options.num_envs if found is not None else "never",
        "furthest": round(furthest, 2),
        "reward_per_step": round(sum(last) / len(last), 3),
        "cpu_seconds": round(time.process_time() - start, 1),
    }


def main(options: Options) -> None:
    """Train all variants with all seeds, print and write a table."""
    torch.set_num_threads(1)
    runs = [(variant, seed, options) for variant in options.variants for seed in range(options.seeds)]
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        results = [pool.apply_async(train, run) for run in runs]
        rows = []
        for result in results:
            rows.append(result.get())
            print(" ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    with (RESULTS / "rnd.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(tyro.cli(Options))
