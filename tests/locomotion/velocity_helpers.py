# SPDX-License-Identifier: BSD-3-Clause

"""What the tests of the velocity environment have in common: actions, and quantities worked out another way."""

from __future__ import annotations

import mujoco
import numpy as np
import torch
from scipy.spatial.transform import Rotation

from rsl_rl_sac.locomotion import VelocityEnv

COMMAND = slice(9, 12)
"""Columns of the command in the observation, which follows three vectors."""


def random_actions(env: VelocityEnv, generator: torch.Generator) -> torch.Tensor:
    """Return actions that are uniform within the bounds."""
    low, high = env.action_bounds
    return low + (high - low) * torch.rand(env.num_envs, env.num_actions, generator=generator)


def zero_actions(env: VelocityEnv) -> torch.Tensor:
    """Return actions that ask for the default pose."""
    return torch.zeros(env.num_envs, env.num_actions)


def observe(env: VelocityEnv) -> np.ndarray:
    """Return a copy of the present observations."""
    return env.get_observations()["policy"].clone().numpy()


def end_by_time(env: VelocityEnv, rows: list[int]) -> None:
    """Let the episodes of some environments end by time in the next step."""
    lengths = env.episode_length_buf
    lengths[rows] = 999
    env.episode_length_buf = lengths


def base_rotation(env: VelocityEnv) -> Rotation:
    """Return the orientations of the bases, from MuJoCo's quaternions (w first)."""
    return Rotation.from_quat(env.physics.qpos[:, [4, 5, 6, 3]])


def heading(env: VelocityEnv) -> np.ndarray:
    """Return the direction of each base's x axis in the horizontal plane."""
    forward = base_rotation(env).apply([1.0, 0.0, 0.0])
    return np.arctan2(forward[:, 1], forward[:, 0])


def base_velocity(env: VelocityEnv, row: int) -> np.ndarray:
    """Return angular velocity, then linear velocity of the base's centre of mass, in the world frame, by MuJoCo."""
    model, data = env.physics.batch.get_model(row), env.physics.batch.get_data(row)
    mujoco.mj_forward(model, data)
    velocity = np.zeros(6)
    # The object is the body's inertial frame, so the velocity is that of its centre of mass.
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, 1, velocity, 0)
    return velocity
