# SPDX-License-Identifier: BSD-3-Clause

"""Films of a policy."""

from __future__ import annotations

from pathlib import Path

import imageio_ffmpeg
import torch

from rsl_rl_sac.locomotion.evaluation import EVALUATION_SEED, Policy, ScheduledCommand
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv

FRAMES_PER_SECOND = 25
"""Half of the control rate, so that every second step is a picture and time runs as it should."""


def record_video(
    policy: Policy, env: VelocityEnv, path: Path, seconds: float = 10.0, width: int = 640, height: int = 480
) -> None:
    """Film the first environment.

    Args:
        policy: Deterministic policy.
        env: Environments of ``make_evaluation_env()``.
        path: MP4 file to write.
        seconds: Length.
        width: Width in pixels, a multiple of 16.
        height: Height in pixels, a multiple of 16.
    """
    env.seed(EVALUATION_SEED)
    if isinstance(env.commands, ScheduledCommand):
        env.commands.restart()
    obs, _ = env.reset()
    steps_per_frame = max(1, round(1.0 / (env.step_dt * FRAMES_PER_SECOND)))
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = imageio_ffmpeg.write_frames(str(path), (width, height), fps=FRAMES_PER_SECOND, macro_block_size=16)
    writer.send(None)
    try:
        with torch.inference_mode():
            for step in range(round(seconds / env.step_dt)):
                obs, *_ = env.step(policy(obs))
                if step % steps_per_frame == 0:
                    writer.send(env.render(0, width, height))
    finally:
        writer.close()
        env.camera.close()
