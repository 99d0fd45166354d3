# SPDX-License-Identifier: BSD-3-Clause

"""The adapter for Gymnasium, in every autoreset mode, on an environment whose numbers can be worked out by hand."""

from __future__ import annotations

import types
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.envs import check_vec_env
from rsl_rl_sac.envs.evaluation import run_episodes
from rsl_rl_sac.envs.gymnasium import GymnasiumVecEnv, GymnasiumWorld, box_bounds, make_gymnasium_env
from rsl_rl_sac.utils.errors import ConfigError, EnvContractError
from tests.helpers import small_cfg

MODES = list(AutoresetMode)


class Counter(gymnasium.Env):
    """Observes (environment, episode, step); fails after ``fails_at`` steps, ends by time after ``ends_at`` of them."""

    metadata: ClassVar[dict[str, Any]] = {}

    def __init__(self, number: int, fails_at: int = 1000, ends_at: int = 1000, dtype: type = np.float64) -> None:
        """Start before the first episode."""
        self.observation_space = spaces.Box(-1000, 1000, (3,), dtype)
        self.action_space = spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 3.0]), dtype=np.float64)
        self.state = np.array([number, 0, 0], dtype)
        self.fails_at, self.ends_at = fails_at, ends_at
        self.last_action = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Begin the next episode; the same memory is returned every time."""
        self.state[1:] = self.state[1] + 1, 0
        return self.state, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Count; the reward is the first action."""
        self.state[2] += 1
        self.last_action = action
        fails, ends = bool(self.state[2] == self.fails_at), bool(self.state[2] == self.ends_at)
        return self.state.copy(), float(action[0]), fails, ends, {}


def make_counters(mode: AutoresetMode, kind: type = SyncVectorEnv, **vector_kwargs: object) -> GymnasiumVecEnv:
    """Make three: the first ends by time after 3 steps, the second fails after 2, the third does both after 4."""
    settings = [{"ends_at": 3}, {"fails_at": 2}, {"fails_at": 4, "ends_at": 4}]
    makers = [lambda i=i, kwargs=kwargs: Counter(i, **kwargs) for i, kwargs in enumerate(settings)]
    return GymnasiumVecEnv(kind(makers, autoreset_mode=mode, **vector_kwargs), seed=0, max_episode_length=10)


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
@pytest.mark.parametrize("mode", MODES)
def test_every_step_is_a_transition(mode: AutoresetMode, kind: type) -> None:
    """Six steps by hand: no step only resets, and ends have the observation before the reset."""
    env = make_counters(mode, kind)
    assert env.get_observations()["policy"].tolist() == [[0, 1, 0], [1, 1, 0], [2, 1, 0]]
    episodes_and_steps = [  # after each step, of each environment
        [(1, 1), (1, 1), (1, 1)],
        [(1, 2), (2, 0), (1, 2)],
        [(2, 0), (2, 1), (1, 3)],
        [(2, 1), (3, 0), (2, 0)],
        [(2, 2), (3, 1), (2, 1)],
        [(3, 0), (4, 0), (2, 2)],
    ]
    final = {(1, 1): (1, 2), (2, 0): (1, 3), (3, 1): (2, 2), (3, 2): (1, 4), (5, 0): (2, 3), (5, 1): (3, 2)}
    time_outs = {(2, 0), (5, 0)}
    extras: dict = {}
    for number, expected in enumerate(episodes_and_steps):
        obs, rewards, dones, extras = env.step(torch.tensor([[0.25, 1.0], [-0.5, 2.0], [1.0, 0.0]]))
        assert [(int(row[1]), int(row[2])) for row in obs["policy"]] == expected
        assert rewards.tolist() == [0.25, -0.5, 1.0]
        for row in range(3):
            assert bool(dones[row]) == ((number, row) in final)
            assert bool(extras["time_outs"][row]) == ((number, row) in time_outs)
            if (number, row) in final:
                assert extras["final_obs"]["policy"][row].tolist() == [row, *final[number, row]]
    assert extras["log"] == {"Episode_Termination/time_out": 0.5}  # of two ends in the last step
    env.close()


