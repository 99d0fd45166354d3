# SPDX-License-Identifier: BSD-3-Clause

"""Films: as long as asked for, and of a robot that moves."""

from __future__ import annotations

import pathlib

import imageio_ffmpeg
import numpy as np
import torch

from rsl_rl_sac.locomotion.evaluation import make_evaluation_env
from rsl_rl_sac.locomotion.video import record_video


def test_video(tmp_path: pathlib.Path) -> None:
    """One second is 25 pictures of the size asked for, and a robot that is shaken looks different in each."""
    env = make_evaluation_env("Velocity-Flat-Unitree-Go2", 1)
    path = tmp_path / "videos" / "walk.mp4"
    generator = torch.Generator().manual_seed(0)
    record_video(lambda obs: torch.randn(1, 12, generator=generator), env, path, seconds=1.0, width=160, height=128)
    reader = imageio_ffmpeg.read_frames(str(path))
    meta = next(reader)
    assert meta["size"] == (160, 128) and meta["fps"] == 25.0
    frames = [np.frombuffer(frame, dtype=np.uint8).astype(float) for frame in reader]
    assert len(frames) == 25
    changes = [np.abs(one - other).mean() for one, other in zip(frames[1:], frames[:-1], strict=True)]
    assert min(changes[:20]) > 0.05
