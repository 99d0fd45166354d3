# SPDX-License-Identifier: BSD-3-Clause

"""Rewards by hand, on states that were made for them; the weights are those of the paper and of Isaac Lab."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

from rsl_rl_sac.locomotion import VelocityEnv, make_env, task_cfg
from rsl_rl_sac.locomotion.registry import load_robot
from rsl_rl_sac.locomotion.rewards import Rewards, RewardTerm, StepView
from rsl_rl_sac.utils.errors import ConfigError

DT = 0.02
"""Seconds per control step, by which every weight is multiplied."""

FAMILIES = [f"{terrain}-{family}" for family in ("Anymal", "Unitree", "H1", "G1") for terrain in ("Rough", "Flat")]
TABLE = {
    "termination_penalty": (0.0, 0.0, 0.0, 0.0, -200.0, -200.0, -200.0, -200.0),
    "track_lin_vel_xy_exp": (1.0, 1.0, 1.5, 1.5, 1.0, 1.0, 1.0, 1.0),
    "track_ang_vel_z_exp": (0.5, 0.5, 0.75, 0.75, 1.0, 1.0, 2.0, 1.0),
    "lin_vel_z_l2": (-2.0, -2.0, -2.0, -2.0, 0.0, 0.0, 0.0, -0.2),
    "ang_vel_xy_l2": (-0.05,) * 8,
    "dof_torques_l2": (-1.0e-5, -2.5e-5, -2.0e-4, -2.0e-4, 0.0, 0.0, -1.5e-7, -2.0e-6),
    "dof_acc_l2": (-2.5e-7, -2.5e-7, -2.5e-7, -2.5e-7, -1.25e-7, -1.25e-7, -1.25e-7, -1.0e-7),
    "action_rate_l2": (-0.01, -0.01, -0.01, -0.01, -0.005, -0.005, -0.005, -0.005),
    "feet_air_time": (0.125, 0.5, 0.01, 0.25, 0.25, 1.0, 0.25, 0.75),
    "undesired_contacts": (-1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    "feet_slide": (0.0, 0.0, 0.0, 0.0, -0.25, -0.25, -0.1, -0.1),
    "flat_orientation_l2": (0.0, -5.0, 0.0, -2.5, -1.0, -1.0, -1.0, -1.0),
    "dof_pos_limits": (0.0, 0.0, 0.0, 0.0, -1.0, -1.0, -1.0, -1.0),
    "joint_deviation_hip": (0.0, 0.0, 0.0, 0.0, -0.2, -0.2, -0.1, -0.1),
    "joint_deviation_arms": (0.0, 0.0, 0.0, 0.0, -0.2, -0.2, -0.1, -0.1),
    "joint_deviation_fingers": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.05, -0.05),
    "joint_deviation_torso": (0.0, 0.0, 0.0, 0.0, -0.1, -0.1, -0.1, -0.1),
}
"""Weights: the rough ones are Tables B5 to B8 of the paper, the flat ones Isaac Lab's; 0 is no such term."""

QUADRUPEDS = ["Rough-Anymal-B", "Flat-Anymal-B", "Rough-Anymal-D", "Flat-Anymal-D"]
QUADRUPEDS += [f"{terrain}-Unitree-{robot}" for robot in ("A1", "Go1", "Go2") for terrain in ("Rough", "Flat")]
HUMANOIDS = ["Rough-Unitree-H1", "Flat-Unitree-H1", "Rough-Unitree-G1", "Flat-Unitree-G1"]
SOME_QUADRUPEDS = ["Rough-Anymal-D", "Flat-Anymal-B", "Rough-Unitree-Go1", "Flat-Unitree-Go2"]
ALL_KINDS = [*SOME_QUADRUPEDS, *HUMANOIDS]

# Pitched by 60 degrees and then turned by 90: the x axis points along (0, 0.5, -0.87), the z axis along (0, 0.87, 0.5).
PITCHED = tuple(np.array([np.sqrt(3), -1.0, 1.0, np.sqrt(3)]) / np.sqrt(8.0))
STILL = (0.0, 0.0, 0.0)


