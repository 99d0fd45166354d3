# SPDX-License-Identifier: BSD-3-Clause

"""How well a critic knows what an action is worth, before the actor moves.

The policy stays as it is at the start; only the critic learns. Then, in states that the policy visits, two actions are
drawn from it, and both are followed by the same policy with the same noise: the difference of the discounted rewards is
what one action was better by. Printed is its correlation with the difference that the critic predicts, the reliability
of the measured difference (its correlation with a repetition, which bounds what any critic can reach by its square
root), and the same correlation for the value of the state.

    python benchmarks/critic_error.py --task Velocity-Flat-Unitree-Go2
"""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass

import numpy as np
import torch
import tyro
from common import write_rows
from rollouts import measured_value, noise_source, predicted_value, visited_states

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.config import RunnerCfg, SymmetryCfg
from rsl_rl_sac.locomotion import make_env
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv
from rsl_rl_sac.runners import OffPolicyRunner

VARIANTS: dict[str, dict[str, object]] = {
    "base": {},
    "scalar critic": {"critic.num_atoms": 1},
    "layer norm": {"critic.layer_norm": True},
    "n = 1": {"algorithm.n_step": 1},
    "n = 5": {"algorithm.n_step": 5},
    "no symmetry": {"algorithm.symmetry_cfg": None},
    "4x gradient steps": {"algorithm.num_mini_batches": 96},
    "quarter gradient steps": {"algorithm.num_mini_batches": 6},
}
"""What each variant changes."""


@dataclass
class Options:
    """Options of the measurement."""

    task: str = "Velocity-Flat-Unitree-Go2"
    """Task."""
    variants: tuple[str, ...] = tuple(VARIANTS)
    """Variants to measure."""
    iterations: int = 100
    """Iterations of 2048 environment steps."""
    num_states: int = 512
    """States in which two actions are compared."""
    horizon: int = 80
    """Steps that each action is followed for."""
    repeats: int = 4
    """Times that each comparison is repeated with other noise."""
    num_threads: int = 1
    """Threads of torch and of the physics."""
    seed: int = 0
    """Seed."""


def make_cfg(options: Options, changes: dict[str, object]) -> RunnerCfg:
    """Return the settings of a variant."""
    cfg = RunnerCfg(seed=options.seed, num_envs=512, num_steps_per_env=4, check_for_nan=False)
    cfg.actor.hidden_dims = cfg.critic.hidden_dims = [256, 128, 64]
    cfg.actor.distribution_cfg.init_std = 0.15
    cfg.critic.num_critics, cfg.critic.num_atoms, cfg.critic.value_range = 1, 101, (-20.0, 40.0)
    algorithm = cfg.algorithm
    algorithm.action_bounds, algorithm.n_step, algorithm.tau = [-3.0, 3.0], 3, 0.02
    algorithm.num_mini_batches, algorithm.batch_size, algorithm.replay_size = 24, 512, 1_000_000
    algorithm.critic_learning_rate, algorithm.reward_scale, algorithm.training_start_iteration = 1e-3, 20.0, 5
    algorithm.auto_temperature, algorithm.init_temperature, algorithm.actor_start_update = False, 0.0, 10**9
    algorithm.symmetry_cfg = SymmetryCfg()
    for path, value in changes.items():
        *sections, name = path.split(".")
        section: object = cfg
        for part in sections:
            section = getattr(section, part)
        setattr(section, name, value)
    return cfg


def compare_actions(alg: SAC, env: VelocityEnv, options: Options) -> dict[str, float]:
    """Compare what the critic says of pairs of actions with what they lead to."""
    draw = noise_source(env, options.seed)
    with torch.no_grad():
        env.seed(options.seed + 1)
        state, start = visited_states(alg, env, draw)
        pair = [alg.actor.act_with_noise(start, draw()) for _ in range(2)]
        predicted = [predicted_value(alg, start, actions) for actions in pair]
        measured = torch.zeros(2, options.repeats, env.num_envs)
        for repeat in range(options.repeats):
            noise = [draw() for _ in range(options.horizon)]
            for index, actions in enumerate(pair):
                measured[index, repeat] = measured_value(alg, env, state, actions, noise)
    difference = measured[0] - measured[1]
    halves = correlation(difference[::2].mean(dim=0), difference[1::2].mean(dim=0))
    return {
        "action_correlation": correlation(predicted[0] - predicted[1], difference.mean(dim=0)),
        "reliability": 2.0 * halves / (1.0 + halves),
        "state_correlation": correlation(predicted[0], measured[0].mean(dim=0)),
        "predicted_spread": float((predicted[0] - predicted[1]).std()),
        "measured_spread": float(difference.mean(dim=0).std()),
    }


def correlation(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the correlation of two vectors."""
    return float(np.corrcoef(one.numpy(), other.numpy())[0, 1])


def main(options: Options) -> None:
    """Measure all variants, print and write a table."""
    torch.set_num_threads(options.num_threads)
    judge = make_env(options.task, options.num_states, seed=options.seed, num_threads=options.num_threads)
    rows = []
    for name in options.variants:
        cfg = make_cfg(options, VARIANTS[name])
        env = make_env(options.task, cfg.num_envs, seed=options.seed, num_threads=options.num_threads)
        with contextlib.redirect_stdout(io.StringIO()):
            runner = OffPolicyRunner(env, cfg.to_dict())
            runner.logger.log = lambda **_: None  # type: ignore[method-assign]
            runner.learn(options.iterations, init_at_random_ep_len=True)
        result = {key: round(number, 3) for key, number in compare_actions(runner.alg, judge, options).items()}
        steps = options.iterations * cfg.num_envs * cfg.num_steps_per_env
        rows.append(
            {"task": options.task, "variant": name, "env_steps": steps, "updates": runner.alg.num_updates} | result
        )
        print(rows[-1], flush=True)
        env.close()
    write_rows("critic_error", rows)


if __name__ == "__main__":
    main(tyro.cli(Options))
