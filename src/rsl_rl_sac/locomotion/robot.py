# SPDX-License-Identifier: BSD-3-Clause

"""A robot as data: bodies, joints, actuators, and the names a task needs, read from one JSON file.

Units are SI, quaternions are (w, x, y, z). A body's pose is relative to its parent at joint angle zero, its joint is
at its origin; centre of mass and inertia are in the body frame, the inertia about the centre of mass in the order
xx, yy, zz, xy, xz, yz. Sizes of shapes are half-sizes as in MuJoCo.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rsl_rl_sac.utils.errors import ConfigError

SHAPE_SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "box": 3}
"""Shape types and how many sizes each has."""

ACTUATOR_MODELS = ("dc_motor", "implicit_pd")
"""Explicit PD with the torque-speed limits of a DC motor, or PD with implicit damping and a torque limit."""


@dataclass(frozen=True)
class Shape:
    """A primitive collision shape."""

    type: str
    """One of :data:`SHAPE_SIZES`."""
    size: list[float]
    """Half-sizes: radius; radius and half length along z; or half extents."""
    pos: list[float]
    """Position in the body frame."""
    quat: list[float] = dataclasses.field(default_factory=lambda: [1.0, 0.0, 0.0, 0.0])
    """Orientation in the body frame."""
    link: str | None = None
    """Link whose contact this shape is, if that is not the body: a foot merged into its shank, say."""


@dataclass(frozen=True)
class Joint:
    """A hinge."""

    name: str
    """Name of the joint."""
    axis: list[float]
    """Axis in the body frame."""
    range: list[float]
    """Lower and upper limit in rad."""


@dataclass(frozen=True)
class Body:
    """A rigid body."""

    name: str
    """Name of the body."""
    parent: str | None
    """Name of the parent; None for the base, which floats."""
    pos: list[float]
    """Position in the parent's frame."""
    mass: float
    """Mass in kg."""
    com: list[float]
    """Centre of mass."""
    inertia: list[float]
    """Inertia about the centre of mass: xx, yy, zz, xy, xz, yz."""
    shapes: list[Shape]
    """Collision shapes."""
    quat: list[float] = dataclasses.field(default_factory=lambda: [1.0, 0.0, 0.0, 0.0])
    """Orientation in the parent's frame."""
    joint: Joint | None = None
    """Joint to the parent; None for the base."""


@dataclass(frozen=True)
class Actuator:
    """A group of joints with equal actuators."""

    joints: list[str]
    """Patterns of joint names, as in a shell."""
    model: str
    """One of :data:`ACTUATOR_MODELS`."""
    stiffness: float
    """Torque per rad of position error."""
    damping: float
    """Torque per rad/s."""
    effort_limit: float
    """Largest torque in N m."""
    armature: float = 0.0
    """Inertia of the rotor as felt at the joint."""
    saturation_effort: float = math.inf
    """Stall torque of a DC motor."""
    velocity_limit: float = math.inf
    """No-load speed of a DC motor."""


