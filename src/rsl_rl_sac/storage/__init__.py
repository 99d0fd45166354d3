# SPDX-License-Identifier: BSD-3-Clause

"""Storage of experience."""

from .replay_storage import Batch, ReplayStorage

__all__ = ["Batch", "ReplayStorage"]
