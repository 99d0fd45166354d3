# SPDX-License-Identifier: BSD-3-Clause

"""The compiled model against the robot's data, and its physics against what was worked out another way."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from functools import lru_cache

import mujoco
import numpy as np
import pytest

from rsl_rl_sac.locomotion.registry import load_robot
from rsl_rl_sac.locomotion.robot import Robot
from rsl_rl_sac.locomotion.scene import (
    PhysicsCfg,
    build_spec,
    compile_model,
    joint_addresses,
    motor_stiffness,
    sensor_links,
)
from rsl_rl_sac.locomotion.terrain import Terrain, TerrainCfg
from rsl_rl_sac.utils.errors import ConfigError

QUADRUPEDS = ("anymal_b", "anymal_d", "unitree_a1", "unitree_go1", "unitree_go2")
HUMANOIDS = ("unitree_h1", "unitree_g1")
ROBOTS = (*QUADRUPEDS, *HUMANOIDS)
GRAVITY = 9.81


def compiled(name: str, cfg: PhysicsCfg | None = None) -> tuple[Robot, mujoco.MjModel]:
    """Return a robot and a model of it on a plane that may be changed."""
    robot = load_robot(name)
    return robot, compile_model(robot, build_spec(robot, cfg=cfg))


def at_default_pose(robot: Robot, model: mujoco.MjModel, height: float | None = None) -> mujoco.MjData:
    """Return a simulation at the default pose, with the default pose as target."""
    data = mujoco.MjData(model)
    data.qpos[joint_addresses(robot, model)[0]] = robot.default_pos
    data.ctrl[: len(robot.joint_names)] = robot.default_pos
    data.qpos[2] = robot.base_height if height is None else height
    return data


def forces(robot: Robot, data: mujoco.MjData) -> dict[str, float]:
    """Return what the contact sensors read, as norms by link."""
    vectors = data.sensordata[len(robot.joint_names) :].reshape(-1, 3)
    return dict(zip(sensor_links(robot), np.linalg.norm(vectors, axis=1), strict=True))


def counted_forces(robot: Robot, model: mujoco.MjModel, data: mujoco.MjData) -> dict[str, float]:
    """Return the norms of the net contact forces by link, added up contact by contact."""
    shapes = [(f"{body.name}/{i}", body, shape) for body in robot.bodies for i, shape in enumerate(body.shapes)]
    links = {name: shape.link or body.name for name, body, shape in shapes}
    net = {link: np.zeros(3) for link in links.values()}
    for i, contact in enumerate(data.contact[: data.ncon]):
        force = np.zeros(6)
        mujoco.mj_contactForce(model, data, i, force)
        names = [model.geom(int(geom)).name for geom in contact.geom]
        link = links[names[0]] if names[0] in links else links[names[1]]
        net[link] += contact.frame.reshape(3, 3).T @ force[:3]
    return {link: float(np.linalg.norm(net[link])) for link in sensor_links(robot)}


@pytest.mark.parametrize("name", ROBOTS)
def test_bodies(name: str) -> None:
    """Masses, centres of mass, inertias and places are those of the data."""
    robot, model = compiled(name)
    assert model.nbody == len(robot.bodies) + 1
    assert model.body_mass.sum() == pytest.approx(robot.total_mass)
    for body in robot.bodies:
        found = model.body(body.name)
        parent = 0 if body.parent is None else model.body(body.parent).id
        assert found.parentid[0] == parent
        assert found.mass[0] == pytest.approx(body.mass)
        assert found.ipos == pytest.approx(body.com)
        axes = np.zeros(9)
        mujoco.mju_quat2Mat(axes, found.iquat)
        inertia = axes.reshape(3, 3) @ np.diag(found.inertia) @ axes.reshape(3, 3).T
        xx, yy, zz, xy, xz, yz = body.inertia
        assert inertia == pytest.approx(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]), rel=1e-6, abs=1e-9)
        assert found.pos == pytest.approx([0.0, 0.0, robot.base_height] if body.parent is None else body.pos)
        assert abs(np.dot(found.quat, body.quat)) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ROBOTS)
def test_joints(name: str) -> None:
    """Actuators follow the order of the actions; limits and armature are those of the data."""
    robot, model = compiled(name)
    count = len(robot.joint_names)
    assert (model.nq, model.nv) == (7 + count, 6 + count)
    assert (model.nu, model.na) == (count, 0)
    driven = [model.joint(int(joint)).name for joint in model.actuator_trnid[:, 0]]
    assert driven == robot.joint_names
    positions, velocities = joint_addresses(robot, model)
    for i, (joint_name, joint) in enumerate(robot.joints.items()):
        found = model.joint(joint_name)
        assert found.range == pytest.approx(joint.range)
        assert model.jnt_limited[found.id] == 1
        assert found.axis == pytest.approx(joint.axis)
        assert found.pos.tolist() == [0.0, 0.0, 0.0]
        assert (positions[i], velocities[i]) == (found.qposadr[0], found.dofadr[0])
        assert model.dof_armature[velocities[i]] == robot.actuator_of(joint_name).armature
        assert model.dof_damping[velocities[i]] == 0.0


def test_armature() -> None:
    """Only G1 has armature: 0.01, and 0.001 in the fingers."""
    for name in ROBOTS:
        robot, model = compiled(name)
        armature = model.dof_armature[joint_addresses(robot, model)[1]]
        expected = np.zeros(len(robot.joint_names))
        if name == "unitree_g1":
            expected[:23], expected[23:] = 0.01, 0.001
        assert armature == pytest.approx(expected)


def test_coarse() -> None:
    """Half as many steps, twice as long, at the same control rate, with implicit motors; an odd number has no half."""
    cfg = PhysicsCfg(0.002, 6, "elliptic", 3.0, 7, 9, 1e-5)
    assert cfg.coarse() == PhysicsCfg(0.004, 3, "elliptic", 3.0, 7, 9, 1e-5)
    assert PhysicsCfg().coarse(on_height_field=True) == PhysicsCfg(0.01, 2, "elliptic", terrain_depth=0.02)
    assert PhysicsCfg().terrain_depth == 0.01 == PhysicsCfg().coarse().terrain_depth
    # Twice the stiffness of the motors' torque-speed line, too much for an explicit integrator.
    for name in ROBOTS:
        kind = "DISCRETE" if name in QUADRUPEDS else "IMPLICITFAST"
        option = compiled(name, PhysicsCfg().coarse())[1].opt
        assert option.timestep == 0.01 and option.integrator == getattr(mujoco.mjtIntegrator, f"mjINT_{kind}")
    with pytest.raises(ConfigError, match="halves the physics steps of a control step, which are 5"):
        PhysicsCfg(0.002, 5).coarse()


def test_options() -> None:
    """Settings of the physics arrive; DC motors are integrated explicitly where that is stable, all else implicitly."""
    for name in ROBOTS:
        option = compiled(name)[1].opt
        assert option.gravity.tolist() == [0.0, 0.0, -9.81]
        assert option.timestep == 0.005
        kind = "DISCRETE" if name.startswith("anymal") else "EULER" if name in QUADRUPEDS else "IMPLICITFAST"
        assert option.integrator == getattr(mujoco.mjtIntegrator, f"mjINT_{kind}")
        assert option.disableflags & mujoco.mjtDisableBit.mjDSBL_AUTORESET
    cfg = PhysicsCfg(0.002, 5, "elliptic", 3.0, 7, 9, 1e-5)
    option = compiled("unitree_go2", cfg)[1].opt
    assert (option.timestep, option.impratio, option.tolerance) == (0.002, 3.0, 1e-5)
    assert (option.iterations, option.ls_iterations) == (7, 9)
    assert option.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    assert compiled("unitree_go2")[1].opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL
    for integrator in ("euler", "implicitfast", "implicit", "discrete"):
        option = compiled("anymal_b", PhysicsCfg(integrator=integrator))[1].opt
        assert option.integrator == getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
    with pytest.raises(ConfigError, match="integrator must be None or one of"):
        PhysicsCfg(integrator="rk4")
    # At a quarter of the step the slope of ANYmal B's motors is gentle enough: 7.94 / 4 < 2.
    assert compiled("anymal_b", PhysicsCfg(time_step=0.00125))[1].opt.integrator == mujoco.mjtIntegrator.mjINT_EULER


@pytest.mark.parametrize(("name", "slope"), [("anymal_b", 16.0), ("anymal_d", 16.0), ("unitree_a1", 33.5 / 21.0)])
def test_motor_stiffness(name: str, slope: float) -> None:
    """The inertia of a joint is the torque on it over the acceleration of the floating robot that it gives."""
    robot, model = compiled(name)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION | mujoco.mjtDisableBit.mjDSBL_GRAVITY
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    data = at_default_pose(robot, model, height=5.0)
    responses = []
    for address in joint_addresses(robot, model)[1]:
        data.qfrc_applied[:] = 0.0
        data.qfrc_applied[address] = 1.0
        mujoco.mj_forward(model, data)
        responses.append(data.qacc[address])
    assert motor_stiffness(robot, 0.005) == pytest.approx(0.005 * slope * max(responses))


def knee_speeds(name: str, cfg: PhysicsCfg, std: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the speeds of the knees of a robot in a second of random actions, and in a second of rest 2 s later."""
    robot, model = compiled(name, cfg)
    data, rng = at_default_pose(robot, model), np.random.default_rng(0)
    knees = [
        joint_addresses(robot, model)[1][robot.joint_names.index(f"{leg}_KFE")] for leg in ("LF", "RF", "LH", "RH")
    ]
    speeds = np.zeros((200, cfg.decimation, 4))
    for step in range(200):
        offsets = robot.action_scale * std * rng.standard_normal(12)
        data.ctrl[:] = robot.default_pos + (offsets if step < 50 else 0.0)
        for substep in range(cfg.decimation):
            mujoco.mj_step(model, data)
            speeds[step, substep] = np.abs(data.qvel[knees])
    return speeds[:50], speeds[150:]


