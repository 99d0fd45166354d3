# SPDX-License-Identifier: BSD-3-Clause

"""``rsl-rl-sac evaluate RUN``: how well a policy does, in detail."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.table import Table

from rsl_rl_sac.cli.console import plain_console
from rsl_rl_sac.cli.display import clock, count
from rsl_rl_sac.cli.options import parse_options
from rsl_rl_sac.envs.evaluation import EpisodeOutcomes
from rsl_rl_sac.envs.worlds import find_world
from rsl_rl_sac.locomotion.breakdown import Breakdown, break_down, directions, paired_difference
from rsl_rl_sac.locomotion.evaluation import Episodes, Score, make_evaluation_env
from rsl_rl_sac.locomotion.registry import task_cfg
from rsl_rl_sac.locomotion.runs import PolicyFile, load_checkpoint, load_policy, resolve_run
from rsl_rl_sac.utils.checkpoint import write_text_atomically
from rsl_rl_sac.utils.errors import ConfigError
from rsl_rl_sac.utils.versions import installed_versions


@dataclass
class EvaluateOptions:
    """Score policies by the evaluation rule, in total, by direction and by terrain; several meet the same episodes.

    Deterministic policy, no noise, no pushes, a seed of its own, the first episode of each environment. Directions:
    full speed of the task's range, held for the episode. Tasks of Gymnasium: return, episode length and survival. All
    numbers go to POLICY.evaluation.json beside the policy.

    For example:
      rsl-rl-sac evaluate Velocity-Flat-Unitree-Go2                newest run of the task
      rsl-rl-sac evaluate logs/.../2026-01-31_12-00-00             newest checkpoint of a run
      rsl-rl-sac evaluate RUN/model_best.pt RUN/export/policy.onnx two policies side by side
      rsl-rl-sac evaluate gym:Pendulum-v1                          a task of another world
    """

    runs: tyro.conf.Positional[tuple[str, ...]]
    """Runs: folders, checkpoints, ONNX or TorchScript files, or tasks (their newest run)."""

    episodes: int = 128
    """Episodes of the total, and again of all directions together."""

    task: str | None = None
    """Task of ONNX and TorchScript files that do not say theirs."""

    logs: Path = Path("logs")
    """Folder of all runs."""

    cores: int | None = None
    """Cores to use; by default all that the process may use."""


def run(arguments: Sequence[str]) -> None:
    """Run the verb."""
    options = parse_options(EvaluateOptions, "rsl-rl-sac evaluate", arguments)
    if not options.runs:
        raise ConfigError("Name a run: rsl-rl-sac evaluate RUN. A task means its newest run.")
    if options.cores is not None and options.cores < 1:
        raise ConfigError(f"--cores must be at least 1, got {options.cores}.")
    files = [resolve_run(name, options.logs, options.task) for name in options.runs]
    tasks = list(dict.fromkeys(file.task for file in files))
    if len(tasks) > 1:
        raise ConfigError(f"Policies are compared on the episodes of one task, but these are of {' and '.join(tasks)}.")
    trainings = [_training(file) for file in files]
    for file in files:
        _check_writable(_numbers_path(file))
    if ":" in tasks[0]:  # of another world, which knows no commands and no terrain
        results = _run_elsewhere(files, options)
        tables, episodes, quantities = [_outcome_table(results)], results, {"returns": 2, "lengths": 1, "survived": 2}
    else:
        results = _run_in_suite(files, options)
        tables, episodes = _tables(results), [result.episodes for result in results]
        quantities = {"tracking": 3, "survived": 2, "returns": 2}
    console = plain_console(160)
    for letter, file, training in zip(_letters(len(files)), files, trainings, strict=True):
        effort = f", {count(int(training['env_steps']))} steps in {clock(training['seconds'])}" if training else ""
        console.print(f"{letter}  {file.title}{effort}".strip(), soft_wrap=True)
    for table in tables:
        console.print()
        console.print(table)
    for letter, others in zip(_letters(len(files))[1:], episodes[1:], strict=True):
        difference = _difference(episodes[0], others, quantities)
        console.print(f"\n{letter} - A on the same episodes (mean, standard error):", difference)
    console.print()
    for file, result, training in zip(files, results, trainings, strict=True):
        console.print(f"Numbers: {_write(file, result, training)}", soft_wrap=True)


def _run_in_suite(files: list[PolicyFile], options: EvaluateOptions) -> list[Breakdown]:
    """Score policies of a task of the suite, in detail."""
    policies = [load_policy(file) for file in files]  # all of them, before any of them runs
    smallest = len(directions(task_cfg(files[0].task).commands))
    if options.episodes < smallest:
        raise ConfigError(f"--episodes must be at least {smallest}, one for each direction, got {options.episodes}.")
    env = make_evaluation_env(files[0].task, options.episodes, options.cores)
    print(f"Running {options.episodes} episodes by the rule, then as many by direction ...", file=sys.stderr)
    return [break_down(policy, env) for policy in policies]


def _run_elsewhere(files: list[PolicyFile], options: EvaluateOptions) -> list[EpisodeOutcomes]:
    """Run policies of a task of another world on the episodes of its own evaluation."""
    smallest = min(len(files), 2)  # the error of a difference needs two episodes
    if options.episodes < smallest:
        raise ConfigError(f"--episodes must be at least {smallest}, got {options.episodes}.")
    world, name = find_world(files[0].task)
    env = world.make_evaluation_env(name, options.episodes, options.cores)
    try:
        policies = [load_policy(file, env) for file in files]
        print(f"Running {options.episodes} episodes ...", file=sys.stderr)
        return [world.run_episodes(policy, env) for policy in policies]
    finally:
        if hasattr(env, "close"):  # rsl_rl's VecEnv does not ask for it
            env.close()


def _letters(count: int) -> list[str]:
    """Return names of the policies; a single one needs none."""
    return [chr(ord("A") + number) for number in range(count)] if count > 1 else [""]


def _tables(results: list[Breakdown]) -> list[Table]:
    """Return a table by direction, the total at its end, and on rough terrain one by kind and one by level."""
    table = _table("Command", ["Speed", *(_titles("Reached", results))], results)
    for name, first in results[0].directions.items():
        parts = [result.directions[name] for result in results]
        unit = "rad/s" if first.command[2] else "m/s"
        reached = [f"{part.reached_speed:.2f}" for part in parts]
        table.add_row(name, f"{first.commanded_speed:.2f} {unit}", *reached, *_cells([part.score for part in parts]))
    total = _cells([result.total for result in results])
    table.add_row("all, by the rule", "any", *["-"] * len(results), *total, style="bold")
    tables = [table]
    parts_by_title: list[tuple[str, Callable[[Breakdown], dict]]] = [
        ("Terrain", lambda result: result.terrains),
        ("Level", lambda result: result.levels),
    ]
    for title, part in parts_by_title:
        if part(results[0]):
            table = _table(title, [], results)
            for name in part(results[0]):
                table.add_row(str(name).replace("_", " "), *_cells([part(result)[name] for result in results]))
            tables.append(table)
    return tables


def _table(title: str, more: list[str], results: list[Breakdown]) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(title, no_wrap=True)
    quantities = [name for quantity in ("Tracking", "Survival", "Return") for name in _titles(quantity, results)]
    for column in (*more, "Episodes", *quantities):
        table.add_column(column, justify="right", no_wrap=column == "Speed")
    return table


def _titles(quantity: str, results: list[Breakdown]) -> list[str]:
    return [f"{quantity} {letter}".strip() for letter in _letters(len(results))]


def _cells(scores: list[Score]) -> list[str]:
    """Return the number of episodes, then each quantity of all policies."""
    return [
        str(scores[0].num_episodes),
        *(f"{score.tracking:.3f}" for score in scores),
        *(f"{score.survival:.2f}" for score in scores),
        *(f"{score.episode_return:.2f}" for score in scores),
    ]


def _outcome_table(results: list[EpisodeOutcomes]) -> Table:
    """Return a table with a row for each policy."""
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    letters = _letters(len(results))
    for column in (*(["Policy"] if len(results) > 1 else []), "Episodes", "Return", "Spread", "Length", "Survival"):
        table.add_column(column, justify="right")
    for letter, result in zip(letters, results, strict=True):
        score = result.score()
        numbers = [f"{score.episode_return:.2f}", f"{result.returns.std():.2f}", f"{score.episode_length:.1f}"]
        cells = [str(score.num_episodes), *numbers, f"{result.survival:.2f}"]
        table.add_row(*([letter] if letter else []), *cells)
    return table


def _difference(
    first: Episodes | EpisodeOutcomes, second: Episodes | EpisodeOutcomes, quantities: dict[str, int]
) -> str:
    """Return by how much the second policy is above the first, in some quantities with so many digits."""
    parts = []
    for name, digits in quantities.items():
        mean, error = paired_difference(first, second, name)
        parts.append(f"{name} {mean:+.{digits}f} ± {error:.{digits}f}")
    return ", ".join(parts)


def _training(file: PolicyFile) -> dict[str, float]:
    """Return what a policy took to train, by the names of a learning curve; nothing if its file does not say."""
    infos = load_checkpoint(file)["infos"] if file.cfg is not None else {}
    names = ("env_steps", "seconds", "cpu_seconds")
    return {name: infos[name] for name in names} if all(isinstance(infos.get(n), (int, float)) for n in names) else {}


def _numbers_path(file: PolicyFile) -> Path:
    return file.path.with_name(f"{file.path.name}.evaluation.json")


def _check_writable(path: Path) -> None:
    """Find out that a file cannot be written before minutes are spent on what goes into it."""
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        reason = "it is a folder" if path.is_dir() else "the folder is read-only"
        raise ConfigError(f"The numbers cannot be written to '{path}': {reason}. Copy the policy elsewhere.")


def _write(file: PolicyFile, result: Breakdown | EpisodeOutcomes, training: dict[str, float]) -> Path:
    """Write the numbers beside the policy."""
    path = _numbers_path(file)
    about = {"task": file.task, "policy": file.path.name, "training": training, "versions": installed_versions()}
    try:
        write_text_atomically(json.dumps({**about, **result.to_dict()}, indent=1), path)
    except OSError as error:
        raise ConfigError(f"The numbers cannot be written to '{path}': {error.strerror}.") from error
    return path
