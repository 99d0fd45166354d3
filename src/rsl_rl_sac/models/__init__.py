# SPDX-License-Identifier: BSD-3-Clause

"""Neural models of the actor and the critics."""

from .actor import Actor, ActorSample
from .critic_ensemble import CriticEnsemble
from .observations import normalized_observations, same_observations, sees_the_same

__all__ = [
    "Actor",
    "ActorSample",
    "CriticEnsemble",
    "normalized_observations",
    "same_observations",
    "sees_the_same",
]
