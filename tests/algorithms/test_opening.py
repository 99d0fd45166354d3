# SPDX-License-Identifier: BSD-3-Clause

"""Action bounds that open as training goes on, and what the policy does meanwhile."""

from __future__ import annotations

import math

import pytest
import torch
from tensordict import TensorDict

from rsl_rl_sac.config import SACCfg, SymmetryCfg
from rsl_rl_sac.modules import SquashedGaussian
from rsl_rl_sac.utils.errors import ConfigError
from tests.helpers import collect, small_alg


def make_policy(bias: list[float]) -> tuple[SquashedGaussian, torch.nn.Sequential]:
    """Return a policy of one action within -1 and 3, of which the last layer has the weights 0.8 and 0.5."""
    head = torch.nn.Linear(1, 2)
    with torch.no_grad():
        head.weight[:], head.bias[:] = torch.tensor([[0.8], [0.5]]), torch.tensor(bias)
    return SquashedGaussian(1, low=-1.0, high=3.0), torch.nn.Sequential(head, torch.nn.Unflatten(-1, (2, 1)))


class TestMove:
    """Bounds that move under a policy."""

    def test_by_hand(self) -> None:
        """From -1..3 (1 ± 2) to -3..9 (3 ± 6): a third of the slope, 2 / 6 further down, and a third of the noise."""
        policy, mlp = make_policy([0.3, -1.0])
        policy.move_bounds(mlp, torch.tensor([-3.0]), torch.tensor([9.0]))
        assert (policy.low.item(), policy.high.item()) == (-3.0, 9.0)
        torch.testing.assert_close(mlp[0].weight, torch.tensor([[0.8 / 3], [0.5]]))
        torch.testing.assert_close(mlp[0].bias, torch.tensor([0.3 / 3 - 2 / 6, -1.0 - math.log(3.0)]))

    def test_acts_as_before_in_the_middle(self) -> None:
        """Where the range is symmetric, tanh differs from a line by a third of its cube: so much may actions change."""
        states, sizes = torch.linspace(-0.2, 0.2, 9).unsqueeze(-1), []
        policy, mlp = make_policy([0.0, -3.0])
        for bounds in ((-1.0, 3.0), (-3.0, 5.0)):
            low, high = (torch.tensor([bound]) for bound in bounds)
            policy.move_bounds(mlp, low, high)
            policy.update(mlp(states))
            sizes.append((policy.mean.detach(), policy.action_std.detach()))
        largest_change = 2.0 * (0.8 * 0.2) ** 3 / 3
        assert (sizes[0][0] - sizes[1][0]).abs().max() < largest_change
        torch.testing.assert_close(sizes[0][1], sizes[1][1], rtol=0.03, atol=0.0)

    def test_leaning_moves_with_the_bound(self) -> None:
        """An action at 0.9951 of a half-width of 2 goes to 2 * 2 tanh(1.5), 0.9051 of one of 4, and so beyond 3."""
        policy, mlp = make_policy([3.0 - 0.8, -3.0])
        policy.move_bounds(mlp, torch.tensor([-3.0]), torch.tensor([5.0]))
        action = policy.deterministic_output(mlp(torch.ones(1, 1)))
        assert action.item() == pytest.approx(1.0 + 4.0 * math.tanh(1.5), abs=1e-5)

    def test_same_bounds_change_nothing(self) -> None:
        """Not by a rounding either."""
        policy, mlp = make_policy([0.3, -1.0])
        before = [parameter.clone() for parameter in mlp.parameters()]
        policy.move_bounds(mlp, torch.tensor([-1.0]), torch.tensor([3.0]))
        assert all(torch.equal(one, other) for one, other in zip(before, mlp.parameters(), strict=True))


OPENING = {"largest_action": 1.0, "final_largest_action": 2.5, "target_entropy_updates": (0, 8)}


def test_update_opens_them() -> None:
    """From ±1, within -2..3, to ±2.5 in eight gradient steps, of which an update makes four: half of the way each."""
    alg, env = small_alg(training_start_iteration=0, **OPENING)
    distribution, seen = alg.actor.distribution, []
    for _ in range(4):
        collect(alg, env)
        alg.update()
        seen.append((round(distribution.low.item(), 6), round(distribution.high.item(), 6)))
    assert seen == [(-1.0, 1.0), (-1.5, 1.75), (-2.0, 2.5), (-2.0, 2.5)]
    obs = TensorDict({group: 100.0 * values for group, values in env.get_observations().items()}, [16])
    actions = alg.actor(obs, stochastic_output=True)
    assert bool((actions >= -2.0).all()) and bool((actions <= 2.5).all()) and actions.abs().max() > 1.0


def test_off_by_default() -> None:
    """Bounds stay where they are, whatever else goes down."""
    alg, env = small_alg(training_start_iteration=0, largest_action=1.0, target_entropy_updates=(0, 4))
    for _ in range(3):
        collect(alg, env)
        alg.update()
    assert alg.opening is None and alg.actor.distribution.high.item() == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"final_largest_action": 2.0}, "final_largest_action must be None without largest_action, got 2.0"),
        (
            {"largest_action": 2.0, "final_largest_action": 1.0},
            r"final_largest_action must be a number in \[2, 1e\+06\]",
        ),
        ({"largest_action": 2.0, "final_largest_action": float("inf")}, "final_largest_action must be a finite number"),
    ],
)
def test_bad_settings(settings: dict[str, float], message: str) -> None:
    """Bounds open from something to something wider."""
    with pytest.raises(ConfigError, match=message):
        SACCfg(**settings)  # type: ignore[arg-type]


def negate(
    env: object, obs: TensorDict | None, actions: torch.Tensor | None
) -> tuple[TensorDict | None, torch.Tensor | None]:
    """Mirror a line."""
    if obs is not None:
        obs = torch.cat([obs, obs.apply(torch.neg)])  # type: ignore[assignment]
    return obs, None if actions is None else torch.cat([actions, -actions])


def test_final_bounds_must_be_symmetric() -> None:
    """±1 is its own mirror image, what it would open to, -2..2.5, is not: said before anything is trained."""
    symmetry = SymmetryCfg(data_augmentation_func=negate)  # type: ignore[arg-type]
    small_alg(largest_action=1.0, final_largest_action=1.5, symmetry_cfg=symmetry)
    with pytest.raises(ConfigError, match=r"^Opened to algorithm\.final_largest_action: .*action 0 are \[-2, 2\.5\]"):
        small_alg(largest_action=1.0, final_largest_action=2.5, symmetry_cfg=symmetry)
