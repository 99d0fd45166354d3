# SPDX-License-Identifier: BSD-3-Clause

"""Reproducible trajectories: seeds, threads, and states that are saved and restored in mid-episode."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
import torch

from rsl_rl_sac.locomotion import VelocityEnv, make_env
from rsl_rl_sac.utils.errors import CheckpointError
from tests.locomotion.velocity_helpers import random_actions, zero_actions

FLAT, ROUGH = "Velocity-Flat-Unitree-Go1", "Velocity-Rough-Unitree-Go1"


def spread_time_outs(env: VelocityEnv, within: int) -> None:
    """Let every other environment end its episode by time, one after the other."""
    lengths = torch.full((env.num_envs,), 100)
    lengths[::2] = 1000 - torch.linspace(2, within, len(lengths[::2])).long()
    env.episode_length_buf = lengths


def run(env: VelocityEnv, num_steps: int, seed: int = 0) -> list[dict]:
    """Step with random actions; return all that was returned."""
    generator, results = torch.Generator().manual_seed(seed), []
    for _ in range(num_steps):
        obs, rewards, dones, extras = env.step(random_actions(env, generator))
        result = {"obs": obs["policy"], "rewards": rewards, "dones": dones, "time_outs": extras["time_outs"]}
        result["final_obs"] = extras["final_obs"]["policy"]
        tensors = {key: value.clone() for key, value in result.items()}
        results.append({**tensors, "log": extras.get("log")})
    return results


def differences(one: list[dict], other: list[dict]) -> list[tuple[int, str]]:
    """Return the steps and names of what is not bit for bit equal."""

    def same(a: object, b: object) -> bool:
        return torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a == b

    steps = enumerate(zip(one, other, strict=True))
    return [(step, key) for step, (first, second) in steps for key in first if not same(first[key], second[key])]


def same_state(one: dict, other: dict) -> bool:
    """Return whether two states are bit for bit equal."""
    assert one.keys() == other.keys()
    pairs = [(one[key], other[key]) for key in one]
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)


def through_a_file(state: dict) -> dict:
    """Save a state and load it the safe way."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("task", [FLAT, "Velocity-Rough-Anymal-D"])
def test_seed_decides(task: str) -> None:
    """The same seed gives the same trajectory, another seed another one from the first observation on."""
    envs = [make_env(task, num_envs=6, seed=seed) for seed in (5, 5, 6)]
    first = [env.get_observations()["policy"].clone() for env in envs]
    for env in envs:
        spread_time_outs(env, 20)
    one, same, other = (run(env, 30) for env in envs)
    assert torch.equal(first[0], first[1]) and differences(one, same) == []
    assert (first[0] != first[2]).all(dim=0)[:24].sum() > 20
    assert len(differences(one, other)) > 30


def test_seed_decides_the_terrain() -> None:
    """The terrain and the masses follow from the seed too."""
    masses = [make_env(FLAT, num_envs=2, seed=seed).base_inertia.mass for seed in (5, 5, 6)]
    assert np.array_equal(masses[0], masses[1]) and not np.array_equal(masses[0], masses[2])
    one, same, other = (make_env(ROUGH, num_envs=2, seed=seed) for seed in (5, 5, 6))
    assert one.terrain is not None and same.terrain is not None and other.terrain is not None
    assert np.array_equal(one.terrain.heights, same.terrain.heights)
    assert not np.array_equal(one.terrain.heights, other.terrain.heights)


@pytest.mark.parametrize("task", [FLAT, "Velocity-Rough-Anymal-D", "Velocity-Rough-Unitree-G1"])
def test_number_of_threads_does_not_matter(task: str) -> None:
    """One thread and two give the same bits over 100 steps with resets."""
    results = []
    for num_threads in (1, 2):
        env = make_env(task, num_envs=10, num_threads=num_threads)
        assert env.physics.batch.nthread == num_threads
        spread_time_outs(env, 90)
        results.append(run(env, 100))
    assert sum(int(result["dones"].sum()) for result in results[0]) >= 5
    assert differences(*results) == []


