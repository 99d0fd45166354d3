# SPDX-License-Identifier: BSD-3-Clause

"""Training on the suite: a clock, the evaluation rule at intervals, a learning curve, resume."""

from __future__ import annotations

import contextlib
import csv
import io
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from rsl_rl.runners import OnPolicyRunner

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.locomotion.evaluation import Score, evaluate, make_evaluation_env, tracking_terms
from rsl_rl_sac.locomotion.physics import num_usable_cores
from rsl_rl_sac.locomotion.registry import make_env
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.runners import OffPolicyRunner
from rsl_rl_sac.utils.checkpoint import find_checkpoints, write_text_atomically
from rsl_rl_sac.utils.errors import ConfigError


@dataclass
class Progress:
    """Where a training stands after an iteration."""

    iteration: int = 0
    """Iterations made."""
    env_steps: int = 0
    """Steps of all environments together."""
    updates: int = 0
    """Gradient steps."""
    seconds: float = 0.0
    """Time spent on training; evaluations and checkpoints are not counted."""
    cpu_seconds: float = 0.0
    """Processor time of the same."""
    budget: float | None = None
    """Share of the run that is done, 0 to 1."""
    steps_per_second: float = 0.0
    """Speed of the last iteration."""
    collect_seconds: float = 0.0
    """Seconds of the last iteration spent on stepping the environments."""
    learn_seconds: float = 0.0
    """Seconds of the last iteration spent on learning; with ``overlap`` they run beside the former."""
    training_tracking: float = 0.0
    """Tracking score of the robots that train, noise included, mean since the last evaluation."""
    losses: dict[str, float] = field(default_factory=dict)
    """What the algorithm reports."""
    score: Score | None = None
    """Outcome of the last evaluation."""
    scored_now: bool = False
    """Whether the evaluation was made in this iteration."""


Listener = Callable[[Progress], None]

CURVE_COLUMNS: tuple[str, ...] = (
    "iteration",
    "env_steps",
    "updates",
    "seconds",
    "cpu_seconds",
    "training_tracking",
    "episode_return",
    "tracking",
    "tracking_lin",
    "tracking_ang",
    "survival",
    "episode_length",
)
"""Columns of ``curve.csv``."""


class _StopTraining(Exception):  # noqa: N818
    """Leaves the training loop of a runner from within."""


class _PPORunner(OnPolicyRunner):
    """rsl_rl's runner, whose checkpoints hold a dictionary of ours as well."""

    infos: dict | None = None

    def save(self, path: str, infos: dict | None = None) -> None:
        super().save(path, infos or self.infos)


