# SPDX-License-Identifier: BSD-3-Clause

"""Training on the suite: curve, clock, resume, and what is refused."""

from __future__ import annotations

import pathlib
import signal
import tracemalloc

import pytest
import torch

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.locomotion import VelocityEnv
from rsl_rl_sac.locomotion.evaluation import Score
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.runners import training as training_module
from rsl_rl_sac.runners.curve import read_curve
from rsl_rl_sac.runners.training import Progress, Training, _rsl_rl_quiet, split_cores
from rsl_rl_sac.utils import ConfigError
from rsl_rl_sac.utils.checkpoint import find_checkpoints

TASK = "Velocity-Flat-Unitree-Go1"


def make_cfg(iterations: int = 6) -> RunnerCfg:
    """Return a configuration that runs in a moment."""
    cfg = RunnerCfg(num_envs=8, num_steps_per_env=4, max_iterations=iterations, overlap=True)
    cfg.actor.hidden_dims = cfg.critic.hidden_dims = [16]
    algorithm = cfg.algorithm
    algorithm.num_mini_batches, algorithm.batch_size, algorithm.replay_size = 3, 32, 1000
    algorithm.n_step, algorithm.save_replay = 2, True
    return cfg


def make_training(folder: pathlib.Path, cfg: RunnerCfg | PPORunnerCfg, **options: object) -> Training:
    """Build a training with small evaluations."""
    return Training(TASK, cfg, folder, evaluation_envs=2, num_cores=1, **options)  # type: ignore[arg-type]


def test_curve_and_progress(tmp_path: pathlib.Path) -> None:
    """The curve has the initial policy and the end; steps, gradient steps and shares are what the settings say."""
    seen: list[Progress] = []
    training = make_training(tmp_path, make_cfg(), listener=lambda progress: seen.append(Progress(**vars(progress))))
    score = training.run()
    first, last = read_curve(training.curve_path)
    assert first["env_steps"] == 0 and first["iteration"] == 0 and first["seconds"] == 0.0
    # 6 iterations of 4 steps of 8 environments; the first only fills the replay, and the second has data of the first.
    assert last["iteration"] == 6 and last["env_steps"] == 192 and last["updates"] == 5 * 3
    assert last["tracking"] == pytest.approx(score.tracking, abs=1e-4) and 0.0 < score.tracking < 1.0
    assert [progress.iteration for progress in seen] == [0, 1, 2, 3, 4, 5, 6]
    assert [progress.updates for progress in seen] == [0, 0, 3, 6, 9, 12, 15]
    assert [progress.budget for progress in seen[1:]] == pytest.approx([k / 6 for k in range(1, 7)])
    assert [progress.scored_now for progress in seen] == [True] + [False] * 5 + [True]
    assert last["cpu_seconds"] > 0.0 and last["seconds"] > 0.0


def test_stop_and_resume_equals_straight(tmp_path: pathlib.Path) -> None:
    """Stopped after 3 iterations and resumed, the weights are bit for bit those of a run that was not."""
    straight = make_training(tmp_path / "straight", make_cfg())
    straight.run()

    def stop(progress: Progress) -> None:
        first.stop_requested = progress.iteration == 3

    first = make_training(tmp_path / "first", make_cfg(), listener=stop)
    first.run()
    assert first.progress.iteration == 3
    seconds = first.progress.seconds
    resumed = make_training(tmp_path / "first", make_cfg())
    assert resumed.progress.iteration == 3 and resumed.progress.seconds == pytest.approx(seconds)
    resumed.run()
    assert resumed.progress.iteration == 6 and resumed.progress.seconds > seconds
    for one, other in zip(straight.runner.alg.actor.parameters(), resumed.runner.alg.actor.parameters(), strict=True):
        assert torch.equal(one, other)
    assert [row["iteration"] for row in read_curve(resumed.curve_path)] == [0, 3, 6]


