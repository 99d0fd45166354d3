# SPDX-License-Identifier: BSD-3-Clause

"""Where the time of a gradient step goes, by kind of operation.

python benchmarks/profile_step.py [--size S]
"""

from __future__ import annotations

import argparse

import torch
from common import SIZES, write_table
from learner import ours
from torch.profiler import ProfilerActivity, profile

from rsl_rl_sac.utils.allocator import reuse_large_allocations

KINDS = {
    "matrix products": ("aten::bmm", "aten::baddbmm", "aten::mm", "aten::addmm"),
    "activations": ("aten::silu", "aten::silu_", "aten::silu_backward", "aten::clamp_min_", "aten::threshold_backward"),
    "bias gradients and other sums": ("aten::sum", "aten::mean"),
    "copies (bias into the product, flat gradient)": ("aten::copy_", "aten::cat"),
    "optimizers": ("aten::_fused_adam_", "Optimizer.step#FlatAdam.step", "aten::lerp_", "aten::linalg_vector_norm"),
    "gathering the batch": ("aten::index_select", "aten::index"),
}
REST = "the rest: policy distribution, losses, Python"


def main() -> None:
    """Profile one turn of the learner."""
    parser = argparse.ArgumentParser(description="Where the time of a gradient step goes.")
    parser.add_argument("--size", default="S", choices=list(SIZES))
    args = parser.parse_args()
    torch.set_num_threads(2)
    reuse_large_allocations()
    shares = {activation: profile_one(args.size, activation) for activation in ("relu", "swish")}
    rows = [[kind, *[f"{shares[activation][kind]:.1%}" for activation in shares]] for kind in [*KINDS, REST]]
    write_table(f"profile_{args.size}", ["kind", *shares], rows)


def profile_one(size_name: str, activation: str) -> dict[str, float]:
    """Return the share of each kind in the time of the main thread."""
    step = ours(SIZES[size_name], activation)
    for _ in range(3):
        step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(3):
            step()
    times = {event.key: event.self_cpu_time_total for event in profiler.key_averages()}
    total = sum(times.values())
    shares = {kind: sum(times.get(name, 0.0) for name in names) / total for kind, names in KINDS.items()}
    return {**shares, REST: 1.0 - sum(shares.values())}


if __name__ == "__main__":
    main()
