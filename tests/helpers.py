# SPDX-License-Identifier: BSD-3-Clause

"""Small runs for the tests."""

from __future__ import annotations

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.envs import DoubleIntegrator


def small_cfg(**algorithm: object) -> RunnerCfg:
    """Return a configuration for the double integrator that runs in a moment."""
    cfg = RunnerCfg(num_envs=16, num_steps_per_env=8, save_interval=2)
    cfg.actor.hidden_dims = [32, 32]
    cfg.critic.hidden_dims = [32, 32]
    settings = {"num_mini_batches": 4, "batch_size": 64, "replay_size": 16 * 40, "n_step": 3, **algorithm}
    for name, value in settings.items():
        setattr(cfg.algorithm, name, value)
    return cfg


def small_alg(**algorithm: object) -> tuple[SAC, DoubleIntegrator]:
    """Build the algorithm for a small double integrator."""
    env = DoubleIntegrator(num_envs=16)
    cfg = small_cfg(**algorithm).to_dict()
    return SAC.construct_algorithm(env.get_observations(), env, cfg, "cpu"), env
