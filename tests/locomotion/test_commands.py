# SPDX-License-Identifier: BSD-3-Clause

"""Velocity commands: ranges, times, heading control and standing, seen through the observations."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.spatial.transform import Rotation

from rsl_rl_sac.locomotion import VelocityEnv, make_env
from rsl_rl_sac.locomotion.commands import CommandCfg, VelocityCommand
from tests.locomotion.velocity_helpers import COMMAND, end_by_time, heading, observe, random_actions, zero_actions

QUADRUPEDS = ("Anymal-B", "Anymal-D", "Unitree-A1", "Unitree-Go1", "Unitree-Go2")
RANGES = {
    **{f"Velocity-Flat-{robot}": ((-1.0, 1.0), (-1.0, 1.0)) for robot in QUADRUPEDS},
    **{f"Velocity-Rough-{robot}": ((-1.0, 1.0), (-1.0, 1.0)) for robot in QUADRUPEDS},
    "Velocity-Flat-Unitree-H1": ((0.0, 1.0), (0.0, 0.0)),
    "Velocity-Rough-Unitree-H1": ((0.0, 1.0), (0.0, 0.0)),
    "Velocity-Flat-Unitree-G1": ((0.0, 1.0), (-0.5, 0.5)),
    "Velocity-Rough-Unitree-G1": ((0.0, 1.0), (0.0, 0.0)),
}
"""Ranges of vx and vy."""


def make_commands(num_envs: int, seed: int = 0, cfg: CommandCfg | None = None) -> VelocityCommand:
    """Return commands that are drawn."""
    commands = VelocityCommand(cfg or CommandCfg(), num_envs, 0.02, np.random.default_rng(seed))
    commands.resample(np.arange(num_envs))
    return commands


def quiet_env(task: str = "Velocity-Flat-Unitree-Go1", num_envs: int = 16, seed: int = 0) -> VelocityEnv:
    """Return environments without observation noise."""
    return make_env(task, num_envs, seed, observation_noise=False)


def assert_uniform(values: np.ndarray, low: float, high: float) -> None:
    """Check that values are inside a range and spread evenly over all of it; a range of no width is one value."""
    if low == high:
        assert (values == low).all()
        return
    assert values.min() >= low and values.max() <= high
    # That the last ten of N equal parts of the range are all empty has a probability of exp(-10).
    margin = 10.0 * (high - low) / len(values)
    assert values.min() < low + margin and values.max() > high - margin
    assert stats.kstest(values, "uniform", args=(low, high - low)).pvalue > 1e-3


def expected_turning(target: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Return half the heading error, taken the short way round, clipped to 1 rad/s."""
    errors = [math.remainder(a - b, 2.0 * math.pi) for a, b in zip(target, present, strict=True)]
    return np.clip(0.5 * np.array(errors), -1.0, 1.0)


@pytest.mark.parametrize("task", list(RANGES))
def test_ranges(task: str) -> None:
    """After a reset the commands are uniform in the ranges of the task, and independent of each other."""
    env = make_env(task, num_envs=500)
    raw = observe(env)[:, COMMAND]  # without noise on the command
    for column, (low, high) in enumerate((*RANGES[task], (-1.0, 1.0))):
        assert_uniform(raw[:, column], low, high)
    assert_uniform(env.commands.heading_target, -math.pi, math.pi)
    varied = np.column_stack([raw[:, np.ptp(raw, axis=0) > 0.0], env.commands.heading_target])
    assert np.abs(np.corrcoef(varied.T) - np.eye(varied.shape[1])).max() < 0.15


