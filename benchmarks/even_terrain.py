# SPDX-License-Identifier: BSD-3-Clause

"""Whether an even height field is to a walking robot what a plane is, and how it fares on random rough ground.

    python benchmarks/even_terrain.py RUN

RUN is a training on flat ground. Its policy does not see the ground, and walks by the rule of evaluations on a plane,
on a height field of no height, and on Isaac Lab's random rough terrain, in the suite's physics with height fields that
lie at several depths. As many robots then tremble on the even field, and balls of the size of a foot land on it without
friction: what they keep of their horizontal speed, all of it on a plane, is taken by contacts with the edges of
neighbouring prisms, which are tilted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import mujoco
import numpy as np
import torch
import tyro
from common import write_rows
from tensordict import TensorDict

from rsl_rl_sac.locomotion import VelocityEnv, make_env, task_cfg
from rsl_rl_sac.locomotion.evaluation import EVALUATION_SEED, ScheduledCommand, evaluate
from rsl_rl_sac.locomotion.runs import load_policy, policy_sizes, resolve_run
from rsl_rl_sac.locomotion.scene import PhysicsCfg
from rsl_rl_sac.locomotion.terrain import Terrain, TerrainCfg

TREMBLING_STEPS = 150
"""Three seconds."""

BALL_RADIUS = 0.03
"""Metres, as ANYmal's feet have."""


@dataclass
class Options:
    """Options of the measurement."""

    run: tyro.conf.Positional[str]
    """Run, or task of a run, on flat ground."""
    num_envs: int = 48
    """Episodes of each kind."""
    depths: tuple[float, ...] = (0.0, 0.005, 0.01, 0.02)
    """Depths of the height field, in metres."""
    noise: tuple[float, ...] = (0.5, 0.7)
    """Standard deviations of the trembling, in units of the action."""


def make_walk(task: str, num_envs: int, **changes: Any) -> VelocityEnv:  # noqa: ANN401
    """Make environments as an evaluation has them, with changes of the task."""
    events = replace(task_cfg(task).events, push_velocity=0.0)
    env = make_env(task, num_envs, EVALUATION_SEED, observation_noise=False, curriculum=False, events=events, **changes)
    num_commands = math.ceil(env.task.episode_length / env.task.commands.resampling_time) + 1
    env.commands = ScheduledCommand(env.task.commands, num_envs, env.step_dt, num_commands)
    return env


def count_falls(task: str, num_envs: int, noise: float, **changes: Any) -> int:  # noqa: ANN401
    """Return how many robots that tremble fall within three seconds."""
    env = make_env(task, num_envs, seed=0, observation_noise=False, **changes)
    generator, fell = torch.Generator().manual_seed(0), np.zeros(num_envs, dtype=bool)
    for _ in range(TREMBLING_STEPS):
        dones = env.step(noise * torch.randn(num_envs, env.num_actions, generator=generator))[2]
        fell |= dones.numpy().astype(bool)
    return int(fell.sum())


def speed_kept(terrain: TerrainCfg | None, depth: float, num_balls: int = 200) -> float:
    """Return the median share of its horizontal speed, 1 m/s, that a ball has left 0.1 s after it lands at 0.5 m/s."""
    spec = build_ground(terrain, depth)
    ball = spec.worldbody.add_body()
    ball.add_freejoint()
    ball.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[BALL_RADIUS, 0.0, 0.0], mass=3.0, friction=[1e-6, 0.0, 0.0])
    model = spec.compile()
    data, rng, kept = mujoco.MjData(model), np.random.default_rng(0), []
    for _ in range(num_balls):
        mujoco.mj_resetData(model, data)
        angle = rng.uniform(0.0, 2.0 * np.pi)
        direction = np.array([np.cos(angle), np.sin(angle)])
        data.qpos[:3] = [*rng.uniform(-1.0, 1.0, 2), BALL_RADIUS + rng.uniform(0.005, 0.015)]
        data.qvel[:3] = [*direction, -0.5]
        data.xfrc_applied[1, 2] = -100.0  # newtons: a robot stands on it
        mujoco.mj_step(model, data, nstep=20)
        kept.append(float(data.qvel[:2] @ direction))
    return float(np.median(kept))


def build_ground(terrain: TerrainCfg | None, depth: float) -> mujoco.MjSpec:
    """Return a world with nothing but ground, of no friction."""
    spec = mujoco.MjSpec()
    spec.option.timestep = PhysicsCfg().time_step
    if terrain is None:
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 1.0], friction=[1e-6, 0.0, 0.0])
    else:
        Terrain(replace(terrain, num_levels=1, num_columns=2), seed=0).add_to(spec, 1e-6, depth)
    return spec


def main(options: Options) -> None:
    """Measure, print and write a table."""
    torch.set_num_threads(1)
    file = resolve_run(options.run)
    flat_task, rough_task = file.task, file.task.replace("Velocity-Flat-", "Velocity-Rough-")
    flat, rough = task_cfg(flat_task), task_cfg(rough_task)
    if flat.terrain is not None or rough.terrain is None:
        raise SystemExit(f"Name a run on flat ground, {file.path} is of {file.task}.")
    actor, num_observations = load_policy(file), policy_sizes(flat_task)[0]

    def blind(obs: TensorDict) -> torch.Tensor:
        return actor(TensorDict({"policy": obs["policy"][:, :num_observations]}, obs.batch_size))

    even = replace(rough.terrain, slope=(0.0, 0.0), proportions=(0.0, 0.0, 0.0, 0.0, 1.0, 0.0))
    random_rough = replace(rough.terrain, proportions=(0.0, 0.0, 0.0, 1.0, 0.0, 0.0))
    grounds: list[tuple[str, TerrainCfg | None, float]] = [("plane", None, 0.0)]
    grounds += [
        (name, cfg, depth) for name, cfg in (("even", even), ("random rough", random_rough)) for depth in options.depths
    ]
    rows = []
    for name, terrain, depth in grounds:
        task, changes = (
            (flat_task, {}) if terrain is None else (rough_task, {"terrain": terrain, "rewards": flat.rewards})
        )
        changes |= {"physics": replace(flat.physics, terrain_depth=depth)}
        score = evaluate(blind, make_walk(task, options.num_envs, **changes))
        row = {
            "task": flat_task,
            "ground": name,
            "depth": depth,
            "tracking": score.tracking,
            "survival": score.survival,
        }
        if name != "random rough":
            falls = {
                f"falls_{noise:g}": count_falls(task, options.num_envs, noise, **changes) for noise in options.noise
            }
            row |= {**falls, "ball": speed_kept(terrain, depth)}
        rows.append(row)
        print(row, flush=True)
    write_rows("even_terrain", rows)


if __name__ == "__main__":
    main(tyro.cli(Options))
