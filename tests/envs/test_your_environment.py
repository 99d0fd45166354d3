# SPDX-License-Identifier: BSD-3-Clause

"""The example environment is right, and the checker says what is wrong with each version that one change broke."""

from __future__ import annotations

import pathlib

import pytest
import torch
from rsl_rl.env import VecEnv

from rsl_rl_sac.envs import check_vec_env
from rsl_rl_sac.utils.errors import EnvContractError

SOURCE = (pathlib.Path(__file__).parents[2] / "examples" / "your_environment.py").read_text()


def make_env(old: str = "", new: str = "", num_envs: int = 8) -> VecEnv:
    """Make the environment of the example, with one piece of its text replaced."""
    assert old == "" or SOURCE.count(old) == 1
    names: dict = {"__name__": "example"}
    exec(SOURCE.replace(old, new) if old else SOURCE, names)
    return names["Hover"](num_envs=num_envs)


def test_the_example_is_right() -> None:
    """What the documentation shows fulfils the contract."""
    check_vec_env(make_env())


def test_dynamics_by_hand() -> None:
    """From 1 m at rest with thrust 2: 0.2 m/s and 1.02 m; one that sinks below the ground has failed."""
    env = make_env(num_envs=2)
    env.states = torch.tensor([[1.0, 0.0], [0.05, -1.0]])  # type: ignore[attr-defined]
    obs, rewards, dones, extras = env.step(torch.tensor([[2.0], [0.0]]))
    torch.testing.assert_close(obs["policy"][0], torch.tensor([1.02, 0.2]))
    assert float(rewards[0]) == pytest.approx(0.99601, abs=1e-5)  # exp(-10 * 0.0004)
    assert dones.tolist() == [False, True] and not bool(extras["time_outs"].any())
    torch.testing.assert_close(extras["final_obs"]["policy"][1], torch.tensor([-0.05, -1.0]))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param(
            "rewards, dones, extras\n",
            "rewards.unsqueeze(1), dones, extras\n",
            "step(): rewards must be a tensor of shape (8,), got (8, 1).",
            id="shape of the rewards",
        ),
        pytest.param(
            "dones = failures | time_outs",
            "dones = failures",
            "extras['time_outs'] is set where dones is not: an episode that ends by time is done too.",
            id="time-outs that are not done",
        ),
        pytest.param(
            "        return self.get_observations(), rewards",
            "        extras['final_obs'] = self.get_observations()\n        return self.get_observations(), rewards",
            "extras['final_obs'] equals the observations after the reset: take it before you reset, and as a copy.",
            id="final observations after the reset",
        ),
        pytest.param(
            ', "final_obs": self.get_observations()',
            "",
            "extras['final_obs'] is missing at a time-out: pass the observations of the moment before the reset.",
            id="no final observations",
        ),
        pytest.param(
            "torch.exp(-10.0 * (height - 1.0) ** 2)",
            "torch.log(height - 1.0)",
            "step(): rewards hold NaN or infinite values, the first of them in environment",
            id="a logarithm of something negative",
        ),
        pytest.param(
            "(torch.tensor([-1.0]), torch.tensor([3.0]))",
            "(torch.tensor([3.0]), torch.tensor([-1.0]))",
            "Hover.action_bounds must be finite with low < high, which fails for the actions [0].",
            id="bounds the wrong way round",
        ),
    ],
)
def test_one_change_breaks_it(old: str, new: str, message: str) -> None:
    """The checker names the one fault, and no other."""
    with pytest.raises(EnvContractError) as error:
        check_vec_env(make_env(old, new))
    headline, *findings = str(error.value).splitlines()
    assert headline.startswith("Hover does not fulfil the environment contract")
    assert len(findings) == 1 and findings[0].startswith(f"  - {message}")
