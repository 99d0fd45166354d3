# SPDX-License-Identifier: BSD-3-Clause

"""The evaluation rule."""

from __future__ import annotations

import json
import pathlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rsl_rl_sac.locomotion import make_env, register_robot, registry, tasks
from rsl_rl_sac.locomotion.evaluation import evaluate, make_evaluation_env
from rsl_rl_sac.locomotion.tasks import VelocityTaskCfg
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv
from rsl_rl_sac.utils.errors import ConfigError

FLAT, ROUGH = "Velocity-Flat-Unitree-Go1", "Velocity-Rough-Unitree-Go1"


class Recorder:
    """A policy that stands, or thrashes where it is told to, and notes the commands it sees."""

    def __init__(self, env: VelocityEnv, thrashing: list[int]) -> None:
        self.env, self.thrashing = env, thrashing
        self.generator = torch.Generator().manual_seed(0)
        self.commands: list[np.ndarray] = []

    def __call__(self, obs: TensorDict) -> torch.Tensor:
        """Act."""
        self.commands.append(obs["policy"][:, 9:12].numpy().copy())
        actions = torch.zeros(self.env.num_envs, self.env.num_actions)
        noise = torch.randn(len(self.thrashing), self.env.num_actions, generator=self.generator)
        actions[self.thrashing] = 8.0 * noise
        return actions


def short(task: str, num_envs: int) -> VelocityEnv:
    """Make environments whose episodes take 3 s, with a command each second."""
    env = make_evaluation_env(task, num_envs)
    env.max_episode_length = 150
    env.commands.resampling_steps = 50
    return env


def test_standing_robots_by_hand() -> None:
    """Standing still tracks exp(-|c|^2 / 0.25) with the tracking terms of a plain environment's own step."""
    env = short(FLAT, 6)
    score = evaluate(Recorder(env, []), env)
    assert (score.survival, score.episode_length, score.num_episodes) == (1.0, 150.0, 6)
    policy = Recorder(env, [])
    evaluate(policy, env)
    # Robots settle within the first tenths of a second; from then on their velocities are nearly zero.
    commands = np.stack(policy.commands[15:])
    linear = np.exp(-np.square(commands[..., :2]).sum(-1) / 0.25).mean()
    angular = np.exp(-np.square(commands[..., 2]) / 0.25).mean()
    assert score.tracking_lin == pytest.approx(linear, abs=0.05)
    assert score.tracking_ang == pytest.approx(angular, abs=0.05)
    assert score.tracking == pytest.approx((score.tracking_lin + score.tracking_ang) / 2)


def test_repeats_exactly() -> None:
    """The same policy on the same environments has the same score, whatever they did before."""
    env = short(ROUGH, 4)
    first = evaluate(Recorder(env, [1]), env)
    evaluate(Recorder(env, [0, 1, 2, 3]), env)
    assert evaluate(Recorder(env, [1]), env) == first
    assert evaluate(Recorder(short(ROUGH, 4), [1]), short(ROUGH, 4)).episode_return == pytest.approx(
        first.episode_return
    )


def test_falls_of_others_change_no_command() -> None:
    """A robot meets the same commands whether others fall or not."""
    env = short(FLAT, 5)
    calm, wild = Recorder(env, []), Recorder(env, [0, 2])
    evaluate(calm, env)
    score = evaluate(wild, env)
    assert score.survival == pytest.approx(0.6), "the thrashing robots must fall for this test to mean anything"
    for before, after in zip(calm.commands, wild.commands, strict=False):
        assert np.allclose(before[[1, 3, 4], :2], after[[1, 3, 4], :2])
    assert not np.allclose(calm.commands[10][1], calm.commands[120][1])


def test_after_a_fall_nothing_counts() -> None:
    """Length, return and tracking of a fallen robot end with its first episode."""
    env = short(FLAT, 3)
    policy = Recorder(env, [0, 1, 2])
    returns, tracking, lengths, running = np.zeros(3), np.zeros((3, 2)), np.zeros(3), np.ones(3, dtype=bool)
    original = env.step

    def step(actions: torch.Tensor) -> tuple:
        result = original(actions)
        columns = [env.rewards.names.index(name) for name in ("track_lin_vel_xy_exp", "track_ang_vel_z_exp")]
        returns[running] += result[1].numpy()[running]
        tracking[running] += env.rewards.last[running][:, columns] / np.array([1.5 * 0.02, 0.75 * 0.02])
        lengths[running] += 1
        running[result[2].numpy()] = False
        return result

    env.step = step  # type: ignore[method-assign]
    score = evaluate(policy, env)
    assert score.survival == 0.0
    assert score.episode_length == pytest.approx(lengths.mean()) and lengths.max() < 150
    assert score.episode_return == pytest.approx(returns.mean())
    assert score.tracking_lin == pytest.approx(tracking[:, 0].mean() / 150)
    assert score.tracking_ang == pytest.approx(tracking[:, 1].mean() / 150)


def test_nothing_to_score(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task whose rewards do not tell how well it tracks is refused before it is trained for nothing."""
    monkeypatch.setattr(registry, "ROBOTS", dict(registry.ROBOTS))

    def without_turning(robot: str, rough: bool) -> VelocityTaskCfg:
        cfg = tasks.unitree_quadruped(robot, rough)
        return replace(cfg, rewards={name: term for name, term in cfg.rewards.items() if "ang_vel_z" not in name})

    data = json.loads((pathlib.Path(registry.__file__).parent / "robots" / "unitree_go1.json").read_text())
    path = tmp_path / "robot.json"
    path.write_text(json.dumps({**data, "name": "straight"}))
    register_robot("Straight", path, without_turning)
    with pytest.raises(ConfigError, match="cannot be scored: its rewards lack track_ang_vel_z_exp,"):
        make_evaluation_env("Velocity-Flat-Straight", 2)


def test_no_noise_no_pushes_no_curriculum() -> None:
    """The environments of an evaluation are quiet, and none of training's."""
    env = make_evaluation_env("Velocity-Rough-Anymal-D", 40)
    assert np.isinf(env.pushes.time_left).all()
    assert not env.task.observation_noise and not env.task.curriculum
    assert env.levels is not None and env.levels.levels.max() > 5
    with pytest.raises(ConfigError, match="make_evaluation_env"):
        evaluate(Recorder(env, []), make_env(FLAT, 2))
