# SPDX-License-Identifier: BSD-3-Clause

"""Stopping a training, going on with it, repeating it, and refusing what would spoil it."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import types

import pytest

from rsl_rl_sac.cli import main, train
from rsl_rl_sac.cli.main import _format_warning
from rsl_rl_sac.runners.curve import read_curve
from rsl_rl_sac.runners.training import Training
from rsl_rl_sac.utils.checkpoint import find_checkpoints
from rsl_rl_sac.utils.config_file import load_run_config

TASK = "Velocity-Flat-Unitree-Go1"
SMALL = ["--num-envs", "2", "--algorithm.batch-size", "4", "--algorithm.num-mini-batches", "1", "--no-video"]
SMALL += ["--actor.hidden-dims", "4", "--critic.hidden-dims", "4", "--evaluation-envs", "1"]
TIMES = ["--minutes", "30", "--evaluation-minutes", "7", "--until", "0.99", "--cores", "1"]


def interrupt_at(monkeypatch: pytest.MonkeyPatch, iteration: int, in_evaluation: bool = False) -> None:
    """Send Ctrl-C to this process at the end of an iteration, and once more in the evaluation that follows."""
    after_iteration, evaluate = Training._after_iteration, Training._evaluate

    def interrupting(self: Training, **report: object) -> None:
        if report["it"] == iteration - 1:
            os.kill(os.getpid(), signal.SIGINT)
        after_iteration(self, **report)

    def interrupted(self: Training) -> None:
        if in_evaluation and self.progress.iteration > 0:
            os.kill(os.getpid(), signal.SIGINT)
        evaluate(self)

    monkeypatch.setattr(Training, "_after_iteration", interrupting)
    monkeypatch.setattr(Training, "_evaluate", interrupted)


def test_stop_and_go_on(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C ends with 130 and a line that goes on as it was asked for: same time, same number of episodes."""
    folder = tmp_path / "a run"
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as end:
        interrupt_at(patch, 3)
        main(["train", TASK, *SMALL, *TIMES, "--folder", str(folder)])
    assert end.value.code == 130
    captured = capsys.readouterr()
    assert f"Go on with: rsl-rl-sac train {TASK} --resume '{folder}'" in captured.out
    assert "Stopping: saves, then scores" in captured.err
    assert [path.name for path in find_checkpoints(folder)] == ["model_0.pt", "model_2.pt"]
    assert [row["iteration"] for row in read_curve(folder / "curve.csv")] == [0, 3]
    training = load_run_config(folder / "config.yaml")[2]
    asked = {
        "minutes": 30,
        "evaluation_minutes": 7,
        "evaluation_envs": 1,
        "until": 0.99,
        "cores": 1,
        "start_from": None,
    }
    assert training is not None and vars(training) == asked

    main(["train", "--resume", str(folder), "--max-iterations", "5", "--no-video"])  # the run knows its task
    assert [row["iteration"] for row in read_curve(folder / "curve.csv")] == [0, 3, 5]
    again = load_run_config(folder / "config.yaml")[2]
    assert again == training
    capsys.readouterr()
    main(["train", "--resume", str(folder), "--no-video"])
    assert "There was nothing left to train" in capsys.readouterr().out
    assert [row["iteration"] for row in read_curve(folder / "curve.csv")] == [0, 3, 5]


