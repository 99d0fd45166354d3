# SPDX-License-Identifier: BSD-3-Clause

"""Disks that fail while a training writes: the run goes on or stops, and what was there before stays whole."""

from __future__ import annotations

import contextlib
import os
import pathlib
import resource
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import torch

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.runners import OffPolicyRunner
from rsl_rl_sac.utils import CheckpointError, ConfigError
from rsl_rl_sac.utils.checkpoint import delete_older_checkpoints, find_checkpoints, save_atomically
from rsl_rl_sac.utils.distributed import launched_rank
from tests.helpers import differences, flat_state, small_cfg
from tests.processes import run_processes


def make_runner(folder: pathlib.Path | None, **settings: object) -> OffPolicyRunner:
    """Build a runner whose checkpoints hold the replay."""
    cfg = small_cfg(save_replay=True)
    for name, value in settings.items():
        setattr(cfg, name, value)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)  # as the log would
    runner = OffPolicyRunner(DoubleIntegrator(16), cfg.to_dict(), str(folder) if folder else None)
    runner.logger.writer = None
    runner.logger.init_logging_writer = lambda: None  # type: ignore[method-assign]  # faults are for checkpoints alone
    return runner


@contextlib.contextmanager
def largest_file(num_bytes: int) -> Iterator[None]:
    """Let every write beyond a size fail, as that to a full disk does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Mount a file system of one megabyte, where the machine allows it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("This process may not mount a file system.")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def is_whole(path: pathlib.Path) -> bool:
    """Return whether a training goes on from a checkpoint, replay included."""
    runner = make_runner(None)
    runner.load(str(path))
    return len(runner.alg.storage) > 0


def names(folder: pathlib.Path) -> list[str]:
    """Return the files of a folder that belong to checkpoints, half-written ones included."""
    return sorted(".".join((path.name.split(".")[0], path.suffix)) for path in folder.iterdir() if "model" in path.name)


@pytest.mark.parametrize("limit", [1000, 30_000])  # the replay does not fit; the replay does, the checkpoint does not
def test_goes_on_and_saves_later(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture, limit: int) -> None:
    """With a limit on files, the save fails and leaves nothing; the training goes on as if nothing had been."""
    runner = make_runner(tmp_path, keep_checkpoints=1)
    runner.learn(1)
    before = names(tmp_path)
    with largest_file(limit):
        runner.current_learning_iteration = 2
        runner.save_checkpoint()
    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("rsl-rl-sac:")]
    assert len(errors) == 1
    assert "model_2.pt' could not be written (File too large)" in errors[0] and "Training goes on" in errors[0]
    assert names(tmp_path) == before
    assert is_whole(tmp_path / "model_0.pt")
    runner.save_checkpoint()
    assert [path.name for path in find_checkpoints(tmp_path)] == ["model_2.pt"]
    assert is_whole(tmp_path / "model_2.pt")


def test_training_is_the_same(small_disk: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture) -> None:
    """On a disk that is full for two saves and free again later, the weights are those of a run without fault."""
    straight = make_runner(tmp_path / "straight")
    straight.learn(9)
    runner = make_runner(small_disk / "run")
    ballast = small_disk / "ballast"
    step, count = runner.env.step, 0

    def fill_and_free(actions: torch.Tensor) -> tuple:
        nonlocal count
        count += 1
        if count == 8 * 1 + 1:  # in iteration 1
            with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))
            assert os.statvfs(small_disk).f_bavail == 0
        if count == 8 * 5 + 1:
            ballast.unlink()
        return step(actions)

    runner.env.step = fill_and_free  # type: ignore[method-assign]
    runner.learn(9)
    said = capfd.readouterr().err
    assert "model_2.pt' could not be written (No space left on device)" in said
    assert "model_4.pt' could not be written" in said
    assert "model_6.pt" not in said and "model_8.pt" not in said
    assert [path.name for path in find_checkpoints(small_disk / "run")] == ["model_0.pt", "model_6.pt", "model_8.pt"]
    assert differences(flat_state(straight.alg.save()), flat_state(runner.alg.save())) == []
    assert is_whole(small_disk / "run" / "model_8.pt")


def test_stops_if_told(tmp_path: pathlib.Path) -> None:
    """With the other setting the first failure ends the run, with one line."""
    runner = make_runner(tmp_path, disk_faults="stop")
    runner.learn(1)
    with largest_file(1000), pytest.raises(CheckpointError, match=r"model_2\.pt' could not be written.*resume the run"):
        runner.learn(6)
    assert runner.current_learning_iteration == 2
    assert is_whole(tmp_path / "model_0.pt")


@pytest.mark.parametrize("iterations", [4, 5])  # the last one is between two intervals, or at one
def test_the_last_save_must_succeed(tmp_path: pathlib.Path, iterations: int) -> None:
    """A run whose end cannot be saved is an error even if it may go on after others."""
    runner = make_runner(tmp_path)
    with largest_file(1000), pytest.raises(CheckpointError, match=rf"model_{iterations - 1}\.pt' could not"):
        runner.learn(iterations)
    assert runner.next_iteration == iterations
    runner.save_checkpoint(is_last=True)
    assert is_whole(tmp_path / f"model_{iterations - 1}.pt")


def test_vanished_folder(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture) -> None:
    """A folder that was deleted, or that became a file, is told; if it comes back, so do the checkpoints."""
    folder = tmp_path / "run"
    runner = make_runner(folder)
    runner.learn(1)
    shutil.rmtree(folder)
    runner.current_learning_iteration = 2
    runner.save_checkpoint()
    folder.touch()
    runner.save_checkpoint()
    said = capfd.readouterr().err
    assert "(No such file or directory)" in said and "(Not a directory)" in said
    folder.unlink()
    folder.mkdir()
    runner.save_checkpoint()
    assert is_whole(folder / "model_2.pt")


def test_read_only_folder(small_disk: pathlib.Path, capfd: pytest.CaptureFixture) -> None:
    """A file system that became read-only is told."""
    runner = make_runner(small_disk)
    runner.learn(1)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    runner.current_learning_iteration = 2
    runner.save_checkpoint()
    assert "(Read-only file system)" in capfd.readouterr().err
    assert is_whole(small_disk / "model_0.pt")


def test_retention_spares_the_only_whole_one(tmp_path: pathlib.Path) -> None:
    """If the newest checkpoint cannot be read back, none is deleted for it."""
    for iteration in (0, 1):
        save_atomically({"iter": iteration}, tmp_path / f"model_{iteration}.pt")
    newest = tmp_path / "model_1.pt"
    newest.write_bytes(newest.read_bytes()[:-10])
    with pytest.raises(OSError, match="cannot be read back"):
        delete_older_checkpoints(newest, 1)
    assert len(find_checkpoints(tmp_path)) == 2


def test_leftovers_of_a_killed_process(tmp_path: pathlib.Path) -> None:
    """What a killed process left half-written goes with the next save; other files stay."""
    runner = make_runner(tmp_path)
    (tmp_path / ".model_0.pt.abc.tmp").touch()
    (tmp_path / ".mine.tmp").touch()
    runner.learn(1)
    assert [path.name for path in tmp_path.glob(".*")] == [".mine.tmp"]


def test_log(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that cannot be written does not end the training, and another is opened at the next interval."""
    opened, written = [], []

    class Writer:
        """Stands in for TensorBoard's: the first one breaks at iteration 1."""

        def __init__(self) -> None:
            self.number = len(opened)
            opened.append(self)

        def add_scalar(self, name: str, value: float, step: int) -> None:
            if self.number == 0 and step == 1:
                raise OSError(28, "No space left on device")
            if name == "Perf/total_fps":
                written.append((self.number, step))

    runner = make_runner(tmp_path, save_interval=3)
    monkeypatch.setattr(runner.logger, "init_logging_writer", lambda: setattr(runner.logger, "writer", Writer()))
    monkeypatch.setattr(runner.logger, "save_model", lambda *_: None)
    monkeypatch.setattr(runner.logger, "logger_type", "tensorboard", raising=False)  # rsl_rl 5.0.1 asks for it
    runner.learn(6)
    assert capfd.readouterr().err.count("The log in") == 1
    assert written == [(0, 0), (1, 3), (1, 4), (1, 5)]


def train_with_a_full_disk(folder: pathlib.Path) -> tuple[str, list[str], int]:
    """Let the second process fail to write its replay; return where the training ended and what was saved."""
    runner = make_runner(folder)
    runner.learn(1)
    with largest_file(1000) if launched_rank() == 1 else contextlib.nullcontext():
        runner.current_learning_iteration = 2
        runner.save_checkpoint()
    after_fault = names(folder) if launched_rank() == 0 else []
    runner.current_learning_iteration = 2
    runner.next_iteration = 3
    runner.learn(2)
    return str(runner.last_checkpoint), after_fault, runner.next_iteration


def test_fault_of_one_of_many(tmp_path: pathlib.Path) -> None:
    """If one process cannot write, none keeps its part, all go on, and the next save is whole."""
    for last, after_fault, iteration in run_processes(train_with_a_full_disk, tmp_path):
        assert last.endswith("model_4.pt") and iteration == 5
        assert all(name.startswith("model_0") for name in after_fault)
    assert [path.name for path in find_checkpoints(tmp_path)] == ["model_0.pt", "model_4.pt"]


def test_setting_is_checked() -> None:
    """Another word than the two is refused."""
    with pytest.raises(ConfigError, match="disk_faults"):
        RunnerCfg(disk_faults="ignore")
