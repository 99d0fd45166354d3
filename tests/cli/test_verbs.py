# SPDX-License-Identifier: BSD-3-Clause

"""``rsl-rl-sac evaluate``, ``export`` and ``info``: what they print and write, messages, exit codes."""

from __future__ import annotations

import json
import pathlib
import re
import shutil

import numpy as np
import pytest

from rsl_rl_sac.cli import evaluate, export, main
from rsl_rl_sac.cli.main import VERBS
from rsl_rl_sac.locomotion.evaluation import make_evaluation_env
from rsl_rl_sac.locomotion.runs import load_policy, resolve_run
from rsl_rl_sac.locomotion.terrain import SUB_TERRAINS
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv
from rsl_rl_sac.utils.checkpoint import load_safely, save_atomically
from rsl_rl_sac.utils.errors import CheckpointError
from tests.locomotion.run_helpers import write_run

TASK = "Velocity-Flat-Unitree-Go1"
Runs = dict[str, pathlib.Path]


@pytest.fixture
def _short_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let evaluations have episodes of 10 steps."""

    def make(task: str, num_envs: int, num_threads: int | None = None) -> VelocityEnv:
        env = make_evaluation_env(task, num_envs, num_threads)
        env.max_episode_length = 10
        return env

    monkeypatch.setattr(evaluate, "make_evaluation_env", make)


@pytest.mark.usefixtures("_short_episodes")
def test_evaluate(tiny_runs: Runs, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run is scored by direction and in total; the numbers are in a file beside the checkpoint."""
    folder = tmp_path / "run"
    shutil.copytree(tiny_runs["sac"], folder)
    main(["evaluate", str(folder), "--episodes", "14", "--cores", "1"])
    printed = capsys.readouterr().out
    numbers = json.loads((folder / "model_2.pt.evaluation.json").read_text())
    for name, direction in numbers["directions"].items():
        (line,) = [line for line in printed.splitlines() if line.startswith(f"{name} ")]
        assert f" {direction['score']['tracking']:.3f} " in line and direction["score"]["num_episodes"] == 2
    (line,) = [line for line in printed.splitlines() if line.startswith("all, by the rule")]
    assert f" {numbers['total']['tracking']:.3f} " in line and f" {numbers['total']['episode_return']:.2f} " in line
    assert len(numbers["episodes"]["returns"]) == 14 == numbers["total"]["num_episodes"]
    mean = sum(numbers["episodes"]["returns"]) / 14
    assert numbers["total"]["episode_return"] == pytest.approx(mean)
    assert numbers["task"] == TASK and numbers["policy"] == "model_2.pt" and "torch" in numbers["versions"]
    # As the learning curve has it: 3 iterations of 3 steps of 4 environments.
    assert numbers["training"]["env_steps"] == 36 and 0.0 < numbers["training"]["seconds"] < 1000.0
    assert numbers["training"]["cpu_seconds"] > 0.0 and printed.splitlines()[0].endswith(" steps in 0:00")


