# SPDX-License-Identifier: BSD-3-Clause

"""The seven robots against numbers of their sources, and what a wrong data file is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rsl_rl_sac.locomotion import robot as robot_module
from rsl_rl_sac.locomotion.registry import load_robot
from rsl_rl_sac.locomotion.robot import Robot
from rsl_rl_sac.utils.errors import ConfigError

UNITREE_JOINTS = [f"{leg}_{part}_joint" for part in ("hip", "thigh", "calf") for leg in ("FL", "FR", "RL", "RR")]
ANYMAL_JOINTS = [f"{leg}_{part}" for part in ("HAA", "HFE", "KFE") for leg in ("LF", "LH", "RF", "RH")]
# fmt: off
H1_JOINTS = [
    "left_hip_yaw", "right_hip_yaw", "torso", "left_hip_roll", "right_hip_roll", "left_shoulder_pitch",
    "right_shoulder_pitch", "left_hip_pitch", "right_hip_pitch", "left_shoulder_roll", "right_shoulder_roll",
    "left_knee", "right_knee", "left_shoulder_yaw", "right_shoulder_yaw", "left_ankle", "right_ankle", "left_elbow",
    "right_elbow",
]
G1_JOINTS = [f"{name}_joint" for name in (
    "left_hip_pitch", "right_hip_pitch", "torso", "left_hip_roll", "right_hip_roll", "left_shoulder_pitch",
    "right_shoulder_pitch", "left_hip_yaw", "right_hip_yaw", "left_shoulder_roll", "right_shoulder_roll", "left_knee",
    "right_knee", "left_shoulder_yaw", "right_shoulder_yaw", "left_ankle_pitch", "right_ankle_pitch",
    "left_elbow_pitch", "right_elbow_pitch", "left_ankle_roll", "right_ankle_roll", "left_elbow_roll",
    "right_elbow_roll", "left_five", "left_three", "left_zero", "right_five", "right_three", "right_zero", "left_six",
    "left_four", "left_one", "right_six", "right_four", "right_one", "left_two", "right_two",
)]
# fmt: on
UNITREE_POSE = [0.1, -0.1, 0.1, -0.1, 0.8, 0.8, 1.0, 1.0, -1.5, -1.5, -1.5, -1.5]
ANYMAL_POSE = [0.0, 0.0, 0.0, 0.0, 0.4, -0.4, 0.4, -0.4, -0.8, 0.8, -0.8, 0.8]
UNITREE_FEET = ["FL_foot", "FR_foot", "RL_foot", "RR_foot"]
H1_FEET = ["left_ankle_link", "right_ankle_link"]
G1_FEET = ["left_ankle_roll_link", "right_ankle_roll_link"]
ANYMAL_FEET = ["LF_FOOT", "LH_FOOT", "RF_FOOT", "RH_FOOT"]
ANYMAL_THIGHS = ["LF_THIGH", "LH_THIGH", "RF_THIGH", "RH_THIGH"]


@dataclass
class Facts:
    """What is known of a robot."""

    mass: float
    base_height: float
    action_scale: float
    soft_limit_factor: float
    base: str
    scan_body: str
    feet: list[str]
    termination: str
    undesired: list[str]
    joints: list[str]


FACTS = {
    "anymal_b": Facts(30.4213967, 0.6, 0.5, 0.95, "base", "base", ANYMAL_FEET, "base", ANYMAL_THIGHS, ANYMAL_JOINTS),
    "anymal_d": Facts(51.53921, 0.6, 0.5, 0.95, "base", "base", ANYMAL_FEET, "base", ANYMAL_THIGHS, ANYMAL_JOINTS),
    "unitree_a1": Facts(12.453, 0.42, 0.25, 0.9, "trunk", "trunk", UNITREE_FEET, "trunk", [], UNITREE_JOINTS),
    "unitree_go1": Facts(12.743448, 0.4, 0.25, 0.9, "trunk", "trunk", UNITREE_FEET, "trunk", [], UNITREE_JOINTS),
    "unitree_go2": Facts(15.019, 0.4, 0.25, 0.9, "base", "base", UNITREE_FEET, "base", [], UNITREE_JOINTS),
    "unitree_h1": Facts(51.437, 1.05, 0.5, 0.9, "pelvis", "torso_link", H1_FEET, "torso_link", [], H1_JOINTS),
    "unitree_g1": Facts(32.2389244, 0.74, 0.5, 0.9, "pelvis", "torso_link", G1_FEET, "torso_link", [], G1_JOINTS),
}


@pytest.mark.parametrize("name", FACTS)
def test_facts(name: str) -> None:
    """Mass, sizes and names are those of the sources."""
    robot, facts = load_robot(name), FACTS[name]
    assert robot.name == name
    assert robot.kind == ("humanoid" if name in ("unitree_h1", "unitree_g1") else "quadruped")
    assert robot.total_mass == pytest.approx(facts.mass, rel=1e-6)
    assert robot.base_height == facts.base_height
    assert robot.action_scale == facts.action_scale
    assert robot.soft_limit_factor == facts.soft_limit_factor
    assert robot.base.name == facts.base
    assert robot.height_scan_body == facts.scan_body
    assert robot.foot_links == facts.feet
    assert robot.termination_links == [facts.termination]
    assert robot.undesired_contact_links == facts.undesired
    assert robot.title
    assert robot.sources and all(robot.sources)
    assert "BSD-3-Clause" in robot.licence


@pytest.mark.parametrize("name", FACTS)
def test_joint_order(name: str) -> None:
    """Joints are in Isaac Lab's order: breadth first."""
    robot = load_robot(name)
    assert robot.joint_names == FACTS[name].joints
    assert list(robot.joints) == FACTS[name].joints
    assert len(robot.bodies) == len(FACTS[name].joints) + 1


