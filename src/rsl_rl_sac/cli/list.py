# SPDX-License-Identifier: BSD-3-Clause

"""``rsl-rl-sac list``: the tasks as a table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from rsl_rl_sac.locomotion.observations import Observations
from rsl_rl_sac.locomotion.registry import load_robot, task_cfg, task_names


def list_tasks() -> None:
    """List the tasks of the locomotion suite."""
    table = Table("Task", "Robot", "Terrain", box=None, header_style="bold")
    for column in ("Joints", "Observations", "Mass (kg)"):
        table.add_column(column, justify="right")
    for name in task_names():
        cfg = task_cfg(name)
        robot = load_robot(cfg.robot)
        size = Observations.sizes(robot, rough=cfg.terrain is not None)
        terrain = "flat" if cfg.terrain is None else "rough"
        joints, mass = len(robot.joint_names), f"{robot.total_mass:.1f}"
        table.add_row(name, robot.title, terrain, str(joints), str(sum(size.values())), mass)
    Console().print(table)
