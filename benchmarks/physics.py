# SPDX-License-Identifier: BSD-3-Clause

"""Speed and memory of the locomotion environments: over bare physics, over their number, and against mjlab.

    python benchmarks/physics.py [--parts floor memory mjlab] [--tasks TASK ...] [--envs 256 1024 4096] [--quick]

The floor is MuJoCo's own rollout of the same model without sensors: no observations, no rewards, no resets. It starts
every control step from the state, the solver's warm start and the targets that the environment had at that step, so
that both move the same robots in the same way; only the masses are nominal. Environment and floor take turns, in blocks
of control steps in the order environment, floor, floor, environment, where the last one repeats the first from a saved
state. All numbers of environments take turns in one process and are equally far into their episodes. On rough terrain
robots start anywhere on their tile, not on the flat plate in its middle, which they would hardly leave.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import common
import mujoco
import numpy as np
import torch
from common import ratio, write_table
from mujoco.rollout import Rollout

from rsl_rl_sac.locomotion.registry import make_env, task_cfg
from rsl_rl_sac.locomotion.scene import build_spec, compile_model
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv
from rsl_rl_sac.utils.allocator import reuse_large_allocations
from rsl_rl_sac.utils.cores import num_usable_cores

ROBOTS = ("Unitree-Go1", "Anymal-D", "Unitree-G1")
TASKS = [f"Velocity-{terrain}-{robot}" for robot in ROBOTS for terrain in ("Flat", "Rough")]
BARS = {"Flat": 0.85, "Rough": 0.75}
"""Least speed of the environment over that of the floor."""
PARTS = ("simulation", "guards", "state", "rewards", "observations", "resets")
"""Parts of a step: MuJoCo with its sensors, what :class:`Physics` does around it, and what follows."""
ACTION_SCALE = 0.5
WARM_UP_STEPS = 30
MEMORY_STEPS = 10
FOOTPRINT = 0.5
"""Metres around a robot's centre in which its feet are when it starts, whichever way it looks."""
LARGEST_DEVIATION = 0.02
"""Distance in m or rad by which the median robot of the floor may miss the environment's, masses being different."""
LEAST_LOAD = 0.9
"""Share of its threads the floor keeps busy on an idle machine. On a busy one, the scheduler favours one of both."""
MJLAB_TASK = "Velocity-Flat-Unitree-Go1"
MJLAB_STEPS, OUR_STEPS = 4, 200
"""Steps per turn: about as long for both."""