def test_default_pose() -> None:
    """Default positions are Isaac Lab's."""
    for name in ("anymal_b", "anymal_d"):
        assert load_robot(name).default_pos.tolist() == ANYMAL_POSE
    for name in ("unitree_a1", "unitree_go1", "unitree_go2"):
        assert load_robot(name).default_pos.tolist() == UNITREE_POSE
    bent = {"left_shoulder_pitch": 0.28, "left_hip_pitch": -0.28, "left_knee": 0.79, "left_ankle": -0.52}
    bent |= {"left_elbow": 0.52}
    bent |= {joint.replace("left", "right"): angle for joint, angle in bent.items()}
    assert load_robot("unitree_h1").default_pose == {joint: bent.get(joint, 0.0) for joint in H1_JOINTS}
    pitch = {"hip_pitch": -0.2, "shoulder_pitch": 0.35, "knee": 0.42, "ankle_pitch": -0.23, "elbow_pitch": 0.87}
    bent = {f"{side}_{joint}_joint": angle for joint, angle in pitch.items() for side in ("left", "right")}
    for joint, angle in {"shoulder_roll": 0.16, "one": 1.0, "two": 0.52}.items():
        bent |= {f"left_{joint}_joint": angle, f"right_{joint}_joint": -angle}
    assert load_robot("unitree_g1").default_pose == {joint: bent.get(joint, 0.0) for joint in G1_JOINTS}


