# SPDX-License-Identifier: BSD-3-Clause

"""Action bounds of mjlab's robots, worked out from the joint ranges of their files.

A soft limit is the centre of the range plus or minus 0.9 of its half. mjlab's scale is a quarter of the peak torque
over the stiffness, which is the reflected inertia of the rotor times the square of 2 pi 10 Hz.
"""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

pytest.importorskip("mjlab")

from mjlab.envs import ManagerBasedRlEnvCfg
from mjlab.envs.mdp.actions import JointEffortActionCfg

from rsl_rl_sac.utils.errors import EnvContractError
from tests.envs.mjlab.helpers import G1, GO1, make_env

SQUARED_FREQUENCY = (2.0 * math.pi * 10.0) ** 2


def soft_limits(lower: float, upper: float) -> tuple[float, float]:
    """Return the soft limits of a joint range."""
    centre, half = (lower + upper) / 2.0, (upper - lower) / 2.0
    return centre - 0.9 * half, centre + 0.9 * half


def bounds(joint_range: tuple[float, float], default: float, scale: float) -> tuple[float, float]:
    """Return the bounds of one action."""
    lower, upper = soft_limits(*joint_range)
    return (lower - default) / scale, (upper - default) / scale


def test_go1() -> None:
    """Twelve joints; the hips' default pose is not symmetric, nor are thighs and calves."""
    rotor = 0.000111842
    hip_scale = 0.25 * 23.7 / (rotor * 6.0**2 * SQUARED_FREQUENCY)
    knee_scale = 0.25 * 35.55 / (rotor * 9.0**2 * SQUARED_FREQUENCY)
    assert hip_scale == pytest.approx(0.3727, abs=1e-4) and knee_scale == pytest.approx(0.2485, abs=1e-4)
    expected = {
        "R_hip": bounds((-0.863, 0.863), 0.1, hip_scale),
        "L_hip": bounds((-0.863, 0.863), -0.1, hip_scale),
        "thigh": bounds((-0.686, 4.501), 0.9, hip_scale),
        "calf": bounds((-2.818, -0.888), -1.8, knee_scale),
    }
    assert expected["R_hip"] == pytest.approx((-2.352, 1.815), abs=1e-3)  # (-0.7767 - 0.1) / 0.3727, and so on
    legs = [[expected[hip], expected["thigh"], expected["calf"]] for hip in ("R_hip", "L_hip", "R_hip", "L_hip")]
    low, high = make_env(GO1, num_envs=2).action_bounds
    torch.testing.assert_close(torch.stack([low, high], dim=1), torch.tensor(legs).flatten(0, 1), rtol=1e-4, atol=0.0)


def test_g1() -> None:
    """G1's waist, a leg and part of an arm by hand; both sides mirror each other, roll and yaw with the sign turned."""
    gear = 1.0 + 48.0 / 22.0
    hip_inertia = 0.489e-4 * (4.5 * gear) ** 2 + 0.098e-4 * gear**2 + 0.533e-4
    knee_inertia = 0.489e-4 * (4.5 * 5.0) ** 2 + 0.109e-4 * 5.0**2 + 0.738e-4
    first, second = 1.0 + 46.0 / 18.0, 1.0 + 56.0 / 16.0
    ankle_inertia = 2.0 * (0.139e-4 * (first * second) ** 2 + 0.017e-4 * second**2 + 0.169e-4)
    hip_scale, knee_scale, ankle_scale = (
        0.25 * torque / (inertia * SQUARED_FREQUENCY)
        for torque, inertia in ((88.0, hip_inertia), (139.0, knee_inertia), (50.0, ankle_inertia))
    )
    expected = {
        "hip_pitch": bounds((-2.5307, 2.8798), -0.312, hip_scale),
        "hip_roll": bounds((-0.5236, 2.9671), 0.0, knee_scale),
        "hip_yaw": bounds((-2.7576, 2.7576), 0.0, hip_scale),
        "knee": bounds((-0.087267, 2.8798), 0.669, knee_scale),
        "ankle_pitch": bounds((-0.87267, 0.5236), -0.363, ankle_scale),
        "ankle_roll": bounds((-0.2618, 0.2618), 0.0, ankle_scale),
        "shoulder_pitch": bounds((-3.0892, 2.6704), 0.2, ankle_scale),  # one motor where the ankle has two
        "elbow": bounds((-1.0472, 2.0944), 0.6, ankle_scale),
    }
    env = make_env(G1, num_envs=2)
    low, high = env.action_bounds
    names = env.unwrapped.action_manager.get_term("joint_pos").target_names
    found = dict(zip(names, zip(low.tolist(), high.tolist(), strict=True), strict=True))
    assert len(found) == 29
    for joint, pair in expected.items():
        assert found[f"left_{joint}_joint"] == pytest.approx(pair, rel=1e-4)
    assert found["waist_yaw_joint"] == pytest.approx(bounds((-2.618, 2.618), 0.0, hip_scale), rel=1e-4)
    for joint in ("hip_roll", "hip_yaw", "ankle_roll", "shoulder_roll", "shoulder_yaw", "wrist_roll", "wrist_yaw"):
        left, right = found[f"left_{joint}_joint"], found[f"right_{joint}_joint"]
        assert right == pytest.approx((-left[1], -left[0]), rel=1e-5)


def test_some_joints_only() -> None:
    """Bounds are those of the joints that the term drives, and no wider than where mjlab cuts actions off."""

    def calves_only(cfg: ManagerBasedRlEnvCfg) -> None:
        cfg.actions["joint_pos"].actuator_names = (".*_calf_joint",)
        cfg.actions["joint_pos"].scale = 0.25

    low, high = make_env(GO1, num_envs=2, change=calves_only, clip_actions=3.5).action_bounds
    # Soft limits -2.7215 and -0.9845, default pose -1.8: -3.686 and 3.262 with a scale of 0.25.
    torch.testing.assert_close(low, torch.full((4,), -3.5))
    torch.testing.assert_close(high, torch.full((4,), 3.262))


def test_order_and_clipped_targets() -> None:
    """Bounds follow the order of the terms, calves first here, and targets that a term cuts off narrow them."""

    def two_terms(cfg: ManagerBasedRlEnvCfg) -> None:
        whole = cfg.actions["joint_pos"]
        calves = dataclasses.replace(whole, actuator_names=(".*_calf_joint",), scale=0.25)
        calves.clip = {".*_calf_joint": (-2.0, -1.0)}
        cfg.actions = {
            "calves": calves,
            "thighs": dataclasses.replace(whole, actuator_names=(".*_thigh_joint",), scale=0.5),
        }

    low, high = make_env(GO1, num_envs=2, change=two_terms).action_bounds
    # Calves: -2.0 + 1.8 and -1.0 + 1.8 over 0.25. Thighs: soft limits -0.42665 and 4.24165, default pose 0.9, over 0.5.
    torch.testing.assert_close(low, torch.tensor([-0.8] * 4 + [-2.6533] * 4), rtol=1e-4, atol=0.0)
    torch.testing.assert_close(high, torch.tensor([3.2] * 4 + [6.6833] * 4), rtol=1e-4, atol=0.0)


def test_torques_have_no_bounds() -> None:
    """Joint limits say nothing about torques; the error names the term and the way out."""

    def torques(cfg: ManagerBasedRlEnvCfg) -> None:
        cfg.actions = {"torque": JointEffortActionCfg(entity_name="robot", actuator_names=(".*",))}

    env = make_env(GO1, num_envs=2, change=torques)
    with pytest.raises(EnvContractError, match=r"'torque'.*algorithm\.action_bounds"):
        _ = env.action_bounds