@pytest.mark.parametrize("mode", MODES)
def test_replay_holds_true_transitions_only(mode: AutoresetMode) -> None:
    """All that SAC can draw are steps that the environments really made: the same episode, one step later."""
    env = make_counters(mode)
    cfg = small_cfg(n_step=1, replay_size=300, training_start_iteration=10**6).to_dict()
    alg = SAC.construct_algorithm(env.get_observations(), env, cfg, "cpu")
    obs = env.get_observations()
    for _ in range(50):
        obs, rewards, dones, extras = env.step(alg.act(obs))
        alg.process_env_step(obs, rewards, dones, extras)
    batch = alg.storage.sample(2000)
    now, later, bootstraps = (
        batch.observations["policy"],
        batch.next_observations["policy"],
        batch.discounts > 0.0,
    )
    assert torch.equal(later[bootstraps], now[bootstraps] + torch.tensor([0.0, 0.0, 1.0]))
    # What does not bootstrap are the failures, of the second environment after step 1 and of the third after step 3.
    failed = {(int(row[0]), int(row[2])) for row in now[~bootstraps]}
    assert failed == {(1, 1), (2, 3)}
    # Every state of every episode was drawn, the one before a time-out too.
    assert {(int(row[0]), int(row[2])) for row in now} == {
        (env, step) for env, length in ((0, 3), (1, 2), (2, 4)) for step in range(length)
    }


@pytest.mark.parametrize("mode", MODES)
def test_episode_length_set_by_hand(mode: AutoresetMode) -> None:
    """rsl_rl starts environments at random points of their episodes: the one set to 9 of 10 ends with the next step."""
    env = make_counters(mode)
    env.episode_length_buf = torch.tensor([0, 0, 9])
    obs, _, dones, extras = env.step(torch.zeros(3, 2))
    assert dones.tolist() == extras["time_outs"].tolist() == [False, False, True]
    assert obs["policy"][2].tolist() == [2, 2, 0] and extras["final_obs"]["policy"][2].tolist() == [2, 1, 1]
    assert env.episode_length_buf.tolist() == [1, 1, 0]


def test_actions() -> None:
    """Boxes become bounds, and actions beyond them, as PPO's may be, are cut off."""
    env = make_counters(AutoresetMode.SAME_STEP)
    low, high = env.action_bounds
    assert low.tolist() == [-1.0, 0.0] and high.tolist() == [1.0, 3.0] and env.num_actions == 2
    env.step(torch.tensor([[-7.0, -7.0], [0.5, 0.5], [7.0, 7.0]]))
    taken = [action.tolist() for action in env.vector_env.get_attr("last_action")]  # type: ignore[attr-defined]
    assert taken == [[-1.0, 0.0], [0.5, 0.5], [1.0, 3.0]]


def test_bounds_of_other_precision() -> None:
    """0.1 is a little more in single precision; an environment whose box is of double precision gets its own bound."""

    class Narrow(Counter):
        """Counts with small actions."""

        def __init__(self, number: int) -> None:
            super().__init__(number)
            self.action_space = spaces.Box(-0.1, 0.1, (2,), np.float64)

    env = GymnasiumVecEnv(SyncVectorEnv([lambda: Narrow(0)]), seed=0, max_episode_length=10)
    env.step(torch.tensor([[1.0, -1.0]]))
    (taken,) = env.vector_env.get_attr("last_action")  # type: ignore[attr-defined]
    assert taken.tolist() == [0.1, -0.1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_types_of_observations(dtype: type) -> None:
    """Numbers of any type become torch's default type."""
    makers = [lambda i=i: Counter(i, dtype=dtype) for i in range(2)]
    env = GymnasiumVecEnv(SyncVectorEnv(makers), seed=0)
    obs, rewards, *_ = env.step(torch.zeros(2, 2))
    assert obs["policy"].dtype == rewards.dtype == torch.float32
    assert obs["policy"].tolist() == [[0, 1, 1], [1, 1, 1]]


class Robot(gymnasium.Env):
    """Observes a dictionary with a matrix in it, and has a time limit of two steps."""

    observation_space = spaces.Dict(
        {"policy": spaces.Box(-9, 9, (2, 2)), "critic": spaces.Box(-9, 9, (1,)), "feet": spaces.MultiBinary(2)}
    )
    action_space = spaces.Box(-1.0, 1.0, (2, 3))

    def observe(self) -> dict[str, np.ndarray]:
        """Return observations that hold the step."""
        step = float(self.steps)
        return {
            "policy": np.full((2, 2), step, np.float32),
            "critic": np.array([10 * step]),
            "feet": np.array([0, 1], np.int8),
        }

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        """Begin."""
        self.steps = 0
        return self.observe(), {}

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        """Count."""
        assert action.shape == (2, 3)
        self.steps += 1
        return self.observe(), 0.0, False, self.steps == 2, {}


@pytest.mark.parametrize("mode", MODES)
def test_dictionaries_are_groups(mode: AutoresetMode) -> None:
    """Each entry is a group, flattened, in the final observations too."""
    env = GymnasiumVecEnv(SyncVectorEnv([Robot, Robot], autoreset_mode=mode), seed=0)
    env.step(torch.zeros(2, 6))
    obs, _, dones, extras = env.step(torch.zeros(2, 6))
    assert dones.tolist() == [True, True]
    assert {name: tuple(values.shape) for name, values in obs.items()} == {
        "policy": (2, 4),
        "critic": (2, 1),
        "feet": (2, 2),
    }
    assert obs["policy"][0].tolist() == [0.0] * 4 and extras["final_obs"]["policy"][0].tolist() == [2.0] * 4
    assert extras["final_obs"]["critic"].tolist() == [[20.0], [20.0]]


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Discrete(3), r"needs continuous actions .* has Discrete\(3\)"),
        (spaces.Box(0, 5, (2,), np.int64), "needs continuous actions"),
        (
            spaces.Box(np.array([-1.0, -np.inf]), np.array([1.0, 1.0]), dtype=np.float64),
            r"the actions \[1\] of .* no finite bounds",
        ),
    ],
)
def test_actions_that_cannot_be(space: spaces.Space, words: str) -> None:
    """What SAC cannot explore is refused with one line."""
    with pytest.raises(EnvContractError, match=words) as error:
        box_bounds(space)
    assert len(str(error.value).splitlines()) == 1


