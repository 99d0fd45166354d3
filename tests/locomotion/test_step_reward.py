# SPDX-License-Identifier: BSD-3-Clause

"""The whole reward of a step, worked out from MuJoCo's own steps and written-out weights, without the code's terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from rsl_rl_sac.locomotion import VelocityEnv, make_env
from tests.locomotion.velocity_helpers import end_by_time, link_force, press_onto_ground

LEGS = ("LF", "LH", "RF", "RH")
SIDES = ("left", "right")
G1_ARMS = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow_pitch", "elbow_roll")
G1_FINGERS = ("zero", "one", "two", "three", "four", "five", "six")
COMMANDS = np.array(
    [[0.6, -0.3, 0.4], [0.4, 0.2, -0.5], [-0.3, 0.5, 0.2], [0.2, 0.1, 0.3], [0.0, 0.0, 0.1]], dtype=np.float32
)
NUM_ROBOTS = len(COMMANDS)
AIR_TIMES = {"quadruped": (0.62, 0.2, 0.0, 0.35), "humanoid": (0.0, 0.55)}
STANCE_TIMES = {"quadruped": (0.0, 0.0, 0.3, 0.0), "humanoid": (0.5, 0.0)}
"""Seconds that the feet have been in the air or on the ground, before the step."""


@dataclass
class Step:
    """One control step of one robot, as MuJoCo makes it."""

    frame: np.ndarray
    """Axes of the base, in columns."""
    velocity: np.ndarray
    """Of the base's centre of mass, in the world."""
    turning: np.ndarray
    """Angular velocity of the base, in the world."""
    position: dict[str, float]
    """Of the joints."""
    torque: dict[str, float]
    """Of the joints, in the last physics step."""
    acceleration: dict[str, float]
    """Of the joints, over the last physics step."""
    touches: dict[str, list[bool]]
    """Whether links feel more than 1 N, in each physics step."""
    foot_speed: dict[str, float]
    """Horizontal speed of the centre of mass of each foot that is a body."""


def make_step(env: VelocityEnv, row: int, action: np.ndarray) -> Step:
    """Make a control step of one robot on a copy of it."""
    robot, names = env.robot, env.robot.joint_names
    model, data = env.physics.batch.get_model(row), env.physics.batch.get_data(row)
    data.ctrl[: len(names)] = robot.default_pos + robot.action_scale * action
    links = [*robot.foot_links, *robot.termination_links, *robot.undesired_contact_links]
    touches: dict[str, list[bool]] = {link: [] for link in links}
    address = {name: model.joint(name).dofadr[0] for name in names}
    before = data.qvel.copy()
    for _ in range(4):
        before = data.qvel.copy()
        mujoco.mj_step(model, data)
        for link in links:
            touches[link].append(link_force(model, data, robot, link) > 1.0)
    torque = {name: data.qfrc_actuator[i] for name, i in address.items()}
    acceleration = {name: (data.qvel[i] - before[i]) / 0.005 for name, i in address.items()}
    mujoco.mj_forward(model, data)

    def velocity_of(body: int) -> np.ndarray:
        result = np.zeros(6)  # angular, then linear
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, body, result, 0)
        return result

    bodies = {body.name for body in robot.bodies}
    feet = [link for link in robot.foot_links if link in bodies]
    return Step(
        frame=data.xmat[1].reshape(3, 3).copy(),
        velocity=velocity_of(1)[3:],
        turning=velocity_of(1)[:3],
        position={name: data.joint(name).qpos[0] for name in names},
        torque=torque,
        acceleration=acceleration,
        touches=touches,
        foot_speed={foot: float(np.linalg.norm(velocity_of(model.body(foot).id)[3:5])) for foot in feet},
    )


def foot_times(air: float, stance: float, touches: list[bool]) -> tuple[float, float, float]:
    """Return time in the air, time on the ground and length of the last flight, after four physics steps."""
    last_flight = 0.0
    for touching in touches:
        if touching and air > 0.0:
            last_flight = air + 0.005
        air, stance = (0.0, stance + 0.005) if touching else (air + 0.005, 0.0)
    return air, stance, last_flight


def square_sum(values: dict[str, float], names: list[str]) -> float:
    """Return the sum of the squares of the values of some joints."""
    return sum(values[name] ** 2 for name in names)


