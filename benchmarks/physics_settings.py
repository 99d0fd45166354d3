# SPDX-License-Identifier: BSD-3-Clause

"""What each setting of the physics costs, and what it does to a robot that stands and to one that walks.

    python benchmarks/physics_settings.py [--robots unitree_go1] [--parts settings stair]

Every variant changes one thing against the suite's settings. All variants step in turn, so that they share the noise
of the machine, and the speed is a ratio to the suite's. On rough terrain robots start anywhere on any tile, edges of
steps and boxes included, and settle for a second.
Standing: how far the worst foot creeps over the second to fifth second (the median of the robots that stay up), and
when robots fall.
Walking: an open-loop trot of three seconds; how far the robot ends from where it ends with a solver that runs to full
convergence (for settings of the solver), or from where the suite's robot ends (for all others). Humanoids have no
open-loop gait: theirs are the first 0.8 s, in which they swing their legs and begin to fall.
The row "start 1 um off" is the suite's with another start: what differs less than that is chaos or noise.
Stair: the same trot against one step, as a ramp of a height field and as an exact box.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import mujoco
import numpy as np
from common import RESULTS, write_rows

from rsl_rl_sac.locomotion.physics import LARGEST_STATE, Physics
from rsl_rl_sac.locomotion.registry import load_robot
from rsl_rl_sac.locomotion.robot import Robot
from rsl_rl_sac.locomotion.scene import (
    FRICTION,
    PhysicsCfg,
    build_spec,
    compile_model,
    default_integrator,
    joint_addresses,
)
from rsl_rl_sac.locomotion.terrain import Terrain, TerrainCfg

SUITE = PhysicsCfg()
STEP_DT = 0.02
SETTLING_STEPS = 50
STANDING_STEPS = 200
WALKING_STEPS = {"quadruped": 150, "humanoid": 40}
STEPS_PER_ROUND = 20
FALLEN = 0.5
"""Cosine of the tilt of its base beyond which a robot has fallen: 60 degrees."""
FOOTPRINT = 0.6
"""Metres around a robot's centre in which its feet are when it starts."""
CLEARANCE = 0.03
"""Metres between the feet and the highest ground below them, at the least."""
STAIRS = (0.05, 0.14)
STAIR_EDGE = 0.6
STAIR_STEPS = 300


Boxes = Sequence[tuple[np.ndarray, np.ndarray]]
"""Centres and half sizes."""


@dataclass(frozen=True)
class Variant:
    """One setting that differs from the suite's."""

    name: str
    cfg: PhysicsCfg = SUITE
    edit: Callable[[mujoco.MjSpec], None] | None = None
    cell: float = 0.1
    boxes: bool = False
    nudge: float = 0.0
    """Metres by which robots start elsewhere."""


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


def variants(robot: Robot, rough: bool) -> list[Variant]:
    """Return the settings that are compared; the first is the suite's, the second the converged solver."""
    suite, own = SUITE, default_integrator(robot, SUITE.time_step)
    result = [
        Variant("suite"),
        Variant("converged", replace(suite, solver_iterations=200, line_search_iterations=100, tolerance=1e-14)),
        Variant("start 1 um off", nudge=1e-6),
        Variant("iterations 2", replace(suite, solver_iterations=2)),
        Variant("iterations 6", replace(suite, solver_iterations=6)),
        Variant("CG solver", edit=_option("solver", mujoco.mjtSolver.mjSOL_CG)),
        Variant("impratio 1", replace(suite, impratio=1.0)),
        Variant("elliptic cone", replace(suite, cone="elliptic")),
        *(
            Variant(name, replace(suite, integrator=name))
            for name in ("euler", "implicitfast", "discrete")
            # PD drives with damping 10 on a finger are unstable with Euler.
            if name != own and (name != "euler" or robot.kind == "quadruped")
        ),
        Variant("step 0.01 s x 2", replace(suite, time_step=0.01, decimation=2)),
        Variant("feet and base collide", edit=_feet_and_base_only),
        Variant("self-collision", edit=_all_collide),
        Variant("no sensors", edit=_no_sensors),
    ]
    if not rough:
        return result
    depths = [Variant(f"field {1000 * depth:g} mm deep", replace(suite, terrain_depth=depth)) for depth in (0.0, 0.02)]
    return [*result, *depths, Variant("cell 0.05 m", cell=0.05), Variant("walls as boxes", boxes=True)]


