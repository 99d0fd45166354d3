# SPDX-License-Identifier: BSD-3-Clause

"""Observations term by term against MuJoCo, the height scan against its rays, noise by its statistics."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rsl_rl_sac.locomotion import VelocityEnv, make_env
from rsl_rl_sac.locomotion.observations import Observations
from rsl_rl_sac.locomotion.registry import load_robot
from tests.locomotion.velocity_helpers import cast_scan, forward, observation_by_mujoco

TASKS = [
    "Velocity-Flat-Anymal-D",
    "Velocity-Rough-Unitree-Go1",
    "Velocity-Flat-Unitree-H1",
    "Velocity-Rough-Unitree-G1",
]

SCANNERS = {
    "Velocity-Rough-Unitree-Go1": "trunk",
    "Velocity-Rough-Unitree-H1": "torso_link",
    "Velocity-Rough-Unitree-G1": "torso_link",
}
"""Bodies that carry the height scanner."""

WAISTS = {"Velocity-Rough-Unitree-H1": "torso", "Velocity-Rough-Unitree-G1": "torso_joint"}
"""Joints between the base and the scanner."""

NOISE = {
    "base_lin_vel": 0.1,
    "base_ang_vel": 0.2,
    "projected_gravity": 0.05,
    "velocity_commands": 0.0,
    "joint_pos": 0.01,
    "joint_vel": 1.5,
    "actions": 0.0,
    "height_scan": 0.1,
}
"""Half widths of Isaac Lab's noise, in the order of the terms."""


def make(task: str, num_envs: int = 5, noise: bool = False) -> VelocityEnv:
    """Make environments of a task, always the same."""
    return make_env(task, num_envs, seed=3, num_threads=1, observation_noise=noise)


def observe(env: VelocityEnv) -> np.ndarray:
    """Return new observations of the present state, with the last actions zero."""
    action = np.zeros((env.num_envs, env.num_actions), dtype=np.float32)
    return env.observations.compute(env.state, env.commands.velocity, action, env.rng)


@pytest.mark.parametrize("rough", [False, True], ids=["flat", "rough"])
@pytest.mark.parametrize(
    ("robot", "joints", "flat_size"),
    [
        ("anymal_b", 12, 48),
        ("anymal_d", 12, 48),
        ("unitree_a1", 12, 48),
        ("unitree_go1", 12, 48),
        ("unitree_go2", 12, 48),
        ("unitree_h1", 19, 69),
        ("unitree_g1", 37, 123),
    ],
)
def test_sizes(robot: str, joints: int, flat_size: int, rough: bool) -> None:
    """Terms come in Isaac Lab's order and sizes; rough tasks add 17 x 11 heights."""
    sizes = Observations.sizes(load_robot(robot), rough)
    assert list(sizes) == list(NOISE)[: 8 if rough else 7]
    assert list(sizes.values()) == [3, 3, 3, 3, joints, joints, joints, 187][: 8 if rough else 7]
    assert sum(sizes.values()) == flat_size + 187 * rough


@pytest.mark.parametrize(("task", "size"), list(zip(TASKS, [48, 235, 69, 310], strict=True)))
def test_against_mujoco(task: str, size: int) -> None:
    """After some steps every number is what MuJoCo says of the state, the command or the last action."""
    env = make(task)
    joints = env.num_actions
    observation, action, dones = env.get_observations()["policy"], torch.zeros(5, joints), torch.zeros(5)
    for _ in range(12):
        action = 0.3 * torch.randn(5, joints)
        observations, _, dones, _ = env.step(action)
        observation = observations["policy"]
    assert observation.dtype == torch.float32
    assert observation.shape == (5, size)
    assert not dones.all()
    for row in range(5):
        last_action = np.zeros(joints) if dones[row] else action[row].numpy()
        command, scanner = env.commands.velocity[row], SCANNERS.get(task)
        expected = observation_by_mujoco(*forward(env, row), env.robot, command, last_action, scanner)
        np.testing.assert_allclose(observation[row].numpy(), expected, rtol=1e-5, atol=2e-4)