def anymal_terms(env: VelocityEnv, step: Step, command: np.ndarray, change: np.ndarray) -> dict[str, float]:
    """Return all parts of the reward per second of ANYmal on flat ground."""
    names = [f"{leg}_{joint}" for leg in LEGS for joint in ("HAA", "HFE", "KFE")]
    velocity, turning = step.frame.T @ step.velocity, step.frame.T @ step.turning
    flights = 0.0
    for leg, air, stance in zip(LEGS, AIR_TIMES["quadruped"], STANCE_TIMES["quadruped"], strict=True):
        _, stance, last_flight = foot_times(air, stance, step.touches[f"{leg}_FOOT"])
        flights += last_flight - 0.5 if 0.0 < stance < 0.022 else 0.0
    return {
        "velocity": 1.0 * np.exp(-((command[:2] - velocity[:2]) ** 2).sum() / 0.25),
        "turning": 0.5 * np.exp(-((command[2] - turning[2]) ** 2) / 0.25),
        "vertical velocity": -2.0 * velocity[2] ** 2,
        "rolling and pitching": -0.05 * (turning[:2] ** 2).sum(),
        "torques": -2.5e-5 * square_sum(step.torque, names),
        "accelerations": -2.5e-7 * square_sum(step.acceleration, names),
        "change of the actions": -0.01 * (change**2).sum(),
        "flights": 0.5 * flights * (np.hypot(*command[:2]) > 0.1),
        "thighs on the ground": -1.0 * sum(any(step.touches[f"{leg}_THIGH"][1:]) for leg in LEGS),
        "tilt": -5.0 * (step.frame[2, :2] ** 2).sum(),
    }


def g1_terms(env: VelocityEnv, step: Step, command: np.ndarray, change: np.ndarray) -> dict[str, float]:
    """Return all parts of the reward per second of G1 on flat ground."""

    def both(*parts: str) -> list[str]:
        return [f"{side}_{part}_joint" for side in SIDES for part in parts]

    def deviation(names: list[str]) -> float:
        return sum(abs(step.position[name] - env.robot.default_pose[name]) for name in names)

    forward = np.arctan2(step.frame[1, 0], step.frame[0, 0])
    velocity = Rotation.from_euler("z", -forward).apply(step.velocity)
    turning = step.frame.T @ step.turning
    legs, feet = both("hip_pitch", "hip_roll", "hip_yaw", "knee"), [f"{side}_ankle_roll_link" for side in SIDES]
    times = [
        foot_times(air, stance, step.touches[foot])
        for foot, air, stance in zip(feet, AIR_TIMES["humanoid"], STANCE_TIMES["humanoid"], strict=True)
    ]
    stances = [stance for _, stance, _ in times if stance > 0.0]
    single_stance = min(0.4, *(stance or air for air, stance, _ in times)) if len(stances) == 1 else 0.0
    outside = 0.0
    # The soft limits are 90 % of -0.68 to 0.73 and of -0.2618 to 0.2618.
    for names, low, high in ((both("ankle_pitch"), -0.6095, 0.6595), (both("ankle_roll"), -0.23562, 0.23562)):
        outside += sum(max(low - step.position[name], 0.0, step.position[name] - high) for name in names)
    sliding = sum(step.foot_speed[foot] for foot in feet if any(step.touches[foot][1:]))
    return {
        "velocity": 1.0 * np.exp(-((command[:2] - velocity[:2]) ** 2).sum() / 0.25),
        "turning": 1.0 * np.exp(-((command[2] - step.turning[2]) ** 2) / 0.25),
        "vertical velocity": -0.2 * (step.frame.T @ step.velocity)[2] ** 2,
        "rolling and pitching": -0.05 * (turning[:2] ** 2).sum(),
        "torques": -2.0e-6 * square_sum(step.torque, legs),
        "accelerations": -1.0e-7 * square_sum(step.acceleration, legs),
        "change of the actions": -0.005 * (change**2).sum(),
        "single stance": 0.75 * single_stance * (np.hypot(*command[:2]) > 0.1),
        "sliding": -0.1 * sliding,
        "tilt": -1.0 * (step.frame[2, :2] ** 2).sum(),
        "ankles beyond their limits": -1.0 * outside,
        "hips": -0.1 * deviation(both("hip_yaw", "hip_roll")),
        "arms": -0.1 * deviation(both(*G1_ARMS)),
        "fingers": -0.05 * deviation(both(*G1_FINGERS)),
        "torso": -0.1 * deviation(["torso_joint"]),
        "fall": -200.0 * any(step.touches["torso_link"][1:]),
    }


