# SPDX-License-Identifier: BSD-3-Clause

"""Training loop with exact resume."""

from __future__ import annotations

import contextlib
import copy
import os
import pathlib
import secrets
import time
import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.runners.collector import Collector
from rsl_rl_sac.runners.log_writers import make_cfg_readable, with_project
from rsl_rl_sac.runners.numbers import Numbers, VectorStep
from rsl_rl_sac.utils.checkpoint import (
    check_parts,
    check_plain,
    delete_leftovers,
    delete_older_checkpoints,
    delete_older_replays,
    find_replays,
    load_safely,
    replay_path,
    save_atomically,
)
from rsl_rl_sac.utils.config_base import resolve, shown
from rsl_rl_sac.utils.devices import check_device, on_cpu
from rsl_rl_sac.utils.disk import DiskFaults
from rsl_rl_sac.utils.distributed import configure_processes, from_first, gather, launched_rank, together
from rsl_rl_sac.utils.errors import CheckpointError, ConfigError, LostProcessError, NonFiniteError
from rsl_rl_sac.utils.seeding import get_rng_state, rank_seed, seed_everything, set_rng_state

T = TypeVar("T")

# Those of external and intrinsic rewards are there with RND only.
_LOGGER_TENSORS = ("cur_reward_sum", "cur_episode_length", "cur_ereward_sum", "cur_ireward_sum")
_LOGGER_QUEUES = ("rewbuffer", "lenbuffer", "erewbuffer", "irewbuffer")
_LOGGER_NUMBERS = ("tot_timesteps", "tot_time")

WITHOUT_REPLAY = dict.fromkeys(("actor", "critic", "optimizer", "iteration", "rnd"), True)
"""Parts of a checkpoint with which a training goes on, but not exactly."""

_RUNNER_STATE: dict[str, type] = {name: dict for name in ("rng", "logger_tensors", "logger_queues", "logger_numbers")}
"""Parts of the runner's own state."""

_OWN_STATE = ("annealing", "explorer", "rank", "rnd_state_dict", "runner")
"""Parts of a checkpoint that differ between processes. At its top are those of the first."""