@pytest.mark.parametrize("history", ["new", "other"])
@pytest.mark.parametrize("task", ["Velocity-Flat-Anymal-D", ROUGH, "Velocity-Rough-Unitree-G1"])
def test_restored_environment_goes_on_exactly(task: str, history: str) -> None:
    """From mid-episode on: observations, rewards, flags and log of 60 steps with resets, pushes and new commands."""
    original = make_env(task, num_envs=12, seed=2)
    run(original, 25)
    spread_time_outs(original, 50)
    original.commands.steps_left[1::4] = torch.arange(20, 50, 10).numpy()
    pushes = np.isfinite(original.pushes.time_left).any()
    if pushes:
        original.pushes.time_left[1::2] = np.linspace(0.1, 1.0, 6)
    original.num_diverged = 3
    state = original.state_dict()
    saved = through_a_file(state)
    derived = {name: getattr(original.state, name).copy() for name in ("root_pos", "joint_vel", "last_air_time")}
    timers = original.pushes.time_left.copy()
    levels = original.levels.levels.copy() if original.levels is not None else None

    expected = run(original, 60, seed=1)
    assert same_state(state, saved)  # the state is a copy that going on leaves alone
    assert sum(int(result["dones"].sum()) for result in expected) >= 6
    if pushes:
        assert (original.pushes.time_left > timers).sum() >= 6
    if levels is not None and original.levels is not None:
        assert (original.levels.levels != levels).any()

    restored = make_env(task, num_envs=12, seed=2)
    if history == "other":
        run(restored, 70, seed=3)
    returned_before = restored.step(zero_actions(restored))[0]["policy"]
    kept = returned_before.clone()
    restored.load_state_dict(saved)
    assert torch.equal(restored.get_observations()["policy"], saved["observation"])
    assert torch.equal(returned_before, kept)  # what was returned before is not overwritten
    assert all(np.array_equal(getattr(restored.state, name), array) for name, array in derived.items())
    assert differences(expected, run(restored, 60, seed=1)) == []
    assert same_state(original.state_dict(), restored.state_dict())


def test_would_notice() -> None:
    """The comparison above is able to fail: another generator state changes the trajectory."""
    original = make_env(FLAT, num_envs=4)
    state = original.state_dict()
    expected = run(original, 3)
    state["rng"] = state["rng"] + 1
    restored = make_env(FLAT, num_envs=4)
    restored.load_state_dict(state)
    assert len(differences(expected, run(restored, 3))) > 0


def test_masses_are_restored() -> None:
    """A flat environment of another seed takes over the masses, in MuJoCo too, and goes on exactly."""
    original, restored = (make_env("Velocity-Flat-Anymal-D", num_envs=6, seed=seed) for seed in (1, 2))
    run(original, 10)
    restored.load_state_dict(original.state_dict())
    for row in range(6):
        one, other = original.physics.batch.get_model(row), restored.physics.batch.get_model(row)
        assert one.body_mass[1] == other.body_mass[1]
        assert np.array_equal(one.body_ipos[1], other.body_ipos[1])
        assert np.array_equal(one.body_inertia[1], other.body_inertia[1])
    spread_time_outs(original, 20)
    spread_time_outs(restored, 20)
    assert differences(run(original, 30), run(restored, 30)) == []


@pytest.mark.parametrize(
    ("task", "foreign_state"),
    [
        (FLAT, lambda: make_env(FLAT, num_envs=5).state_dict()),
        (FLAT, lambda: make_env(ROUGH, num_envs=4).state_dict()),
        (ROUGH, lambda: make_env(FLAT, num_envs=4).state_dict()),
        (FLAT, lambda: make_env("Velocity-Flat-Unitree-G1", num_envs=4).state_dict()),
        (FLAT, lambda: make_env("Velocity-Flat-Anymal-D", num_envs=4).state_dict()),
        (ROUGH, lambda: make_env(ROUGH, num_envs=4, seed=1).state_dict()),
        (FLAT, dict),
        # Robots that differ in no shape.
        (FLAT, lambda: make_env("Velocity-Flat-Unitree-A1", num_envs=4).state_dict()),
        (FLAT, lambda: {k: v for k, v in make_env(FLAT, num_envs=4).state_dict().items() if k != "rng"}),
    ],
    ids=["num_envs", "rough", "flat", "G1", "ANYmal", "terrain", "empty", "A1", "no-generator"],
)
def test_state_that_does_not_fit(task: str, foreign_state: Callable[[], dict]) -> None:
    """It is refused with an error of this package, and nothing has changed."""
    env = make_env(task, num_envs=4)
    run(env, 3)
    before = env.state_dict()
    with pytest.raises(CheckpointError, match="state of the environment"):
        env.load_state_dict(foreign_state())
    assert same_state(before, env.state_dict())


def test_seed_method() -> None:
    """Seeding decides what happens from then on; terrain and masses stay."""
    envs = [make_env(ROUGH, num_envs=4, seed=3) for _ in range(3)]
    run(envs[1], 7)  # draws numbers that seeding makes forgotten
    first = []
    for env, seed in zip(envs, (11, 11, 12), strict=True):
        assert env.levels is not None
        assert env.seed(seed) == seed
        env.levels.levels[:] = 2
        first.append(env.reset()[0]["policy"].clone())
    assert torch.equal(first[0], first[1]) and not torch.equal(first[0], first[2])
    assert differences(run(envs[0], 20), run(envs[1], 20)) == []
    fresh = make_env(ROUGH, num_envs=4, seed=3)
    assert fresh.terrain is not None and envs[2].terrain is not None
    assert np.array_equal(fresh.terrain.heights, envs[2].terrain.heights)
    masses = [[env.physics.batch.get_model(row).body_mass[1] for row in range(4)] for env in (fresh, envs[2])]
    assert masses[0] == masses[1]
