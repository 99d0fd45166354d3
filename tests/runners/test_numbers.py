# SPDX-License-Identifier: BSD-3-Clause

"""NaN and infinity: nothing of it reaches the replay, and people learn where it was."""

from __future__ import annotations

import math
import pathlib

import pytest
import torch
from tensordict import TensorDict

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.cli.main import main
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.runners import OffPolicyRunner
from rsl_rl_sac.runners.dump import load_dump, replay_dump
from rsl_rl_sac.runners.numbers import VectorStep
from rsl_rl_sac.storage.replay_storage import _CUT
from rsl_rl_sac.utils import ConfigError, NonFiniteError
from tests.helpers import differences, small_cfg, whole_state

BAD_STEP = 11
"""Vector step, counted from 0, in which the environments go wrong: the fourth of iteration 1."""


class Faulty(DoubleIntegrator):
    """Returns numbers that are not finite in one vector step."""

    def __init__(self, what: str, envs: list[int], value: float) -> None:
        """Decide what goes wrong, and where."""
        super().__init__(16, max_episode_length=50)
        self.what, self.envs, self.value = what, envs, value
        self.count = 0
        self.seen: list[torch.Tensor] = []

    def step(self, actions: torch.Tensor) -> tuple:
        """Step, and go wrong if it is time."""
        self.seen.append(actions.clone())
        if self.what == "time-out" and self.count == BAD_STEP:
            self.episode_length_buf[self.envs] = 50
        obs, rewards, dones, extras = super().step(actions)
        if self.count == BAD_STEP:
            if self.what == "observation":
                obs["policy"][self.envs, 1] = self.value
            elif self.what == "reward":
                rewards[self.envs] = self.value
            else:
                extras["final_obs"]["policy"][self.envs, 0] = self.value
        self.count += 1
        return obs, rewards, dones, extras

    def state_dict(self) -> dict:
        """Return the state with the count."""
        return {**super().state_dict(), "count": self.count}

    def load_state_dict(self, state_dict: dict) -> None:
        """Restore the state."""
        super().load_state_dict(state_dict)
        self.count = state_dict["count"]


def make_runner(env: DoubleIntegrator, folder: pathlib.Path | None = None, **settings: object) -> OffPolicyRunner:
    """Build a runner whose replay holds everything that happens here."""
    cfg = small_cfg(save_replay=True, replay_size=16 * 100)
    for name, value in settings.items():
        setattr(cfg, name, value)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)  # as the log would
    runner = OffPolicyRunner(env, cfg.to_dict(), str(folder) if folder else None)
    runner.logger.writer = None
    runner.logger.init_logging_writer = lambda: None  # type: ignore[method-assign]  # quicker
    return runner


def cut_places(runner: OffPolicyRunner) -> list[tuple[int, int]]:
    """Return the steps and environments that are never sampled."""
    return [(int(step), int(env)) for step, env in ((runner.alg.storage.flags & _CUT) > 0).nonzero()]


def assert_all_finite(runner: OffPolicyRunner) -> None:
    """Check every number that can be learned from."""
    storage = runner.alg.storage
    tables = [*storage.observations.values(), *storage.timeout_table.rows.values()]
    for tensor in (*tables, storage.actions, storage.rewards):
        assert bool(torch.isfinite(tensor).all())


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(
    ("what", "cut_steps"),
    [
        ("observation", [BAD_STEP, BAD_STEP + 1]),  # what led to it, and what starts from it
        ("reward", [BAD_STEP]),
        ("time-out", [BAD_STEP]),
    ],
)
def test_quarantine(what: str, cut_steps: list[int], value: float, overlap: bool) -> None:
    """Exactly the transitions with a bad number are kept out, the policy never sees one, and training goes on."""
    env = Faulty(what, [3, 7], value)
    runner = make_runner(env, non_finite="quarantine", overlap=overlap)
    counts = []
    log = runner.logger.log
    runner.logger.log = lambda **report: (counts.append(report["loss_dict"]["quarantined"]), log(**report))  # type: ignore[method-assign]
    runner.learn(4)
    assert cut_places(runner) == [(step, env) for step in cut_steps for env in (3, 7)]
    assert counts == [0, 2 * len(cut_steps), 0, 0]
    assert_all_finite(runner)
    assert bool(torch.isfinite(torch.stack(env.seen)).all())


