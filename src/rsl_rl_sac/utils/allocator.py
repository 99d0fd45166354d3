# SPDX-License-Identifier: BSD-3-Clause

"""Memory of the process."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
"""Parameters of ``mallopt`` (malloc.h of glibc)."""


def reuse_large_allocations() -> bool:
    """Let glibc keep large freed blocks in the process instead of giving them back to the system.

    By default every tensor above 128 kB to 32 MB is a fresh mapping whose pages fault in one by one, at every
    gradient step; ``benchmarks/learner.py --keep-malloc`` runs that way. The price is that the process keeps its peak
    memory. Does nothing where there is no glibc.

    Returns:
        Whether the setting was taken.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # musl has no mallopt
        return False
    settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, 64 << 20))
    return all([mallopt(parameter, value) == 1 for parameter, value in settings])
