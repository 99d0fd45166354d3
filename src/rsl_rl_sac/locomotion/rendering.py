# SPDX-License-Identifier: BSD-3-Clause

"""Pictures of one robot, off-screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

from rsl_rl_sac.utils.errors import ConfigError, RslRlSacError

if TYPE_CHECKING:
    from rsl_rl_sac.locomotion.velocity_env import VelocityEnv


class Camera:
    """A camera that follows a robot; everything is made when the first picture is asked for."""

    def __init__(self, env: VelocityEnv) -> None:
        """Create the camera.

        Args:
            env: Environment.
        """
        self.env = env
        self.azimuth, self.elevation = 130.0, -20.0
        self.distance = 3.5 * env.robot.base_height + 1.0
        self._renderer: mujoco.Renderer | None = None
        self._data: mujoco.MjData | None = None

    def render(self, env: int, width: int, height: int) -> np.ndarray:
        """Return a picture ``(height, width, 3)`` of one environment.

        Raises:
            ConfigError: If there is no such environment.
            RslRlSacError: If there is no way to draw on this machine.
        """
        if not 0 <= env < self.env.num_envs:
            raise ConfigError(f"There is no environment {env}: they are 0 to {self.env.num_envs - 1}.")
        model = self.env.physics.model
        if self._renderer is None or (self._renderer.width, self._renderer.height) != (width, height):
            self._make_renderer(width, height)
        assert self._renderer is not None
        self._data = self.env.physics.batch.get_data(env, self._data)
        mujoco.mj_forward(model, self._data)
        camera = mujoco.MjvCamera()
        camera.azimuth, camera.elevation, camera.distance = self.azimuth, self.elevation, self.distance
        camera.lookat[:] = self._data.qpos[:3]
        self._renderer.update_scene(self._data, camera)
        return self._renderer.render()

    def close(self) -> None:
        """Release the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _make_renderer(self, width: int, height: int) -> None:
        self.close()
        model = self.env.physics.model
        model.vis.global_.offwidth = max(width, model.vis.global_.offwidth)
        model.vis.global_.offheight = max(height, model.vis.global_.offheight)
        try:
            self._renderer = mujoco.Renderer(model, height, width)
        except Exception as error:
            raise RslRlSacError(
                f"Cannot draw without a display here ({error}). Install EGL or OSMesa (Debian: libegl1, libosmesa6) and"
                " set MUJOCO_GL to egl or osmesa before mujoco is imported; importing the suite first does so."
            ) from error
