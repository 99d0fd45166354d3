# SPDX-License-Identifier: BSD-3-Clause

"""Mirror maps: against names and signs written down by hand, and against the physics of robots reflected by hand."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.locomotion import Robot, VelocityEnv, make_env, task_cfg
from rsl_rl_sac.locomotion.observations import Observations
from rsl_rl_sac.locomotion.registry import ROBOTS, load_robot
from rsl_rl_sac.locomotion.robot import Body, Joint, Shape
from rsl_rl_sac.locomotion.scene import PhysicsCfg
from rsl_rl_sac.locomotion.symmetry import mirror_of, mirror_states
from rsl_rl_sac.locomotion.tasks import EventCfg
from rsl_rl_sac.locomotion.terrain import Terrain, scan_points
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.utils.errors import ConfigError

REFLECTIONS = {"left-right": np.array([1.0, -1.0, 1.0]), "front-back": np.array([-1.0, 1.0, 1.0])}
SYMMETRIES = [*((name, "left-right") for name in ROBOTS), ("Anymal-B", "front-back")]
"""Robots and the planes they can be mirrored in."""

DATA_GAPS = {
    ("Anymal-B", "left-right"): 0.006,
    ("Anymal-D", "left-right"): 0.008,
    ("Unitree-A1", "left-right"): 0.045,
    ("Unitree-Go1", "left-right"): 0.03,
    ("Unitree-Go2", "left-right"): 0.001,
    ("Unitree-H1", "left-right"): 0.005,
    ("Unitree-G1", "left-right"): 0.003,
    ("Anymal-B", "front-back"): 0.004,
}
"""Median error of a mirrored transition, as a share of how the velocities change in it: about twice what was measured.

