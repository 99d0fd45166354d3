# SPDX-License-Identifier: BSD-3-Clause

"""What pictures show; the pictures themselves are tested with the environment."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from rsl_rl_sac.locomotion import make_env
from rsl_rl_sac.locomotion.rendering import ground_as_felt


def test_ground_is_drawn_where_it_is_felt() -> None:
    """The height field lies 1 cm deeper, but not in a picture, and lies there again afterwards, whatever happened."""
    env = make_env("Velocity-Rough-Unitree-Go1", num_envs=1)
    assert env.terrain is not None
    model, data = env.physics.model, mujoco.MjData(env.physics.model)
    corner = np.array([env.terrain.size[0] / 2 - 0.5, env.terrain.size[1] / 2 - 0.5])

    def height() -> float:
        mujoco.mj_kinematics(model, data)
        start, down = np.array([*corner, 5.0]), np.array([0.0, 0.0, -1.0])
        return 5.0 - mujoco.mj_ray(model, data, start, down, None, 1, -1, np.zeros(1, np.int32))

    expected = float(env.terrain.height_at(corner[:1], corner[1:])[0])
    assert height() == pytest.approx(expected - 0.01, abs=1e-4)
    with pytest.raises(KeyError), ground_as_felt(model):
        assert height() == pytest.approx(expected, abs=1e-4)
        raise KeyError
    assert height() == pytest.approx(expected - 0.01, abs=1e-4)
