# SPDX-License-Identifier: BSD-3-Clause

"""What actions lead to: the same states again and again, with other actions and the same noise."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from tensordict import TensorDict

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv


def noise_source(env: VelocityEnv, seed: int) -> Callable[[], torch.Tensor]:
    """Return a function that draws standard normal noise for the actions of all environments."""
    generator = torch.Generator().manual_seed(seed)
    return lambda: torch.randn(env.num_envs, env.num_actions, generator=generator)


def predicted_value(alg: SAC, obs: TensorDict, actions: torch.Tensor) -> torch.Tensor:
    """Return what the critics say that actions are worth."""
    return alg.critic.reduce(alg.critic(obs, actions), alg.cfg.value_reduction)


def visited_states(
    alg: SAC, env: VelocityEnv, draw: Callable[[], torch.Tensor], num_steps: int = 100
) -> tuple[dict, TensorDict]:
    """Return states that the policy visits, as the environment saves them, and their observations."""
    obs, _ = env.reset()
    for _ in range(num_steps):
        obs, *_ = env.step(alg.actor.act_with_noise(obs, draw()))
    return copy.deepcopy(env.state_dict()), obs.clone()


def measured_value(
    alg: SAC,
    env: VelocityEnv,
    state: dict,
    actions: torch.Tensor,
    noise: Sequence[torch.Tensor],
    temperature: float = 0.0,
) -> torch.Tensor:
    """Return the discounted rewards of actions that the policy follows up, from given states.

    Args:
        alg: Policy, reward scale and discount; its critics have the last word where the noise ends.
        env: Environments.
        state: States of all of them.
        actions: First actions.
        noise: Noise of the actions after them, one for each step.
        temperature: What a nat of the policy's entropy in these steps is worth.
    """
    gamma, scale = alg.cfg.gamma, alg.cfg.reward_scale
    env.load_state_dict(copy.deepcopy(state))
    obs = env.get_observations()
    total, running = torch.zeros(env.num_envs), torch.ones(env.num_envs)
    for step, next_noise in enumerate(noise):
        obs, rewards, dones, _ = env.step(actions)
        total += running * gamma**step * scale * rewards
        running *= 1.0 - dones.float()
        actions = alg.actor.act_with_noise(obs, next_noise)
        if temperature > 0.0:
            total += running * gamma ** (step + 1) * temperature * alg.actor.distribution.entropy
    return total + running * gamma ** len(noise) * predicted_value(alg, obs, actions)