It comes from the data alone: centres of mass off the middle by 0.7 (ANYmal D) to 4 mm (A1), inertia by up to 1.5 % (the
torso of G1), shanks of Go1 that differ by 2 mm from left to right, one capsule of Go2.
"""

NUM_ENVS = 16


def robot_of(name: str) -> Robot:
    """Return a robot by its name in tasks."""
    return load_robot(ROBOTS[name].file)


def swap(name: str, plane: str) -> str:
    """Return the name of the part on the other side, by how the makers name sides."""
    if plane == "left-right":
        swaps = {"left_": "right_", "right_": "left_", "LF_": "RF_", "RF_": "LF_", "LH_": "RH_", "RH_": "LH_"}
        swaps |= {"FL_": "FR_", "FR_": "FL_", "RL_": "RR_", "RR_": "RL_"}
    else:
        swaps = {"LF_": "LH_", "LH_": "LF_", "RF_": "RH_", "RH_": "RF_"}
    side = re.match(r"left_|right_|[LRF][FHLR]_", name)
    return swaps[side[0]] + name[side.end() :] if side else name


def turns_around(joint: str, plane: str) -> bool:
    """Return whether a joint turns the other way in the mirror: about z always, else about axes in the plane.

    Fingers: the thumb's first joint (zero) is about y, all others are about z.
    """
    about_x = re.search(r"HAA|roll|[FR][LR]_hip", joint)
    about_z = re.search(r"yaw|torso|one|two|three|four|five|six", joint)
    about_y = re.search(r"HFE|KFE|pitch|thigh|calf|knee|ankle$|ankle_pitch|elbow$|elbow_pitch|zero", joint)
    assert sum(map(bool, (about_x, about_y, about_z))) == 1, joint
    return bool(about_z or (about_x if plane == "left-right" else about_y))


def joint_map(names: Sequence[str], plane: str) -> tuple[list[int], np.ndarray]:
    """Return where each joint of the mirrored robot comes from and its sign, by hand."""
    index = [names.index(swap(name, plane)) for name in names]
    return index, np.array([-1.0 if turns_around(name, plane) else 1.0 for name in names])


def reflect_quat(quat: Sequence[float] | np.ndarray, reflection: np.ndarray) -> np.ndarray:
    """Return mirrored orientations: the angle stays, the axis is a pseudovector."""
    return np.asarray(quat) * np.array([1.0, *-reflection])


def reflected_robot(robot: Robot, plane: str) -> Robot:
    """Return the robot whose bodies are the mirror images of this one's, with this one's names, joints and limits."""
    reflection = REFLECTIONS[plane]
    by_name = {body.name: body for body in robot.bodies}
    products = np.array([1.0, 1.0, 1.0, *(reflection[[0, 0, 1]] * reflection[[1, 2, 2]])])

    def reflect(shape: Shape) -> Shape:
        link = swap(shape.link, plane) if shape.link else None
        quat = reflect_quat(shape.quat, reflection).tolist()
        return replace(shape, pos=(reflection * shape.pos).tolist(), quat=quat, link=link)

    def image(body: Body) -> Body:
        other = by_name[swap(body.name, plane)]
        return replace(
            body,
            pos=(reflection * other.pos).tolist(),
            quat=reflect_quat(other.quat, reflection).tolist(),
            mass=other.mass,
            com=(reflection * other.com).tolist(),
            inertia=(products * other.inertia).tolist(),
            shapes=[reflect(shape) for shape in other.shapes],
        )

    return replace(robot, bodies=[image(body) for body in robot.bodies])


def quiet_env(name: str, robot: Robot) -> VelocityEnv:
    """Return environments on flat ground where nothing is random but the reset, with a solver that converges.

    The cone is elliptic: MuJoCo's discrete integrator takes the softness of a pyramid from one of its edges, and the
    reflection of that edge is another, which is some 1e-3 rad/s in a step of ANYmal.
    """
    physics = PhysicsCfg(cone="elliptic", solver_iterations=100, line_search_iterations=50, tolerance=1e-14)
    cfg = task_cfg(f"Velocity-Flat-{name}")
    cfg = replace(cfg, observation_noise=False, events=EventCfg(), physics=physics)
    return VelocityEnv(cfg, robot, NUM_ENVS, num_threads=1)


def reflected_state(env: VelocityEnv, plane: str) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and velocities of the robots in the reflected world."""
    reflection = REFLECTIONS[plane]
    index, sign = joint_map(env.robot.joint_names, plane)
    joints = [env.physics.model.joint(name) for name in env.robot.joint_names]
    positions, speeds = [joint.qposadr[0] for joint in joints], [joint.dofadr[0] for joint in joints]
    qpos, qvel = env.physics.qpos.copy(), env.physics.qvel.copy()
    qpos[:, :3] *= reflection
    qpos[:, 3:7] = reflect_quat(qpos[:, 3:7], reflection)
    qvel[:, :3] *= reflection
    # In the frame of the body, which is reflected along with it.
    qvel[:, 3:6] *= -reflection
    qpos[:, positions] = sign * env.physics.qpos[:, positions][:, index]
    qvel[:, speeds] = sign * env.physics.qvel[:, speeds][:, index]
    return qpos, qvel


def place(env: VelocityEnv, qpos: np.ndarray, qvel: np.ndarray) -> None:
    """Put robots into a state."""
    rows = np.arange(env.num_envs)
    env.physics.reset(rows, qpos, qvel)
    env.state.after_change(rows)
    env.state.clear_contacts(rows)


def place_randomly(env: VelocityEnv, rng: np.random.Generator) -> None:
    """Put robots into random states shortly before they touch the ground."""
    count = env.num_envs
    qpos, qvel = env.physics.qpos.copy(), rng.uniform(-1.0, 1.0, size=env.physics.qvel.shape)
    qpos[:, 7:] += rng.uniform(-0.15, 0.15, size=qpos[:, 7:].shape)
    yaw, tilt = rng.uniform(-np.pi, np.pi, size=count), rng.uniform(-0.1, 0.1, size=(count, 2))
    quat = np.stack([np.cos(yaw / 2), *tilt.T, np.sin(yaw / 2)], axis=1)
    qpos[:, 3:7] = quat / np.linalg.norm(quat, axis=1, keepdims=True)
    qvel[:, :6] *= 0.5
    qvel[:, 2] -= 0.5
    place(env, qpos, qvel)


def set_commands(env: VelocityEnv, velocity: np.ndarray, heading: np.ndarray) -> None:
    """Give commands that last."""
    env.commands.velocity[:] = velocity
    env.commands.heading_target[:] = heading
    env.commands.standing[:] = False
    env.commands.steps_left[:] = 1000


