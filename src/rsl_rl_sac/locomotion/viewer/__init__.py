# SPDX-License-Identifier: BSD-3-Clause

"""A page in the browser that shows a policy live. What draws it is only imported when the page is opened."""

from .checkpoint_watch import CheckpointWatch
from .loop import run_viewer
from .session import Session

__all__ = ["CheckpointWatch", "Session", "run_viewer"]
