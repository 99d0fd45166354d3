# SPDX-License-Identifier: BSD-3-Clause

"""Exported policies: what they know, that they are checked, and that they run without this package."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
from types import ModuleType

import mujoco
import numpy as np
import onnx
import pytest
import torch

from rsl_rl_sac.locomotion import export
from rsl_rl_sac.locomotion.evaluation import make_evaluation_env
from rsl_rl_sac.locomotion.export import export_policy, make_metadata, make_scene
from rsl_rl_sac.locomotion.runs import load_actor, resolve_run
from rsl_rl_sac.utils.errors import ConfigError, ExportError

ROOT = pathlib.Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy.py"
Runs = dict[str, pathlib.Path]


def read_metadata(path: pathlib.Path) -> dict:
    """Return the metadata of an ONNX file."""
    return {entry.key: json.loads(entry.value) for entry in onnx.load(path).metadata_props}


def load_deploy() -> ModuleType:
    """Return the example as a module."""
    spec = importlib.util.spec_from_file_location("deploy", DEPLOY)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_metadata(exported_policy: pathlib.Path) -> None:
    """Both files hold the numbers of the robot's data file, in the order of the actions."""
    metadata = read_metadata(exported_policy / "policy.onnx")
    extra = {"metadata.json": ""}
    torch.jit.load(exported_policy / "policy.pt", _extra_files=extra)
    assert json.loads(extra["metadata.json"]) == metadata
    robot = json.loads((ROOT / "src/rsl_rl_sac/locomotion/robots/unitree_go1.json").read_text())
    assert metadata["joint_names"] == list(robot["default_pose"])
    assert metadata["default_joint_pos"] == list(robot["default_pose"].values())
    assert metadata["joint_stiffness"] == [25.0] * 12 and metadata["joint_damping"] == [0.5] * 12
    assert metadata["joint_effort_limits"] == [23.7] * 12 and metadata["joint_velocity_limits"] == [30.0] * 12
    assert metadata["action_scale"] == 0.25 and metadata["control_rate"] == pytest.approx(50.0)
    assert [(term["name"], term["size"]) for term in metadata["observations"]] == [
        ("base_lin_vel", 3),
        ("base_ang_vel", 3),
        ("projected_gravity", 3),
        ("velocity_commands", 3),
        ("joint_pos", 12),
        ("joint_vel", 12),
        ("actions", 12),
    ]
    # The soft limits, of 90 % of the range, in units of the action.
    bounds = np.array(metadata["action_bounds"])  # a row of low and high for each joint
    limits = np.array(metadata["soft_joint_limits"])
    targets = np.array(metadata["default_joint_pos"])[:, None] + 0.25 * bounds
    np.testing.assert_allclose(targets, limits, atol=1e-5)
    assert metadata["task"] == "Velocity-Flat-Unitree-Go1" and metadata["checkpoint"] == "model_2.pt"
    assert metadata["iterations"] == 3 and metadata["env_steps"] == 3 * 3 * 4
    assert metadata["versions"]["torch"] == torch.__version__ and "height_scan" not in metadata


def test_ppo(tiny_runs: Runs, tmp_path: pathlib.Path) -> None:
    """A policy of PPO is exported too; it has no bounds of its own."""
    exported = export_policy(resolve_run(tiny_runs["ppo"]), tmp_path)
    assert exported.onnx_difference < 1e-5 and exported.num_observations == 800
    assert read_metadata(tmp_path / "policy.onnx")["action_bounds"] is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["policy.onnx", "policy.pt", "scene.xml"]


def test_wrong_export_is_refused(
    tiny_runs: Runs, exported_policy: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the exported policy acts otherwise, nothing is written."""
    ppo = load_actor(resolve_run(tiny_runs["ppo"]))
    wrong = export.to_torchscript(ppo, {})
    right = (exported_policy / "policy.onnx").read_bytes()
    monkeypatch.setattr(export, "to_onnx", lambda *_: right)
    monkeypatch.setattr(export, "to_torchscript", lambda *_: wrong)
    with pytest.raises(ExportError, match=r"policy\.pt differs from the policy by up to"):
        export_policy(resolve_run(tiny_runs["sac"]), tmp_path / "robot" / "export")
    assert list(tmp_path.iterdir()) == []


def test_target_is_a_file(tiny_runs: Runs, tmp_path: pathlib.Path) -> None:
    """A folder that cannot be made is named."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be made: Not a directory"):
        export_policy(resolve_run(tiny_runs["sac"]), tmp_path / "file" / "export")


