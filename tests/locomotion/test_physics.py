# SPDX-License-Identifier: BSD-3-Clause

"""The batch of simulations against plain loops over MuJoCo's own step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import mujoco
import numpy as np
import pytest
from mujoco.batch import SimulationError

from rsl_rl_sac.locomotion.physics import Physics
from rsl_rl_sac.locomotion.registry import load_robot, make_env
from rsl_rl_sac.locomotion.scene import build_spec, compile_model, joint_addresses
from rsl_rl_sac.utils.errors import ConfigError

NUM_ENVS = 4
NUM_STEPS = 20
DECIMATION = 4
START_HEIGHT = {"anymal_b": 0.50, "anymal_d": 0.59, "unitree_a1": 0.31, "unitree_go2": 0.33}
START_HEIGHT |= {"unitree_h1": 0.98, "unitree_g1": 0.725}
FIELDS = ("qpos", "qvel", "previous_qvel", "sensordata")


def compiled(name: str) -> mujoco.MjModel:
    """Return the model of a robot on a plane."""
    robot = load_robot(name)
    return compile_model(robot, build_spec(robot))


def start_states(name: str, model: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray]:
    """Return states a few millimetres over the ground, each with another velocity."""
    robot = load_robot(name)
    qpos = np.tile(model.qpos0, (NUM_ENVS, 1))
    qpos[:, joint_addresses(robot, model)[0]] = robot.default_pos
    qpos[:, 2] = START_HEIGHT[name]
    qvel = np.random.default_rng(1).uniform(-0.5, 0.5, (NUM_ENVS, model.nv))
    return qpos, qvel


def targets(name: str) -> Iterator[np.ndarray]:
    """Yield position targets, step by step."""
    robot, rng = load_robot(name), np.random.default_rng(2)
    for _ in range(NUM_STEPS):
        yield robot.default_pos + rng.uniform(-0.3, 0.3, (NUM_ENVS, len(robot.joint_names)))


def make(name: str, model: mujoco.MjModel | None = None, num_threads: int = 1) -> Physics:
    """Return simulations at the start states."""
    model = model or compiled(name)
    physics = Physics(model, NUM_ENVS, DECIMATION, num_threads)
    physics.reset(np.arange(NUM_ENVS), *start_states(name, model))
    return physics


def run(physics: Physics, name: str, disturb: Callable[[int], None] | None = None) -> dict[str, np.ndarray]:
    """Run all control steps, each after a disturbance; return what was there to see after each."""
    seen: dict[str, list[np.ndarray]] = {field: [] for field in (*FIELDS, "failed")}
    for step, target in enumerate(targets(name)):
        if disturb is not None:
            disturb(step)
        seen["failed"].append(physics.step(target))
        for field in FIELDS:
            seen[field].append(getattr(physics, field).copy())
    return {field: np.stack(values) for field, values in seen.items()}


def run_plainly(models: list[mujoco.MjModel], name: str) -> dict[str, np.ndarray]:
    """Do the same with one MjData for each simulation."""
    simulations = [mujoco.MjData(model) for model in models]
    for data, qpos, qvel in zip(simulations, *start_states(name, models[0]), strict=True):
        data.qpos, data.qvel = qpos, qvel
    seen: dict[str, list[np.ndarray]] = {field: [] for field in FIELDS}
    for target in targets(name):
        sensors = np.zeros((NUM_ENVS, DECIMATION, models[0].nsensordata))
        previous = np.zeros((NUM_ENVS, models[0].nv))
        for i, (model, data) in enumerate(zip(models, simulations, strict=True)):
            data.ctrl[: target.shape[1]] = target[i]
            for step in range(DECIMATION):
                previous[i] = data.qvel
                mujoco.mj_step(model, data)
                sensors[i, step] = data.sensordata
        seen["qpos"].append(np.stack([data.qpos for data in simulations]))
        seen["qvel"].append(np.stack([data.qvel for data in simulations]))
        seen["previous_qvel"].append(previous)
        seen["sensordata"].append(sensors)
    return {field: np.stack(values) for field, values in seen.items()}


@pytest.mark.parametrize("name", ["unitree_go2", "anymal_d", "unitree_h1", "unitree_g1"])
def test_same_as_plain_steps(name: str) -> None:
    """Control steps are physics steps one after the other, warm start included, bit for bit."""
    model = compiled(name)
    found, expected = run(make(name, model), name), run_plainly([model] * NUM_ENVS, name)
    assert not found["failed"].any()
    for field, values in expected.items():
        assert np.array_equal(found[field], values), field
    assert np.ptp(found["qpos"][-1], axis=0).max() > 0.01  # the simulations differ
    contact_force = found["sensordata"][:, :, :, len(load_robot(name).joint_names) :]
    assert np.all(np.abs(contact_force).max(axis=(0, 2, 3)) > 10.0)  # and touch the ground


def test_warm_start_matters() -> None:
    """Without the solver's warm start the result is another: the equality above says that it is kept."""
    name = "unitree_go2"
    physics = make(name)
    cold = run(physics, name, lambda step: physics.batch.bind("qacc_warmstart").fill(0.0))
    assert not np.array_equal(cold["qpos"], run(make(name), name)["qpos"])


