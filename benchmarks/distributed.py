# SPDX-License-Identifier: BSD-3-Clause

"""Two processes against one: environment steps and gradient steps per second, as ratios.

python benchmarks/distributed.py

Three candidates take turns: one process on half of the cores; two processes on a half each, with twice the environments
and twice the batch in all; and one process on all cores that does the same work as the two. Two over one half says what
the communication costs (2 environment steps for 1 and 1 gradient step, of twice the batch, for 1 would be for nothing);
two over one whole says which way to use a machine. All stay alive and wait for their turn.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import os
import socket
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields
from multiprocessing.connection import Connection

from common import write_table

HEADER = ["task", "ranks_over", "env_steps_per_second", "updates_per_second", "iterations_per_second"]


@dataclass
class Work:
    """What a process does in one turn."""

    task: str
    """Task of the suite."""
    num_envs: int
    """Environments."""
    batch_size: int
    """Transitions per gradient step."""
    updates: int
    """Gradient steps per iteration."""
    iterations: int
    """Iterations per turn."""


@dataclass
class Speed:
    """What came out of a turn, in units per second."""

    env_steps: float
    """Environment steps of all processes, by the time of collecting."""
    updates: float
    """Gradient steps, by the time of learning."""
    iterations: float
    """Iterations, by the time of both."""


class Group:
    """Processes that train together, one turn at a time."""

    def __init__(self, work: Work, cores: Sequence[set[int]]) -> None:
        """Start one process on each set of cores."""
        context = multiprocessing.get_context("spawn")
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        self.pipes: list[Connection] = []
        self.processes = []
        for rank, own_cores in enumerate(cores):
            mine, theirs = context.Pipe()
            variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": len(cores), "MASTER_PORT": port}
            arguments = (theirs, work, own_cores, {name: str(value) for name, value in variables.items()})
            process = context.Process(target=serve, args=arguments, daemon=True)
            process.start()
            self.pipes.append(mine)
            self.processes.append(process)

    def turn(self) -> Speed:
        """Train for a turn; the slowest process counts."""
        for pipe in self.pipes:
            pipe.send("turn")
        speeds = [pipe.recv() for pipe in self.pipes]
        return Speed(*(min(getattr(speed, name) for speed in speeds) for name in vars(speeds[0])))

    def close(self) -> None:
        """End the processes."""
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            pipe.send("end")
            process.join()


def serve(pipe: Connection, work: Work, cores: set[int], variables: dict[str, str]) -> None:
    """Build a runner, then train whenever asked to."""
    os.sched_setaffinity(0, cores)
    os.environ.update(variables, MASTER_ADDR="127.0.0.1")
    import torch

    from rsl_rl_sac.config import RunnerCfg
    from rsl_rl_sac.locomotion import make_env
    from rsl_rl_sac.runners import OffPolicyRunner
    from rsl_rl_sac.utils.seeding import rank_seed

    torch.set_num_threads(len(cores))
    cfg = RunnerCfg(num_envs=work.num_envs, num_steps_per_env=8)
    cfg.actor.hidden_dims = cfg.critic.hidden_dims = [256, 128, 64]
    cfg.algorithm.batch_size, cfg.algorithm.num_mini_batches = work.batch_size, work.updates
    cfg.algorithm.replay_size = 100 * work.num_envs
    env = make_env(work.task, work.num_envs, rank_seed(0, int(variables["RANK"])), num_threads=len(cores))
    with contextlib.redirect_stdout(io.StringIO()):
        runner = OffPolicyRunner(env, cfg.to_dict())
    reports: list[dict] = []
    runner.logger.log = lambda **report: reports.append(report)
    with contextlib.redirect_stdout(io.StringIO()):
        runner.learn(2)  # the first gradient steps are in the second iteration
        while pipe.recv() == "turn":
            reports.clear()
            runner.learn(work.iterations)
            collect, learn = (sum(report[name] for report in reports) for name in ("collect_time", "learn_time"))
            steps = work.iterations * cfg.num_steps_per_env * work.num_envs * int(variables["WORLD_SIZE"])
            pipe.send(
                Speed(steps / collect, work.iterations * work.updates / learn, work.iterations / (collect + learn))
            )


def ratio(speeds: dict[str, list[Speed]], base: str, name: str) -> float:
    """Return the median over the rounds of the speed of two processes over that of one."""
    pairs = zip(speeds["two"], speeds[base], strict=True)
    return statistics.median(getattr(two, name) / getattr(one, name) for two, one in pairs)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", default="Velocity-Flat-Unitree-Go1")
    parser.add_argument("--envs", type=int, default=256, help="environments of a process on half of the cores")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--updates", type=int, default=40, help="gradient steps per iteration")
    parser.add_argument("--iterations", type=int, default=5, help="iterations per turn")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--no-write", action="store_true", help="only print")
    options = parser.parse_args()

    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    if half == 0:
        raise SystemExit("This benchmark needs at least two cores.")
    halves = [set(cores[:half]), set(cores[half : 2 * half])]
    work = Work(options.task, options.envs, options.batch_size, options.updates, options.iterations)
    double = Work(options.task, 2 * options.envs, 2 * options.batch_size, options.updates, options.iterations)
    groups = {
        "one_half": Group(work, halves[:1]),
        "two": Group(work, halves),
        "one_whole": Group(double, [halves[0] | halves[1]]),
    }
    names = list(groups)
    speeds: dict[str, list[Speed]] = {name: [] for name in names}
    for turn in range(options.rounds):
        for name in names[turn % 3 :] + names[: turn % 3]:  # nobody always follows the same neighbour
            speeds[name].append(groups[name].turn())
    for group in groups.values():
        group.close()
    quantities = [field.name for field in fields(Speed)]
    rows = [
        [options.task, base, *(ratio(speeds, base, quantity) for quantity in quantities)]
        for base in ("one_half", "one_whole")
    ]
    if options.no_write:
        print(HEADER, *rows, sep="\n")
    else:
        write_table("distributed", HEADER, rows)


if __name__ == "__main__":
    main()
