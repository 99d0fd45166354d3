# SPDX-License-Identifier: BSD-3-Clause

"""Learning algorithms."""

from .sac import SAC

__all__ = ["SAC"]
