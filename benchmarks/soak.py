# SPDX-License-Identifier: BSD-3-Clause

"""A long run on a small task: does it need more memory, files or threads the longer it lasts?

The run has all that a user's has: physics beside learning, evaluations, checkpoints with their replay, the best policy,
a curve, TensorBoard. Every few seconds the process is asked for its memory, open files and threads, and the folder of
the run for its size.

    python benchmarks/soak.py --minutes 60
"""

from __future__ import annotations

import csv
import gc
import os
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from common import RESULTS

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.presets import preset
from rsl_rl_sac.runners.training import Progress, Training

COLUMNS: tuple[str, ...] = (
    "seconds",
    "iteration",
    "replay_is_full",
    "memory_mb",
    "files",
    "threads",
    "log_mb",
    "checkpoint_mb",
)
"""What is measured; the memory is what the process has in RAM."""


@dataclass
class Options:
    """Options of the soak."""

    minutes: float = 60.0
    """How long to train."""
    task: str = "Velocity-Flat-Unitree-Go2"
    """Task of the suite."""
    interval: float = 5.0
    """Seconds between measurements."""


class Watch:
    """Measures the process from within, after iterations."""

    def __init__(self, folder: Path, interval: float) -> None:
        """Start with no measurement."""
        self.folder, self.interval = folder, interval
        self.rows: list[dict[str, float]] = []
        self.training: Training | None = None
        self._start = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        """Measure if it is time to."""
        seconds = time.monotonic() - self._start
        if self.training is None or (self.rows and seconds < self.rows[-1]["seconds"] + self.interval):
            return
        gc.collect()  # what waits to be collected is no leak
        storage = self.training.runner.alg.storage
        values = (
            round(seconds, 1),
            progress.iteration,
            int(storage.total_steps >= storage.num_steps),
            round(resident_bytes() / 2**20, 2),
            len(os.listdir("/proc/self/fd")),
            num_threads(),
            round(size_of(self.folder, "events.*") / 2**20, 2),
            round(size_of(self.folder, "*.pt") / 2**20, 2),
        )
        self.rows.append(dict(zip(COLUMNS, values, strict=True)))


def resident_bytes() -> int:
    """Return the memory of this process that is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def num_threads() -> int:
    """Return the number of threads of this process, those of libraries included."""
    return len(list(Path("/proc/self/task").iterdir()))


def size_of(folder: Path, pattern: str) -> int:
    """Return the bytes of the files of a folder that match."""
    return sum(path.stat().st_size for path in folder.rglob(pattern))


def report(rows: list[dict[str, float]]) -> None:
    """Print the first and last tenth of the time with a full replay."""
    full = [row for row in rows if row["replay_is_full"]]
    if len(full) < 20:
        raise SystemExit("The replay was full too late to tell anything; let it run longer.")
    tenth = len(full) // 10
    print(f"{rows[-1]['seconds'] / 60:.0f} minutes, {rows[-1]['iteration']:.0f} iterations, replay full after")
    print(f"{full[0]['seconds'] / 60:.1f} minutes. Means of the first and of the last tenth after that:")
    for name in COLUMNS[3:]:
        first, last = (sum(row[name] for row in part) / tenth for part in (full[:tenth], full[-tenth:]))
        change = f"{100.0 * (last / first - 1.0):+.2f} %" if first else "-"
        print(f"  {name:14s} {first:10.2f} {last:10.2f}   {change}")


def main(options: Options) -> None:
    """Train, measure, print and write a table."""
    cfg = preset("cpu", options.task)
    assert isinstance(cfg, RunnerCfg)
    cfg.num_envs, cfg.num_steps_per_env, cfg.max_iterations, cfg.save_interval = 64, 4, 10**9, 50
    cfg.algorithm.num_mini_batches, cfg.algorithm.batch_size, cfg.algorithm.replay_size = 4, 128, 100_000
    with tempfile.TemporaryDirectory() as folder:
        watch = Watch(Path(folder), options.interval)
        training = Training(
            options.task, cfg, folder, options.minutes, evaluation_minutes=2.0, evaluation_envs=8, listener=watch
        )
        watch.training = training
        training.run()
        training.close()
    report(watch.rows)
    with (RESULTS / "soak.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(watch.rows)


if __name__ == "__main__":
    main(tyro.cli(Options))