# The soft limits are worked out by hand: middle -+ factor x half of the width.
@pytest.mark.parametrize(
    ("name", "joint", "limits", "soft_limits"),
    [
        ("anymal_b", "RH_KFE", (-9.42, 9.42), (-8.949, 8.949)),
        ("unitree_a1", "FR_hip_joint", (-0.802851, 0.802851), (-0.7225659, 0.7225659)),
        ("unitree_a1", "RL_calf_joint", (-2.69653, -0.916298), (-2.6075184, -1.0053096)),
        ("unitree_go1", "FL_thigh_joint", (-0.686, 4.501), (-0.42665, 4.24165)),
        ("unitree_go2", "FL_thigh_joint", (-1.5708, 3.4907), (-1.317725, 3.237625)),
        ("unitree_go2", "RL_thigh_joint", (-0.5236, 4.5379), (-0.270525, 4.284825)),
        ("unitree_go2", "RR_calf_joint", (-2.7227, -0.83776), (-2.628453, -0.932007)),
        ("unitree_h1", "left_ankle", (-0.87, 0.52), (-0.8005, 0.4505)),
        ("unitree_h1", "right_shoulder_yaw", (-4.45, 1.3), (-4.1625, 1.0125)),
        ("unitree_g1", "left_ankle_pitch_joint", (-0.68, 0.73), (-0.6095, 0.6595)),
        ("unitree_g1", "right_hip_roll_joint", (-2.53, 0.26), (-2.3905, 0.1205)),
        ("unitree_g1", "left_four_joint", (-1.84, 0.0), (-1.748, -0.092)),
    ],
)
def test_limits(name: str, joint: str, limits: tuple[float, float], soft_limits: tuple[float, float]) -> None:
    """Hard limits are those of the sources, soft limits lie inside of them."""
    robot = load_robot(name)
    assert robot.joints[joint].range == pytest.approx(limits)
    index = robot.joint_names.index(joint)
    assert [limit[index] for limit in robot.soft_limits] == pytest.approx(soft_limits)


@pytest.mark.parametrize(
    ("name", "gains"),
    [
        # stiffness, damping, effort limit, stall torque, no-load speed
        ("anymal_b", (80.0, 2.0, 80.0, 120.0, 7.5)),
        ("anymal_d", (80.0, 2.0, 80.0, 120.0, 7.5)),
        ("unitree_a1", (25.0, 0.5, 33.5, 33.5, 21.0)),
        ("unitree_go1", (25.0, 0.5, 23.7, 23.7, 30.0)),
        ("unitree_go2", (25.0, 0.5, 23.5, 23.5, 30.0)),
    ],
)
def test_motors_of_quadrupeds(name: str, gains: tuple[float, ...]) -> None:
    """All joints of a quadruped have the same DC motor without armature."""
    robot = load_robot(name)
    for joint in robot.joint_names:
        motor = robot.actuator_of(joint)
        assert motor.model == "dc_motor"
        found = (motor.stiffness, motor.damping, motor.effort_limit, motor.saturation_effort, motor.velocity_limit)
        assert found == gains
        assert motor.armature == 0.0


@pytest.mark.parametrize(
    ("name", "words", "gains", "count"),
    [
        # stiffness, damping, effort limit, armature
        ("unitree_h1", ("hip_yaw", "hip_roll"), (150.0, 5.0, 300.0, 0.0), 4),
        ("unitree_h1", ("hip_pitch", "knee", "torso"), (200.0, 5.0, 300.0, 0.0), 5),
        ("unitree_h1", ("ankle",), (20.0, 4.0, 100.0, 0.0), 2),
        ("unitree_h1", ("shoulder", "elbow"), (40.0, 10.0, 300.0, 0.0), 8),
        ("unitree_g1", ("hip_yaw", "hip_roll"), (150.0, 5.0, 300.0, 0.01), 4),
        ("unitree_g1", ("hip_pitch", "knee", "torso"), (200.0, 5.0, 300.0, 0.01), 5),
        ("unitree_g1", ("ankle",), (20.0, 2.0, 20.0, 0.01), 4),
        ("unitree_g1", ("shoulder", "elbow"), (40.0, 10.0, 300.0, 0.01), 10),
        ("unitree_g1", ("zero", "one", "two", "three", "four", "five", "six"), (40.0, 10.0, 300.0, 0.001), 14),
    ],
)
def test_drives_of_humanoids(name: str, words: tuple[str, ...], gains: tuple[float, ...], count: int) -> None:
    """Legs, ankles, arms and fingers have gains of their own."""
    robot = load_robot(name)
    joints = [joint for joint in robot.joint_names if any(word in joint for word in words)]
    assert len(joints) == count
    for joint in joints:
        drive = robot.actuator_of(joint)
        assert drive.model == "implicit_pd"
        assert (drive.stiffness, drive.damping, drive.effort_limit, drive.armature) == gains


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("unitree_h1", {"ankles": 2, "hips_yaw_roll": 4, "arms": 8, "torso": 1, "all": 19}),
        (
            "unitree_g1",
            {"ankles": 4, "hips_yaw_roll": 4, "arms": 10, "fingers": 14, "torso": 1}
            | {"hips_knees": 8, "hips_knees_ankles": 12, "all": 37},
        ),
    ],
)
def test_joint_groups(name: str, sizes: dict[str, int]) -> None:
    """The groups that reward terms name hold the right number of joints."""
    robot = load_robot(name)
    assert {group: len(robot.joint_indices(group)) for group in sizes} == sizes
    assert robot.joint_indices("torso").tolist() == [2]
    assert [robot.joint_names[i].split("_")[1] for i in robot.joint_indices("ankles")] == ["ankle"] * sizes["ankles"]


