# SPDX-License-Identifier: BSD-3-Clause

"""Action bounds that open as the policy learns."""

from __future__ import annotations

import torch
from rsl_rl.env import VecEnv

from rsl_rl_sac.config import SACCfg
from rsl_rl_sac.envs.action_bounds import resolve_action_bounds
from rsl_rl_sac.extensions import Symmetry
from rsl_rl_sac.models import Actor
from rsl_rl_sac.utils.errors import ConfigError


class Opening:
    """Bounds on their way from narrow ones, in which walking is found, to wide ones, which walking may need.

    A first noise that is a large share of wide bounds keeps a new policy from walking in the steps that a CPU has. Go1
    did as well with bounds that opened as with those that stayed narrow, one seed each (docs/learning.md).
    """

    def __init__(self, first: tuple[torch.Tensor, torch.Tensor], final: tuple[torch.Tensor, torch.Tensor]) -> None:
        """Initialize with the first and the final bounds, low and high each."""
        self.first, self.final = first, final

    def open(self, actor: Actor, share: float, *averages: Actor) -> None:
        """Give a policy, and averages of it that share its distribution, the bounds after some share of the way."""
        low, high = (torch.lerp(first, final, share) for first, final in zip(self.first, self.final, strict=True))
        actor.distribution.move_bounds(actor.mlp, low, high, *(average.mlp for average in averages))


def build_opening(cfg: SACCfg, env: VecEnv, symmetry: Symmetry | None, device: str) -> Opening | None:
    """Return the way of the bounds that a configuration asks for, or None if they stay.

    Raises:
        ConfigError: If the final bounds are not symmetric, where symmetry is asked for.
    """
    if cfg.final_largest_action is None:
        return None
    first, final = (
        tuple(bound.to(device) for bound in resolve_action_bounds(env, env.num_actions, cfg.action_bounds, largest))
        for largest in (cfg.largest_action, cfg.final_largest_action)
    )
    if symmetry is not None:
        try:
            symmetry.check_action_bounds(*final)
        except ConfigError as error:
            raise ConfigError(f"Opened to algorithm.final_largest_action: {error}") from error
    return Opening(first, final)  # type: ignore[arg-type]  # pairs
