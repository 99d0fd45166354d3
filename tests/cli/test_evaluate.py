# SPDX-License-Identifier: BSD-3-Clause

"""``rsl-rl-sac evaluate`` for tasks of Gymnasium: the numbers of the learning curve, side by side, messages."""

from __future__ import annotations

import json
import pathlib

import pytest

from rsl_rl_sac.cli import main
from rsl_rl_sac.runners.curve import read_curve

TASK = "gym:Pendulum-v1"
SMALL = ["--max-iterations", "3", "--num-envs", "2", "--num-steps-per-env", "8", "--evaluation-envs", "3"]
SMALL += ["--actor.hidden-dims", "8", "--critic.hidden-dims", "8", "--algorithm.num-mini-batches", "1"]
SAC_ALONE = ["--algorithm.training-start-iteration", "1", "--algorithm.batch-size", "8"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Train SAC and PPO for a moment, PPO last; return the folder of all runs."""
    logs = tmp_path_factory.mktemp("gym") / "logs"
    for agent, flags in (("sac", SAC_ALONE), ("ppo", ["--actor.obs-normalization"])):
        folder = str(logs / "gym-Pendulum-v1" / agent)
        main(["train", TASK, "--agent", agent, *SMALL, *flags, "--folder", folder])
    return logs


@pytest.mark.parametrize("agent", ["sac", "ppo"])
def test_numbers_of_the_curve(agent: str, runs: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As many episodes as in training are the same episodes: the last score of the learning curve comes out again."""
    folder = runs / "gym-Pendulum-v1" / agent
    main(["evaluate", str(folder), "--episodes", "3"])
    printed = capsys.readouterr().out.splitlines()
    numbers = json.loads((folder / "model_2.pt.evaluation.json").read_text())
    last = read_curve(folder / "curve.csv")[-1]
    returns = numbers["episodes"]["returns"]
    assert numbers["total"]["episode_return"] == pytest.approx(last["episode_return"], rel=1e-5)
    assert numbers["total"]["episode_return"] == pytest.approx(sum(returns) / 3) and len(set(returns)) == 3
    assert numbers["total"]["episode_length"] == 200 == last["episode_length"]
    assert numbers["total"]["survival"] == 1.0 and numbers["episodes"]["survived"] == [True] * 3
    assert numbers["task"] == TASK and numbers["training"]["env_steps"] == 48 and "torch" in numbers["versions"]
    assert printed[0].startswith(f"{TASK}, {agent.upper()}, {folder / 'model_2.pt'}, 0.0 k steps in ")
    assert printed[2].split() == ["Episodes", "Return", "Spread", "Length", "Survival"]
    row = printed[3].split()
    assert row[:2] == ["3", f"{numbers['total']['episode_return']:.2f}"] and row[3:] == ["200.0", "1.00"]


def test_side_by_side(runs: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Policies meet the same episodes, so nothing is between one and itself; a task means its newest run."""
    folder = runs / "gym-Pendulum-v1"
    main(["evaluate", TASK, str(folder / "ppo"), str(folder / "sac"), "--logs", str(runs), "--episodes", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert [line[:3] for line in lines[:3]] == ["A  ", "B  ", "C  "] and "/ppo/model_2.pt" in lines[0]
    (same,) = [line for line in lines if line.startswith("B - A")]
    assert same.endswith("returns +0.00 ± 0.00, lengths +0.0 ± 0.0, survived +0.00 ± 0.00")
    (other,) = [line for line in lines if line.startswith("C - A")]
    means = [
        json.loads((folder / agent / "model_2.pt.evaluation.json").read_text())["total"]["episode_return"]
        for agent in ("sac", "ppo")
    ]
    assert f"returns {means[0] - means[1]:+.2f} ± " in other and means[0] != means[1]


@pytest.mark.parametrize(
    ("verb", "flags", "message"),
    [
        ("evaluate", ["--episodes", "0"], "--episodes must be at least 1, got 0"),
        ("evaluate", ["--task", "gym:Acrobot-v1"], "is of the task gym:Pendulum-v1, not gym:Acrobot-v1"),
        ("play", [], "Only policies of the locomotion suite can be loaded here, this is one of gym:Pendulum-v1"),
        ("export", [], "Only policies of the locomotion suite can be loaded here, this is one of gym:Pendulum-v1"),
    ],
)
def test_bad_input(
    verb: str, flags: list[str], message: str, runs: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line and exit code 2, and nothing is written."""
    folder = runs / "gym-Pendulum-v1" / "sac"
    before = set(folder.iterdir())
    with pytest.raises(SystemExit) as exit_info:
        main([verb, str(folder), *flags])
    errors = capsys.readouterr().err.strip().splitlines()
    assert exit_info.value.code == 2 and len(errors) == 1 and message in errors[0]
    assert set(folder.iterdir()) == before


def test_other_sizes(runs: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A checkpoint beside the configuration of a task with other observations is one line."""
    config = (runs / "gym-Pendulum-v1" / "sac" / "config.yaml").read_text()
    (tmp_path / "config.yaml").write_text(config.replace(TASK, "gym:MountainCarContinuous-v0"))
    (tmp_path / "model_2.pt").write_bytes((runs / "gym-Pendulum-v1" / "sac" / "model_2.pt").read_bytes())
    with pytest.raises(SystemExit) as exit_info:
        main(["evaluate", str(tmp_path)])
    errors = capsys.readouterr().err.strip().splitlines()
    assert exit_info.value.code == 2 and len(errors) == 1 and "is of the task gym:Pendulum-v1" in errors[0]


def test_info(runs: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Scores of other worlds are called what they are, once."""
    main(["info", str(runs / "gym-Pendulum-v1" / "sac")])
    (last,) = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("last score")]
    score = read_curve(runs / "gym-Pendulum-v1" / "sac" / "curve.csv")[-1]["episode_return"]
    assert last == ["last", "score", "return", f"{score:.3f}"]
