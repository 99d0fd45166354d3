# SPDX-License-Identifier: BSD-3-Clause

"""Gradient steps of other implementations of SAC, with the same sizes and activations."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium
import jax
import numpy as np
import sbx
import stable_baselines3
import torch
from common import NUM_ACTIONS, Size
from stable_baselines3.common.logger import configure

REPLAY_SIZE = 32_768


class Blank(gymnasium.Env):
    """An environment that is never stepped; it only declares its spaces."""

    def __init__(self, observations: int) -> None:
        """Declare the spaces."""
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (observations,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (NUM_ACTIONS,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Return a zero observation."""
        return np.zeros(self.observation_space.shape, np.float32), {}  # type: ignore[arg-type]


def make_sb3(size: Size, activation: str) -> Callable[[], None]:
    """Return a function that makes ``size.repetitions`` gradient steps of Stable-Baselines3 (torch)."""
    activation_fn = {"relu": torch.nn.ReLU, "swish": torch.nn.SiLU}[activation]
    policy_kwargs = {"net_arch": size.hidden_dims, "activation_fn": activation_fn}
    return _prepare(stable_baselines3.SAC, size, policy_kwargs)


def make_sbx(size: Size, activation: str) -> Callable[[], None]:
    """Return a function that makes ``size.repetitions`` gradient steps of SBX (JAX, compiled)."""
    activation_fn = {"relu": jax.nn.relu, "swish": jax.nn.silu}[activation]
    policy_kwargs = {"net_arch": size.hidden_dims, "activation_fn": activation_fn}
    return _prepare(sbx.SAC, size, policy_kwargs)


def _prepare(sac_class: type, size: Size, policy_kwargs: dict) -> Callable[[], None]:
    model = sac_class(
        "MlpPolicy",
        Blank(size.observations),
        buffer_size=REPLAY_SIZE,
        batch_size=size.batch_size,
        policy_kwargs=policy_kwargs,
        device="cpu",
    )
    model.set_logger(configure(None, []))
    buffer = model.replay_buffer
    rng = np.random.default_rng(0)
    for name in ("observations", "next_observations", "actions", "rewards"):
        values = getattr(buffer, name)
        if values is not None:
            values[:] = rng.standard_normal(values.shape).clip(-1.0, 1.0)
    buffer.full = True

    def run() -> None:
        model.train(gradient_steps=size.repetitions, batch_size=size.batch_size)
        # JAX returns before it is done; reading a parameter waits for it.
        if isinstance(model, sbx.SAC):
            jax.block_until_ready(model.policy.qf_state.params)

    return run


ZOO_SETTINGS: dict[str, dict] = {
    "Pendulum-v1": {"learning_rate": 1e-3},
    "HalfCheetah-v5": {"learning_starts": 10_000},
    "Ant-v5": {"learning_starts": 10_000},
}
"""What RL Baselines3 Zoo publishes for SAC on each task; all else are the defaults of Stable-Baselines3."""


def make_sb3_training(task: str, seed: int) -> stable_baselines3.SAC:
    """Return Stable-Baselines3's SAC on a task of Gymnasium, with its published settings."""
    env = gymnasium.make(task)
    return stable_baselines3.SAC("MlpPolicy", env, seed=seed, device="cpu", **ZOO_SETTINGS[task])