@pytest.mark.parametrize("task", ["Velocity-Flat-Unitree-Go1", "Velocity-Rough-Unitree-H1"])
def test_example_observes_as_the_environment(tiny_runs: Runs, task: str) -> None:
    """In the same state, the example's observation is the environment's; height scans are those of flat ground.

    Nothing but the state is up to date, as after a step of the physics.
    """
    deploy = load_deploy()
    flat = task.replace("Rough", "Flat")
    env = make_evaluation_env(flat, 3, 1)
    generator = torch.Generator().manual_seed(0)
    obs = env.get_observations()
    for _ in range(12):
        obs, *_ = env.step(torch.randn(3, env.num_actions, generator=generator))
    metadata = make_metadata(resolve_run(tiny_runs["sac"]), load_actor(resolve_run(tiny_runs["sac"])))
    robot = env.robot
    metadata |= {"joint_names": robot.joint_names, "default_joint_pos": robot.default_pos.tolist()}
    metadata |= {"base_body": robot.base.name}
    if "Rough" in task:
        metadata["observations"].append({"name": "height_scan", "scale": 1.0})
        metadata["height_scan"] = {"body": robot.height_scan_body, "offset": 0.5, "points": [[0.0, 0.0]] * 187}
    model = mujoco.MjModel.from_xml_string(make_scene(task))
    data = mujoco.MjData(model)
    for row in range(3):
        data.qpos, data.qvel = env.physics.qpos[row], env.physics.qvel[row]
        command, action = env.commands.velocity[row], env._action[row]
        observed = deploy.observe(model, data, metadata, command, action)
        size = obs["policy"].shape[1]
        np.testing.assert_allclose(observed[:size], obs["policy"][row].numpy(), atol=2e-5)
        if "Rough" in task:
            height = env.state.scan_frame()[0][row, 2] - 0.5
            np.testing.assert_allclose(observed[size:], np.full(187, np.clip(height, -1.0, 1.0)), atol=1e-5)


RUN_ALONE = """
import runpy, sys
sys.argv = ["deploy.py", *sys.argv[1:]]
runpy.run_path(sys.argv.pop(1), run_name="__main__")
assert not {"torch", "rsl_rl", "rsl_rl_sac"} & set(sys.modules), "the example must run without them"
"""


def test_example_is_in_the_documentation() -> None:
    """docs/deploy.md shows the whole program, which fits a screen or two."""
    program = DEPLOY.read_text()
    assert f"```python\n{program}```\n" in (ROOT / "docs" / "deploy.md").read_text()
    assert len(program.splitlines()) <= 60


def test_example_runs_alone(exported_policy: pathlib.Path) -> None:
    """The example runs the exported policy without torch, and the robot, which has hardly learned, stays up."""
    command = [sys.executable, "-c", RUN_ALONE, str(DEPLOY), str(exported_policy / "policy.onnx"), "--seconds", "4"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    found = re.fullmatch(
        r"Velocity-Flat-Unitree-Go1: after 4.0 s .* height ([\d.]+) m, tilt (\d+) deg\n", result.stdout
    )
    assert found is not None, result.stdout
    assert 0.2 < float(found[1]) < 0.45 and float(found[2]) < 15


def test_scene_is_the_model_of_the_task() -> None:
    """The scene has the environment's masses, drives and time step; its key frame is the default pose."""
    env = make_evaluation_env("Velocity-Flat-Unitree-Go1", 1, 1)
    model, own = mujoco.MjModel.from_xml_string(make_scene("Velocity-Flat-Unitree-Go1")), env.physics.model
    np.testing.assert_allclose(model.body_mass, own.body_mass, rtol=1e-5)
    np.testing.assert_allclose(model.actuator_gainprm, own.actuator_gainprm, rtol=1e-5)
    assert model.opt.timestep == own.opt.timestep and model.opt.integrator == own.opt.integrator
    positions = [model.key("home").qpos[model.joint(name).qposadr[0]] for name in env.robot.joint_names]
    np.testing.assert_allclose(positions, env.robot.default_pos)