@pytest.mark.parametrize("name", ["anymal_b", "anymal_d"])
def test_knees_do_not_chatter(name: str) -> None:
    """Speeds of ANYmal's knees are those of physics at a quarter of the step, integrated explicitly; then they rest."""
    moving, resting = knee_speeds(name, PhysicsCfg(), 0.3)
    reference, quiet = knee_speeds(name, PhysicsCfg(time_step=0.00125, decimation=16, integrator="euler"), 0.3)
    assert moving.mean() == pytest.approx(reference.mean(), rel=0.15)
    assert max(resting.max(), quiet.max()) < 0.1
    if name == "anymal_b":  # what the explicit integrator makes of it
        wild, _ = knee_speeds(name, PhysicsCfg(integrator="euler"), 0.3)
        assert wild.mean() > 2.0 * reference.mean()


@pytest.mark.parametrize("name", ROBOTS)
def test_no_self_collision(name: str) -> None:
    """Robots folded into themselves in the air have no contacts; on the ground, every contact is with the ground."""
    robot, model = compiled(name)
    data = at_default_pose(robot, model, height=5.0)
    touchy = copy.copy(model)
    touchy.geom_contype[:], touchy.body_contype[:] = 1, 1
    lower, upper = np.array([joint.range for joint in robot.joints.values()]).T
    rng, folded = np.random.default_rng(0), 0
    for _ in range(60):
        data.qpos[joint_addresses(robot, model)[0]] = rng.uniform(lower, upper)
        mujoco.mj_forward(touchy, data)
        folded += data.ncon > 0
        mujoco.mj_forward(model, data)
        assert data.ncon == 0
    assert folded > 1
    data.qpos[2], data.qpos[3:7] = 0.5, [0.0, 1.0, 0.0, 0.0]  # upside down
    seen = 0
    for _ in range(200):
        mujoco.mj_step(model, data)
        bodies = np.sort(model.geom_bodyid[data.contact.geom], axis=1)
        assert np.all(bodies[:, 0] == 0) and np.all(bodies[:, 1] > 0)
        seen += data.ncon
    assert seen > 20


