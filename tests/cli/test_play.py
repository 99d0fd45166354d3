# SPDX-License-Identifier: BSD-3-Clause

"""``rsl-rl-sac play``: films, messages, exit codes."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import imageio_ffmpeg
import pytest

from rsl_rl_sac.cli import main
from tests.locomotion.run_helpers import GO2_TASK as TASK
from tests.locomotion.run_helpers import write_run


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a folder with one run, which learned nothing."""
    logs = tmp_path_factory.mktemp("logs")
    write_run(logs / TASK / "untrained")
    return logs


@pytest.mark.parametrize(("name", "size", "rate"), [("a.mp4", (640, 480), 25.0), ("b.gif", (320, 240), 12.5)])
def test_film(name: str, size: tuple[int, int], rate: float, logs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A film of 0.24 s has six pictures, or three in a GIF, and is the only file that appears."""
    path = tmp_path / "films" / name
    main(["play", TASK, "--logs", str(logs), "--seconds", "0.24", "--robots", "2", "--output", str(path)])
    assert [file.name for file in path.parent.iterdir()] == [name]
    frames = imageio_ffmpeg.read_frames(str(path))
    meta = next(frames)
    assert meta["size"] == size and meta["fps"] == rate
    assert len(list(frames)) == round(0.24 * rate)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "There is no run, file or task 'nowhere'"),
        ([TASK, "--seconds", "0"], "from 0.1 to 3600 seconds"),
        ([TASK, "--output", "film.avi"], "ends in .mp4 or .gif"),
        ([TASK, "--command", "2", "0", "0"], "forward speed must be from -1 to 1"),
        ([TASK, "--command", "0", "nan", "0"], "speed to the left"),
        ([TASK, "--viewer", "--output", "film.mp4", "--seconds", "5"], "--output, --seconds would be ignored"),
        ([TASK, "--port", "8081"], "--port would be ignored: without --viewer"),
        ([TASK, "--robots", "0"], "number of robots"),
        ([TASK, "--ground", "lava"], "no ground 'lava'"),
        ([TASK, "--ground", "boxes", "--level", "10"], "level must be from 0 to 9"),
        ([TASK, "--output", "/dev/null/film.mp4"], "Cannot write the film"),
    ],
)
def test_bad_input(
    arguments: list[str],
    message: str,
    logs: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
) -> None:
    """One line on the error output, exit code 2, and nothing on the disk."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit_info:
        main(["play", *arguments, "--logs", str(logs)])
    assert exit_info.value.code == 2
    errors = capsys.readouterr().err
    assert message in errors and len(errors.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_no_ffmpeg(
    logs: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
) -> None:
    """Without ffmpeg there is one line that says how to get it, and no work is done."""
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(tmp_path / "ffmpeg"))
    with pytest.raises(SystemExit) as exit_info:
        main(["play", TASK, "--logs", str(logs), "--output", str(tmp_path / "a.mp4")])
    assert exit_info.value.code == 2
    errors = capsys.readouterr().err
    assert "There is no ffmpeg" in errors and len(errors.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("way_to_draw", "message"),
    [
        ("disable", "Cannot draw here ("),
        ("glfw", "Cannot draw here (MUJOCO_GL=glfw needs one). Without a display it takes EGL or OSMesa"),
        ("bogus", "MuJoCo cannot draw with MUJOCO_GL=bogus"),
    ],
)
def test_no_way_to_draw(way_to_draw: str, message: str, logs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """One line, exit code 2, and nothing on the disk."""
    command = [sys.executable, "-m", "rsl_rl_sac", "play", TASK, "--logs", str(logs), "--output", "film.mp4"]
    environment = {**os.environ, "MUJOCO_GL": way_to_draw, "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    outcome = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert outcome.returncode == 2
    assert message in outcome.stderr and len(outcome.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_viewer_ends_on_interrupt(logs: pathlib.Path) -> None:
    """The viewer says where to look, follows the newest checkpoint, and Ctrl-C ends it without a trace."""
    pytest.importorskip("mjviser")
    command = [sys.executable, "-m", "rsl_rl_sac", "play", TASK, "--logs", str(logs), "--viewer", "--port", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=300)
    assert lines[0].startswith(TASK) and lines[1].startswith("Open http://127.0.0.1:")
    assert process.returncode == 0 and output == "" and errors == "Stopped.\n"
