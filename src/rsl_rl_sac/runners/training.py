# SPDX-License-Identifier: BSD-3-Clause

"""Training on a task of any world: a clock, evaluations at intervals, a learning curve, resume."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.envs.evaluation import EpisodeScore
from rsl_rl_sac.envs.worlds import find_world
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.runners import warm_start
from rsl_rl_sac.runners.curve import draw_curve, read_curve, write_curve
from rsl_rl_sac.runners.log_writers import check_log_writer, make_cfg_readable, with_project
from rsl_rl_sac.runners.off_policy_runner import WITHOUT_REPLAY, OffPolicyRunner
from rsl_rl_sac.runners.ppo_runner import PPORunner
from rsl_rl_sac.runners.provenance import record_start
from rsl_rl_sac.utils.checkpoint import (
    find_checkpoints,
    is_damaged,
    save_atomically,
)
from rsl_rl_sac.utils.cores import num_usable_cores
from rsl_rl_sac.utils.devices import within_memory
from rsl_rl_sac.utils.disk import DiskFaults
from rsl_rl_sac.utils.distributed import (
    from_first,
    gather,
    launched_per_machine,
    launched_rank,
    launched_world_size,
)
from rsl_rl_sac.utils.errors import CheckpointError, ConfigError
from rsl_rl_sac.utils.seeding import rank_seed


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
    """Time spent on training; evaluations are not counted."""
    cpu_seconds: float = 0.0
    """Processor time of the same."""
    budget: float | None = None
    """Share of the run that is done, 0 to 1."""
    steps_per_second: float = 0.0
    """Speed of the last iteration."""
    collect_seconds: float = 0.0
    """Seconds of the last iteration spent on stepping the environments."""
    learn_seconds: float = 0.0
    """Seconds of the last iteration spent on learning; with ``overlap`` both share its seconds by what they took."""
    training_columns: dict[str, float] = field(default_factory=dict)
    """What the world measures in training, noise included, means since the last evaluation."""
    losses: dict[str, float] = field(default_factory=dict)
    """What the algorithm reports."""
    score: EpisodeScore | None = None
    """Outcome of the last evaluation."""
    scored_now: bool = False
    """Whether the evaluation was made in this iteration."""
    stopping: bool = False
    """Whether Ctrl-C has ended the run, and what is left is to save and to evaluate."""
    device: str = "cpu"
    """Device of the learner."""
    updates_per_second: float = 0.0
    """Speed of the last iteration in gradient steps."""
    log: dict[str, float] = field(default_factory=dict)
    """What the environment says of itself, such as the level of its terrain."""


Listener = Callable[[Progress], None]

PROGRESS_COLUMNS: tuple[str, ...] = ("iteration", "env_steps", "updates", "seconds", "cpu_seconds")
"""First columns of ``curve.csv``; those of the world follow, in training and in the evaluation."""


class _StopTraining(Exception):  # noqa: N818
    """Leaves the training loop of a runner from within."""


class Training:
    """A run of SAC, or of rsl_rl's PPO, on a task of any world.

    Of many processes, each has its environments; the first evaluates and decides when a run ends.
    """

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
        fresh_replay: bool = False,
        until: float | None = None,
        start_from: Path | str | None = None,
    ) -> None:
        """Build environments and networks.

        Args:
            task: Task, with the prefix of its world.
            cfg: Configuration, of each process.
            folder: Folder of the run. What is there already is resumed.
            minutes: Training time after which to stop; None leaves it to ``max_iterations``.
            evaluation_minutes: Training time between evaluations; 0 only evaluates the end.
            evaluation_envs: Episodes per evaluation.
            num_cores: Cores to use, of all processes on this machine; None takes all that the process may use.
            listener: Called after every iteration, and once more when the policy of a stopped run was evaluated.
            fresh_replay: Whether to resume with an empty replay and new episodes.
            until: Score of an evaluation, such as tracking in the suite, at which to stop before the time is over.
            start_from: Checkpoint of another run whose networks a new run starts with.
        """
        if minutes is not None and not 0.0 < minutes < math.inf:
            raise ConfigError(f"The training time must be positive and finite, got {minutes} minutes.")
        check_log_writer(cfg.logger)
        self.task, self.cfg, self.folder = task, cfg, Path(folder)
        self.world, name = find_world(task)
        self.minutes, self.evaluation_minutes, self.until = minutes, evaluation_minutes, until
        self.listener = listener
        self.progress = Progress()
        self.stop_requested = False
        """Set it to end the training after the current iteration."""

        self.is_first = launched_rank() == 0
        self._steps_per_iteration = launched_world_size() * cfg.num_envs * cfg.num_steps_per_env
        num_cores = num_cores or num_usable_cores()
        own_cores = max(1, num_cores // launched_per_machine())
        physics_threads, torch_threads = split_cores(own_cores, is_overlapped(cfg))
        torch.set_num_threads(torch_threads)
        make_env = self.world.make_coarse_env if cfg.coarse_physics else self.world.make_env
        with within_memory("the environments", "num_envs or --evaluation-envs"):
            self.env = make_env(name, cfg.num_envs, rank_seed(cfg.seed, launched_rank()), physics_threads)
            # On all cores: the other processes wait meanwhile.
            self.evaluation_env = (
                self.world.make_evaluation_env(name, evaluation_envs, num_cores) if self.is_first else None
            )
        self._evaluation_envs = evaluation_envs
        runner_class = OffPolicyRunner if isinstance(cfg, RunnerCfg) else PPORunner
        runner_cfg = with_project(cfg.to_dict())
        with _rsl_rl_quiet():
            self.runner = runner_class(self.env, runner_cfg, str(self.folder), str(self.env.device))
        if start_from is not None and not find_checkpoints(self.folder):
            warm_start.start_from(self.runner, start_from, self.env.get_observations())
        self.folder.mkdir(parents=True, exist_ok=True)  # now: what is refused leaves nothing behind
        self.progress.device = str(self.runner.device)
        self._disk_faults = DiskFaults(cfg.disk_faults)
        if not isinstance(self.runner, OffPolicyRunner):  # ours does so itself
            self._disk_faults.guard_log(self.runner.logger, cfg.save_interval)
            make_cfg_readable(self.runner.logger)
        self._log_to_writer = self.runner.logger.log
        self.runner.logger.log = self._after_iteration
        self._clock = _Clock()
        self._curve: list[dict[str, float]] = []
        self._next_evaluation = 0.0
        self._training_columns = _ColumnMeans()
        self._resume(fresh_replay)

    @property
    def curve_path(self) -> Path:
        """The learning curve: one row per evaluation."""
        return self.folder / "curve.csv"

    @property
    def best_path(self) -> Path:
        """The policy of the best evaluation, without what a resumed training needs."""
        return self.folder / "model_best.pt"

    def run(self) -> EpisodeScore:
        """Train until the run :meth:`is_over`, or :attr:`stop_requested`; return the last score."""
        remaining = self.cfg.max_iterations - self.progress.iteration
        if not self.is_over():
            if self.is_first:
                record_start(self.folder)
            if self.progress.iteration == 0:
                self._evaluate()
                self.progress.scored_now = True
                self._tell()
            try:
                with _rsl_rl_quiet(), contextlib.suppress(_StopTraining), self._stop_on_interrupt():
                    self._clock.start()
                    self.runner.learn(remaining, init_at_random_ep_len=True)
            finally:  # learn() does so at its end, which it does not come to
                if getattr(self.runner.logger, "writer", None) is not None:
                    self.runner.logger.stop_logging_writer()
        if self.progress.score is None:  # the run was over, and its curve is gone
            self._evaluate()
        assert self.progress.score is not None
        return self.progress.score

    def close(self) -> None:
        """Free the environments."""
        for env in (self.env, self.evaluation_env):
            if hasattr(env, "close"):  # rsl_rl's VecEnv does not ask for it
                env.close()

    def _after_iteration(self, **report: Any) -> None:  # noqa: ANN401
        """Take the place of the logger's method, which every runner calls at the end of an iteration."""
        self._clock.stop()
        self._log_to_writer(**report)
        progress, cfg = self.progress, self.cfg
        progress.iteration = int(report["it"]) + 1
        progress.env_steps += self._steps_per_iteration
        updates_before = progress.updates
        if isinstance(self.runner, OffPolicyRunner):
            progress.updates = self.runner.alg.num_updates
        else:  # rsl_rl's PPO keeps no count
            updates_per_iteration = cfg.algorithm.num_learning_epochs * cfg.algorithm.num_mini_batches
            progress.updates = progress.iteration * updates_per_iteration
        iteration_seconds = max(self._clock.seconds - progress.seconds, 1e-9)
        progress.seconds, progress.cpu_seconds = self._clock.seconds, sum(gather(self._clock.cpu_seconds))
        progress.collect_seconds = report["collect_time"]
        progress.learn_seconds = report["learn_time"]
        progress.steps_per_second = self._steps_per_iteration / iteration_seconds
        progress.updates_per_second = (progress.updates - updates_before) / iteration_seconds
        progress.losses = report["loss_dict"]
        progress.log = self.world.training_log(self.env)
        self._training_columns.add(self.world.training_columns(self.env))
        progress.training_columns = self._training_columns.means()
        due = self.evaluation_minutes > 0.0 and progress.seconds >= self._next_evaluation
        over, due = from_first((self.is_over(), due))  # clocks differ
        progress.stopping = self.stop_requested
        progress.scored_now = over or due
        if progress.scored_now:
            self._evaluate()
            over = over or self._is_good_enough()
        self._tell()
        if any(gather(self.stop_requested)):  # an interrupt that comes meanwhile counts in the next iteration
            self.stop_requested = over = True
        self.runner.infos = self._infos()
        if over:
            self._save()  # before an evaluation, which takes a while in which people who stop it lose patience
            if not progress.scored_now:  # what is reported at the end was measured at the end
                progress.scored_now = True
                self._evaluate()
                self._tell()
            raise _StopTraining
        self._clock.start()

    def is_over(self) -> bool:
        """Return whether the time or the iterations of the run are used up, or its score is reached."""
        return self._budget() >= 1.0 or self._is_good_enough()

    def _budget(self) -> float:
        """Return the share of the iterations or of the time that is used up, whichever is larger, 0 to 1."""
        shares = [self.progress.iteration / self.cfg.max_iterations]
        if self.minutes is not None:
            shares.append(self.progress.seconds / (60.0 * self.minutes))
        return min(max(shares), 1.0)

    def _is_good_enough(self) -> bool:
        """Return whether the last evaluation reached what was asked for; the untrained policy's does not count."""
        if self.until is None or not self._curve or self._curve[-1]["iteration"] == 0:
            return False
        return self._curve[-1][self.world.score_class.headline_column] >= self.until

    def _evaluate(self) -> None:
        progress = self.progress
        if self.evaluation_env is not None:
            self.runner.alg.eval_mode()
            with torch.random.fork_rng(devices=[]):  # whatever an evaluation draws, training goes on unchanged
                progress.score = self.world.evaluate(self.runner.alg.get_policy(), self.evaluation_env)
            self.runner.alg.train_mode()
        progress.score = from_first(progress.score)
        assert progress.score is not None
        training_columns = self._training_columns.means() or self.world.training_columns(self.env)
        self._training_columns = _ColumnMeans()
        counts = {name: getattr(progress, name) for name in PROGRESS_COLUMNS}
        scores = {name: getattr(progress.score, name) for name in progress.score.columns()}
        self._curve.append({**counts, **training_columns, **scores})
        if self.is_first:
            with self._disk_faults.tolerated(f"The learning curve or the best policy in '{self.folder}'"):
                write_curve(self.curve_path, self._curve)
                draw_curve(self.curve_path.with_suffix(".png"), self._curve, self.task)
                self._save_if_best()
        self._schedule_evaluation()

    def _schedule_evaluation(self) -> None:
        """Set the next evaluation to the next multiple of the interval, so that their times do not drift."""
        interval = 60.0 * self.evaluation_minutes
        if interval > 0.0:
            self._next_evaluation = (self.progress.seconds // interval + 1.0) * interval

    def _tell(self) -> None:
        self.progress.budget = self._budget()
        if self.listener is not None:
            self.listener(self.progress)

    def _infos(self) -> dict:
        """Return what checkpoints tell beside the state of the algorithm."""
        progress = self.progress
        score = vars(progress.score) if progress.score is not None else {}
        numbers = {name: getattr(progress, name) for name in PROGRESS_COLUMNS}
        return {"task": self.task, **numbers, "score": dict(score)}

    def _save_if_best(self) -> None:
        """Keep the policy if no evaluation before had a better score; the untrained one does not count."""
        column = self.world.score_class.headline_column
        scores = [row[column] for row in self._curve if row["iteration"] > 0]
        if self.progress.iteration > 0 and scores[-1] >= max(scores):
            policy = self.runner.alg.get_policy().state_dict()
            state = {"actor_state_dict": policy, "iter": self.progress.iteration - 1, "infos": self._infos()}
            save_atomically(state, self.best_path)

    def _save(self) -> None:
        if isinstance(self.runner, OffPolicyRunner):
            self.runner.save_checkpoint(is_last=True)
        elif self.is_first:
            self.runner.save(str(self.folder / f"model_{self.progress.iteration - 1}.pt"), is_last=True)

    def _resume(self, fresh_replay: bool) -> None:
        """Go on from the newest checkpoint of the folder, if there is one."""
        checkpoints = find_checkpoints(self.folder)
        if not checkpoints:
            return
        try:
            infos = self.runner.load(str(checkpoints[-1]), WITHOUT_REPLAY if fresh_replay else None) or {}
        except CheckpointError as error:
            if len(checkpoints) == 1 or not is_damaged(checkpoints[-1]):
                raise
            advice = f"Move {checkpoints[-1].stem}.* away to go on from there; only the newest has its replay."
            raise CheckpointError(f"{error} {advice}") from error
        if isinstance(self.cfg, RunnerCfg) and not self.cfg.algorithm.save_replay and not fresh_replay:
            advice = "Runs that are started with --algorithm.save-replay go on exactly."
            warnings.warn(
                f"The run goes on with an empty replay: its algorithm.save_replay is off. {advice}", stacklevel=2
            )
        done = self.runner.current_learning_iteration + 1
        if not isinstance(self.runner, OffPolicyRunner):
            self.runner.current_learning_iteration = done
        self.progress.iteration = done
        self.progress.env_steps = infos.get("env_steps", done * self._steps_per_iteration)
        self.progress.updates = infos.get("updates", 0)
        self._clock = _Clock(infos.get("seconds", 0.0), infos.get("cpu_seconds", 0.0) if self.is_first else 0.0)
        self.progress.seconds, self.progress.cpu_seconds = self._clock.seconds, self._clock.cpu_seconds
        score_columns = self.world.score_class.columns()
        columns = {*PROGRESS_COLUMNS, *self.world.training_columns(self.env), *score_columns}
        self._curve = [row for row in read_curve(self.curve_path, columns) if row["iteration"] <= done]
        if self._curve:
            values = {name: self._curve[-1][name] for name in score_columns}
            self.progress.score = self.world.score_class(**values, num_episodes=self._evaluation_envs)  # type: ignore[arg-type]
        self._schedule_evaluation()

    @contextlib.contextmanager
    def _stop_on_interrupt(self) -> Iterator[None]:
        """Let the first Ctrl-C end the iteration and save; the second one breaks off."""
        is_second = False  # not stop_requested, which the interrupt of another process sets too

        def request_stop(*_: object) -> None:
            nonlocal is_second
            if is_second:
                raise KeyboardInterrupt
            self.stop_requested = is_second = True

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


class _ColumnMeans:
    """Means of columns over rows that are not kept: a run without evaluations may have millions."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._count = 0

    def add(self, row: dict[str, float]) -> None:
        self._sums = {name: self._sums.get(name, 0.0) + value for name, value in row.items()}
        self._count += 1

    def means(self) -> dict[str, float]:
        return {name: total / self._count for name, total in self._sums.items()}


@contextlib.contextmanager
def _rsl_rl_quiet() -> Iterator[None]:
    """Silence what rsl_rl prints about models and at every iteration; displays of our own write to stderr.

    Nothing keeps what is silenced: it is 2 KB an iteration, for as long as a run lasts.
    """
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield
