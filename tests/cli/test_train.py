# SPDX-License-Identifier: BSD-3-Clause

"""``rsl-rl-sac train`` and ``compare``: options, messages, exit codes."""

from __future__ import annotations

import csv
import pathlib

import pytest

from rsl_rl_sac.cli import main, train
from rsl_rl_sac.cli.train import parse
from rsl_rl_sac.config import UNLIMITED_ITERATIONS, RndCfg, RunnerCfg, SymmetryCfg
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.utils.errors import ConfigError

TASK = "Velocity-Flat-Unitree-G1"


def test_preset_and_task_decide_on_defaults() -> None:
    """The paper's preset gives G1 its own target entropy, and any field can be changed by a flag."""
    options = parse([TASK, "--preset", "paper", "--algorithm.tau", "0.5", "--num-envs=12", "--no-overlap"])
    assert isinstance(options.cfg, RunnerCfg)
    assert options.cfg.algorithm.target_entropy_scale == 0.5 and options.cfg.num_envs == 12
    assert options.cfg.algorithm.tau == 0.5 and options.cfg.algorithm.batch_size == 8192
    ppo = parse([TASK, "--agent=ppo", "--actor.distribution-cfg.init-std", "0.4"])
    assert isinstance(ppo.cfg, PPORunnerCfg)
    assert ppo.cfg.actor.hidden_dims == [256, 128, 128] and ppo.cfg.actor.distribution_cfg.init_std == 0.4


