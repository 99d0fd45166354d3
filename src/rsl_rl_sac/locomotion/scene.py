# SPDX-License-Identifier: BSD-3-Clause

"""Build the MuJoCo model of a robot on its terrain."""

from __future__ import annotations

from dataclasses import dataclass, replace

import mujoco
import numpy as np

from rsl_rl_sac.locomotion.robot import Robot
from rsl_rl_sac.locomotion.terrain import Terrain
from rsl_rl_sac.utils.errors import ConfigError

FRICTION = 0.8
"""Sliding friction. Isaac Lab has 0.8 static and 0.6 dynamic; MuJoCo has one coefficient, and a foot that holds is
what walking depends on."""

INTEGRATORS = {
    "euler": mujoco.mjtIntegrator.mjINT_EULER,
    "implicitfast": mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
    "implicit": mujoco.mjtIntegrator.mjINT_IMPLICIT,
    "discrete": mujoco.mjtIntegrator.mjINT_DISCRETE,
}
"""MuJoCo's integrators by name."""

TERRAIN_DEPTH = 0.01
"""Metres by which the height field of rough terrain lies below the ground that it stands for, and is felt above it.

Beside the prism that it stands on, a foot touches the edges of its neighbours, which push it aside, also where a height
field is even. A walking ANYmal D that never falls on a plane fell there in 23 % of the episodes, and in 2 % with this
(``benchmarks/even_terrain.py``); with 5 mm in 10 %, with 2 cm in 2 %.
"""

COARSE_TERRAIN_DEPTH = 0.02
"""The same in coarse physics, where feet sink in deeper."""

EXPLICIT_LIMIT = 2.0
"""Time step x slope of a DC motor's torque over speed / inertia of its joint from which explicit integration makes the
joint's speed overshoot by more than it was off: it grows until the torque limit stops it, a chatter."""


