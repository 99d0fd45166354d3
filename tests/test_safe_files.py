# SPDX-License-Identifier: BSD-3-Clause

"""Files that try to run a command when they are loaded: every kind that this package reads (SECURITY.md)."""

from __future__ import annotations

import os
import pathlib
import pickle
import shutil
import zipfile

import onnx
import pytest
import torch

from rsl_rl_sac.cli import main
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.locomotion.runs import PolicyFile, file_metadata, load_policy
from rsl_rl_sac.runners import OffPolicyRunner
from rsl_rl_sac.runners.dump import load_dump
from rsl_rl_sac.utils import CheckpointError, ConfigError
from rsl_rl_sac.utils.checkpoint import find_checkpoints, find_replays
from rsl_rl_sac.utils.config_file import load_config
from tests.helpers import small_cfg

TASK = "Velocity-Flat-Unitree-Go1"


class Malicious:
    """Runs a command when it is unpickled without care."""

    def __init__(self, proof: pathlib.Path) -> None:
        """Initialize with the file that the command makes."""
        self.proof = proof

    def __reduce__(self) -> tuple:
        """Return the command."""
        return os.system, (f"touch {self.proof}",)


@pytest.fixture
def proof(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return the file whose existence proves that the command ran."""
    return tmp_path / "proof"


def make_runner(folder: pathlib.Path | None) -> OffPolicyRunner:
    """Build a runner without a log."""
    env = DoubleIntegrator(16)
    runner = OffPolicyRunner(env, small_cfg(save_replay=True).to_dict(), str(folder) if folder else None)
    runner.logger.writer = None
    runner.logger.init_logging_writer = lambda: None  # type: ignore[method-assign]
    return runner


def test_the_command_works(proof: pathlib.Path) -> None:
    """Loaded without care, the file does what the other tests say does not happen."""
    pickle.loads(pickle.dumps(Malicious(proof)))
    assert proof.exists()


@pytest.mark.parametrize("part", ["checkpoint", "replay"])
def test_checkpoint_and_replay(tmp_path: pathlib.Path, proof: pathlib.Path, part: str) -> None:
    """Both files of a save are refused, and nothing was changed by the attempt."""
    runner = make_runner(tmp_path)
    runner.learn(1)
    path = tmp_path / "model_0.pt"
    (replay,) = find_replays(path)
    file = path if part == "checkpoint" else replay
    torch.save({**torch.load(file, weights_only=True), "extra": Malicious(proof)}, file)
    fresh = make_runner(None)
    with pytest.raises(CheckpointError, match="could run code"):
        fresh.load(str(path))
    assert not proof.exists() and fresh.next_iteration == 0


def test_checkpoint_of_ppo(
    tiny_runs: dict[str, pathlib.Path], tmp_path: pathlib.Path, proof: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Going on with a run of PPO, whose own runner would unpickle anything, is refused in one line."""
    run = tmp_path / "run"
    shutil.copytree(tiny_runs["ppo"], run)
    newest = find_checkpoints(run)[-1]
    torch.save({**torch.load(newest, weights_only=True), "extra": Malicious(proof)}, newest)
    with pytest.raises(SystemExit) as refused:
        main(["train", "--resume", str(run)])
    assert refused.value.code == 2 and "could run code" in capsys.readouterr().err
    assert not proof.exists()


def test_dump(tmp_path: pathlib.Path, proof: pathlib.Path) -> None:
    """A dump of vector steps is read as carefully as a checkpoint."""
    path = tmp_path / "dump_3.pt"
    torch.save({"kind": "vector steps", "reason": Malicious(proof)}, path)
    with pytest.raises(CheckpointError, match="could run code"):
        load_dump(path)
    assert not proof.exists()


@pytest.mark.parametrize("tag", ["object/apply:os.system", "object/new:os.system", "name:os.system"])
def test_config(tmp_path: pathlib.Path, proof: pathlib.Path, tag: str) -> None:
    """YAML's tags that make Python objects are an error of one line."""
    path = tmp_path / "config.yaml"
    path.write_text(f"agent: sac\ntask: !!python/{tag} ['touch {proof}']\n")
    with pytest.raises(ConfigError, match="cannot be read as a configuration") as error:
        load_config(path)
    assert not proof.exists() and "\n" not in str(error.value)


def test_onnx(tmp_path: pathlib.Path, proof: pathlib.Path) -> None:
    """An operator that onnxruntime does not have is refused, and metadata is never evaluated."""
    value = onnx.helper.make_tensor_value_info("obs", onnx.TensorProto.FLOAT, [1, 48])
    result = onnx.helper.make_tensor_value_info("actions", onnx.TensorProto.FLOAT, [1, 12])
    node = onnx.helper.make_node("System", ["obs"], ["actions"], domain="python", command=f"touch {proof}")
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("python", 1)]
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "policy", [value], [result]), opset_imports=opsets, ir_version=8
    )
    entry = model.metadata_props.add()
    entry.key, entry.value = "task", f"__import__('os').system('touch {proof}')"
    path = tmp_path / "policy.onnx"
    path.write_bytes(model.SerializeToString())
    file = PolicyFile(path, "onnx", TASK)
    assert file_metadata(file) == {}
    with pytest.raises(CheckpointError, match="cannot be run"):
        load_policy(file)
    assert not proof.exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript(tmp_path: pathlib.Path, proof: pathlib.Path) -> None:
    """A pickle with a command inside the archive is refused: torch reads it with a reader that calls nothing."""
    good, path = tmp_path / "good.pt", tmp_path / "policy.pt"
    torch.jit.script(torch.nn.Linear(48, 12)).save(good)
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            is_data = name.endswith("/data.pkl")
            target.writestr(name, pickle.dumps(Malicious(proof), protocol=2) if is_data else source.read(name))
    with pytest.raises(CheckpointError, match="damaged"):
        load_policy(PolicyFile(path, "torchscript", TASK))
    assert not proof.exists()


class Writer(torch.nn.Module):
    """Writes a file by an operation of torch."""

    def __init__(self, path: str) -> None:
        """Initialize with the file."""
        super().__init__()
        self.path = path

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Write, then act."""
        return obs[:, :12] + torch.from_file(self.path, True, 4).fill_(1.0).sum()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_that_writes(tmp_path: pathlib.Path, proof: pathlib.Path) -> None:
    """TorchScript cannot run Python, but it has operations on files; a policy with one is refused."""
    path = tmp_path / "policy.pt"
    torch.jit.script(Writer(str(proof))).save(path)
    with pytest.raises(CheckpointError, match="reads or writes files"):
        load_policy(PolicyFile(path, "torchscript", TASK))
    assert not proof.exists()
    torch.jit.load(path)(torch.zeros(1, 48))  # what it would have done
    assert proof.exists()
