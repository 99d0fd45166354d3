# SPDX-License-Identifier: BSD-3-Clause

"""Where the critic converges to, if episodes end by time or by failure."""

from __future__ import annotations

import pytest
import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rsl_rl_sac.algorithms import SAC
from tests.helpers import small_cfg

GAMMA = 0.8
NUM_STEPS = 400  # with few transitions the critics tell aliased states apart by the noise of the action
LENGTH = 4


class ConstantReward(VecEnv):
    """Reward 1 at every step; episodes of four steps that end by time, by failure, or by time disguised as failure.

    The observation is the step of the episode, so the critic can represent the value exactly; where failures do not
    count, it is the step modulo 3, so that the observation before a reset also occurs within an episode, as it does
    with robots, and is not the one after the reset.
    """

    def __init__(self, ends_by: str) -> None:
        """Create eight copies at different points of the episode."""
        self.num_envs, self.num_actions, self.max_episode_length = 8, 1, LENGTH
        self.device, self.cfg, self.ends_by = "cpu", {}, ends_by
        self.action_bounds = (torch.tensor([-1.0]), torch.tensor([1.0]))
        self.episode_length_buf = torch.arange(8) % LENGTH

    def get_observations(self) -> TensorDict:
        """Return the step of the episode, or its remainder, one-hot."""
        phase = self.episode_length_buf if self.ends_by == "failure" else self.episode_length_buf % 3
        one_hot = torch.nn.functional.one_hot(phase, LENGTH + 1).float()
        return TensorDict({"policy": one_hot}, batch_size=[8])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        """Advance the episode."""
        self.episode_length_buf = self.episode_length_buf + 1
        dones = self.episode_length_buf >= LENGTH
        extras: dict = {"final_obs": self.get_observations()}
        if self.ends_by == "time":
            extras["time_outs"] = dones.clone()
        self.episode_length_buf[dones] = 0
        return self.get_observations(), torch.ones(8), dones, extras


def train(ends_by: str, n_step: int) -> torch.Tensor:
    """Train the critics to convergence with alpha = 0 and return Q at each step of the episode."""
    env = ConstantReward(ends_by)
    cfg = small_cfg(
        gamma=GAMMA, n_step=n_step, auto_temperature=False, init_temperature=0.0, tau=0.1, batch_size=128,
        num_mini_batches=700, replay_size=8 * NUM_STEPS, training_start_iteration=0, critic_learning_rate=3e-3,
    )  # fmt: skip
    cfg.actor.obs_normalization = cfg.critic.obs_normalization = False
    alg = SAC.construct_algorithm(env.get_observations(), env, cfg.to_dict(), "cpu")
    obs = env.get_observations()
    for _ in range(NUM_STEPS):
        obs, rewards, dones, extras = env.step(alg.act(obs))
        alg.process_env_step(obs, rewards, dones, extras)
    alg.update()
    for group in alg.critic_optimizer.param_groups:
        group["lr"] = 3e-4
    alg.update()
    num_states = LENGTH if ends_by == "failure" else 3
    states = TensorDict({"policy": torch.eye(LENGTH + 1)[:num_states]}, batch_size=[num_states])
    with torch.no_grad():
        return alg.critic(states, torch.zeros(num_states, 1)).mean(dim=0)


@pytest.mark.parametrize("n_step", [1, 3])
def test_time_outs_bootstrap(n_step: int) -> None:
    """If only time ends an episode, the reward goes on for ever: 1 / (1 - 0.8) = 5 in every state."""
    torch.testing.assert_close(train("time", n_step), torch.full((3,), 5.0), atol=0.1, rtol=0.0)


@pytest.mark.parametrize("n_step", [1, 3])
def test_failures_do_not(n_step: int) -> None:
    """If failure ends it after k more steps, Q = 1 + 0.8 + ... + 0.8^(k-1), by hand for k = 4, 3, 2, 1."""
    expected = torch.tensor([1 + 0.8 + 0.64 + 0.512, 1 + 0.8 + 0.64, 1 + 0.8, 1.0])
    torch.testing.assert_close(train("failure", n_step), expected, atol=0.06, rtol=0.0)


def test_naive_handling_misses_it() -> None:
    """An environment that reports its time-outs as failures ends up far below 5: that is what the correction mends.

    By hand: phase 0 is the first step and, as often, the last, so Q0 = 1 + 0.4 Q1, Q1 = 1 + 0.8 Q2, Q2 = 1 + 0.8 Q0.
    """
    expected = torch.tensor([2.312, 3.280, 2.849])
    torch.testing.assert_close(train("time disguised as failure", 1), expected, atol=0.25, rtol=0.0)