def test_resampling_every_500_steps() -> None:
    """A command lasts 10 s = 500 updates; the update in the step of a reset is already the first of the new one."""
    env = quiet_env(num_envs=6)
    lengths = torch.zeros(6, dtype=torch.long)
    lengths[:2] = torch.tensor([990, 980])  # time-outs in steps 10 and 20
    env.episode_length_buf = lengths
    before = observe(env)[:, 9:11]
    changes: dict[int, list[tuple[int, bool]]] = {row: [] for row in range(6)}
    for step in range(1, 1025):
        _, _, dones, _ = env.step(zero_actions(env))
        after = observe(env)[:, 9:11]
        for row in np.flatnonzero((after != before).any(axis=1)):
            changes[int(row)].append((step, bool(dones[row])))
        before = after
    assert changes[0] == [(10, True), (509, False), (1009, False), (1010, True)]
    assert changes[1] == [(20, True), (519, False), (1019, False), (1020, True)]
    # In step 1000 the time-out draws a command, and the timer that would have been due is gone.
    assert all(changes[row] == [(500, False), (1000, True)] for row in range(2, 6))


@pytest.mark.parametrize(
    ("target", "present", "turning"),
    [
        (1.0, 0.0, 0.5),
        (0.0, 1.0, -0.5),
        (3.0, -3.0, 0.5 * (6.0 - 2.0 * math.pi)),  # the short way, through pi
        (-3.0, 3.0, 0.5 * (2.0 * math.pi - 6.0)),
        (1.5, -1.0, 1.0),  # half of 2.5 is too fast
        (-1.5, 1.0, -1.0),
        (0.3, 0.3, 0.0),
    ],
)
def test_heading_control_by_hand(target: float, present: float, turning: float) -> None:
    """Half the heading error, the short way round, at most 1 rad/s."""
    commands = make_commands(1, cfg=CommandCfg(standing_share=0.0))
    commands.heading_target[:] = target
    forward = commands.velocity[:, :2].copy()
    commands.update(np.array([present]))
    assert commands.velocity[0, 2] == pytest.approx(turning, abs=1e-6)
    assert np.array_equal(commands.velocity[:, :2], forward)


def test_heading_control_follows_the_robot() -> None:
    """In every step, and in that of a reset too, the turning command is that of the heading after the step."""
    env, generator = quiet_env(num_envs=32), torch.Generator().manual_seed(0)
    end_by_time(env, [3, 4])
    largest_turn, before = 0.0, heading(env)
    for _ in range(40):
        env.step(random_actions(env, generator))
        after, moving = heading(env), ~env.commands.standing
        expected = expected_turning(env.commands.heading_target, after)
        np.testing.assert_allclose(observe(env)[moving, 11], expected[moving], atol=2e-6)
        largest_turn, before = max(largest_turn, float(np.abs(after - before)[moving].min())), after
        assert moving.sum() > 25
    assert largest_turn > 1e-4  # the heading of the step before would have been noticed


def test_heading_of_a_tilted_robot() -> None:
    """The heading is that of the x axis, however the robot is pitched and rolled: here 1 rad, so 0.5 x (0.4 - 1)."""
    env = quiet_env(num_envs=1)
    env.commands.standing[:], env.commands.heading_target[:] = False, 0.4
    x, y, z, w = Rotation.from_euler("ZYX", [1.0, -1.0, 0.8]).as_quat()
    env.physics.qpos[0, 2:7] = [5.0, w, x, y, z]
    env.step(zero_actions(env))
    assert observe(env)[0, 11] == pytest.approx(-0.3, abs=0.01)


def test_first_observation_after_an_explicit_reset_is_raw() -> None:
    """Heading control acts from the first step on: then a share of 1 - 2 / pi turns at full speed, none before."""
    env = quiet_env(num_envs=400, seed=1)
    full_speed = []
    for _ in range(2):
        raw = observe(env)[:, 11]
        assert_uniform(raw, -1.0, 1.0)
        full_speed.append(float((np.abs(raw) == 1.0).mean()))
        forward = observe(env)[:, 9:11]
        env.step(zero_actions(env))
        moving = ~env.commands.standing
        full_speed.append(float((np.abs(observe(env)[:, 11]) == 1.0).mean()))
        assert np.array_equal(observe(env)[moving, 9:11], forward[moving])
        env.reset()
    assert full_speed[0] == full_speed[2] == 0.0
    assert full_speed[1] == pytest.approx(1.0 - 2.0 / math.pi, abs=0.1)
    assert full_speed[3] == pytest.approx(1.0 - 2.0 / math.pi, abs=0.1)


