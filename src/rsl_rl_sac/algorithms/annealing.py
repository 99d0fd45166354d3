# SPDX-License-Identifier: BSD-3-Clause

"""When the noise and the learning rates of SAC go down, and bounds that open do so."""

from __future__ import annotations

import math

import torch

from rsl_rl_sac.utils.distributed import average
from rsl_rl_sac.utils.errors import EnvContractError

SMOOTHING_STEPS = 100
"""Vector steps over which the progress that an environment reports is averaged, exponentially."""


class Annealing:
    """How far training has come from its first target entropy, learning rates and bounds to the final ones.

    By the number of gradient steps and, if so configured, not before the task is mastered to some degree. Noise that
    sinks before the robot walks leaves it standing (docs/learning.md), and how many steps walking takes depends on the
    robot and the terrain.
    """

    def __init__(self, updates: tuple[int, int], least_progress: float | None = None) -> None:
        """Start at the beginning.

        Args:
            updates: Gradient steps between which it happens, if nothing is waited for.
            least_progress: Value of ``extras["progress"]`` that is waited for; all is shifted if it comes later.
        """
        self.updates, self.least_progress = updates, least_progress
        self.progress = 0.0
        """What the environment reported, smoothed; starts at nothing, so that it is not reached by chance."""
        self.start = updates[0] if least_progress is None else None
        """Gradient step at which it begins; None is not yet known."""

    def observe(self, extras: dict) -> None:
        """Take note of the progress that a vector step reports."""
        if self.start is not None:
            return
        progress = torch.as_tensor(extras.get("progress", math.nan))
        # A NaN would stay in the average, and be waited for until the end.
        if progress.numel() != 1 or not math.isfinite(progress):
            raise EnvContractError(
                f"algorithm.anneal_progress is {self.least_progress}, but the environment does not say how far it is:"
                f" extras['progress'], one finite number, is {extras.get('progress', 'missing')}. Set"
                " algorithm.anneal_progress to None to go by gradient steps alone."
            )
        self.progress += (float(progress) - self.progress) / SMOOTHING_STEPS

    def decide(self, num_updates: int, device: torch.device, world_size: int = 1) -> None:
        """See whether it is time, the same in all processes."""
        if self.start is None and self.least_progress is not None:
            progress = float(average(torch.tensor(self.progress, device=device), world_size))
            if progress >= self.least_progress:
                self.start = max(num_updates, self.updates[0])

    def share(self, num_updates: int) -> float:
        """Return how far it has come, 0 to 1."""
        if self.start is None:
            return 0.0
        first, last = self.updates
        return min(max((num_updates - self.start) / (last - first), 0.0), 1.0)

    def state_dict(self) -> dict:
        """Return where it is, as numbers."""
        waited = self.least_progress is not None and self.start is not None
        return {"progress": self.progress, "start": self.start if waited else -1}

    def load_state_dict(self, state_dict: dict) -> None:
        """Go on from there, with the settings of now: only what was waited for is not to be waited for again."""
        self.progress = state_dict["progress"]
        if self.least_progress is not None:
            self.start = state_dict["start"] if state_dict["start"] >= 0 else None