class Run:
    """Some robots under one variant."""

    def __init__(
        self, robot: Robot, variant: Variant, starts: np.ndarray, terrain: Terrain | None, walls: Boxes = ()
    ) -> None:
        """Build the model and reset the robots.

        Args:
            robot: Robot.
            variant: Setting.
            starts: Where the robots start on the ground ``(N, 3)``.
            terrain: Rough terrain; None is a plane.
            walls: Centres and half sizes of boxes of the ground.
        """
        spec = build_spec(robot, terrain, variant.cfg)
        for center, half_size in walls:
            box = mujoco.mjtGeom.mjGEOM_BOX
            friction = [FRICTION, 0.005, 0.0001]
            spec.worldbody.add_geom(type=box, pos=center, size=half_size, contype=1, conaffinity=0, friction=friction)
        if variant.edit is not None:
            variant.edit(spec)
        model = compile_model(robot, spec)
        self.steps = round(STEP_DT / variant.cfg.time_step)
        self.num_envs = len(starts)
        self.physics = Physics(model, self.num_envs, self.steps)
        self.robot, self.starts, self.nudge = robot, starts, variant.nudge
        self.feet = [
            model.geom(f"{body.name}/{i}").id
            for body in robot.bodies
            for i, shape in enumerate(body.shapes)
            if robot.link_of(body, shape) in robot.foot_links
        ]
        self.reset()
        self.check_starts()

    def reset(self) -> None:
        """Put all robots at their starts in the default pose."""
        model = self.physics.model
        qpos, qvel = np.zeros((self.num_envs, model.nq)), np.zeros((self.num_envs, model.nv))
        qpos[:, :3], qpos[:, 3] = self.starts, 1.0
        qpos[:, 0] += self.nudge
        qpos[:, 2] += self.robot.base_height + CLEARANCE
        qpos[:, joint_addresses(self.robot, model)[0]] = self.robot.default_pos
        self.physics.reset(np.arange(self.num_envs), qpos, qvel)
        self.time = 0

    def check_starts(self) -> None:
        """Raise if a robot starts inside the ground."""
        for i in range(self.num_envs):
            data = self._forward(i)
            if any(contact.dist < -1e-3 for contact in data.contact if 0 in self._bodies(contact)):
                raise RuntimeError(f"Robot {i} of {self.robot.name} starts inside the ground.")

    def step(self, moving: bool) -> None:
        """Advance by one control step: hold the default pose, or trot."""
        targets = np.tile(self.robot.default_pos, (self.num_envs, 1))
        if moving:
            targets += trot(self.robot, STEP_DT * self.time, self.num_envs)
        self.physics.ctrl[:] = targets
        self.physics.batch.step(nstep=self.steps)
        self.time += 1

    def settle(self) -> None:
        """Reset and let quadrupeds come to rest; humanoids would fall."""
        self.reset()
        for _ in range(SETTLING_STEPS if self.robot.kind == "quadruped" else 0):
            self.step(moving=False)
        self.time = 0

    def stand(self) -> tuple[float, float]:
        """Return metres by which the worst foot creeps, and the mean time to a fall in seconds.

        The creep is that of the median of the robots that stay up, NaN if there is none: feet of a robot that falls
        move far, and on rough ground some fall with any setting.
        """
        self.reset()
        standing = np.ones(self.num_envs, dtype=bool)
        seconds, before = np.zeros(self.num_envs), np.zeros((self.num_envs, len(self.feet), 3))
        for k in range(SETTLING_STEPS + STANDING_STEPS):
            if k == SETTLING_STEPS:
                before = self.foot_positions()
            self.step(moving=False)
            standing &= self.upright()
            seconds += STEP_DT * standing
        creep = np.linalg.norm(self.foot_positions() - before, axis=2).max(axis=1)
        return float(np.median(creep[standing])) if standing.any() else np.nan, float(seconds.mean())

    def walk(self) -> tuple[np.ndarray, np.ndarray]:
        """Return where the robots begin and end to trot; the end of a diverged simulation is NaN."""
        self.settle()
        before = self.physics.qpos[:, :3].copy()
        for _ in range(WALKING_STEPS[self.robot.kind]):
            self.step(moving=True)
        return before, np.where(self.sound()[:, None], self.physics.qpos[:, :3], np.nan)

    def upright(self) -> np.ndarray:
        """Return which robots have not fallen."""
        # The quaternion's x and y give the cosine of the tilt.
        return 1.0 - 2.0 * (self.physics.qpos[:, 4:6] ** 2).sum(axis=1) > FALLEN

    def sound(self) -> np.ndarray:
        """Return which simulations did not diverge."""
        state = np.concatenate([self.physics.qpos, self.physics.qvel], axis=1)
        return np.abs(state).max(axis=1) < LARGEST_STATE  # a NaN fails it too

    def foot_positions(self) -> np.ndarray:
        """Return where the feet are ``(N, feet, 3)``."""
        return np.stack([self._forward(i).geom_xpos[self.feet] for i in range(self.num_envs)])

    def _forward(self, index: int) -> mujoco.MjData:
        data = self.physics.batch.get_data(index)
        mujoco.mj_forward(self.physics.model, data)
        return data

    def _bodies(self, contact: mujoco.MjContact) -> list[int]:
        return [int(self.physics.model.geom_bodyid[geom]) for geom in contact.geom]


