# SPDX-License-Identifier: BSD-3-Clause

"""What each setting of the physics costs, and what it does to a robot that stands and to one that walks.

Every variant changes one thing against the suite's settings. All variants step in turn, so that they share the noise
of the machine, and the speed is a ratio to the suite's. Standing: creep of the feet of one robot over the second to
fifth second, of quadrupeds only, since humanoids fall without a policy.
Walking: an open-loop trot of three seconds; printed is how far the robot ends from where it ends with a solver that
runs to full convergence (for settings of the solver), or from where the suite's robot ends (for all others).

    python benchmarks/physics_settings.py --robots unitree_go1
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import mujoco
import numpy as np

from rsl_rl_sac.locomotion.physics import Physics
from rsl_rl_sac.locomotion.registry import load_robot
from rsl_rl_sac.locomotion.robot import Robot
from rsl_rl_sac.locomotion.scene import FRICTION, PhysicsCfg, build_spec, compile_model, joint_addresses
from rsl_rl_sac.locomotion.terrain import Terrain, TerrainCfg

RESULTS = Path(__file__).parent / "results"
SUITE = PhysicsCfg()


@dataclass(frozen=True)
class Variant:
    """One setting that differs from the suite's."""

    name: str
    cfg: PhysicsCfg = SUITE
    edit: Callable[[mujoco.MjSpec], None] | None = None
    cell: float = 0.1
    boxes: bool = False


def _option(name: str, value: object) -> Callable[[mujoco.MjSpec], None]:
    def edit(spec: mujoco.MjSpec) -> None:
        setattr(spec.option, name, value)

    return edit


def _feet_and_base_only(spec: mujoco.MjSpec) -> None:
    for geom in spec.geoms:
        on_base = geom.parent.name in ("trunk", "base", "torso_link", "world")
        if geom.material != "foot" and not on_base:
            geom.conaffinity = 0


def _all_collide(spec: mujoco.MjSpec) -> None:
    for geom in spec.geoms:
        if geom.conaffinity == 1:
            geom.contype = 1


def _no_sensors(spec: mujoco.MjSpec) -> None:
    for sensor in list(spec.sensors):
        spec.delete(sensor)


def variants(rough: bool) -> list[Variant]:
    """Return the settings that are compared; the first is the suite's, the second the converged solver."""
    suite = SUITE
    integrator, solver = mujoco.mjtIntegrator, mujoco.mjtSolver
    result = [
        Variant("suite"),
        Variant("converged", replace(suite, solver_iterations=200, line_search_iterations=100, tolerance=1e-14)),
        Variant("iterations 2", replace(suite, solver_iterations=2)),
        Variant("iterations 4", replace(suite, solver_iterations=4)),
        Variant("iterations 6", replace(suite, solver_iterations=6)),
        Variant("line search 5", replace(suite, line_search_iterations=5)),
        Variant("tolerance 1e-6", replace(suite, tolerance=1e-6)),
        Variant("tolerance 1e-5", replace(suite, tolerance=1e-5)),
        Variant("CG solver", edit=_option("solver", solver.mjSOL_CG)),
        Variant("impratio 1", replace(suite, impratio=1.0)),
        Variant("elliptic cone", replace(suite, cone="elliptic")),
        Variant("elliptic cone, impratio 1", replace(suite, cone="elliptic", impratio=1.0)),
        Variant("Euler", edit=_option("integrator", integrator.mjINT_EULER)),
        Variant("implicitfast", edit=_option("integrator", integrator.mjINT_IMPLICITFAST)),
        Variant("discrete", edit=_option("integrator", integrator.mjINT_DISCRETE)),
        Variant("step 0.01 s x 2", replace(suite, time_step=0.01, decimation=2)),
        Variant("dense Jacobian", edit=_option("jacobian", mujoco.mjtJacobian.mjJAC_DENSE)),
        Variant("sparse Jacobian", edit=_option("jacobian", mujoco.mjtJacobian.mjJAC_SPARSE)),
        Variant("feet and base collide", edit=_feet_and_base_only),
        Variant("self-collision", edit=_all_collide),
        Variant("no sensors", edit=_no_sensors),
    ]
    if not rough:
        return result
    return [*result, Variant("cell 0.05 m", cell=0.05), Variant("walls as boxes", boxes=True)]


