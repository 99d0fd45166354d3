# SPDX-License-Identifier: BSD-3-Clause

"""A training that is killed again and again, and ends with the weights of one that was not.

The process is ended by SIGKILL, which it cannot notice: at a random moment after a random iteration, and every other
time in the middle of a save, while a half-written file lies in the folder. Each time a new process resumes from the
newest checkpoint. At the end, everything that the checkpoint and its replay hold is compared bit for bit.

    python benchmarks/kill_test.py --kills 30
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import multiprocessing.process
import pathlib
import random
import tempfile
import time
from dataclasses import dataclass

import torch
import tyro

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.runners import OffPolicyRunner
from rsl_rl_sac.utils.checkpoint import find_checkpoints, find_replays, load_safely

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["rsl_rl_sac.runners"])  # a server that has imported what is slow to import

_OF_THE_CLOCK = ("tot_time", "token")
"""Ends of the names of values that differ between any two runs."""


@dataclass
class Options:
    """Options of the test."""

    kills: int = 30
    """How often the training is killed."""
    iterations: int = 80
    """Iterations of the training; kills are in the first three quarters."""
    seed: int = 0
    """Seed of the moments."""


@dataclass
class Outcome:
    """What happened."""

    kills: int
    """Processes that were killed while they were at work."""
    kills_in_saves: int
    """Of these, how many left a half-written file or a replay without its checkpoint."""
    differences: list[str]
    """Names of the values that differ from those of the uninterrupted training."""
    compared: int
    """Values that were compared."""


def train(folder: pathlib.Path, iterations: int) -> None:
    """Train, or go on training, until a number of iterations is made; save after each."""
    torch.set_num_threads(1)
    cfg = RunnerCfg(seed=1, num_envs=16, num_steps_per_env=8, save_interval=1, keep_checkpoints=2)
    cfg.actor.hidden_dims = cfg.critic.hidden_dims = [32, 32]
    cfg.algorithm.num_mini_batches, cfg.algorithm.batch_size = 4, 64
    cfg.algorithm.replay_size, cfg.algorithm.n_step, cfg.algorithm.save_replay = 16 * 40, 3, True
    env = DoubleIntegrator(16, max_episode_length=15, failure_position=1.2)
    with contextlib.redirect_stdout(io.StringIO()):
        runner = OffPolicyRunner(env, cfg.to_dict(), str(folder))
        runner.logger.writer = None
        runner.logger.init_logging_writer = lambda: None  # type: ignore[method-assign]  # no TensorBoard
        checkpoints = find_checkpoints(folder)
        if checkpoints:
            runner.load(str(checkpoints[-1]))
        runner.learn(iterations - runner.next_iteration)


def train_with_kills(folder: pathlib.Path, iterations: int, kills: int, rng: random.Random) -> tuple[int, int]:
    """Kill the training at random moments and resume it each time; return the kills, and those within a save."""
    moments = sorted(rng.randrange(iterations * 3 // 4) for _ in range(kills))
    done = in_saves = 0
    for number, iteration in enumerate(moments):
        process = _start(folder, iterations)
        while process.is_alive() and _newest(folder) < iteration:
            time.sleep(0.001)
        if number % 2 == 1:
            while process.is_alive() and not any(folder.glob(".model_*.tmp")):
                pass
        else:
            time.sleep(rng.uniform(0.0, 0.1))
        process.kill()
        process.join()
        done += process.exitcode == -9
        in_saves += _was_in_a_save(folder)
    process = _start(folder, iterations)
    process.join()
    return done, in_saves


def compare(one: pathlib.Path, other: pathlib.Path) -> tuple[list[str], int]:
    """Return the names of the values of the newest checkpoints that differ, and how many were compared."""
    states = [_flat(_last_state(folder)) for folder in (one, other)]
    names = [name for name in {**states[0], **states[1]} if not name.endswith(_OF_THE_CLOCK)]
    return [name for name in names if not _same(states[0].get(name), states[1].get(name))], len(names)


def run(folder: pathlib.Path, options: Options) -> Outcome:
    """Train without and with kills, and compare."""
    straight, killed = folder / "straight", folder / "killed"
    straight.mkdir(parents=True)
    killed.mkdir()
    _start(straight, options.iterations).join()
    kills, in_saves = train_with_kills(killed, options.iterations, options.kills, random.Random(options.seed))
    return Outcome(kills, in_saves, *compare(straight, killed))


def _start(folder: pathlib.Path, iterations: int) -> multiprocessing.process.BaseProcess:
    process = _CONTEXT.Process(target=train, args=(folder, iterations))
    process.start()
    return process


def _newest(folder: pathlib.Path) -> int:
    """Return the iteration of the newest checkpoint, -1 if there is none."""
    checkpoints = find_checkpoints(folder)
    return int(checkpoints[-1].stem.removeprefix("model_")) if checkpoints else -1


def _was_in_a_save(folder: pathlib.Path) -> bool:
    complete = {replay for checkpoint in find_checkpoints(folder) for replay in find_replays(checkpoint)}
    return any(folder.glob(".model_*.tmp")) or bool(set(folder.glob("*.replay.pt")) - complete)


def _last_state(folder: pathlib.Path) -> dict:
    checkpoint = find_checkpoints(folder)[-1]
    (replay,) = find_replays(checkpoint)
    return {"name": checkpoint.name, "checkpoint": load_safely(checkpoint), "replay": load_safely(replay)}


def _flat(value: object, name: str = "") -> dict[str, object]:
    if not isinstance(value, dict | list | tuple):
        return {name: value}
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return {leaf: content for key, item in pairs for leaf, content in _flat(item, f"{name}/{key}").items()}


def _same(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and one == other


def main() -> None:
    """Run the test and print what happened."""
    options = tyro.cli(Options, description=__doc__)
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(pathlib.Path(folder), options)
    print(f"killed {outcome.kills} times, {outcome.kills_in_saves} of them within a save")
    print(f"{len(outcome.differences)} of {outcome.compared} values differ {outcome.differences[:5]}")
    raise SystemExit(1 if outcome.differences or outcome.kills < options.kills else 0)


if __name__ == "__main__":
    main()