def weights_of(task: str) -> dict[str, float]:
    """Return the weights of a task."""
    terrain, make, model = task.split("-")
    column = FAMILIES.index(f"{terrain}-{model if model in ('H1', 'G1') else make}")
    return {name: weights[column] for name, weights in TABLE.items() if weights[column]}


def make(task: str) -> VelocityEnv:
    """Make two environments of a task, on a plane even if it is a rough one."""
    return make_env(f"Velocity-{task}", 2, seed=5, num_threads=1, terrain=None, observation_noise=False)


def terms(env: VelocityEnv, command: object = STILL, **view: np.ndarray) -> dict[str, np.ndarray]:
    """Return all weighted terms of the present state, of both environments."""
    zeros = np.zeros((2, env.num_actions), dtype=np.float32)
    none = np.zeros(2, dtype=bool)
    values = {"action": zeros, "previous_action": zeros, "terminated": none, "diverged": none, **view}
    env.rewards.compute(StepView(env.state, np.broadcast_to(np.array(command, dtype=np.float32), (2, 3)), **values))
    return dict(zip(env.rewards.names, env.rewards.last.T.copy(), strict=True))


def place(env: VelocityEnv, quat: tuple[float, ...], lin_vel: tuple[float, ...], ang_vel: tuple[float, ...]) -> None:
    """Give the bases an orientation, a velocity in the world and one of turning in the body; the joints stand still."""
    env.physics.qpos[:, 3:7] = quat
    env.physics.qvel[:] = 0.0
    env.physics.qvel[:, :3], env.physics.qvel[:, 3:6] = lin_vel, ang_vel
    env.state.after_change(slice(None))


@pytest.mark.parametrize("task", [*QUADRUPEDS, *HUMANOIDS])
def test_weights(task: str) -> None:
    """Term by term, without those of weight zero, and times the seconds of a control step."""
    weights = weights_of(task)
    rewards = task_cfg(f"Velocity-{task}").rewards
    assert {name: term.weight for name, term in rewards.items() if term.weight != 0.0} == weights
    env = make(task)
    assert set(env.rewards.names) == set(weights)
    np.testing.assert_allclose(env.rewards.weights, [weights[name] * DT for name in env.rewards.names], rtol=1e-6)


@pytest.mark.parametrize("task", ALL_KINDS)
def test_tracking(task: str) -> None:
    """The kernel is exp(-error^2 / 0.25): an error of (0.3, -0.4) or of 0.5 rad/s gives 1 / e."""
    env, weights = make(task), weights_of(task)
    place(env, (1.0, 0.0, 0.0, 0.0), (0.7, -0.1, 0.6), STILL)
    values = terms(env, command=[(1.0, -0.5, 0.5), (0.7, -0.1, 0.0)])
    for name in ("track_lin_vel_xy_exp", "track_ang_vel_z_exp"):
        np.testing.assert_allclose(values[name], weights[name] * DT * np.array([np.exp(-1.0), 1.0]), rtol=1e-5)


@pytest.mark.parametrize("task", ALL_KINDS)
def test_tracking_frame(task: str) -> None:
    """A pitched root: quadrupeds track in its frame, humanoids in the one that shares only its yaw."""
    env, weights = make(task), weights_of(task)
    factor = DT * (1.0 if task in HUMANOIDS else np.exp(-1.0))
    place(env, PITCHED, (0.0, 1.0, 0.0), STILL)  # 1 m/s forward, which is 0.5 m/s along the root's x axis
    value = terms(env, command=(1.0, 0.0, 0.0))["track_lin_vel_xy_exp"]
    np.testing.assert_allclose(value, weights["track_lin_vel_xy_exp"] * factor, rtol=1e-5)
    place(env, PITCHED, STILL, (0.0, 0.0, 1.0))  # 1 rad/s about the root's z axis, which is 0.5 about the vertical
    value = terms(env, command=(0.0, 0.0, 0.5))["track_ang_vel_z_exp"]
    np.testing.assert_allclose(value, weights["track_ang_vel_z_exp"] * factor, rtol=1e-5)


