# SPDX-License-Identifier: BSD-3-Clause

"""Small helpers: seeding, files and memory."""

from __future__ import annotations

import pathlib
import random
import sys

import numpy as np
import pytest
import torch

from rsl_rl_sac.utils.allocator import reuse_large_allocations
from rsl_rl_sac.utils.checkpoint import find_checkpoints, load_safely, save_atomically
from rsl_rl_sac.utils.devices import on_cpu
from rsl_rl_sac.utils.errors import CheckpointError
from rsl_rl_sac.utils.seeding import get_rng_state, seed_everything, set_rng_state


def draw() -> tuple:
    """Draw from every generator."""
    return random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn(), torch.randn(3).tolist()


def test_rng_state_round_trip(tmp_path: pathlib.Path) -> None:
    """The state survives a file that is loaded without running code."""
    seed_everything(3)
    draw()
    save_atomically({"rng": get_rng_state()}, tmp_path / "state.pt")
    expected = draw()
    seed_everything(4)
    set_rng_state(load_safely(tmp_path / "state.pt")["rng"])
    assert draw() == expected


def test_seeding() -> None:
    """All generators follow the seed."""
    seed_everything(5)
    first = draw()
    seed_everything(5)
    assert draw() == first
    seed_everything(6)
    assert all(a != b for a, b in zip(draw(), first, strict=True))


def test_find_checkpoints_sorts_by_number(tmp_path: pathlib.Path) -> None:
    """model_10 comes after model_9, and other files are left alone."""
    for name in ("model_10.pt", "model_9.pt", "model_100.pt", "model_best.pt", "model_9.replay.pt"):
        (tmp_path / name).touch()
    assert [path.name for path in find_checkpoints(tmp_path)] == ["model_9.pt", "model_10.pt", "model_100.pt"]


def test_not_a_dictionary(tmp_path: pathlib.Path) -> None:
    """A file that holds something else than a dictionary is no checkpoint."""
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(CheckpointError, match="holds a list"):
        load_safely(tmp_path / "list.pt")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_memory_is_reused() -> None:
    """After the setting, a large tensor that is freed and made again causes no page faults."""
    import resource

    assert reuse_large_allocations()

    def faults(rounds: int) -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(rounds):
            torch.ones(12_000_000)  # 48 MB, 11 719 pages; up to 32 MB glibc learns to keep by itself
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    faults(2)
    # Without the setting every round faults in all its pages, 58 600 in five. The best of four counts: a heap that
    # other tests left in pieces may serve some of the rounds from different places.
    assert min(faults(5) for _ in range(4)) < 1000


def test_on_cpu() -> None:
    """Tensors at any depth are moved, and nothing else changes."""
    value = {"a": [torch.ones(2), {"b": (3, "c", None)}], "d": torch.zeros(1)}
    moved = on_cpu(value)
    assert isinstance(moved, dict) and moved["a"][1] == {"b": (3, "c", None)} and moved["a"][0].tolist() == [1.0, 1.0]
    with pytest.raises(NotImplementedError):  # this device has no values to move
        on_cpu({"a": [torch.ones(2), {"b": (torch.empty(1, device="meta"),)}]})