def draw_starts(terrain: Terrain, num_envs: int) -> np.ndarray:
    """Return points anywhere on the tiles ``(N, 3)``, as high as the highest ground under the robot."""
    rng = np.random.default_rng(0)
    half = np.array(terrain.size) / 2 - FOOTPRINT
    points = rng.uniform(-half, half, size=(num_envs, 2))
    around = np.linspace(-FOOTPRINT, FOOTPRINT, 25)
    x = points[:, 0, None, None] + around[:, None] + 0.0 * around
    y = points[:, 1, None, None] + around + 0.0 * around[:, None]
    highest = terrain.height_at(x, y).max(axis=(1, 2))
    return np.concatenate([points, highest[:, None]], axis=1)


def boxes_of_walls(terrain: Terrain) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return centres and half sizes of boxes with the vertical walls of stairs and boxes; lower the height field there.

    The boxes have the heights of the height field, at their vertex that is farthest from the tile's centre: the plate
    there lies on parts of some.
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
            middle_x, middle_y = level * cells + cells // 2, column * cells + cells // 2
            for i, j in np.ndindex(17, 17):
                offsets = 0.45 * np.array([i - 8, j - 8])
                vertices = np.floor((np.abs(offsets) + 0.225) / terrain.cell) * np.sign(offsets)
                top = float(heights[middle_x + int(vertices[0]), middle_y + int(vertices[1])])
                add(x + offsets[0], y + offsets[1], 0.225, 0.225, top)
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
    """Return offsets of the joint targets: diagonal legs in turn for a quadruped, both legs in turn for a humanoid.

    A leg bends to lift its foot and stretches in stance, where it carries twice its share. The numbers are the best of
    400 drawn for both ANYmal D and Go1. Hips of all legs turn the same way; rear knees of ANYmal bend the other way.
    """
    offsets = np.zeros((num_envs, len(robot.joint_names)))
    # A slightly different pace for each robot, so that they are not in lockstep.
    phase = 2.0 * np.pi * 3.0 * seconds * np.linspace(0.95, 1.05, num_envs)
    for i, name in enumerate(robot.joint_names):
        diagonal = name.startswith(("FL", "RR", "LF", "RH", "left"))
        wave = phase + (0.0 if diagonal else np.pi)
        bend = 0.6 * np.maximum(np.sin(wave), 0.0) - 0.25 * np.maximum(-np.sin(wave), 0.0)
        # Knees of humanoids and ANYmal's rear legs bend towards positive angles, all others towards negative ones.
        sign = -1.0 if "knee" in name or "hip_pitch" in name or name.startswith(("LH", "RH")) else 1.0
        if any(part in name for part in ("thigh", "HFE", "hip_pitch")):
            offsets[:, i] = 0.25 * np.cos(wave + 1.3) + 0.5 * sign * bend
        elif any(part in name for part in ("calf", "KFE", "knee")):
            offsets[:, i] = -sign * bend
    return offsets


def measure_settings(robot_name: str, rough: bool, num_envs: int, rounds: int) -> list[dict[str, object]]:
    """Measure all variants of one robot on one terrain."""
    robot = load_robot(robot_name)
    runs = make_runs(robot, rough, num_envs)
    stands = {name: run.stand() for name, run in runs.items()}
    walks = {name: run.walk() for name, run in runs.items()}
    seconds = take_turns(runs, rounds)
    rows = []
    for name in runs:
        reference = "converged" if name in ("suite", "iterations 2", "iterations 6", "CG solver") else "suite"
        before, end = walks[name]
        apart = 1e3 * np.linalg.norm(end - walks[reference][1], axis=1)
        speeds = np.array(seconds["suite"]) / np.array(seconds[name])
        rows.append(
            {
                "robot": robot_name,
                "terrain": "rough" if rough else "flat",
                "variant": name,
                "speed_over_suite": round(float(np.median(speeds)), 3),
                "speed_min": round(float(speeds.min()), 3),
                "speed_max": round(float(speeds.max()), 3),
                "standing_creep_mm": round(1e3 * stands[name][0], 2) if robot.kind == "quadruped" else "",
                "standing_s": round(stands[name][1], 2),
                "walked_m": round(float(np.nanmean(np.linalg.norm((end - before)[:, :2], axis=1))), 3),
                "apart_median_mm": round(float(np.nanmedian(apart)), 1),
                "apart_mean_mm": round(float(np.nanmean(apart)), 1),
                "diverged": int(np.isnan(end[:, 0]).sum()),
                "compared_with": reference,
            }
        )
    return rows