def test_commands_and_actions() -> None:
    """The command is the one of the next step, the action the raw one, and zero after a reset."""
    env = make("Velocity-Flat-Unitree-Go1", 3)
    assert not env.get_observations()["policy"][:, 36:].any()
    env.episode_length_buf = torch.tensor([0, 999, 0])
    action = torch.randn(3, 12)
    observation = env.step(action)[0]["policy"]
    np.testing.assert_array_equal(observation[:, 9:12].numpy(), env.commands.velocity)
    np.testing.assert_array_equal(observation[[0, 2], 36:].numpy(), action[[0, 2]].numpy())
    assert not observation[1, 36:].any()


@pytest.mark.parametrize("task", SCANNERS)
def test_scan_of_tilted_robots(task: str) -> None:
    """The grid follows the yaw alone of the scanner's body; what is too high or too low is clipped."""
    env = make(task, 6)
    rng = np.random.default_rng(1)
    qpos = env.physics.qpos
    qpos[:, :2] = rng.uniform([-38.0, -78.0], [38.0, 78.0], size=(6, 2))
    qpos[:, 2] = [0.8, 0.4, 1.1, 0.2, 3.0, -2.5]
    turn = rng.normal(size=(6, 4)) * [1.0, 0.3, 0.3, 1.0]
    qpos[:, 3:7] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    if task in WAISTS:
        qpos[:, env.physics.model.joint(WAISTS[task]).qposadr[0]] = [1.0, -1.0, 0.5, -0.5, 2.0, 0.0]
    env.state.after_change(slice(None))
    scan = observe(env)[:, -187:]
    for row in range(6):
        np.testing.assert_allclose(scan[row], cast_scan(*forward(env, row), SCANNERS[task]), atol=3e-4)
    assert (np.ptp(scan, axis=1) > 0.05).sum() > 2  # the ground was not flat
    assert (scan[4] == 1.0).all()
    assert (scan[5] == -1.0).all()


def test_scan_by_hand() -> None:
    """Beside the tiles, where the ground is at 0, a scanner at 0.9 m reads 0.4 everywhere, and one at 0.2 m -0.3."""
    env = make("Velocity-Rough-Unitree-Go1", 2)
    env.physics.qpos[:, :3] = [60.0, 0.0, 0.9]
    env.physics.qpos[1, 2] = 0.2
    env.state.after_change(slice(None))
    scan = observe(env)[:, -187:]
    np.testing.assert_allclose(scan[0], 0.4, atol=1e-6)
    np.testing.assert_allclose(scan[1], -0.3, atol=1e-6)


def test_noise() -> None:
    """Uniform and of the right width on each term, none on commands and actions, and independent of each other."""
    env = make("Velocity-Rough-Unitree-Go1", 50, noise=True)
    env.physics.qpos[:, :3] = [60.0, 0.0, 0.4]
    env.physics.qvel[:] = 0.7
    env.state.after_change(slice(None))
    clean = Observations(env.robot, env.terrain, noise=False)
    action = np.ones((50, 12), dtype=np.float32)
    reference = clean.compute(env.state, env.commands.velocity, action, env.rng)
    draws = [env.observations.compute(env.state, env.commands.velocity, action, env.rng) for _ in range(100)]
    noise = np.array(draws, dtype=np.float64) - reference
    for name, width in NOISE.items():
        part = noise[..., env.observations.columns[name]]
        if width == 0.0:
            assert not part.any()
            continue
        assert np.abs(part).max() <= width + 1e-6
        assert part.min(axis=(0, 1)).max() < -0.99 * width  # in each column
        assert part.max(axis=(0, 1)).min() > 0.99 * width
        assert part.std() == pytest.approx(width / np.sqrt(3.0), rel=0.02)
        assert abs(part.mean()) < 0.02 * width
        # Neighbours in the row, the environments and the steps know nothing of each other.
        for axis in range(3):
            rolled = np.roll(part, 1, axis)
            assert abs(np.corrcoef(part.ravel(), rolled.ravel())[0, 1]) < 0.03


