# SPDX-License-Identifier: BSD-3-Clause

"""Policies for deployment: ONNX and TorchScript files that carry what a robot needs to know, checked before written."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import math
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from rsl_rl.models import MLPModel
from tensordict import TensorDict

from rsl_rl_sac.envs.evaluation import Policy
from rsl_rl_sac.locomotion.evaluation import make_evaluation_env
from rsl_rl_sac.locomotion.observations import SCAN_OFFSET, Observations
from rsl_rl_sac.locomotion.registry import load_robot, task_cfg
from rsl_rl_sac.locomotion.robot import Robot
from rsl_rl_sac.locomotion.runs import METADATA_NAME, PolicyFile, load_actor, load_checkpoint, load_policy
from rsl_rl_sac.locomotion.scene import build_spec, compile_model, joint_addresses
from rsl_rl_sac.locomotion.tasks import VelocityTaskCfg
from rsl_rl_sac.locomotion.terrain import scan_points
from rsl_rl_sac.modules import SquashedGaussian
from rsl_rl_sac.utils.checkpoint import write_bytes_atomically
from rsl_rl_sac.utils.errors import ConfigError, ExportError
from rsl_rl_sac.utils.versions import installed_versions

OPSET = 18
"""ONNX operator set, that of rsl_rl's own export."""

TOLERANCE = 1e-4
"""Largest difference between the actions of an exported policy and those of the policy itself."""

OBSERVATION_MEANINGS = {
    "base_lin_vel": "velocity of the base's centre of mass in the base frame, m/s",
    "base_ang_vel": "angular velocity of the base in the base frame, rad/s",
    "projected_gravity": "unit vector of gravity in the base frame; (0, 0, -1) upright",
    "velocity_commands": "commanded velocity forwards and to the left in m/s, turning speed in rad/s",
    "joint_pos": "joint positions minus default_joint_pos, rad",
    "joint_vel": "joint velocities, rad/s",
    "actions": "output of the policy in the step before, zero at the start",
    "height_scan": "height of a body over the ground at the points of height_scan, minus its offset, -1 to 1 m",
}
"""What each term of the observation is. All scales are 1: the policy normalizes by itself."""


@dataclass(frozen=True)
class Exported:
    """An exported policy on the disk."""

    onnx: Path
    """ONNX file."""
    torchscript: Path
    """TorchScript file."""
    scene: Path
    """MuJoCo scene of the robot on a plane."""
    onnx_difference: float
    """Largest difference to the actions of the policy itself."""
    torchscript_difference: float
    """The same of the TorchScript file."""
    num_observations: int
    """Observations that were compared."""


def export_policy(file: PolicyFile, folder: Path, tolerance: float = TOLERANCE) -> Exported:
    """Export a checkpoint, compare the result with the policy on observations of its task, then write it.

    Args:
        file: Checkpoint.
        folder: Folder for ``policy.onnx``, ``policy.pt`` and ``scene.xml``.
        tolerance: Largest difference of actions that is accepted.

    Raises:
        ExportError: If the exported policy does something else; nothing is written then.
        ConfigError: If the folder cannot be written to.
    """
    with _writable(folder):
        actor = load_actor(file)
        metadata = make_metadata(file, actor)
        observations = record_observations(actor, file.task)
        files = {
            "policy.onnx": to_onnx(actor, metadata),
            "policy.pt": to_torchscript(actor, metadata),
            "scene.xml": make_scene(file.task).encode(),
        }
        # Written under other names first: what is compared is what a robot will load.
        differences = []
        for name, kind in (("policy.onnx", "onnx"), ("policy.pt", "torchscript")):
            with _temporary_file(folder / f".{name}.check", files[name]) as path:
                exported = load_policy(PolicyFile(path, kind, file.task))
                differences.append(largest_difference(exported, actor, observations))
            if not differences[-1] <= tolerance:  # a NaN fails this comparison too
                raise ExportError(
                    f"The exported {name} differs from the policy by up to {differences[-1]:.2g} in its actions, more"
                    f" than {tolerance:.2g}: nothing was written. --tolerance sets another limit."
                )
        for name, content in files.items():
            write_bytes_atomically(content, folder / name)
    return Exported(
        onnx=folder / "policy.onnx",
        torchscript=folder / "policy.pt",
        scene=folder / "scene.xml",
        onnx_difference=differences[0],
        torchscript_difference=differences[1],
        num_observations=len(observations),
    )


