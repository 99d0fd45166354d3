# SPDX-License-Identifier: BSD-3-Clause

"""Which policy a name means, and that it acts as its numbers say."""

from __future__ import annotations

import os
import pathlib
import shutil
import zipfile

import numpy as np
import onnx
import pytest
import torch
from tensordict import TensorDict

from rsl_rl_sac.locomotion.runs import load_actor, load_policy, resolve_run
from rsl_rl_sac.utils.errors import CheckpointError, ConfigError, RslRlSacError

TASK = "Velocity-Flat-Unitree-Go1"
Runs = dict[str, pathlib.Path]


def observations(rows: int = 5) -> np.ndarray:
    """Return random observations of Go1 on flat ground."""
    return np.random.default_rng(0).normal(size=(rows, 48)).astype(np.float32)


def act(policy: object, obs: np.ndarray) -> np.ndarray:
    """Return the actions of a policy."""
    with torch.inference_mode():
        return policy(TensorDict({"policy": torch.from_numpy(obs)}, batch_size=[len(obs)])).numpy()  # type: ignore[operator]


def forward(state: dict[str, torch.Tensor], obs: np.ndarray, activation: object) -> np.ndarray:
    """Evaluate normalization and network of a checkpoint in double precision."""
    values = {name: tensor.double().numpy() for name, tensor in state.items()}
    x = (obs - values["obs_normalizer._mean"]) / (values["obs_normalizer._std"] + 1e-2)
    weights = sorted(name for name in values if name.startswith("mlp.") and name.endswith("weight"))
    for number, name in enumerate(weights):
        x = x @ values[name].T + values[name.replace("weight", "bias")]
        x = activation(x) if number < len(weights) - 1 else x  # type: ignore[operator]
    return x


def test_what_a_name_means(tiny_runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run means its newest checkpoint; a task, or a folder of runs, the run that was trained last."""
    folder, logs = tiny_runs["sac"], tiny_runs["sac"].parents[1]
    assert resolve_run(folder).path == folder / "model_2.pt"
    assert resolve_run(str(folder / "model_0.pt")).path == folder / "model_0.pt"
    for name, time in (("sac", 2e9), ("ppo", 1e9)):
        os.utime(tiny_runs[name] / "model_2.pt", (time, time))
    assert resolve_run(TASK, logs).path == folder / "model_2.pt"
    os.utime(tiny_runs["ppo"] / "model_2.pt", (3e9, 3e9))
    newest = resolve_run(TASK, logs)
    assert newest.path == tiny_runs["ppo"] / "model_2.pt" == resolve_run(folder.parent).path
    assert (newest.kind, newest.task, newest.folder) == ("ppo", TASK, tiny_runs["ppo"])
    monkeypatch.chdir(logs.parent)
    assert resolve_run(TASK).path.resolve() == newest.path.resolve()


def test_sac_by_hand(tiny_runs: Runs) -> None:
    """A checkpoint of SAC acts as b + c tanh(mu), of normalized observations and SiLU layers."""
    state = torch.load(tiny_runs["sac"] / "model_2.pt", weights_only=True)["actor_state_dict"]
    mean = forward(state, observations(), lambda x: x / (1.0 + np.exp(-x)))[:, :12]
    expected = state["distribution.bias"].numpy() + state["distribution.scale"].numpy() * np.tanh(mean)
    actions = act(load_policy(resolve_run(tiny_runs["sac"])), observations())
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(actions, expected, atol=1e-5)


def test_ppo_by_hand(tiny_runs: Runs) -> None:
    """A checkpoint of rsl_rl's PPO acts as the mean of its Gaussian, of normalized observations and ELU layers."""
    state = torch.load(tiny_runs["ppo"] / "model_2.pt", weights_only=True)["actor_state_dict"]
    expected = forward(state, observations(), lambda x: np.where(x > 0.0, x, np.expm1(x)))
    np.testing.assert_allclose(act(load_policy(resolve_run(tiny_runs["ppo"])), observations()), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["policy.onnx", "policy.pt"])
def test_exported_files(tiny_runs: Runs, exported_policy: pathlib.Path, name: str) -> None:
    """Exported files know their task and act as the checkpoint does, for any number of rows."""
    file = resolve_run(exported_policy / name)
    assert file.task == TASK and file.kind == ("onnx" if name.endswith("onnx") else "torchscript")
    policy, actor = load_policy(file), load_actor(resolve_run(tiny_runs["sac"]))
    for rows in (1, 7):
        np.testing.assert_allclose(act(policy, observations(rows)), act(actor, observations(rows)), atol=1e-5)
    with pytest.raises(ConfigError, match=f"is of the task {TASK}, not Velocity-Flat-Unitree-Go2"):
        resolve_run(exported_policy / name, task="Velocity-Flat-Unitree-Go2")


def test_rsl_rl_export(tiny_runs: Runs, tmp_path: pathlib.Path) -> None:
    """A TorchScript file of rsl_rl's own export says nothing of its task, which has to be given."""
    actor = load_actor(resolve_run(tiny_runs["ppo"]))
    torch.jit.script(actor.as_jit()).save(str(tmp_path / "policy.pt"))
    with pytest.raises(ConfigError, match="add --task"):
        resolve_run(tmp_path / "policy.pt")
    policy = load_policy(resolve_run(tmp_path / "policy.pt", task=TASK))
    np.testing.assert_allclose(act(policy, observations()), act(actor, observations()), atol=1e-6)
    with pytest.raises(CheckpointError, match="does not fit Velocity-Flat-Unitree-G1"):
        load_policy(resolve_run(tmp_path / "policy.pt", task="Velocity-Flat-Unitree-G1"))


def _other_task(folder: pathlib.Path) -> None:
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace(TASK, "Velocity-Rough-Unitree-Go1"))