def main() -> None:
    """Measure all parts."""
    parser = argparse.ArgumentParser(description="Speed and memory of the locomotion environments.")
    parser.add_argument(
        "--parts", nargs="+", default=["floor", "memory", "mjlab"], choices=["floor", "memory", "mjlab"]
    )
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--envs", nargs="+", type=int, default=[256, 1024, 4096])
    parser.add_argument("--mjlab-envs", nargs="+", type=int, default=[64, 256])
    parser.add_argument("--mjlab-python", default=str(pathlib.Path(__file__).parents[1] / ".venv-mjlab/bin/python"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="control steps per block")
    parser.add_argument("--threads", type=int, default=num_usable_cores())
    parser.add_argument("--cold-start", action="store_true", help="do not give the floor the solver's warm start")
    parser.add_argument("--quick", action="store_true", help="see that it runs: tiny sizes, results not kept")
    parser.add_argument("--resident", nargs=2, metavar=("TASK", "ENVS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.quick:
        args.tasks, args.envs, args.mjlab_envs = args.tasks[:2], [32, 64], [8]
        args.rounds, args.steps = 2, 3
        common.RESULTS = pathlib.Path(tempfile.mkdtemp())
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    if args.resident:
        print(json.dumps(resident(args.resident[0], int(args.resident[1]), args.threads)))
        return
    reuse_large_allocations()  # as in training
    args.envs = sorted(args.envs)
    for part in args.parts:
        MEASUREMENTS[part](args)


def measure_floor(args: argparse.Namespace) -> None:
    """Write the speed over that of the floor, the cost over the number of environments, and where the time goes."""
    header = ["task", "envs", "threads", "mujoco", "env_per_s", "floor_per_s", "env_over_floor"]
    header += ["env_over_floor_min", "env_over_floor_max", "bar", "floor_cores"]
    header += [f"{name}_cost_over_{args.envs[0]}" for name in ("env", "floor")]
    share_header = ["task", "envs", "threads", "simulation_over_floor", *PARTS, "rest"]
    rows, share_rows = [], []
    for task in args.tasks:
        seconds = take_turns(task, args)
        bar = next((value for terrain, value in BARS.items() if f"-{terrain}-" in task), float("nan"))
        smallest = seconds[args.envs[0]]
        for num_envs, times in seconds.items():
            row: list[object] = [task, num_envs, args.threads, mujoco.__version__]
            row += [round(1.0 / statistics.median(times[name])) for name in ("env", "floor")]
            cores = ratio(times, "floor_processor", "floor")
            over_floor = [floor / env for floor, env in zip(times["floor"], times["env"], strict=True)]
            row += [statistics.median(over_floor), min(over_floor), max(over_floor), bar, cores]
            row += [ratio({"this": times[name], "first": smallest[name]}, "this", "first") for name in ("env", "floor")]
            rows.append(row)
            shares = [ratio(times, part, "env") for part in PARTS]
            shares.append(1.0 - sum(shares))
            simulation = ratio(times, "simulation", "floor")
            share_rows.append([task, num_envs, args.threads, simulation, *[f"{share:.1%}" for share in shares]])
            print(dict(zip(header, row, strict=True)), flush=True)
            if cores < LEAST_LOAD * args.threads:
                print(f"The machine was busy: {args.threads} threads got {cores:.2g} cores. The ratios are not valid.")
    print()
    write_table("physics", header, rows)
    write_table("physics_shares", share_header, share_rows)


def take_turns(task: str, args: argparse.Namespace) -> dict[int, dict[str, list[float]]]:
    """Return the seconds per environment step of environment, floor and parts, by number of environments."""
    cases = {num_envs: Case(task, num_envs, args.steps, args.threads, args.cold_start) for num_envs in args.envs}
    seconds: dict[int, dict[str, list[float]]] = {num_envs: {} for num_envs in cases}
    for turn in range(-1, args.rounds):
        for num_envs in args.envs[:: 1 if turn % 2 else -1]:
            case = cases[num_envs]
            # A block of few environments is short, so it is repeated.
            repetitions = min(4, max(1, args.envs[-1] // num_envs // 4))
            times = case.turn(repetitions)
            if turn == -1:  # the first turn fills caches
                case.check()
                continue
            for name, value in times.items():
                seconds[num_envs].setdefault(name, []).append(value)
    return seconds


class Case:
    """Some environments of a task and their floor."""

    def __init__(self, task: str, num_envs: int, steps: int, threads: int, cold_start: bool) -> None:
        """Make both and run the environments for a while.

        Args:
            task: Name of the task.
            num_envs: Number of environments.
            steps: Control steps per block.
            threads: Threads of each.
            cold_start: Whether the floor goes without the solver's warm start.
        """
        # Starts are drawn over the whole tile instead.
        events = replace(task_cfg(task).events, reset_position=0.0)
        self.env = make_env(task, num_envs, num_threads=threads, events=events)
        spread_starts(self.env)
        self.stopwatch = Stopwatch(self.env)
        # Otherwise all time-outs would come in the same step.
        self.env.episode_length_buf = torch.randint(int(self.env.max_episode_length), (num_envs,))
        self.steps, self.cold_start = steps, cold_start
        self.floor_processor = 0.0
        self.actions = RandomActions(self.env)
        for action in self.actions.draw(WARM_UP_STEPS):
            self.env.step(action)

        spec = build_spec(self.env.robot, self.env.terrain, self.env.task.physics)
        for sensor in list(spec.sensors):
            spec.delete(sensor)
        self.model = model = compile_model(self.env.robot, spec)
        self.decimation = self.env.task.physics.decimation
        self.rollout = Rollout(nthread=threads)
        self.data = [mujoco.MjData(model) for _ in range(threads)]
        self.models = [model] * num_envs
        num_states = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS.value)
        self.control = np.zeros((num_envs, self.decimation, model.nu))
        self.outcome = np.zeros((num_envs, self.decimation, num_states))
        self.no_sensors = np.zeros((num_envs, self.decimation, 0))
        # What the environment had at each control step of the block; a state is time, positions and velocities.
        self.states = np.zeros((steps, num_envs, num_states))
        self.warm_starts = np.zeros((steps, num_envs, model.nv))
        self.targets = np.zeros((steps, num_envs, self.env.num_actions), dtype=np.float32)
        self.warm_start = self.env.physics.batch.bind("qacc_warmstart")

    def turn(self, repetitions: int) -> dict[str, float]:
        """Run one block of the environment and its floor; return seconds per environment step.

        Args:
            repetitions: How often to go through environment, floor, floor, environment, always from the same state.
        """
        start, actions = self.env.state_dict(), self.actions.draw(self.steps)
        seconds = {"env": 0.0, "floor": 0.0}
        self.stopwatch.clear()
        self.floor_processor = 0.0
        for repetition in range(repetitions):
            if repetition:
                self.env.load_state_dict(start)
            seconds["env"] += self.run_env(actions)
            seconds["floor"] += self.run_floor()
            seconds["floor"] += self.run_floor()
            self.env.load_state_dict(start)
            seconds["env"] += self.run_env(actions)
        seconds |= {"floor_processor": self.floor_processor, **self.stopwatch.parts()}
        count = 2 * repetitions * self.steps * self.env.num_envs
        return {name: value / count for name, value in seconds.items()}

    def run_env(self, actions: torch.Tensor) -> float:
        """Return the seconds of one block of the environment; what the floor needs is recorded between the steps."""
        env, physics, seconds = self.env, self.env.physics, 0.0
        default_pos = env.robot.default_pos.astype(np.float32)
        for k, action in enumerate(actions):
            self.states[k, :, 1 : 1 + self.model.nq] = physics.qpos
            self.states[k, :, 1 + self.model.nq :] = physics.qvel
            self.warm_starts[k] = self.warm_start
            self.targets[k] = default_pos + env.robot.action_scale * action.numpy()
            start = time.perf_counter()
            env.step(action)
            seconds += time.perf_counter() - start
        return seconds

    def run_floor(self) -> float:
        """Return the seconds of one block of the floor."""
        return sum(self.step_floor(k) for k in range(self.steps))

    def step_floor(self, k: int) -> float:
        """Return the seconds of one control step of the floor."""
        self.control[:, :, : self.targets.shape[2]] = self.targets[k][:, None]
        processor_start, start = time.process_time(), time.perf_counter()
        self.rollout.rollout(
            self.models,
            self.data,
            self.states[k],
            self.control,
            skip_checks=True,
            nstep=self.decimation,
            initial_warmstart=None if self.cold_start else self.warm_starts[k],
            state=self.outcome,
            sensordata=self.no_sensors,
        )
        seconds = time.perf_counter() - start
        self.floor_processor += time.process_time() - processor_start
        return seconds

    def check(self) -> None:
        """Raise if the floor does not move its robots as the environment did in the last block."""
        for k in range(self.steps - 1):
            self.step_floor(k)
            positions = slice(1, 1 + self.model.nq)
            deviation = np.abs(self.outcome[:, -1, positions] - self.states[k + 1, :, positions]).max(axis=1)
            if np.median(deviation) > LARGEST_DEVIATION:  # the median, since some robots were reset
                raise RuntimeError(f"The floor is {np.median(deviation):.2g} off the environment in step {k}.")


def spread_starts(env: VelocityEnv) -> None:
    """Let each robot start at a point of its own of its tile, as high as the highest ground under it."""
    terrain, levels = env.terrain, env.levels
    if terrain is None or levels is None:
        return
    rng = np.random.default_rng(0)
    half = terrain.cfg.tile_size / 2 - FOOTPRINT
    starts = terrain.origins[:, levels.columns].copy()  # [level, environment, 3]
    starts[:, :, :2] += rng.uniform(-half, half, size=(env.num_envs, 2))
    around = np.linspace(-FOOTPRINT, FOOTPRINT, 21)
    for level in starts:
        x = level[:, 0, None, None] + around[:, None] + 0.0 * around
        y = level[:, 1, None, None] + around + 0.0 * around[:, None]
        level[:, 2] = terrain.height_at(x, y).max(axis=(1, 2))
    # In place of the tile's centre; the lookup costs the environment what its own does.
    setattr(levels, "origins", lambda rows: starts[levels.levels[rows], rows])  # noqa: B010
    env.reset()


class RandomActions:
    """Random actions within the bounds, the same at every run."""

    def __init__(self, env: VelocityEnv) -> None:
        """Take over sizes and bounds of the environment."""
        self.shape = (env.num_envs, env.num_actions)
        self.bounds = env.action_bounds
        self.generator = torch.Generator().manual_seed(0)

    def draw(self, steps: int) -> torch.Tensor:
        """Return the actions ``(steps, N, actions)`` of some steps."""
        noise = torch.randn((steps, *self.shape), generator=self.generator)
        return (ACTION_SCALE * noise).clamp(*self.bounds)


class Stopwatch:
    """Time in the parts of an environment's step."""

    def __init__(self, env: VelocityEnv) -> None:
        """Put a clock around the functions of the environment."""
        self.seconds: dict[str, float] = {}
        self._watch(env.physics.batch, "rollout", "simulation")
        self._watch(env.physics, "step", "physics")
        self._watch(env.state, "after_step", "state")
        self._watch(env.rewards, "compute", "rewards")
        self._watch(env.observations, "compute", "observations")
        self._watch(env, "_end_episodes", "resets")

    def clear(self) -> None:
        """Start at zero."""
        self.seconds = dict.fromkeys(self.seconds, 0.0)

    def parts(self) -> dict[str, float]:
        """Return the seconds of each part since the last :meth:`clear`."""
        guards = self.seconds["physics"] - self.seconds["simulation"]
        return {part: guards if part == "guards" else self.seconds[part] for part in PARTS}

    def _watch(self, owner: object, name: str, part: str) -> None:
        function: Callable[..., Any] = getattr(owner, name)
        self.seconds[part] = 0.0

        def timed(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            start = time.perf_counter()
            result = function(*args, **kwargs)
            self.seconds[part] += time.perf_counter() - start
            return result

        setattr(owner, name, timed)


def measure_memory(args: argparse.Namespace) -> None:
    """Write the memory of a process with environments, each in a process of its own."""
    header = ["task", "envs", "threads", "before_mib", "resident_mib", "peak_mib", "slope_kib_per_env"]
    # Freed arrays go back to the system. Otherwise what the terrain leaves behind hides what the environments take.
    variables = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    rows = []
    for task in args.tasks:
        sizes = []
        for num_envs in args.envs:
            command = [sys.executable, __file__, "--threads", str(args.threads), "--resident", task, str(num_envs)]
            sizes.append(json.loads(subprocess.check_output(command, text=True, env=variables)))
        resident_kib = [size["resident"] for size in sizes]
        slope = float(np.polyfit(args.envs, resident_kib, 1)[0]) if len(args.envs) > 1 else float("nan")
        for num_envs, size in zip(args.envs, sizes, strict=True):
            mib = [round(size[name] / 1024) for name in ("before", "resident", "peak")]
            rows.append([task, num_envs, args.threads, *mib, slope])
    write_table("physics_memory", header, rows)


def resident(task: str, num_envs: int, threads: int) -> dict[str, int]:
    """Return the KiB of this process before there are environments, after some steps, and at most."""

    def kib(name: str) -> int:
        # Not getrusage, whose maximum begins with that of the parent process.
        status = pathlib.Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in status if line.startswith(f"{name}:")).split()[1])

    before = kib("VmRSS")
    env = make_env(task, num_envs, num_threads=threads)
    actions = RandomActions(env)
    for _ in range(MEMORY_STEPS):
        env.step(actions.draw(1)[0])
    return {"before": before, "resident": kib("VmRSS"), "peak": kib("VmHWM")}


def measure_mjlab(args: argparse.Namespace) -> None:
    """Write the speed of the flat Go1 task against mjlab's on the CPU, which takes turns in a process of its own."""
    if not pathlib.Path(args.mjlab_python).exists():
        print(f"No mjlab: there is no {args.mjlab_python}; make .venv-mjlab/.ready sets it up. Skipped.")
        return
    header = ["envs", "threads", "mujoco", "mjlab", "mjlab_mujoco", "ours_per_s", "mjlab_per_s", "ours_over_mjlab"]
    header += ["bar", "ours_cores", "mjlab_cores"]
    rows = []
    for num_envs in args.mjlab_envs:
        with tempfile.TemporaryFile("w+") as log:
            try:
                rows.append(compare_with_mjlab(num_envs, args, log))
            except (OSError, ValueError):  # it ended: a broken pipe or an empty answer
                log.seek(0)
                last = (log.read().strip().splitlines() or ["it said nothing"])[-1]
                print(f"mjlab with {num_envs} environments failed: {last}")
                continue
        print(dict(zip(header, rows[-1], strict=True)), flush=True)
    if rows:
        write_table("physics_mjlab", header, rows)


def compare_with_mjlab(num_envs: int, args: argparse.Namespace, log: Any) -> list[object]:  # noqa: ANN401
    """Return a row of the table: both with the same number of environments and physics steps per control step.

    Args:
        num_envs: Number of environments.
        args: Arguments of the benchmark.
        log: File for what mjlab says.
    """
    env = make_env(MJLAB_TASK, num_envs, num_threads=args.threads)
    actions = RandomActions(env)
    command = [args.mjlab_python, str(pathlib.Path(__file__).with_name("peer_mjlab.py"))]
    command += [str(num_envs), str(args.threads)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as worker:
        assert worker.stdin is not None and worker.stdout is not None
        facts = json.loads(worker.stdout.readline())  # waits until the kernels are compiled
        if (facts["physics_steps"], facts["step_dt"]) != (env.task.physics.decimation, env.step_dt):
            raise RuntimeError(f"mjlab's control step is another: {facts}.")

        def ours() -> tuple[float, float]:
            block = actions.draw(OUR_STEPS)
            start, processor_start = time.perf_counter(), time.process_time()
            for action in block:
                env.step(action)
            return time.perf_counter() - start, time.process_time() - processor_start

        seconds: dict[str, list[float]] = {"ours": [], "mjlab": []}
        cores: dict[str, list[float]] = {"ours": [], "mjlab": []}
        ours()
        for _ in range(args.rounds):
            for name, steps in (("ours", OUR_STEPS), ("mjlab", MJLAB_STEPS)):
                if name == "ours":
                    wall, processor = ours()
                else:
                    print(MJLAB_STEPS, file=worker.stdin, flush=True)
                    wall, processor = json.loads(worker.stdout.readline())
                seconds[name].append(wall / steps / num_envs)
                cores[name].append(processor / wall)
    row: list[object] = [num_envs, args.threads, mujoco.__version__, facts["mjlab"], facts["mujoco"]]
    row += [round(1.0 / statistics.median(seconds[name])) for name in seconds]
    row += [ratio(seconds, "mjlab", "ours"), 10]
    return row + [statistics.median(cores[name]) for name in cores]


MEASUREMENTS = {"floor": measure_floor, "memory": measure_memory, "mjlab": measure_mjlab}

if __name__ == "__main__":
    main()
