# SPDX-License-Identifier: BSD-3-Clause

"""The adapter on a robot whose observations can be worked out by hand.

Every test runs on stand-ins for Isaac Lab and, where its wheel is installed, on Isaac Lab's own environment, managers
and wrapper. With the actions (1, 1) for knee and hip the targets are -0.2 + 0.25 = 0.05 and 0.1 + 0.5 = 0.6, and the
robot goes half of the way to them in every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from rsl_rl_sac.envs import check_vec_env
from rsl_rl_sac.envs.isaaclab import IsaacLabVecEnv, ResetHook
from rsl_rl_sac.utils.errors import EnvContractError
from tests.envs.isaaclab import stand_ins, wheel
from tests.envs.isaaclab.stand_ins import EPISODE_STEPS, NOISE, NUM_ENVS

Maker = Callable[..., Any]

POSES = torch.tensor([[0.1, -0.2, 0.3], [0.35, -0.075, 0.3], [0.475, -0.0125, 0.3], [0.5375, 0.01875, 0.3]])
"""Hip, knee and wheel after 0 to 3 steps with the actions (1, 1)."""

FORWARD = torch.ones(NUM_ENVS, 2)


def make_stand_in(clip_actions: float | None = None, effort: bool = False, **settings: Any) -> stand_ins.Wrapper:  # noqa: ANN401
    """Build the stand-in for Isaac Lab's wrapper."""
    env = stand_ins.ManagerBasedEnv(**settings)
    if effort:
        env.action_manager.term = stand_ins.JointEffortAction()
    return stand_ins.Wrapper(env, clip_actions)


@pytest.fixture(params=["stand-in", "wheel"])
def make(request: pytest.FixtureRequest) -> Maker:
    """Return the function that builds environments, of each kind."""
    if request.param == "stand-in":
        return make_stand_in
    wheel.require_wheel()
    return wheel.make_wrapper


def end_soon(env: Any, rows: list[int], steps: int = 1) -> None:  # noqa: ANN401
    """Let some environments end by time after a number of steps."""
    lengths = torch.zeros(NUM_ENVS, dtype=torch.long)
    lengths[rows] = EPISODE_STEPS - steps
    env.episode_length_buf = lengths


def test_final_observation(make: Maker) -> None:
    """Rows that ended by time: the pose before the reset in ``final_obs``, the default pose in the observations."""
    env = IsaacLabVecEnv(make())
    end_soon(env, [1, 3])
    obs, rewards, dones, extras = env.step(FORWARD)
    assert dones.tolist() == [0, 1, 0, 1] and extras["time_outs"].tolist() == [False, True, False, True]
    torch.testing.assert_close(extras["final_obs"]["policy"], POSES[[1, 1, 1, 1]])
    torch.testing.assert_close(obs["policy"], POSES[[1, 0, 1, 0]])
    assert torch.equal(env.get_observations()["policy"], obs["policy"])
    assert rewards.shape == (NUM_ENVS,) and bool((rewards > 0.0).all())


def test_history_has_the_last_frame(make: Maker) -> None:
    """Three frames: the default pose, that of the first step and that of the second, which ended the episode."""
    env = IsaacLabVecEnv(make(history=3))
    end_soon(env, [2], steps=2)
    env.step(FORWARD)
    obs, _, dones, extras = env.step(FORWARD)
    assert dones.tolist() == [0, 0, 1, 0]
    torch.testing.assert_close(extras["final_obs"]["policy"][2], POSES[[0, 1, 2]].flatten())
    torch.testing.assert_close(obs["policy"][2], POSES[[0, 0, 0]].flatten())
    torch.testing.assert_close(obs["policy"][0], POSES[[0, 1, 2]].flatten())


@pytest.mark.parametrize("settings", [{"history": 3}, {"modifier": True}, {"class_term": True, "history": 2}])
def test_nobody_notices(make: Maker, settings: dict) -> None:
    """With and without the adapter all observations are the same, also of terms with a memory."""
    env, bare = IsaacLabVecEnv(make(**settings)), make(**settings)
    for either in (env, bare):
        end_soon(either, [0, 3], steps=2)
    for _ in range(EPISODE_STEPS + 2):
        obs, expected = env.step(FORWARD)[0], bare.step(FORWARD)[0]
        assert torch.equal(obs["policy"], expected["policy"])


