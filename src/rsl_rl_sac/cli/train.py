# SPDX-License-Identifier: BSD-3-Clause

"""``rsl-rl-sac train TASK``: train a policy on a task."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from rsl_rl_sac.cli.console import plain_console
from rsl_rl_sac.cli.display import TrainingDisplay, clock, count
from rsl_rl_sac.cli.launcher import LOST_PROCESS_EXIT_CODE, launch
from rsl_rl_sac.cli.main import INTERRUPTED_EXIT_CODE
from rsl_rl_sac.cli.options import check_folder, parse_options
from rsl_rl_sac.cli.run_folder import claimed_folder, is_task, with_run_folder
from rsl_rl_sac.config import UNLIMITED_ITERATIONS, RndCfg, RunnerCfg, SymmetryCfg
from rsl_rl_sac.envs.evaluation import EpisodeScore
from rsl_rl_sac.envs.worlds import find_world
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.presets import PRESETS, preset
from rsl_rl_sac.runners.training import Training
from rsl_rl_sac.runners.warm_start import REACHED, check_start, go_on_from, reached_settings
from rsl_rl_sac.utils.checkpoint import find_checkpoints, write_text_atomically
from rsl_rl_sac.utils.config_file import TrainingCfg, dump_config, load_config, load_run_config, to_plain
from rsl_rl_sac.utils.distributed import (
    from_first,
    join_processes,
    launched_rank,
    launched_world_size,
    leave_processes,
)
from rsl_rl_sac.utils.errors import ConfigError, LostProcessError, RslRlSacError

_AGENTS = {"sac": "", "ppo": "ppo_"}

_RESUME_FLAGS = (
    "--resume",
    "--logs",
    "--max-iterations",
    "--minutes",
    "--until",
    "--fresh-replay",
    "--cores",
    "--nproc",
    "--evaluation-minutes",
    "--evaluation-envs",
    "--video",
)
"""Flags that mean something beside --resume; a run keeps all else."""

_TEXT_FLAGS = (
    "--name",
    "--folder",
    "--logs",
    "--resume",
    "--start-from",
    "--config",
    "--run-name",
    "--experiment-name",
)
"""Flags whose value may look like a task."""

_SECTIONS: dict[str, type] = {"rnd_cfg": RndCfg, "symmetry_cfg": SymmetryCfg}
"""Sections of the algorithm that may be absent; a flag of one makes it present."""

_FILM_SECONDS = 6.0


@dataclass
class CommonOptions:
    """Train a policy on a task of the suite or of another world, on all cores of this machine.

    The folder of the run holds the configuration, the learning curve, checkpoints, a film and TensorBoard's files.
    Ctrl-C saves and stops. These are the common flags; --help-all shows all, and every setting with its value.

    For example:
      rsl-rl-sac train Velocity-Flat-Unitree-Go2 --minutes 20
      rsl-rl-sac train Velocity-Flat-Unitree-Go2 --agent ppo --num-envs 1024 --seed 1
      rsl-rl-sac train --resume Velocity-Flat-Unitree-Go2           go on with its newest run, exactly
      rsl-rl-sac train Velocity-Rough-Unitree-Go2 --start-from Velocity-Flat-Unitree-Go2
      rsl-rl-sac train --config RUN/config.yaml --algorithm.gamma 0.98
    """

    task: tyro.conf.Positional[str]
    """Task, for example Velocity-Flat-Unitree-Go1 (see rsl-rl-sac list), or gym:Ant-v5."""

    agent: str = "sac"
    """Algorithm: sac, or rsl_rl's ppo."""

    preset: str = "cpu"
    """Settings to start from: cpu (chosen by experiment for machines without a GPU), paper, gym or mjlab."""

    config: Path | None = None
    """Configuration file of a run to repeat, in place of a preset; it names the task too."""

    minutes: float | None = None
    """Training time, without evaluations, in place of the preset's number of iterations."""

    until: float | None = None
    """Score of an evaluation at which to stop before that: tracking in the suite, the return elsewhere."""

    name: str = ""
    """Suffix of the folder of this run."""

    resume: Path | None = None
    """Run to go on with, with its own configuration: its folder, or a task (its newest run)."""

    start_from: str | None = None
    """Run, or task, with whose policy and values to start: on rough terrain, the same robot's on flat ground."""

    cores: int | None = None
    """Cores to use; by default all that the process may use."""

    nproc: int = 1
    """Processes on this machine that train together, on a share of the cores each; the settings count for each."""