def random_actions(env: VelocityEnv, rng: np.random.Generator) -> torch.Tensor:
    """Return actions of a policy that is not sure yet."""
    return torch.from_numpy(rng.normal(0.0, 0.4, size=(env.num_envs, env.num_actions)).astype(np.float32))


@pytest.mark.parametrize(("name", "plane"), SYMMETRIES)
def test_joints(name: str, plane: str) -> None:
    """Counterparts and signs are those that the names of the joints tell a person."""
    robot = robot_of(name)
    mirror = mirror_of(robot, rough=False, plane=plane)
    index, sign = joint_map(robot.joint_names, plane)
    assert mirror.action_index.tolist() == index
    assert mirror.action_sign.tolist() == sign.tolist()


@pytest.mark.parametrize("rough", [False, True])
@pytest.mark.parametrize(("name", "plane"), SYMMETRIES)
def test_mirror_of_mirror(name: str, plane: str, rough: bool) -> None:
    """Mirrored twice, everything is as before, to the last bit and in its own precision; once, it is not."""
    robot = robot_of(name)
    mirror = mirror_of(robot, rough, plane)
    observations = torch.randn(3, 5, sum(Observations.sizes(robot, rough).values()))
    actions = torch.randn(3, 5, len(robot.joint_names), dtype=torch.float64)
    assert torch.equal(mirror.observations(mirror.observations(observations)), observations)
    assert torch.equal(mirror.actions(mirror.actions(actions)), actions)
    assert mirror.actions(actions).dtype == torch.float64
    assert mirror.observations(observations.half()).dtype == torch.float16
    assert not torch.equal(mirror.observations(observations), observations)
    assert not torch.equal(mirror.actions(actions), actions)


@pytest.mark.parametrize(("name", "plane"), SYMMETRIES)
def test_action_bounds(name: str, plane: str) -> None:
    """The box of the actions is its own mirror image, though it is not symmetric about zero."""
    env = make_env(f"Velocity-Flat-{name}", num_envs=1)
    low, high = env.action_bounds
    mirror = mirror_of(env.robot, rough=False, plane=plane)
    corners = torch.stack([mirror.actions(low), mirror.actions(high)])
    torch.testing.assert_close(corners.min(dim=0).values, low)
    torch.testing.assert_close(corners.max(dim=0).values, high)
    assert not torch.allclose(low, -high)


