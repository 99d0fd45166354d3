# SPDX-License-Identifier: BSD-3-Clause

"""Pictures of robots, off-screen."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from rsl_rl_sac.utils.errors import ConfigError, RslRlSacError

if TYPE_CHECKING:
    from rsl_rl_sac.locomotion.velocity_env import VelocityEnv


AZIMUTH = 130.0
"""Direction in which cameras look, in degrees about the vertical, from x."""

ELEVATION = -20.0
"""Degrees by which they look up."""


class Camera:
    """A camera that follows robots; everything is made when the first picture is asked for."""

    def __init__(self, env: VelocityEnv) -> None:
        """Create the camera.

        Args:
            env: Environment.
        """
        self.env = env
        self.azimuth, self.elevation = AZIMUTH, ELEVATION
        self.distance = view_distance(env)
        self._renderer: mujoco.Renderer | None = None
        self._data: mujoco.MjData | None = None

    def render(self, env: int | Sequence[int], width: int, height: int) -> np.ndarray:
        """Return a picture ``(height, width, 3)`` of one environment, or of several in one scene.

        Raises:
            ConfigError: If there is no such environment.
            RslRlSacError: If there is no way to draw on this machine.
        """
        envs = list(env) if isinstance(env, Sequence) else [env]
        if not envs or not all(0 <= index < self.env.num_envs for index in envs):
            raise ConfigError(f"There is no environment {env}: they are 0 to {self.env.num_envs - 1}.")
        if self._renderer is None or (self._renderer.width, self._renderer.height) != (width, height):
            self._make_renderer(width, height)
        assert self._renderer is not None
        positions = self.env.physics.qpos[envs, :3]
        centre = positions.mean(axis=0)
        camera = mujoco.MjvCamera()
        camera.azimuth, camera.elevation = self.azimuth, self.elevation
        camera.distance = self.distance + np.linalg.norm(positions - centre, axis=1).max()
        camera.lookat[:] = centre
        with ground_as_felt(self.env.physics.model):
            self._renderer.update_scene(self._forward(envs[0]), camera)
        for other in envs[1:]:
            self._add_robot(other)
        return self._renderer.render()

    def close(self) -> None:
        """Release the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _forward(self, env: int) -> mujoco.MjData:
        """Return the state of an environment with all that a picture needs."""
        self._data = self.env.physics.batch.get_data(env, self._data)
        mujoco.mj_forward(self.env.physics.model, self._data)
        return self._data

    def _add_robot(self, env: int) -> None:
        """Add the robot of another environment to the scene."""
        assert self._renderer is not None
        mujoco.mjv_addGeoms(
            self.env.physics.model,
            self._forward(env),
            mujoco.MjvOption(),
            mujoco.MjvPerturb(),
            mujoco.mjtCatBit.mjCAT_DYNAMIC.value,
            self._renderer.scene,
        )

    def _make_renderer(self, width: int, height: int) -> None:
        self.close()
        model = self.env.physics.model
        model.vis.global_.offwidth = max(width, model.vis.global_.offwidth)
        model.vis.global_.offheight = max(height, model.vis.global_.offheight)
        try:
            if os.environ.get("MUJOCO_GL") == "glfw" and not has_display():  # which GLFW would say in lines of its own
                raise RuntimeError("MUJOCO_GL=glfw needs one")
            self._renderer = mujoco.Renderer(model, height, width)
        except Exception as error:
            reason = " ".join(str(error).split())  # in one line
            raise RslRlSacError(
                f"Cannot draw here ({reason}). Without a display it takes EGL or OSMesa: install libegl1 or libosmesa6"
                " (Debian, Ubuntu), and set the environment variable MUJOCO_GL to egl or osmesa if it is set otherwise."
            ) from error


@contextlib.contextmanager
def ground_as_felt(model: mujoco.MjModel) -> Iterator[None]:
    """Raise a height field, which lies deeper (``PhysicsCfg.terrain_depth``), to where feet stand, for a picture."""
    fields = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_HFIELD.value)
    model.geom_pos[fields, 2] += model.geom_margin[fields]
    try:
        yield
    finally:
        model.geom_pos[fields, 2] -= model.geom_margin[fields]


def has_display() -> bool:
    """Return whether windows can be opened."""
    return sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def view_distance(env: VelocityEnv) -> float:
    """Return the distance at which one robot fills a picture."""
    return 3.5 * env.robot.base_height + 1.0


def view_offset(env: VelocityEnv) -> np.ndarray:
    """Return where a camera stands, seen from the robot it looks at."""
    azimuth, elevation = np.deg2rad([AZIMUTH, ELEVATION])
    forward = [np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)]
    return -view_distance(env) * np.array(forward)
