# SPDX-License-Identifier: BSD-3-Clause

"""Which policy a user means, and how to load it: checkpoints of SAC and PPO, ONNX and TorchScript files."""

from __future__ import annotations

import difflib
import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from google.protobuf.message import DecodeError
from rsl_rl.env import VecEnv
from rsl_rl.models import MLPModel
from rsl_rl.utils import resolve_callable
from tensordict import TensorDict

from rsl_rl_sac.algorithms.construction import build_actor
from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.envs.evaluation import Policy
from rsl_rl_sac.envs.worlds import find_world
from rsl_rl_sac.locomotion.observations import Observations
from rsl_rl_sac.locomotion.registry import load_robot, nearest_tasks, task_cfg, task_names
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.utils.checkpoint import check_archive, find_checkpoints, load_safely, newest_run
from rsl_rl_sac.utils.config_file import load_config
from rsl_rl_sac.utils.errors import CheckpointError, ConfigError, MissingDependencyError

CONFIG_NAME = "config.yaml"
"""Configuration in the folder of a run."""

_FILE_ACCESS = re.compile(rb"\b(from_file|save|load)\(")
"""Calls of torch's operations on files, in the source that a TorchScript file holds."""

METADATA_NAME = "metadata.json"
"""Name of the metadata inside a TorchScript file."""


@dataclass(frozen=True)
class PolicyFile:
    """A policy on the disk."""

    path: Path
    """Checkpoint, ONNX or TorchScript file."""
    kind: str
    """``sac`` or ``ppo`` for checkpoints, ``onnx`` or ``torchscript``."""
    task: str
    """Task it was trained on."""
    cfg: RunnerCfg | PPORunnerCfg | None = None
    """Configuration of the training; None for exported files."""

    @property
    def folder(self) -> Path:
        """Folder of the run, or of the file."""
        return self.path.parent

    @property
    def title(self) -> str:
        """One line for people."""
        names = {"sac": "SAC", "ppo": "PPO", "onnx": "ONNX", "torchscript": "TorchScript"}
        return f"{self.task}, {names[self.kind]}, {self.path}"


def resolve_run(name: str | Path, logs: Path | str = "logs", task: str | None = None) -> PolicyFile:
    """Find the policy that a user means.

    Args:
        name: Folder of a run (its newest checkpoint), checkpoint, ONNX or TorchScript file; or a task or a folder of
            runs, which mean the newest run there.
        logs: Folder of all runs, in which a task's runs are looked for.
        task: Task of files that do not say theirs.

    Raises:
        ConfigError: If there is no such run, or if it is of another task.
        CheckpointError: If the file is damaged.
    """
    if not str(name):
        raise ConfigError("Name a run: its folder, a checkpoint, an exported file, or a task.")
    path = Path(name)
    if not path.exists():
        if str(name) not in task_names() and ":" not in str(name):  # other worlds have a prefix
            raise ConfigError(_not_found(str(name), Path(logs)))
        folder = Path(logs) / str(name).replace(":", "-")
        if newest_run(folder) is None:
            find_world(str(name))  # there may be no such task at all
        path = find_checkpoints(_newest_run(folder, str(name)))[-1]
    elif path.is_dir():
        path = find_checkpoints(_newest_run(path, str(name)))[-1]
    found = _describe(path, task)
    if task is not None and found.task != task:
        raise ConfigError(f"'{found.path}' is of the task {found.task}, not {task}.")
    find_world(found.task)  # a task that this version, or this process, does not know
    return found


def load_policy(file: PolicyFile, env: VecEnv | None = None) -> Policy:
    """Return a deterministic policy as a function of observations, normalization included.

    Args:
        file: Policy.
        env: Environments of its task, which tell the sizes in other worlds; the suite knows its own.

    Raises:
        CheckpointError: If the file is damaged, or does not have the size of its task.
    """
    if file.kind == "onnx":
        return _load_onnx(file)
    if file.kind == "torchscript":
        return _load_torchscript(file)
    return load_actor(file, env)


