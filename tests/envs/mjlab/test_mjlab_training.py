# SPDX-License-Identifier: BSD-3-Clause

"""mjlab's own train and play commands with SAC, and mjlab's tasks in ours."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

pytest.importorskip("mjlab")

import onnx
import onnxruntime
from mjlab.rl import RslRlBaseRunnerCfg, RslRlVecEnvWrapper
from mjlab.scripts import play, train
from mjlab.tasks.registry import list_tasks, load_env_cfg, load_rl_cfg, register_mjlab_task

from rsl_rl_sac.cli import main
from rsl_rl_sac.envs.mjlab import MjlabVecEnv, MjlabWorld
from rsl_rl_sac.runners.mjlab_runner import MjlabRunner
from rsl_rl_sac.utils.errors import ConfigError
from tests.envs.mjlab.helpers import EPISODE_STEPS, GO1, make_env

SMALL = {
    "num-mini-batches": 2,
    "batch-size": 16,
    "replay-size": 2000,
    "n-step": 3,
}
"""Settings of the algorithm that train in a moment."""


@pytest.fixture(autouse=True)
def _no_gpu_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget which GPU mjlab's command chose for its process."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def run_train(monkeypatch: pytest.MonkeyPatch, logs: Path, *flags: str) -> Path:
    """Run mjlab's ``train`` for three iterations of four steps; return the folder of the newest run."""
    agent = {f"--agent.algorithm.{name}": str(value) for name, value in SMALL.items()}
    agent |= {f"--agent.{net}.hidden-dims": "[16,16]" for net in ("actor", "critic")}
    agent |= {"--agent.num-steps-per-env": "4", "--agent.max-iterations": "3", "--agent.save-interval": "2"}
    setup = {"--gpu-ids": "None", "--env.scene.num-envs": "3", "--log-root": str(logs), "--env.episode-length-s": "0.1"}
    words = [word for pair in (agent | setup).items() for word in pair]
    monkeypatch.setattr(sys, "argv", ["train", f"{GO1}-SAC", *words, *flags])
    train.main()
    return sorted((logs / "go1_velocity_sac").iterdir())[-1]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run that mjlab's ``train`` made."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        return run_train(monkeypatch, tmp_path_factory.mktemp("logs"))


def test_every_velocity_task_has_a_twin() -> None:
    """The entry point shows mjlab the twins; they differ from its own tasks by runner and settings only."""
    robots = ("Unitree-G1", "Unitree-Go1")
    tasks = [f"Mjlab-Velocity-{ground}-{robot}" for ground in ("Flat", "Rough") for robot in robots]
    assert {f"{task}-SAC" for task in tasks} <= set(list_tasks())
    for task in tasks:
        assert load_env_cfg(f"{task}-SAC").rewards == load_env_cfg(task).rewards
        scale = load_rl_cfg(f"{task}-SAC").algorithm.target_entropy_scale
        assert scale == (0.5 if task.endswith("G1") else 0.167)  # Table C1


def test_train_writes_checkpoints(trained: Path) -> None:
    """Three iterations with an interval of two: the first and the last; the curricula's clock stands at 12 steps."""
    assert sorted(path.name for path in trained.glob("*.pt")) == ["model_0.pt", "model_2.pt"]
    state = torch.load(trained / "model_2.pt", weights_only=True)
    assert state["counters"]["num_updates"] == 4  # the first iteration only collects
    assert state["infos"]["env_state"] == {"common_step_counter": 12}