def test_flags_of_absent_sections() -> None:
    """A flag of a section that may be absent is like any other: it makes the section present, and changes it."""
    flags = ["--algorithm.symmetry-cfg.use-mirror-loss", "--algorithm.rnd-cfg.weight", "0.5"]
    for task in ("Velocity-Flat-Unitree-Go2", "Velocity-Flat-Unitree-H1"):  # with symmetry in its preset, and without
        algorithm = parse([task, *flags]).cfg.algorithm
        assert algorithm.symmetry_cfg == SymmetryCfg(use_mirror_loss=True) and algorithm.rnd_cfg == RndCfg(weight=0.5)
        assert parse([task, flags[0]]).cfg.algorithm.rnd_cfg is None
    assert parse(["Velocity-Flat-Unitree-Go2", "algorithm.symmetry-cfg:none"]).cfg.algorithm.symmetry_cfg is None
    with pytest.raises(ConfigError, match=r"Did you mean --algorithm\.symmetry-cfg\.use-mirror-loss"):
        parse(["Velocity-Flat-Unitree-Go2", "--algorithm.symmetry-cfg.use-miror-loss"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "no verb 'trian'. Did you mean 'train'?"),
        (["train", "Velocity-Flat-Unitree-G2"], "There is no task 'Velocity-Flat-Unitree-G2'"),
        (["train"], "TASK"),
        (["train", TASK, "--num-env", "4"], "Did you mean --num-envs"),
        (["train", TASK, "--algorithm.gamma", "2"], "gamma must be a number in [0, 1], got 2.0"),
        (["train", TASK, "--cores", "0"], "--cores must be at least 1, got 0"),
        (["train", TASK, "--evaluation-envs", "0"], "--evaluation-envs must be at least 1, got 0"),
        (["train", TASK, "--minutes", "-1"], "--minutes must be positive, got -1"),
        (["train", "cartpole"], "There is no task 'cartpole'"),
        (["train", TASK, "--preset", "gpu"], "Unknown preset 'gpu'"),
        (["train", TASK, "--agent", "dqn"], "There is no agent 'dqn'"),
        (["train", TASK, "--resume", "nowhere"], "nothing to resume in 'nowhere': there is no such folder"),
        (["train", "--resume", "nowhere"], "nothing to resume in 'nowhere': there is no such folder"),
        (["train", "--resume", "."], "nothing to resume in '.': it holds no checkpoint"),
        (["train", "--resume", TASK], f"There is no run of {TASK} to go on with in 'logs/{TASK}'"),
        (["train", "--resume", "gym:Pendulum-v1"], "There is no run of gym:Pendulum-v1 to go on with"),
        (["train", "--resume", "Velocity-Flat-Unitree-G2"], "no task 'Velocity-Flat-Unitree-G2'. Did you mean"),
        (["train", "--resume", "gym:Pendulum-v99"], "Gymnasium cannot make the task 'Pendulum-v99'"),
        (["train", "--bogus"], "Unrecognized options: --bogus"),
        (["play", "--bogus"], "Unrecognized options: --bogus"),
        (["train"], "Missing"),
        (["train", TASK, "--minutes"], "Missing value for argument"),
        (["train", "--config", "nowhere.yaml"], "'nowhere.yaml' cannot be read"),
        (["train", TASK, "--config", "x.yaml", "--preset", "paper"], "--preset would be ignored: --config"),
        (["compare", "Velocity-Flat-Unitree-G2"], "There is no task 'Velocity-Flat-Unitree-G2'"),
        (["compare", TASK, "--seeds", "0"], "at least one seed"),
        (["compare", TASK, "--first-seed", "-1"], "--first-seed must not be negative, got -1"),
        (["compare", TASK, "--start-from", "Velocity-Flat-Unitree-Go2"], "cannot start from Velocity-Flat-Unitree-Go2"),
        (["compare", TASK, "--start-from", "Velocity-Rough-Unitree-Go1"], "or one that sees more"),
        (["compare", TASK, "--start-from", TASK], "SAC has no finished run with seed 0. Make it with: rsl-rl-sac"),
        (["compare", TASK, "--preset", "gpu"], "Unknown preset 'gpu'"),
        (["compare", TASK, "--evaluation-minutes", "-1"], "--evaluation-minutes must not be negative, got -1"),
        (["evaluate", TASK, "--episodes", "0"], "There is no run in"),
        (["evaluate", TASK, "--cores", "0"], "--cores must be at least 1, got 0"),
        (["train", TASK, "--minutes", "nan"], "--minutes must be positive, got nan"),
        (["train", TASK, "--evaluation-minutes", "-1"], "--evaluation-minutes must not be negative, got -1"),
        (["train", TASK, "--until", "nan"], "--until must be a number, got nan"),
        (["train", TASK, "--until", "0.9", "--evaluation-minutes", "0"], "--until needs evaluations"),
        (["train", TASK, "--name", "a/b"], "--name must be a part of the name of a folder, got 'a/b'"),
        (["train", TASK, "--preset", "ppo_cpu"], "Unknown preset 'ppo_cpu'. Known presets: paper, cpu, gym, mjlab."),
        (["train", TASK, "--logger", "nonsense"], "logger must be tensorboard, wandb or neptune"),
        (["train", TASK, "--logger", "neptune"], "The logger 'neptune' needs the package neptune: pip install neptune"),
        (["train", "--name", "Velocity-x", "cartpole"], "There is no task 'cartpole'"),
        (["compare", TASK, "--minutes", "nan"], "a positive training time"),
        (["info", ""], "Name a run"),
        (["play", "go2"], "Did you mean Velocity-Flat-Unitree-Go2, Velocity-Rough-Unitree-Go2?"),
        (["evaluate", "velocity-flat-go2"], "Did you mean Velocity-Flat-Unitree-Go2"),
        (["evaluate"], "Name a run"),
        (["evaluate", "gym:Pendulum-v99"], "Gymnasium cannot make the task 'Pendulum-v99'"),
        (["info", "moon:Pendulum-v1"], "There is no world 'moon:'"),
        (["evaluate", "gym:Pendulum-v1"], "There is no run in 'logs/gym-Pendulum-v1'"),
        (["compare", "gym:Pendulum-v1"], "compare is for tasks of the suite: train gym:Pendulum-v1 with --agent sac"),
        (["list", "robots"], "Unrecognized options: robots"),
    ],
)
def test_bad_input(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
) -> None:
    """One message on the error output, exit code 2, and nothing on the disk."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert exit_info.value.code == 2
    errors = capsys.readouterr().err
    assert message in errors and len(errors.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    (
        ["train", TASK, "--logs", "file"],
        ["train", TASK, "--logs", "file/below"],
        ["train", TASK, "--folder", "file"],
        ["compare", TASK, "--folder", "file"],
    ),
)
def test_file_in_place_of_a_folder(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """Where a file is in the way of a folder, one line says which flag and which file, and the file is left alone."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("file").write_text("mine")
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    flag = arguments[2]
    assert exit_info.value.code == 2
    assert capsys.readouterr().err == f"rsl-rl-sac: {flag} must be a folder: 'file' is a file.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["file"] and pathlib.Path("file").read_text() == "mine"


