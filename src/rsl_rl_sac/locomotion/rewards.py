# SPDX-License-Identifier: BSD-3-Clause

"""Reward terms of Isaac Lab's velocity tasks (Isaac Lab 2.3.2, BSD-3-Clause; the paper's Appendix B)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rsl_rl_sac.locomotion.robot import Robot
from rsl_rl_sac.locomotion.scene import sensor_links
from rsl_rl_sac.locomotion.state import RobotState
from rsl_rl_sac.utils.errors import ConfigError

TRACKING_STD = 0.5
"""Width of the tracking kernels ``exp(-error^2 / std^2)``."""

MOVING_COMMAND = 0.1
"""Horizontal command in m/s above which air time counts."""


@dataclass(frozen=True)
class RewardTerm:
    """One term of the reward."""

    weight: float
    """Factor; a term with weight 0 is not computed."""
    function: str
    """Name of a function of this module."""
    joints: str = "all"
    """Group of joints the term sums over."""
    threshold: float = 0.5
    """Threshold in seconds of the air time."""


@dataclass
class StepView:
    """What the terms of one step read."""

    state: RobotState
    """State after the step, before any reset."""
    command: np.ndarray
    """Commands in force during the step."""
    action: np.ndarray
    """Actions of the step."""
    previous_action: np.ndarray
    """Actions of the step before."""
    terminated: np.ndarray
    """Whether each robot fell."""
    diverged: np.ndarray
    """Whether each simulation broke, which earns nothing."""


TRACKING_TERMS = ("track_lin_vel_xy_exp", "track_ang_vel_z_exp")
"""Names of the terms that say how well the command is followed."""


class Rewards:
    """The weighted sum of terms, and its sums over the episode for the log."""

    def __init__(self, robot: Robot, terms: Mapping[str, RewardTerm], num_envs: int, step_dt: float) -> None:
        """Resolve the terms.

        Args:
            robot: Robot.
            terms: Terms by the name they are logged under.
            num_envs: Number of environments.
            step_dt: Seconds per control step, by which every weight is multiplied.
        """
        self.names = [name for name, term in terms.items() if term.weight != 0.0]
        self._terms = [_Term(robot, terms[name]) for name in self.names]
        self.weights = np.array([terms[name].weight * step_dt for name in self.names], dtype=np.float32)
        self.last = np.zeros((num_envs, len(self.names)), dtype=np.float32)
        self.episode_sums = np.zeros((num_envs, len(self.names)), dtype=np.float32)
        has_tracking = set(TRACKING_TERMS) <= set(self.names)
        self._tracking_columns = [self.names.index(name) for name in TRACKING_TERMS] if has_tracking else []

    def compute(self, view: StepView) -> np.ndarray:
        """Return the rewards of one step; the weighted terms are left in :attr:`last`."""
        for column, term in enumerate(self._terms):
            self.last[:, column] = term(view)
        self.last *= self.weights
        self.last[view.diverged] = 0.0
        self.episode_sums += self.last
        return self.last.sum(axis=1)

    @property
    def tracking(self) -> np.ndarray:
        """How well each environment tracked its velocity and its turning speed in the last step, 0 to 1 ``(N, 2)``.

        ``(N, 0)`` for a task without both of the terms.
        """
        return self.last[:, self._tracking_columns] / self.weights[self._tracking_columns]

    def reset(self, rows: np.ndarray, episode_length: float) -> dict[str, float]:
        """Clear the sums of some environments; return their means per second of a full episode, for the log."""
        means = self.episode_sums[rows].mean(axis=0) / episode_length
        self.episode_sums[rows] = 0.0
        return {f"Episode_Reward/{name}": float(mean) for name, mean in zip(self.names, means, strict=True)}


class _Term:
    """A term with its robot's indices resolved."""

    def __init__(self, robot: Robot, term: RewardTerm) -> None:
        if term.function not in FUNCTIONS:
            raise ConfigError(f"There is no reward function '{term.function}'; there are {', '.join(FUNCTIONS)}.")
        self.function = FUNCTIONS[term.function]
        self.threshold = term.threshold
        # A slice where all joints count, which spares a copy.
        indices = robot.joint_indices(term.joints)
        self.joints = slice(None) if term.joints == "all" else indices
        lower, upper = (limit.astype(np.float32)[indices] for limit in robot.soft_limits)
        self.lower, self.upper = lower, upper
        self.default_pos = robot.default_pos.astype(np.float32)[indices]
        self.undesired_links = [sensor_links(robot).index(link) for link in robot.undesired_contact_links]
        if self.function is feet_slide and not {body.name for body in robot.bodies}.issuperset(robot.foot_links):
            raise ConfigError(f"{robot.name}: feet_slide needs feet that are bodies of their own.")

    def __call__(self, view: StepView) -> np.ndarray:
        return self.function(view, self)


