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
            data = json.loads(path.read_text(encoding="utf-8"))
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
            if matches(joint, actuator.joints):
                return actuator
        raise ConfigError(f"{self.name}: no actuator drives joint '{joint}'; add it to a group of 'actuators'.")

    def joint_indices(self, group: str) -> np.ndarray:
        """Return the indices of a group of joints in the order of actions and observations."""
        if group == "all":
            return np.arange(len(self.joint_names))
        if group not in self.joint_groups:
            known = ", ".join(["all", *self.joint_groups])
            raise ConfigError(f"{self.name} has no joint group '{group}'; it has {known}. Add it to 'joint_groups'.")
        return np.array([i for i, name in enumerate(self.joint_names) if matches(name, self.joint_groups[group])])

    def link_of(self, body: Body, shape: Shape) -> str:
        """Return the name of the link whose contact a shape is."""
        return shape.link or body.name

    def check(self) -> None:
        """Raise a :class:`ConfigError` with every finding, if anything does not fit together."""
        from rsl_rl_sac.locomotion.robot_check import find_errors

        findings = list(find_errors(self))
        if findings:
            raise ConfigError("\n  - ".join([f"The data of robot '{self.name}' does not fit together:", *findings]))


def matches(name: str, patterns: list[str]) -> bool:
    """Return whether a name matches any of some patterns, as in a shell."""
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
        optional = fields[name].default is None
        if not optional and not isinstance(value, list):
            raise ConfigError(f"{where}, {name}: expected a list, got {type(value).__name__}.")
        if optional and isinstance(value, list):
            raise ConfigError(f"{where}, {name}: expected an object, got a list.")
        if isinstance(value, list):
            values[name] = [_build(part, item, f"{where}, {name}[{i}]") for i, item in enumerate(value)]
        elif not (optional and value is None):
            values[name] = _build(part, value, f"{where}, {name}")
    return cls(**values)


_PARTS: dict[type, dict[str, type]] = {
    Robot: {"actuators": Actuator, "bodies": Body},
    Body: {"joint": Joint, "shapes": Shape},
}