def test_threads() -> None:
    """One and two threads give the same trajectories."""
    one, two = (run(make("unitree_a1", num_threads=threads), "unitree_a1") for threads in (1, 2))
    for field in one:
        assert np.array_equal(one[field], two[field]), field


def test_reset_forgets() -> None:
    """A simulation that is reset behaves as a new one; the others do not notice."""
    name = "unitree_go2"
    physics, fresh = make(name), make(name)
    for target in targets(name):
        physics.step(target)
    before = physics.qpos[[0, 2]].copy()
    rows = np.array([1, 3])
    qpos, qvel = start_states(name, physics.model)
    physics.reset(rows, qpos[rows], qvel[rows])
    assert np.array_equal(physics.qpos[[0, 2]], before)
    for field in ("time", "qacc_warmstart", "ctrl"):
        values = physics.batch.bind(field)
        assert not values[rows].any() and values[[0, 2]].any(), field
    expected, found = run(fresh, name), run(physics, name)
    for field in FIELDS:
        assert np.array_equal(found[field][:, rows], expected[field][:, rows]), field
        assert not np.array_equal(found[field][:, [0, 2]], expected[field][:, [0, 2]]), field


def test_base_inertia() -> None:
    """Simulations with masses of their own move as models that were compiled with them."""
    name = "anymal_b"
    robot = load_robot(name)
    ratios = np.array([0.7, 1.0, 1.1, 1.3])
    shifts = np.array([[0.05, 0.0, 0.0], [0.0, 0.0, 0.0], [-0.03, 0.04, 0.01], [0.0, -0.05, -0.01]])
    models = []
    for ratio, shift in zip(ratios, shifts, strict=True):
        spec = build_spec(robot)
        base = spec.body(robot.base.name)
        base.mass = ratio * robot.base.mass
        base.ipos = np.array(robot.base.com) + shift
        base.fullinertia = ratio * np.array(robot.base.inertia)
        models.append(compile_model(robot, spec))
    model = compiled(name)
    physics = make(name, model)
    inertia = ratios[:, None] * model.body_inertia[1]
    physics.set_base_inertia(ratios * robot.base.mass, np.array(robot.base.com) + shifts, inertia)
    found, expected = run(physics, name), run_plainly(models, name)
    for field in ("qpos", "qvel"):
        assert found[field] == pytest.approx(expected[field], abs=1e-7), field
    nominal = run(make(name, model), name)["qpos"]
    different = np.abs(found["qpos"] - nominal).max(axis=(0, 2))
    assert different[1] < 1e-7 and min(different[[0, 2, 3]]) > 1e-3


def run_with_fault(field: str, value: float) -> dict[str, np.ndarray]:
    """Break environment 2 before the third control step."""
    physics = make("unitree_go2")

    def disturb(step: int) -> None:
        if step == 2:
            physics.batch.bind(field)[2] = value

    return run(physics, "unitree_go2", disturb)


@pytest.mark.parametrize(("field", "value"), [("qpos", np.nan), ("qvel", np.nan), ("qfrc_applied", 1e15)])
def test_divergence_is_reported(field: str, value: float) -> None:
    """A simulation that diverges is reported, its sensors are zero, and no other is touched."""
    found, sound = run_with_fault(field, value), run(make("unitree_go2"), "unitree_go2")
    others = [0, 1, 3]
    assert found["failed"][2].tolist() == [False, False, True, False]
    assert not found["failed"][:2].any() and not found["failed"][:, others].any()
    assert not found["sensordata"][2, 2].any()
    for name in FIELDS:
        assert np.array_equal(found[name][:, others], sound[name][:, others]), name


def test_divergence_is_undone() -> None:
    """A simulation that diverges is put back to where it was before the step, and goes on from there."""
    found = run_with_fault("qfrc_applied", 1e15)
    for field in ("qpos", "qvel"):
        assert np.array_equal(found[field][2, 2], found[field][1, 2])
        assert not np.array_equal(found[field][3, 2], found[field][2, 2])
    assert np.array_equal(found["previous_qvel"][2, 2], found["qvel"][2, 2])
    assert not found["failed"][3:].any()
    for field in FIELDS:
        assert np.isfinite(found[field]).all(), field


@pytest.mark.parametrize("field", ["qpos", "qvel"])
def test_broken_state_is_mended(field: str) -> None:
    """A state that is NaN before the step is finite after it, as is all that is computed from it."""
    found = run_with_fault(field, np.nan)
    for name in FIELDS:
        assert np.isfinite(found[name]).all(), name
    assert not found["failed"][3:].any()


def test_error_of_one_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that MuJoCo raises in one simulation is a failure of that simulation alone."""
    name = "unitree_go2"
    physics, sound = make(name), make(name)
    target = next(targets(name))
    rollout = physics.batch.rollout

    def failing_rollout(nstep: int, record: list, out: dict) -> None:
        rollout(nstep, record=record, out=out)
        raise SimulationError(np.array([1]), "stack overflow")

    monkeypatch.setattr(physics.batch, "rollout", failing_rollout)
    before = physics.qpos[1].copy()
    assert physics.step(target).tolist() == [False, True, False, False]
    assert not sound.step(target).any()
    assert np.array_equal(physics.qpos[1], before)
    assert not physics.sensordata[1].any()
    assert np.array_equal(physics.qpos[[0, 2, 3]], sound.qpos[[0, 2, 3]])


def test_runaway_is_a_failure() -> None:
    """A state that is finite but beyond all measure is a failure too."""
    physics = make("unitree_go2")
    physics.qvel[3, 0] = 2e3
    assert physics.step(next(targets("unitree_go2"))).tolist() == [False, False, False, True]


@pytest.mark.parametrize("decimation", [0, 1])
def test_short_control_step(decimation: int) -> None:
    """Joint accelerations are the difference of two physics steps, so a control step has at least two."""
    with pytest.raises(ConfigError, match=f"at least 2 physics steps, got {decimation}"):
        Physics(compiled("unitree_go2"), NUM_ENVS, decimation)
    assert Physics(compiled("unitree_go2"), NUM_ENVS, 2).sensordata.shape[:2] == (NUM_ENVS, 2)


def test_warning_of_mujoco_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that MuJoCo refuses leaves the state sound, but the simulation has stopped in mid-step."""
    monkeypatch.chdir(tmp_path)  # where MuJoCo would write its warnings
    env = make_env("Velocity-Flat-Unitree-Go2", 3)
    targets = np.tile(env.robot.default_pos, (3, 1))
    assert not env.physics.step(targets).any()
    targets[1, 0] = 1e11
    assert env.physics.step(targets).tolist() == [False, True, False]
    assert np.abs(env.physics.qvel).max() < 100.0
    assert not list(tmp_path.iterdir())
