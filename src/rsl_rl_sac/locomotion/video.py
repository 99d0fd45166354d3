# SPDX-License-Identifier: BSD-3-Clause

"""Films of a policy."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import torch

from rsl_rl_sac.locomotion.evaluation import EVALUATION_SEED, Policy, ScheduledCommand
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv
from rsl_rl_sac.utils.errors import ConfigError, MissingDependencyError, RslRlSacError

FRAMES_PER_SECOND = {".mp4": 25.0, ".gif": 12.5}
"""Pictures per second by the ending of the file: a half and a quarter of the control rate, so that time runs as it
should, and whole hundredths of a second, which is all that a GIF knows."""

SHADOW_SIZE = 2048
"""Edge of the shadow map. Without a GPU, a picture with the 8192 of still pictures takes three times as long."""

# One palette for the whole film, made of what moves.
_GIF_FILTER = "split[a][b];[a]palettegen=stats_mode=diff[p];[b][p]paletteuse=dither=bayer"


def record_video(
    policy: Policy,
    env: VelocityEnv,
    path: Path,
    seconds: float = 10.0,
    width: int = 640,
    height: int = 480,
    robots: Sequence[int] = (0,),
    listener: Callable[[float], None] | None = None,
) -> None:
    """Film robots from the beginning of their episodes. The file appears when it is complete.

    Args:
        policy: Deterministic policy.
        env: Environments of ``make_evaluation_env()`` or ``make_play_env()``.
        path: File to write, with a key of :data:`FRAMES_PER_SECOND` as its ending.
        seconds: Length.
        width: Width in pixels, a multiple of 16.
        height: Height in pixels, a multiple of 16.
        robots: Environments to film.
        listener: Called with the share of the film that is done, 0 to 1.

    Raises:
        ConfigError: If the file cannot be such a film.
        RslRlSacError: If there is no ffmpeg, no way to draw, or no room on the disk.
    """
    check_film(path, seconds)
    num_steps = round(seconds / env.step_dt)
    steps_per_frame = max(1, round(1.0 / (env.step_dt * FRAMES_PER_SECOND[path.suffix.lower()])))
    env.seed(EVALUATION_SEED)
    if isinstance(env.commands, ScheduledCommand):
        env.commands.restart()
    env.physics.model.vis.quality.shadowsize = SHADOW_SIZE
    obs, _ = env.reset()
    try:
        env.render(robots, width, height)  # before anything is written: it may not be possible here
        with torch.inference_mode(), _film(path, width, height) as film:
            for step in range(num_steps):
                obs, *_ = env.step(policy(obs))
                if step % steps_per_frame == 0:
                    film.send(env.render(robots, width, height))
                    if listener is not None:
                        listener((step + 1) / num_steps)
    finally:
        env.camera.close()


def check_film(path: Path, seconds: float) -> None:
    """Refuse what cannot become a film, before any work.

    Raises:
        ConfigError: If the ending of the file or the length is wrong.
        MissingDependencyError: If there is no ffmpeg.
    """
    if path.suffix.lower() not in FRAMES_PER_SECOND:
        raise ConfigError(f"A film's file ends in {' or '.join(FRAMES_PER_SECOND)}, but '{path}' does not.")
    if not 0.1 <= seconds <= 3600.0:
        raise ConfigError(f"A film takes from 0.1 to 3600 seconds, got {seconds:g}.")
    try:
        program = imageio_ffmpeg.get_ffmpeg_exe()  # what IMAGEIO_FFMPEG_EXE says is not checked there
    except RuntimeError:
        program = ""
    if shutil.which(program) is None:
        raise MissingDependencyError(
            "There is no ffmpeg, which films need: pip install --force-reinstall imageio-ffmpeg, or set"
            " IMAGEIO_FFMPEG_EXE to the path of one."
        )


@contextlib.contextmanager
def _film(path: Path, width: int, height: int) -> Iterator[Generator[None, Any, None]]:
    """Give ffmpeg pictures; the file takes its name when all of them are in."""
    suffix = path.suffix.lower()
    options: dict[str, Any] = {"fps": FRAMES_PER_SECOND[suffix], "ffmpeg_log_level": "error"}
    if suffix == ".gif":
        options |= {"codec": "gif", "pix_fmt_out": "pal8", "quality": None}
        options["output_params"] = ["-filter_complex", _GIF_FILTER]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A folder of its own: ffmpeg goes by the ending of the name, and makes the file with the usual permissions.
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            temporary = Path(folder) / f"film{suffix}"
            writer = imageio_ffmpeg.write_frames(str(temporary), (width, height), **options)
            writer.send(None)
            try:
                yield writer
            finally:
                writer.close()
            os.replace(temporary, path)
    except OSError as error:
        raise RslRlSacError(f"Cannot write the film '{path}': {str(error).strip().splitlines()[0]}") from error