class OffPolicyRunner(OnPolicyRunner):
    """rsl_rl's runner with the same constructor and configuration, for training that survives interruption.

    Beyond the stock runner: ``seed`` in the configuration seeds every generator before anything is built; checkpoints
    are written atomically and loaded safely; ``save``, then ``load`` and ``learn`` go on exactly where ``learn`` would
    have gone without them, if ``algorithm.save_replay`` is set and the environment has ``state_dict()`` and
    ``load_state_dict()``. Without the latter, training goes on with restarted environments.

    Many processes, started by ``torchrun``, train one policy, on GPUs or on CPUs (docs/distributed.md). All of them
    call ``learn``, ``save`` and ``load``.
    """

    alg: SAC
    """The algorithm."""

    def __init__(self, env: VecEnv, train_cfg: dict, log_dir: str | None = None, device: str = "cpu") -> None:
        """Construct the runner. The configuration is copied, not changed.

        Raises:
            ConfigError: If a value of the configuration is wrong, a key is missing, or there is no such device.
        """
        check_runner_cfg(train_cfg)
        check_device(device)
        train_cfg = with_project(copy.deepcopy(train_cfg))
        if train_cfg.get("seed") is not None:
            seed_everything(rank_seed(train_cfg["seed"], launched_rank()))  # every process explores on its own
        super().__init__(env, train_cfg, log_dir, device)
        self.logger.log_dir = from_first(self.logger.log_dir)  # names with a time in them may differ
        self.next_iteration = 0
        """Iteration that :meth:`learn` starts with."""
        self.last_checkpoint: str | None = None
        """Newest checkpoint that was saved or loaded."""
        self.infos: dict | None = None
        """Plain values that go into every checkpoint; :meth:`load` returns them."""
        self.disk_faults = DiskFaults(train_cfg.get("disk_faults", "retry"))
        """What to do if a file cannot be written."""
        self.disk_faults.guard_log(self.logger, train_cfg["save_interval"])
        make_cfg_readable(self.logger)
        self._env_is_fresh = True
        self.numbers = Numbers(
            env,
            train_cfg.get("non_finite", "stop"),
            train_cfg.get("num_dumped_steps", 10),
            enabled=train_cfg.get("check_for_nan", True),
        )
        """Steps the environment, and sees to it that every number is finite."""
        self.alg.names_last_save = False
        self._collector = (
            Collector(self.numbers, self.alg.actor, self.alg.explorer) if train_cfg.get("overlap") else None
        )

    def _configure_multi_gpu(self) -> None:
        configure_processes(self)

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """Train for a number of iterations.

        Args:
            num_learning_iterations: Number of iterations.
            init_at_random_ep_len: Whether to start the environments at random points of their episodes. Environments
                that go on, in a second call or restored by :meth:`load`, are left where they are.
        """
        if init_at_random_ep_len and self._env_is_fresh:
            self.env.episode_length_buf = torch.randint_like(
                self.env.episode_length_buf, high=int(self.env.max_episode_length)
            )
        self._env_is_fresh = False
        if hasattr(self.env, "state_dict"):
            check_plain(self.env.state_dict(), "env")  # now, not at the first save
        obs = self._guard(self.numbers.start, self.env.get_observations().to(self.device))
        self.alg.train_mode()
        if self.is_distributed:
            self.alg.broadcast_parameters()
        self.logger.init_logging_writer()

        start_iteration = self.next_iteration
        total_iterations = start_iteration + num_learning_iterations
        for iteration in range(start_iteration, total_iterations):
            self.numbers.when = f"in iteration {iteration}, after {self.alg.num_updates} gradient steps"
            if self._collector is None:
                obs, losses, times = self._collect_then_update(obs)
            else:
                obs, losses, times = self._collect_while_updating(obs, self._collector)
            self.current_learning_iteration = iteration
            self.next_iteration = iteration + 1
            if self.numbers.way == "quarantine":
                losses["quarantined"] = float(self.numbers.take_count())
            self._log(iteration, start_iteration, total_iterations, *times, losses)
            if self.logger.log_dir is not None and iteration % self.cfg["save_interval"] == 0:
                self.save_checkpoint()
        if self.logger.log_dir is not None and self.last_checkpoint != str(self._checkpoint_path()):
            self.save_checkpoint(is_last=True)
        if self.logger.writer is not None:
            self.logger.stop_logging_writer()

    def _collect_then_update(self, obs: TensorDict) -> tuple[TensorDict, dict[str, float], tuple[float, float]]:
        """Step the environment, then learn; return the next observations, the losses and the seconds of each part."""
        start = time.perf_counter()
        with torch.inference_mode():
            for _ in range(self.cfg["num_steps_per_env"]):
                actions = self.alg.act(obs)
                step = self._guard(self.numbers.step, obs, actions)
                if step.actions is not actions:  # quarantine replaces what is not finite
                    self.alg.replace_actions(step.actions)
                obs = self._store(step)
        collected = time.perf_counter()
        losses = self._guard(self.alg.update)
        return obs, losses, (collected - start, time.perf_counter() - collected)

    def _collect_while_updating(
        self, obs: TensorDict, collector: Collector
    ) -> tuple[TensorDict, dict[str, float], tuple[float, float]]:
        """Step the environment with the policy as it is, and learn meanwhile from what was there before.

        Both begin and end together, so that nothing depends on which of them is faster. The seconds of the iteration
        are divided in proportion to what each of them took: rsl_rl's logger takes the sum of both for the whole.
        """
        start = time.perf_counter()
        collector.follow(self.alg.actor)
        rollout = collector.start(obs, self.cfg["num_steps_per_env"])
        losses, learn_seconds = self._guard(self._update_beside, rollout)
        steps, collect_seconds = self._guard(rollout.result)
        with torch.inference_mode():
            for step in steps:
                self.alg.record(obs, step.actions)
                obs = self._store(step)
        share = (time.perf_counter() - start) / (collect_seconds + learn_seconds)
        return obs, losses, (share * collect_seconds, share * learn_seconds)

    def _update_beside(self, rollout: Future) -> tuple[dict[str, float], float]:
        """Learn and return the losses and the seconds; whatever happens, the collector is at rest afterwards."""
        start = time.perf_counter()
        try:
            return self.alg.update(), time.perf_counter() - start
        finally:
            wait([rollout])  # it also writes what a dump of the last steps reads

    def _store(self, step: VectorStep) -> TensorDict:
        """Store a step; return the observations after it, on the learner's device."""
        obs, rewards, dones = step.obs.to(self.device), step.rewards.to(self.device), step.dones.to(self.device)
        self._guard(self.alg.process_env_step, obs, rewards, dones, step.extras)
        if step.poisoned is not None:
            self.alg.storage.cut(step.poisoned)
        self.logger.process_env_step(rewards, dones, step.extras, self.alg.intrinsic_rewards)
        return obs

    def save(self, path: str, infos: dict | None = None) -> None:
        """Save everything a resumed training needs.

        The replay, if ``algorithm.save_replay`` asks for it, goes into a file beside the checkpoint, so that playing
        a policy does not have to read it. It is written first and under a name of its own: a crash in between leaves
        an older checkpoint of the same name and its replay untouched. Each of many processes writes its own replay, and
        the first one the checkpoint once all have.
        """
        state = self.alg.save()
        state["iter"] = self.current_learning_iteration
        state["infos"] = infos or self.infos
        state["runner"] = self._state_dict()
        replay = state.pop("replay_state_dict", None)
        path, token = from_first((str(path), secrets.token_hex(4)))
        if self.is_distributed:
            # From the CPU: every process would else get memory on the others' GPUs.
            state["other_ranks"] = gather(on_cpu({name: state[name] for name in _OWN_STATE if name in state}))[1:]
        own_replay = replay_path(path, token, self.gpu_global_rank)
        try:
            if replay is not None:
                state["replay_token"] = replay["token"] = token
                with together():
                    save_atomically(replay, own_replay)
            with together():
                if self.gpu_global_rank == 0:
                    save_atomically(state, path)
        except (OSError, CheckpointError):
            with contextlib.suppress(OSError):  # nobody would find it, and it is large
                own_replay.unlink(missing_ok=True)
            raise
        with together():
            if self.gpu_global_rank == 0:
                for old in find_replays(path):
                    if f".{token}." not in old.name:
                        old.unlink(missing_ok=True)
        self.last_checkpoint = path
        uploads = self.cfg.get("upload_model", True)  # mjlab's configurations have this switch
        if uploads and getattr(self.logger, "writer", None) is not None:  # rsl_rl 5.0.1 has none before learn()
            self.logger.save_model(path, self.current_learning_iteration)

    def load(
        self, path: str, load_cfg: dict | None = None, strict: bool = True, map_location: str | None = None
    ) -> dict:
        """Load a checkpoint.

        Args:
            path: Checkpoint.
            load_cfg: Parts to load (``actor``, ``critic``, ``optimizer``, ``iteration``, ``replay``, ``rnd``); None
                loads everything there is and resumes exactly.
            strict: Whether the parameters must match exactly.
            map_location: Device to load to.

        Raises:
            CheckpointError: If the checkpoint is damaged, unsafe or of another run. Nothing has been changed then.
        """
        with together():
            # To the CPU first: the state of the environment and the replay belong elsewhere than the learner.
            state = load_safely(path, map_location or "cpu")
            if not isinstance(state.get("iter"), int):
                raise CheckpointError(f"'{path}' is not a checkpoint of a runner.")
            if "runner" in state:
                check_parts(state, {"runner": dict}, f"'{path}'")
                check_parts(state["runner"], _RUNNER_STATE, f"The state of the runner in '{path}'")
            has_replay = (load_cfg is None or bool(load_cfg.get("replay"))) and "replay_token" in state
            others = state.pop("other_ranks", [])
            same_processes = self.gpu_world_size == 1 + len(others)
            if has_replay and not same_processes:
                raise CheckpointError(
                    f"'{path}' holds the replays of {1 + len(others)} process(es), this run has {self.gpu_world_size}."
                    f" Start as many, or go on with an empty replay: load_cfg={WITHOUT_REPLAY}, or --fresh-replay on"
                    " the command line."
                )
            replay = self._load_replay(path, state["replay_token"]) if has_replay else None
        replay_is_here = all(gather(replay is not None))
        if replay_is_here:
            state["replay_state_dict"] = replay
        if same_processes and self.gpu_global_rank > 0:  # otherwise all but the first keep noise of their own
            state |= others[self.gpu_global_rank - 1]
        if load_cfg is None and not same_processes:
            warnings.warn(f"'{path}' is of {1 + len(others)} processes: environments start afresh.", stacklevel=2)
        resumes = load_cfg is None and "runner" in state and same_processes
        state["env_continues"] = resumes and "env" in state["runner"] and hasattr(self.env, "load_state_dict")
        with together():
            # The environment first: what does not fit it is refused before anything else has changed.
            own_env_state = self._load_env_state(state["runner"]) if state["env_continues"] else None
            try:
                takes_iteration = self.alg.load(state, load_cfg, strict)
            except CheckpointError:
                if own_env_state is not None:
                    self.env.load_state_dict(own_env_state)  # type: ignore[attr-defined]
                raise
            if takes_iteration:
                self.current_learning_iteration = state["iter"]
                self.next_iteration = state["iter"] + 1
            if resumes:
                self._load_state_dict(state["runner"], state["env_continues"])
        if has_replay and not replay_is_here:  # said of what was accepted only
            warnings.warn(f"'{path}' is loaded without its replay, which is gone: not an exact resume.", stacklevel=2)
        self.last_checkpoint = str(path)
        return state.get("infos")  # type: ignore[return-value]  # None if nobody gave any, as in rsl_rl

    def _load_replay(self, path: str, token: str) -> dict | None:
        """Load this process's replay, None if the file is gone, as it is for all but the newest checkpoint."""
        skip = f"To go on without it, delete that file or pass load_cfg={WITHOUT_REPLAY}."
        if not (isinstance(token, str) and token.isalnum()):  # it becomes part of a file name
            raise CheckpointError(f"'{path}' names its replay in a way this package does not.")
        file = replay_path(path, token, self.gpu_global_rank)
        if not file.exists():
            return None
        try:
            replay = load_safely(file, "cpu")
        except CheckpointError as error:
            raise CheckpointError(f"The replay of '{path}' cannot be loaded: {error} {skip}") from error
        if replay.get("token") != token:
            raise CheckpointError(f"'{file}' does not belong to '{path}'. {skip}")
        return replay

    def save_checkpoint(self, is_last: bool = False) -> None:
        """Save ``model_<iteration>.pt``, then delete what is no longer needed.

        Args:
            is_last: Whether the run ends with this one, so that a disk that fails is an error in any case.
        """
        path = self._checkpoint_path()
        failure: OSError | None = None
        with self.disk_faults.tolerated(f"The checkpoint '{path}'", is_last):
            try:
                if self.gpu_global_rank == 0:
                    delete_leftovers(path.parent)  # the others wait in save() until the first comes
                self.save(str(path))
            except OSError as error:
                failure = error
            with together():  # a subclass may write more, in one process only
                if failure is not None:
                    raise failure
                if self.gpu_global_rank == 0:
                    delete_older_replays(path)
                    delete_older_checkpoints(path, self.cfg.get("keep_checkpoints", 0))

    def _checkpoint_path(self) -> pathlib.Path:
        return pathlib.Path(self.logger.log_dir) / f"model_{self.current_learning_iteration}.pt"  # type: ignore[arg-type]

    def _state_dict(self) -> dict:
        """Return the state of everything but the algorithm: generators, logger, environment."""
        has = vars(self.logger)
        state = {
            "rng": get_rng_state(),
            "logger_tensors": {name: getattr(self.logger, name) for name in _LOGGER_TENSORS if name in has},
            "logger_queues": {name: list(getattr(self.logger, name)) for name in _LOGGER_QUEUES if name in has},
            "logger_numbers": {name: getattr(self.logger, name) for name in _LOGGER_NUMBERS},
        }
        if hasattr(self.env, "state_dict"):
            state["env"] = self.env.state_dict()
            state["numbers"] = self.numbers.state_dict()
        return state

    def _load_env_state(self, state: dict) -> dict:
        """Restore the environment and return the state that it had before."""
        own_state = copy.deepcopy(self.env.state_dict())  # type: ignore[attr-defined]
        try:
            self.env.load_state_dict(state["env"])  # type: ignore[attr-defined]
        except (RuntimeError, ValueError, KeyError) as error:
            self.env.load_state_dict(own_state)  # type: ignore[attr-defined]  # it may have stopped halfway
            reason = " ".join(str(error).split())
            raise CheckpointError(f"The saved state of the environment does not fit this one: {reason}") from error
        return own_state

    def _load_state_dict(self, state: dict, env_continues: bool) -> None:
        has = vars(self.logger)
        for name, value in state["logger_tensors"].items():
            if name in has and value.shape == has[name].shape:
                setattr(self.logger, name, value.clone().to(self.device))
        for name, values in state["logger_queues"].items():
            if name in has:
                setattr(self.logger, name, deque(values, maxlen=has[name].maxlen))
        for name, value in state["logger_numbers"].items():
            setattr(self.logger, name, value)
        if env_continues:
            self.numbers.load_state_dict(state.get("numbers", {"bad_starts": None, "replaced": {}}))
            self._env_is_fresh = False
        set_rng_state(state["rng"])

    def _log(
        self, iteration: int, start: int, total: int, collect_time: float, learn_time: float, losses: dict
    ) -> None:
        actor = self.alg.actor if self._collector is None else self._collector.actor  # the one that acted
        self.logger.log(
            it=iteration,
            start_it=start,
            total_it=total,
            collect_time=collect_time,
            learn_time=learn_time,
            loss_dict=losses,
            learning_rate=self.alg.learning_rate,
            action_std=actor.output_std,
            rnd_weight=self.alg.rnd.weight if self.alg.rnd is not None else None,
        )

    def _guard(self, function: Callable[..., T], *args: object) -> T:
        """Call a function and, if training breaks in it, say where the last steps and the last good checkpoint are."""
        try:
            return function(*args)
        except (NonFiniteError, LostProcessError) as error:
            dump = self._dump(error) if isinstance(error, NonFiniteError) else ""
            where = os.path.abspath(self.last_checkpoint) if self.last_checkpoint else "none was saved"
            raise type(error)(f"{error}{dump} Last good checkpoint: {where}.") from error

    def _dump(self, error: NonFiniteError) -> str:
        """Write the last vector steps and say where they are."""
        if self.logger.log_dir is None or self.cfg.get("num_dumped_steps", 10) == 0:
            return ""
        rank = f"_rank{self.gpu_global_rank}" if self.gpu_global_rank > 0 else ""
        path = pathlib.Path(self.logger.log_dir).absolute() / f"dump_{self.next_iteration}{rank}.pt"
        try:
            self.numbers.dump(path, str(error), self.next_iteration)
        except OSError as fault:
            return f" The last steps could not be written ({fault.strerror or fault})."
        return f" The last steps: rsl-rl-sac info {path}."