@dataclass
class TrainOptions(CommonOptions):
    """All options but the settings."""

    logs: Path = Path("logs")
    """Folder of all runs."""

    folder: Path | None = None
    """Folder of this run, in place of a new one; a run that is there already goes on."""

    fresh_replay: bool = False
    """Go on with an empty replay and new episodes, for example with another number of processes."""

    evaluation_minutes: float = 1.0
    """Training time between evaluations."""

    evaluation_envs: int = 64
    """Episodes per evaluation."""

    video: bool = True
    """Film the policy at the end, on tasks of the suite."""

    def training_cfg(self) -> TrainingCfg:
        """Return what goes into the configuration file beside the settings."""
        return TrainingCfg(
            self.minutes, self.evaluation_minutes, self.evaluation_envs, self.until, self.cores, self.start_from
        )


@dataclass
class TrainSACOptions(TrainOptions):
    """Train SAC: all options, and every setting with its value."""

    cfg: Annotated[RunnerCfg, tyro.conf.arg(name="")] = field(default_factory=RunnerCfg)
    """Configuration."""


@dataclass
class TrainPPOOptions(TrainOptions):
    """Train rsl_rl's PPO: all options, and every setting with its value."""

    cfg: Annotated[PPORunnerCfg, tyro.conf.arg(name="")] = field(default_factory=PPORunnerCfg)
    """Configuration."""


def run(arguments: Sequence[str]) -> None:
    """Run the verb."""
    arguments = with_run_folder(arguments, "--resume", _peek(arguments, "--logs", "logs"))
    options = parse(arguments)
    find_world(options.task)  # a typo is found before anything is written
    check_folder("--folder" if options.folder else "--logs", options.folder or options.logs)
    folder = options.resume or options.folder or _new_folder(options)
    if options.resume is not None:
        _check_resume(arguments, folder)
    if find_checkpoints(folder):
        _go_on(options, folder, arguments)
    elif options.start_from is not None:
        _prepare_start(options, arguments)
    if "--minutes" in _flags(arguments) and "--max-iterations" not in _flags(arguments):
        options.cfg.max_iterations = UNLIMITED_ITERATIONS  # the time decides, however fast the machine is
    _check_numbers(options)
    if options.nproc > 1 and launched_world_size() == 1:
        code = launch(["train", *arguments], options.nproc)
        if code != 0:
            raise SystemExit(code)
        return
    is_new = options.folder is None and options.resume is None
    with claimed_folder(folder) if is_new and launched_rank() == 0 else contextlib.nullcontext(folder) as folder:
        try:
            train(options, folder)
        except LostProcessError as error:
            print(f"rsl-rl-sac: {error}", file=sys.stderr)
            raise SystemExit(LOST_PROCESS_EXIT_CODE) from None
        except KeyboardInterrupt:  # before there was anything to save, or a second one, while the last was scored
            if launched_rank() == 0 and find_checkpoints(folder):
                print(_how_to_go_on(options.task, folder))
            raise


def train(options: TrainSACOptions | TrainPPOOptions, folder: Path) -> None:
    """Train in this process, with others if they were started."""
    join_processes("cpu")  # to agree on the folder
    folder = from_first(folder)  # the name has a time in it
    # Found by each, and a run to start from may have been saved in between.
    options.cfg, options.start_from = from_first((options.cfg, options.start_from))
    is_first = launched_rank() == 0
    agent = "SAC" if isinstance(options.cfg, RunnerCfg) else "PPO"  # of the configuration: a resumed run has its own
    title = f"{agent} on {options.task}, seed {options.cfg.seed}, {folder}"
    with TrainingDisplay(title) if is_first else contextlib.nullcontext() as display:
        training = Training(
            options.task,
            options.cfg,
            folder,
            options.minutes,
            options.evaluation_minutes,
            options.evaluation_envs,
            options.cores,
            fresh_replay=options.fresh_replay,
            until=options.until,
            start_from=options.start_from,
        )
        was_over = training.is_over()
        if is_first:  # now that nothing was refused: what is there already must not be spoiled
            text = dump_config(options.task, options.cfg, options.training_cfg())
            write_text_atomically(text, folder / "config.yaml")
        training.listener = display
        score = training.run()
        training.close()
    leave_processes()
    if not is_first:
        return
    report(training, score)
    if was_over:
        print("There was nothing left to train: --minutes, --max-iterations and --until are those of the whole run.")
    elif training.stop_requested:
        raise SystemExit(INTERRUPTED_EXIT_CODE)
    elif options.video and ":" not in options.task:
        film(training)