def test_environment_is_reset() -> None:
    """The episode of a bad environment ends with its next step, the others go on."""
    env = Faulty("observation", [3], math.nan)
    runner = make_runner(env, non_finite="quarantine")
    runner.learn(2)  # 16 steps; environment 3 started again after step 12
    assert env.episode_length_buf[3] == 16 - (BAD_STEP + 2)
    assert env.episode_length_buf[[0, 4]].tolist() == [16, 16]


def test_replaced_by_the_last_good_observation() -> None:
    """The policy acts on what the environment said before."""
    env = Faulty("observation", [3], math.nan)
    runner = make_runner(env, non_finite="quarantine")
    runner.learn(2)
    stored = runner.alg.storage.observations["policy"]
    assert torch.equal(stored[BAD_STEP + 1, 3], stored[BAD_STEP, 3])
    assert not torch.equal(stored[BAD_STEP + 1, 4], stored[BAD_STEP, 4])


@pytest.mark.parametrize("way", ["stop", "quarantine"])
def test_first_observation(way: str) -> None:
    """An environment that begins with NaN is told, or acted on as if it were zero and kept out."""
    env = DoubleIntegrator(16)
    env.states[5, 0] = math.nan
    runner = make_runner(env, non_finite=way)
    if way == "stop":
        with pytest.raises(NonFiniteError, match=r"'policy' of environment \[5\], columns \[0\]"):
            runner.learn(1)
        return
    runner.learn(1)
    assert runner.alg.storage.observations["policy"][0, 5].tolist() == [0.0, 0.0]
    # The first step starts from a made-up observation and leads to NaN; the second ends by time and begins anew.
    assert cut_places(runner) == [(0, 5), (1, 5)]


def test_quarantine_of_all_for_one_step() -> None:
    """Training goes on if all environments are bad once."""
    runner = make_runner(Faulty("reward", list(range(16)), math.nan), non_finite="quarantine")
    runner.learn(3)
    assert cut_places(runner) == [(BAD_STEP, env) for env in range(16)]


@pytest.mark.parametrize("overlap", [False, True])
def test_some_actions(overlap: bool) -> None:
    """Actions that are not finite are neither taken nor stored, not even in half precision."""
    env = Faulty("reward", [], 0.0)
    cfg = small_cfg(replay_size=16 * 100, replay_action_dtype="float16")
    cfg.non_finite, cfg.overlap = "quarantine", overlap
    runner = OffPolicyRunner(env, cfg.to_dict())
    step = runner.numbers.step

    def some_broken(obs: TensorDict, actions: torch.Tensor) -> VectorStep:
        actions = actions.clone()
        if env.count == BAD_STEP:
            actions[[3, 7]] = math.nan
        return step(obs, actions)

    runner.numbers.step = some_broken  # type: ignore[method-assign]
    runner.learn(3)
    assert env.seen[BAD_STEP][[3, 7]].tolist() == [[0.0], [0.0]]
    assert runner.alg.storage.actions[BAD_STEP, [3, 7]].tolist() == [[0.0], [0.0]]
    assert cut_places(runner) == [(BAD_STEP, 3), (BAD_STEP, 7)]


class Copying(SAC):
    """SAC that copies observations when they are acted on."""

    def record(self, obs: TensorDict, actions: torch.Tensor) -> None:
        """Take note of a copy."""
        super().record(obs.clone(), actions)


def test_environment_that_overwrites_its_observations() -> None:
    """Observations are taken note of before the step, not after it, where they may be those of the next one."""
    env = DoubleIntegrator(16)
    step, seen = env.step, []
    memory = env.get_observations()

    def overwriting(actions: torch.Tensor) -> tuple:
        seen.append(memory["policy"].clone())
        obs, *rest = step(actions)
        memory["policy"].copy_(obs["policy"])
        return memory, *rest

    env.step, env.get_observations = overwriting, lambda: memory  # type: ignore[method-assign]
    cfg = small_cfg(replay_size=16 * 100)
    cfg.algorithm.class_name = Copying
    cfg.check_for_nan = False  # whose copies would hide it
    runner = OffPolicyRunner(env, cfg.to_dict())
    runner.learn(1)
    torch.testing.assert_close(runner.alg.storage.observations["policy"][:8], torch.stack(seen))


