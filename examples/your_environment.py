# SPDX-License-Identifier: BSD-3-Clause

"""An environment of your own: the whole contract in one class, checked, then trained on.

    python examples/your_environment.py

docs/your-environment.md explains it.
"""

from __future__ import annotations

import contextlib
import io

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.envs import check_vec_env
from rsl_rl_sac.envs.evaluation import evaluate_episodes
from rsl_rl_sac.runners import OffPolicyRunner


class Hover(VecEnv):
    """Rockets that shall hover at 1 m. The action is the thrust beyond their weight; leaving 0 to 2 m is a failure."""

    def __init__(self, num_envs: int = 64, seed: int = 0, device: str = "cpu") -> None:
        """Put the rockets at their starts."""
        self.num_envs, self.num_actions, self.max_episode_length = num_envs, 1, 50
        self.device, self.cfg = device, {}
        self.action_bounds = (torch.tensor([-1.0]), torch.tensor([3.0]))
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long, device=device)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.states = self._starts()

    def get_observations(self) -> TensorDict:
        """Return height and speed. A copy: what was returned must not change with the next step."""
        return TensorDict({"policy": self.states.clone()}, batch_size=[self.num_envs], device=self.device)

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        """Fly for a tenth of a second, then put those rockets back whose episode has ended."""
        height, speed = self.states.unbind(dim=1)
        speed = speed + 0.1 * actions[:, 0]
        height = height + 0.1 * speed
        self.states = torch.stack((height, speed), dim=1)
        self.episode_length_buf = self.episode_length_buf + 1

        rewards = torch.exp(-10.0 * (height - 1.0) ** 2)
        failures = (height < 0.0) | (height > 2.0)
        time_outs = (self.episode_length_buf >= self.max_episode_length) & ~failures
        dones = failures | time_outs
        extras = {"time_outs": time_outs, "final_obs": self.get_observations()}

        self.states = torch.where(dones.unsqueeze(1), self._starts(), self.states)
        self.episode_length_buf = torch.where(dones, 0, self.episode_length_buf)
        return self.get_observations(), rewards, dones, extras

    def _starts(self) -> torch.Tensor:
        """Return new states: half a metre around the target, up to half a metre per second."""
        noise = torch.rand(self.num_envs, 2, generator=self.generator, device=self.device)
        return torch.tensor([1.0, 0.0], device=self.device) + noise - 0.5


def make_cfg() -> RunnerCfg:
    """Return settings for a small problem."""
    cfg = RunnerCfg(num_envs=64, num_steps_per_env=8, max_iterations=60)
    cfg.actor.hidden_dims = cfg.critic.hidden_dims = [64, 64]
    cfg.algorithm.num_mini_batches, cfg.algorithm.batch_size, cfg.algorithm.replay_size = 16, 256, 50_000
    cfg.algorithm.actor_learning_rate = cfg.algorithm.critic_learning_rate = 1e-3
    cfg.algorithm.tau = 0.02
    return cfg


def main() -> None:
    """Check the environment, train, and compare the policy with the one before."""
    check_vec_env(Hover(seed=1))
    print("The environment fulfils the contract.")
    cfg, env = make_cfg(), Hover()
    with contextlib.redirect_stdout(io.StringIO()):  # rsl_rl prints its models
        runner = OffPolicyRunner(env, cfg.to_dict())
    for when in ("before", "after"):
        test = Hover(seed=1_000_000)
        score = evaluate_episodes(runner.get_inference_policy(), test, test.get_observations())
        print(f"{when} training: {score.line()} (50 are possible)")
        if when == "before":
            with contextlib.redirect_stdout(io.StringIO()):
                runner.learn(cfg.max_iterations, init_at_random_ep_len=True)


if __name__ == "__main__":
    main()