def load_actor(file: PolicyFile, env: VecEnv | None = None) -> MLPModel:
    """Return the policy network of a checkpoint, without anything else of its algorithm.

    Args:
        file: Checkpoint.
        env: As for :func:`load_policy`.

    Raises:
        CheckpointError: If the file is damaged, or does not have the size of its task.
    """
    if file.cfg is None:
        raise ConfigError(f"'{file.path}' is an exported policy: name the run it is from.")
    content = load_checkpoint(file)
    average = content.get("average_state_dict")  # of a run that averages its actor: what it is scored by
    state = (content if average is None else average)["actor_state_dict"]
    actor = _build_actor(file.task, file.cfg, env)
    expected = {name: tuple(tensor.shape) for name, tensor in actor.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in state.items()}
    for name in [*expected, *found]:
        here, there = (shapes.get(name, "absent") for shapes in (expected, found))
        if here != there:
            raise CheckpointError(
                f"'{file.path}' does not fit {file.task} and the configuration beside it: {name} is {there} in the"
                f" file, expected {here}. Is it of another run?"
            )
    actor.load_state_dict(state)
    return actor.eval().to(env.device if env is not None else "cpu")


def load_checkpoint(file: PolicyFile) -> dict:
    """Return the content of a checkpoint: the policy in ``actor_state_dict``, ``iter``, and ``infos``.

    Raises:
        CheckpointError: If it is damaged, or of another task than the configuration beside it.
    """
    state = load_safely(file.path, "cpu")
    iteration, infos, average = state.get("iter", -1), state.get("infos") or {}, state.get("average_state_dict")
    is_sound = _is_policy(state.get("actor_state_dict")) and type(iteration) is int and isinstance(infos, dict)
    if average is not None:
        is_sound &= isinstance(average, dict) and _is_policy(average.get("actor_state_dict"))
    counts = [state.get("counters", {}), infos if isinstance(infos, dict) else {}]
    if not (is_sound and all(_are_counts(values) for values in counts)):
        raise CheckpointError(f"'{file.path}' is not a checkpoint of a training: it holds no policy.")
    # Robots of the same size cannot be told apart by the network.
    task = infos.get("task", file.task)
    if task != file.task:
        raise CheckpointError(f"'{file.path}' is of the task {task}, the configuration beside it of {file.task}.")
    return {**state, "iter": iteration, "infos": infos}


def _is_policy(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(tensor, torch.Tensor) for tensor in value.values())


def _are_counts(values: object) -> bool:
    """Return whether what the values say of a training's length are numbers."""
    names = ("num_updates", "env_steps", "updates", "seconds", "cpu_seconds")
    return isinstance(values, dict) and all(isinstance(values.get(name, 0), int | float) for name in names)


def file_metadata(file: PolicyFile) -> dict:
    """Return what an exported file says of itself; nothing if it is not from ``rsl-rl-sac export``."""
    if file.kind == "onnx":
        return _onnx_metadata(file.path)
    return _torchscript_metadata(file.path) if file.kind == "torchscript" else {}


def check_suite(task: str) -> None:
    """Raise an error if a task is one of another world, whose robots are not known here."""
    if ":" in task:
        raise ConfigError(f"Only policies of the locomotion suite can be loaded here, this is one of {task}.")


def policy_sizes(task: str) -> tuple[int, int]:
    """Return how many observations and actions a task of the suite has."""
    check_suite(task)
    cfg = task_cfg(task)
    robot = load_robot(cfg.robot)
    return sum(Observations.sizes(robot, rough=cfg.terrain is not None).values()), len(robot.joint_names)


def _not_found(name: str, logs: Path) -> str:
    if name.endswith((".pt", ".onnx")):
        return f"There is no file '{name}'."
    runs = [str(config.parent) for config in logs.glob(f"*/*/{CONFIG_NAME}")]
    near = nearest_tasks(name) or difflib.get_close_matches(name, runs, n=3, cutoff=0.4)
    hint = f" Did you mean {', '.join(near)}?" if near else " rsl-rl-sac list shows the tasks."
    return f"There is no run, file or task '{name}'.{hint}"


def _newest_run(folder: Path, name: str) -> Path:
    """Return the folder of the newest run in a folder, which may be one itself."""
    run = newest_run(folder)
    if run is None:
        train = f" Train one with: rsl-rl-sac train {name}" if name in task_names() else ""
        raise ConfigError(f"There is no run in '{folder}': no checkpoint model_<iteration>.pt.{train}")
    return run


def _describe(path: Path, task: str | None) -> PolicyFile:
    if path.suffix == ".onnx":
        return PolicyFile(path, "onnx", _task_of(path, _onnx_metadata(path), task))
    if path.suffix != ".pt":
        raise ConfigError(f"'{path}' is neither a checkpoint nor an exported policy (.pt or .onnx).")
    if _is_torchscript(path):
        return PolicyFile(path, "torchscript", _task_of(path, _torchscript_metadata(path), task))
    trained_task, cfg = load_config(path.parent / CONFIG_NAME)
    return PolicyFile(path, "sac" if isinstance(cfg, RunnerCfg) else "ppo", trained_task, cfg)