def test_in_step_reset_shows_the_converted_command() -> None:
    """After a reset inside of a step the update has run: turning is already heading control."""
    env = quiet_env(num_envs=400, seed=2)
    before = observe(env)[:, COMMAND]
    end_by_time(env, list(range(400)))
    _, _, dones, _ = env.step(zero_actions(env))
    assert bool(dones.all())
    after, moving = observe(env)[:, COMMAND], ~env.commands.standing
    expected = expected_turning(env.commands.heading_target, heading(env))
    np.testing.assert_allclose(after[moving, 2], expected[moving], atol=2e-6)
    assert_uniform(after[moving, 0], -1.0, 1.0)
    assert (after[moving, 0] != before[moving, 0]).all()


def test_standing_share() -> None:
    """One command in fifty is to stand, whatever the one before was."""
    commands = make_commands(200_000)
    first = commands.standing.copy()
    commands.resample(np.arange(200_000))
    second = commands.standing
    deviation = math.sqrt(0.02 * 0.98 / 200_000)
    assert first.mean() == pytest.approx(0.02, abs=5.0 * deviation)
    assert second.mean() == pytest.approx(0.02, abs=5.0 * deviation)
    assert (first & second).mean() == pytest.approx(0.0004, abs=5.0 * math.sqrt(0.0004 / 200_000))


def test_standing_commands_are_zero_until_the_next() -> None:
    """From the first update to the 499th the whole command of a standing robot is zero, then a new one is drawn."""
    commands = make_commands(1000, seed=3)
    raw, standing = commands.velocity.copy(), commands.standing.copy()
    assert standing.sum() > 5 and (raw[standing] != 0.0).all()  # not in the resampling itself
    for step in range(1, 500):
        commands.update(np.full(1000, 0.01 * step))
        assert (commands.velocity[standing] == 0.0).all()
        assert np.array_equal(commands.velocity[~standing, :2], raw[~standing, :2])
    commands.update(np.zeros(1000))
    moves = standing & ~commands.standing
    assert moves.sum() > 5 and (commands.velocity[moves, :2] != 0.0).all()
    assert (commands.velocity[~standing, :2] != raw[~standing, :2]).any(axis=1).all()


def test_standing_in_the_environment() -> None:
    """The observations of standing robots show a command of zero, those of the others none."""
    env = quiet_env(num_envs=400, seed=4)
    env.step(zero_actions(env))
    commands, standing = observe(env)[:, COMMAND], env.commands.standing
    assert 1 <= standing.sum() <= 25
    assert (commands[standing] == 0.0).all() and (commands[~standing] != 0.0).all()


def test_resampling_of_some() -> None:
    """Other environments keep their command and their time."""
    commands = make_commands(10)
    for _ in range(200):
        commands.update(np.zeros(10))
    others = np.array([0, 2, 3, 4, 6, 7, 8, 9])
    before = commands.velocity.copy()
    commands.resample(np.array([1, 5]))
    assert np.array_equal(commands.velocity[others], before[others])
    assert (commands.velocity[[1, 5], :2] != before[[1, 5], :2]).all()
    for _ in range(299):
        commands.update(np.zeros(10))
    assert np.array_equal(commands.velocity[others, :2], before[others, :2])
    commands.update(np.zeros(10))
    assert (commands.velocity[others, :2] != before[others, :2]).all()


def test_state() -> None:
    """Commands whose arrays and generator are restored go on as the original, over the next resampling."""
    original, restored = make_commands(50, seed=5), make_commands(50, seed=6)
    for step in range(300):
        original.update(np.full(50, 0.01 * step))
    saved = {name: array.copy() for name, array in original.state_dict().items()}
    for name, array in restored.state_dict().items():
        array[...] = saved[name]
    restored.rng.bit_generator.state = original.rng.bit_generator.state
    before = restored.velocity.copy()
    for step in range(600):
        for commands in (original, restored):
            commands.update(np.full(50, 0.01 * step))
        assert np.array_equal(original.velocity, restored.velocity)
    assert (restored.velocity[:, 0] != before[:, 0]).mean() > 0.9
