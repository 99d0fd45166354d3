# SPDX-License-Identifier: BSD-3-Clause

"""What exploration noise costs, and what it reveals.

For noise of several sizes around the default pose: the reward per step by term, and the drift signal, the part of the
body's mean velocity that a random constant offset of the action causes. Without drift, no small change of a policy
that stands moves the robot, and there is no gradient to follow. All of it in the suite's physics, and in the coarse one
that trainings may use (``coarse_physics``).

    python benchmarks/exploration.py
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch
import tyro
from common import write_rows

from rsl_rl_sac.locomotion import make_env, task_cfg
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv

PRINTED = ("task", "physics", "noise", "correlation", "reward", "standing", "drift")


@dataclass
class Options:
    """Options of the measurement."""

    tasks: tuple[str, ...] = tuple(
        f"Velocity-Flat-{robot}" for robot in ("Anymal-B", "Anymal-D", "Unitree-A1", "Unitree-Go1", "Unitree-Go2")
    )
    """Tasks."""
    num_envs: int = 256
    """Environments, each with an offset of its own."""
    scales: tuple[float, ...] = (0.0, 0.2, 0.4, 0.8)
    """Standard deviations of the noise, in units of the action."""
    correlations: tuple[float, ...] = (0.0, 0.8)
    """Correlations of the noise between successive steps."""
    offset: float = 0.3
    """Standard deviation of the constant offsets of the action."""
    steps: int = 160
    """Steps; the first quarter is not measured."""


def measure(env: VelocityEnv, options: Options, scale: float, correlation: float, offset: float) -> dict[str, float]:
    """Act with an offset plus noise; return the mean reward per step, by term, and the drift signal."""
    generator = torch.Generator().manual_seed(0)
    shape = (env.num_envs, env.num_actions)
    offsets = offset * torch.randn(shape, generator=generator)
    noise = torch.randn(shape, generator=generator)
    env.seed(0)
    env.reset()
    standing = np.ones(env.num_envs, dtype=bool)
    velocities, terms = [], []
    for step in range(options.steps):
        fresh = torch.randn(shape, generator=generator)
        noise = correlation * noise + (1.0 - correlation**2) ** 0.5 * fresh
        _, _, dones, _ = env.step(offsets + scale * noise)
        standing &= ~dones.numpy().astype(bool)
        if step >= options.steps // 4:
            velocities.append(env.state.lin_vel[:, :2].copy())
            terms.append(env.rewards.last.mean(axis=0).copy())
    half = len(velocities) // 2
    first, second = np.mean(velocities[:half], axis=0)[standing], np.mean(velocities[half:], axis=0)[standing]
    # What the two halves of the time have in common, the offset has caused; noise of either is not in the covariance.
    covariance = float(np.mean((first - first.mean(axis=0)) * (second - second.mean(axis=0))))
    by_term = dict(zip(env.rewards.names, np.mean(terms, axis=0).round(5).tolist(), strict=True))
    return {
        "reward": round(float(np.sum(np.mean(terms, axis=0))), 5),
        "standing": round(float(standing.mean()), 3),
        "drift": round(float(np.sign(covariance) * abs(covariance) ** 0.5), 4),
        **by_term,
    }


def main(options: Options) -> None:
    """Measure, print and write a table."""
    rows = []
    for task, physics in itertools.product(options.tasks, ("fine", "coarse")):
        cfg = task_cfg(task).physics if physics == "fine" else task_cfg(task).physics.coarse()
        env = make_env(task, options.num_envs, seed=0, observation_noise=False, physics=cfg)
        settings = [
            (scale, rho) for scale in options.scales for rho in options.correlations if scale > 0.0 or rho == 0.0
        ]
        for scale, correlation in settings:
            cost = measure(env, options, scale, correlation, 0.0)
            drift = measure(env, options, scale, correlation, options.offset)["drift"]
            setting = {"task": task, "physics": physics, "noise": scale, "correlation": correlation}
            rows.append({**setting, **cost, "drift": drift})
            print(" ".join(f"{name} {rows[-1][name]}" for name in PRINTED), flush=True)
    write_rows("exploration", rows)  # robots have different terms


if __name__ == "__main__":
    main(tyro.cli(Options))