def make_runs(robot: Robot, rough: bool, num_envs: int) -> dict[str, Run]:
    """Return the robots of each variant, all with the same starts."""
    cfg = TerrainCfg.small_robots() if robot.total_mass < 20.0 else TerrainCfg()
    starts = draw_starts(Terrain(cfg, seed=0), num_envs) if rough else np.zeros((num_envs, 3))
    runs = {}
    for variant in variants(robot, rough):
        terrain = Terrain(replace(cfg, cell=variant.cell), seed=0) if rough else None
        walls = boxes_of_walls(terrain) if terrain is not None and variant.boxes else []
        runs[variant.name] = Run(robot, variant, starts, terrain, walls)
    return runs


def take_turns(runs: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of some steps of each variant, one number a round."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for run in runs.values():
        run.settle()
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            run = runs[name]
            if run.robot.kind == "humanoid":  # else it would lie on the ground from the third round on
                run.reset()
            start = time.perf_counter()
            for _ in range(STEPS_PER_ROUND):
                run.step(moving=True)
            seconds[name].append(time.perf_counter() - start)
    return seconds


def measure_stair(robot_name: str, num_envs: int) -> list[dict[str, object]]:
    """Let robots trot against one step of the ground, upwards, whose edge is across their way."""
    robot = load_robot(robot_name)
    starts = np.zeros((num_envs, 3))
    starts[:, 1] = np.linspace(-1.0, 1.0, num_envs)
    rows = []
    for height in STAIRS:
        for name, cell in (("field 0.1 m", 0.1), ("field 0.05 m", 0.05), ("box", 0.1)):
            # One tile of no slope.
            cfg = TerrainCfg(1, 1, cell=cell, slope=(0.0, 0.0), proportions=(0.0, 0.0, 0.0, 0.0, 1.0, 0.0))
            terrain = Terrain(cfg, seed=0)
            walls: Boxes = ()
            half = terrain.size[0] / 2
            if name == "box":
                length = half - STAIR_EDGE
                walls = [(np.array([half - length / 2, 0.0, 0.0]), np.array([length / 2, half, height]))]
            else:
                terrain.heights[round((half + STAIR_EDGE) / cell) :] = height
            run = Run(robot, Variant(name), starts, terrain, walls)
            run.settle()
            before, feet_before = run.physics.qpos[:, :3].copy(), run.foot_positions()
            for k in range(STAIR_STEPS + SETTLING_STEPS):
                run.step(moving=k < STAIR_STEPS)
            end, feet = run.physics.qpos[:, :3], run.foot_positions()
            row: dict[str, object] = {"robot": robot_name, "stair_m": height, "ground": name}
            # A robot on its back has its feet in the air.
            upright = run.upright()
            gained = (feet - feet_before)[upright, :, 2]
            row["feet_gained_m"] = round(float(gained.mean()), 3) if upright.any() else ""
            row["walked_m"] = round(float((end - before)[:, 0].mean()), 3)
            row["share_fallen"] = round(1.0 - float(upright.mean()), 3)
            row["share_with_all_feet_beyond_edge"] = round(float((feet[:, :, 0] > STAIR_EDGE).all(axis=1).mean()), 3)
            rows.append(row)
    return rows


def report(rows: list[dict[str, object]]) -> None:
    """Print rows under their names."""
    for values in (rows[0], *(row.values() for row in rows)):
        print("  ".join(f"{value!s:>12}" for value in values), flush=True)


def main() -> None:
    """Measure, print and write ``results/physics_settings.csv`` and ``results/physics_stair.csv``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", default=["unitree_go1", "anymal_d", "unitree_g1"])
    parser.add_argument("--parts", nargs="+", default=["settings", "stair"], choices=["settings", "stair"])
    parser.add_argument("--num-envs", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, object]] = []
    # Written after each part, so that an error in a later one does not cost the earlier ones.
    for robot, rough in itertools.product(arguments.robots if "settings" in arguments.parts else (), (False, True)):
        measured = measure_settings(robot, rough, arguments.num_envs, arguments.rounds)
        report(measured)
        rows += measured
        write_rows("physics_settings", rows, arguments.output)
    rows = []
    for robot in arguments.robots if "stair" in arguments.parts else ():
        if load_robot(robot).kind == "quadruped":  # humanoids have no open-loop gait
            measured = measure_stair(robot, arguments.num_envs)
            report(measured)
            rows += measured
            write_rows("physics_stair", rows, arguments.output)


if __name__ == "__main__":
    main()