def test_noise(make: Maker) -> None:
    """Final observations have noise as all others have, of its size."""
    env = IsaacLabVecEnv(make(noise=True))
    end_soon(env, [0])
    _, _, _, extras = env.step(FORWARD)
    error = (extras["final_obs"]["policy"][0] - POSES[1]).abs()
    assert bool((error > 0.0).all()) and bool((error <= NOISE + 1e-6).all())


def test_a_failure_is_no_time_out(make: Maker) -> None:
    """A hip beyond its angle as the time runs out is a failure: with the action 4 its target is 2.1, its angle 1.1."""
    env = IsaacLabVecEnv(make())
    end_soon(env, [0, 1])
    actions = FORWARD.clone()
    actions[0, 1] = 4.0
    _, _, dones, extras = env.step(actions)
    assert dones.tolist() == [1, 1, 0, 0]
    assert extras["time_outs"].tolist() == [False, True, False, False]


def test_finite_horizon(make: Maker) -> None:
    """Tasks with a finite horizon report no time-outs."""
    env = IsaacLabVecEnv(make(is_finite_horizon=True))
    end_soon(env, [0])
    _, _, dones, extras = env.step(FORWARD)
    assert dones.tolist() == [1, 0, 0, 0] and "time_outs" not in extras


def test_results_stay(make: Maker) -> None:
    """What a step returned is not changed by the next; Isaac Lab's own dictionary stays as Isaac Lab left it."""
    wrapper = make()
    env = IsaacLabVecEnv(wrapper)
    end_soon(env, [0])
    _, rewards, _, extras = env.step(FORWARD)
    results = [rewards, extras["time_outs"], extras["final_obs"]["policy"]]
    copies = [values.clone() for values in results]
    env.step(-FORWARD)
    assert all(torch.equal(values, copy) for values, copy in zip(results, copies, strict=True))
    assert "final_obs" not in wrapper.unwrapped.extras


def test_bounds(make: Maker) -> None:
    """Knee (-1.2 + 0.2, 0.3 + 0.2) / 0.25, hip (-0.9 - 0.1, 1.1 - 0.1) / 0.5; the wheel, unlimited, is not driven."""
    low, high = IsaacLabVecEnv(make()).action_bounds
    torch.testing.assert_close(low, torch.tensor([-4.0, -2.0]))
    torch.testing.assert_close(high, torch.tensor([2.0, 2.0]))


def test_bounds_where_actions_are_cut_off(make: Maker) -> None:
    """Targets of the knee within (-0.7, 0.2): (-0.5, 0.4) / 0.25. All actions within 1.8."""
    low, high = IsaacLabVecEnv(make(clip={"knee": (-0.7, 0.2)}, clip_actions=1.8)).action_bounds
    torch.testing.assert_close(low, torch.tensor([-1.8, -1.8]))
    torch.testing.assert_close(high, torch.tensor([1.6, 1.8]))


def test_torques_have_no_bounds(make: Maker) -> None:
    """The error names the term and the way out."""
    env = IsaacLabVecEnv(make(effort=True))
    with pytest.raises(EnvContractError, match=r"JointEffortAction does not.*algorithm\.action_bounds"):
        _ = env.action_bounds


def test_contract(make: Maker) -> None:
    """The checker finds nothing."""
    check_vec_env(IsaacLabVecEnv(make(noise=True, history=2)))