def test_scan_is_clipped_after_the_noise() -> None:
    """A height of 1.05 m lies between 0.95 and 1.15 with noise: a quarter below 1, the rest is cut off at 1."""
    env = make("Velocity-Rough-Unitree-Go1", 50, noise=True)
    env.physics.qpos[:, :3] = [60.0, 0.0, 1.55]
    env.physics.qpos[25:, 2] = -0.55
    env.state.after_change(slice(None))
    scan = observe(env)[:, -187:]
    for part in (scan[:25], -scan[25:]):
        assert part.max() == 1.0
        assert 0.95 - 1e-6 < part.min() < 0.951
        assert (part < 1.0).mean() == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize("noise", [False, True])
def test_noise_is_fresh_in_each_step(noise: bool) -> None:
    """Two steps have other noise; between steps the observation stays; without noise it is exact."""
    env = make("Velocity-Flat-Unitree-H1", 3, noise=noise)
    clean = Observations(env.robot, env.terrain, noise=False)
    found = []
    for _ in range(2):
        observation = env.step(torch.zeros(3, 19))[0]["policy"]
        assert torch.equal(observation, env.get_observations()["policy"])
        exact = clean.compute(env.state, env.commands.velocity, np.zeros((3, 19), dtype=np.float32), env.rng)
        found.append(observation.numpy() - exact)
    columns = [*range(9), *range(12, 50)]
    assert (np.abs(found[0] - found[1])[:, columns] > 0.0).all() == noise
    assert found[0][:, columns].any() == noise


@pytest.mark.parametrize(
    ("task", "joint", "low", "high"),
    [
        # Soft limits of the hips +-0.863 x 0.9 = +-0.7767, of the thighs 1.9075 +- 2.33415, of the calves
        # -1.853 +- 0.8685; the scale is 0.25.
        ("Velocity-Flat-Unitree-Go1", "FL_hip_joint", -3.5068, 2.7068),
        ("Velocity-Flat-Unitree-Go1", "RR_hip_joint", -2.7068, 3.5068),
        ("Velocity-Flat-Unitree-Go1", "FR_thigh_joint", -4.9066, 13.7666),
        ("Velocity-Flat-Unitree-Go1", "RL_thigh_joint", -5.7066, 12.9666),
        ("Velocity-Flat-Unitree-Go1", "FL_calf_joint", -4.886, 2.062),
        # Soft limits of the knee 1.105005 +- 1.2959055, the thumb 0.1 +- 0.99 and -0.1 +- 0.99, the fingers
        # 0.92 +- 0.828, and of the last one -0.92 +- 0.828, where the default 0 is outside; the scale is 0.5.
        ("Velocity-Flat-Unitree-G1", "left_knee_joint", -1.221801, 3.961821),
        ("Velocity-Flat-Unitree-G1", "left_one_joint", -3.78, 0.18),
        ("Velocity-Flat-Unitree-G1", "right_one_joint", -0.18, 3.78),
        ("Velocity-Flat-Unitree-G1", "left_two_joint", -0.856, 2.456),
        ("Velocity-Flat-Unitree-G1", "left_four_joint", -3.496, 0.184),
    ],
)
def test_action_bounds(task: str, joint: str, low: float, high: float) -> None:
    """Distances from the default pose to the soft limits in units of the action, at the place of the joint."""
    env = make(task, 1)
    index = env.robot.joint_names.index(joint)
    lower, upper = env.action_bounds
    assert lower.shape == upper.shape == (env.num_actions,)
    assert lower[index].item() == pytest.approx(low, rel=1e-5)
    assert upper[index].item() == pytest.approx(high, rel=1e-5)