def test_evaluate_has_nowhere_to_write(
    tiny_runs: Runs, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That is said before any episode is run."""
    shutil.copytree(tiny_runs["sac"], tmp_path / "run")
    (tmp_path / "run" / "model_2.pt.evaluation.json").mkdir()
    monkeypatch.setattr(evaluate, "make_evaluation_env", None)  # would be called next
    with pytest.raises(SystemExit) as exit_info:
        main(["evaluate", str(tmp_path / "run")])
    errors = capsys.readouterr().err
    assert exit_info.value.code == 2 and len(errors.splitlines()) == 1
    assert "cannot be written to" in errors and "it is a folder" in errors


@pytest.mark.usefixtures("_short_episodes")
def test_evaluate_side_by_side(
    tiny_runs: Runs, exported_policy: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A checkpoint and its exported file meet the same episodes, so nothing is between them; so does another policy."""
    for name, source in (("sac", tiny_runs["sac"]), ("ppo", tiny_runs["ppo"]), ("export", exported_policy)):
        shutil.copytree(source, tmp_path / name)
    names = [str(tmp_path / name) for name in ("sac", "export/policy.onnx", "ppo")]
    main(["evaluate", *names, "--episodes", "7", "--cores", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert [line[:3] for line in lines[:3]] == ["A  ", "B  ", "C  "]
    (exported,) = [line for line in lines if line.startswith("B - A")]
    (other,) = [line for line in lines if line.startswith("C - A")]
    assert "tracking +0.000 ± 0.000" in exported or "tracking -0.000 ± 0.000" in exported
    returns = [
        np.array(json.loads(file.read_text())["episodes"]["returns"])
        for file in (tmp_path / "ppo" / "model_2.pt.evaluation.json", tmp_path / "sac" / "model_2.pt.evaluation.json")
    ]
    difference = returns[0] - returns[1]
    error = difference.std(ddof=1) / 7**0.5
    printed = re.search(r"returns (\S+) ± (\d+\.\d+)", other)
    assert printed is not None and [float(number) for number in printed.groups()] == pytest.approx(
        [difference.mean(), error], abs=0.0051
    )
    assert (tmp_path / "export" / "policy.onnx.evaluation.json").exists()


@pytest.mark.usefixtures("_short_episodes")
def test_evaluate_on_rough_terrain(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On rough terrain the same episodes are split by kind of terrain and by level; each split adds up to the total."""
    write_run(tmp_path / "run", "Velocity-Rough-Unitree-Go2", num_obs=235)
    main(["evaluate", str(tmp_path / "run"), "--episodes", "12", "--cores", "1"])
    lines = capsys.readouterr().out.splitlines()
    numbers = json.loads((tmp_path / "run" / "model_1.pt.evaluation.json").read_text())
    for title, name in (("Terrain", "terrains"), ("Level", "levels")):
        first = next(number for number, line in enumerate(lines) if line.startswith(title)) + 1
        rows = [line.split() for line in lines[first : first + len(numbers[name])]]
        episodes, returns = np.array([[float(row[-4]), float(row[-1])] for row in rows]).T
        assert episodes.sum() == 12
        assert np.average(returns, weights=episodes) == pytest.approx(numbers["total"]["episode_return"], abs=0.006)
    assert set(numbers["terrains"]) <= set(SUB_TERRAINS) and len(numbers["terrains"]) > 1


def test_info(tiny_runs: Runs, exported_policy: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run says what it is and how it differs from the preset; an exported file says what it knows."""
    main(["info", str(tiny_runs["sac"])])
    printed = " ".join(capsys.readouterr().out.split())
    # 3 iterations of 3 steps of 4 environments; the first only collects, the others make 2 gradient steps each.
    for fact in (
        "environment steps 36",
        "iterations 3 of 3",
        "gradient steps 4",
        "algorithm SAC",
        "best of the run tracking",
    ):
        assert fact in printed
    assert "Other than the preset paper" in printed and "algorithm.batch_size 8 (preset: 8192)" in printed
    assert "algorithm.gamma" not in printed and "torch" in printed and "python" in printed
    main(["info", str(exported_policy / "policy.pt")])
    printed = " ".join(capsys.readouterr().out.split())
    assert "robot Unitree Go1" in printed and "joint_pos 12" in printed
    # The hip of Go1 has the range -0.863 to 0.863, of which 0.9 are soft limits, and 0.25 rad are one unit of action.
    assert "FL_hip_joint default 0.1, limits -0.777 to 0.777 rad, action -3.51 to 2.71, stiffness 25," in printed
    assert "damping 0.5, torque 23.7 N m" in printed and "lin_vel_x -1 to 1" in printed
    with pytest.raises(SystemExit) as exit_info:
        main(["info", str(tiny_runs["sac"]), "--env", "3"])
    assert exit_info.value.code == 2 and "--env would be ignored: it is for dumps" in capsys.readouterr().err


def test_export(
    tiny_runs: Runs, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verb names what it wrote and how far it is from the policy; too far is exit code 2."""
    main(["export", str(tiny_runs["sac"]), "--output", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert "800 observations" in printed and str(tmp_path / "out" / "policy.onnx") in printed
    with pytest.raises(SystemExit) as exit_info:
        main(["export", str(tiny_runs["sac"]), "--output", str(tmp_path / "strict"), "--tolerance", "-1"])
    assert exit_info.value.code == 2 and "differs from the policy" in capsys.readouterr().err
    assert not (tmp_path / "strict").exists()
    assert export.TOLERANCE <= 1e-4


@pytest.mark.parametrize("verb", ["evaluate", "export", "info", "play"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Velocity-Flat-Unitree-Go3", "There is no run, file or task"),
        ("Velocity-Flat-Unitree-Go1", "There is no run in"),
        ("nowhere/model_3.pt", "There is no file"),
        ("damaged", "is damaged"),
    ],
)
def test_bad_runs(
    verb: str,
    name: str,
    message: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each verb answers a name that means nothing with one line and exit code 2."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "model_0.pt").write_bytes(b"PK")
    with pytest.raises(SystemExit) as exit_info:
        main([verb, name])
    errors = capsys.readouterr().err.strip().splitlines()
    assert exit_info.value.code == 2 and len(errors) == 1 and message in errors[0]


@pytest.mark.parametrize(
    ("verb", "old", "new", "message"),
    [
        *(
            (verb, "version: ", "version: 99.", "of rsl-rl-sac, this is")
            for verb in ("evaluate", "export", "info", "play")
        ),
        *(
            (verb, "-Flat-", "-Rough-", "(1, 48) in the file, expected (1, 235)")
            for verb in ("evaluate", "export", "info", "play")
        ),
    ],
)
def test_configuration_that_does_not_fit(
    verb: str, old: str, new: str, message: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A configuration of a newer version, and one of a task with other observations, are one line and exit code 2."""
    write_run(tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace(old, new))
    with pytest.raises(SystemExit) as exit_info:
        main([verb, str(tmp_path / "run")])
    errors = capsys.readouterr().err.strip().splitlines()
    assert exit_info.value.code == 2 and len(errors) == 1 and message in errors[0]


@pytest.mark.parametrize("verb", ["evaluate", "export", "info", "play"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"iter": "x"}, "is not a checkpoint of a training"),
        ({"infos": [1]}, "is not a checkpoint of a training"),
        ({"actor_state_dict": {"a": 1}}, "is not a checkpoint of a training"),
        ({"average_state_dict": {}}, "is not a checkpoint of a training"),
        ({"average_state_dict": {"actor_state_dict": {"a": 1}}}, "is not a checkpoint of a training"),
        ({"infos": {"env_steps": "x"}}, "is not a checkpoint of a training"),
        ({"counters": []}, "is not a checkpoint of a training"),
        ({"infos": {"task": "Velocity-Flat-Unitree-A1"}}, "is of the task Velocity-Flat-Unitree-A1, the configuration"),
    ],
)
def test_sound_file_of_something_else(
    verb: str, content: dict, message: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files that can be read but hold other things, the policy of a robot of the same size among them, are refused."""
    write_run(tmp_path / "run")
    path = tmp_path / "run" / "model_1.pt"
    save_atomically({**load_safely(path, "cpu"), **content}, path)
    with pytest.raises(SystemExit) as exit_info:
        main([verb, str(tmp_path / "run")])
    errors = capsys.readouterr().err.strip().splitlines()
    assert exit_info.value.code == 2 and len(errors) == 1 and message in errors[0]


def test_paths_are_no_markup(tiny_runs: Runs, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is in brackets is printed, and is no instruction for rich; nor are words between colons pictures."""
    shutil.copytree(tiny_runs["sac"], tmp_path / "runs [old] [/x] :snake:")
    main(["info", str(tmp_path / "runs [old] [/x] :snake:")])
    assert "runs[old][/x]:snake:" in "".join(capsys.readouterr().out.split())  # in a table that breaks lines


@pytest.mark.parametrize("agent", ["sac", "ppo"])
def test_trained_policy_beside_another_task(agent: str, tiny_runs: Runs, tmp_path: pathlib.Path) -> None:
    """Checkpoints of trainings say their task: that of Go1 is no policy for A1, which has the same sizes."""
    shutil.copytree(tiny_runs[agent], tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace("Unitree-Go1", "Unitree-A1"))
    with pytest.raises(CheckpointError, match="is of the task Velocity-Flat-Unitree-Go1"):
        load_policy(resolve_run(tmp_path / "run"))


def test_damaged_provenance_is_ignored(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is only a note: a run is told of without it."""
    write_run(tmp_path / "run")
    (tmp_path / "run" / "provenance.json").write_text('[{"a": 1}, 3]')
    main(["info", str(tmp_path / "run")])
    assert "Velocity-Flat-Unitree-Go2" in capsys.readouterr().out


def test_other_task(tiny_runs: Runs, exported_policy: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A task that is not that of the policy is refused."""
    for verb, name in (("evaluate", tiny_runs["sac"]), ("info", exported_policy / "policy.onnx")):
        with pytest.raises(SystemExit) as exit_info:
            main([verb, str(name), "--task", "Velocity-Flat-Unitree-Go2"])
        assert exit_info.value.code == 2 and "not Velocity-Flat-Unitree-Go2" in capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_a_screen(verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The help of each verb has at most 50 lines of 100 columns; those that take a run or a task show examples."""
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as exit_info:
        main([verb, "--help"])
    printed = capsys.readouterr().out
    lines = sum(1 + max(0, len(line) - 1) // 100 for line in printed.splitlines())
    assert exit_info.value.code == 0 and lines <= 50
    assert (f"rsl-rl-sac {verb}" if verb == "list" else f"rsl-rl-sac {verb} Velocity-Flat-Unitree-Go2") in printed


def test_help_of_all_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """It shows every field, with the preset's value; whoever mistypes a setting is told of it."""
    with pytest.raises(SystemExit) as exit_info:
        main(["train", TASK, "--help-all"])
    printed = capsys.readouterr().out
    assert exit_info.value.code == 0
    for flag in ("--algorithm.gamma", "--critic.num-critics", "--actor.distribution-cfg.init-std", "--until"):
        assert flag in printed
    with pytest.raises(SystemExit) as exit_info:
        main(["train", TASK, "--algorithm.gama", "0.9"])
    errors = capsys.readouterr().err
    assert exit_info.value.code == 2 and errors.strip().endswith("rsl-rl-sac train --help-all tells more.")
    assert "Did you mean --algorithm.gamma" in errors


def test_export_has_nowhere_to_write(
    tiny_runs: Runs, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file where a folder should be made is one line and exit code 2."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as exit_info:
        main(["export", str(tiny_runs["sac"]), "--output", str(tmp_path / "file" / "export")])
    errors = capsys.readouterr().err
    assert exit_info.value.code == 2 and len(errors.splitlines()) == 1 and "cannot be made: Not a directory" in errors