class Native(VectorEnv):
    """A vector environment of somebody else's, without single environments inside."""

    def __init__(self, mode: AutoresetMode | None) -> None:
        """Declare the spaces and the mode."""
        self.num_envs = 2
        self.single_observation_space = spaces.Box(-1.0, 1.0, (1,))
        self.single_action_space = spaces.Box(-1.0, 1.0, (1,))
        self.metadata = {} if mode is None else {"autoreset_mode": mode}

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Return zeros."""
        return np.zeros((2, 1)), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        """End at once, without the final observations that belong to it."""
        return np.zeros((2, 1)), np.zeros(2), np.zeros(2, bool), np.ones(2, bool), {}


def test_vector_environments_that_cannot_be() -> None:
    """A reset that looks like a step is refused, as are vector environments that do not tell how they reset."""
    with pytest.raises(EnvContractError, match="ignores the actions of that step"):
        GymnasiumVecEnv(Native(AutoresetMode.NEXT_STEP))
    with pytest.raises(EnvContractError, match="does not say"):
        GymnasiumVecEnv(Native(None))
    with pytest.raises(EnvContractError, match=r"infos\['final_obs'\] is missing"):
        GymnasiumVecEnv(Native(AutoresetMode.SAME_STEP)).step(torch.zeros(2, 1))


def test_processes_that_forget_their_reset() -> None:
    """Without shared memory, AsyncVectorEnv would reset twice in NEXT_STEP: refused; the other modes work."""
    with pytest.raises(EnvContractError, match="ignores the actions of that step"):
        make_counters(AutoresetMode.NEXT_STEP, AsyncVectorEnv, shared_memory=False)
    env = make_counters(AutoresetMode.DISABLED, AsyncVectorEnv, shared_memory=False)
    env.step(torch.zeros(3, 2))
    obs, *_ = env.step(torch.zeros(3, 2))
    assert obs["policy"].tolist() == [[0, 1, 2], [1, 2, 0], [2, 1, 2]]
    env.close()


def test_registered_task() -> None:
    """A task fulfils the contract and repeats itself with the same seed only."""
    env = make_gymnasium_env("Pendulum-v1", 4, seed=3, max_episode_steps=20)
    assert env.max_episode_length == 20 and env.cfg == {"task": "Pendulum-v1"}
    first = env.get_observations()["policy"]
    assert len({tuple(row) for row in first.tolist()}) == 4
    check_vec_env(env)
    assert torch.equal(env.reset(3)[0]["policy"], first)
    assert not torch.equal(env.reset(4)[0]["policy"], first)


def test_evaluation_by_hand() -> None:
    """Pendulum without torque: the return is that of Gymnasium's own environments, over the same seeds."""
    world = GymnasiumWorld()
    env = world.make_evaluation_env("Pendulum-v1", 2)
    score = world.evaluate(lambda obs: torch.zeros(2, 1), env)
    returns = []
    for seed in (1_000_000, 1_000_001):
        single, total = gymnasium.make("Pendulum-v1"), 0.0
        single.reset(seed=seed)
        for _ in range(200):
            total += float(single.step(np.zeros(1, np.float32))[1])
        returns.append(total)
    assert score.episode_return == pytest.approx(np.mean(returns), rel=1e-5)
    assert score.episode_length == 200 and score.num_episodes == 2
    assert world.evaluate(lambda obs: torch.zeros(2, 1), env) == score


