# SPDX-License-Identifier: BSD-3-Clause

"""Mirror images of observations and actions, found from the data of the robot.

The robot is put into its default pose and reflected; which joint takes the place of which, and whether it then turns
the other way, is read off where the joints and their axes come to lie. Observed joint positions and actions count from
the default pose, so nothing but an order and signs remains.

A robot has a symmetry if all else agrees with its mirror image too: exactly in what is designed (joints, limits,
actuators, names that rewards read), within tolerances in what is measured (masses, centres of mass, inertia) or fitted
(shapes). The real ones are never exact: the trunk of A1 has its centre of mass 4 mm to the left. A mirrored transition
is therefore that of a robot which differs from the real one by as much, much less than the suite's randomisation of
ANYmal's base (50 mm), and one with the mirror image of the mass and centre of mass that its environment drew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import mujoco
import numpy as np
import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rsl_rl_sac.locomotion.observations import Observations
from rsl_rl_sac.locomotion.robot import Robot
from rsl_rl_sac.locomotion.scene import build_spec, compile_model, joint_addresses
from rsl_rl_sac.locomotion.terrain import scan_points
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv
from rsl_rl_sac.utils.errors import ConfigError

PLANES = {"left-right": (1.0, -1.0, 1.0), "front-back": (-1.0, 1.0, 1.0)}
"""Reflections in the frame of the base: what they do to x, y and z of a vector."""

JOINT_TOLERANCE = 1e-4
"""Largest difference in joint positions (m), directions of axes, limits (rad) and actuators. The suite's have none."""

# Between what the suite's robots have in the planes they are mirrored in (8 mm, 1.5 %, 2 mm) and what ANYmal D has from
# front to back (33 mm, 3.1 %, and a lidar on its back).
COM_TOLERANCE = 0.015
"""Largest distance in m of a body's centre of mass from the mirror image of its counterpart's."""
INERTIA_TOLERANCE = 0.02
"""Largest difference in mass and inertia, as a share of the body's."""
SHAPE_TOLERANCE = 0.005
"""Largest difference in m in sizes and positions of collision shapes."""


@dataclass(frozen=True)
class Mirror:
    """Order and signs of mirrored observations and actions: ``mirrored = sign * tensor[..., index]``."""

    observation_index: torch.Tensor
    """Where each number of the mirrored observation comes from."""
    observation_sign: torch.Tensor
    """Sign it gets."""
    action_index: torch.Tensor
    """Where each number of the mirrored action comes from."""
    action_sign: torch.Tensor
    """Sign it gets."""

    def observations(self, observations: torch.Tensor) -> torch.Tensor:
        """Return mirrored observations of the group ``policy`` ``(..., observations)``."""
        return _apply(self.observation_index, self.observation_sign, observations, "observations")

    def actions(self, actions: torch.Tensor) -> torch.Tensor:
        """Return mirrored actions ``(..., actions)``."""
        return _apply(self.action_index, self.action_sign, actions, "actions")

    def to(self, device: torch.device | str) -> Mirror:
        """Return the same on a device, which must be that of the tensors to mirror."""
        return Mirror(
            self.observation_index.to(device),
            self.observation_sign.to(device),
            self.action_index.to(device),
            self.action_sign.to(device),
        )


def mirror_of(robot: Robot, rough: bool, plane: str = "left-right") -> Mirror:
    """Return the mirror of a robot's observations and actions.

    Args:
        robot: Robot.
        rough: Whether the observations have a height scan.
        plane: What changes places, one of :data:`PLANES`.

    Raises:
        ConfigError: If the robot does not have this symmetry; the message names every part that differs.
    """
    if plane not in PLANES:
        raise ConfigError(f"plane must be one of {', '.join(PLANES)}, got {plane!r}.")
    reflection = np.array(PLANES[plane])
    parts = _parts(robot)
    counterparts, signs, findings = _pair(parts, reflection)
    if not findings:
        findings = [
            *_different_bodies(parts, counterparts, reflection),
            *_different_joints(robot, parts, counterparts, signs),
            *_different_roles(robot, parts, counterparts, reflection),
        ]
        if rough:
            findings += _different_scan(robot, parts, counterparts, reflection)
    if findings:
        raise ConfigError(f"The robot '{robot.name}' is not symmetric in the plane {plane}: {'; '.join(findings)}.")

    part_of_joint = {part.joint: i for i, part in enumerate(parts)}
    order = [part_of_joint[name] for name in robot.joint_names]
    joint_index = np.array([order.index(counterparts[i]) for i in order])
    joint_sign = np.array([signs[i] for i in order])
    points = scan_points()
    distance = np.abs(points[:, None] * reflection[:2].astype(np.float32) - points).sum(axis=2)
    # Turning is a pseudovector: reflected as a vector, and then reversed.
    xyz = np.arange(3)
    maps = {
        "base_lin_vel": (xyz, reflection),
        "base_ang_vel": (xyz, -reflection),
        "projected_gravity": (xyz, reflection),
        "velocity_commands": (xyz, np.array([*reflection[:2], -reflection[2]])),
        "joint_pos": (joint_index, joint_sign),
        "joint_vel": (joint_index, joint_sign),
        "actions": (joint_index, joint_sign),
        "height_scan": (distance.argmin(axis=1), np.ones(len(points))),
    }
    indices, observation_signs, start = [], [], 0
    for name, size in Observations.sizes(robot, rough).items():
        index, sign = maps[name]
        indices.append(index + start)
        observation_signs.append(sign)
        start += size
    return Mirror(
        torch.from_numpy(np.concatenate(indices)),
        torch.from_numpy(np.concatenate(observation_signs).astype(np.float32)),
        torch.from_numpy(joint_index),
        torch.from_numpy(joint_sign.astype(np.float32)),
    )


