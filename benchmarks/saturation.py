# SPDX-License-Identifier: BSD-3-Clause

"""Why wide bounds fail: what the actor does with them, and what the critic promised it for that.

SAC trains with the preset ``cpu`` and bounds of different width. From time to time, in states that the policy visits,
its own mean action is compared with holding the default pose: by what the critic says, and by what both lead to when
the same policy follows them up with the same noise. Beside that, how far the mean is from the default pose, how often
it leans on a bound, and how much noise is left.

    python benchmarks/saturation.py [--task Velocity-Flat-Unitree-Go1]
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
from dataclasses import dataclass

import torch
import tyro
from ablation import NAIVE, VARIANTS
from common import write_rows
from rollouts import measured_value, noise_source, predicted_value, visited_states

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv
from rsl_rl_sac.locomotion.world import LocomotionWorld
from rsl_rl_sac.presets import preset
from rsl_rl_sac.runners import OffPolicyRunner

LEANING = 0.9
"""Share of the way from the middle of the range to a bound from which on an action leans on it."""


@dataclass
class Options:
    """Options of the measurement."""

    task: str = "Velocity-Flat-Unitree-Go1"
    """Task."""
    variants: tuple[str, ...] = ("base", "bounds_soft", "paper_exploration")
    """Variants of the ablation; the base has bounds of 0.5 rad."""
    iterations: tuple[int, ...] = (75, 150, 300, 600)
    """When to measure, in iterations of 2048 steps; the actor begins to move at the first of them."""
    num_states: int = 512
    """States in which actions are compared."""
    horizon: int = 120
    """Steps that each action is followed for; the discount leaves 3 % of what comes after."""
    repeats: int = 2
    """Times that each comparison is repeated with other noise."""
    processes: int = 2
    """Trainings at the same time, a core each."""
    seed: int = 0
    """Seed."""


def measure(alg: SAC, env: VelocityEnv, options: Options) -> dict[str, float]:
    """Compare the policy's own mean action with the default pose, and look at the policy itself."""
    draw = noise_source(env, options.seed)
    with torch.no_grad():
        env.seed(options.seed + 1)
        state, obs = visited_states(alg, env, draw)
        alg.actor.act_with_noise(obs, draw())
        distribution, unit = alg.actor.distribution, env.robot.action_scale
        latent_mean, _ = distribution.params
        own, noise_size, pose = distribution.mean, distribution.action_std, torch.zeros_like(distribution.mean)
        predicted = [predicted_value(alg, obs, actions) for actions in (own, pose)]
        measured = torch.zeros(2, env.num_envs)
        for _ in range(options.repeats):
            noise = [draw() for _ in range(options.horizon)]
            for index, actions in enumerate((own, pose)):
                value = measured_value(alg, env, state, actions, noise, float(alg.alpha))
                measured[index] += value / options.repeats
    gain = measured[0] - measured[1]
    return {
        "offset_rad": float(own.abs().mean()) * unit,
        "noise_rad": float(noise_size.mean()) * unit,
        "leaning_share": float((latent_mean.tanh().abs() > LEANING).float().mean()),
        "predicted_value": float(predicted[0].mean()),
        "measured_value": float(measured[0].mean()),
        "predicted_gain": float((predicted[0] - predicted[1]).mean()),
        "measured_gain": float(gain.mean()),
        "standard_error": float(gain.std()) / env.num_envs**0.5,
    }


def train(variant: str, options: Options) -> list[dict[str, object]]:
    """Train one variant and return what was measured on the way."""
    torch.set_num_threads(1)
    world, cfg = LocomotionWorld(), preset("cpu", options.task)
    assert isinstance(cfg, RunnerCfg)
    VARIANTS[variant](cfg, options.task)
    cfg.seed, cfg.overlap = options.seed, False
    env = world.make_coarse_env(options.task, cfg.num_envs, options.seed, num_threads=1)
    judge = world.make_coarse_env(options.task, options.num_states, options.seed, num_threads=1)
    rows = []
    with contextlib.redirect_stdout(io.StringIO()):
        runner = OffPolicyRunner(env, cfg.to_dict())
        runner.logger.log = lambda **_: None  # type: ignore[method-assign]
    done = 0
    for iterations in options.iterations:
        with contextlib.redirect_stdout(io.StringIO()):
            runner.learn(iterations - done, init_at_random_ep_len=done == 0)
        done = iterations
        steps = done * cfg.num_envs * cfg.num_steps_per_env
        numbers = {name: round(number, 4) for name, number in measure(runner.alg, judge, options).items()}
        rows.append({"task": options.task, "variant": variant, "env_steps": steps, "updates": runner.alg.num_updates})
        rows[-1] |= numbers
        print(rows[-1], flush=True)
    env.close()
    judge.close()
    return rows


def main(options: Options) -> None:
    """Train all variants and write a table."""
    known = [variant for variant in VARIANTS if variant != NAIVE]  # which is a change of the environment
    unknown = sorted(set(options.variants) - set(known))
    if unknown:
        raise SystemExit(f"There is no variant {', '.join(unknown)}; there are {', '.join(known)}.")
    # New processes: each has its own threads and its own memory.
    with multiprocessing.get_context("spawn").Pool(options.processes, maxtasksperchild=1) as pool:
        tables = pool.starmap(train, [(variant, options) for variant in options.variants], chunksize=1)
    write_rows("saturation", [row for rows in tables for row in rows])


if __name__ == "__main__":
    main(tyro.cli(Options))