def check_runner_cfg(train_cfg: dict) -> None:
    """Raise an error if the configuration of a runner, as a dictionary, lacks something or has a bad value.

    Args:
        train_cfg: Configuration. The sections of networks and algorithm are checked where these are built; keys of
            others, such as those of Isaac Lab's scripts, are left alone.
    """
    if not isinstance(train_cfg, dict):
        raise ConfigError(f"The configuration of a runner must be a dictionary, got {shown(train_cfg)}.")
    missing = {"algorithm", "num_steps_per_env", "save_interval"} - train_cfg.keys()
    if missing:
        raise ConfigError(f"The configuration of a runner lacks {', '.join(sorted(missing))}.")
    algorithm = train_cfg["algorithm"]
    if not isinstance(algorithm, dict) or "class_name" not in algorithm:
        raise ConfigError(f"'algorithm' must be a dictionary with a class_name, got {shown(algorithm)}.")
    found = resolve(algorithm["class_name"], "algorithm.class_name")
    if not (isinstance(found, type) and issubclass(found, SAC)):
        raise ConfigError(
            f"algorithm.class_name must name SAC or a subclass, got {shown(algorithm['class_name'])}; rsl_rl's own"
            " runner, OnPolicyRunner, trains other algorithms."
        )
    if train_cfg.get("non_finite", "stop") != "stop" and not train_cfg.get("check_for_nan", True):
        raise ConfigError("non_finite must be 'stop' without check_for_nan, which finds what would be put aside.")
    sections = ("actor", "critic", "algorithm")
    RunnerCfg.check_values(
        {
            name: value
            for name, value in train_cfg.items()
            if name not in sections and not (name == "seed" and value is None)
        }
    )
