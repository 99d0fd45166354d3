# SPDX-License-Identifier: BSD-3-Clause

"""The environment contract and what helps to fulfil it."""

from .action_bounds import action_bounds
from .check_vec_env import check_vec_env
from .double_integrator import DoubleIntegrator
from .point_maze import PointMaze

__all__ = ["DoubleIntegrator", "PointMaze", "action_bounds", "check_vec_env"]