class TestFinalObsOfIsaacLab:
    """Versions of Isaac Lab that pass final observations on themselves; stand-ins only, the wheel is older."""

    def test_is_switched_on(self) -> None:
        """Without memories Isaac Lab's own is taken, and there is no hook."""
        wrapper = make_stand_in(has_final_obs=True)
        env = IsaacLabVecEnv(wrapper)
        assert wrapper.env.cfg.compute_final_obs and not isinstance(wrapper.env._reset_idx, ResetHook)
        end_soon(env, [1])
        _, _, _, extras = env.step(FORWARD)
        torch.testing.assert_close(extras["final_obs"]["policy"][1], POSES[1])

    def test_history_takes_the_hook(self) -> None:
        """Isaac Lab's own lacks the newest frame of a history."""
        wrapper = make_stand_in(has_final_obs=True, history=2)
        env = IsaacLabVecEnv(wrapper)
        assert not wrapper.env.cfg.compute_final_obs
        end_soon(env, [1])
        _, _, _, extras = env.step(FORWARD)
        torch.testing.assert_close(extras["final_obs"]["policy"][1], POSES[[0, 1]].flatten())

    def test_delay_takes_the_hook(self) -> None:
        """Isaac Lab's own is that of the step before: the default pose, not the one after the first of two steps."""
        wrapper = make_stand_in(has_final_obs=True, delay=True)
        env = IsaacLabVecEnv(wrapper)
        assert not wrapper.env.cfg.compute_final_obs
        end_soon(env, [1], steps=2)
        env.step(FORWARD)
        obs, _, _, extras = env.step(FORWARD)
        torch.testing.assert_close(extras["final_obs"]["policy"][1], POSES[1])
        torch.testing.assert_close(obs["policy"][:2], POSES[[1, 0]])  # the hook has not advanced the delays


def make_direct_stand_in(noise: bool = False, clip_actions: float | None = None) -> stand_ins.Wrapper:
    """Build the stand-in for Isaac Lab's wrapper around a direct environment."""
    return stand_ins.Wrapper(stand_ins.DirectEnv(noise), clip_actions)


class TestDirect:
    """Direct environments."""

    @pytest.fixture(params=["stand-in", "wheel"])
    def make(self, request: pytest.FixtureRequest) -> Maker:
        """Return the function that builds environments, of each kind."""
        if request.param == "stand-in":
            return make_direct_stand_in
        wheel.require_wheel()
        return wheel.make_direct_wrapper

    def test_final_observation(self, make: Maker) -> None:
        """The pose before the reset; the environment observed once in its own eyes, and what it returned stays."""
        wrapper = make()
        env = IsaacLabVecEnv(wrapper)
        end_soon(env, [1])
        observed = float(wrapper.unwrapped.num_observed)
        obs, _, _, extras = env.step(FORWARD)
        assert float(wrapper.unwrapped.num_observed) == observed + 1
        torch.testing.assert_close(extras["final_obs"]["policy"][1], POSES[1])
        torch.testing.assert_close(obs["policy"], POSES[[1, 0, 1, 1]])
        env.step(FORWARD)
        torch.testing.assert_close(obs["policy"], POSES[[1, 0, 1, 1]])

    def test_noise(self, make: Maker) -> None:
        """Both observations of a step have the noise of the model's first call: it does not notice the other."""
        env = IsaacLabVecEnv(make(noise=True))
        end_soon(env, [1])
        obs, _, _, extras = env.step(FORWARD)
        torch.testing.assert_close(extras["final_obs"]["policy"][1], POSES[1] + 1000.0)
        torch.testing.assert_close(obs["policy"][1], POSES[0] + 1000.0)

    def test_bounds(self, make: Maker) -> None:
        """They are the environment's own, or nobody's."""
        wrapper = make(clip_actions=1.5)
        env = IsaacLabVecEnv(wrapper)
        with pytest.raises(EnvContractError, match=r"direct environment DirectEnv.*algorithm\.action_bounds"):
            _ = env.action_bounds
        wrapper.unwrapped.action_bounds = (torch.tensor([-1.0, -2.0]), torch.tensor([1.0, 2.0]))
        low, high = env.action_bounds
        assert low.tolist() == [-1.0, -1.5] and high.tolist() == [1.0, 1.5]

    def test_final_obs_of_isaac_lab(self) -> None:
        """A direct environment that was built with ``compute_final_obs`` is trusted, one without gets the hook."""
        for setting in (True, False):
            wrapper = make_direct_stand_in()
            wrapper.env.cfg.compute_final_obs = setting
            IsaacLabVecEnv(wrapper)
            assert isinstance(wrapper.env._reset_idx, ResetHook) is not setting