def make_metadata(file: PolicyFile, actor: MLPModel) -> dict:
    """Return all that a deployment needs to know, as plain values; lists of joints are in the order of the actions."""
    cfg, robot = task_cfg(file.task), _robot(file.task)
    actuators = [robot.actuator_of(name) for name in robot.joint_names]
    lower, upper = robot.soft_limits
    state = load_checkpoint(file)
    iteration, infos = state["iter"], state["infos"]
    assert file.cfg is not None
    env_steps = infos.get("env_steps", (iteration + 1) * file.cfg.num_envs * file.cfg.num_steps_per_env)
    metadata = {
        "format": 1,
        "task": file.task,
        "robot": robot.title,
        "algorithm": file.kind,
        "checkpoint": file.path.name,
        "iterations": iteration + 1,
        "env_steps": env_steps,
        "versions": installed_versions(),
        "control_rate": 1.0 / (cfg.physics.time_step * cfg.physics.decimation),
        "physics_steps_per_control_step": cfg.physics.decimation,
        "joint_names": robot.joint_names,
        "default_joint_pos": robot.default_pos.tolist(),
        "joint_stiffness": [actuator.stiffness for actuator in actuators],
        "joint_damping": [actuator.damping for actuator in actuators],
        "joint_effort_limits": [actuator.effort_limit for actuator in actuators],
        "joint_saturation_efforts": [_finite(actuator.saturation_effort) for actuator in actuators],
        "joint_velocity_limits": [_finite(actuator.velocity_limit) for actuator in actuators],
        "joint_armature": [actuator.armature for actuator in actuators],
        "soft_joint_limits": np.column_stack([lower, upper]).tolist(),
        "action_scale": robot.action_scale,
        "action_bounds": _action_bounds(actor),
        "action_meaning": "joint position target = default_joint_pos + action_scale * action",
        "observations": _observation_terms(cfg, robot),
        "observation_normalization": "inside the policy: feed raw values",
        "base_body": robot.base.name,
        "command_ranges": {name: list(getattr(cfg.commands, name)) for name in ("lin_vel_x", "lin_vel_y", "ang_vel_z")},
    }
    if cfg.terrain is not None:
        points = scan_points().round(3).tolist()
        metadata["height_scan"] = {"body": robot.height_scan_body, "offset": SCAN_OFFSET, "points": points}
    return metadata


def make_scene(task: str) -> str:
    """Return the robot of a task on a plane as MJCF, with its default pose as the key frame ``home``."""
    robot = _robot(task)
    spec = build_spec(robot, None, task_cfg(task).physics)
    model = compile_model(robot, spec)
    qpos = model.qpos0.copy()
    qpos[joint_addresses(robot, model)[0]] = robot.default_pos
    spec.add_key(name="home", qpos=qpos, ctrl=robot.default_pos)
    spec.compile()
    return spec.to_xml()


def to_onnx(actor: MLPModel, metadata: dict) -> bytes:
    """Return a policy as ONNX, input ``obs``, output ``actions``, any number of rows; each metadata value is JSON."""
    module: Any = actor.as_onnx(verbose=False).eval()  # rsl_rl's, with names and dummy inputs
    program: Any = io.BytesIO()  # torch takes files too, though its signature does not say so
    with _quiet_exporter():
        torch.onnx.export(
            module,
            module.get_dummy_inputs(),
            program,
            dynamo=True,
            opset_version=OPSET,
            input_names=module.input_names,
            output_names=module.output_names,
            dynamic_shapes=({0: torch.export.Dim("rows")},),
            external_data=False,
            verbose=False,
        )
    model = onnx.load_from_string(program.getvalue())
    onnx.helper.set_model_props(model, {name: json.dumps(value) for name, value in metadata.items()})
    return model.SerializeToString()


def to_torchscript(actor: MLPModel, metadata: dict) -> bytes:
    """Return a policy as TorchScript; the extra file ``metadata.json`` is one JSON object."""
    program = io.BytesIO()
    module = torch.jit.script(actor.as_jit().eval().requires_grad_(False))
    torch.jit.save(module, program, _extra_files={METADATA_NAME: json.dumps(metadata)})
    return program.getvalue()


def record_observations(policy: Policy, task: str, num_envs: int = 16, num_steps: int = 50) -> torch.Tensor:
    """Return what a policy sees in its task, one row per robot and step."""
    env = make_evaluation_env(task, num_envs)
    obs, _ = env.reset()
    rows = []
    with torch.inference_mode():
        for _ in range(num_steps):
            rows.append(obs["policy"])
            obs, *_ = env.step(policy(obs))
    env.close()
    return torch.cat(rows)


def largest_difference(one: Policy, other: Policy, observations: torch.Tensor) -> float:
    """Return the largest difference between the actions of two policies."""
    obs = TensorDict({"policy": observations}, batch_size=[len(observations)])
    with torch.inference_mode():
        return float((one(obs) - other(obs)).abs().max())


def _robot(task: str) -> Robot:
    return load_robot(task_cfg(task).robot)


def _observation_terms(cfg: VelocityTaskCfg, robot: Robot) -> list[dict]:
    sizes = Observations.sizes(robot, rough=cfg.terrain is not None)
    return [
        {"name": name, "size": size, "scale": 1.0, "meaning": OBSERVATION_MEANINGS[name]}
        for name, size in sizes.items()
    ]


def _action_bounds(actor: MLPModel) -> list[list[float]] | None:
    """Return low and high of each action, which the policy keeps by itself; None for PPO's, which has no bounds."""
    if not isinstance(actor.distribution, SquashedGaussian):
        return None
    return torch.stack([actor.distribution.low, actor.distribution.high], dim=1).tolist()


def _finite(value: float) -> float | None:
    """Return a number that JSON has."""
    return value if math.isfinite(value) else None


@contextlib.contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Make a folder, unless it is there already, and remove it again if what follows fails."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"The folder '{folder}' cannot be made: {error.strerror}.") from error
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"The folder '{folder}' cannot be written to: choose another with --output.")
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):  # not empty: a part was written before the disk was full
            for path in made:
                path.rmdir()
        if isinstance(error, OSError):
            raise ConfigError(f"The folder '{folder}' cannot be written to: {error.strerror}.") from error
        raise


@contextlib.contextmanager
def _temporary_file(path: Path, content: bytes) -> Iterator[Path]:
    write_bytes_atomically(content, path)
    try:
        yield path
    finally:
        path.unlink()


@contextlib.contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Silence torch's exporter, which tells of packages it could use and of its own deprecations."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