@pytest.mark.parametrize("name", FACTS)
def test_left_is_as_heavy_as_right(name: str) -> None:
    """Every body of the left has its equal on the right."""
    masses = {body.name: body.mass for body in load_robot(name).bodies}
    sides = {"FL_": "FR_", "RL_": "RR_", "LF_": "RF_", "LH_": "RH_", "left_": "right_"}
    pairs = [(body, body.replace(left, right, 1)) for body in masses for left, right in sides.items() if left in body]
    assert 2 * len(pairs) + (2 if name in ("unitree_h1", "unitree_g1") else 1) == len(masses)
    for left, right in pairs:
        assert masses[left] == masses[right], left


def test_unknown_names() -> None:
    """An unknown group or joint is named."""
    robot = load_robot("unitree_h1")
    with pytest.raises(ConfigError, match="no joint group 'knees'; it has all, ankles, hips_yaw_roll, arms, torso"):
        robot.joint_indices("knees")
    with pytest.raises(ConfigError, match="no actuator drives joint 'tail'"):
        robot.actuator_of("tail")


def go2() -> dict[str, Any]:
    """Return the data of Go2; its first bodies are base, FL_hip, FL_thigh, FL_calf, FR_hip, FR_thigh, FR_calf."""
    path = Path(robot_module.__file__).parent / "robots" / "unitree_go2.json"
    return json.loads(path.read_text())


def put(*path: str | int, value: object) -> Callable[[dict[str, Any]], None]:
    """Return a change that sets one value."""

    def change(data: dict[str, Any]) -> None:
        place: Any = data
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


def drop(*path: str | int) -> Callable[[dict[str, Any]], None]:
    """Return a change that takes one value away."""

    def change(data: dict[str, Any]) -> None:
        place: Any = data
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return change


def write(path: Path, *changes: Callable[[dict[str, Any]], None]) -> Path:
    """Write a changed Go2 into a file."""
    data = go2()
    for change in changes:
        change(data)
    path.write_text(json.dumps(data))
    return path