@pytest.mark.parametrize("task", ALL_KINDS)
def test_other_terms_of_the_base(task: str) -> None:
    """In the root frame: 0.87 m/s along z, 3 and 4 rad/s about x and y; gravity points 0.87 forward or 0.5 sideways."""
    env, weights = make(task), weights_of(task)
    place(env, PITCHED, (0.0, 1.0, 0.0), STILL)
    values = terms(env)
    for name in {"lin_vel_z_l2", "flat_orientation_l2"} & set(weights):
        np.testing.assert_allclose(values[name], weights[name] * DT * 0.75, rtol=1e-5)
    place(env, (np.cos(np.pi / 12), np.sin(np.pi / 12), 0.0, 0.0), STILL, (3.0, -4.0, 7.0))  # rolled by 30 degrees
    values = terms(env)
    np.testing.assert_allclose(values["ang_vel_xy_l2"], -0.05 * DT * 25.0, rtol=1e-5)
    if "flat_orientation_l2" in weights:
        np.testing.assert_allclose(values["flat_orientation_l2"], weights["flat_orientation_l2"] * DT * 0.25, rtol=1e-5)


@pytest.mark.parametrize("task", ALL_KINDS)
def test_action_rate(task: str) -> None:
    """All actions from -0.5 to 1 are a square of 2.25 for each joint; actions as such cost nothing."""
    env = make(task)
    previous = np.full((2, env.num_actions), -0.5, dtype=np.float32)
    action = np.array([[1.0], [-0.5]], dtype=np.float32).repeat(env.num_actions, axis=1)
    values = terms(env, action=action, previous_action=previous)["action_rate_l2"]
    expected = weights_of(task)["action_rate_l2"] * DT * 2.25 * env.num_actions
    np.testing.assert_allclose(values, [expected, 0.0], rtol=1e-5)


@pytest.mark.parametrize("task", QUADRUPEDS)
def test_air_time_of_quadrupeds(task: str) -> None:
    """At touch-down the time beyond 0.5 s counts, a shorter one against the robot, unless it is asked to stand."""
    env, weight = make(task), weights_of(task)["feet_air_time"]
    env.state.last_air_time[:] = [0.8, 0.3, 0.9, 0.2]
    env.state.contact_time[0] = [0.01, 0.02, 0.03, 0.0]  # the third has touched for longer, the fourth is in the air
    env.state.contact_time[1] = [0.025, 0.0, 0.005, 0.1]
    expected = weight * DT * np.array([0.3 - 0.2, 0.4])
    np.testing.assert_allclose(terms(env, command=(0.08, -0.07, 0.0))["feet_air_time"], expected, rtol=1e-5)
    assert not terms(env, command=(0.06, -0.07, 1.0))["feet_air_time"].any()  # 0.092 m/s: turning alone is no walking
    assert not terms(env)["feet_air_time"].any()


@pytest.mark.parametrize("task", HUMANOIDS)
def test_air_time_of_humanoids(task: str) -> None:
    """Standing on exactly one foot, the shorter of stance and swing counts, up to the threshold."""
    env, weight = make(task), weights_of(task)["feet_air_time"]
    env.state.last_air_time[:] = 9.0  # does not matter here
    cases = [
        ((0.3, 0.0), (0.0, 0.2), 0.2),  # contact times, air times
        ((0.0, 0.1), (0.35, 0.0), 0.1),
        ((0.0, 5.0), (3.0, 0.0), 0.6 if task == "Flat-Unitree-H1" else 0.4),
        ((0.3, 0.2), (0.0, 0.0), 0.0),  # both feet
        ((0.0, 0.0), (0.3, 0.2), 0.0),  # none
    ]
    for contact, air, expected in cases:
        env.state.contact_time[:], env.state.air_time[:] = contact, air
        value = terms(env, command=(0.08, -0.07, 0.0))["feet_air_time"]
        np.testing.assert_allclose(value, weight * DT * expected, rtol=1e-5)
        assert not terms(env, command=(0.06, 0.07, 1.0))["feet_air_time"].any()


@pytest.mark.parametrize("task", ["Rough-Anymal-B", "Rough-Anymal-D", "Flat-Anymal-D"])
def test_undesired_contacts(task: str) -> None:
    """Thighs count, once each, if they touched in the last three of the four physics steps; nothing else does."""
    env = make(task)
    contacts, columns = env.state.contacts, env.state.link_indices
    contacts[:] = False
    contacts[:, :, columns(["base", "LF_FOOT", "RH_FOOT"])] = True
    contacts[:, 0, columns(["LF_THIGH"])] = True  # too long ago
    contacts[1, 1:, columns(["RF_THIGH"])] = True
    contacts[1, 2, columns(["LH_THIGH"])] = True
    contacts[1, 3, columns(["RH_THIGH"])] = True
    np.testing.assert_allclose(terms(env)["undesired_contacts"], [0.0, -3.0 * DT])


@pytest.mark.parametrize("task", HUMANOIDS)
def test_feet_slide(task: str) -> None:
    """A robot that moves at (0.3, 0.4) m/s takes its feet along: 0.5 for each that touches, whatever its pose."""
    env = make(task)
    place(env, PITCHED, (0.3, 0.4, 2.0), STILL)
    contacts, columns = env.state.contacts, env.state.link_indices
    contacts[:] = False
    contacts[:, 0] = True  # too long ago
    contacts[0, 1, columns([env.robot.foot_links[1]])] = True
    contacts[1, 3, columns(env.robot.foot_links)] = True
    expected = weights_of(task)["feet_slide"] * DT * np.array([0.5, 1.0])
    np.testing.assert_allclose(terms(env)["feet_slide"], expected, rtol=1e-4)


def test_joint_limits() -> None:
    """Distances outside of the soft limits, which leave 5 % of the range at both ends."""
    env = make("Rough-Unitree-G1")  # pitch -0.68 to 0.73: 0.025 +- 0.6345; roll +-0.2618: +-0.23562
    index = env.robot.joint_names.index
    env.state.joint_pos[:] = 0.0
    env.state.joint_pos[0, index("left_ankle_pitch_joint")] = 0.70
    env.state.joint_pos[0, index("right_ankle_roll_joint")] = -0.25
    env.state.joint_pos[1, index("right_ankle_pitch_joint")] = -0.605
    expected = -DT * np.array([0.70 - 0.6595 + 0.25 - 0.23562, 0.0])
    np.testing.assert_allclose(terms(env)["dof_pos_limits"], expected, rtol=1e-4)
    env = make("Flat-Unitree-H1")  # -0.87 to 0.52: -0.175 +- 0.6255
    index = env.robot.joint_names.index
    env.state.joint_pos[:] = 0.0
    env.state.joint_pos[0, index("left_ankle")] = -0.85
    env.state.joint_pos[1, index("right_ankle")] = 0.5
    np.testing.assert_allclose(terms(env)["dof_pos_limits"], -DT * 0.0495, rtol=1e-4)


H1_ARMS = ["shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow"]
G1_ARMS = ["shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow_pitch", "elbow_roll"]
G1_FINGERS = ["zero", "one", "two", "three", "four", "five", "six"]
G1_LEGS = ["hip_pitch", "hip_roll", "hip_yaw", "knee"]
G1_ANKLES = ["ankle_pitch", "ankle_roll"]


