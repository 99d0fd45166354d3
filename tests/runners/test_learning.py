# SPDX-License-Identifier: BSD-3-Clause

"""SAC learns: a minute of training on a robot of the suite, against policies that have learned nothing."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import torch
from tensordict import TensorDict

from rsl_rl_sac.locomotion.velocity_env import VelocityEnv
from rsl_rl_sac.presets import preset
from rsl_rl_sac.runners.training import Training

TASK = "Velocity-Flat-Unitree-Go2"

BAR = 0.31
"""Tracking score, 0 to 1, with noise."""


def test_a_minute_of_training(tmp_path: pathlib.Path) -> None:
    """Robots that stand or tremble miss the bar by far; after 0.45 of the demo's 5 million steps they follow commands.

    The policy is judged with its noise, by which it moves at first (docs/learning.md): walking takes longer than this.
    """
    cfg = preset("cpu", robot="Unitree-Go2")
    cfg.max_iterations, cfg.algorithm.save_replay = 220, False
    training = Training(TASK, cfg, tmp_path, evaluation_minutes=0.0, evaluation_envs=1)
    env, actor = training.env, training.runner.alg.get_policy()
    assert isinstance(env, VelocityEnv)

    def trembling(size: float) -> Callable[[TensorDict], torch.Tensor]:
        return lambda obs: size * torch.randn(env.num_envs, env.num_actions)

    for size in (0.0, 0.4, 0.8):
        assert tracking(env, trembling(size)) < BAR - 0.04
    assert tracking(env, lambda obs: actor(obs, stochastic_output=True)) < BAR - 0.04
    training.run()
    assert tracking(env, lambda obs: actor(obs, stochastic_output=True)) > BAR
    training.close()


def tracking(env: VelocityEnv, act: Callable[[TensorDict], torch.Tensor], num_steps: int = 40) -> float:
    """Return the mean tracking score of all robots over 0.8 seconds that follow half a second."""
    obs, _ = env.reset()
    scores = []
    with torch.inference_mode():
        for _ in range(num_steps + 25):
            obs = env.step(act(obs))[0]
            scores.append(float(env.rewards.tracking.mean()))
    return sum(scores[25:]) / num_steps
