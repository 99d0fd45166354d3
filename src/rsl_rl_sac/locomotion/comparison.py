# SPDX-License-Identifier: BSD-3-Clause

"""SAC against rsl_rl's PPO on disjoint halves of the cores, so that both meet the same noise of the machine."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rsl_rl_sac.locomotion.world import CURVE_COLUMNS
from rsl_rl_sac.runners.curve import read_curve
from rsl_rl_sac.utils.checkpoint import write_text_atomically
from rsl_rl_sac.utils.config_file import load_run_config
from rsl_rl_sac.utils.errors import ConfigError, TrainingFailedError

AGENTS = ("sac", "ppo")
"""What is compared."""


@dataclass
class Run:
    """One training of the comparison, in a process of its own."""

    agent: str
    """``sac`` or ``ppo``."""
    seed: int
    """Seed."""
    folder: Path
    """Its folder."""
    rows: list[dict[str, float]] = field(default_factory=list)
    """Its learning curve so far."""

    @property
    def log_path(self) -> Path:
        """What the process prints."""
        return self.folder / "output.log"

    @property
    def finished_path(self) -> Path:
        """Written at the end; holds the minutes the run was made for."""
        return self.folder / "finished.txt"

    @property
    def had_minutes(self) -> float | None:
        """The minutes it was made for, None until it is finished."""
        try:
            return float(self.finished_path.read_text())
        except (FileNotFoundError, ValueError):  # the latter: not ours, or damaged, and the run is gone on with
            return None

    @property
    def trained_minutes(self) -> float:
        """The minutes that it has had of those it was made for; its last iteration may have taken it further."""
        if self.had_minutes is not None:
            return self.had_minutes
        curve = read_curve(self.folder / "curve.csv")
        minutes = curve[-1]["seconds"] / 60.0 if curve else 0.0
        config = self.folder / "config.yaml"
        training = load_run_config(config)[2] if config.exists() else None
        return minutes if training is None or training.minutes is None else min(minutes, training.minutes)

    def is_finished(self, minutes: float) -> bool:
        """Return whether the run has had its time."""
        return self.had_minutes is not None and self.had_minutes >= minutes


class Comparison:
    """Trains both algorithms with several seeds, each pair at the same time; what is there already is kept."""

    def __init__(
        self,
        task: str,
        folder: Path,
        minutes: float,
        seeds: list[int],
        preset: str = "cpu",
        options: list[str] | None = None,
        listener: Callable[[list[Run]], None] | None = None,
        start_folder: Path | None = None,
        fine_physics: bool = False,
    ) -> None:
        """Prepare the runs.

        Args:
            task: Task of the suite.
            folder: Folder of this task's runs.
            minutes: Training time of each run.
            seeds: Seeds; each is a pair of runs.
            preset: Preset of both algorithms.
            options: More options of ``rsl-rl-sac train`` for both.
            listener: Called about every second with the runs that are at work.
            start_folder: Folder of another comparison from whose runs these start, each from that of its agent and
                seed; None starts afresh.
            fine_physics: Whether to train in the physics of the evaluation.
        """
        self.task, self.folder, self.minutes, self.preset = task, folder, minutes, preset
        self.options, self.listener, self.start_folder = options or [], listener, start_folder
        self.fine_physics = fine_physics
        self.runs = [Run(agent, seed, folder_of_run(folder, agent, seed)) for seed in seeds for agent in AGENTS]

    @property
    def table_path(self) -> Path:
        """The learning curves of all runs in one table."""
        return self.folder / "curves.csv"

    def run(self) -> None:
        """Make the runs that are missing, then write the table.

        Raises:
            ConfigError: If what is in the folder was made with other settings.
            TrainingFailedError: If a run failed.
        """
        self._check_settings()
        for first in range(0, len(self.runs), len(AGENTS)):
            pair = self.runs[first : first + len(AGENTS)]
            self._run_pair([run for run in pair if not run.is_finished(self.minutes)])
        self.write_table()

    def _check_settings(self) -> None:
        """See that the runs of a folder are of one kind: what is there would be taken for what is asked for."""
        path = self.folder / "settings.json"
        own = {"preset": self.preset, "fine_physics": self.fine_physics}
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            found = own
        except ValueError as error:
            raise ConfigError(f"'{path}' is damaged: delete it, or choose another --folder.") from error
        if found != own:
            raise ConfigError(
                f"The runs in '{self.folder}' have the settings {found}, not {own}: choose another --folder."
            )
        longest = max((run.trained_minutes for run in self.runs), default=0.0)
        if longest > self.minutes:
            raise ConfigError(
                f"There are runs of {longest:.3g} minutes in '{self.folder}': ask for as many, or choose another"
                " --folder."
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text_atomically(json.dumps(own) + "\n", path)

    def write_table(self) -> None:
        """Write the learning curves of all runs, with those of other seeds that are there already."""
        text = io.StringIO()
        writer = csv.DictWriter(text, ("task", "agent", "seed", *CURVE_COLUMNS), lineterminator="\n")
        writer.writeheader()
        for run in self._runs_in_folder():
            for row in read_curve(run.folder / "curve.csv"):
                writer.writerow({"task": self.task, "agent": run.agent, "seed": run.seed, **row})
        write_text_atomically(text.getvalue(), self.table_path)

    def _runs_in_folder(self) -> list[Run]:
        """Return the runs of this comparison and finished ones of other seeds that had as long, by seed."""
        seeds = {path.name.rpartition("_seed")[2] for path in self.folder.glob("*_seed*")}
        candidates = [
            Run(agent, seed, folder_of_run(self.folder, agent, seed))
            for seed in sorted(int(seed) for seed in seeds if seed.isdecimal())
            for agent in AGENTS
        ]
        own = [run.folder for run in self.runs]
        return [run for run in candidates if run.folder in own or run.had_minutes == self.minutes]

    def _run_pair(self, runs: list[Run]) -> None:
        if not runs:
            return
        shares = share_cores(len(AGENTS))
        processes: list[subprocess.Popen] = []
        # So that the trainings end with this process, also with a terminal that is closed.
        numbers = [signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as it is under nohup
            numbers.append(signal.SIGHUP)
        old = {number: signal.signal(number, _leave) for number in numbers}
        try:
            for run in runs:
                processes.append(self._start(run, shares[AGENTS.index(run.agent)]))  # noqa: PERF401, ended if one fails
            while any(process.poll() is None for process in processes):
                time.sleep(1.0)
                for run in runs:
                    run.rows = read_curve(run.folder / "curve.csv")
                if self.listener is not None:
                    self.listener(runs)
                if any(process.poll() not in (None, 0) for process in processes):
                    break
            codes = [process.poll() for process in processes]  # None is one that is ended because another failed
        except KeyboardInterrupt:
            # Told once, they save; a second interrupt would cut that short.
            for process in processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
            for process in processes:
                process.wait()
            raise
        finally:
            for number in old:
                signal.signal(number, signal.SIG_IGN)  # a terminal that closes tells more than once
            for process in processes:
                if process.poll() is None:
                    process.terminate()
            for process in processes:
                process.wait()
            for number, handler in old.items():
                signal.signal(number, handler)
        for run, code in sorted(zip(runs, codes, strict=True), key=lambda pair: pair[1] is None):
            if code != 0:
                lines = run.log_path.read_text().strip().splitlines()
                raise TrainingFailedError(
                    f"The run of {run.agent.upper()} with seed {run.seed} failed: {lines[-1] if lines else 'no output'}"
                    f" All it printed is in '{run.log_path}'. The same command goes on with what is missing."
                )
            write_text_atomically(f"{self.minutes}\n", run.finished_path)

    def _start(self, run: Run, cores: set[int]) -> subprocess.Popen:
        run.folder.mkdir(parents=True, exist_ok=True)
        run.finished_path.unlink(missing_ok=True)  # it goes on, for longer than that says
        command = [sys.executable, "-m", "rsl_rl_sac", "train", self.task, "--agent", run.agent]
        command += ["--preset", self.preset, "--seed", str(run.seed), "--minutes", str(self.minutes)]
        command += ["--folder", str(run.folder), "--cores", str(len(cores)), "--no-video", *self.options]
        command += ["--no-coarse-physics"] if self.fine_physics else []
        if self.start_folder is not None:
            command += ["--start-from", str(folder_of_run(self.start_folder, run.agent, run.seed))]

        def pin() -> None:
            if hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, cores)

        with run.log_path.open("a") as log:
            environment = {**os.environ, "OMP_NUM_THREADS": str(len(cores)), "COLUMNS": "200"}
            # A session of its own: a terminal's Ctrl-C reaches this process only, which passes it on.
            return subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, preexec_fn=pin, start_new_session=True
            )


def folder_of_run(folder: Path, agent: str, seed: int) -> Path:
    """Return where a comparison keeps one of its runs."""
    return folder / f"{agent}_seed{seed}"


def _leave(number: int, _: object) -> None:
    """Leave at a signal as shells have it, by an exception, so that what was begun is ended."""
    raise SystemExit(128 + number)


def share_cores(num_shares: int) -> list[set[int]]:
    """Split the cores that this process may use into equal, disjoint sets.

    Raises:
        ConfigError: If there are too few.
    """
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    size = len(usable) // num_shares
    if size == 0:
        raise ConfigError(
            f"A fair comparison needs at least {num_shares} cores, this process may use {len(usable)}. Train one after"
            " the other with: rsl-rl-sac train TASK --agent sac, then --agent ppo."
        )
    return [set(usable[index * size : (index + 1) * size]) for index in range(num_shares)]