@pytest.mark.parametrize(
    ("task", "term", "joints"),
    [
        *((task, term, ["all"]) for task in SOME_QUADRUPEDS for term in ("dof_torques_l2", "dof_acc_l2")),
        *(("Rough-Unitree-H1", *case) for case in [("dof_acc_l2", ["all"]), ("dof_pos_limits", ["ankle"])]),
        ("Flat-Unitree-H1", "joint_deviation_hip", ["hip_yaw", "hip_roll"]),
        ("Flat-Unitree-H1", "joint_deviation_arms", H1_ARMS),
        ("Flat-Unitree-H1", "joint_deviation_torso", ["torso"]),
        ("Rough-Unitree-G1", "dof_torques_l2", [*G1_LEGS, *G1_ANKLES]),
        ("Flat-Unitree-G1", "dof_torques_l2", G1_LEGS),
        ("Rough-Unitree-G1", "dof_acc_l2", G1_LEGS),
        ("Flat-Unitree-G1", "dof_acc_l2", G1_LEGS),
        ("Rough-Unitree-G1", "dof_pos_limits", G1_ANKLES),
        ("Rough-Unitree-G1", "joint_deviation_hip", ["hip_yaw", "hip_roll"]),
        ("Rough-Unitree-G1", "joint_deviation_arms", G1_ARMS),
        ("Rough-Unitree-G1", "joint_deviation_fingers", G1_FINGERS),
        ("Rough-Unitree-G1", "joint_deviation_torso", ["torso"]),
    ],
)
def test_joints_of_a_term(task: str, term: str, joints: list[str]) -> None:
    """Each joint of a term alone adds what it should, and no other joint does."""
    env, weight = make(task), weights_of(task)[term]
    state = env.state
    ranges = [joint.range for joint in env.robot.joints.values()]
    for index, name in enumerate(env.robot.joint_names):
        state.joint_pos[:] = env.robot.default_pos
        state.joint_torque[:] = state.joint_acc[:] = 0.0
        if term == "dof_pos_limits":  # at the end of the range, of which 5 % are outside of the soft limit
            state.joint_pos[:, index] = ranges[index]
            expected = 0.05 * (ranges[index][1] - ranges[index][0])
        elif term.startswith("joint_deviation"):
            state.joint_pos[:, index] += [0.3, -0.3]
            expected = 0.3
        else:
            (state.joint_torque if term == "dof_torques_l2" else state.joint_acc)[:, index] = [30.0, -30.0]
            expected = 900.0
        short = name.removeprefix("left_").removeprefix("right_").removesuffix("_joint")
        expected *= weight * DT if joints == ["all"] or short in joints else 0.0
        np.testing.assert_allclose(terms(env)[term], expected, rtol=1e-4, atol=1e-9, err_msg=name)