class Run:
    """Some robots under one variant."""

    def __init__(self, robot: Robot, variant: Variant, rough: bool, num_envs: int) -> None:
        cfg = TerrainCfg.small_robots() if robot.total_mass < 20.0 else TerrainCfg()
        terrain = Terrain(replace(cfg, cell=variant.cell), seed=0) if rough else None
        walls = boxes_of_walls(terrain) if terrain is not None and variant.boxes else []
        spec = build_spec(robot, terrain, variant.cfg)
        for center, half_size in walls:
            box = mujoco.mjtGeom.mjGEOM_BOX
            friction = [FRICTION, 0.005, 0.0001]
            spec.worldbody.add_geom(type=box, pos=center, size=half_size, contype=1, conaffinity=0, friction=friction)
        if variant.edit is not None:
            variant.edit(spec)
        model = compile_model(robot, spec)
        self.steps = round(0.02 / variant.cfg.time_step)
        self.physics = Physics(model, num_envs, self.steps)
        self.robot, self.num_envs = robot, num_envs
        self.origins = np.zeros((num_envs, 3))
        if terrain is not None:
            rng = np.random.default_rng(0)
            rows = rng.integers(0, terrain.origins.shape[0], num_envs)
            self.origins = terrain.origins[rows, rng.integers(0, terrain.origins.shape[1], num_envs)]
        self.feet = [
            model.geom(f"{body.name}/{i}").id
            for body in robot.bodies
            for i, shape in enumerate(body.shapes)
            if robot.link_of(body, shape) in robot.foot_links
        ]
        self.reset()

    def reset(self) -> None:
        """Put all robots at their origins in the default pose."""
        model = self.physics.model
        qpos, qvel = np.zeros((self.num_envs, model.nq)), np.zeros((self.num_envs, model.nv))
        qpos[:, :3], qpos[:, 3] = self.origins, 1.0
        qpos[:, 2] += self.robot.base_height
        qpos[:, joint_addresses(self.robot, model)[0]] = self.robot.default_pos
        self.physics.reset(np.arange(self.num_envs), qpos, qvel)
        self.time = 0

    def step(self, moving: bool) -> None:
        """Advance by one control step: hold the default pose, or trot."""
        targets = np.tile(self.robot.default_pos, (self.num_envs, 1))
        if moving:
            targets += trot(self.robot, 0.02 * self.time, self.num_envs)
        self.physics.ctrl[:] = targets
        self.physics.batch.step(nstep=self.steps)
        self.time += 1

    def foot_positions(self) -> np.ndarray:
        """Return where the feet of the first robot are."""
        data = self.physics.batch.get_data(0)
        mujoco.mj_forward(self.physics.model, data)
        return data.geom_xpos[self.feet].copy()