def mirror_states(
    env: VecEnv, obs: TensorDict | None, actions: torch.Tensor | None
) -> tuple[TensorDict | None, torch.Tensor | None]:
    """Append left-right mirror images to a batch, as rsl_rl's ``symmetry_cfg["data_augmentation_func"]``.

    Args:
        env: Environment of this suite.
        obs: Observations; None returns None.
        actions: Actions; None returns None.

    Returns:
        Observations and actions of twice the batch size, the given ones first.

    Raises:
        ConfigError: If the environment is not of this suite, its robot is not symmetric, or there are observations of
            another group than ``policy``, whose layout is not known.
    """
    if not isinstance(env, VelocityEnv):
        raise ConfigError(
            f"mirror_states knows the observations of VelocityEnv, not those of {type(env).__name__}: set"
            " data_augmentation_func to a function of your own."
        )
    if obs is not None:
        unknown = sorted({str(key) for key in obs.keys()} - {"policy"})  # noqa: SIM118, iterates over rows otherwise
        if unknown:
            raise ConfigError(f"mirror_states knows the observation group 'policy' only, got also {unknown}.")
        policy = obs["policy"]
        assert isinstance(policy, torch.Tensor)
        mirrored = _mirror_of_env(env, policy.device).observations(policy)
        both = torch.cat([policy, mirrored])
        obs = TensorDict({"policy": both}, batch_size=[len(both), *obs.batch_size[1:]], device=obs.device)
    if actions is not None:
        actions = torch.cat([actions, _mirror_of_env(env, actions.device).actions(actions)])
    return obs, actions


_MIRRORS: WeakKeyDictionary[VelocityEnv, dict[torch.device, Mirror]] = WeakKeyDictionary()
"""Left-right mirrors that were made; a learner may be on another device than its environment."""


def _mirror_of_env(env: VelocityEnv, device: torch.device) -> Mirror:
    mirrors = _MIRRORS.setdefault(env, {})
    if device not in mirrors:
        mirrors[device] = mirror_of(env.robot, rough=env.terrain is not None).to(device)
    return mirrors[device]


def _apply(index: torch.Tensor, sign: torch.Tensor, tensor: torch.Tensor, what: str) -> torch.Tensor:
    if tensor.shape[-1] != len(index):
        # A gather would cut off the height scan without a word.
        raise ConfigError(f"This mirror is for {len(index)} {what}, got {tensor.shape[-1]}.")
    # In place on the fresh copy: no second one, and the precision of the tensor stays.
    return tensor.index_select(-1, index).mul_(sign)


@dataclass(frozen=True)
class _Solid:
    """A collision shape as a set of points and the radius around them, which do not depend on how it is described."""

    type: int
    """MuJoCo's type of shape."""
    radius: float
    """Radius; 0 for a box."""
    points: np.ndarray
    """Centre of a sphere, ends of a capsule's or cylinder's axis, corners of a box."""
    link: str
    """Link whose contact it is."""

    def distance(self, other: _Solid) -> float:
        """Return how far the shapes are apart: the largest difference of points or radii."""
        if self.type != other.type:
            return np.inf
        gaps = np.linalg.norm(self.points[:, None] - other.points, axis=2)
        return max(gaps.min(axis=0).max(), gaps.min(axis=1).max(), abs(self.radius - other.radius))


