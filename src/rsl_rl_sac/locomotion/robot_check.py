# SPDX-License-Identifier: BSD-3-Clause

"""What can be wrong with the data of a robot, said before MuJoCo or numpy say it in their own words."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rsl_rl_sac.locomotion.robot import ACTUATOR_MODELS, SHAPE_SIZES, Actuator, Body, Robot, Shape, matches


def find_errors(robot: Robot) -> Iterator[str]:
    """Yield one line for each thing that does not fit together."""
    if not isinstance(robot.default_pose, dict) or not isinstance(robot.joint_groups, dict):
        yield "default_pose and joint_groups must be objects"
        return
    wrong = list(_type_errors(robot))
    if wrong:  # the checks below would stumble over them
        yield from wrong
        return
    if robot.kind not in ("quadruped", "humanoid"):
        yield f"kind must be 'quadruped' or 'humanoid', got '{robot.kind}'"
    for name in ("base_height", "action_scale", "soft_limit_factor"):
        if not _are_numbers([getattr(robot, name)]) or getattr(robot, name) <= 0.0:
            yield f"{name} must be a positive number, got {getattr(robot, name)!r}"
    if not _are_numbers([robot.soft_limit_factor]) or robot.soft_limit_factor > 1.0:
        yield f"soft_limit_factor must be at most 1, got {robot.soft_limit_factor!r}"
    if not robot.bodies or robot.bodies[0].parent is not None or robot.bodies[0].joint is not None:
        yield "the first body must be the base, with parent null and without joint"
    yield from _body_errors(robot)
    yield from _link_errors(robot)
    yield from _joint_errors(robot)
    if not any(body.name == robot.height_scan_body for body in robot.bodies):
        yield f"there is no body '{robot.height_scan_body}' for the height scan"


def _type_errors(robot: Robot) -> Iterator[str]:
    lists = {name: getattr(robot, name) for name in ("foot_links", "termination_links", "undesired_contact_links")}
    lists |= {f"joint_groups, {name}": patterns for name, patterns in robot.joint_groups.items()}
    lists |= {f"actuators[{i}], joints": actuator.joints for i, actuator in enumerate(robot.actuators)}
    for name, value in lists.items():
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            yield f"{name} must be a list of names, got {value!r}"
    words = {f"bodies[{i}], name": body.name for i, body in enumerate(robot.bodies)} | {"name": robot.name}
    words |= {f"actuators[{i}], model": actuator.model for i, actuator in enumerate(robot.actuators)}
    for i, body in enumerate(robot.bodies):
        if body.parent is not None:
            words[f"bodies[{i}], parent"] = body.parent
        if body.joint is not None:
            words[f"bodies[{i}], joint, name"] = body.joint.name
        for k, shape in enumerate(body.shapes):
            words[f"bodies[{i}], shapes[{k}], type"] = shape.type
            if shape.link is not None:
                words[f"bodies[{i}], shapes[{k}], link"] = shape.link
    for name, value in words.items():
        if not isinstance(value, str):
            yield f"{name} must be a word, got {value!r}"


def _are_numbers(values: object, count: int | None = None) -> bool:
    """Return whether this is a list of finite numbers, of a given length."""
    if not isinstance(values, list) or (count is not None and len(values) != count):
        return False
    return all(isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in values)


def _body_errors(robot: Robot) -> Iterator[str]:
    seen: set[str] = {"world"}  # MuJoCo's own
    for i, body in enumerate(robot.bodies):
        if body.name in seen:
            yield f"two bodies are called '{body.name}' (one may be MuJoCo's own 'world')"
        if i and (body.parent not in seen or body.joint is None):
            yield f"body '{body.name}' needs a joint and a parent that is listed before it"
        seen.add(body.name)
        yield from _inertial_errors(body)
        for shape in body.shapes:
            yield from _shape_errors(body, shape)


def _inertial_errors(body: Body) -> Iterator[str]:
    if not _are_numbers([body.mass]) or body.mass <= 0.0:
        yield f"the mass of body '{body.name}' must be a positive number, got {body.mass!r}"
    for name, count in (("pos", 3), ("com", 3), ("inertia", 6), ("quat", 4)):
        if not _are_numbers(getattr(body, name), count):
            yield f"{name} of body '{body.name}' must be {count} numbers, got {getattr(body, name)!r}"
    if _are_numbers(body.quat, 4) and not any(body.quat):
        yield f"quat of body '{body.name}' must not be all zero"


def _shape_errors(body: Body, shape: Shape) -> Iterator[str]:
    sizes = SHAPE_SIZES.get(shape.type)
    if sizes is None or not _are_numbers(shape.size, sizes) or min(shape.size) <= 0.0:
        yield f"body '{body.name}': a shape of type '{shape.type}' with the size {shape.size!r}"
    if not _are_numbers(shape.pos, 3) or not _are_numbers(shape.quat, 4):
        yield f"body '{body.name}': a shape needs 3 numbers for pos and 4 for quat"


def _link_errors(robot: Robot) -> Iterator[str]:
    if not robot.foot_links or not robot.termination_links:
        yield "foot_links and termination_links must each name a link"
    for link in [*robot.foot_links, *robot.termination_links, *robot.undesired_contact_links]:
        bodies = [body for body in robot.bodies if any(robot.link_of(body, shape) == link for shape in body.shapes)]
        if len(bodies) != 1:
            yield f"link '{link}' must have its shapes on one body"
            continue
        of_link = [shape for shape in bodies[0].shapes if robot.link_of(bodies[0], shape) == link]
        # A contact sensor of MuJoCo watches a body or a shape, nothing in between.
        if len(of_link) not in (1, len(bodies[0].shapes)):
            yield f"link '{link}' must be one shape or all shapes of body '{bodies[0].name}'"


def _joint_errors(robot: Robot) -> Iterator[str]:
    joints = [body.joint for body in robot.bodies if body.joint is not None]
    names = [joint.name for joint in joints]
    repeated = sorted({name for name in names if names.count(name) > 1 or name == "base"})
    if repeated:
        yield f"joints need names of their own, and none may be called 'base': {', '.join(repeated)}"
    if set(names) != set(robot.default_pose):
        difference = sorted(set(names) ^ set(robot.default_pose))
        yield f"default_pose must name every joint once; the difference is {difference}"
        return
    for joint in joints:
        if not _are_numbers(joint.axis, 3) or not any(joint.axis):
            yield f"the axis of joint '{joint.name}' must be 3 numbers, not all zero"
        default = robot.default_pose[joint.name]
        if not _are_numbers(joint.range, 2) or not joint.range[0] < joint.range[1]:
            yield f"joint '{joint.name}' has an empty range: {joint.range!r}"
        elif not _are_numbers([default]) or not joint.range[0] <= default <= joint.range[1]:
            yield f"the default position of '{joint.name}' is outside of its range"
        if not any(matches(joint.name, actuator.joints) for actuator in robot.actuators):
            yield f"no actuator drives joint '{joint.name}'"
    for actuator in robot.actuators:
        yield from _actuator_errors(actuator)
        yield from _pattern_errors("an actuator", actuator.joints, names)
    if len({actuator.model for actuator in robot.actuators}) > 1:
        yield "all actuators of a robot must be of one model, since the integrator depends on it"
    for group, patterns in robot.joint_groups.items():
        yield from _pattern_errors(f"joint group '{group}'", patterns, names)


def _actuator_errors(actuator: Actuator) -> Iterator[str]:
    where = f"the actuator of {actuator.joints}"
    if actuator.model not in ACTUATOR_MODELS:
        yield f"actuator model '{actuator.model}' is none of {', '.join(ACTUATOR_MODELS)}"
    for name in ("stiffness", "damping", "armature"):
        if not _are_numbers([getattr(actuator, name)]) or getattr(actuator, name) < 0.0:
            yield f"{where} needs a {name} that is not negative, got {getattr(actuator, name)!r}"
    if not _are_numbers([actuator.effort_limit]) or actuator.effort_limit <= 0.0:
        yield f"{where} needs a positive effort_limit, got {actuator.effort_limit!r}"
    limits = [actuator.saturation_effort, actuator.velocity_limit]
    if actuator.model == "dc_motor" and (not _are_numbers(limits) or min(limits) <= 0.0):
        yield f"the DC motors of {actuator.joints} need saturation_effort and velocity_limit"


def _pattern_errors(where: str, patterns: list[str], names: list[str]) -> Iterator[str]:
    if not patterns:
        yield f"{where} names no joint"
    for pattern in patterns:
        if not any(matches(name, [pattern]) for name in names):
            yield f"pattern '{pattern}' of {where} matches no joint"