@pytest.mark.parametrize(("pattern", "falls"), [("x...", False), (".x..", True), ("...x", True)])
@pytest.mark.parametrize("task", ["Flat-Unitree-Go1", "Flat-Unitree-H1", "Rough-Unitree-G1"])
def test_termination(task: str, pattern: str, falls: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A touch of the trunk in the last three physics steps ends the episode, which costs a humanoid 200 x 0.02 = 4."""
    env = make(task)
    env.step(torch.zeros(2, env.num_actions))
    monkeypatch.setattr(env.physics, "step", lambda targets: np.zeros(2, dtype=bool))
    env.physics.sensordata[:] = 0.0
    sensor = env.physics.model.sensor("contact/torso_link" if task in HUMANOIDS else "contact/trunk")
    env.physics.sensordata[1, [mark == "x" for mark in pattern], sensor.adr[0]] = -5.0
    _, rewards, dones, extras = env.step(torch.zeros(2, env.num_actions))
    assert dones.tolist() == [False, falls]
    assert not extras["time_outs"].any()
    assert torch.isfinite(rewards).all()
    if task in HUMANOIDS:
        column = env.rewards.names.index("termination_penalty")
        assert env.rewards.last[:, column].tolist() == pytest.approx([0.0, -4.0 if falls else 0.0])
        assert rewards[1] < -3.0 if falls else rewards[1] > -1.0


@pytest.mark.parametrize("task", ["Flat-Anymal-D", "Flat-Unitree-G1"])
def test_reward_of_a_step(task: str) -> None:
    """It is that of the state before the reset and of the command that was in force, also if the episode ends."""
    env, weights = make(task), weights_of(task)
    first, second = 0.03 * torch.randn(2, 2, env.num_actions)
    env.step(first)
    env.episode_length_buf = torch.tensor([1, 999])  # the second robot is reset
    command = env.commands.velocity.copy()
    expected = {name: [] for name in ("track_lin_vel_xy_exp", "track_ang_vel_z_exp")}
    for row in range(2):
        model, data = env.physics.batch.get_model(row), env.physics.batch.get_data(row)
        data.ctrl[: env.num_actions] = env.robot.default_pos + 0.5 * second[row].numpy()
        mujoco.mj_step(model, data, 4)
        mujoco.mj_forward(model, data)
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, 1, velocity, 0)
        frame = data.xmat[1].reshape(3, 3)
        if task in HUMANOIDS:
            x, y = frame[:2, 0] / np.linalg.norm(frame[:2, 0])
            frame = np.array([[x, -y, 0.0], [y, x, 0.0], [0.0, 0.0, 1.0]])
        error = command[row] - np.append((frame.T @ velocity[3:])[:2], (frame.T @ velocity[:3])[2])
        expected["track_lin_vel_xy_exp"].append(np.exp(-(error[:2] @ error[:2]) / 0.25))
        expected["track_ang_vel_z_exp"].append(np.exp(-(error[2] ** 2) / 0.25))
    _, rewards, dones, extras = env.step(second)
    assert dones.tolist() == extras["time_outs"].tolist() == [False, True]
    assert np.abs(env.commands.velocity[1] - command[1]).max() > 0.1
    values = dict(zip(env.rewards.names, env.rewards.last.T, strict=True))
    for name, kernel in expected.items():
        np.testing.assert_allclose(values[name], weights[name] * DT * np.array(kernel), rtol=1e-4)
    rate = ((second - first) ** 2).sum(dim=1).numpy()
    np.testing.assert_allclose(values["action_rate_l2"], weights["action_rate_l2"] * DT * rate, rtol=1e-4)
    np.testing.assert_allclose(rewards, sum(values.values()), rtol=1e-5)


@pytest.mark.parametrize("task", ["Rough-Unitree-Go2", "Flat-Unitree-H1"])
def test_log(task: str) -> None:
    """The terms that are logged when an episode ends are means per second of 20: together, all rewards it had."""
    env = make(task)
    env.episode_length_buf = torch.tensor([990, 990])
    returns, sums, log = torch.zeros(2), np.zeros((2, len(env.rewards.names))), {}
    for step in range(10):
        _, rewards, dones, extras = env.step(0.3 * torch.randn(2, env.num_actions))
        assert dones.tolist() == [step == 9] * 2
        assert ("log" in extras) == (step == 9)
        returns += rewards
        sums += env.rewards.last
        log = extras.get("log", {})
    logged = {name.removeprefix("Episode_Reward/"): log[name] for name in log if name.startswith("Episode_Reward/")}
    assert list(logged) == env.rewards.names
    np.testing.assert_allclose(list(logged.values()), sums.mean(axis=0) / 20.0, rtol=1e-4, atol=1e-9)
    assert sum(logged.values()) * 20.0 == pytest.approx(float(returns.mean()), rel=1e-4)
    assert not env.rewards.episode_sums.any()


def test_log_of_some_episodes() -> None:
    """Only the environments whose episode ended are in the log, and only their sums are cleared."""
    rewards = make("Flat-Unitree-G1").rewards
    rewards.episode_sums[:] = [[1.0], [3.0]]
    log = rewards.reset(np.array([1]), 20.0)
    assert log["Episode_Reward/feet_slide"] == pytest.approx(0.15)
    assert rewards.episode_sums[:, 0].tolist() == [1.0, 0.0]


def test_unknown_names_are_refused() -> None:
    """A function or a group of joints that does not exist is named, with those that do."""
    robot = load_robot("unitree_h1")
    with pytest.raises(ConfigError, match=r"no reward function 'jump'.*feet_slide"):
        Rewards(robot, {"jump": RewardTerm(1.0, "jump")}, 2, DT)
    with pytest.raises(ConfigError, match=r"unitree_h1 has no joint group 'tail'.*ankles"):
        Rewards(robot, {"tail": RewardTerm(1.0, "joint_deviation", joints="tail")}, 2, DT)
