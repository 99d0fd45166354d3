# SPDX-License-Identifier: BSD-3-Clause

"""SAC of this package on tasks of Gymnasium against Stable-Baselines3's, each with its own published settings.

    python benchmarks/gymnasium_peers.py [--tasks Pendulum-v1 HalfCheetah-v5] [--seeds 3] [--steps N] [--no-timings]

Ours is the preset ``gym``; theirs are the settings of RL Baselines3 Zoo. Both make one gradient step for every step of
the environments, in one process with the same threads: a part of the one training, then the same part of the other,
in turns, so that noise of the machine hits both. After each part both policies are scored on the same ten episodes,
without noise. The time ratio is the median over the parts after both have started to learn.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import time
from collections.abc import Callable

import torch
from common import write_table
from peers import ZOO_SETTINGS, make_sb3_training

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.envs.evaluation import Policy
from rsl_rl_sac.envs.gymnasium import GymnasiumWorld
from rsl_rl_sac.presets import preset
from rsl_rl_sac.runners import OffPolicyRunner

STEPS = {"Pendulum-v1": 20_000, "HalfCheetah-v5": 1_000_000, "Ant-v5": 1_000_000}
"""Steps of the environments, those of the Zoo."""

PARTS = 20
"""Turns of each training."""

CURVE_HEADER = ("task", "seed", "env_steps", "ours_return", "sb3_return", "sb3_over_ours_time")
HEADER = ("task", "seeds", "env_steps", "ours_return", "ours_worst", "sb3_return", "sb3_worst", "sb3_over_ours_time")


def main() -> None:
    """Train on all tasks with all seeds."""
    parser = argparse.ArgumentParser(description="Returns on Gymnasium's tasks, and the time of training as a ratio.")
    parser.add_argument("--tasks", nargs="+", default=["Pendulum-v1", "HalfCheetah-v5"], choices=list(ZOO_SETTINGS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="steps of the environments, in place of those of the Zoo")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-timings", action="store_true", help="record returns only, on a machine that is busy")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    curves, summary = [], []
    for task in args.tasks:
        num_steps = args.steps or STEPS[task]
        runs = [train_both(task, seed, num_steps, not args.no_timings) for seed in range(args.seeds)]
        curves += [row for run in runs for row in run]
        ours, theirs = ([float(run[-1][column]) for run in runs] for column in (3, 4))
        row: list[object] = [task, args.seeds, runs[0][-1][2], statistics.mean(ours), min(ours)]
        row += [statistics.mean(theirs), min(theirs)]
        ratios = [float(part[5]) for run in runs for part in run[PARTS // 4 :]] if not args.no_timings else []
        summary.append([*row, statistics.median(ratios) if ratios else ""])
    write_table("gymnasium_curves", CURVE_HEADER, curves)
    write_table("gymnasium_peers", HEADER, summary)


def train_both(task: str, seed: int, num_steps: int, timings: bool) -> list[list]:
    """Train both in turns and return a row for each part."""
    world = GymnasiumWorld()
    ours, steps_per_iteration = make_ours(task, seed)
    theirs = make_sb3_training(task, seed)
    test_env = world.make_evaluation_env(task, world.evaluation_envs)
    policies: dict[str, Policy] = {
        "ours": ours.alg.get_policy(),
        "sb3": lambda obs: torch.as_tensor(theirs.predict(obs["policy"].numpy(), deterministic=True)[0]),
    }
    num_iterations = max(1, num_steps // PARTS // steps_per_iteration)
    part = num_iterations * steps_per_iteration
    turns: dict[str, Callable[[], object]] = {
        "ours": lambda: quietly(ours.learn, num_iterations),
        "sb3": lambda: theirs.learn(part, reset_num_timesteps=False),
    }
    rows = []
    for number in range(PARTS):
        seconds = {}
        names = ["ours", "sb3"] if number % 2 == 0 else ["sb3", "ours"]
        for name in names:
            start = time.perf_counter()
            turns[name]()
            seconds[name] = time.perf_counter() - start
        returns = [world.evaluate(policies[name], test_env).episode_return for name in ("ours", "sb3")]
        ratio = seconds["sb3"] / seconds["ours"] if timings else ""
        rows.append([task, seed, (number + 1) * part, *returns, ratio])
        print(dict(zip(CURVE_HEADER, rows[-1], strict=True)), flush=True)
    return rows


def make_ours(task: str, seed: int) -> tuple[OffPolicyRunner, int]:
    """Return a training with the preset of Gymnasium's tasks, and its steps per iteration."""
    cfg = preset("gym", f"gym:{task}")
    assert isinstance(cfg, RunnerCfg)
    cfg.seed = seed
    env = GymnasiumWorld().make_env(task, cfg.num_envs, seed)
    return quietly(OffPolicyRunner, env, cfg.to_dict()), cfg.num_envs * cfg.num_steps_per_env


def quietly(function: Callable, *args: object) -> OffPolicyRunner:
    """Call a function without what rsl_rl prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        return function(*args)


if __name__ == "__main__":
    main()
