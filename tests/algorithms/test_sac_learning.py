# SPDX-License-Identifier: BSD-3-Clause

"""SAC on a problem whose optimum is known."""

from __future__ import annotations

import torch

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.runners import OffPolicyRunner


def test_reaches_the_linear_quadratic_regulator() -> None:
    """The discounted cost of the learned policy is within 5 % of the Riccati solution."""
    gamma = 0.97
    env = DoubleIntegrator(num_envs=64)
    cfg = RunnerCfg(num_envs=64, num_steps_per_env=8, seed=0)
    cfg.actor.hidden_dims = cfg.critic.hidden_dims = [64, 64]
    settings = {
        "gamma": gamma, "n_step": 1, "num_mini_batches": 32, "batch_size": 256, "replay_size": 100_000, "tau": 0.02,
        "actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3, "temperature_learning_rate": 1e-3,
        "init_temperature": 0.01, "target_entropy_scale": 1.0,
    }  # fmt: skip
    for name, value in settings.items():
        setattr(cfg.algorithm, name, value)
    runner = OffPolicyRunner(env, cfg.to_dict())
    runner.learn(90)
    # Let the noise of the last steps die out before measuring.
    for optimizer in (runner.alg.actor_optimizer, runner.alg.critic_optimizer):
        optimizer.param_groups[0]["lr"] = 1e-4
    runner.learn(20)

    test_env = DoubleIntegrator(num_envs=512, max_episode_length=10**6, seed=99)
    start = test_env.states.double()
    _, cost_to_go = test_env.optimal_gain(gamma)
    optimal = float(((start @ cost_to_go) * start).sum(dim=-1).mean())
    policy, obs, cost = runner.get_inference_policy(), test_env.get_observations(), 0.0
    with torch.no_grad():
        for t in range(400):  # 0.97^400 = 5e-6: what follows does not count
            obs, rewards, _, _ = test_env.step(policy(obs))
            cost -= gamma**t * float(rewards.mean())
    assert 0.999 < cost / optimal < 1.05
