# SPDX-License-Identifier: BSD-3-Clause

"""Velocity tracking with seven legged robots, flat and rough, on CPU MuJoCo."""

import os
import sys

# MuJoCo chooses its way to draw when it is imported; without a display only EGL and OSMesa work.
if sys.platform == "linux" and not os.environ.get("DISPLAY"):
    os.environ.setdefault("MUJOCO_GL", "egl")

from .registry import make_env, register_robot, task_cfg, task_names
from .robot import Robot
from .velocity_env import VelocityEnv

__all__ = ["Robot", "VelocityEnv", "make_env", "register_robot", "task_cfg", "task_names"]
