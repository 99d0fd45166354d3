# SPDX-License-Identifier: BSD-3-Clause

"""What each of the paper's changes, and each option of the preset, is worth: one taken back at a time, equal steps.

    python benchmarks/ablation.py [--steps 3.5e6] [--seeds 1] [--first-seed 0] [--variants base n1 bounds_soft]

The base is the preset ``cpu``. Every run writes its learning curve as it goes, and comes into the table when it ends.
Runs that are finished are not repeated, and what the table has of others stays in it.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import tyro
from common import read_rows, write_rows
from rsl_rl.env import VecEnv

from rsl_rl_sac.config import ActorCfg, CriticCfg, RunnerCfg, SACCfg
from rsl_rl_sac.envs import action_bounds
from rsl_rl_sac.locomotion.registry import load_robot, task_cfg
from rsl_rl_sac.presets import preset
from rsl_rl_sac.runners.curve import read_curve
from rsl_rl_sac.runners.training import Training
from rsl_rl_sac.utils.errors import RslRlSacError

CURVES = Path(__file__).parents[1] / "results"
"""Folder of the tables that ``make figures`` draws."""

SOFT_LIMITS = 100.0
"""Size of bounds that narrows no robot's, in units: the soft limits of its joints."""

NAIVE = "time_outs_naive"
"""The variant that is a change of the environment."""


@dataclass
class Options:
    """Options of the benchmark."""

    task: str = "Velocity-Flat-Unitree-Go1"
    """Task."""
    steps: float = 3.5e6
    """Environment steps of each run; the preset's noise and learning rates have come down after 3.6 M."""
    seeds: int = 1
    """Seeds of each variant."""
    first_seed: int = 0
    """First of these seeds."""
    variants: tuple[str, ...] = ()
    """Variants to train; all by default."""
    processes: int = 2
    """Trainings at the same time, a core each."""
    folder: Path = Path("logs/ablation")
    """Folder of the runs."""


def hard_bounds(cfg: RunnerCfg, task: str) -> None:
    """Take the bounds from the joints' ranges themselves."""
    robot = load_robot(task_cfg(task).robot)
    lower, upper = np.array([joint.range for joint in robot.joints.values()]).T
    low, high = action_bounds(robot.default_pos.tolist(), lower.tolist(), upper.tolist(), robot.action_scale)
    cfg.algorithm.action_bounds, cfg.algorithm.largest_action = [low.tolist(), high.tolist()], None


def fixed_bounds(cfg: RunnerCfg, size: float) -> None:
    """Take the same bounds for all joints."""
    cfg.algorithm.action_bounds, cfg.algorithm.largest_action = [-size, size], None


def soft_bounds(cfg: RunnerCfg, mean_bias: str) -> None:
    """Take the bounds of the paper, with either bias of the mean head."""
    cfg.algorithm.largest_action, cfg.actor.distribution_cfg.mean_bias = None, mean_bias


def sigma(cfg: RunnerCfg, value: float) -> None:
    """Start with other noise."""
    cfg.actor.distribution_cfg.init_std = value


def soft_bounds_same_noise(cfg: RunnerCfg) -> None:
    """Take the bounds of the paper, and its first noise: 0.15 rad there, where the preset begins with 0.24 rad."""
    soft_bounds(cfg, "default_pose")
    sigma(cfg, 0.15)


def soft_bounds_in_the_middle(cfg: RunnerCfg) -> None:
    """Take the bounds of the paper and its first noise, around the middle of the bounds."""
    soft_bounds(cfg, "zero")
    sigma(cfg, 0.15)


def window(cfg: RunnerCfg, length: int) -> None:
    """Take another length of the returns."""
    cfg.algorithm.n_step = length


def constant_noise(cfg: RunnerCfg) -> None:
    """Keep the target entropy, and with it the learning rates."""
    cfg.algorithm.final_target_entropy_scale, cfg.algorithm.final_learning_rate_scale = None, 1.0


def critics_averaged(cfg: RunnerCfg) -> None:
    """Take the mean of two critics in place of their minimum."""
    cfg.critic.num_critics, cfg.algorithm.value_reduction = 2, "mean"


def unscaled_rewards(cfg: RunnerCfg) -> None:
    """Learn from the rewards as they are; range of values and temperature are in the same unit."""
    scale, algorithm = cfg.algorithm.reward_scale, cfg.algorithm
    low, high = cfg.critic.value_range
    cfg.critic.value_range = (low / scale, high / scale)
    algorithm.reward_scale, algorithm.init_temperature = 1.0, algorithm.init_temperature / scale


def paper_exploration(cfg: RunnerCfg) -> None:
    """Explore as the paper does: its bounds, first noise, target entropy and temperature, in our scale of rewards.

    The target does not move, and neither do the learning rates then.
    """
    paper = SACCfg()
    soft_bounds(cfg, "default_pose")
    sigma(cfg, 0.15)
    constant_noise(cfg)
    cfg.algorithm.target_entropy_scale = paper.target_entropy_scale
    cfg.algorithm.init_temperature = cfg.algorithm.reward_scale * paper.init_temperature
    cfg.algorithm.temperature_learning_rate = paper.temperature_learning_rate


def settings(cfg: RunnerCfg | ActorCfg | CriticCfg | SACCfg, **values: object) -> None:
    """Change some settings."""
    for name, value in values.items():
        setattr(cfg, name, value)