def test_nothing_left() -> None:
    """All environments bad for ten steps: an error even in quarantine."""
    env = DoubleIntegrator(16)
    step = env.step

    def without_rewards(actions: torch.Tensor) -> tuple:
        obs, _, *rest = step(actions)
        return obs, torch.full((16,), math.nan), *rest

    env.step = without_rewards  # type: ignore[method-assign]
    runner = make_runner(env, non_finite="quarantine")
    with pytest.raises(NonFiniteError, match=r"the rewards of environment .* in every environment, 10 steps in a row"):
        runner.learn(3)


def test_resume_in_quarantine_is_exact(tmp_path: pathlib.Path) -> None:
    """Saved right after a bad observation, the resumed run has the same weights as the one that went on."""

    def make(folder: pathlib.Path | None) -> OffPolicyRunner:
        env = Faulty("observation", [3], math.nan)
        env.count = BAD_STEP - 7  # so that the bad step is the last of iteration 0
        return make_runner(env, folder, non_finite="quarantine")

    straight = make(None)
    straight.learn(4)
    make(tmp_path).learn(1)
    resumed = make(None)
    resumed.load(str(tmp_path / "model_0.pt"))
    resumed.learn(3)
    assert (7, 3) in cut_places(resumed) and (8, 3) in cut_places(resumed)
    state, other = whole_state(straight), whole_state(resumed)
    assert [name for name in differences(state, other) if "logger" not in name] == []


@pytest.mark.parametrize("overlap", [False, True])
def test_stop_and_dump(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture, overlap: bool) -> None:
    """The error says what and where, and the file it names holds the last steps as they were."""
    env = Faulty("observation", [3, 7], math.inf)
    runner = make_runner(env, tmp_path, num_dumped_steps=4, overlap=overlap)
    path = tmp_path / "dump_1.pt"
    with pytest.raises(NonFiniteError) as error:
        runner.learn(3)
    message = str(error.value)
    assert "observation group 'policy' of environment [3, 7], columns [1]" in message
    assert f"rsl-rl-sac info {path}" in message and message.endswith(f"Last good checkpoint: {tmp_path}/model_0.pt.")
    assert f"It was in iteration 1, after {runner.alg.num_updates - 4 * overlap} gradient steps" in message
    assert_all_finite(runner)
    dump = load_dump(path)
    assert dump.envs == [3, 7] and dump.num_envs == 16 and dump.iteration == 1
    actions = torch.stack([step["actions"] for step in dump.steps])
    assert torch.equal(actions, torch.stack(env.seen[BAD_STEP - 3 : BAD_STEP + 1])[:, [3, 7]])
    assert [line[3] for line in replay_dump(dump, 7) if line[3]] == ["inf at 1"]
    with pytest.raises(ConfigError, match="does not hold environment 4, only 3, 7"):
        replay_dump(dump, 4)
    capsys.readouterr()
    main(["info", str(path)])
    shown = capsys.readouterr().out
    assert "inf at 1" in shown and "next_obs policy" in shown and "2 of 16: 3, 7" in shown


@pytest.mark.parametrize("way", ["stop", "quarantine"])
def test_broken_policy_and_losses(tmp_path: pathlib.Path, way: str) -> None:
    """Weights that are not finite always end the run; the dump has the steps before."""
    runner = make_runner(DoubleIntegrator(16), tmp_path, non_finite=way)
    runner.learn(1)
    next(runner.alg.actor.mlp.parameters()).data.fill_(math.nan)
    with pytest.raises(NonFiniteError, match="the actions of environment"):
        runner.learn(1)
    assert_all_finite(runner)
    assert len(load_dump(tmp_path / "dump_1.pt").steps) == 9
    # Beside a collector, which goes on writing the steps that the dump reads until it is done.
    other = make_runner(DoubleIntegrator(16), tmp_path / "other", non_finite=way, overlap=True)
    other.learn(1)
    other.alg.critic.mlp.weights[0].data.fill_(math.nan)
    with pytest.raises(NonFiniteError, match=r"critic.*became NaN.*dump_1\.pt"):
        other.learn(1)
    assert load_dump(tmp_path / "other" / "dump_1.pt").envs == list(range(16))