@dataclass(frozen=True)
class _Part:
    """A body in the default pose, everything in the frame of the base."""

    name: str
    """Name of the body."""
    parent: int
    """Number of its parent; -1 for the base."""
    joint: str
    """Name of the joint; empty for the base."""
    position: np.ndarray
    """Origin of the body, through which the axis of its joint goes."""
    rotation: np.ndarray
    """Orientation of its frame."""
    axis: np.ndarray
    """Axis of its joint; zero for the base."""
    mass: float
    """Mass."""
    com: np.ndarray
    """Centre of mass."""
    inertia: np.ndarray
    """Inertia about the centre of mass ``(3, 3)``."""
    solids: list[_Solid]
    """Collision shapes."""

    def reflected(self, reflection: np.ndarray) -> _Part:
        """Return the mirror image."""
        return replace(
            self,
            position=reflection * self.position,
            rotation=reflection[:, None] * self.rotation * reflection,
            axis=-reflection * self.axis,  # A pseudovector: the mirror image turns about it by the same angle.
            com=reflection * self.com,
            inertia=reflection[:, None] * self.inertia * reflection,
            solids=[replace(solid, points=solid.points * reflection) for solid in self.solids],
        )


def _parts(robot: Robot) -> list[_Part]:
    """Return the bodies in the default pose, in the order of the data file."""
    model = compile_model(robot, build_spec(robot))
    data = mujoco.MjData(model)
    data.qpos[:7] = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    data.qpos[joint_addresses(robot, model)[0]] = robot.default_pos
    mujoco.mj_kinematics(model, data)
    numbers = {body.name: i for i, body in enumerate(robot.bodies)}
    parts = []
    for body in robot.bodies:
        i = model.body(body.name).id
        frame = data.ximat[i].reshape(3, 3)
        solids = []
        for k, shape in enumerate(body.shapes):
            geom = model.geom(f"{body.name}/{k}").id
            solids.append(_solid(model, data, geom, robot.link_of(body, shape)))
        parts.append(
            _Part(
                name=body.name,
                parent=-1 if body.parent is None else numbers[body.parent],
                joint=body.joint.name if body.joint else "",
                position=data.xpos[i].copy(),
                rotation=data.xmat[i].reshape(3, 3).copy(),
                axis=data.xaxis[model.joint(body.joint.name).id].copy() if body.joint else np.zeros(3),
                mass=float(model.body_mass[i]),
                com=data.xipos[i].copy(),
                inertia=frame @ np.diag(model.body_inertia[i]) @ frame.T,
                solids=solids,
            )
        )
    return parts


def _solid(model: mujoco.MjModel, data: mujoco.MjData, geom: int, link: str) -> _Solid:
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        radius, points = 0.0, size * np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
    elif kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        radius, points = float(size[0]), np.zeros((1, 3))
    else:
        radius, points = float(size[0]), size[1] * np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]])
    return _Solid(kind, radius, data.geom_xpos[geom] + points @ data.geom_xmat[geom].reshape(3, 3).T, link)


def _pair(parts: list[_Part], reflection: np.ndarray) -> tuple[dict[int, int], dict[int, float], list[str]]:
    """Find the counterpart of each body, from the base outwards.

    Returns:
        Counterparts by number, whether the counterpart's joint turns the same way (1) or the other (-1), and what has
        no counterpart.
    """
    counterparts, signs, findings = {0: 0}, {0: 1.0}, []
    # Parents come first, so that of each body the counterpart of its parent is known, if it has one.
    for i, part in enumerate(parts):
        if part.parent not in counterparts:
            continue
        image = part.reflected(reflection)
        candidates = []
        for k, other in enumerate(parts):
            if other.parent == counterparts[part.parent]:
                sign = 1.0 if image.axis @ other.axis > 0.0 else -1.0
                apart, turned = (
                    float(np.linalg.norm(image.position - other.position)),
                    float(np.linalg.norm(image.axis - sign * other.axis)),
                )
                candidates.append((apart + turned, apart, turned, sign, k))
        if not candidates:
            findings.append(f"{part.joint}: {parts[counterparts[part.parent]].name} has no joint to mirror it.")
            continue
        _, apart, turned, sign, k = min(candidates)
        if max(apart, turned) > JOINT_TOLERANCE:
            findings.append(
                f"{part.joint}: in the default pose its mirror image is {1e3 * apart:.1f} mm and"
                f" {np.degrees(turned):.1f} degrees off {parts[k].joint}, the closest joint."
            )
            continue
        counterparts[i], signs[i] = k, sign
    unpaired = [parts[i].name for i, k in counterparts.items() if counterparts.get(k) != i]
    if unpaired and not findings:
        findings.append(f"{', '.join(unpaired)}: no pairs of mirror images, since joints lie on each other.")
    return counterparts, signs, findings


