# SPDX-License-Identifier: BSD-3-Clause

"""What a training leaves in its folder beside checkpoints of the algorithm."""

from __future__ import annotations

import json
import pathlib
import struct
import subprocess

import pytest
import torch

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.envs.evaluation import EpisodeScore
from rsl_rl_sac.runners.curve import draw_curve, read_curve
from rsl_rl_sac.runners.provenance import LARGEST_DIFF, code_state, read_provenance, record_start
from rsl_rl_sac.runners.training import Training
from rsl_rl_sac.utils.checkpoint import (
    delete_leftovers,
    delete_older_checkpoints,
    find_checkpoints,
    save_atomically,
)
from rsl_rl_sac.utils.errors import CheckpointError
from rsl_rl_sac.utils.versions import installed_versions, is_newer_than_ours, package_version

Runs = dict[str, pathlib.Path]


def test_folder(tiny_runs: Runs) -> None:
    """Both algorithms leave the curve as a table and a picture, versions, and the best policy."""
    for folder in tiny_runs.values():
        assert {"curve.csv", "curve.png", "provenance.json", "model_best.pt"} <= {
            path.name for path in folder.iterdir()
        }
        (start,) = read_provenance(folder)
        assert start["versions"] == installed_versions() and start["versions"]["torch"] == torch.__version__
        header = (folder / "curve.png").read_bytes()[:24]
        width, height = struct.unpack(">II", header[16:])  # of the PNG
        assert header[:8] == b"\x89PNG\r\n\x1a\n" and width > height > 200


def test_last_checkpoints(tiny_runs: Runs) -> None:
    """PPO, told to keep two, has the last two of its three; SAC, told to keep all, has all."""
    assert [path.name for path in find_checkpoints(tiny_runs["ppo"])] == ["model_1.pt", "model_2.pt"]
    assert [path.name for path in find_checkpoints(tiny_runs["sac"])] == ["model_0.pt", "model_2.pt"]


def test_checkpoints_tell_of_the_run(tiny_runs: Runs) -> None:
    """A checkpoint knows its steps and its score."""
    for name, updates in (("sac", 2 * 2), ("ppo", 3 * 5)):
        infos = torch.load(tiny_runs[name] / "model_2.pt", weights_only=True)["infos"]
        last = read_curve(tiny_runs[name] / "curve.csv")[-1]
        assert infos["env_steps"] == 36 and infos["updates"] == updates and infos["seconds"] > 0.0
        assert infos["score"]["tracking"] == pytest.approx(last["tracking"], abs=1e-4)


class _Scripted:
    """A world whose evaluations return a list of numbers."""

    score_class = EpisodeScore

    def __init__(self, world: object, returns: list[float]) -> None:
        self.world, self.returns = world, list(returns)

    def evaluate(self, *_: object) -> EpisodeScore:
        return EpisodeScore(self.returns.pop(0), 1.0, 1)

    def training_log(self, env: object) -> dict[str, float]:
        return {}

    def training_columns(self, env: object) -> dict[str, float]:
        return self.world.training_columns(env)  # type: ignore[attr-defined]


def test_best_policy(tmp_path: pathlib.Path) -> None:
    """Of evaluations 9 (untrained), 1, 5, 3 the best policy is that of 5, after the second iteration."""
    cfg = RunnerCfg(num_envs=2, num_steps_per_env=2, max_iterations=3)
    cfg.actor.hidden_dims = cfg.critic.hidden_dims = [4]
    cfg.algorithm.num_mini_batches, cfg.algorithm.batch_size, cfg.algorithm.replay_size = 1, 4, 20
    training = Training("Velocity-Flat-Unitree-Go1", cfg, tmp_path, None, 1e-5, 1, 1)
    training.world = _Scripted(training.world, [9.0, 1.0, 5.0, 3.0])  # type: ignore[assignment]
    training.run()
    best = torch.load(training.best_path, weights_only=True)
    assert best["iter"] == 1 and best["infos"]["score"]["episode_return"] == 5.0
    assert "replay_token" not in best and find_checkpoints(tmp_path)[-1].name == "model_2.pt"


def test_starts_are_kept(tmp_path: pathlib.Path) -> None:
    """A second start is noted after the first; a damaged note does not stop a training."""
    record_start(tmp_path)
    record_start(tmp_path)
    first, second = json.loads((tmp_path / "provenance.json").read_text())
    assert first["versions"] == second["versions"] and isinstance(first["command"], list)
    (tmp_path / "provenance.json").write_text("{")
    record_start(tmp_path)
    assert len(read_provenance(tmp_path)) == 1