@pytest.mark.parametrize(("name", "plane"), SYMMETRIES)
def test_steps_of_the_mirror_image(name: str, plane: str) -> None:
    """Stepping and mirroring commute: states, observations, rewards and falls, from the air into contact.

    The second robot is the reflected one, whose masses are as far off the middle, on the other side: so this holds
    however asymmetric the data are. The states are compared in double precision.
    """
    robot, rng = robot_of(name), np.random.default_rng(0)
    env, image = quiet_env(name, robot), quiet_env(name, reflected_robot(robot, plane))
    mirror = mirror_of(robot, rough=False, plane=plane)
    place_randomly(env, rng)
    place(image, *reflected_state(env, plane))
    velocity, heading = rng.uniform(-1.0, 1.0, size=(NUM_ENVS, 3)), rng.uniform(-np.pi, np.pi, size=NUM_ENVS)
    set_commands(env, velocity, heading)
    # A heading is the angle of the body's own x axis, which is reflected too: it changes its sign in both planes.
    set_commands(image, velocity * [*REFLECTIONS[plane][:2], -1.0], -heading)
    alive, touched, reward_sizes = np.ones(NUM_ENVS, dtype=bool), np.zeros(NUM_ENVS, dtype=bool), []
    for _ in range(12):
        actions = random_actions(env, rng)
        _, rewards, dones, extras = env.step(actions)
        _, image_rewards, image_dones, image_extras = image.step(mirror.actions(actions))
        assert torch.equal(dones[alive], image_dones[alive])
        torch.testing.assert_close(rewards[alive], image_rewards[alive], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(
            mirror.observations(extras["final_obs"]["policy"])[alive],
            image_extras["final_obs"]["policy"][alive],
            rtol=1e-5,
            atol=1e-5,
        )
        touched |= env.state.contacts.any(axis=(1, 2))
        # A fallen robot was reset by now, to a state that is not mirrored.
        alive &= ~dones.numpy()
        for state, expected in zip((image.physics.qpos, image.physics.qvel), reflected_state(env, plane), strict=True):
            np.testing.assert_allclose(state[alive], expected[alive], rtol=0.0, atol=1e-6)
        reward_sizes.append(np.abs(env.rewards.last).max(axis=0))
    assert alive.sum() > NUM_ENVS // 2
    assert touched.mean() > 0.9
    # Nothing was compared with zero, but for what these states do not have.
    silent = {term for term, size in zip(env.rewards.names, np.max(reward_sizes, axis=0), strict=True) if size == 0.0}
    assert silent <= {"termination_penalty", "undesired_contacts", "dof_pos_limits"}


@pytest.mark.parametrize(("name", "plane"), SYMMETRIES)
def test_steps_of_the_real_robot(name: str, plane: str) -> None:
    """On the robot as it is, a mirrored transition is right up to the asymmetry of its data."""
    robot, rng = robot_of(name), np.random.default_rng(0)
    env, mirrored = quiet_env(name, robot), quiet_env(name, robot)
    mirror = mirror_of(robot, rough=False, plane=plane)
    place_randomly(env, rng)
    shares = []
    for _ in range(12):
        actions = random_actions(env, rng)
        # Placed anew for every transition: contacts make small differences grow.
        place(mirrored, *reflected_state(env, plane))
        before = env.physics.qvel.copy()
        for each, action in ((env, actions), (mirrored, mirror.actions(actions))):
            each.physics.step(robot.default_pos + robot.action_scale * action.numpy())
        error = np.linalg.norm(mirrored.physics.qvel - reflected_state(env, plane)[1], axis=1)
        shares.append(error / np.linalg.norm(env.physics.qvel - before, axis=1))
    assert np.median(shares) < DATA_GAPS[name, plane]


class Hills:
    """Ground without any symmetry, or its reflection."""

    def __init__(self, reflection: Sequence[float] = (1.0, 1.0)) -> None:
        self.reflection = reflection

    def height_at(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the height at points of the world."""
        x, y = x * self.reflection[0], y * self.reflection[1]
        return 0.1 * np.sin(1.3 * x + 0.4) + 0.05 * x + 0.1 * np.cos(2.1 * y - 0.9) - 0.07 * y


@pytest.mark.parametrize(("name", "plane"), SYMMETRIES)
def test_rough_observations(name: str, plane: str) -> None:
    """In the reflected world, ground included, a robot observes the mirror image, height scan included."""
    robot, rng = robot_of(name), np.random.default_rng(0)
    env, image = quiet_env(name, robot), quiet_env(name, reflected_robot(robot, plane))
    mirror = mirror_of(robot, rough=True, plane=plane)
    place_randomly(env, rng)
    place(image, *reflected_state(env, plane))
    velocity, actions = rng.uniform(-1.0, 1.0, size=(NUM_ENVS, 3)), random_actions(env, rng)
    observed = []
    reflection = REFLECTIONS[plane][:2]
    for each, ground, command, action in (
        (env, Hills(), velocity, actions),
        (image, Hills(reflection.tolist()), velocity * [*reflection, -1.0], mirror.actions(actions)),
    ):
        observations = Observations(robot, cast(Terrain, ground), noise=False)
        observed.append(torch.from_numpy(observations.compute(each.state, command, action.numpy(), rng)))
    torch.testing.assert_close(mirror.observations(observed[0]), observed[1], rtol=0.0, atol=1e-5)
    scan = observed[0][:, -len(scan_points()) :]
    assert scan.std(dim=1).min() > 0.02 and scan.abs().max() < 1.0


def test_height_scan_points() -> None:
    """The first point, behind and to the right, takes its height from behind and to the left, or front and right."""
    robot = robot_of("Anymal-B")
    scan = torch.arange(187.0)
    observation = torch.cat([torch.zeros(48), scan])
    # Rows of 17 points along x, 11 of them from right to left.
    left_right = mirror_of(robot, rough=True).observations(observation)[48:]
    assert left_right[:3].tolist() == [170.0, 171.0, 172.0]
    assert torch.equal(left_right.reshape(11, 17), scan.reshape(11, 17).flip(0))
    front_back = mirror_of(robot, rough=True, plane="front-back").observations(observation)[48:]
    assert torch.equal(front_back.reshape(11, 17), scan.reshape(11, 17).flip(1))


def test_vectors_by_hand() -> None:
    """Vectors, turning speeds and commands, number by number."""
    observation = torch.arange(1.0, 49.0)
    left_right = mirror_of(robot_of("Anymal-B"), rough=False).observations(observation)
    assert left_right[:12].tolist() == [1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0, -8.0, 9.0, 10.0, -11.0, -12.0]
    front_back = mirror_of(robot_of("Anymal-B"), rough=False, plane="front-back").observations(observation)
    assert front_back[:12].tolist() == [-1.0, 2.0, 3.0, 4.0, -5.0, -6.0, -7.0, 8.0, 9.0, -10.0, 11.0, -12.0]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Anymal-D", "centre of mass 32.9 mm off"),
        ("Anymal-D", r"shapes \[5\] have no mirror image"),
        ("Unitree-A1", "FR_calf_joint"),
        ("Unitree-Go1", "FR_calf_joint"),
        ("Unitree-Go2", "FR_calf_joint"),
        ("Unitree-H1", "left_hip_roll"),
        ("Unitree-G1", "left_hip_roll_joint"),
    ],
)
def test_no_front_back_symmetry(name: str, reason: str) -> None:
    """ANYmal D carries a lidar at its back, all others bend their knees one way: the message says what differs."""
    with pytest.raises(ConfigError, match=f"(?s)not symmetric in the plane front-back.*{reason}"):
        mirror_of(robot_of(name), rough=False, plane="front-back")


def with_body(robot: Robot, name: str, change: Callable[[Body], Body]) -> Robot:
    """Return the robot with one body changed."""
    return replace(robot, bodies=[change(body) if body.name == name else body for body in robot.bodies])


def with_range(body: Body) -> Body:
    """Return a body whose joint has another upper limit."""
    assert isinstance(body.joint, Joint)
    return replace(body, joint=replace(body.joint, range=[body.joint.range[0], body.joint.range[1] + 0.1]))


def wider(body: Body) -> Body:
    """Return a body with a larger first shape."""
    return replace(
        body, shapes=[replace(body.shapes[0], size=[2.0 * x for x in body.shapes[0].size]), *body.shapes[1:]]
    )


def weaker_front_left(robot: Robot) -> Robot:
    """Return the robot with less stiffness in one joint."""
    return replace(
        robot, actuators=[replace(robot.actuators[0], joints=["FL_calf_joint"], stiffness=20.0), *robot.actuators]
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda robot: with_body(robot, "FL_calf", with_range), "FL_calf_joint and FR_calf_joint: limits"),
        (lambda robot: with_body(robot, "FL_calf", wider), r"FL_calf: shapes \[0\] have no mirror image on FR_calf"),
        (lambda robot: with_body(robot, "FL_calf", lambda body: replace(body, mass=0.3)), "FL_calf and FR_calf: mass"),
        (
            lambda robot: with_body(
                robot, "FL_calf", lambda body: replace(body, inertia=[2 * x for x in body.inertia])
            ),
            "FL_calf and FR_calf: inertia",
        ),
        (
            lambda robot: with_body(robot, "trunk", lambda body: replace(body, com=[0.0, 0.02, 0.0])),
            "trunk: centre of mass 40 mm off its mirror image",
        ),
        (
            lambda robot: with_body(robot, "FL_calf", lambda body: replace(body, pos=[0.0, 0.001, -0.2])),
            "FL_calf_joint: in the default pose its mirror image is 1.0 mm and 0.0 degrees off FR_calf_joint",
        ),
        (
            lambda robot: replace(robot, default_pose=robot.default_pose | {"FL_thigh_joint": 0.9}),
            "FL_calf_joint: in the default pose",
        ),
        (
            lambda robot: replace(robot, default_pose=robot.default_pose | {"FL_calf_joint": -1.4}),
            "limits are no mirror images",
        ),
        (weaker_front_left, "FL_calf_joint and FR_calf_joint: actuators differ"),
        (lambda robot: replace(robot, foot_links=robot.foot_links[:-1]), "foot_links: holds R[LR]_foot, but not"),
        (lambda robot: replace(robot, joint_groups={"some": ["FL_*"]}), "joint_groups.some: holds FL_hip_joint, but"),
        (lambda robot: replace(robot, height_scan_body="FL_hip"), "height_scan_body: FL_hip is not its own"),
    ],
)
def test_left_right_asymmetry_is_refused(change: Callable[[Robot], Robot], reason: str) -> None:
    """Whatever the reward, the physics or the observations depend on must be symmetric."""
    robot = robot_of("Unitree-A1")
    mirror_of(robot, rough=True)
    with pytest.raises(ConfigError, match=reason):
        mirror_of(change(robot), rough=True)


def test_misuse_is_refused() -> None:
    """Unknown planes, observations of another task, other environments and unknown groups."""
    robot = robot_of("Unitree-Go1")
    with pytest.raises(ConfigError, match="left-right, front-back, got 'up-down'"):
        mirror_of(robot, rough=False, plane="up-down")
    with pytest.raises(ConfigError, match="for 48 observations, got 235"):
        mirror_of(robot, rough=False).observations(torch.zeros(2, 235))
    with pytest.raises(ConfigError, match="not those of DoubleIntegrator"):
        mirror_states(DoubleIntegrator(num_envs=2), None, torch.zeros(2, 1))
    env = make_env("Velocity-Flat-Unitree-Go1", num_envs=2)
    other = TensorDict({"policy": torch.zeros(2, 48), "camera": torch.zeros(2, 4)}, batch_size=[2])
    with pytest.raises(ConfigError, match=r"'policy' only, got also \['camera'\]"):
        mirror_states(env, other, None)


def test_mirror_states() -> None:
    """Given ones first, then their mirror images; None stays None; gradients pass."""
    env = make_env("Velocity-Rough-Unitree-G1", num_envs=4)
    mirror = mirror_of(env.robot, rough=True)
    observations = env.get_observations()
    actions = torch.randn(4, 37, requires_grad=True)
    both, both_actions = mirror_states(env=env, obs=observations, actions=actions)
    assert both is not None and both_actions is not None
    assert both.batch_size == torch.Size([8]) and both_actions.shape == (8, 37)
    assert torch.equal(both["policy"][:4], observations["policy"])
    assert torch.equal(both["policy"][4:], mirror.observations(cast(torch.Tensor, observations["policy"])))
    assert torch.equal(both_actions[:4], actions)
    assert torch.equal(both_actions[4:], mirror.actions(actions))
    both_actions.sum().backward()
    assert actions.grad is not None
    expected = (1.0 + mirror.action_sign[mirror.action_index]).expand(4, -1)
    assert torch.equal(actions.grad, expected)
    assert mirror_states(env, None, None) == (None, None)
    only_observations, nothing = mirror_states(env, observations, None)
    assert (
        nothing is None and only_observations is not None and torch.equal(only_observations["policy"], both["policy"])
    )


def test_ppo_of_rsl_rl_trains(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """rsl_rl's own PPO takes the function by its name, for augmentation and for the mirror loss."""
    env = make_env("Velocity-Rough-Unitree-Go1", num_envs=8)
    runner_cfg = PPORunnerCfg(num_steps_per_env=24)
    runner_cfg.actor.hidden_dims = runner_cfg.critic.hidden_dims = [16]
    cfg = runner_cfg.to_dict()
    cfg["algorithm"]["symmetry_cfg"] = {
        "data_augmentation_func": "rsl_rl_sac.locomotion.symmetry:mirror_states",
        "use_data_augmentation": True,
        "use_mirror_loss": True,
        "mirror_loss_coeff": 0.1,
    }
    runner = OnPolicyRunner(env, cfg, log_dir=str(tmp_path))
    weights = [parameter.detach().clone() for parameter in runner.alg.actor.parameters()]
    runner.learn(2)
    trained = list(runner.alg.actor.parameters())
    assert any(not torch.equal(old, new) for old, new in zip(weights, trained, strict=True))
    assert all(bool(torch.isfinite(parameter).all()) for parameter in trained)
    assert "symmetry" in capsys.readouterr().out
