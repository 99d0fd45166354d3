# SPDX-License-Identifier: BSD-3-Clause

"""What the algorithm reports of its gradient steps."""

from __future__ import annotations

import torch

METRICS: tuple[str, ...] = (
    "critic",
    "actor",
    "temperature",
    "critic_grad_norm",
    "actor_grad_norm",
    "alpha",
    "entropy",
    "q_value",
    "rnd",
    "symmetry",
)
"""What :meth:`rsl_rl_sac.algorithms.SAC.update` reports, each averaged over the gradient steps that have it."""


def find_break(history: torch.Tensor) -> tuple[int, list[str]] | None:
    """Return the first gradient step with numbers that are not finite and their names, or None if there is none.

    Args:
        history: Metrics of successive gradient steps. Shape: ``(steps, len(METRICS))``.
    """
    finite = torch.isfinite(history)
    if bool(finite.all()):
        return None
    step = int((~finite).any(dim=1).nonzero()[0])
    return step, [name for name, ok in zip(METRICS, finite[step].tolist(), strict=True) if not ok]
