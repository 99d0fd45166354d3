# SPDX-License-Identifier: BSD-3-Clause

"""What gradient steps report."""

from __future__ import annotations

import torch

from rsl_rl_sac.algorithms.metrics import METRICS, find_break


def test_first_break_is_named() -> None:
    """The first step that went wrong counts, with all that went wrong in it; numbers that are finite are no break."""
    history = torch.zeros(4, len(METRICS))
    assert find_break(history) is None
    history[3, METRICS.index("critic")] = torch.nan
    history[2, METRICS.index("alpha")] = torch.inf
    history[2, METRICS.index("actor")] = -torch.inf
    assert find_break(history) == (2, ["actor", "alpha"])