def test_friction() -> None:
    """Sliding friction is 0.8 on the plane and on rough ground."""
    for name in ("unitree_go2", "unitree_h1"):
        robot = load_robot(name)
        terrain = Terrain(TerrainCfg(num_levels=2, num_columns=6), seed=0)
        for ground in (None, terrain):
            model = compile_model(robot, build_spec(robot, ground))
            data = at_default_pose(robot, model)
            if ground is not None:
                data.qpos[:3] += ground.origins[1, 2]
            frictions = []
            for _ in range(100):
                mujoco.mj_step(model, data)
                frictions += data.contact.friction[:, :2].tolist()
            assert len(frictions) > 100
            assert np.array(frictions) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("name", "stiffness", "damping", "effort", "stall", "no_load"),
    [("unitree_a1", 25.0, 0.5, 33.5, 33.5, 21.0), ("anymal_b", 80.0, 2.0, 80.0, 120.0, 7.5)],
)
def test_dc_motor(name: str, stiffness: float, damping: float, effort: float, stall: float, no_load: float) -> None:
    """The torque is Isaac Lab's, also far beyond the speed where a motor can only brake."""
    robot, model = compiled(name)
    positions, velocities = joint_addresses(robot, model)
    data = at_default_pose(robot, model, height=5.0)
    fastest = no_load * (1.0 + effort / stall)
    speeds = fastest * np.linspace(-2.0, 2.0, 41)
    errors = np.linspace(-1.5, 1.5, 31) * 2.0 * stall / stiffness
    grid = np.array(list(itertools.product(speeds, errors)))
    grid = grid[: len(grid) // 12 * 12].reshape(-1, 12, 2)
    clipped_low = clipped_high = free = 0
    for speed, error in zip(grid[..., 0], grid[..., 1], strict=True):
        data.qvel[velocities] = speed
        data.ctrl[:12] = data.qpos[positions] + error
        mujoco.mj_forward(model, data)
        torque = stiffness * error - damping * speed
        held_speed = np.clip(speed, -fastest, fastest)
        upper = np.minimum(stall * (1.0 - held_speed / no_load), effort)
        lower = np.maximum(stall * (-1.0 - held_speed / no_load), -effort)
        expected = np.clip(torque, lower, upper)
        assert data.qfrc_actuator[velocities] == pytest.approx(expected, abs=1e-9)
        free += int((expected == torque).sum())
        clipped_low += int((torque < lower).sum())
        clipped_high += int((torque > upper).sum())
    assert min(free, clipped_low, clipped_high) > 50
    # Above the no-load speed the motor brakes, whatever the target.
    data.qvel[velocities] = 1.2 * no_load
    data.ctrl[:12] = 1e3
    mujoco.mj_forward(model, data)
    assert data.qfrc_actuator[velocities] == pytest.approx(-0.2 * stall)


def test_implicit_pd() -> None:
    """PD torque of G1, clipped at 300 N m in hips and fingers and at 20 N m in the ankles."""
    robot, model = compiled("unitree_g1")
    positions, velocities = joint_addresses(robot, model)
    data = at_default_pose(robot, model, height=5.0)
    drives = {"left_two_joint": (40.0, 10.0, 300.0), "right_ankle_roll_joint": (20.0, 2.0, 20.0)}
    drives |= {"left_ankle_pitch_joint": (20.0, 2.0, 20.0), "right_hip_yaw_joint": (150.0, 5.0, 300.0)}
    clipped = dict.fromkeys(drives, 0)
    for error, speed in itertools.product(np.linspace(-12.0, 12.0, 25), np.linspace(-40.0, 40.0, 17)):
        data.ctrl[:] = data.qpos[positions] + error
        data.qvel[velocities] = speed
        mujoco.mj_forward(model, data)
        for joint, (stiffness, damping, limit) in drives.items():
            torque = stiffness * error - damping * speed
            clipped[joint] += abs(torque) > limit
            index = robot.joint_names.index(joint)
            assert data.qfrc_actuator[velocities[index]] == pytest.approx(np.clip(torque, -limit, limit))
    assert min(clipped.values()) > 100 and max(clipped.values()) < 25 * 17


@pytest.mark.parametrize("name", ROBOTS)
def test_sensors(name: str) -> None:
    """Torques are in the order of the actions; contact forces are those of all contacts of a link, and of no other."""
    robot, model = compiled(name)
    velocities = joint_addresses(robot, model)[1]
    data = at_default_pose(robot, model)
    rng = np.random.default_rng(0)
    count = len(robot.joint_names)
    touched = dict.fromkeys(sensor_links(robot), 0)
    for step in range(300):
        if step == 100:  # thrown on its back
            data.qpos[2], data.qpos[3:7] = 0.6, [0.0, 1.0, 0.0, 0.0]
        if step % 10 == 0:
            data.ctrl[:count] = robot.default_pos + rng.uniform(-0.5, 0.5, count)
        mujoco.mj_step(model, data)
        assert np.array_equal(data.sensordata[:count], data.qfrc_actuator[velocities])
        counted = counted_forces(robot, model, data)
        assert forces(robot, data) == pytest.approx(counted, abs=1e-9)
        for link, force in counted.items():
            touched[link] += force > 1.0
    assert all(touched[link] for link in [*robot.foot_links, *robot.termination_links])


def test_whole_sole() -> None:
    """The force on a foot of H1 is that on all of its three capsules."""
    robot, model = compiled("unitree_h1")
    data = at_default_pose(robot, model)
    geoms = [model.geom(f"left_ankle_link/{i}").id for i in range(3)]
    loaded = np.zeros(3)
    for _ in range(200):
        mujoco.mj_step(model, data)
        normal = np.zeros(3)
        for i, contact in enumerate(data.contact[: data.ncon]):
            force = np.zeros(6)
            mujoco.mj_contactForce(model, data, i, force)
            if contact.geom.max() in geoms:
                normal[geoms.index(contact.geom.max())] += force[0]
        loaded += normal
        sensed = data.sensor("contact/left_ankle_link").data
        assert abs(sensed[2]) == pytest.approx(normal.sum(), abs=1e-9)
    assert np.all(loaded > 0.05 * loaded.sum())  # each carries its part


def test_head_is_not_base() -> None:
    """Go2 on its head does not touch with its base; on its back it does."""
    robot, model = compiled("unitree_go2")
    data = at_default_pose(robot, model)
    data.qpos[2], data.qpos[3:7] = 0.338, [np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0]  # head down, 2 mm into the ground
    mujoco.mj_forward(model, data)
    touching = {model.geom(int(geom)).name for geom in data.contact.geom.max(axis=1)}
    assert touching == {"base/2"}
    assert max(forces(robot, data).values()) == 0.0
    data.qpos[2], data.qpos[3:7] = 0.055, [0.0, 1.0, 0.0, 0.0]
    mujoco.mj_forward(model, data)
    assert forces(robot, data)["base"] > 1.0


@lru_cache
def stand(name: str) -> tuple[np.ndarray, np.ndarray, mujoco.MjData]:
    """Let a robot stand for 5 s; return the heights of its base, the force on it, and the last state."""
    robot, model = compiled(name)
    data = at_default_pose(robot, model)
    heights, base_force = np.zeros(1000), np.zeros(1000)
    for i in range(1000):
        mujoco.mj_step(model, data)
        heights[i], base_force[i] = data.qpos[2], forces(robot, data)[robot.termination_links[0]]
    return heights, base_force, data


@pytest.mark.parametrize(
    ("name", "height"),
    # Height of the base over the lowest point of the lowest foot at the default pose.
    [
        ("anymal_b", 0.4968),
        ("anymal_d", 0.5885),
        ("unitree_a1", 0.3024),
        ("unitree_go1", 0.3218),
        ("unitree_go2", 0.3235),
    ],
)
def test_quadrupeds_stand(name: str, height: float) -> None:
    """Between the height of rigid legs and that of springs on feet that slide freely; upright, quiet, on four feet."""
    robot, model = compiled(name)
    data = at_default_pose(robot, model)
    mujoco.mj_forward(model, data)
    weight, torque = robot.total_mass * GRAVITY, np.zeros(model.nv)
    lowest = np.inf
    for body in robot.bodies:
        for i, shape in enumerate(body.shapes):
            if shape.link in robot.foot_links:
                foot, jacobian = data.geom(f"{body.name}/{i}"), np.zeros((3, model.nv))
                mujoco.mj_jac(model, data, jacobian, None, foot.xpos, model.body(body.name).id)
                torque += 0.25 * weight * jacobian[2]
                lowest = min(lowest, foot.xpos[2] - shape.size[0])
    assert robot.base_height - lowest == pytest.approx(height, abs=1e-4)
    # Springs of stiffness k under torques t give way by t / k; the weight's work is twice their energy.
    springs = torque[joint_addresses(robot, model)[1]]
    sag = np.sum(springs**2) / robot.actuators[0].stiffness / weight
    heights, base_force, data = stand(name)
    assert np.all(heights[200:] < height)
    assert np.all(heights[200:] > height - 1.1 * sag)
    assert base_force.max() == 0.0
    assert data.xmat[1, 8] > 0.999
    assert np.abs(data.qvel).max() < 0.05
    feet = data.sensordata[len(robot.joint_names) :].reshape(-1, 3)[:4]
    assert np.linalg.norm(feet.sum(axis=0)) == pytest.approx(weight, rel=0.01)
    assert np.linalg.norm(feet, axis=1).min() > 0.15 * weight


@pytest.mark.parametrize("name", HUMANOIDS)
def test_humanoids_stay_finite(name: str) -> None:
    """Without a policy they fall, and lie still."""
    heights, base_force, data = stand(name)
    assert np.isfinite(data.qpos).all()
    assert 0.05 < heights.min() < heights.max() <= load_robot(name).base_height
    assert base_force.max() > 1.0
    assert np.abs(data.qvel).max() < 0.1
    assert data.warning.number.sum() == 0


@pytest.mark.parametrize("name", ROBOTS)
def test_energy(name: str) -> None:
    """Limp and without contacts a robot gains no energy in any step, and loses none where no joint limits act."""
    disable, steps = mujoco.mjtDisableBit, 400
    for gravity, limits in ((0.0, True), (0.0, False), (GRAVITY, False)):
        robot, model = compiled(name)
        model.opt.gravity[2] = -gravity
        model.opt.disableflags |= disable.mjDSBL_ACTUATION | disable.mjDSBL_CONTACT
        model.opt.disableflags |= 0 if limits else disable.mjDSBL_LIMIT
        model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
        data = at_default_pose(robot, model)
        rng = np.random.default_rng(1)
        data.qvel[:6] = rng.uniform(-0.5, 0.5, 6)
        data.qvel[6:] = rng.uniform(-1.0, 1.0, model.nv - 6)
        energy = np.zeros((steps, 2))
        for i in range(steps):
            mujoco.mj_step(model, data)
            energy[i] = data.energy
        total = energy.sum(axis=1)
        if gravity:
            # In a fall the integrator itself loses m g^2 dt^2 / 2 a step, in all one part in 400 of what goes from
            # one to the other.
            loss = 0.5 * robot.total_mass * GRAVITY**2 * model.opt.timestep**2
            assert np.diff(total).max() < 0.0
            assert total[0] - total[-1] == pytest.approx(loss * (steps - 1), rel=0.05)
            assert total[0] - total[-1] < 0.01 * (energy[-1, 1] - energy[0, 1])
            np.testing.assert_allclose(-np.diff(total), loss, rtol=0.3)
        else:
            assert total.max() < 1.002 * total[0]
            assert limits or total.min() > 0.99 * total[0]


def test_what_mujoco_refuses_is_one_message() -> None:
    """An inertia that no body can have is an error of this package that names the robot."""
    robot = load_robot("unitree_go2")
    base = dataclasses.replace(robot.base, inertia=[1.0, 0.1, 0.1, 0.0, 0.0, 0.0])
    broken = dataclasses.replace(robot, bodies=[base, *robot.bodies[1:]])
    with pytest.raises(ConfigError, match="MuJoCo cannot build the robot 'unitree_go2'"):
        compile_model(broken, build_spec(broken))
