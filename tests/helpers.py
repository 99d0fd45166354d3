# SPDX-License-Identifier: BSD-3-Clause

"""Small runs for the tests."""

from __future__ import annotations

import torch

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.runners import OffPolicyRunner


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


def collect(alg: SAC, env: DoubleIntegrator, num_steps: int = 12) -> None:
    """Step the environment with the policy and store what happens, in inference mode as rsl_rl does."""
    obs = env.get_observations()
    with torch.inference_mode():
        for _ in range(num_steps):
            obs, rewards, dones, extras = env.step(alg.act(obs))
            alg.process_env_step(obs, rewards, dones, extras)


def flat_state(value: object, path: str = "") -> dict[str, object]:
    """Flatten nested state into a dictionary of leaves."""
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list | tuple):
        pairs = enumerate(value)
    else:
        return {path: value.clone() if isinstance(value, torch.Tensor) else value}
    return {key: leaf for name, item in pairs for key, leaf in flat_state(item, f"{path}/{name}").items()}


def whole_state(runner: OffPolicyRunner) -> dict[str, object]:
    """Return everything that the future of a training depends on, and what the logger counts."""
    state = flat_state({"alg": runner.alg.save(), "runner": runner._state_dict(), "next": runner.next_iteration})
    return {key: value for key, value in state.items() if not key.endswith("tot_time")}


def differences(one: dict[str, object], other: dict[str, object]) -> list[str]:
    """Return the names of the leaves that are not bit for bit equal."""
    assert one.keys() == other.keys()

    def same(a: object, b: object) -> bool:
        return torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a == b

    return [key for key in one if not same(one[key], other[key])]