@pytest.mark.parametrize("says_time_outs", [True, False])
def test_outcomes_by_hand(says_time_outs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ends by time after 3 steps, the second fails after 2, the third does both after 4, which is a failure.

    Only first episodes count: rewards are the first action, 0.5. Who says nothing of time has failures only.
    """
    env = make_counters(AutoresetMode.DISABLED)
    if not says_time_outs:
        step = env.step
        monkeypatch.setattr(env, "step", lambda actions: (*step(actions)[:3], {}))
    outcomes = run_episodes(lambda obs: torch.full((3, 2), 0.5), env, env.get_observations())
    assert outcomes.lengths.tolist() == [3, 2, 4] and outcomes.returns.tolist() == [1.5, 1.0, 2.0]
    assert outcomes.survived.tolist() == [says_time_outs, False, False]
    numbers = outcomes.to_dict()
    assert numbers["total"]["survival"] == pytest.approx(says_time_outs / 3) and outcomes.score().num_episodes == 3
    assert numbers["total"]["episode_return"] == pytest.approx(1.5) and numbers["episodes"]["lengths"] == [3, 2, 4]


def test_second_episodes_do_not_count() -> None:
    """The first environment ends by time, and fails in its next episode while the second still runs.

    Not even a reward that is no number spoils what it had.
    """
    ends = [([1, 0], [1, 0]), ([1, 0], [0, 0]), ([0, 1], [0, 0])]

    def step(actions: torch.Tensor) -> tuple[None, torch.Tensor, torch.Tensor, dict]:
        dones, time_outs = ends.pop(0)
        rewards = torch.tensor([1.0 if len(ends) == 2 else torch.nan, 1.0])
        return None, rewards, torch.tensor(dones), {"time_outs": torch.tensor(time_outs)}

    env = types.SimpleNamespace(num_envs=2, max_episode_length=9, device="cpu", step=step)
    outcomes = run_episodes(lambda obs: torch.zeros(2, 1), env, None)  # type: ignore[arg-type]
    assert outcomes.lengths.tolist() == [1, 3] == outcomes.returns.tolist() and not ends
    assert outcomes.survived.tolist() == [True, False]


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("Pendlum-v1", ConfigError, "cannot make the task 'Pendlum-v1'.*Did you mean: `Pendulum`"),
        ("Pendulum-v9", ConfigError, "cannot make the task 'Pendulum-v9'"),
        ("no_such_module:Task-v0", ConfigError, "No module named 'no_such_module'"),
        ("CartPole-v1", EnvContractError, r"gym:CartPole-v1: .*continuous actions .*Discrete\(2\)"),
    ],
)
def test_tasks_that_cannot_be(name: str, error: type, words: str) -> None:
    """A task is refused with one line before anything else happens."""
    with pytest.raises(error, match=words) as info:
        GymnasiumWorld().check_task(name)
    assert len(str(info.value).splitlines()) == 1


def test_observations_without_a_policy_group() -> None:
    """Tasks whose observations are not a box are flattened by Gymnasium, since nobody named their groups."""

    class Goal(Robot):
        observation_space = spaces.Dict({"a": spaces.Box(-9, 9, (2, 2)), "b": spaces.Discrete(3)})

        def observe(self) -> dict:
            return {"a": np.ones((2, 2), np.float32), "b": 2}

    gymnasium.register("Goal-v0", Goal)  # type: ignore[arg-type]
    env = GymnasiumWorld().make_env("Goal-v0", 2, seed=0)
    assert env.get_observations()["policy"].tolist() == [[1, 1, 1, 1, 0, 0, 1]] * 2
