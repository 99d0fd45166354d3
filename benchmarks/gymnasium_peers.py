# SPDX-License-Identifier: BSD-3-Clause

"""SAC of this package on tasks of Gymnasium against Stable-Baselines3's, each with its own published settings.

    python benchmarks/gymnasium_peers.py [--tasks TASK ...] [--seeds 0 1 2] [--steps N] [--no-timings] [--timings-only]

Ours is the preset ``gym``; theirs are the settings of RL Baselines3 Zoo. Both make one gradient step for every step of
the environments, in one process with the same threads: a part of the one training, then the same part of the other,
in turns, so that noise of the machine hits both. After each part both policies are scored on the same ten episodes,
without noise. The time ratio is the median over the parts after both have started to learn.

Every pair of runs is kept in ``logs/gymnasium_peers`` when it is complete, and not made again: seeds can be run on
other cores by other processes (``taskset -c 0 ... --seeds 0 --threads 1``), and the last one writes the tables.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import pathlib
import statistics
import time
from collections.abc import Callable

import torch
from common import RESULTS, write_rows
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

TIMED_ROUNDS = 11
"""Turns of each when only time is measured."""

RUNS = pathlib.Path("logs") / "gymnasium_peers"
"""Pairs of runs that are complete."""


def main() -> None:
    """Make the pairs of runs that are missing, then write the tables."""
    parser = argparse.ArgumentParser(description="Returns on Gymnasium's tasks, and the time of training as a ratio.")
    parser.add_argument("--tasks", nargs="+", default=["Pendulum-v1", "HalfCheetah-v5"], choices=list(ZOO_SETTINGS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, help="steps of the environments, in place of those of the Zoo")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-timings", action="store_true", help="record returns only, on a machine that is busy")
    parser.add_argument("--timings-only", action="store_true", help="a few turns of both while they learn, no returns")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.timings_only:
        write_rows("gymnasium_time", [row for task in args.tasks for row in time_both(task, args.threads)])
        return
    RUNS.mkdir(parents=True, exist_ok=True)
    for task in args.tasks:
        num_steps = args.steps or STEPS[task]
        for seed in args.seeds:
            name = f"{task}_{num_steps}_{seed}"
            if not (RUNS / f"{name}.csv").exists():
                write_rows(name, train_both(task, seed, num_steps, not args.no_timings), RUNS)
    write_tables()


def write_tables() -> None:
    """Gather all pairs of runs: their curves, and one line for each task."""
    runs: dict[tuple[str, str], list[list[dict[str, str]]]] = {}
    for path in sorted(RUNS.glob("*.csv")):
        task, num_steps, _ = path.stem.rsplit("_", 2)
        with path.open(newline="") as file:
            runs.setdefault((task, num_steps), []).append(list(csv.DictReader(file)))
    write_rows("gymnasium_curves", [row for pairs in runs.values() for rows in pairs for row in rows])
    summary = []
    for (task, num_steps), pairs in runs.items():
        row: dict[str, object] = {"task": task, "seeds": len(pairs), "env_steps": num_steps}
        for name in ("ours", "sb3"):
            ends = [float(rows[-1][f"{name}_return"]) for rows in pairs]
            row |= {f"{name}_return": round(statistics.mean(ends), 1), f"{name}_worst": round(min(ends), 1)}
        parts = [part["sb3_over_ours_time"] for rows in pairs for part in rows[PARTS // 4 :]]
        ratios = [float(part) for part in parts if part]
        row["sb3_over_ours_time"] = round(statistics.median(ratios), 2) if ratios else ""
        summary.append(row)
        print(row)
    write_rows("gymnasium_peers", summary)
    print(f"Written to {RESULTS}")


def train_both(task: str, seed: int, num_steps: int, timings: bool) -> list[dict[str, object]]:
    """Train both in turns and return a row for each part."""
    world = GymnasiumWorld()
    ours, steps_per_iteration = make_ours(task, seed)
    theirs = make_sb3_training(task, seed)
    test_env = world.make_evaluation_env(task, world.evaluation_envs)
    policies: dict[str, Policy] = {
        "ours": ours.alg.get_policy(),
        "sb3": lambda obs: torch.as_tensor(theirs.predict(obs["policy"].numpy(), deterministic=True)[0]),
    }
    rows: list[dict[str, object]] = []
    done = 0
    for number in range(PARTS):
        # Whole iterations, as many as bring the run nearest to its share of the steps.
        num_iterations = max(1, round((number + 1) * num_steps / PARTS / steps_per_iteration) - done)
        done += num_iterations
        turns: dict[str, Callable[[], object]] = {
            "ours": lambda n=num_iterations: quietly(ours.learn, n),
            "sb3": lambda n=num_iterations: theirs.learn(n * steps_per_iteration, reset_num_timesteps=False),
        }
        seconds = {}
        for name in ["ours", "sb3"] if number % 2 == 0 else ["sb3", "ours"]:
            start = time.perf_counter()
            turns[name]()
            seconds[name] = time.perf_counter() - start
        row: dict[str, object] = {"task": task, "seed": seed, "env_steps": done * steps_per_iteration}
        for name, policy in policies.items():
            row[f"{name}_return"] = round(world.evaluate(policy, test_env).episode_return, 1)
        row["sb3_over_ours_time"] = round(seconds["sb3"] / seconds["ours"], 3) if timings else ""
        rows.append(row)
        print(row, flush=True)
    return rows


def time_both(task: str, threads: int) -> list[dict[str, object]]:
    """Let both learn in turns, of five iterations each, and return the time of each turn."""
    ours, steps_per_iteration = make_ours(task, 0)
    theirs = make_sb3_training(task, 0)
    ours.alg._learns_after = theirs.learning_starts = 1  # both at once, not after thousands of steps
    num_steps = 5 * steps_per_iteration
    turns: dict[str, Callable[[], object]] = {
        "ours": lambda: quietly(ours.learn, 5),
        "sb3": lambda: theirs.learn(num_steps, reset_num_timesteps=False),
    }
    rows: list[dict[str, object]] = []
    for number in range(-2, TIMED_ROUNDS):
        seconds = {}
        for name in ["ours", "sb3"] if number % 2 == 0 else ["sb3", "ours"]:
            start = time.perf_counter()
            turns[name]()
            seconds[name] = time.perf_counter() - start
        if number >= 0:  # the first two turns fill caches
            milliseconds = {f"{name}_ms": round(1e3 * seconds[name] / num_steps, 3) for name in seconds}
            over = round(seconds["sb3"] / seconds["ours"], 3)
            rows.append({"task": task, "threads": threads, **milliseconds, "sb3_over_ours_time": over})
    ratios = [float(str(row["sb3_over_ours_time"])) for row in rows]
    print(f"{task}, {threads} threads: Stable-Baselines3 takes {statistics.median(ratios):.2f} times our time")
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