def _other_size(folder: pathlib.Path) -> None:
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("- 8\n  - 6", "- 8\n  - 5"))


def _newer(folder: pathlib.Path) -> None:
    config = folder / "config.yaml"
    config.write_text("version: 99.1.0\n" + "".join(config.read_text().splitlines(keepends=True)[1:]))


def _cut_off(folder: pathlib.Path) -> None:
    (folder / "model_2.pt").write_bytes((folder / "model_2.pt").read_bytes()[:2000])


def _garbage(folder: pathlib.Path) -> None:
    (folder / "config.yaml").write_text("agent: sac\nactor: 3\n")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            _other_task,
            "is of the task Velocity-Flat-Unitree-Go1, the configuration beside it of Velocity-Rough-Unitree-Go1",
        ),
        (_other_size, r"mlp\.2\.weight is \(6, 8\) in the file, expected \(5, 8\)"),
        (_newer, "was written by version 99.1.0 of rsl-rl-sac"),
        (_cut_off, "is damaged or not a checkpoint"),
        (_garbage, "config.yaml"),
        (lambda folder: (folder / "config.yaml").unlink(), "config.yaml' cannot be read"),
        (lambda folder: (folder / "model_2.pt").write_bytes(b""), "is damaged"),
    ],
)
def test_damaged_runs(tiny_runs: Runs, tmp_path: pathlib.Path, damage: object, message: str) -> None:
    """What does not fit together is named, in one line."""
    folder = tmp_path / "run"
    shutil.copytree(tiny_runs["sac"], folder)
    damage(folder)  # type: ignore[operator]
    with pytest.raises(RslRlSacError, match=message) as error:
        load_policy(resolve_run(folder))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("part", ["extra/metadata.json", "/code/", "/data/0"])
def test_flipped_byte(exported_policy: pathlib.Path, tmp_path: pathlib.Path, part: str) -> None:
    """A TorchScript file with one wrong byte, in what it says, in its program or in its weights, is refused."""
    path = tmp_path / "policy.pt"
    shutil.copy(exported_policy / "policy.pt", path)
    with zipfile.ZipFile(path) as archive:
        entry = next(entry for entry in archive.infolist() if part in entry.filename and entry.compress_size > 8)
    content = bytearray(path.read_bytes())
    content[entry.header_offset + 30 + len(entry.filename) + len(_extra(content, entry)) + 8] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(RslRlSacError, match="is damaged or not a checkpoint") as error:
        load_policy(resolve_run(path))
    assert "\n" not in str(error.value)


def _extra(content: bytearray, entry: zipfile.ZipInfo) -> bytes:
    """Return the padding between the name of an entry and its content, whose size is in the entry's header."""
    size = int.from_bytes(content[entry.header_offset + 28 : entry.header_offset + 30], "little")
    return bytes(size)


def test_two_inputs(tmp_path: pathlib.Path) -> None:
    """An ONNX file that is no function of observations alone is refused by the names of its inputs."""
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 48]) for name in ("obs", "state", "y")]
    node = onnx.helper.make_node("Add", ["obs", "state"], ["y"])
    graph = onnx.helper.make_graph([node], "sum", ends[:2], ends[2:])
    model = onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 17)])
    path = tmp_path / "sum.onnx"
    onnx.save(model, path)
    with pytest.raises(RslRlSacError, match="its inputs are obs, state"):
        load_policy(resolve_run(path, task=TASK))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Velocity-Flat-Unitree-Go3", "Did you mean .*Velocity-Flat-Unitree-Go1"),
        ("Velocity-Flat-Anymal-B", "Train one with: rsl-rl-sac train Velocity-Flat-Anymal-B"),
        ("nothing.onnx", "There is no file 'nothing.onnx'"),
        ("bad.onnx", "is damaged or not an ONNX file"),
        ("notes.txt", "neither a checkpoint nor an exported policy"),
        ("empty", "There is no run in 'empty'"),
    ],
)
def test_no_such_run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str) -> None:
    """Names that mean nothing get a hint, in one line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    (tmp_path / "notes.txt").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(RslRlSacError, match=message) as error:
        resolve_run(name)
    assert "\n" not in str(error.value)