def _different_bodies(parts: list[_Part], counterparts: dict[int, int], reflection: np.ndarray) -> list[str]:
    """Return where masses and shapes differ from those of the mirror image."""
    findings = []
    for i, part in enumerate(parts):
        other = parts[counterparts[i]]
        image, pair = part.reflected(reflection), f"{part.name} and {other.name}" if part is not other else part.name
        mass = abs(image.mass - other.mass) / other.mass
        com = np.linalg.norm(image.com - other.com)
        inertia = np.abs(image.inertia - other.inertia).max() / np.abs(other.inertia).max()
        if mass > INERTIA_TOLERANCE:
            findings.append(f"{pair}: masses differ by {mass:.1%}, more than {INERTIA_TOLERANCE:.1%}.")
        if com > COM_TOLERANCE:
            findings.append(
                f"{pair}: centre of mass {1e3 * com:.3g} mm off its mirror image, more than {1e3 * COM_TOLERANCE:.3g}."
            )
        if inertia > INERTIA_TOLERANCE:
            findings.append(f"{pair}: inertia differs by {inertia:.1%}, more than {INERTIA_TOLERANCE:.1%}.")
        closest = [_closest(solid, other.solids) for solid in image.solids]
        lonely = [i for i, (distance, _) in enumerate(closest) if distance > SHAPE_TOLERANCE]
        if lonely:
            findings.append(f"{part.name}: shapes {lonely} have no mirror image on {other.name}.")
        elif sorted(k for _, k in closest) != list(range(len(other.solids))):
            findings.append(f"{pair}: collision shapes do not pair up.")
    return findings


def _different_joints(
    robot: Robot, parts: list[_Part], counterparts: dict[int, int], signs: dict[int, float]
) -> list[str]:
    """Return where limits and actuators differ from those of the mirror image."""
    findings = []
    for i, part in enumerate(parts[1:], start=1):
        joint, other = part.joint, parts[counterparts[i]].joint
        pair = f"{joint} and {other}" if joint != other else joint
        own, others = (np.array(robot.joints[name].range) - robot.default_pose[name] for name in (joint, other))
        if np.abs(np.sort(signs[i] * own) - others).max() > JOINT_TOLERANCE:
            findings.append(f"{pair}: limits are no mirror images, counted from the default pose.")
        if replace(robot.actuator_of(joint), joints=[]) != replace(robot.actuator_of(other), joints=[]):
            findings.append(f"{pair}: actuators differ.")
    return findings


def _different_roles(
    robot: Robot, parts: list[_Part], counterparts: dict[int, int], reflection: np.ndarray
) -> list[str]:
    """Return lists of names, which rewards and terminations read, that are not lists of mirror images."""
    names: dict[str, str] = {}
    for i, part in enumerate(parts):
        other = parts[counterparts[i]]
        names[part.joint], names[part.name] = other.joint, other.name
        for solid in part.reflected(reflection).solids:
            _, k = _closest(solid, other.solids)
            if k >= 0:
                names[solid.link] = other.solids[k].link
    roles = {"foot_links": robot.foot_links, "termination_links": robot.termination_links}
    roles |= {"undesired_contact_links": robot.undesired_contact_links}
    for group in robot.joint_groups:
        roles[f"joint_groups.{group}"] = [robot.joint_names[i] for i in robot.joint_indices(group)]
    return [
        f"{role}: holds {name}, but not its mirror image {names[name]}."
        for role, members in roles.items()
        for name in members
        if names[name] not in members
    ]


def _different_scan(
    robot: Robot, parts: list[_Part], counterparts: dict[int, int], reflection: np.ndarray
) -> list[str]:
    """Return whether the height scan is not where its mirror image is."""
    i = [part.name for part in parts].index(robot.height_scan_body)
    turned = np.abs(parts[i].reflected(reflection).rotation - parts[i].rotation).max()
    if counterparts[i] == i and turned < JOINT_TOLERANCE:
        return []
    return [f"height_scan_body: {robot.height_scan_body} is not its own mirror image, or its frame is turned."]


def _closest(solid: _Solid, others: list[_Solid]) -> tuple[float, int]:
    """Return the distance and number of the closest of some shapes; -1 if there are none."""
    return min(((solid.distance(other), k) for k, other in enumerate(others)), default=(np.inf, -1))
