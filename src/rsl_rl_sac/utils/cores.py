# SPDX-License-Identifier: BSD-3-Clause

"""Cores of the machine."""

from __future__ import annotations

import os


def num_usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
