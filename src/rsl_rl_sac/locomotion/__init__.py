# SPDX-License-Identifier: BSD-3-Clause

"""Velocity tracking with seven legged robots, flat and rough, on CPU MuJoCo."""

import os
import sys
from ctypes.util import find_library

from rsl_rl_sac.utils.errors import MissingDependencyError

# MuJoCo chooses its way to draw when it is imported; without a display only EGL and OSMesa work. It cannot be imported
# with one that is not installed, but does all else without any.
if sys.platform == "linux" and not os.environ.get("DISPLAY") and not os.environ.get("MUJOCO_GL"):
    os.environ["MUJOCO_GL"] = next((name.lower() for name in ("EGL", "OSMesa") if find_library(name)), "disable")
try:
    import mujoco  # noqa: F401
except (AttributeError, RuntimeError) as error:
    raise MissingDependencyError(
        f"MuJoCo cannot draw with MUJOCO_GL={os.environ.get('MUJOCO_GL')} ({error}): unset it, or install what it needs"
        " (Debian: libegl1, libosmesa6)."
    ) from error

from .registry import make_env, register_robot, task_cfg, task_names
from .robot import Robot
from .velocity_env import VelocityEnv

__all__ = ["Robot", "VelocityEnv", "make_env", "register_robot", "task_cfg", "task_names"]