def test_trains(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """A short training leaves its folder with configuration, curve and checkpoint, and prints the score."""
    monkeypatch.chdir(tmp_path)
    small = ["--num-envs", "4", "--max-iterations", "3", "--algorithm.batch-size", "16", "--evaluation-envs", "2"]
    small += ["--algorithm.num-mini-batches", "1", "--actor.hidden-dims", "8", "--critic.hidden-dims", "8"]
    main(["train", "Velocity-Flat-Unitree-Go1", "--name", "short", "--no-video", *small])
    (folder,) = (tmp_path / "logs" / "Velocity-Flat-Unitree-Go1").iterdir()
    assert folder.name.endswith("_short")
    assert {"config.yaml", "curve.csv", "model_2.pt"} <= {path.name for path in folder.iterdir()}
    captured = capsys.readouterr()
    assert captured.out.startswith("Tracking 0.") and str(folder.relative_to(tmp_path)) in captured.out
    # Without a terminal: the title, then a line for each of the two evaluations.
    lines = captured.err.strip().splitlines()
    assert len(lines) == 3 and lines[0].startswith("SAC on Velocity-Flat-Unitree-Go1") and "tracking" in lines[2]
    with pytest.raises(SystemExit):
        main(["train", TASK, "--resume", str(folder)])
    assert "is of the task 'Velocity-Flat-Unitree-Go1', not 'Velocity-Flat-Unitree-G1'" in capsys.readouterr().err


def test_trains_on_gymnasium(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """A task of Gymnasium takes its own preset and is scored by its return; a second call goes on."""
    monkeypatch.chdir(tmp_path)
    small = ["--max-iterations", "3", "--algorithm.training-start-iteration", "1", "--algorithm.batch-size", "16"]
    small += ["--algorithm.num-mini-batches", "1", "--evaluation-envs", "1", "--folder", "run"]
    main(["train", "gym:Pendulum-v1", *small])
    captured = capsys.readouterr()
    assert captured.out.startswith("Return -") and "episode length 200" in captured.out
    with open("run/curve.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "iteration",
        "env_steps",
        "updates",
        "seconds",
        "cpu_seconds",
        "episode_return",
        "episode_length",
    ]
    # 3 iterations of 16 steps of 4 environments; the first only fills the replay.
    assert rows[-1]["env_steps"] == "192" and rows[-1]["updates"] == "2"
    small[1] = "4"
    main(["train", "gym:Pendulum-v1", *small])
    with open("run/curve.csv", newline="") as file:
        assert [float(row["iteration"]) for row in csv.DictReader(file)] == [0, 3, 4]


def test_resume_refuses_what_it_would_ignore(
    tiny_runs: dict[str, pathlib.Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Settings beside --resume are refused, all in one line; nothing is trained."""
    folder = tiny_runs["sac"]
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    flags = ["--seed", "3", "--algorithm.tau=0.5", "--no-overlap", "--name", "x", "--minutes", "1", "--no-video"]
    with pytest.raises(SystemExit) as exit_info:
        main(["train", "Velocity-Flat-Unitree-Go1", "--resume", str(folder), *flags])
    assert exit_info.value.code == 2
    assert "--seed, --algorithm.tau, --overlap, --name would be ignored" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_folder_of_another_run(tiny_runs: dict[str, pathlib.Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that holds a run of another task or algorithm, or with other networks, is left as it is."""
    folder = tiny_runs["sac"]
    config = (folder / "config.yaml").read_text()
    for arguments, message in (
        ([TASK], "is of the task 'Velocity-Flat-Unitree-Go1'"),
        (["Velocity-Flat-Unitree-Go1", "--agent", "ppo"], "has another algorithm or other networks"),
        (["Velocity-Flat-Unitree-Go1", "--preset", "paper"], "has another algorithm or other networks"),
    ):
        with pytest.raises(SystemExit) as exit_info:
            main(["train", *arguments, "--folder", str(folder)])
        assert exit_info.value.code == 2 and message in capsys.readouterr().err
        assert (folder / "config.yaml").read_text() == config


def test_config_repeats_a_run(tiny_runs: dict[str, pathlib.Path]) -> None:
    """A configuration file gives task, algorithm and all settings; flags change them."""
    options = parse(["--config", str(tiny_runs["ppo"] / "config.yaml"), "--seed", "5"])
    assert options.task == "Velocity-Flat-Unitree-Go1" and isinstance(options.cfg, PPORunnerCfg)
    assert options.cfg.num_envs == 4 and options.cfg.actor.hidden_dims == [8, 6] and options.cfg.seed == 5
    other = parse([TASK, "--config", str(tiny_runs["sac"] / "config.yaml")])
    assert other.task == TASK and isinstance(other.cfg, RunnerCfg) and other.cfg.algorithm.batch_size == 8
    assert other.cfg.critic.value_range == (-10.0, 30.0)  # a list in the file


def test_film(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A training ends with a film; where there can be none it says why, and succeeds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train, "_FILM_SECONDS", 0.2)
    small = ["--num-envs", "2", "--algorithm.batch-size", "4", "--algorithm.num-mini-batches", "1", "--folder", "run"]
    small += ["--actor.hidden-dims", "4", "--critic.hidden-dims", "4", "--evaluation-envs", "1"]
    main(["train", "Velocity-Flat-Unitree-Go1", *small, "--max-iterations", "1"])
    assert "A film is in run/video.mp4" in capsys.readouterr().out
    assert (tmp_path / "run" / "video.mp4").read_bytes()[4:8] == b"ftyp"
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "/nowhere/ffmpeg")
    main(["train", "Velocity-Flat-Unitree-Go1", *small, "--max-iterations", "2"])
    assert "There is no film: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "expected"),
    [([], 5000), (["--minutes", "9"], UNLIMITED_ITERATIONS), (["--minutes", "9", "--max-iterations", "7"], 7)],
)
def test_minutes_decide_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, flags: list[str], expected: int
) -> None:
    """Iterations of the preset end a run only if no time is given; those of the command line always do."""
    monkeypatch.chdir(tmp_path)
    asked: list[int] = []
    monkeypatch.setattr("rsl_rl_sac.cli.train.train", lambda options, folder: asked.append(options.cfg.max_iterations))
    main(["train", TASK, *flags])
    assert asked == [expected]


def test_runs_of_the_same_second(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """Each has a folder of its own, and one that fails before it has written anything leaves none behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rsl_rl_sac.cli.train._new_folder", lambda options: pathlib.Path("logs", TASK, "now"))
    folders: list[pathlib.Path] = []

    def refused(options: object, folder: pathlib.Path) -> None:
        folders.append(folder)
        raise ConfigError("no")

    monkeypatch.setattr("rsl_rl_sac.cli.train.train", refused)
    with pytest.raises(SystemExit):
        main(["train", TASK])
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("rsl_rl_sac.cli.train.train", lambda options, folder: folders.append(folder))
    for _ in range(3):
        main(["train", TASK])
    assert [folder.name for folder in folders] == ["now", "now", "now_2", "now_3"]
    assert all(folder.is_dir() for folder in folders)


def test_start_of_the_first_counts(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many processes all begin with what the first has found: the run to start from may go on meanwhile."""
    settings: list[tuple[float, str]] = []

    def from_first(value: object) -> object:
        if isinstance(value, tuple):  # this is not the first
            cfg, _ = value
            cfg.algorithm.actor_learning_rate = 1e-5
            return cfg, "model_7.pt"
        return value

    def build(task: str, cfg: RunnerCfg, *_: object, start_from: str, **__: object) -> None:
        settings.append((cfg.algorithm.actor_learning_rate, start_from))
        raise ConfigError("That is enough.")

    monkeypatch.setattr(train, "from_first", from_first)
    monkeypatch.setattr(train, "Training", build)
    options = parse([TASK])
    options.start_from = "model_5.pt"
    with pytest.raises(ConfigError, match="That is enough"):
        train.train(options, tmp_path)
    assert settings == [(1e-5, "model_7.pt")]


@pytest.mark.parametrize("flag", ["--algorithm.class-name", "--actor.class-name"])
def test_classes_that_rsl_rl_does_not_know(flag: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture) -> None:
    """A typo in the name of a class of PPO's is told in one line, and leaves nothing behind."""
    with pytest.raises(SystemExit) as end:
        main(["train", TASK, "--agent", "ppo", "--num-envs", "2", flag, "PPOO", "--logs", str(tmp_path / "logs")])
    assert end.value.code == 2 and not (tmp_path / "logs").exists()
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"rsl-rl-sac: {flag[2:].replace('-', '_')} = 'PPOO' cannot be found")


def test_link_to_nowhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of runs on a disk that is not there is one line, not a search for a free name without end."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("logs").symlink_to(tmp_path / "missing" / "disk")
    with pytest.raises(SystemExit) as end:
        main(["train", TASK])
    errors = capsys.readouterr().err
    assert end.value.code == 2 and "logs" in errors and len(errors.splitlines()) == 1


def test_more_than_fits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Too many environments for the memory is one line that says what to lower."""
    monkeypatch.chdir(tmp_path)

    def too_many(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("rsl_rl_sac.locomotion.world.make_env", too_many)
    with pytest.raises(SystemExit) as end:
        main(["train", "Velocity-Flat-Unitree-Go1", "--num-envs", "1000000000"])
    errors = capsys.readouterr().err
    assert end.value.code == 2 and "not enough memory for the environments: lower num_envs" in errors
    assert list(tmp_path.iterdir()) == []


def test_compare_hands_options_on(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """Trainings of a comparison have the seed, and evaluate as often, as it was told."""
    commands: list[list[str]] = []

    def stop(command: list[str], **_: object) -> None:
        commands.append(command)
        raise KeyboardInterrupt

    monkeypatch.setattr("rsl_rl_sac.locomotion.comparison.share_cores", lambda count: [{0}, {0}])
    monkeypatch.setattr("rsl_rl_sac.locomotion.comparison.subprocess.Popen", stop)
    with pytest.raises(SystemExit):
        options = ["--evaluation-minutes", "2.5", "--first-seed", "3", "--fine-physics", "--folder", str(tmp_path)]
        main(["compare", TASK, *options])
    (command,) = commands
    assert "--no-coarse-physics" in command
    assert command[command.index("--seed") + 1] == "3"
    assert command[command.index("--evaluation-minutes") + 1] == "2.5"


def test_second_interrupt(
    tiny_runs: dict[str, pathlib.Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Who does not wait for the last score is told how to go on all the same."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rsl_rl_sac.cli.train.train", interrupted)
    with pytest.raises(SystemExit) as end:
        main(["train", "--resume", str(tiny_runs["sac"])])
    assert end.value.code == 130
    assert f"train Velocity-Flat-Unitree-Go1 --resume {tiny_runs['sac']}" in capsys.readouterr().out


def test_coarse_physics_elsewhere(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture) -> None:
    """What another world does not have is refused before anything is written."""
    with pytest.raises(SystemExit) as end:
        main(["train", "gym:Pendulum-v1", "--coarse-physics", "--folder", str(tmp_path / "run")])
    assert end.value.code == 2 and "coarse_physics is for tasks of the locomotion suite" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