@dataclass(frozen=True)
class PhysicsCfg:
    """Settings of the physics."""

    time_step: float = 0.005
    """Seconds per physics step."""
    decimation: int = 4
    """Physics steps per control step."""
    cone: str = "pyramidal"
    """Friction cone: ``pyramidal`` or ``elliptic``."""
    impratio: float = 10.0
    """Ratio of the impedance of friction to that of normal force; higher lets standing feet creep less."""
    solver_iterations: int = 20
    """Cap of the Newton solver's iterations."""
    line_search_iterations: int = 20
    """Cap of the solver's line search."""
    tolerance: float = 1e-8
    """Improvement of the cost below which the solver stops."""
    integrator: str | None = None
    """One of :data:`INTEGRATORS`; None is that of :func:`default_integrator`."""
    terrain_depth: float = TERRAIN_DEPTH
    """Metres by which a height field lies below the ground that it stands for (:meth:`Terrain.add_to`)."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.cone not in ("pyramidal", "elliptic"):
            raise ConfigError(f"cone must be 'pyramidal' or 'elliptic', got {self.cone!r}.")
        if self.integrator not in (None, *INTEGRATORS):
            raise ConfigError(f"integrator must be None or one of {list(INTEGRATORS)}, got {self.integrator!r}.")
        for name in ("time_step", "decimation", "impratio", "solver_iterations", "line_search_iterations", "tolerance"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive, got {getattr(self, name)!r}.")
        if not 0.0 <= self.terrain_depth < 1.0:
            raise ConfigError(f"terrain_depth must be a small distance >= 0, got {self.terrain_depth!r}.")
        for name in ("decimation", "solver_iterations", "line_search_iterations"):
            if not isinstance(getattr(self, name), int):
                raise ConfigError(f"{name} must be an integer, got {getattr(self, name)!r}.")

    def coarse(self, on_height_field: bool = False) -> PhysicsCfg:
        """Return these settings with half as many physics steps per control step, twice as long.

        Unless an integrator is given, every robot with DC motors has ``discrete`` then (:func:`default_integrator`).
        Feet sink in deeper in longer steps, and have several contacts at once with a height field: it lies deeper too,
        and the cone is elliptic. With a pyramidal one half of trembling ANYmal D fall over on even ground within three
        seconds, and with no depth three in ten of Go1 (``benchmarks/coarse_terrain.py``).

        Args:
            on_height_field: Whether the ground is a height field.
        """
        if self.decimation % 2:
            raise ConfigError(
                f"coarse_physics halves the physics steps of a control step, which are {self.decimation}."
            )
        cfg = replace(self, time_step=2.0 * self.time_step, decimation=self.decimation // 2)
        return replace(cfg, cone="elliptic", terrain_depth=COARSE_TERRAIN_DEPTH) if on_height_field else cfg


def build_spec(robot: Robot, terrain: Terrain | None = None, cfg: PhysicsCfg | None = None) -> mujoco.MjSpec:
    """Return the model of a robot on a terrain, as a specification that can still be changed.

    Actuators and torque sensors are in the order of :attr:`Robot.joint_names`; the joints themselves follow the
    kinematic tree. The sensors are, in this order: the torque of every joint (``torque/JOINT``) and the net contact
    force between the ground and every link a task reads (``contact/LINK``), of which only the size is used.

    Args:
        robot: Robot.
        terrain: Rough terrain; None is a plane.
        cfg: Settings of the physics.
    """
    cfg = cfg or PhysicsCfg()
    spec = mujoco.MjSpec()
    spec.modelname = robot.name
    spec.compiler.degree = False
    spec.compiler.autolimits = True
    option = spec.option
    option.timestep = cfg.time_step
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC if cfg.cone == "elliptic" else mujoco.mjtCone.mjCONE_PYRAMIDAL
    option.impratio = cfg.impratio
    option.iterations = cfg.solver_iterations
    option.ls_iterations = cfg.line_search_iterations
    option.tolerance = cfg.tolerance
    option.integrator = INTEGRATORS[cfg.integrator or default_integrator(robot, cfg.time_step)]
    # A diverged state must stay visible, so that the environment can reset it and count it.
    option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    _add_ground(spec, terrain, cfg.terrain_depth)
    _add_bodies(spec, robot)
    _add_actuators(spec, robot)
    _add_sensors(spec, robot)
    _add_looks(spec, robot)
    return spec


def compile_model(robot: Robot, spec: mujoco.MjSpec) -> mujoco.MjModel:
    """Compile a specification of :func:`build_spec`."""
    try:
        return spec.compile()
    except ValueError as error:
        raise ConfigError(f"MuJoCo cannot build the robot '{robot.name}': {error}") from error


def default_integrator(robot: Robot, time_step: float) -> str:
    """Return the cheapest integrator that is stable.

    PD drives with damping 10 on a finger need an implicit one. DC motors are explicit in Isaac Lab, and here where that
    is stable, which it is for all of Unitree at 5 ms and for none of them at 10 ms. Knees of ANYmal would chatter:
    under random actions (0.3 in std, 5 ms) those of ANYmal B turn more than twice as fast with ``euler`` as at a
    quarter of the step, and as fast with ``discrete``, which is slower to compute. ``implicitfast`` does not suffice:
    it leaves the motors out of the contact solver.
    """
    if any(actuator.model != "dc_motor" for actuator in robot.actuators):
        return "implicitfast"
    return "euler" if motor_stiffness(robot, time_step) < EXPLICIT_LIMIT else "discrete"


def motor_stiffness(robot: Robot, time_step: float) -> float:
    """Return the largest ``time_step * slope / inertia`` over the joints of a robot with DC motors.

    The slope is that of a motor's torque over its speed at the limit, stall torque over no-load speed; the inertia is
    what a torque at the joint meets at the default pose with all else free to move. At 5 ms: 7.9 for the knees of
    ANYmal B, 3.6 of ANYmal D, 1.8 of A1, 1.2 of Go2, 1.1 of Go1; twice as much at 10 ms.
    """
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.compiler.autolimits = True
    for material in ("robot", "foot"):
        spec.add_material(name=material)
    _add_bodies(spec, robot)
    model = compile_model(robot, spec)
    data = mujoco.MjData(model)
    positions, velocities = joint_addresses(robot, model)
    data.qpos[positions] = robot.default_pos
    mujoco.mj_forward(model, data)
    inertia = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, inertia)
    motors = [robot.actuator_of(name) for name in robot.joint_names]
    slope = np.array([motor.saturation_effort / motor.velocity_limit for motor in motors])
    return float(np.max(time_step * slope * np.diag(np.linalg.inv(inertia))[velocities]))


def sensor_links(robot: Robot) -> list[str]:
    """Return the links with a contact sensor: feet, then those that end the episode, then undesired ones."""
    return list(dict.fromkeys([*robot.foot_links, *robot.termination_links, *robot.undesired_contact_links]))


def joint_addresses(robot: Robot, model: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray]:
    """Return where each joint of :attr:`Robot.joint_names` is in ``qpos`` and in ``qvel``."""
    joints = [model.joint(name) for name in robot.joint_names]
    return np.array([joint.qposadr[0] for joint in joints]), np.array([joint.dofadr[0] for joint in joints])


def _add_ground(spec: mujoco.MjSpec, terrain: Terrain | None, depth: float) -> None:
    # Contacts with the terrain only: the robot's shapes neither offer (contype) nor take part with each other.
    if terrain is not None:
        terrain.add_to(spec, FRICTION, depth)
        for geom in spec.worldbody.geoms:
            geom.material = "earth"
        return
    spec.worldbody.add_geom(
        name="terrain",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[0.0, 0.0, 1.0],
        contype=1,
        conaffinity=0,
        friction=[FRICTION, 0.005, 0.0001],
        material="ground",
    )


def _add_bodies(spec: mujoco.MjSpec, robot: Robot) -> None:
    bodies = {}
    for data in robot.bodies:
        parent = spec.worldbody if data.parent is None else bodies[data.parent]
        body = parent.add_body(name=data.name, pos=data.pos, quat=data.quat)
        bodies[data.name] = body
        body.mass, body.ipos, body.fullinertia, body.explicitinertial = data.mass, data.com, data.inertia, True
        if data.joint is None:
            body.pos = [0.0, 0.0, robot.base_height]
            body.add_freejoint(name="base")
        else:
            actuator = robot.actuator_of(data.joint.name)
            body.add_joint(
                name=data.joint.name,
                type=mujoco.mjtJoint.mjJNT_HINGE,
                axis=data.joint.axis,
                range=data.joint.range,
                armature=actuator.armature,
            )
        for i, shape in enumerate(data.shapes):
            size = [*shape.size, 0.0, 0.0][:3]
            foot = robot.link_of(data, shape) in robot.foot_links
            body.add_geom(
                name=f"{data.name}/{i}",
                type=getattr(mujoco.mjtGeom, f"mjGEOM_{shape.type.upper()}"),
                size=size,
                pos=shape.pos,
                quat=shape.quat,
                contype=0,
                conaffinity=1,
                friction=[FRICTION, 0.005, 0.0001],
                material="foot" if foot else "robot",
            )


def _add_actuators(spec: mujoco.MjSpec, robot: Robot) -> None:
    """Add one actuator per joint, whose control is the position target.

    A DC motor with stall torque S, no-load speed V and continuous limit E clips the PD torque t at joint speed v to
    ``[S (-1 - v / V), S (1 - v / V)]`` and to ``[-E, E]``. That is MuJoCo's own DC motor with a controller: motor
    constant 1 and resistance R = V / S, and a controller that asks for the voltage ``R t + v``, which gives the torque
    t against the back-EMF v, out of a supply of V. It knows its derivative on every part of the curve, -S / V at the
    limit, which the discrete integrator needs.
    """
    for name in robot.joint_names:
        actuator = robot.actuator_of(name)
        drive = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        if actuator.model == "dc_motor":
            drive.set_to_dcmotor(
                motorconst=[1.0, 1.0],
                resistance=actuator.velocity_limit / actuator.saturation_effort,
                # Proportional, integral and derivative gain, slew rate, limit of the integral, voltage; 0 is none.
                controller=[actuator.stiffness, 0.0, actuator.damping, 0.0, 0.0, actuator.velocity_limit],
                ctrlspec=mujoco.mjtCtrlInput.mjINPUT_POS.value,
            )
        else:
            drive.gaintype, drive.biastype = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_AFFINE
            drive.gainprm[0] = actuator.stiffness
            drive.biasprm[1:3] = [-actuator.stiffness, -actuator.damping]
        drive.forcerange = [-actuator.effort_limit, actuator.effort_limit]


def _add_sensors(spec: mujoco.MjSpec, robot: Robot) -> None:
    for name in robot.joint_names:
        spec.add_sensor(
            name=f"torque/{name}",
            type=mujoco.mjtSensor.mjSENS_JOINTACTFRC,
            objtype=mujoco.mjtObj.mjOBJ_JOINT,
            objname=name,
        )
    for link in sensor_links(robot):
        objtype, objname = _contact_object(robot, link)
        sensor = spec.add_sensor(
            name=f"contact/{link}", type=mujoco.mjtSensor.mjSENS_CONTACT, objtype=objtype, objname=objname
        )
        # The force alone; its sum over all contacts in the world frame (reduction "netforce" of MJCF); one slot.
        sensor.intprm[:3] = [1 << mujoco.mjtConDataField.mjCONDATA_FORCE.value, 3, 1]


def _contact_object(robot: Robot, link: str) -> tuple[mujoco.mjtObj, str]:
    """Return what a link's contact sensor watches: a whole body or one of its shapes."""
    body = next(body for body in robot.bodies if any(robot.link_of(body, shape) == link for shape in body.shapes))
    shapes = [i for i, shape in enumerate(body.shapes) if robot.link_of(body, shape) == link]
    if len(shapes) == len(body.shapes):
        return mujoco.mjtObj.mjOBJ_BODY, body.name
    return mujoco.mjtObj.mjOBJ_GEOM, f"{body.name}/{shapes[0]}"