def _task_of(path: Path, metadata: dict, task: str | None) -> str:
    if "task" in metadata:
        return metadata["task"]
    if task is None:
        raise ConfigError(f"'{path}' does not say which task it is for: add --task.")
    return task


def _build_actor(task: str, cfg: RunnerCfg | PPORunnerCfg, env: VecEnv | None) -> MLPModel:
    if env is None:
        num_observations, num_actions = policy_sizes(task)
        obs = TensorDict({"policy": torch.zeros(1, num_observations)}, batch_size=[1])
    else:
        obs, num_actions = env.get_observations()[:1].to("cpu"), env.num_actions
    section = cfg.to_dict()["actor"]
    if isinstance(cfg, RunnerCfg):  # the true bounds are in the checkpoint
        low, high = torch.full((num_actions,), -1.0), torch.full((num_actions,), 1.0)
        return build_actor(section, obs, cfg.obs_groups, num_actions, low, high)
    actor_class = resolve_callable(section.pop("class_name"))
    return actor_class(obs, cfg.obs_groups, "actor", num_actions, **section)  # type: ignore[return-value]


def _is_torchscript(path: Path) -> bool:
    """Return whether a file is TorchScript, which holds constants beside data, as checkpoints do not."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"'{path}' is damaged or not a checkpoint ({error}).") from error


def _torchscript_metadata(path: Path) -> dict:
    check_archive(path)
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(f"/extra/{METADATA_NAME}")]
        return json.loads(archive.read(names[0])) if names else {}


def _onnx_metadata(path: Path) -> dict:
    try:
        model = onnx.load(path, load_external_data=False)
    except (OSError, DecodeError) as error:
        raise CheckpointError(f"'{path}' is damaged or not an ONNX file ({error}).") from error
    try:
        return {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    except ValueError:  # of another program, which says other things in other ways
        return {}


def _refuse_file_access(path: Path) -> None:
    """Refuse TorchScript that reads or writes files: it has no other way out of torch, and a policy needs none."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if "/code/" in name and name.endswith(".py") and _FILE_ACCESS.search(archive.read(name)):
                raise CheckpointError(f"'{path}' was refused: it is a program that reads or writes files.")


def _load_torchscript(file: PolicyFile) -> Policy:
    check_archive(file.path)
    _refuse_file_access(file.path)  # before loading, which may run parts of it
    try:
        module = torch.jit.load(file.path, map_location="cpu").eval()
    except RuntimeError as error:
        raise CheckpointError(f"'{file.path}' is damaged: {str(error).splitlines()[0]}") from error
    for parameter in module.parameters():  # TorchScript would prepare for gradients, and refuse inference tensors
        parameter.requires_grad = False

    def act(obs: TensorDict) -> torch.Tensor:
        return module(obs["policy"])

    return _checked(act, file)


def _load_onnx(file: PolicyFile) -> Policy:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependencyError("ONNX files need onnxruntime: pip install onnxruntime.") from error
    try:
        session = onnxruntime.InferenceSession(str(file.path), providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common class of their own
        raise CheckpointError(f"'{file.path}' cannot be run: {str(error).splitlines()[0]}") from error
    inputs = session.get_inputs()
    if len(inputs) != 1:
        names = ", ".join(node.name for node in inputs)
        raise CheckpointError(f"'{file.path}' is not a policy of observations alone: its inputs are {names}.")
    (node,) = inputs
    takes_one_row = node.shape[0] == 1  # as rsl_rl exports it

    def act(obs: TensorDict) -> torch.Tensor:
        rows = obs["policy"].numpy()
        batches = np.split(rows, len(rows)) if takes_one_row else [rows]
        actions = [np.asarray(session.run(None, {node.name: batch})[0]) for batch in batches]
        return torch.from_numpy(np.concatenate(actions))

    return _checked(act, file)


def _checked(act: Policy, file: PolicyFile) -> Policy:
    """Try an exported policy once, with the sizes of its task, for more than one environment."""
    num_observations, num_actions = policy_sizes(file.task)
    try:
        actions = act(TensorDict({"policy": torch.zeros(2, num_observations)}, batch_size=[2]))
    except Exception as error:  # of whichever runtime
        reason = str(error).strip().splitlines()[-1]
        raise CheckpointError(f"'{file.path}' does not fit {file.task}: {reason}") from error
    if tuple(actions.shape) != (2, num_actions):
        raise CheckpointError(f"'{file.path}' does not fit {file.task}: it has {actions.shape[-1]} actions.")
    return act