def report(training: Training, score: EpisodeScore) -> None:
    """Print the outcome."""
    console = plain_console(200)
    progress, line = training.progress, score.line()
    console.print(
        f"{line[0].upper()}{line[1:]} after {clock(progress.seconds)} of training and"
        f" {count(progress.env_steps)} environment steps."
    )
    console.print(f"The run is in {training.folder}")
    if training.stop_requested:
        console.print(_how_to_go_on(training.task, training.folder), soft_wrap=True)
        if isinstance(training.cfg, RunnerCfg) and not training.cfg.algorithm.save_replay:
            console.print(
                "It will go on with an empty replay. Runs that are started with --algorithm.save-replay go on exactly."
            )


def _how_to_go_on(task: str, folder: Path) -> str:
    processes = f" --nproc {launched_world_size()}" if launched_world_size() > 1 else ""
    return f"Go on with: rsl-rl-sac train {task} --resume {shlex.quote(str(folder))}{processes}"


def film(training: Training) -> None:
    """Film the policy; a machine that cannot draw has trained all the same, and says why there is no film."""
    # Here: other worlds train without the suite's simulator.
    from rsl_rl_sac.locomotion.play_env import TourCommand, default_ground, make_play_env, tour
    from rsl_rl_sac.locomotion.video import record_video

    path = training.folder / "video.mp4"
    try:
        env = make_play_env(training.task, 1, default_ground(training.task))
        cfg = env.task.commands
        env.commands = TourCommand(cfg, 1, env.step_dt, env.rng, tour(cfg), _FILM_SECONDS)
        record_video(training.runner.get_inference_policy(), env, path, _FILM_SECONDS)
    except RslRlSacError as error:
        print(f"There is no film: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("There is no film: interrupted. The training itself is complete.", file=sys.stderr)
        raise SystemExit(INTERRUPTED_EXIT_CODE) from None
    else:
        print(f"A film is in {path}")


def parse(arguments: Sequence[str]) -> TrainSACOptions | TrainPPOOptions:
    """Parse the command line; the preset or a file, and the task, decide on the defaults."""
    if {"-h", "--help"} & set(arguments):
        parse_options(CommonOptions, "rsl-rl-sac train", ["--help"])  # ends here
    arguments = ["--help" if argument == "--help-all" else argument for argument in arguments]
    config = _peek(arguments, "--config", "")
    if config:
        return _parse_with_file(arguments, Path(config))
    agent = _peek(arguments, "--agent", "sac")
    if agent not in _AGENTS:
        raise ConfigError(f"There is no agent '{agent}'. Known agents: {', '.join(_AGENTS)}.")
    task = _find_task(arguments)
    resumed = _peek(arguments, "--resume", "")
    if resumed and not task:
        _check_resume(arguments, Path(resumed))
        task = load_config(Path(resumed) / "config.yaml")[0]
    world, name = find_world(task) if task else (None, "")
    defaults = world or TrainOptions
    preset_name = _peek(arguments, "--preset", defaults.preset)
    known = [name for name in PRESETS if not name.startswith(_AGENTS["ppo"])]
    if preset_name not in known:
        raise ConfigError(f"Unknown preset '{preset_name}'. Known presets: {', '.join(known)}.")
    cfg = preset(_AGENTS[agent] + preset_name, world.preset_key(name) if world else "")
    kind = TrainSACOptions if agent == "sac" else TrainPPOOptions
    default_task = task if resumed and task else tyro.MISSING
    default = kind(task=default_task, preset=preset_name, evaluation_envs=defaults.evaluation_envs, cfg=cfg)  # type: ignore[arg-type]
    return parse_options(kind, "rsl-rl-sac train", arguments, default, not _open_sections(cfg, arguments), "--help-all")


def _parse_with_file(arguments: Sequence[str], config: Path) -> TrainSACOptions | TrainPPOOptions:
    """Parse a command line whose defaults are those of a configuration file."""
    _refuse(arguments, ("--agent", "--preset"), "--config decides on them")
    task, cfg, training = load_run_config(config)
    training = training or TrainingCfg(evaluation_envs=find_world(task)[0].evaluation_envs)
    if isinstance(cfg, RunnerCfg):
        default = TrainSACOptions(task=task, cfg=cfg, **vars(training))
    else:
        default = TrainPPOOptions(task=task, cfg=cfg, **vars(training))
    by_word = not _open_sections(default.cfg, arguments)
    return parse_options(type(default), "rsl-rl-sac train", arguments, default, by_word, "--help-all")


def _open_sections(cfg: RunnerCfg | PPORunnerCfg, arguments: Sequence[str]) -> bool:
    """Give a configuration the optional sections that flags are about; return whether there are such flags."""
    named = [name for name in _SECTIONS if any(flag.startswith(_section_flag(name)) for flag in _flags(arguments))]
    if not isinstance(cfg, RunnerCfg) or any(argument.startswith("algorithm.") for argument in arguments):
        return False
    for name in named:
        setattr(cfg.algorithm, name, getattr(cfg.algorithm, name) or _SECTIONS[name]())
    return bool(named)


def _section_flag(name: str) -> str:
    return f"--algorithm.{name.replace('_', '-')}."


def _check_numbers(options: TrainOptions) -> None:
    """Refuse numbers that make no sense, before anything is written."""
    for name in ("nproc", "cores", "evaluation_envs"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name.replace('_', '-')} must be at least 1, got {value}.")
    if options.minutes is not None and not 0.0 < options.minutes < math.inf:
        raise ConfigError(f"--minutes must be positive, got {options.minutes:g}.")
    if options.until is not None and not math.isfinite(options.until):
        raise ConfigError(f"--until must be a number, got {options.until:g}.")
    if options.until is not None and options.evaluation_minutes == 0.0:
        raise ConfigError("--until needs evaluations: --evaluation-minutes must not be 0.")
    if not 0.0 <= options.evaluation_minutes < math.inf:
        raise ConfigError(f"--evaluation-minutes must not be negative, got {options.evaluation_minutes:g}.")
    if Path(options.name).name != options.name:
        raise ConfigError(f"--name must be a part of the name of a folder, got '{options.name}'.")


def _check_resume(arguments: Sequence[str], folder: Path) -> None:
    """Refuse to resume from nothing, and flags that would be ignored."""
    if folder.is_file():
        raise ConfigError(f"A run goes on from its newest checkpoint: --resume {folder.parent}, without the file.")
    if not find_checkpoints(folder):
        what = (
            "it holds no checkpoint model_<iteration>.pt"
            if folder.exists()
            else "there is no such folder, and no such task"
        )
        raise ConfigError(f"There is nothing to resume in '{folder}': {what}.")
    ignored = [flag for flag in _flags(arguments) if flag not in _RESUME_FLAGS]
    reason = f"a resumed run keeps its own settings. A new run with others: --config {folder / 'config.yaml'}"
    _refuse(arguments, ignored, reason)


def _prepare_start(options: TrainSACOptions | TrainPPOOptions, arguments: Sequence[str]) -> None:
    """Find the checkpoint to start from, of the same algorithm and of a task that this one extends; take its networks.

    Networks are taken as they are since presets may have others on rough terrain, as Isaac Lab has for PPO. SAC's noise
    and learning rates go on where they were, and its bounds, if they had been opening.
    """
    # Here: other worlds train without the suite's simulator.
    from rsl_rl_sac.locomotion.runs import load_checkpoint, resolve_run

    found = resolve_run(options.start_from or "", options.logs)
    agent = "sac" if isinstance(options.cfg, RunnerCfg) else "ppo"
    if found.kind != agent or found.cfg is None:
        raise ConfigError(f"{agent.upper()} cannot start from '{found.path}': it is of {found.kind.upper()}.")
    (world, name), (others, other) = find_world(options.task), find_world(found.task)
    if type(world) is not type(others) or not world.extends(name, other):
        raise ConfigError(
            f"{options.task} cannot start from '{found.path}': it is of {found.task}, another robot or one that sees"
            " more."
        )
    _refuse_networks(arguments, found.path)
    state = load_checkpoint(found)
    check_start(state, found.path)
    options.start_from = str(found.path)
    options.cfg.actor, options.cfg.critic = found.cfg.actor, found.cfg.critic  # type: ignore[assignment]  # same kind
    if isinstance(options.cfg, RunnerCfg) and isinstance(found.cfg, RunnerCfg) and "--config" not in _flags(arguments):
        reached = reached_settings(found.cfg.algorithm, state)  # a run that is repeated has its own
        go_on_from(options.cfg.algorithm, reached, _given_settings(arguments))


def _go_on(options: TrainSACOptions | TrainPPOOptions, folder: Path, arguments: Sequence[str]) -> None:
    """Check that a run which is there already is the one that is asked for; --resume takes its settings over."""
    task, cfg, training = load_run_config(folder / "config.yaml")
    if task != options.task:
        raise ConfigError(f"The run in '{folder}' is of the task '{task}', not '{options.task}'.")
    if options.resume is not None:
        for name, value in vars(training).items() if training is not None else ():
            if f"--{name.replace('_', '-')}" not in _flags(arguments):
                setattr(options, name, value)
        if "--max-iterations" in _flags(arguments):
            cfg.max_iterations = options.cfg.max_iterations
        options.cfg = cfg
        return
    start = training.start_from if training is not None else None
    if options.start_from is not None and start is None:
        raise ConfigError(f"The run in '{folder}' did not start from another one: choose another folder.")
    if start is not None and "--config" not in _flags(arguments):  # what it took over then is not in the preset
        _refuse_networks(arguments, start)
        options.start_from = start
        options.cfg.actor, options.cfg.critic = cfg.actor, cfg.critic  # type: ignore[assignment]  # checked below
        if isinstance(cfg, RunnerCfg) and isinstance(options.cfg, RunnerCfg):
            taken_over = {name: getattr(cfg.algorithm, name) for name in REACHED}
            go_on_from(options.cfg.algorithm, taken_over, _given_settings(arguments))
    if type(cfg) is not type(options.cfg) or _networks(cfg) != _networks(options.cfg):
        raise ConfigError(
            f"The run in '{folder}' has another algorithm or other networks: go on with --resume {folder}, or choose"
            " another folder."
        )
    if isinstance(cfg, RunnerCfg) and isinstance(options.cfg, RunnerCfg):
        names = ("action_bounds", "largest_action")
        if any(getattr(cfg.algorithm, name) != getattr(options.cfg.algorithm, name) for name in names):
            raise ConfigError(
                f"The run in '{folder}' has other action bounds, which are in its checkpoint: choose another folder,"
                f" with --start-from {folder} to begin with its policy."
            )


def _given_settings(arguments: Sequence[str]) -> set[str]:
    """Return the names of the algorithm's settings that a command line gives."""
    prefix = "--algorithm."
    return {flag.removeprefix(prefix).replace("-", "_") for flag in _flags(arguments) if flag.startswith(prefix)}


def _networks(cfg: RunnerCfg | PPORunnerCfg) -> list[dict]:
    return [to_plain(cfg.to_dict()[name]) for name in ("actor", "critic")]


def _refuse_networks(arguments: Sequence[str], start: Path | str) -> None:
    """Refuse flags of networks that are those of another run."""
    networks = [flag for flag in _flags(arguments) if flag.startswith(("--actor.", "--critic."))]
    _refuse(arguments, networks, f"the networks are those of '{start}'")


def _refuse(arguments: Sequence[str], flags: Sequence[str], reason: str) -> None:
    """Raise one error that names all of some flags that were given."""
    given = [flag for flag in _flags(arguments) if flag in flags]
    if given:
        raise ConfigError(f"{', '.join(given)} would be ignored: {reason}.")


def _flags(arguments: Sequence[str]) -> list[str]:
    """Return the flags of a command line, without values, as they are listed in the help."""
    given = (argument.split("=", 1)[0].replace("_", "-") for argument in arguments if argument.startswith("--"))
    return [f"--{flag[5:]}" if flag.startswith("--no-") else flag for flag in given]


def _find_task(arguments: Sequence[str]) -> str:
    """Return the task, which decides on defaults, or nothing if none is named."""
    for before, argument in itertools.pairwise(["", *arguments]):
        if is_task(argument) and before not in _TEXT_FLAGS:
            return argument
    return ""


def _peek(arguments: Sequence[str], flag: str, default: str) -> str:
    """Return the value of a flag that decides on the defaults of others."""
    for argument, value in zip(arguments, [*arguments[1:], default], strict=False):
        if argument == flag:
            return value
        if argument.startswith(f"{flag}="):
            return argument.split("=", 1)[1]
    return default


def _new_folder(options: TrainOptions) -> Path:
    now = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    return options.logs / options.task.replace(":", "-") / (f"{now}_{options.name}" if options.name else now)