@dataclass(frozen=True)
class Robot:
    """A robot."""

    name: str
    """Name of the data file."""
    title: str
    """Name for people."""
    kind: str
    """``quadruped`` or ``humanoid``."""
    sources: list[str]
    """Where the numbers are from."""
    licence: str
    """Licence of the sources."""
    notes: list[str]
    """What was decided, and what is not known."""
    base_height: float
    """Height of the base at spawn over the ground."""
    action_scale: float
    """Radians of position target per unit of action."""
    soft_limit_factor: float
    """Share of the joint range inside the soft limits."""
    height_scan_body: str
    """Body whose yaw the height scan follows."""
    foot_links: list[str]
    """Links that are feet."""
    termination_links: list[str]
    """Links whose contact ends the episode."""
    undesired_contact_links: list[str]
    """Links whose contact is penalised."""
    joint_groups: dict[str, list[str]]
    """Groups of joints that reward terms name, as patterns."""
    actuators: list[Actuator]
    """Actuators; the first group that matches a joint drives it."""
    default_pose: dict[str, float]
    """Default position of every joint, in the order of actions and observations."""
    bodies: list[Body]
    """Bodies, parents first."""

    @classmethod
    def from_file(cls, path: str | Path) -> Robot:
        """Read and check a data file.

        Raises:
            ConfigError: If the file is missing, is no JSON, or anything in it does not fit together.
        """
        path = Path(path)
        try:
            data = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise ConfigError(f"Cannot read the robot file {path}: {error}") from error
        robot = _build(cls, data, path.name)
        robot.check()
        return robot

    @cached_property
    def joint_names(self) -> list[str]:
        """Names of the joints in the order of actions and observations."""
        return list(self.default_pose)

    @cached_property
    def joints(self) -> dict[str, Joint]:
        """Joints by name, in the order of actions and observations."""
        by_name = {body.joint.name: body.joint for body in self.bodies if body.joint is not None}
        return {name: by_name[name] for name in self.joint_names}

    @cached_property
    def base(self) -> Body:
        """The floating body."""
        return self.bodies[0]

    @cached_property
    def total_mass(self) -> float:
        """Mass of all bodies in kg."""
        return sum(body.mass for body in self.bodies)

    @cached_property
    def default_pos(self) -> np.ndarray:
        """Default joint positions."""
        return np.array(list(self.default_pose.values()))

    @cached_property
    def soft_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Soft limits: the middle of the range plus and minus half of ``soft_limit_factor`` times its width."""
        lower, upper = np.array([joint.range for joint in self.joints.values()]).T
        middle, half = 0.5 * (lower + upper), 0.5 * self.soft_limit_factor * (upper - lower)
        return middle - half, middle + half

    def actuator_of(self, joint: str) -> Actuator:
        """Return the actuator of a joint."""
        for actuator in self.actuators:
            if any(fnmatch.fnmatchcase(joint, pattern) for pattern in actuator.joints):
                return actuator
        raise ConfigError(f"{self.name}: no actuator drives joint '{joint}'; add it to a group of 'actuators'.")

    def joint_indices(self, group: str) -> np.ndarray:
        """Return the indices of a group of joints in the order of actions and observations."""
        if group == "all":
            return np.arange(len(self.joint_names))
        if group not in self.joint_groups:
            known = ", ".join(["all", *self.joint_groups])
            raise ConfigError(f"{self.name} has no joint group '{group}'; it has {known}. Add it to 'joint_groups'.")
        return np.array([i for i, name in enumerate(self.joint_names) if _matches(name, self.joint_groups[group])])

    def link_of(self, body: Body, shape: Shape) -> str:
        """Return the name of the link whose contact a shape is."""
        return shape.link or body.name

    def check(self) -> None:
        """Raise a :class:`ConfigError` with every finding, if anything does not fit together."""
        findings = list(_findings(self))
        if findings:
            raise ConfigError("\n  - ".join([f"The data of robot '{self.name}' does not fit together:", *findings]))


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _build(cls: type, data: object, where: str) -> Any:  # noqa: ANN401
    """Build a dataclass from parsed JSON, with a message that names the place of an error."""
    if not isinstance(data, dict):
        raise ConfigError(f"{where}: expected an object, got {type(data).__name__}.")
    fields = {field.name: field for field in dataclasses.fields(cls)}
    unknown = sorted(set(data) - set(fields))
    missing = sorted(
        name
        for name, field in fields.items()
        if name not in data and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )
    if unknown or missing:
        raise ConfigError(f"{where}: unknown keys {unknown}, missing keys {missing}.")
    values = dict(data)
    for name, part in _PARTS.get(cls, {}).items():
        value = values.get(name)
        if isinstance(value, list):
            values[name] = [_build(part, item, f"{where}, {name}[{i}]") for i, item in enumerate(value)]
        elif value is not None:
            values[name] = _build(part, value, f"{where}, {name}")
    return cls(**values)


_PARTS: dict[type, dict[str, type]] = {
    Robot: {"actuators": Actuator, "bodies": Body},
    Body: {"joint": Joint, "shapes": Shape},
}


def _findings(robot: Robot) -> Iterator[str]:
    """Yield what does not fit together."""
    if robot.kind not in ("quadruped", "humanoid"):
        yield f"kind must be 'quadruped' or 'humanoid', got '{robot.kind}'"
    if not robot.bodies or robot.bodies[0].parent is not None or robot.bodies[0].joint is not None:
        yield "the first body must be the base, with parent null and without joint"
    seen: set[str] = set()
    links: dict[str, set[int]] = {}
    for i, body in enumerate(robot.bodies):
        if body.name in seen:
            yield f"two bodies are called '{body.name}'"
        if i and (body.parent not in seen or body.joint is None):
            yield f"body '{body.name}' needs a joint and a parent that is listed before it"
        seen.add(body.name)
        if body.mass <= 0.0 or len(body.inertia) != 6 or len(body.com) != 3 or len(body.pos) != 3:
            yield f"body '{body.name}' needs a positive mass, 3 numbers for com and pos, 6 for the inertia"
        if body.joint is not None and not body.joint.range[0] < body.joint.range[1]:
            yield f"joint '{body.joint.name}' has an empty range"
        for shape in body.shapes:
            if SHAPE_SIZES.get(shape.type) != len(shape.size):
                yield f"body '{body.name}': a shape of type '{shape.type}' with {len(shape.size)} sizes"
            links.setdefault(robot.link_of(body, shape), set()).add(i)
    for link in [*robot.foot_links, *robot.termination_links, *robot.undesired_contact_links]:
        if len(links.get(link, ())) != 1:
            yield f"link '{link}' must have its shapes on one body"
    joints = {body.joint.name for body in robot.bodies if body.joint is not None}
    if joints != set(robot.default_pose):
        yield f"default_pose must name every joint once; the difference is {sorted(joints ^ set(robot.default_pose))}"
        return
    for joint in robot.joints.values():
        if not joint.range[0] <= robot.default_pose[joint.name] <= joint.range[1]:
            yield f"the default position of '{joint.name}' is outside of its range"
        if not any(_matches(joint.name, actuator.joints) for actuator in robot.actuators):
            yield f"no actuator drives joint '{joint.name}'"
    for actuator in robot.actuators:
        if actuator.model not in ACTUATOR_MODELS:
            yield f"actuator model '{actuator.model}' is none of {', '.join(ACTUATOR_MODELS)}"
        elif actuator.model == "dc_motor" and not math.isfinite(actuator.saturation_effort + actuator.velocity_limit):
            yield f"the DC motors of {actuator.joints} need saturation_effort and velocity_limit"
    if len({actuator.model for actuator in robot.actuators}) > 1:
        yield "all actuators of a robot must be of one model, since the integrator depends on it"
    if robot.height_scan_body not in seen:
        yield f"there is no body '{robot.height_scan_body}' for the height scan"
    for group, patterns in robot.joint_groups.items():
        for pattern in patterns:
            if not any(fnmatch.fnmatchcase(name, pattern) for name in joints):
                yield f"pattern '{pattern}' of joint group '{group}' matches no joint"