IMPLICIT = {"joints": ["*_calf_joint"], "model": "implicit_pd", "stiffness": 1.0, "damping": 1.0, "effort_limit": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("colour", value="red"), "go2.json: unknown keys ['colour'], missing keys []"),
        (put("bodies", 1, "color", value="red"), "go2.json, bodies[1]: unknown keys ['color']"),
        (put("bodies", 3, "shapes", 2, "radius", value=0.1), "bodies[3], shapes[2]: unknown keys ['radius']"),
        (drop("sources"), "go2.json: unknown keys [], missing keys ['sources']"),
        (drop("bodies", 1, "mass"), "go2.json, bodies[1]: unknown keys [], missing keys ['mass']"),
        (drop("bodies", 1, "joint", "axis"), "bodies[1], joint: unknown keys [], missing keys ['axis']"),
        (put("bodies", 2, value="thigh"), "go2.json, bodies[2]: expected an object, got str"),
        (put("kind", value="snake"), "kind must be 'quadruped' or 'humanoid', got 'snake'"),
        (put("bodies", 0, "parent", value="world"), "the first body must be the base"),
        (put("bodies", 4, "name", value="FL_hip"), "two bodies are called 'FL_hip'"),
        (put("bodies", 1, "parent", value="FR_hip"), "body 'FL_hip' needs a joint and a parent that is listed before"),
        (drop("bodies", 1, "joint"), "body 'FL_hip' needs a joint and a parent that is listed before it"),
        (put("bodies", 2, "mass", value=0.0), "the mass of body 'FL_thigh' must be a positive number, got 0.0"),
        (put("bodies", 2, "mass", value="1"), "the mass of body 'FL_thigh' must be a positive number, got '1'"),
        (put("bodies", 2, "inertia", value=[1.0, 1.0, 1.0]), "inertia of body 'FL_thigh' must be 6 numbers, got [1.0"),
        (drop("default_pose", "RL_calf_joint"), "default_pose must name every joint once; the difference is ['RL_calf"),
        (put("default_pose", "tail", value=0.0), "default_pose must name every joint once; the difference is ['tail']"),
        (put("bodies", 3, "joint", "range", value=[-1.0, -1.0]), "joint 'FL_calf_joint' has an empty range"),
        (
            put("bodies", 1, "shapes", 0, "size", value=[0.1]),
            "a shape of type 'cylinder' with the size [0.1]",
        ),
        (put("bodies", 1, "shapes", 0, "type", value="cone"), "body 'FL_hip': a shape of type 'cone'"),
        (put("default_pose", "FL_calf_joint", value=0.0), "the default position of 'FL_calf_joint' is outside"),
        (put("actuators", 0, "model", value="servo"), "actuator model 'servo' is none of dc_motor, implicit_pd"),
        (drop("actuators", 0, "velocity_limit"), "DC motors of ['*'] need saturation_effort and velocity_limit"),
        (put("actuators", value=[IMPLICIT, go2()["actuators"][0]]), "all actuators of a robot must be of one model"),
        (put("actuators", 0, "joints", value=["*_hip_joint"]), "no actuator drives joint 'RR_calf_joint'"),
        (put("joint_groups", "knees", value=["*_knee"]), "pattern '*_knee' of joint group 'knees' matches no joint"),
        (put("bodies", 6, "shapes", 2, "link", value="FL_foot"), "link 'FL_foot' must have its shapes on one body"),
        (put("termination_links", value=["belly"]), "link 'belly' must have its shapes on one body"),
        (put("height_scan_body", value="nose"), "there is no body 'nose' for the height scan"),
        (put("foot_links", value=[]), "foot_links and termination_links must each name a link"),
        (put("bodies", 3, "shapes", 1, "link", value="FL_foot"), "'FL_foot' must be one shape or all shapes of body"),
        (put("bodies", 4, "joint", "name", value="FL_hip_joint"), "joints need names of their own"),
        (put("bodies", 4, "joint", "name", value="base"), "none may be called 'base'"),
        (put("bodies", 4, "name", value="world"), "two bodies are called 'world' (one may be MuJoCo's own"),
        (put("bodies", 3, "joint", "range", value=[1.0]), "joint 'FL_calf_joint' has an empty range"),
        (
            put("bodies", 3, "joint", "axis", value=[0.0, 0.0, 0.0]),
            "axis of joint 'FL_calf_joint' must be 3",
        ),
        (put("bodies", 3, "quat", value=[1.0, 0.0, 0.0]), "quat of body 'FL_calf' must be 4 numbers"),
        (put("bodies", 3, "shapes", 0, "pos", value=[0.0, 0.0]), "body 'FL_calf': a shape needs 3 numbers for pos"),
        (put("bodies", 3, "shapes", value=None), "bodies[3], shapes: expected a list, got NoneType"),
        (put("actuators", 0, "effort_limit", value=-1.0), "needs a positive effort_limit, got -1.0"),
        (put("actuators", 0, "stiffness", value=-1.0), "needs a stiffness that is not negative, got -1.0"),
        (
            put("actuators", 0, "velocity_limit", value=0),
            "DC motors of ['*'] need saturation_effort and velocity_limit",
        ),
        (put("actuators", 0, "joints", value=["*", "tail"]), "pattern 'tail' of an actuator matches no joint"),
        (put("joint_groups", "tails", value=[]), "joint group 'tails' names no joint"),
        (put("soft_limit_factor", value=1.5), "soft_limit_factor must be at most 1, got 1.5"),
        (put("bodies", 3, "quat", value=[0, 0, 0, 0]), "quat of body 'FL_calf' must not be all zero"),
        (put("undesired_contact_links", value=None), "undesired_contact_links must be a list of names, got None"),
        (put("foot_links", value="FL_foot"), "foot_links must be a list of names, got 'FL_foot'"),
        (put("joint_groups", "knees", value=None), "joint_groups, knees must be a list of names, got None"),
        (put("actuators", 0, "joints", value="*"), "actuators[0], joints must be a list of names, got '*'"),
        (
            put("bodies", 1, "shapes", 0, "type", value=["box"]),
            "bodies[1], shapes[0], type must be a word, got ['box']",
        ),
        (put("bodies", 1, "joint", "name", value=5), "bodies[1], joint, name must be a word, got 5"),
        (put("bodies", 1, "joint", value=[]), "bodies[1], joint: expected an object, got a list"),
        (put("name", value=5), "name must be a word, got 5"),
        (put("bodies", 1, "parent", value=["base"]), "bodies[1], parent must be a word, got ['base']"),
        (put("bodies", 1, "shapes", 0, "link", value=["a"]), "bodies[1], shapes[0], link must be a word, got ['a']"),
        (put("actuators", 0, "model", value=["dc_motor"]), "actuators[0], model must be a word, got ['dc_motor']"),
    ],
)
def test_wrong_data(tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str) -> None:
    """Each fault is found, and the message names the culprit."""
    path = write(tmp_path / "go2.json", change)
    with pytest.raises(ConfigError) as error:
        Robot.from_file(path)
    assert message in str(error.value)