def test_second_interrupt(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever does not wait for the last score loses that score and nothing else."""
    interrupt_at(monkeypatch, 3, in_evaluation=True)
    with pytest.raises(SystemExit) as end:
        main(["train", TASK, *SMALL, "--folder", str(tmp_path)])
    assert end.value.code == 130 and capsys.readouterr().err.endswith("rsl-rl-sac: Interrupted.\n")
    assert find_checkpoints(tmp_path)[-1].name == "model_2.pt"


def test_refused_settings_spoil_nothing(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that fails leaves a run as it was, and no folder where there was none."""
    run = ["train", TASK, *SMALL, "--max-iterations", "1", "--folder"]
    main([*run, str(tmp_path / "run")])
    config = (tmp_path / "run" / "config.yaml").read_text()
    for folder in ("run", "new"):
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([*run, str(tmp_path / folder), "--num-envs", "16", "--algorithm.replay-size", "10"])
        errors = capsys.readouterr().err
        assert end.value.code == 2 and errors.startswith("rsl-rl-sac: ") and len(errors.splitlines()) == 1
    assert (tmp_path / "run" / "config.yaml").read_text() == config and not (tmp_path / "new").exists()


def test_resume_from_a_file(tiny_runs: dict[str, pathlib.Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A run goes on from its newest checkpoint; another one cannot be named."""
    with pytest.raises(SystemExit) as end:
        main(["train", TASK, "--resume", str(tiny_runs["sac"] / "model_0.pt")])
    assert end.value.code == 2 and f"--resume {tiny_runs['sac']}, without the file" in capsys.readouterr().err


def test_resume_by_task(
    tiny_runs: dict[str, pathlib.Path], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task, or a folder of runs, means its newest run: not the one with the last name, but that trained last."""
    logs = tmp_path / "logs" / TASK
    for number, name in enumerate(("b_newest", "a_older", "c_older")):
        shutil.copytree(tiny_runs["sac"], logs / name)
        for file in (logs / name).glob("model_*.pt"):
            os.utime(file, (1e9 - number, 1e9 - number))
    (logs / "d_without_checkpoint").mkdir()
    (logs / "d_without_checkpoint" / "config.yaml").write_text("")
    folders: list[pathlib.Path] = []
    monkeypatch.setattr(train, "train", lambda options, folder: folders.append(folder))
    for run in (["--resume", TASK], [f"--resume={TASK}"], [TASK, "--resume", TASK], ["--resume", f"logs/{TASK}"]):
        monkeypatch.chdir(tmp_path)
        main(["train", *run, "--no-video"])
        if "logs" not in run[-1]:
            monkeypatch.chdir("/")
            main(["train", *run, "--logs", str(tmp_path / "logs")])
    assert {folder.name for folder in folders} == {"b_newest"} and len(folders) == 7


def test_resume_of_a_damaged_run(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says how to go on, and so it goes on."""
    run = ["train", TASK, *SMALL, "--save-interval", "1", "--folder", str(tmp_path)]
    main([*run, "--max-iterations", "3"])
    *_, older, newest = find_checkpoints(tmp_path)
    newest.write_bytes(newest.read_bytes()[:-100])
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(["train", "--resume", str(tmp_path), "--max-iterations", "4", "--no-video"])
    errors = capsys.readouterr().err.splitlines()
    assert end.value.code == 2 and f"The newest other checkpoint there is '{older}'" in errors[-1]
    assert f"Move {newest.stem}.* away to go on from there" in errors[-1]
    assert sum(line.startswith("rsl-rl-sac:") for line in errors) == 1 and "Traceback" not in "".join(errors)
    for file in tmp_path.glob(f"{newest.stem}.*"):
        file.unlink()
    with pytest.warns(UserWarning, match="without its replay, which is gone"):
        main(["train", "--resume", str(tmp_path), "--max-iterations", "4", "--no-video"])
    assert read_curve(tmp_path / "curve.csv")[-1]["iteration"] == 4


def test_interrupted_film(
    tiny_runs: dict[str, pathlib.Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever does not wait for the film is told that the training is complete, not how to go on with it."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rsl_rl_sac.locomotion.play_env.make_play_env", interrupt)
    with pytest.raises(SystemExit) as end:
        train.film(types.SimpleNamespace(folder=tiny_runs["sac"], task=TASK))  # type: ignore[arg-type]
    assert end.value.code == 130 and "The training itself is complete" in capsys.readouterr().err


def test_resume_without_a_replay(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the replay is not saved, a run that stops and one that goes on say so, and which flag saves it."""
    run = ["train", TASK, *SMALL, "--algorithm.no-save-replay", "--folder", str(tmp_path)]
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        interrupt_at(patch, 1)
        main([*run, "--max-iterations", "2"])
    advice = "Runs that are started with --algorithm.save-replay go on exactly."
    assert f"It will go on with an empty replay. {advice}\n" in capsys.readouterr().out
    with pytest.warns(
        UserWarning, match=rf"goes on with an empty replay: its algorithm\.save_replay is off\. {advice}"
    ):
        main([*run, "--max-iterations", "2"])


def test_warnings_are_one_line() -> None:
    """Ours without the place in the code; those of others with it, and without the line of code itself."""
    ours = _format_warning("Mind this.", UserWarning, "/somewhere/rsl_rl_sac/runners/training.py", 3)
    assert ours == "rsl-rl-sac: Mind this.\n"
    assert _format_warning("That.", DeprecationWarning, "/a.py", 3) == "/a.py:3: DeprecationWarning: That.\n"