def boxes_of_walls(terrain: Terrain) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return centres and half sizes of boxes with the vertical walls of stairs and boxes; lower the height field there.

    The boxes have the heights of the height field, at the middle of their tops.
    """
    result, bottom = [], -3.0
    heights = terrain.heights.copy()

    def add(x: float, y: float, half_x: float, half_y: float, top: float) -> None:
        result.append((np.array([x, y, (top + bottom) / 2]), np.array([half_x, half_y, (top - bottom) / 2])))

    cells = terrain.cfg.cells_per_tile
    for level, column in np.ndindex(*terrain.difficulties.shape):
        kind, difficulty = terrain.column_types[column], float(terrain.difficulties[level, column])
        if "stairs" not in kind and kind != "boxes":
            continue
        x, y, _ = terrain.origins[level, column]
        terrain.heights[level * cells + 1 : (level + 1) * cells, column * cells + 1 : (column + 1) * cells] = bottom
        if kind == "boxes":
            for i, j in np.ndindex(17, 17):
                center_x, center_y = x - 3.6 + 0.45 * i, y - 3.6 + 0.45 * j
                vertex = (
                    round((center_x + terrain.size[0] / 2) / terrain.cell),
                    round((center_y + terrain.size[1] / 2) / terrain.cell),
                )
                add(center_x, center_y, 0.225, 0.225, float(heights[vertex]))
            add(x, y, 1.0, 1.0, float(terrain.origins[level, column, 2]))
            for sign in (-1.0, 1.0):
                add(x + sign * 3.9125, y, 0.0875, 4.0, 0.0)
                add(x, y + sign * 3.9125, 3.825, 0.0875, 0.0)
            continue
        height = (0.05 + 0.18 * difficulty) * (-1.0 if kind.startswith("inverted") else 1.0)
        # Rings of four boxes, from the flat border to the ring before the plate in the middle.
        for outer, inner, top in [
            (4.0, 3.0, 0.0),
            *((3.0 - 0.3 * k, 2.7 - 0.3 * k, (k + 1) * height) for k in range(6)),
        ]:
            middle, half = (outer + inner) / 2, (outer - inner) / 2
            for sign in (-1.0, 1.0):
                add(x + sign * middle, y, half, outer, top)
                add(x, y + sign * middle, inner, half, top)
        add(x, y, 1.2, 1.2, 7 * height)
    return result


def trot(robot: Robot, seconds: float, num_envs: int) -> np.ndarray:
    """Return offsets of the joint targets: diagonal legs in turn for a quadruped, both legs in turn for a humanoid."""
    offsets = np.zeros((num_envs, len(robot.joint_names)))
    # A slightly different pace for each robot, so that they are not in lockstep.
    phase = 2.0 * np.pi * 2.0 * seconds * np.linspace(1.0, 1.2, num_envs)
    for i, name in enumerate(robot.joint_names):
        diagonal = name.startswith(("FL", "RR", "LF", "RH", "left"))
        wave = phase + (0.0 if diagonal else np.pi)
        rear = -1.0 if name.startswith(("LH", "RH")) else 1.0
        if any(part in name for part in ("thigh", "HFE", "hip_pitch")):
            offsets[:, i] = 0.15 * np.cos(wave) * rear
        elif any(part in name for part in ("calf", "KFE", "knee")):
            offsets[:, i] = (-0.3 if "knee" not in name else 0.3) * np.maximum(np.sin(wave), 0.0) * rear
    return offsets


def measure(robot_name: str, rough: bool, num_envs: int, rounds: int) -> list[dict[str, object]]:
    """Measure all variants."""
    robot = load_robot(robot_name)
    runs = {variant.name: Run(robot, variant, rough, num_envs) for variant in variants(rough)}
    ends, creeps, heights = {}, {}, {}
    for name, run in runs.items():
        for _ in range(50):
            run.step(moving=False)
        before = run.foot_positions()
        for _ in range(200):
            run.step(moving=False)
        creeps[name] = float(np.linalg.norm(run.foot_positions() - before, axis=1).max())
        heights[name] = float(run.physics.qpos[0, 2] - run.origins[0, 2])
        run.reset()
        for _ in range(150):
            run.step(moving=True)
        ends[name] = run.physics.qpos[:, :3].copy()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run.reset()
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            for _ in range(10):
                run.step(moving=True)
            seconds[name].append(time.perf_counter() - start)
    rows = []
    for name in runs:
        reference = "converged" if name.startswith(("suite", "iter", "line", "tol", "CG")) else "suite"
        distance = np.linalg.norm(ends[name] - ends[reference], axis=1)
        ratio = np.median(np.array(seconds["suite"]) / np.array(seconds[name]))
        rows.append(
            {
                "robot": robot_name,
                "terrain": "rough" if rough else "flat",
                "variant": name,
                "speed_over_suite": round(float(ratio), 3),
                "standing_creep_mm": round(1e3 * creeps[name], 2),
                "standing_height_m": round(heights[name], 4),
                "walked_m": round(float(np.linalg.norm((ends[name] - runs[name].origins)[:, :2], axis=1).mean()), 3),
                "end_distance_mean_mm": round(1e3 * float(distance.mean()), 1),
                "compared_with": reference,
            }
        )
    return rows


def main() -> None:
    """Measure, print and write ``results/physics_settings.csv``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", default=["unitree_go1", "anymal_d"])
    parser.add_argument("--num-envs", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--output", type=Path, default=RESULTS / "physics_settings.csv")
    arguments = parser.parse_args()
    rows = []
    for robot in arguments.robots:
        for rough in (False, True):
            rows += measure(robot, rough, arguments.num_envs, arguments.rounds)
            for row in rows[-len(variants(rough)) :]:
                print("  ".join(f"{value!s:>12}" for value in row.values()), flush=True)
    with arguments.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