class Training:
    """A run of SAC, or of rsl_rl's PPO, on a task of the suite."""

    def __init__(
        self,
        task: str,
        cfg: RunnerCfg | PPORunnerCfg,
        folder: Path | str,
        minutes: float | None = None,
        evaluation_minutes: float = 1.0,
        evaluation_envs: int = 64,
        num_cores: int | None = None,
        listener: Listener | None = None,
    ) -> None:
        """Build environments and networks.

        Args:
            task: Task of the suite.
            cfg: Configuration.
            folder: Folder of the run. What is there already is resumed.
            minutes: Training time after which to stop; None leaves it to ``max_iterations``.
            evaluation_minutes: Training time between evaluations; 0 only evaluates the end.
            evaluation_envs: Episodes per evaluation.
            num_cores: Cores to use; None takes all that the process may use.
            listener: Called after every iteration.
        """
        if minutes is not None and minutes <= 0.0:
            raise ConfigError(f"The training time must be positive, got {minutes} minutes.")
        self.task, self.cfg, self.folder = task, cfg, Path(folder)
        self.minutes, self.evaluation_minutes = minutes, evaluation_minutes
        self.listener = listener
        self.progress = Progress()
        self.stop_requested = False
        """Set it to end the training after the current iteration."""

        physics_threads, torch_threads = split_cores(num_cores or num_usable_cores(), is_overlapped(cfg))
        torch.set_num_threads(torch_threads)
        self.env = make_env(task, cfg.num_envs, seed=cfg.seed, num_threads=physics_threads)
        self.evaluation_env = make_evaluation_env(task, evaluation_envs, num_cores or num_usable_cores())
        self.folder.mkdir(parents=True, exist_ok=True)
        runner_class = OffPolicyRunner if isinstance(cfg, RunnerCfg) else _PPORunner
        with _rsl_rl_quiet():
            self.runner = runner_class(self.env, cfg.to_dict(), str(self.folder), "cpu")
        self._log_to_writer = self.runner.logger.log
        self.runner.logger.log = self._after_iteration
        self._clock = _Clock()
        self._curve: list[dict[str, float]] = []
        self._next_evaluation = 0.0
        self._tracking: list[float] = []
        self._resume()

    @property
    def curve_path(self) -> Path:
        """The learning curve: one row per evaluation."""
        return self.folder / "curve.csv"

    def run(self) -> Score:
        """Train until the time or the iterations are over, or :attr:`stop_requested`; return the last score."""
        remaining = self.cfg.max_iterations - self.progress.iteration
        if not self._is_over():
            if self.progress.iteration == 0:
                self._evaluate()
                self.progress.scored_now = True
                self._tell()
            with _rsl_rl_quiet(), contextlib.suppress(_StopTraining), self._stop_on_interrupt():
                self._clock.start()
                self.runner.learn(remaining, init_at_random_ep_len=True)
        assert self.progress.score is not None
        return self.progress.score

    def close(self) -> None:
        """Free the environments."""
        self.env.close()
        self.evaluation_env.close()

    def _after_iteration(self, **report: Any) -> None:  # noqa: ANN401
        """Take the place of the logger's method, which every runner calls at the end of an iteration."""
        self._clock.stop()
        self._log_to_writer(**report)
        progress, cfg = self.progress, self.cfg
        progress.iteration = int(report["it"]) + 1
        progress.env_steps = progress.iteration * cfg.num_envs * cfg.num_steps_per_env
        if isinstance(self.runner, OffPolicyRunner):
            progress.updates = self.runner.alg.num_updates
        else:  # rsl_rl's PPO keeps no count
            updates_per_iteration = cfg.algorithm.num_learning_epochs * cfg.algorithm.num_mini_batches
            progress.updates = progress.iteration * updates_per_iteration
        iteration_seconds = self._clock.seconds - progress.seconds
        progress.seconds, progress.cpu_seconds = self._clock.seconds, self._clock.cpu_seconds
        progress.collect_seconds = report["collect_time"]
        progress.learn_seconds = report["learn_time"]
        progress.steps_per_second = cfg.num_envs * cfg.num_steps_per_env / max(iteration_seconds, 1e-9)
        progress.losses = report["loss_dict"]
        self._tracking.append(float(tracking_terms(self.env).mean()))
        progress.training_tracking = sum(self._tracking) / len(self._tracking)
        over = self._is_over()
        due = self.evaluation_minutes > 0.0 and progress.seconds >= self._next_evaluation
        if over or due:
            self._evaluate()
        progress.scored_now = over or due
        self._tell()
        self.runner.infos = {"seconds": progress.seconds, "cpu_seconds": progress.cpu_seconds}
        if over or self.stop_requested:
            if not progress.scored_now:  # what is reported at the end was measured at the end
                self._evaluate()
            self._save()
            raise _StopTraining
        self._clock.start()

    def _is_over(self) -> bool:
        progress = self.progress
        shares = [progress.iteration / self.cfg.max_iterations]
        if self.minutes is not None:
            shares.append(progress.seconds / (60.0 * self.minutes))
        progress.budget = min(max(shares), 1.0)
        return progress.budget >= 1.0

    def _evaluate(self) -> None:
        progress = self.progress
        self.runner.alg.eval_mode()
        with torch.random.fork_rng(devices=[]):  # whatever an evaluation draws, training goes on unchanged
            progress.score = evaluate(self.runner.alg.get_policy(), self.evaluation_env)
        self.runner.alg.train_mode()
        self._tracking.clear()
        row = {**asdict(progress), **asdict(progress.score)}
        self._curve.append({name: row[name] for name in CURVE_COLUMNS})
        write_curve(self.curve_path, self._curve)
        while self.evaluation_minutes > 0.0 and self._next_evaluation <= progress.seconds:
            self._next_evaluation += 60.0 * self.evaluation_minutes

    def _tell(self) -> None:
        if self.listener is not None:
            self.listener(self.progress)

    def _save(self) -> None:
        if isinstance(self.runner, OffPolicyRunner):
            self.runner.save_checkpoint()
        else:
            self.runner.save(str(self.folder / f"model_{self.progress.iteration - 1}.pt"))

    def _resume(self) -> None:
        """Go on from the newest checkpoint of the folder, if there is one."""
        checkpoints = find_checkpoints(self.folder)
        if not checkpoints:
            return
        infos = self.runner.load(str(checkpoints[-1])) or {}
        done = self.runner.current_learning_iteration + 1
        if not isinstance(self.runner, OffPolicyRunner):
            self.runner.current_learning_iteration = done
        self.progress.iteration = done
        self.progress.env_steps = done * self.cfg.num_envs * self.cfg.num_steps_per_env
        self._clock = _Clock(infos.get("seconds", 0.0), infos.get("cpu_seconds", 0.0))
        self.progress.seconds, self.progress.cpu_seconds = self._clock.seconds, self._clock.cpu_seconds
        self._curve = [row for row in read_curve(self.curve_path) if row["iteration"] <= done]
        if self._curve:
            names = {name: self._curve[-1][name] for name in CURVE_COLUMNS[6:]}
            self.progress.score = Score(**names, num_episodes=self.evaluation_env.num_envs)  # type: ignore[arg-type]
        while self.evaluation_minutes > 0.0 and self._next_evaluation <= self.progress.seconds:
            self._next_evaluation += 60.0 * self.evaluation_minutes

    @contextlib.contextmanager
    def _stop_on_interrupt(self) -> Iterator[None]:
        """Let the first Ctrl-C end the iteration and save; the second one breaks off."""

        def request_stop(*_: object) -> None:
            if self.stop_requested:
                raise KeyboardInterrupt
            self.stop_requested = True

        try:
            old = signal.signal(signal.SIGINT, request_stop)
        except ValueError:  # not in the main thread, where no interrupt arrives
            yield
            return
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, old)