def test_all_findings_at_once(tmp_path: Path) -> None:
    """Several faults are one message."""
    changes = put("bodies", 2, "mass", value=-1.0), put("height_scan_body", value="nose")
    path = write(tmp_path / "go2.json", *changes)
    with pytest.raises(ConfigError) as error:
        Robot.from_file(path)
    headline, *findings = str(error.value).splitlines()
    assert "robot 'unitree_go2'" in headline
    assert ["FL_thigh" in findings[0], "nose" in findings[1], len(findings)] == [True, True, 2]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, broken JSON and JSON that is no object are named."""
    with pytest.raises(ConfigError, match=r"Cannot read the robot file .*no_robot\.json"):
        Robot.from_file(tmp_path / "no_robot.json")
    broken = tmp_path / "broken.json"
    broken.write_text('{"name": "broken",')
    with pytest.raises(ConfigError, match=r"Cannot read the robot file .*broken\.json.*line 1"):
        Robot.from_file(str(broken))
    broken.write_text("[]")
    with pytest.raises(ConfigError, match=r"broken\.json: expected an object, got list"):
        Robot.from_file(broken)


def test_unchanged_copy_is_read(tmp_path: Path) -> None:
    """A copy of a data file, at any path, is the same robot."""
    robot = Robot.from_file(write(tmp_path / "copy.json"))
    assert robot == load_robot("unitree_go2")
    assert np.array_equal(robot.soft_limits, load_robot("unitree_go2").soft_limits)