def test_resume(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flag --agent.resume goes on after the last iteration: three more, and 12 more steps."""
    folder = run_train(monkeypatch, trained.parent.parent, "--agent.resume", "True", "--agent.load-run", trained.name)
    state = torch.load(folder / "model_5.pt", weights_only=True)
    assert state["counters"]["num_updates"] == 8  # the first iteration fills the replay, which is not saved
    assert state["infos"]["env_state"] == {"common_step_counter": 24}


def test_export_has_the_metadata_and_the_policy(trained: Path) -> None:
    """The ONNX file names the joints in mjlab's way and acts as the policy of the last checkpoint does."""
    model = onnx.load(trained / f"{trained.name}.onnx")
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    joints = [f"{leg}_{joint}_joint" for leg in ("FR", "FL", "RR", "RL") for joint in ("hip", "thigh", "calf")]
    assert metadata["joint_names"].split(",") == joints
    assert metadata["action_scale"].split(",") == ["0.373", "0.373", "0.249"] * 4
    assert metadata["default_joint_pos"].split(",")[:6] == ["0.100", "0.900", "-1.800", "-0.100", "0.900", "-1.800"]

    env, runner = make_player(trained)
    policy = runner.get_inference_policy("cpu")
    obs = env.get_observations()
    session = onnxruntime.InferenceSession(str(trained / f"{trained.name}.onnx"))
    for row in range(env.num_envs):
        (action,) = session.run(None, {session.get_inputs()[0].name: obs["actor"][row : row + 1].numpy()})
        torch.testing.assert_close(torch.tensor(action), policy(obs[row : row + 1]).detach(), rtol=1e-4, atol=1e-5)


def small_networks(task: str) -> RslRlBaseRunnerCfg:
    """Return the configuration of a task with the networks of the tests."""
    cfg = load_rl_cfg(task)
    cfg.actor.hidden_dims = cfg.critic.hidden_dims = [16, 16]
    return cfg


def make_player(folder: Path) -> tuple[MjlabVecEnv, MjlabRunner]:
    """Build a runner as mjlab's ``play`` does."""
    env = make_env(GO1, num_envs=2)
    runner = MjlabRunner(env.env, asdict(small_networks(f"{GO1}-SAC")))
    runner.load(str(folder / "model_2.pt"), load_cfg={"actor": True}, strict=True, map_location="cpu")
    return env, runner


def test_a_player_holds_no_replay(trained: Path) -> None:
    """To play takes six steps of two environments and not five million transitions; such a runner does not train."""
    env, runner = make_player(trained)
    assert runner.alg.storage.num_steps == 6
    assert env.unwrapped.common_step_counter == 12  # curricula are where they were
    with pytest.raises(ConfigError, match="log_dir"):
        runner.learn(1)


def test_play(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ``play`` loads the policy and steps past the end of an episode."""
    dones = []

    class Viewer:
        def __init__(self, env: RslRlVecEnvWrapper, policy: Callable[..., torch.Tensor], **_: object) -> None:
            self.env, self.policy = env, policy

        def run(self) -> None:
            env = self.env
            env.episode_length_buf[:] = env.max_episode_length - 2
            dones.extend(env.step(self.policy(env.get_observations()))[2].tolist() for _ in range(4))

    monkeypatch.setattr(play, "ViserPlayViewer", Viewer)
    monkeypatch.setattr(play, "load_rl_cfg", small_networks)
    checkpoint = str(trained / "model_2.pt")
    flags = ["--checkpoint-file", checkpoint, "--num-envs", "2", "--viewer", "viser", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["play", f"{GO1}-SAC", *flags])
    play.main()
    assert dones == [[0, 0], [1, 1], [0, 0], [0, 0]]


@pytest.fixture(scope="module")
def short_task() -> str:
    """A task of mjlab with short episodes."""
    cfg = load_env_cfg(GO1)
    cfg.episode_length_s = EPISODE_STEPS * 0.02
    name = f"{GO1}-Short"
    register_mjlab_task(name, cfg, cfg, load_rl_cfg(GO1))
    return name


def test_evaluation_repeats(short_task: str) -> None:
    """Two evaluations of one policy meet the same episodes and leave the generators of training alone."""
    world = MjlabWorld()
    env = world.make_evaluation_env(short_task, 2)
    generator = torch.get_rng_state()
    scores = [world.evaluate(lambda obs: 0.1 * obs["actor"][:, :12], env) for _ in range(2)]
    assert scores[0] == scores[1] and scores[0].num_episodes == 2
    assert torch.equal(torch.get_rng_state(), generator)


def test_our_command(short_task: str, tmp_path: Path) -> None:
    """``rsl-rl-sac train mjlab:TASK`` trains, scores and saves what mjlab's ``play`` can load."""
    flags = {f"--algorithm.{name}": str(value) for name, value in SMALL.items()}
    flags |= {"--num-envs": "2", "--num-steps-per-env": "4", "--max-iterations": "3", "--evaluation-envs": "2"}
    words = [word for pair in flags.items() for word in pair]
    hidden = [word for net in ("actor", "critic") for word in (f"--{net}.hidden-dims", "16", "16")]
    main(["train", f"mjlab:{short_task}", "--folder", str(tmp_path), "--evaluation-minutes", "0", *words, *hidden])
    with (tmp_path / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["env_steps"]) for row in rows] == [0.0, 24.0]
    make_player(tmp_path)  # what mjlab's play does with the last checkpoint


def test_unknown_task() -> None:
    """A typo is answered with the nearest name."""
    with pytest.raises(ConfigError, match=f"mjlab has no task '{GO1[:-1]}'. Did you mean '{GO1}'"):
        MjlabWorld().check_task(GO1[:-1])
