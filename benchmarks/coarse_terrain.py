# SPDX-License-Identifier: BSD-3-Clause

"""Whether a flat height field is to a trembling robot what a plane is, in fine and in coarse physics.

    python benchmarks/coarse_terrain.py [--robots Unitree-Go1 Unitree-Go2 Anymal-D]

White noise on every joint; the share of robots that stay on their feet, what their vertical velocity costs, and the
drift that a constant offset of the action causes (``benchmarks/exploration.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import tyro
from common import write_rows
from exploration import Options as ExplorationOptions
from exploration import measure

from rsl_rl_sac.locomotion import make_env, task_cfg
from rsl_rl_sac.locomotion.scene import PhysicsCfg


@dataclass
class Options:
    """Options of the measurement."""

    robots: tuple[str, ...] = ("Unitree-Go1", "Unitree-Go2", "Anymal-D")
    """Robots."""
    num_envs: int = 96
    """Robots of each kind."""
    noise: float = 0.7
    """Standard deviation of the noise, in units of the action."""


def settings(fine: PhysicsCfg) -> dict[str, tuple[bool, PhysicsCfg]]:
    """Return whether the ground is a height field, and the physics, by name."""
    own, fine = fine, replace(fine, terrain_depth=0.0)
    coarse, on_field = fine.coarse(), fine.coarse(on_height_field=True)
    return {
        "fine, plane": (False, fine),
        "fine, height field": (True, fine),
        "fine, height field, as deep as the suite's": (True, own),
        "coarse, plane": (False, coarse),
        "coarse, height field": (True, coarse),
        "coarse, height field, converged": (True, replace(coarse, solver_iterations=100, line_search_iterations=50)),
        "coarse, height field, impratio 1": (True, replace(coarse, impratio=1.0)),
        "coarse, height field, deeper": (True, replace(on_field, cone=coarse.cone)),
        "coarse, height field, elliptic": (True, replace(on_field, terrain_depth=0.0)),
        "coarse, height field, elliptic and deeper": (True, on_field),
    }


def main(options: Options) -> None:
    """Measure, print and write a table."""
    torch.set_num_threads(1)
    exploration = ExplorationOptions(num_envs=options.num_envs)
    rows = []
    for robot in options.robots:
        flat, rough = task_cfg(f"Velocity-Flat-{robot}"), task_cfg(f"Velocity-Rough-{robot}")
        assert rough.terrain is not None
        # Slopes of no height.
        even = replace(rough.terrain, slope=(0.0, 0.0), proportions=(0.0, 0.0, 0.0, 0.0, 1.0, 0.0))
        for name, (is_field, physics) in settings(flat.physics).items():
            changes = {"physics": physics, "observation_noise": False, "rewards": flat.rewards}
            changes |= {"terrain": even} if is_field else {}
            env = make_env(f"Velocity-{'Rough' if is_field else 'Flat'}-{robot}", options.num_envs, seed=0, **changes)
            still = measure(env, exploration, options.noise, 0.0, 0.0)
            drift = measure(env, exploration, options.noise, 0.0, exploration.offset)["drift"]
            row = {name: round(float(still[name]), 5) for name in ("standing", "lin_vel_z_l2", "reward")}
            rows.append({"robot": robot, "setting": name, **row, "drift": drift})
            print(rows[-1], flush=True)
    write_rows("coarse_terrain", rows)


if __name__ == "__main__":
    main(tyro.cli(Options))
