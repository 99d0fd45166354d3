# SPDX-License-Identifier: BSD-3-Clause

"""Memory of a stored transition, and time to sample a batch as a share of a gradient step.

python benchmarks/replay.py
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import NUM_ACTIONS, SIZES, random_observations, ratio, take_turns, write_table
from learner import ours

from rsl_rl_sac.storage import ReplayStorage
from rsl_rl_sac.utils.allocator import reuse_large_allocations

NUM_ENVS, NUM_STEPS, N_STEP = 1024, 512, 5
TIME_OUT_RATE = 0.01


def main() -> None:
    """Measure memory and time."""
    torch.set_num_threads(2)
    reuse_large_allocations()
    write_table("replay_memory", ["size", "observations", "actions", "bytes", "over_plain"], memory_rows())
    rows = []
    for name, size in SIZES.items():
        storage = filled_storage(size.observations, torch.float32, torch.float32)
        candidates: dict[str, Callable[[], None]] = {"step": ours(size, "swish"), "sampling": sampler(storage, name)}
        seconds = take_turns(candidates, rounds=9)
        rows.append([name, size.batch_size, ratio(seconds, "sampling", "step")])
        print(rows[-1], flush=True)
    write_table("replay_time", ["size", "batch_size", "sampling_over_step"], rows)


def memory_rows() -> list[list[object]]:
    """Return bytes per transition, also as a share of storing (s, a, r, s', d, b) in float32."""
    rows: list[list[object]] = []
    for name, size in SIZES.items():
        plain = 4 * (2 * size.observations + NUM_ACTIONS + 3)
        for obs_dtype, action_dtype in (
            (torch.float32, torch.float32),
            (torch.float16, torch.float32),
            (torch.float16, torch.float16),
        ):
            storage = filled_storage(size.observations, obs_dtype, action_dtype)
            size_of_one = storage.nbytes / len(storage)
            types = [str(dtype).removeprefix("torch.") for dtype in (obs_dtype, action_dtype)]
            rows.append([name, *types, size_of_one, size_of_one / plain])
    return rows


def filled_storage(observations: int, obs_dtype: torch.dtype, action_dtype: torch.dtype) -> ReplayStorage:
    """Return a full storage with one per cent of time-outs."""
    obs = random_observations(NUM_ENVS, observations)
    storage = ReplayStorage(
        NUM_ENVS, NUM_ENVS * NUM_STEPS, obs, NUM_ACTIONS, N_STEP, obs_dtype=obs_dtype, action_dtype=action_dtype
    )
    for _ in range(NUM_STEPS + 10):
        time_outs = torch.rand(NUM_ENVS) < TIME_OUT_RATE
        storage.add(obs, torch.rand(NUM_ENVS, NUM_ACTIONS), torch.randn(NUM_ENVS), time_outs, time_outs, obs)
    return storage


def sampler(storage: ReplayStorage, size_name: str) -> Callable[[], None]:
    """Return a function that samples as many batches as the learner takes per turn."""
    size = SIZES[size_name]

    def run() -> None:
        for _ in storage.mini_batches(size.repetitions, size.batch_size):
            pass

    return run


if __name__ == "__main__":
    main()
