# SPDX-License-Identifier: BSD-3-Clause

"""What processes do together, in two processes over gloo."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import torch
from rsl_rl.modules import EmpiricalNormalization

from rsl_rl_sac.envs.evaluation import EVALUATION_SEED
from rsl_rl_sac.utils.distributed import (
    average,
    from_first,
    gather,
    join_processes,
    leave_processes,
    together,
    update_normalizer,
)
from rsl_rl_sac.utils.errors import CheckpointError, ConfigError
from rsl_rl_sac.utils.seeding import rank_seed
from tests.processes import run_processes

ROUNDS = ((10, 37), (5, 5), (1, 200))
"""Rows that the two processes see before each merge."""


def observations() -> list[list[torch.Tensor]]:
    """Return what the processes see, each from a distribution of its own, far from 0."""
    generator = torch.Generator().manual_seed(3)
    offsets = (torch.tensor([100.0, -3.0, 0.0]), torch.tensor([90.0, 5.0, 0.0]))
    scales = (torch.tensor([0.1, 1.0, 2.0]), torch.tensor([1.0, 0.2, 0.5]))
    return [
        [offsets[r] + scales[r] * torch.randn(counts[r], 3, generator=generator) for r in range(2)] for counts in ROUNDS
    ]


def normalize_together() -> tuple[torch.Tensor, torch.Tensor, int]:
    """Merge the statistics after every round."""
    join_processes("cpu")
    normalizer = EmpiricalNormalization(3)
    for values in observations():
        update_normalizer(normalizer, values[torch.distributed.get_rank()])
    normalizer.eval()
    update_normalizer(normalizer, torch.full((1, 3), 1e9))  # not counted
    return normalizer.mean, normalizer.std, int(normalizer.count)


def stop_counting() -> tuple[int, float]:
    """Update statistics that end after 5 samples, with 4 and 4 and 4 of both processes together."""
    join_processes("cpu")
    normalizer = EmpiricalNormalization(1, until=5)
    for value in (1.0, 3.0, 100.0):
        update_normalizer(normalizer, torch.full((2, 1), value))
    return int(normalizer.count), float(normalizer.mean)


def test_statistics_that_end() -> None:
    """As in one process, an update begins only while the count is below the limit: two of the three, with mean 2."""
    assert run_processes(stop_counting) == [(8, 2.0), (8, 2.0)]


def test_statistics_of_all_that_was_seen() -> None:
    """Mean, deviation and count are those of one array of everything, and the same in both processes."""
    (mean, std, count), other = run_processes(normalize_together)
    everything = np.concatenate([values.double().numpy() for round_ in observations() for values in round_])
    assert count == other[2] == len(everything) == 258
    np.testing.assert_allclose(mean.numpy(), everything.mean(axis=0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(std.numpy(), everything.std(axis=0), rtol=1e-5)
    assert torch.equal(mean, other[0]) and torch.equal(std, other[1])


def communicate() -> dict[str, object]:
    """Use the helpers for values, and for errors of one process and of both."""
    assert gather("alone") == ["alone"] and from_first("alone") == "alone"  # not joined yet
    join_processes("cpu")
    rank = torch.distributed.get_rank()
    errors = []
    for failing in ((), (1,), (0, 1)):
        try:
            with together():
                if rank in failing:
                    raise CheckpointError(f"of {rank}")
            errors.append(None)
        except CheckpointError as error:
            errors.append(str(error))
    mean = average(torch.tensor([1.0, 10.0]) * (rank + 1), 2)
    return {"gather": gather(rank), "first": from_first(f"from {rank}"), "errors": errors, "mean": mean.tolist()}


def test_values_and_errors() -> None:
    """All processes see the values and the error of any of them, and their own error if they have one."""
    expected = {"gather": [0, 1], "first": "from 0", "mean": [1.5, 15.0]}
    first, second = run_processes(communicate)
    assert first == {**expected, "errors": [None, "of 1", "of 0"]}
    assert second == {**expected, "errors": [None, "of 1", "of 1"]}


def threads_of_torch() -> list[str]:
    """Return the threads by which this process listens to others."""
    names = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    return [name for name in names if "gloo" in name or "tcpstore" in name]


def leave() -> tuple[list[str], list[str], float]:
    """Leave, the first process late; return the threads before and after, and when it came or the other had gone."""
    join_processes("cpu")
    gather("something")
    rank = torch.distributed.get_rank()
    before = threads_of_torch()
    if rank == 0:
        time.sleep(1.0)
    came = time.time()
    leave_processes()
    leave_processes()  # there is nothing left to leave
    return before, threads_of_torch(), came if rank == 0 else time.time()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")
def test_leaving() -> None:
    """Nobody leaves before all have come, and then no thread listens: at Python's end it would abort the process."""
    (before, after, came), (other_before, other_after, gone) = run_processes(leave)
    assert before and other_before and after == other_after == []
    assert gone >= came


def test_wrong_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU of another process, and processes that nobody started, are refused in one line."""
    assert join_processes("cpu") == "cpu"
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(ConfigError, match="Process 1 must use the device 'cuda:1', not 'cuda:0'"):
        join_processes("cuda:0")
    with pytest.raises(ConfigError, match=r"2 processes.*MASTER_ADDR.*torchrun"):
        join_processes("cpu")


def test_seeds() -> None:
    """The first process has the seed of the run; runs with successive seeds share none, nor those of evaluations."""
    seeds = [rank_seed(seed, rank) for seed in range(100) for rank in range(100)]
    assert rank_seed(7, 0) == 7 and len(set(seeds)) == len(seeds)
    # A vector environment of Gymnasium counts up from its seed: 8192 for training, 1000 for an evaluation.
    assert not any(seed - 1000 < EVALUATION_SEED < seed + 8192 for seed in seeds)