def _add_looks(spec: mujoco.MjSpec, robot: Robot) -> None:
    """Add materials, light and sky, which the physics does not see."""
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.75, 0.85, 0.95],
        rgb2=[1.0, 1.0, 1.0],
        width=64,
        height=384,
    )
    spec.add_texture(
        name="checker",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=[0.62, 0.66, 0.70],
        rgb2=[0.54, 0.58, 0.62],
        width=128,
        height=128,
    )
    ground = spec.add_material(name="ground", texrepeat=[1.0, 1.0], texuniform=True, specular=0.1, shininess=0.1)
    ground.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "checker"
    spec.add_material(name="earth", rgba=[0.60, 0.56, 0.50, 1.0], specular=0.0)
    spec.add_material(name="robot", rgba=[0.25, 0.27, 0.30, 1.0], specular=0.4)
    spec.add_material(name="foot", rgba=[0.85, 0.35, 0.10, 1.0])
    # The size of what a picture shows, not of the terrain: planes of view and shadows are scaled by it.
    spec.stat.extent = 8.0
    spec.visual.map.znear, spec.visual.map.zfar = 0.005, 20.0
    spec.visual.quality.shadowsize = 8192
    spec.body(robot.base.name).add_light(
        pos=[0.0, 0.0, 4.0],
        dir=[0.3, 0.2, -1.0],
        mode=mujoco.mjtCamLight.mjCAMLIGHT_TRACK,
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        castshadow=True,
    )