def construct(env: VelocityEnv, tilts: list[tuple[float, float]], links: list[list[str]], action: np.ndarray) -> None:
    """Put robots onto the ground, tilted by pitch and roll, with moving joints that are off the default pose."""
    physics, rng = env.physics, np.random.default_rng(2)
    for row, (pitch, roll) in enumerate(tilts):
        x, y, z, w = Rotation.from_euler("ZYX", [0.7 + row, pitch, roll]).as_quat()
        physics.qpos[row, 3:7] = [w, x, y, z]
        physics.qpos[row, 7:] += rng.uniform(-0.2, 0.2, env.num_actions)
        physics.qvel[row] = rng.uniform(-1.0, 1.0, 6 + env.num_actions)
        physics.qvel[row, 2] = -0.5  # it goes on pressing
        if env.robot.kind == "humanoid":
            physics.qpos[row, physics.model.joint("left_ankle_pitch_joint").qposadr[0]] = 0.72
        press_onto_ground(env, row, links[row])
    # Contacts of the first of the four physics steps do not count, those of the second do.
    for row, pattern in ((3, "x..."), (4, "xx..")):
        lift_off(env, row, links[row][0], pattern, action[row])
    env.commands.velocity[:] = COMMANDS
    env.state.air_time[:], env.state.contact_time[:] = AIR_TIMES[env.robot.kind], STANCE_TIMES[env.robot.kind]
    env.state.last_air_time[:] = 0.0


def lift_off(env: VelocityEnv, row: int, link: str, pattern: str, action: np.ndarray) -> None:
    """Let a robot rise so fast that a link touches the ground in the physics steps marked ``x`` and in no other."""
    for speed in np.arange(-0.5, 4.0, 0.02):
        env.physics.qvel[row, 2] = speed
        if make_step(env, row, action).touches[link] == [mark == "x" for mark in pattern]:
            return
    raise AssertionError(f"There is no speed at which {link} touches as {pattern}.")


@pytest.mark.parametrize(
    ("task", "terms", "tilts", "links", "falls"),
    [
        # On its feet, on its side, on its back, and rising from its side.
        (
            "Velocity-Flat-Anymal-D",
            anymal_terms,
            [(0.15, -0.1), (0.1, 1.5), (0.2, 3.0), (0.1, 1.5), (0.1, 1.5)],
            [["LF_FOOT", "LH_FOOT", "RF_FOOT", "RH_FOOT"], ["RF_THIGH"], ["base"], ["RF_THIGH"], ["RF_THIGH"]],
            [False, False, True, False, False],
        ),
        # On both feet, on its left foot, upside down, and rising from there.
        (
            "Velocity-Flat-Unitree-G1",
            g1_terms,
            [(0.05, 0.4), (-0.05, -0.4), (0.2, 3.0), (0.2, 3.0), (0.2, 3.0)],
            [["right_ankle_roll_link"], ["left_ankle_roll_link"], ["torso_link"], ["torso_link"], ["torso_link"]],
            [False, False, True, False, True],
        ),
    ],
    ids=["ANYmal D", "G1"],
)
def test_reward_of_whole_steps(
    task: str,
    terms: Callable[..., dict[str, float]],
    tilts: list[tuple[float, float]],
    links: list[list[str]],
    falls: list[bool],
) -> None:
    """The reward is 0.02 s times the sum of all parts, each of which counts in one of the steps at least.

    The first episode ends by time, others by a fall: the reward is of the state before the reset.
    """
    env = make_env(task, NUM_ROBOTS, seed=5, num_threads=1, observation_noise=False)
    first, second = 0.2 * torch.randn(2, NUM_ROBOTS, env.num_actions, generator=torch.Generator().manual_seed(1))
    if env.robot.kind == "humanoid":  # the ankle stays where it is, beyond its soft limit
        second[:, env.robot.joint_names.index("left_ankle_pitch_joint")] = 2.0
    env.step(first)
    construct(env, tilts, links, second.numpy())
    end_by_time(env, [0])
    steps = [make_step(env, row, second[row].numpy()) for row in range(NUM_ROBOTS)]
    changes = (second - first).numpy()
    parts = [terms(env, step, *rest) for step, *rest in zip(steps, COMMANDS, changes, strict=True)]
    _, rewards, dones, extras = env.step(second)
    assert dones.tolist() == [True, *falls[1:]]
    assert extras["time_outs"].tolist() == [True] + [False] * (NUM_ROBOTS - 1)
    np.testing.assert_allclose(rewards.numpy(), [0.02 * sum(part.values()) for part in parts], rtol=1e-5, atol=2e-6)
    # A part that is tiny everywhere would not be missed.
    largest = {name: max(abs(part[name]) for part in parts) for name in parts[0]}
    assert [name for name, value in largest.items() if value < 5e-3] == [], largest