def test_interrupt_while_processes_agree(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C that comes while this process waits to hear whether another one stops ends the next iteration."""
    training = make_training(tmp_path, make_cfg())

    def gather(value: float | bool) -> list[float | bool]:
        if value is False and training.progress.iteration == 2:
            signal.raise_signal(signal.SIGINT)
        return [value]

    monkeypatch.setattr(training_module, "gather", gather)
    training.run()
    assert training.stop_requested and training.progress.iteration == 3


def test_finished_run_is_left_alone(tmp_path: pathlib.Path) -> None:
    """A run that has made all its iterations returns its score without training."""
    score = make_training(tmp_path, make_cfg(2)).run()
    files = sorted(path.name for path in find_checkpoints(tmp_path))
    again = make_training(tmp_path, make_cfg(2))
    assert again.run().tracking == pytest.approx(score.tracking, abs=1e-4)
    assert sorted(path.name for path in find_checkpoints(tmp_path)) == files


def test_minutes_end_a_run(tmp_path: pathlib.Path) -> None:
    """A run for a hundredth of a second ends after one iteration, evaluated and saved."""
    training = make_training(tmp_path, make_cfg(1000), minutes=0.01 / 60.0)
    training.run()
    assert training.progress.iteration == 1 and training.progress.budget == 1.0
    assert (tmp_path / "model_0.pt").exists() and read_curve(training.curve_path)[-1]["iteration"] == 1


def test_a_score_ends_a_run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first evaluation that reaches the score is the last; that of the untrained policy does not count."""
    options = {"evaluation_minutes": 1e-9, "until": 0.5}
    training = make_training(tmp_path, make_cfg(1000), **options)
    scores = [Score(1.0, 100.0, 2, tracking, 0.0, 0.0, 1.0) for tracking in (0.9, 0.4, 0.5, 0.6)]
    monkeypatch.setattr(training.world, "evaluate", lambda *_: scores.pop(0))
    assert training.run().tracking == 0.5
    assert [row["tracking"] for row in read_curve(training.curve_path)] == [0.9, 0.4, 0.5]
    assert find_checkpoints(tmp_path)[-1].name == "model_1.pt"
    assert make_training(tmp_path, make_cfg(1000), **options).is_over()
    assert not make_training(tmp_path, make_cfg(1000), evaluation_minutes=1e-9, until=0.51).is_over()


def test_evaluation_does_not_change_training(tmp_path: pathlib.Path) -> None:
    """Evaluating after every iteration or never gives the same weights."""
    runs = []
    for every in (1e-9, 0.0):
        runs.append(make_training(tmp_path / str(every), make_cfg(3), evaluation_minutes=every))
        runs[-1].run()
    assert len(read_curve(runs[0].curve_path)) == 4 and len(read_curve(runs[1].curve_path)) == 2
    one, other = (training.runner.alg.actor.mlp[0].weight for training in runs)
    assert torch.equal(one, other)


def test_ppo(tmp_path: pathlib.Path) -> None:
    """rsl_rl's PPO trains, is scored by the same rule and goes on where it was."""
    cfg = PPORunnerCfg(num_envs=8, num_steps_per_env=4, max_iterations=2)
    cfg.actor.hidden_dims = cfg.critic.hidden_dims = [16]
    training = make_training(tmp_path, cfg)
    training.run()
    assert training.progress.updates == 2 * 5 * 4 and training.progress.env_steps == 64
    cfg.max_iterations = 3
    more = make_training(tmp_path, cfg)
    more.run()
    assert [row["iteration"] for row in read_curve(more.curve_path)] == [0, 2, 3]


def test_training_columns_are_means(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the world measures in training is averaged over the iterations since the last evaluation."""
    seen: list[float] = []
    training = make_training(tmp_path, make_cfg(4), evaluation_minutes=0.0)
    training.listener = lambda progress: seen.append(progress.training_columns.get("measured", -1.0))
    measured = iter([0.5, 1.0, 3.0, 6.0, 2.5])  # the first before any iteration
    monkeypatch.setattr(training.world, "training_columns", lambda env: {"measured": next(measured)})
    training.run()
    assert seen == pytest.approx([-1.0, 1.0, 2.0, 10.0 / 3.0, 12.5 / 4.0])
    assert [row["measured"] for row in read_curve(training.curve_path)] == [0.5, 3.125]


def test_silenced_output_is_not_kept() -> None:
    """What rsl_rl prints in a training, 2 KB an iteration, takes no memory."""
    tracemalloc.start()
    try:
        with _rsl_rl_quiet():
            for _ in range(100):
                print("x" * 100_000)
            kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000


def test_cores_are_split() -> None:
    """Physics and learning get all cores in turn, or half of them each at the same time, never none."""
    assert split_cores(2, overlap=False) == (2, 2)
    assert split_cores(2, overlap=True) == (1, 1)
    assert split_cores(1, overlap=True) == (1, 1)
    assert split_cores(5, overlap=True) == (3, 2)


def test_no_time(tmp_path: pathlib.Path) -> None:
    """A training time of zero is refused before anything is written."""
    with pytest.raises(ConfigError, match="must be positive"):
        make_training(tmp_path / "run", make_cfg(), minutes=0.0)
    assert not (tmp_path / "run").exists()


def test_coarse_physics(tmp_path: pathlib.Path) -> None:
    """Training takes two physics steps of 0.01 s, the evaluation four of 0.005 s; both control at 50 Hz."""
    cfg = make_cfg(2)
    cfg.coarse_physics = True
    training = make_training(tmp_path, cfg)
    assert isinstance(training.env, VelocityEnv) and isinstance(training.evaluation_env, VelocityEnv)
    settings = [
        (env.physics.decimation, env.physics.model.opt.timestep, env.step_dt, env.max_episode_length)
        for env in (training.env, training.evaluation_env)
    ]
    assert settings == [(2, 0.01, 0.02, 1000), (4, 0.005, 0.02, 1000)]
    training.run()
    assert training.progress.env_steps == 64


def test_coarse_physics_elsewhere(tmp_path: pathlib.Path) -> None:
    """Other worlds have no such choice."""
    cfg = make_cfg()
    cfg.coarse_physics = True
    with pytest.raises(ConfigError, match="coarse_physics is for tasks of the locomotion suite"):
        Training("gym:Pendulum-v1", cfg, tmp_path)