def test_code_state(tmp_path: pathlib.Path) -> None:
    """Commit, dirty flag and diff are those of the repository that tracks the file, and of no other."""

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        return subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True
        ).stdout.decode()

    file = tmp_path / "code.py"
    file.write_text("a = 1\n")
    git("init", "-q")
    assert code_state(file) == (None, "")  # no commit yet
    git("add", "code.py")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "HEAD").strip()
    assert code_state(file) == ({"commit": commit, "dirty": False}, "")
    file.write_text("a = 2\n")
    state, diff = code_state(file)
    assert state == {"commit": commit, "dirty": True} and "-a = 1" in diff and "+a = 2" in diff
    file.write_text("x" * (2 * LARGEST_DIFF))
    assert len(code_state(file)[1]) < LARGEST_DIFF + 100
    other = tmp_path / "installed.py"
    other.touch()
    assert code_state(other) == (None, "")


def test_older_checkpoints(tmp_path: pathlib.Path) -> None:
    """Of 0, 5, 10 and 20, with 10 just written, keeping two leaves 5 and 10, and 20, which is newer."""
    for iteration in (0, 5, 10, 20):
        save_atomically({}, tmp_path / f"model_{iteration}.pt")
    delete_older_checkpoints(tmp_path / "model_10.pt", 0)
    assert len(find_checkpoints(tmp_path)) == 4
    delete_older_checkpoints(tmp_path / "model_10.pt", 2)
    assert [path.name for path in find_checkpoints(tmp_path)] == ["model_5.pt", "model_10.pt", "model_20.pt"]


@pytest.mark.parametrize("damage", ["iteration,tracking\n0,0.2\n3", "iteration,tracking\n0,0.2,5\n", "iteration\nx\n"])
def test_damaged_curve(tmp_path: pathlib.Path, damage: str) -> None:
    """A curve that was cut off, or is something else, is named in one line."""
    path = tmp_path / "curve.csv"
    path.write_text(damage)
    with pytest.raises(CheckpointError, match=r"curve\.csv' is damaged"):
        read_curve(path)


def test_curve_of_another_version(tmp_path: pathlib.Path) -> None:
    """A curve with other columns than a run goes on with is named, and so are the columns."""
    path = tmp_path / "curve.csv"
    path.write_text("iteration,speed\n0,0.2\n")
    assert read_curve(path, ["speed", "iteration"]) == [{"iteration": 0.0, "speed": 0.2}]
    with pytest.raises(CheckpointError, match=r"another version of this package \(speed, tracking in one of them only"):
        read_curve(path, ["iteration", "tracking"])


def test_draws_what_there_is(tmp_path: pathlib.Path) -> None:
    """A curve of another world, without tracking, is drawn as well, narrower."""
    row = {"env_steps": 1.0, "episode_return": 2.0, "episode_length": 3.0}
    draw_curve(tmp_path / "two.png", [row])
    draw_curve(tmp_path / "three.png", [row | {"tracking": 0.5}])
    two, three = (struct.unpack(">I", (tmp_path / name).read_bytes()[16:20])[0] for name in ("two.png", "three.png"))
    assert three == pytest.approx(1.5 * two, rel=0.01)


@pytest.mark.parametrize(("other", "newer"), [("99.0", True), ("0.0.1", False), ("", False), ("nonsense", False)])
def test_newer_versions(other: str, newer: bool) -> None:
    """Only a version above ours is newer; what is no version is not."""
    assert is_newer_than_ours(other) is newer and not is_newer_than_ours(package_version())


def test_changes_that_are_no_text(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed file in another encoding than UTF-8 is noted with its bytes, which Git's output has as they are."""
    changes = b"+caf\xe9\n".decode(errors="surrogateescape")
    monkeypatch.setattr("rsl_rl_sac.runners.provenance.code_state", lambda _: ({"commit": "a", "dirty": True}, changes))
    record_start(tmp_path)
    assert (tmp_path / "git.diff").read_bytes() == b"+caf\xe9\n"


def test_replays_of_no_checkpoint(tmp_path: pathlib.Path) -> None:
    """What was written before a checkpoint that never came is deleted; what belongs to one is not."""
    kept = ["model_0.5.ab.replay.pt", "model_0.5.pt"]
    kept += ["model_1.ab.rank1.replay.pt", "model_1.ab.replay.pt", "model_1.pt", "model_best.pt"]
    for name in (*kept, "model_2.cd.replay.pt", "model_2.cd.rank1.replay.pt", ".model_2.pt.ef.tmp"):
        (tmp_path / name).touch()
    delete_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == kept
