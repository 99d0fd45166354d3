# SPDX-License-Identifier: BSD-3-Clause

"""Neural models of the actor and the critics."""

from .actor import Actor
from .critic_ensemble import CriticEnsemble

__all__ = ["Actor", "CriticEnsemble"]
