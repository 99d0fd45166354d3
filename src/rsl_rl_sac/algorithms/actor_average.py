# SPDX-License-Identifier: BSD-3-Clause

"""An average of the actor over its last steps, as a policy of its own."""

from __future__ import annotations

import copy

from rsl_rl_sac.models import Actor
from rsl_rl_sac.utils.checkpoint import check_network, check_parts
from rsl_rl_sac.utils.flat_parameters import FlatParameters


class ActorAverage:
    """A policy whose weights follow those of the actor slowly.

    Training does not know of it. The actor goes up and down from one evaluation to the next, on rough terrain above
    all; an average is steadier (docs/learning.md).
    """

    def __init__(self, actor: Actor, parameters: FlatParameters, num_steps: int) -> None:
        """Start at the actor's weights.

        Args:
            actor: Policy that is trained. The average shares its observation statistics and its distribution.
            parameters: Weights of the actor's network.
            num_steps: Steps of the actor to average over.
        """
        shared = {id(part): part for part in (actor.obs_normalizer, actor.distribution)}
        self.policy = copy.deepcopy(actor, memo=shared)
        """The average, as a policy."""
        self.policy.mlp.requires_grad_(False)
        self.num_steps = num_steps
        self.count = 0
        """Steps made so far."""
        self._of_actor, self._own = parameters, FlatParameters(self.policy.mlp.parameters())

    def follow(self) -> None:
        """Move towards the actor's weights after a step of it; the first steps count alike."""
        self.count += 1
        self._own.ensure_bound()
        self._own.follow(self._of_actor, max(1.0 / self.num_steps, 1.0 / (self.count + 1)))

    def restart(self) -> None:
        """Begin anew at the actor's weights."""
        self.count = 0
        self._own.ensure_bound()
        self._own.follow(self._of_actor, 1.0)

    def state_dict(self) -> dict:
        """Return the policy, as ``actor_state_dict``, and the number of steps."""
        return {"actor_state_dict": self.policy.state_dict(), "count": self.count}

    def check_state_dict(self, state_dict: dict | None, strict: bool = True) -> None:
        """Raise an error if a state is not one of an average of such an actor; None is of a run without."""
        if state_dict is None:
            return
        check_parts({"average": state_dict}, {"average": dict}, "The checkpoint")
        check_parts(state_dict, {"actor_state_dict": dict, "count": int}, "The checkpoint's average of the actor")
        if strict:
            check_network(state_dict["actor_state_dict"], self.policy.state_dict())

    def load_state_dict(self, state_dict: dict | None, strict: bool = True) -> None:
        """Restore what :meth:`state_dict` returned, after the actor was loaded; None begins at the actor."""
        self.restart()
        if state_dict is None:
            return
        self.policy.load_state_dict(state_dict["actor_state_dict"], strict=strict)
        self.count = state_dict["count"]
