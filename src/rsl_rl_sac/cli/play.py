# SPDX-License-Identifier: BSD-3-Clause

"""``rsl-rl-sac play RUN``: a film of a policy, or a page in the browser that shows it live."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import tyro
from rich.progress import Progress

from rsl_rl_sac.cli.console import plain_console
from rsl_rl_sac.cli.options import parse_options
from rsl_rl_sac.locomotion.play_env import (
    DEFAULT_LEVEL,
    Ground,
    TourCommand,
    check_command,
    default_ground,
    make_play_env,
    tour,
)
from rsl_rl_sac.locomotion.registry import task_cfg
from rsl_rl_sac.locomotion.runs import PolicyFile, check_suite, load_policy, resolve_run
from rsl_rl_sac.locomotion.video import check_film, record_video
from rsl_rl_sac.locomotion.viewer import CheckpointWatch, Session, run_viewer
from rsl_rl_sac.utils.errors import ConfigError

FILM_SIZES = {".mp4": (640, 480), ".gif": (320, 240)}
"""Pixels by the ending of the file; GIFs get large."""


@dataclass
class PlayOptions:
    """Film a policy without a display, or show it live in the browser (--viewer).

    On the page, the command, pushes and the ground are at your hands, and a run that is still training shows its newest
    checkpoint. Ctrl-C ends it.

    For example:
      rsl-rl-sac play Velocity-Flat-Unitree-Go2 --viewer        newest run of the task, in the browser
      rsl-rl-sac play RUN --output walk.gif --command 0.5 0 0   a film of half a metre per second
    """

    run: tyro.conf.Positional[str]
    """Folder of a run, checkpoint, .onnx or TorchScript file; a task means its newest run."""

    viewer: bool = False
    """Show a page in the browser instead of making a film."""

    output: Path | None = None
    """Film, .mp4 or .gif; by default an MP4 beside the policy, of its name."""

    seconds: float = 12.0
    """Length of the film."""

    command: tuple[float, float, float] | None = None
    """Forward speed, speed to the left (m/s) and turning speed (rad/s); by default a small tour, on the page 0 0 0."""

    robots: int = 1
    """Number of robots."""

    ground: str | None = None
    """Ground: flat, pyramid_stairs, inverted_pyramid_stairs, boxes, random_rough, pyramid_slope or
    inverted_pyramid_slope; by default flat, or stairs for tasks on rough terrain."""

    level: int = DEFAULT_LEVEL
    """Difficulty of rough ground, from 0 to 9."""

    logs: Path = Path("logs")
    """Folder of all runs."""

    task: str | None = None
    """Task of a file that does not say its own."""

    seed: int = 0
    """Seed of terrain and masses."""

    host: str = "127.0.0.1"
    """Address at which the page is served; others than this one reach beyond this machine."""

    port: int = 8080
    """Port of the page; 0 takes a free one."""


def run(arguments: Sequence[str]) -> None:
    """Run the verb."""
    options = parse_options(PlayOptions, "rsl-rl-sac play", arguments)
    _refuse_ignored(options)
    file = resolve_run(options.run, options.logs, options.task)
    if options.seed < 0:
        raise ConfigError(f"--seed must not be negative, got {options.seed}.")
    check_suite(file.task)
    if options.command is not None:
        check_command(options.command, task_cfg(file.task).commands)
    ground = Ground(options.ground or default_ground(file.task).kind, options.level)
    if options.viewer:
        show(file, ground, options)
    else:
        film(file, ground, options)


def _refuse_ignored(options: PlayOptions) -> None:
    """Raise an error that names flags of the film beside --viewer, and those of the page without."""
    of_film, of_page = ("output", "seconds"), ("host", "port")
    defaults = {field.name: field.default for field in fields(PlayOptions)}
    ignored = [name for name in (of_film if options.viewer else of_page) if getattr(options, name) != defaults[name]]
    if ignored:
        flags = ", ".join(f"--{name}" for name in ignored)
        reason = "with --viewer there is no film" if options.viewer else "without --viewer there is no page"
        raise ConfigError(f"{flags} would be ignored: {reason}.")


def film(file: PolicyFile, ground: Ground, options: PlayOptions) -> None:
    """Make a film."""
    path = options.output or file.path.with_suffix(".mp4")
    check_film(path, options.seconds)
    policy = load_policy(file)
    env = make_play_env(file.task, options.robots, ground, seed=options.seed)
    cfg = env.task.commands
    commands = [options.command] if options.command is not None else tour(cfg)
    env.commands = TourCommand(cfg, env.num_envs, env.step_dt, env.rng, commands, options.seconds)
    width, height = FILM_SIZES[path.suffix.lower()]
    console = plain_console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("Filming", total=1.0)
        record_video(
            policy,
            env,
            path,
            options.seconds,
            width,
            height,
            range(env.num_envs),
            listener=lambda share: progress.update(bar, completed=share),
        )
    print(f"The film of {file.path} is in {path}")


def show(file: PolicyFile, ground: Ground, options: PlayOptions) -> None:
    """Serve the page until Ctrl-C."""
    from rsl_rl_sac.locomotion.viewer.page import Page  # here: viser is an extra, which films do not need

    session = Session(file.task, load_policy(file), options.robots, ground, seed=options.seed)
    if options.command is not None:
        session.steer(options.command)
    page = Page(session, options.host, options.port)
    # Whoever names a file wants that one.
    watch = None if Path(options.run).is_file() else CheckpointWatch(file)
    try:
        print(f"{file.title}\nOpen {page.url} in a browser; Ctrl-C ends it.", flush=True)
        run_viewer(session, page, file.path.name, watch)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
    finally:
        page.close()
        session.close()