def track_lin_vel_xy(view: StepView, term: _Term) -> np.ndarray:
    """Track the horizontal command in the root frame."""
    return _kernel(_square_sum(view.command[:, :2] - view.state.lin_vel[:, :2]))


def track_lin_vel_xy_yaw_frame(view: StepView, term: _Term) -> np.ndarray:
    """Track the horizontal command in the gravity-aligned frame."""
    return _kernel(_square_sum(view.command[:, :2] - view.state.lin_vel_yaw))


def track_ang_vel_z(view: StepView, term: _Term) -> np.ndarray:
    """Track the turning command in the root frame."""
    return _kernel((view.command[:, 2] - view.state.ang_vel[:, 2]) ** 2)


def track_ang_vel_z_world(view: StepView, term: _Term) -> np.ndarray:
    """Track the turning command about the vertical."""
    return _kernel((view.command[:, 2] - view.state.ang_vel_z_world) ** 2)


def lin_vel_z(view: StepView, term: _Term) -> np.ndarray:
    """Square of the vertical velocity in the root frame."""
    return view.state.lin_vel[:, 2] ** 2


def ang_vel_xy(view: StepView, term: _Term) -> np.ndarray:
    """Square of the rolling and pitching speed."""
    return _square_sum(view.state.ang_vel[:, :2])


def joint_torques(view: StepView, term: _Term) -> np.ndarray:
    """Square of the torques applied in the last physics step."""
    return _square_sum(view.state.joint_torque[:, term.joints])


def joint_accelerations(view: StepView, term: _Term) -> np.ndarray:
    """Square of the joint accelerations over the last physics step."""
    return _square_sum(view.state.joint_acc[:, term.joints])


def action_rate(view: StepView, term: _Term) -> np.ndarray:
    """Square of the change of the actions."""
    return _square_sum(view.action - view.previous_action)


def feet_air_time(view: StepView, term: _Term) -> np.ndarray:
    """Time each foot was in the air beyond the threshold, at touch-down, if asked to move."""
    state = view.state
    air_time = ((state.last_air_time - term.threshold) * state.first_contact).sum(axis=1)
    return air_time * _is_moving(view)


def feet_air_time_biped(view: StepView, term: _Term) -> np.ndarray:
    """Time of single stance up to the threshold: the shorter of stance and swing time, if asked to move."""
    state = view.state
    in_contact = state.contact_time > 0.0
    single_stance = in_contact.sum(axis=1) == 1
    mode_time = np.where(in_contact, state.contact_time, state.air_time).min(axis=1)
    return np.minimum(mode_time, term.threshold) * single_stance * _is_moving(view)


def undesired_contacts(view: StepView, term: _Term) -> np.ndarray:
    """Count links in contact that should not be."""
    return view.state.recent_contacts[:, term.undesired_links].sum(axis=1)


def feet_slide(view: StepView, term: _Term) -> np.ndarray:
    """Horizontal speed of feet that touch the ground."""
    state = view.state
    speed = np.sqrt(_square_sum(state.foot_velocity[..., :2]))
    return (speed * state.recent_contacts[:, state.feet]).sum(axis=1)


def flat_orientation(view: StepView, term: _Term) -> np.ndarray:
    """Square of the horizontal part of projected gravity."""
    return _square_sum(view.state.gravity[:, :2])


def joint_pos_limits(view: StepView, term: _Term) -> np.ndarray:
    """Distance of the joints outside of their soft limits."""
    position = view.state.joint_pos[:, term.joints]
    return (np.maximum(term.lower - position, 0.0) + np.maximum(position - term.upper, 0.0)).sum(axis=1)


def joint_deviation(view: StepView, term: _Term) -> np.ndarray:
    """Distance of the joints from the default pose."""
    return np.abs(view.state.joint_pos[:, term.joints] - term.default_pos).sum(axis=1)


def is_terminated(view: StepView, term: _Term) -> np.ndarray:
    """One if the robot fell."""
    return view.terminated


FUNCTIONS: dict[str, Callable[[StepView, _Term], np.ndarray]] = {
    function.__name__: function
    for function in (
        track_lin_vel_xy,
        track_lin_vel_xy_yaw_frame,
        track_ang_vel_z,
        track_ang_vel_z_world,
        lin_vel_z,
        ang_vel_xy,
        joint_torques,
        joint_accelerations,
        action_rate,
        feet_air_time,
        feet_air_time_biped,
        undesired_contacts,
        feet_slide,
        flat_orientation,
        joint_pos_limits,
        joint_deviation,
        is_terminated,
    )
}
"""Reward functions by name."""


def _square_sum(values: np.ndarray) -> np.ndarray:
    return np.einsum("...i,...i->...", values, values)


def _kernel(square_error: np.ndarray) -> np.ndarray:
    return np.exp(square_error * (-1.0 / TRACKING_STD**2))


def _is_moving(view: StepView) -> np.ndarray:
    return _square_sum(view.command[:, :2]) > MOVING_COMMAND**2
