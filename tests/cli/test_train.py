# SPDX-License-Identifier: BSD-3-Clause

"""``rsl-rl-sac train`` and ``compare``: options, messages, exit codes."""

from __future__ import annotations

import pathlib

import pytest

from rsl_rl_sac.cli import main
from rsl_rl_sac.cli.train import parse
from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.ppo_config import PPORunnerCfg

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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "no verb 'trian'. Did you mean 'train'?"),
        (["train", "Velocity-Flat-Unitree-G2"], "There is no task 'Velocity-Flat-Unitree-G2'"),
        (["train", TASK, "--preset", "gpu"], "Unknown preset 'gpu'"),
        (["train", TASK, "--agent", "dqn"], "There is no agent 'dqn'"),
        (["train", TASK, "--resume", "nowhere"], "nothing to resume in 'nowhere'"),
        (["compare", "Velocity-Flat-Unitree-G2"], "There is no task 'Velocity-Flat-Unitree-G2'"),
        (["compare", TASK, "--seeds", "0"], "at least one seed"),
    ],
)
def test_bad_input(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
) -> None:
    """One message on the error output, exit code 1, and nothing on the disk."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert exit_info.value.code == 1
    errors = capsys.readouterr().err
    assert message in errors and len(errors.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_trains(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """A short training leaves its folder with configuration, curve and checkpoint, and prints the score."""
    monkeypatch.chdir(tmp_path)
    small = ["--num-envs", "4", "--max-iterations", "3", "--algorithm.batch-size", "16", "--evaluation-envs", "2"]
    small += ["--algorithm.num-mini-batches", "1", "--actor.hidden-dims", "8", "--critic.hidden-dims", "8"]
    main(["train", "Velocity-Flat-Unitree-Go1", "--name", "short", *small])
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
