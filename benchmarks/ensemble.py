# SPDX-License-Identifier: BSD-3-Clause

"""Two Q-networks as one batched computation against one after the other: forward and backward pass.

python benchmarks/ensemble.py
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import NUM_ACTIONS, SIZES, Size, ratio, take_turns, write_table
from rsl_rl.modules import MLP

from rsl_rl_sac.modules import EnsembleMLP
from rsl_rl_sac.utils.allocator import reuse_large_allocations


def main() -> None:
    """Measure all sizes and activations."""
    torch.set_num_threads(2)
    reuse_large_allocations()
    rows = []
    for name, size in SIZES.items():
        for activation in ("relu", "swish"):
            seconds = take_turns(candidates(size, activation), rounds=11, repetitions=size.repetitions)
            rows.append([name, activation, ratio(seconds, "batched", "separate"), ratio(seconds, "fused", "separate")])
            print(rows[-1], flush=True)
    write_table("ensemble", ["size", "activation", "batched_over_separate", "fused_over_separate"], rows)


def candidates(size: Size, activation: str) -> dict[str, Callable[[], None]]:
    """Return the three ways to compute a squared loss of two Q-networks and its gradient."""
    members = [MLP(size.observations + NUM_ACTIONS, 1, size.hidden_dims, activation) for _ in range(2)]
    batched, fused = EnsembleMLP(members), EnsembleMLP(members)
    batched.fused = False
    observations = torch.randn(size.batch_size, size.observations)
    actions = torch.randn(size.batch_size, NUM_ACTIONS)
    parameters = [parameter for member in members for parameter in member.parameters()]

    def separate() -> None:
        x = torch.cat([observations, actions], dim=-1)
        values = torch.stack([member(x).squeeze(-1) for member in members])
        torch.autograd.grad(values.square().mean(), parameters)

    def together(ensemble: EnsembleMLP) -> Callable[[], None]:
        stacked = list(ensemble.parameters())

        def run() -> None:
            torch.autograd.grad(ensemble(observations, actions).square().mean(), stacked)

        return run

    return {"separate": separate, "batched": together(batched), "fused": together(fused)}


if __name__ == "__main__":
    main()
