# SPDX-License-Identifier: BSD-3-Clause

"""Stepping and learning at the same time, with an outcome that does not depend on who is faster."""

from __future__ import annotations

import pathlib
import time
from concurrent.futures import Future

import pytest
import torch
from tensordict import TensorDict

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.models import Actor
from rsl_rl_sac.runners import OffPolicyRunner
from rsl_rl_sac.runners.collector import Collector
from tests.helpers import small_cfg


def first_weight(actor: Actor) -> torch.Tensor:
    """Return a copy of the first layer's weights."""
    return next(actor.mlp.parameters()).detach().clone()


class Slow(DoubleIntegrator):
    """An environment that takes longer than the learner."""

    def step(self, actions: torch.Tensor) -> tuple:
        """Step and rest."""
        time.sleep(0.01)
        return super().step(actions)


class Reusing(DoubleIntegrator):
    """An environment that writes every step into the same memory."""

    def step(self, actions: torch.Tensor) -> tuple:
        """Step into the same tensors."""
        fresh = super().step(actions)
        if not hasattr(self, "_memory"):
            self._memory = fresh
        obs, rewards, dones, extras = self._memory
        obs["policy"].copy_(fresh[0]["policy"])
        rewards.copy_(fresh[1])
        dones.copy_(fresh[2])
        extras["time_outs"].copy_(fresh[3]["time_outs"])
        if "final_obs" in extras and "final_obs" in fresh[3]:
            extras["final_obs"]["policy"].copy_(fresh[3]["final_obs"]["policy"])
        return self._memory


def make_runner(env_class: type[DoubleIntegrator] = DoubleIntegrator, overlap: bool = True) -> OffPolicyRunner:
    """Build a runner that overlaps."""
    cfg: RunnerCfg = small_cfg(save_replay=True, training_start_iteration=1)
    cfg.overlap = overlap
    env = env_class(num_envs=16, max_episode_length=15, failure_position=1.2)
    return OffPolicyRunner(env, cfg.to_dict())


def weights(runner: OffPolicyRunner) -> torch.Tensor:
    """Return all weights as one vector."""
    modules = (runner.alg.actor, runner.alg.critic, runner.alg.target_critic)
    return torch.cat([parameter.detach().flatten() for module in modules for parameter in module.parameters()])


def collect_before_learning(collector: Collector, obs: TensorDict, num_steps: int) -> Future:
    """Collect at once, in the thread of the learner, before it learns: the schedule without concurrency."""
    future: Future = Future()
    future.set_result(collector._collect(obs, num_steps))
    return future


@pytest.mark.parametrize("env_class", [DoubleIntegrator, Slow, Reusing])
def test_equals_the_schedule_without_threads(
    env_class: type[DoubleIntegrator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threads give, bit for bit, what one after the other gives, whoever is slower."""
    overlapped = make_runner(env_class)
    overlapped.learn(6)
    monkeypatch.setattr(Collector, "start", collect_before_learning)
    sequential = make_runner()
    sequential.learn(6)
    assert torch.equal(weights(overlapped), weights(sequential))
    assert torch.equal(overlapped.alg.storage.sample(50).actions, sequential.alg.storage.sample(50).actions)


def test_acts_with_the_policy_before_the_update() -> None:
    """In iteration k the policy that acts is the one that iteration k - 1 learned."""
    runner = make_runner()
    acted, learned = [], []
    collect, update = runner._collector._collect, runner.alg.update

    def spy_collect(obs: TensorDict, num_steps: int) -> tuple:
        acted.append(first_weight(runner._collector.actor))
        return collect(obs, num_steps)

    def spy_update() -> dict:
        result = update()
        learned.append(first_weight(runner.alg.actor))
        return result

    runner._collector._collect = spy_collect  # type: ignore[method-assign]
    runner.alg.update = spy_update  # type: ignore[method-assign]
    runner.learn(5)
    assert all(torch.equal(acted[k + 1], learned[k]) for k in range(4))
    assert not torch.equal(learned[2], learned[3])


def test_stores_every_step_once() -> None:
    """After three iterations of 8 steps of 16 environments the replay has 384 transitions, all with real actions."""
    runner = make_runner()
    runner.learn(3)
    assert len(runner.alg.storage) == 3 * 8 * 16
    assert runner.alg.storage.sample(200).actions.abs().min() > 0.0


def test_error_of_the_environment_arrives() -> None:
    """What goes wrong in the thread is raised where learn() was called."""

    class Broken(DoubleIntegrator):
        def step(self, actions: torch.Tensor) -> tuple:
            raise RuntimeError("the robot has left")

    with pytest.raises(RuntimeError, match="the robot has left"):
        make_runner(Broken).learn(2)


def test_error_of_the_learner_waits_for_the_thread(tmp_path: pathlib.Path) -> None:
    """When learning fails, the environment is left between two iterations, not in the middle of a step."""
    runner = make_runner(Slow)
    steps = []
    step = runner.env.step
    runner.env.step = lambda actions: (steps.append(1), step(actions))[1]  # type: ignore[method-assign]

    def fail() -> dict:
        raise ArithmeticError("no")

    runner.alg.update = fail  # type: ignore[method-assign]
    with pytest.raises(ArithmeticError):
        runner.learn(1)
    assert len(steps) == 8


def test_seconds_are_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stepping and learning that take 40 ms or more each, side by side, add up to no more than the time that passed."""
    runner = make_runner(Slow)
    update = runner.alg.update

    def slow_update() -> dict[str, float]:
        time.sleep(0.04)
        return update()

    reports: list[dict] = []
    monkeypatch.setattr(runner.alg, "update", slow_update)
    monkeypatch.setattr(runner.logger, "log", lambda **report: reports.append(report))
    start = time.perf_counter()
    runner.learn(5)
    passed = time.perf_counter() - start
    assert runner.cfg["num_steps_per_env"] >= 4 and len(reports) == 5
    assert 0.0 < sum(report["collect_time"] + report["learn_time"] for report in reports) <= passed
    assert all(report["collect_time"] > 0.0 < report["learn_time"] for report in reports)
