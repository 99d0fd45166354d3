# SPDX-License-Identifier: BSD-3-Clause

"""``rsl-rl-sac list``: the tasks as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from rsl_rl_sac.cli.console import plain_console
from rsl_rl_sac.cli.options import parse_options
from rsl_rl_sac.locomotion.observations import Observations
from rsl_rl_sac.locomotion.registry import load_robot, task_cfg, task_names


def run(arguments: Sequence[str]) -> None:
    """Run the verb."""
    parse_options(list_tasks, "rsl-rl-sac list", arguments)


def list_tasks() -> None:
    """List the tasks of the locomotion suite.

    For example:
      rsl-rl-sac list
      rsl-rl-sac list | grep Rough
    """
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    for column in ("Task", "Robot", "Terrain"):
        table.add_column(column, no_wrap=True)
    for column in ("Joints", "Observations", "Mass (kg)"):
        table.add_column(column, justify="right")
    for name in task_names():
        cfg = task_cfg(name)
        robot = load_robot(cfg.robot)
        size = Observations.sizes(robot, rough=cfg.terrain is not None)
        terrain = "flat" if cfg.terrain is None else "rough"
        joints, mass = len(robot.joint_names), f"{robot.total_mass:.1f}"
        table.add_row(name, robot.title, terrain, str(joints), str(sum(size.values())), mass)
    # Names must stay whole where the output goes on into a pipe.
    plain_console(120).print(table)