class _Clock:
    """Wall-clock and processor time, with pauses."""

    def __init__(self, seconds: float = 0.0, cpu_seconds: float = 0.0) -> None:
        self.seconds, self.cpu_seconds = seconds, cpu_seconds
        self._started: tuple[float, float] | None = None

    def start(self) -> None:
        self._started = (time.perf_counter(), time.process_time())

    def stop(self) -> None:
        if self._started is not None:
            self.seconds += time.perf_counter() - self._started[0]
            self.cpu_seconds += time.process_time() - self._started[1]
            self._started = None


def is_overlapped(cfg: RunnerCfg | PPORunnerCfg) -> bool:
    """Return whether a configuration steps the environment and learns at the same time."""
    return isinstance(cfg, RunnerCfg) and cfg.overlap


def split_cores(num_cores: int, overlap: bool) -> tuple[int, int]:
    """Return the threads of physics and of torch: all cores each, or their halves if both work at the same time."""
    if not overlap:
        return num_cores, num_cores
    return max(1, (num_cores + 1) // 2), max(1, num_cores // 2)


def write_curve(path: Path, rows: list[dict[str, float]]) -> None:
    """Write a learning curve."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CURVE_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: round(value, 4) for name, value in row.items()})
    write_text_atomically(text.getvalue(), path)


def read_curve(path: Path) -> list[dict[str, float]]:
    """Read a learning curve; a missing one has no rows."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [{name: float(row[name]) for name in CURVE_COLUMNS} for row in csv.DictReader(file)]


@contextlib.contextmanager
def _rsl_rl_quiet() -> Iterator[None]:
    """Silence what rsl_rl prints about models and at every iteration; displays of our own write to stderr."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield
