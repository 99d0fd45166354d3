# SPDX-License-Identifier: BSD-3-Clause

"""``--nproc``: exit codes, messages, interrupts, and a real training."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from rsl_rl_sac.cli import launcher, main
from rsl_rl_sac.utils.checkpoint import find_checkpoints, find_replays

WAIT = "import time; time.sleep(60)"
LOST = f"raise SystemExit({launcher.LOST_PROCESS_EXIT_CODE})"
FAIL = "import sys; print('rsl-rl-sac: It broke.', file=sys.stderr); raise SystemExit(2)"
DIE = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
ABORT = "import os, sys; print('terminate called', file=sys.stderr, flush=True); os.abort()"
SAVE = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
open(sys.argv[1], "w")
time.sleep(60)
"""


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the list of small programs that take the place of the processes."""
    commands: list[list[str]] = []
    start = subprocess.Popen

    def replaced(command: list[str], env: dict[str, str], **options: object) -> subprocess.Popen:
        return start([sys.executable, "-c", *commands[int(env["RANK"])]], env=env, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(launcher.subprocess, "Popen", replaced)
    return commands


@pytest.mark.parametrize(
    ("codes", "expected", "message"),
    [
        (("pass", "pass"), 0, ""),
        (("pass", FAIL), 2, "Process 1 of 2 failed:\nrsl-rl-sac: It broke."),
        ((LOST, FAIL), 2, "Process 1 of 2 failed:\nrsl-rl-sac: It broke."),
        ((WAIT, FAIL), 2, "Process 1 of 2 failed:\nrsl-rl-sac: It broke."),
        ((WAIT, DIE), 128 + 9, "Process 1 of 2 was killed by SIGKILL."),
        ((LOST, DIE), 128 + 9, "Process 1 of 2 was killed by SIGKILL."),
        ((LOST, ABORT), 128 + 6, "Process 1 of 2 was killed by SIGABRT.\nterminate called"),
        (
            (ABORT, DIE),
            128 + 9,
            "by SIGKILL.\nrsl-rl-sac: Process 0 of 2 was killed by SIGABRT.",
        ),
        ((ABORT, FAIL), 2, "Process 1 of 2 failed:\nrsl-rl-sac: It broke."),
        ((FAIL, LOST), 2, ""),
    ],
)
def test_exit_codes(
    programs: list[list[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    codes: tuple[str, str],
    expected: int,
    message: str,
) -> None:
    """The process that failed by itself decides; one that does not end in time is ended."""
    programs += [[code] for code in codes]
    monkeypatch.setattr(launcher, "_GRACE_SECONDS", 0.2 if WAIT in codes else 40.0)
    start = time.monotonic()
    assert launcher.launch([], 2) == expected
    assert time.monotonic() - start < 45.0
    errors = capsys.readouterr().err
    assert message in errors if message else errors == ""


@contextlib.contextmanager
def interrupted(number: int, files: list[pathlib.Path]) -> Iterator[None]:
    """Send a signal to this process once files are there."""

    def send() -> None:
        while not all(file.exists() for file in files):
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    yield
    thread.join()


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 0), (signal.SIGTERM, 128 + 15)])
def test_signals(programs: list[list[str]], tmp_path: pathlib.Path, number: int, expected: int) -> None:
    """An interrupt lets the processes save; another signal ends them."""
    files = [tmp_path / str(rank) for rank in range(2)]
    programs += [[SAVE, str(file)] for file in files]
    with interrupted(number, files):
        assert launcher.launch([], 2) == expected


def test_one_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the second process cannot start, the first is not left waiting for it."""
    processes: list[subprocess.Popen] = []
    start = subprocess.Popen

    def popen(*_: object, **__: object) -> subprocess.Popen:
        if processes:
            raise OSError("no memory")
        processes.append(start(["sleep", "60"]))
        return processes[0]

    monkeypatch.setattr(launcher.subprocess, "Popen", popen)
    with pytest.raises(OSError, match="no memory"):
        launcher.launch([], 2)
    assert processes[0].poll() == -signal.SIGKILL


def test_no_processes(capsys: pytest.CaptureFixture[str]) -> None:
    """Fewer than one process are refused."""
    with pytest.raises(SystemExit) as refused:
        main(["train", "Velocity-Flat-Unitree-Go1", "--nproc", "0"])
    assert refused.value.code != 0 and "--nproc must be at least 1, got 0" in capsys.readouterr().err


def children(process: int) -> list[int]:
    """Return the processes that a process has started."""
    return [int(child) for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen]]:
    """Return a list of launchers; what still runs at the end of the test is ended."""
    processes: list[subprocess.Popen] = []
    yield processes
    for process in processes:
        process.terminate()
        process.wait()


@pytest.mark.skipif(not pathlib.Path("/proc/self/task").exists(), reason="needs Linux")
def test_training(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], started: list[subprocess.Popen]) -> None:
    """Ctrl-C saves both replays and says how to go on; then a killed process ends the run and breaks no checkpoint."""
    task = "Velocity-Flat-Unitree-Go1"
    command = [sys.executable, "-m", "rsl_rl_sac", "train", task, "--folder", str(tmp_path), "--nproc", "2"]
    command += ["--num-envs", "4", "--max-iterations", "100000", "--algorithm.batch-size", "16"]
    command += ["--algorithm.num-mini-batches", "1", "--evaluation-envs", "1", "--save-interval", "1000000"]
    command += ["--actor.hidden-dims", "8", "--critic.hidden-dims", "8"]

    def start() -> subprocess.Popen:
        """Start and wait until iterations begin, which write a new file for TensorBoard."""
        events = len(list(tmp_path.glob("events*")))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        while process.poll() is None and len(list(tmp_path.glob("events*"))) == events:
            time.sleep(0.1)
        assert process.poll() is None, process.communicate()[1]
        return process

    process = start()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + 2, errors
    assert f"Go on with: rsl-rl-sac train {task} --resume {tmp_path} --nproc 2" in " ".join(output.split())
    newest = find_checkpoints(tmp_path)[-1]
    assert len(find_replays(newest)) == 2

    process = start()
    os.kill(children(process.pid)[1], signal.SIGKILL)
    killed = time.monotonic()
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + 9 and time.monotonic() - killed < 120.0
    assert "Process 1 of 2 was killed by SIGKILL." in errors and "Traceback" not in errors
    assert find_checkpoints(tmp_path)[-1] == newest and len(find_replays(newest)) == 2

    with pytest.raises(SystemExit) as refused:
        main(["train", task, "--resume", str(tmp_path)])
    assert refused.value.code != 0 and "replays of 2 process(es), this run has 1." in capsys.readouterr().err
