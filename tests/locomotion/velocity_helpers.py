# SPDX-License-Identifier: BSD-3-Clause

"""What the tests of the velocity environment have in common: actions, and quantities worked out another way."""

from __future__ import annotations

import mujoco
import numpy as np
import torch
from scipy.spatial.transform import Rotation

from rsl_rl_sac.locomotion import Robot, VelocityEnv

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


def forward(env: VelocityEnv, row: int) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """Return one robot as MuJoCo sees it now, with its own masses."""
    model, data = env.physics.batch.get_model(row), env.physics.batch.get_data(row)
    mujoco.mj_forward(model, data)
    return model, data


def link_force(model: mujoco.MjModel, data: mujoco.MjData, robot: Robot, link: str) -> float:
    """Return the norm of the summed contact forces on the shapes of a link."""
    geoms = {
        model.geom(f"{body.name}/{i}").id
        for body in robot.bodies
        for i, shape in enumerate(body.shapes)
        if link == (shape.link or body.name)
    }
    total, result = np.zeros(3), np.zeros(6)
    for i, contact in enumerate(data.contact):
        if geoms & set(contact.geom.tolist()):
            mujoco.mj_contactForce(model, data, i, result)
            total += contact.frame.reshape(3, 3).T @ result[:3]  # always with the ground, which is the first geom
    return float(np.linalg.norm(total))


def press_onto_ground(env: VelocityEnv, row: int, links: list[str]) -> None:
    """Lower a robot from above until one of some links presses on the ground, which it does in the next step then."""
    model, data = env.physics.batch.get_model(row), env.physics.batch.get_data(row)
    height = data.qpos[2]
    for offset in np.arange(2.0, -2.0, -0.002):
        data.qpos[2] = height + offset
        mujoco.mj_forward(model, data)
        if any(link_force(model, data, env.robot, link) > 1.0 for link in links):
            env.physics.qpos[row, 2] = data.qpos[2]
            return
    raise AssertionError(f"None of {links} comes to the ground.")


def observation_by_mujoco(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    robot: Robot,
    command: np.ndarray,
    action: np.ndarray,
    scanner: str | None = None,
) -> np.ndarray:
    """Return the observation of a state after ``mj_forward``, in double precision and without noise.

    Args:
        model: Model.
        data: State.
        robot: Robot, for the names and default positions of its joints.
        command: Command that is observed.
        action: Last action.
        scanner: Body that carries the height scanner; None is no scan.
    """
    velocity = np.zeros(6)  # angular, then linear
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, 1, velocity, 0)
    frame = data.xmat[1].reshape(3, 3)
    terms = [
        frame.T @ velocity[3:],
        frame.T @ velocity[:3],
        frame.T @ model.opt.gravity / 9.81,
        command,
        [data.joint(name).qpos[0] - robot.default_pose[name] for name in robot.joint_names],
        [data.joint(name).qvel[0] for name in robot.joint_names],
        action,
    ]
    return np.concatenate(terms if scanner is None else [*terms, cast_scan(model, data, scanner)])


def cast_scan(model: mujoco.MjModel, data: mujoco.MjData, body: str) -> np.ndarray:
    """Return the height scan by rays that start 20 m above its points and see nothing but the ground, where it is felt.

    The height field itself lies deeper: contacts with it begin at its margin.
    """
    model.geom_group[:] = model.geom_bodyid > 0
    field = model.geom("terrain")
    data.geom_xpos[field.id, 2] += field.margin[0]
    ground = np.array([1, 0, 0, 0, 0, 0], dtype=np.uint8)
    x, y, z = data.body(body).xpos
    forward_x, _, _, forward_y = data.body(body).xmat[:4]
    cos, sin = np.array([forward_x, forward_y]) / np.hypot(forward_x, forward_y)
    heights = np.zeros(187)
    for point in range(187):  # x from -0.8 to 0.8 runs faster than y from -0.5 to 0.5
        along, across = -0.8 + 0.1 * (point % 17), -0.5 + 0.1 * (point // 17)
        start = np.array([x + cos * along - sin * across, y + sin * along + cos * across, z + 20.0])
        distance = mujoco.mj_ray(model, data, start, np.array([0.0, 0.0, -1.0]), ground, 1, -1, np.zeros(1, np.int32))
        assert distance > 0.0
        heights[point] = distance - 20.0 - 0.5
    data.geom_xpos[field.id, 2] -= field.margin[0]
    return np.clip(heights, -1.0, 1.0)
