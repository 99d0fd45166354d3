# SPDX-License-Identifier: BSD-3-Clause

"""Timing by ratio: candidates take turns in one process, so that noise of the machine hits all of them."""

from __future__ import annotations

import csv
import io
import pathlib
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict

from rsl_rl_sac.utils.checkpoint import write_text_atomically

RESULTS = pathlib.Path(__file__).parent / "results"


@dataclass
class Size:
    """A problem size."""

    observations: int
    """Number of observations."""

    hidden_dims: list[int]
    """Sizes of the hidden layers of the actor and of the critics."""

    batch_size: int
    """Transitions per gradient step."""

    repetitions: int
    """Gradient steps per turn."""


SIZES = {
    "S": Size(48, [256, 128, 64], 1024, 40),
    "M": Size(235, [512, 256, 128], 2048, 6),
    "L": Size(235, [1024, 512, 256], 8192, 1),
}
NUM_ACTIONS = 12


def take_turns(candidates: dict[str, Callable[[], None]], rounds: int, repetitions: int = 1) -> dict[str, list[float]]:
    """Return seconds per call of every candidate, one number a round.

    The order is turned by one every round, so that nobody always follows the same neighbour.
    """
    for candidate in candidates.values():  # compile, allocate, fill caches
        candidate()
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = time.perf_counter()
            for _ in range(repetitions):
                candidates[name]()
            seconds[name].append((time.perf_counter() - start) / repetitions)
    return seconds


def ratio(seconds: dict[str, list[float]], name: str, over: str) -> float:
    """Return the median over the rounds of one candidate's time over another's."""
    return statistics.median(a / b for a, b in zip(seconds[name], seconds[over], strict=True))


def random_observations(num_envs: int, size: int) -> TensorDict:
    """Return random observations of one group."""
    return TensorDict({"policy": torch.randn(num_envs, size)}, batch_size=[num_envs])


def write_table(name: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table and write it to ``benchmarks/results``."""
    texts = [list(header)] + [[f"{v:.3g}" if isinstance(v, float) else str(v) for v in row] for row in rows]
    widths = [max(len(row[i]) for row in texts) for i in range(len(header))]
    for row in texts:
        print("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / f"{name}.csv", "w", newline="") as file:
        csv.writer(file).writerows(texts)
    print(f"Written to {RESULTS / name}.csv\n")


def read_rows(path: pathlib.Path) -> list[dict[str, Any]]:
    """Return the rows of a table; none if there is no such table yet."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_rows(name: str, rows: Sequence[dict], folder: pathlib.Path = RESULTS) -> None:
    """Write rows by column into a table of the results; a row need not have all columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(column for row in rows for column in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text_atomically(text.getvalue(), folder / f"{name}.csv")
