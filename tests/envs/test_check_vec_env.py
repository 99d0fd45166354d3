# SPDX-License-Identifier: BSD-3-Clause

"""The checker passes a right environment and finds each wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rsl_rl_sac.envs import DoubleIntegrator, check_vec_env
from rsl_rl_sac.utils import EnvContractError

StepResult = tuple[TensorDict, torch.Tensor, torch.Tensor, dict]


def test_right_environment() -> None:
    """The example environment fulfils the contract, with and without failures."""
    check_vec_env(DoubleIntegrator(num_envs=4))
    check_vec_env(DoubleIntegrator(num_envs=64, failure_position=1.5))


def no_final_obs(env: DoubleIntegrator, result: StepResult) -> StepResult:
    """Forget the final observation."""
    del result[3]["final_obs"]
    return result


def final_obs_after_reset(env: DoubleIntegrator, result: StepResult) -> StepResult:
    """Give the observation after the reset as the final one."""
    result[3]["final_obs"] = result[0].clone()
    return result


KEPT: list[torch.Tensor] = []


def final_obs_before_step(env: DoubleIntegrator, result: StepResult) -> StepResult:
    """Give the observation that was returned last, as a manager that keeps its observations would."""
    KEPT.append(result[0]["policy"].clone())
    if len(KEPT) > 1:
        result[3]["final_obs"] = TensorDict({"policy": KEPT[-2]}, batch_size=result[0].batch_size)
    return result


def no_time_outs(env: DoubleIntegrator, result: StepResult) -> StepResult:
    """Say nothing of time-outs, though episodes end by time."""
    return *result[:3], {}


def final_obs_without_group(env: DoubleIntegrator, result: StepResult) -> StepResult:
    """Give final observations of another group."""
    result[3]["final_obs"] = TensorDict({"other": result[0]["policy"]}, batch_size=result[0].batch_size)
    return result


def time_out_without_done(env: DoubleIntegrator, result: StepResult) -> StepResult:
    """Set a time-out where the episode goes on."""
    result[2][result[3]["time_outs"]] = False
    return result


def reward_as_column(env: DoubleIntegrator, result: StepResult) -> StepResult:
    """Return rewards of shape (num_envs, 1)."""
    return result[0], result[1].unsqueeze(1), result[2], result[3]


def nan_in_observation(env: DoubleIntegrator, result: StepResult) -> StepResult:
    """Return a NaN."""
    result[0]["policy"][1, 0] = float("nan")
    return result


def plain_tensor(env: DoubleIntegrator, result: StepResult) -> tuple:
    """Return observations that are not a TensorDict."""
    return result[0]["policy"], *result[1:]


BUFFER = TensorDict({"policy": torch.zeros(4, 2)}, batch_size=[4])


def overwritten_buffer(env: DoubleIntegrator, result: StepResult) -> StepResult:
    """Return the same buffer every time."""
    BUFFER["policy"].copy_(result[0]["policy"])
    return BUFFER, *result[1:]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (no_final_obs, "final_obs'] is missing"),
        (final_obs_after_reset, "equals the observations after the reset"),
        (final_obs_before_step, "equals the observations before the step"),
        (no_time_outs, "extras['time_outs'] is missing"),
        (final_obs_without_group, "must hold group 'policy'"),
        (time_out_without_done, "set where dones is not"),
        (reward_as_column, r"rewards must be a tensor of shape (4,), got (4, 1)"),
        (nan_in_observation, "holds NaN"),
        (plain_tensor, "TensorDict, got Tensor"),
        (overwritten_buffer, "overwrites the observations"),
    ],
)
def test_wrong_environments(fault: Callable, words: str) -> None:
    """Each fault is found and named."""
    env = DoubleIntegrator(num_envs=4)
    step = env.step
    env.step = lambda actions: fault(env, step(actions))  # type: ignore[method-assign]
    with pytest.raises(EnvContractError) as error:
        check_vec_env(env)
    assert words in str(error.value)
    assert len(str(error.value).splitlines()) == 2  # the headline and one finding


def test_no_bounds() -> None:
    """Missing bounds are a finding."""
    env = DoubleIntegrator(num_envs=4)
    env.action_bounds = None  # type: ignore[assignment]
    with pytest.raises(EnvContractError, match="no 'action_bounds'"):
        check_vec_env(env)


def test_missing_attribute() -> None:
    """A class that is no VecEnv is told what it lacks."""
    with pytest.raises(EnvContractError, match="num_envs, num_actions"):
        check_vec_env(object())  # type: ignore[arg-type]


def test_time_out_not_seen() -> None:
    """What could not be checked is not passed in silence."""
    with pytest.raises(EnvContractError, match="No time-out was seen in 1 steps"):
        check_vec_env(DoubleIntegrator(num_envs=4), num_steps=1)


def test_robots_that_fall_early() -> None:
    """An environment that fails long before its time limit is checked all the same."""
    check_vec_env(DoubleIntegrator(num_envs=8, max_episode_length=100_000, failure_position=1.5))


def test_without_time_outs() -> None:
    """An environment that only fails, knows no time limit and says nothing of time-outs, fulfils the contract."""
    env = DoubleIntegrator(num_envs=4, failure_position=1.2)
    step = env.step

    def only_failures(actions: torch.Tensor) -> StepResult:
        env.episode_length_buf = torch.zeros_like(env.episode_length_buf)
        obs, rewards, dones, _ = step(actions)
        return obs, rewards, dones, {}

    env.step = only_failures  # type: ignore[method-assign]
    check_vec_env(env)


def test_state_that_does_not_come_back() -> None:
    """A state that forgets something is found."""
    env = DoubleIntegrator(num_envs=4)
    env.load_state_dict = lambda state_dict: None  # type: ignore[method-assign]
    with pytest.raises(EnvContractError, match="load_state_dict"):
        check_vec_env(env)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"generator": None}, "a random generator"),
        ({"episode_length_buf": torch.zeros(4, dtype=torch.long)}, "bring back episode_length_buf"),
        ({"more": np.zeros(2)}, r"'state_dict\(\)/more' is a numpy.ndarray"),
    ],
)
def test_state_that_is_not_whole(change: dict, message: str) -> None:
    """A state that forgets the generator shows in the resets; one that no checkpoint can hold is named."""
    env = DoubleIntegrator(num_envs=4)
    state_dict, load_state_dict = env.state_dict, env.load_state_dict
    env.state_dict = lambda: {**state_dict(), **change}  # type: ignore[method-assign]

    def load(state: dict) -> None:
        load_state_dict({name: env.generator.get_state() if value is None else value for name, value in state.items()})

    env.load_state_dict = load  # type: ignore[method-assign]
    with pytest.raises(EnvContractError, match=message):
        check_vec_env(env)
