# SPDX-License-Identifier: BSD-3-Clause

"""Newer checkpoints of a run that is still training."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from rsl_rl_sac.locomotion.evaluation import Policy
from rsl_rl_sac.locomotion.runs import PolicyFile, load_policy
from rsl_rl_sac.utils.checkpoint import find_checkpoints
from rsl_rl_sac.utils.errors import CheckpointError

POLL_SECONDS = 2.0
"""Seconds between looks into the folder."""


class CheckpointWatch:
    """Looks into the folder of a run now and then."""

    def __init__(self, file: PolicyFile, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with a checkpoint that is loaded already.

        Args:
            file: The checkpoint.
            clock: Seconds, from any origin.
        """
        self.file = file
        self.problem = ""
        """Why the newest checkpoint is not the one in use; empty if it is."""
        self._clock = clock
        self._next_look = clock() + POLL_SECONDS

    def poll(self) -> Policy | None:
        """Return the policy of the newest checkpoint, if it is time to look and there is a new one.

        A checkpoint that cannot be loaded is left aside and tried again later: it may have been deleted since it was
        found.
        """
        if self._clock() < self._next_look:
            return None
        self._next_look = self._clock() + POLL_SECONDS
        checkpoints = find_checkpoints(self.file.folder)
        if not checkpoints or checkpoints[-1] == self.file.path:
            return None
        newest = replace(self.file, path=checkpoints[-1])
        try:
            policy = load_policy(newest)
        except CheckpointError as error:
            self.problem = str(error)
            return None
        self.file, self.problem = newest, ""
        return policy
