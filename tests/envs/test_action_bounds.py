# SPDX-License-Identifier: BSD-3-Clause

"""Bounds by hand."""

from __future__ import annotations

import pytest
import torch

from rsl_rl_sac.envs import action_bounds
from rsl_rl_sac.envs.action_bounds import action_term_bounds, resolve_action_bounds
from rsl_rl_sac.utils import ConfigError, EnvContractError


def test_by_hand() -> None:
    """Distances to the soft limits in units of the action: 0.5 / 0.25, 1 / 0.25, and so on."""
    low, high = action_bounds([0.1, -1.5], [-0.4, -2.7], [1.1, -0.9], 0.25)
    torch.testing.assert_close(low, torch.tensor([-2.0, -4.8]))
    torch.testing.assert_close(high, torch.tensor([4.0, 2.4]))


def test_scale_per_joint() -> None:
    """Every joint has its own scale."""
    low, high = action_bounds([0.0, 0.0], [-1.0, -1.0], [1.0, 2.0], [0.5, 0.25])
    torch.testing.assert_close(low, torch.tensor([-2.0, -4.0]))
    torch.testing.assert_close(high, torch.tensor([2.0, 8.0]))


def test_round_trip() -> None:
    """The position target at a bound is the soft limit."""
    default, lower, upper, scale = torch.randn(12), torch.randn(12) - 4, torch.randn(12) + 4, torch.rand(12) + 0.1
    low, high = action_bounds(default, lower, upper, scale)
    torch.testing.assert_close(default + scale * low, lower)
    torch.testing.assert_close(default + scale * high, upper)


@pytest.mark.parametrize(
    ("lower", "upper", "scale"),
    [([-1.0, float("-inf")], [1.0, 1.0], 0.5), ([-1.0, 0.0], [1.0, 0.0], 0.5), ([-1.0, -1.0], [1.0, 1.0], [0.5, -0.5])],
)
def test_unusable_limits_name_the_joint(lower: list, upper: list, scale: float | list) -> None:
    """The error names the joint and the configuration field."""
    with pytest.raises(EnvContractError, match=r"No action bounds for knee:.*algorithm.action_bounds"):
        action_bounds([0.0, 0.0], lower, upper, scale, joint_names=["hip", "knee"])


def test_scale_of_another_robot() -> None:
    """A scale for three joints does not fit two."""
    with pytest.raises(EnvContractError, match=r"one number or one per joint \(2\), got shape \(3,\)"):
        action_bounds([0.0, 0.0], [-1.0, -1.0], [1.0, 1.0], [0.5, 0.5, 0.5])


@pytest.mark.parametrize("bounds", [[1.0], [[0.0, 0.0, 0.0], 1.0], [1.0, -1.0], [float("-inf"), 1.0], "wide"])
def test_bad_bounds_by_hand(bounds: object) -> None:
    """Bounds that make no sense are refused with their name."""
    with pytest.raises(ConfigError, match=r"algorithm\.action_bounds"):
        resolve_action_bounds(object(), 2, bounds)  # type: ignore[arg-type]


class TestLargestAction:
    """Bounds that are wider than the policy shall reach."""

    def test_narrows_only_what_is_wider(self) -> None:
        """Bounds (-1, 8) and (-5, 2) become (-1, 3) and (-3, 2)."""
        low, high = resolve_action_bounds(object(), 2, [[-1.0, -5.0], [8.0, 2.0]], largest=3.0)
        assert low.tolist() == [-1.0, -3.0] and high.tolist() == [3.0, 2.0]

    def test_nothing_left(self) -> None:
        """An action that is always larger is named."""
        with pytest.raises(ConfigError, match=r"largest_action = 3 leaves no room .* actions \[1\]"):
            resolve_action_bounds(object(), 2, [[-1.0, 4.0], [8.0, 5.0]], largest=3.0)


class TestActionTermBounds:
    """Numbers as the action terms of mjlab and Isaac Lab keep them: a row for each environment."""

    limits = torch.tensor([[[-1.0, 2.0], [-3.0, 1.0]], [[-0.5, 2.5], [-3.0, 0.5]]])
    """Two environments, two joints; each environment has the narrower limits somewhere."""

    def test_narrowest_limits(self) -> None:
        """Limits (-0.5, 2) and (-3, 0.5) around (0.5, 0) with scales 0.5 and 0.25: (-2, 3) and (-12, 2)."""
        scale, offset = torch.tensor([[0.5, 0.25]] * 2), torch.tensor([[0.5, 0.0]] * 2)
        low, high = action_term_bounds(scale, offset, self.limits, ["hip", "knee"])
        torch.testing.assert_close(low, torch.tensor([-2.0, -12.0]))
        torch.testing.assert_close(high, torch.tensor([3.0, 2.0]))

    def test_plain_numbers(self) -> None:
        """A scale of 0.5 and an offset of 0 for all joints."""
        low, high = action_term_bounds(0.5, 0.0, self.limits, ["hip", "knee"])
        torch.testing.assert_close(low, torch.tensor([-1.0, -6.0]))
        torch.testing.assert_close(high, torch.tensor([4.0, 1.0]))

    def test_unlimited_joint(self) -> None:
        """The joint without limits is named."""
        limits = self.limits.clone()
        limits[:, 1] = torch.tensor([float("-inf"), float("inf")])
        with pytest.raises(EnvContractError, match="No action bounds for knee"):
            action_term_bounds(0.5, 0.0, limits, ["hip", "knee"])

    def test_clipped_targets(self) -> None:
        """Targets cut off at (0.5, 1) and (-1, 9) with a scale of 0.5: actions (1, 2) and (-2, 1), the soft limit's."""
        clip = torch.tensor([[[0.5, 1.0], [-1.0, 9.0]]] * 2)
        low, high = action_term_bounds(0.5, 0.0, self.limits, ["hip", "knee"], clip)
        torch.testing.assert_close(low, torch.tensor([1.0, -2.0]))
        torch.testing.assert_close(high, torch.tensor([2.0, 1.0]))

    def test_nothing_within_the_clip(self) -> None:
        """A joint whose targets are cut off beyond its limits is named."""
        clip = torch.tensor([[[-1.0, 1.0], [0.7, 0.9]]] * 2)
        with pytest.raises(EnvContractError, match=r"No action bounds for knee: the targets are cut off"):
            action_term_bounds(0.5, 0.0, self.limits, ["hip", "knee"], clip)