VARIANTS: dict[str, Callable[[RunnerCfg, str], None]] = {
    "base": lambda cfg, task: None,
    "sigma_0.15": lambda cfg, task: sigma(cfg, 0.15),
    "sigma_1.0": lambda cfg, task: sigma(cfg, 1.0),
    "bounds_soft": lambda cfg, task: soft_bounds(cfg, "default_pose"),
    "bounds_soft_sigma_0.15": lambda cfg, task: soft_bounds_same_noise(cfg),
    "bounds_soft_sigma_0.15_bias_zero": lambda cfg, task: soft_bounds_in_the_middle(cfg),
    "bounds_soft_bias_zero": lambda cfg, task: soft_bounds(cfg, "zero"),
    "bounds_hard": hard_bounds,
    "bounds_1": lambda cfg, task: fixed_bounds(cfg, 1.0),
    "bounds_100": lambda cfg, task: fixed_bounds(cfg, 100.0),
    "bounds_opening": lambda cfg, task: settings(cfg.algorithm, final_largest_action=SOFT_LIMITS),
    "paper_exploration": lambda cfg, task: paper_exploration(cfg),
    "n1": lambda cfg, task: window(cfg, 1),
    "n3": lambda cfg, task: window(cfg, 3),
    NAIVE: lambda cfg, task: None,
    "symmetry_off": lambda cfg, task: settings(cfg.algorithm, symmetry_cfg=None),
    "critic_scalar": lambda cfg, task: settings(cfg.critic, num_atoms=1),
    "critic_layer_norm": lambda cfg, task: settings(cfg.critic, layer_norm=True),
    "actor_layer_norm": lambda cfg, task: settings(cfg.actor, layer_norm=True),
    "critics_2": lambda cfg, task: settings(cfg.critic, num_critics=2),
    "critics_2_mean": lambda cfg, task: critics_averaged(cfg),
    "batch_512": lambda cfg, task: settings(cfg.algorithm, batch_size=512),
    "batch_1024_fewer": lambda cfg, task: settings(cfg.algorithm, batch_size=1024, num_mini_batches=4),
    "actor_at_once": lambda cfg, task: settings(cfg.algorithm, actor_start_update=0),
    "noise_lasting": lambda cfg, task: settings(cfg.algorithm, exploration_correlation=(0.8, 0.8)),
    "noise_mixed": lambda cfg, task: settings(cfg.algorithm, exploration_scale=(0.4, 2.0)),
    "kl_0.006": lambda cfg, task: settings(cfg.algorithm, desired_kl=0.006, final_learning_rate_scale=1.0),
    "actor_every_step": lambda cfg, task: settings(cfg.algorithm, policy_update_frequency=1),
    "overlap_off": lambda cfg, task: settings(cfg, overlap=False),
    "reward_scale_1": lambda cfg, task: unscaled_rewards(cfg),
    "rates_constant": lambda cfg, task: settings(cfg.algorithm, final_learning_rate_scale=1.0),
    "noise_constant": lambda cfg, task: constant_noise(cfg),
    "physics_fine": lambda cfg, task: settings(cfg, coarse_physics=False),
}
"""What each variant changes in the configuration."""


def hide_time_outs(env: VecEnv) -> None:
    """Let every end of an episode look like a failure."""
    step = env.step

    def naive_step(actions: torch.Tensor) -> tuple:
        obs, rewards, dones, extras = step(actions)
        return obs, rewards, dones, {**extras, "time_outs": torch.zeros_like(extras["time_outs"])}

    env.step = naive_step  # type: ignore[method-assign]


def train(job: tuple[str, int, Options]) -> tuple[str, int, str]:
    """Train one variant with one seed, unless it is finished; return both and its score."""
    variant, seed, options = job
    cfg = preset("cpu", options.task)
    assert isinstance(cfg, RunnerCfg)
    VARIANTS[variant](cfg, options.task)
    cfg.seed, cfg.max_iterations = seed, round(options.steps / (cfg.num_envs * cfg.num_steps_per_env))
    try:
        training = Training(options.task, cfg, run_folder(variant, seed, options), num_cores=1)
        if variant == NAIVE:
            hide_time_outs(training.env)
        return variant, seed, training.run().line()
    except RslRlSacError as error:  # the others go on
        return variant, seed, f"failed: {error}"


def run_folder(variant: str, seed: int, options: Options) -> Path:
    """Return the folder of a run."""
    return options.folder / options.task / f"{variant}_{seed}"


def main(options: Options) -> None:
    """Train all variants and write their curves into one table, each as soon as it ends."""
    variants = options.variants or tuple(VARIANTS)
    unknown = sorted(set(variants) - set(VARIANTS))
    if unknown:
        raise SystemExit(f"There is no variant {', '.join(unknown)}; there are {', '.join(VARIANTS)}.")
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    jobs = [(variant, seed, options) for seed in seeds for variant in variants]
    failed: list[str] = []
    # New processes: each has its own threads and its own memory.
    with multiprocessing.get_context("spawn").Pool(options.processes, maxtasksperchild=1) as pool:
        for variant, seed, score in pool.imap_unordered(train, jobs):
            print(f"{variant}, seed {seed}: {score}", flush=True)
            if score.startswith("failed"):
                failed.append(f"{variant}, seed {seed}")
            else:
                add_to_table(variant, seed, options)
    if failed:
        raise SystemExit(f"Failed: {'; '.join(failed)}.")


def add_to_table(variant: str, seed: int, options: Options) -> None:
    """Write the curve of a run into the table, in place of what it has of that variant and seed."""
    name = f"ablation_{options.task}"
    rows = [row for row in read_rows(CURVES / f"{name}.csv") if (row["agent"], row["seed"]) != (variant, str(seed))]
    curve = read_curve(run_folder(variant, seed, options) / "curve.csv")
    rows += [{"task": options.task, "agent": variant, "seed": seed, **row} for row in curve]
    write_rows(name, rows, CURVES)


if __name__ == "__main__":
    main(tyro.cli(Options))
