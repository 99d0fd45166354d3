# SPDX-License-Identifier: BSD-3-Clause

"""A robot of three joints without a simulator, and environments around it that step and reset in Isaac Lab's order.

The robot moves half of the way to its targets in every step, so that all observations can be worked out by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

NUM_ENVS = 4
EPISODE_STEPS = 5
FAILURE_ANGLE = 0.9
"""Angle of the hip beyond which an episode fails."""

JOINTS = ["hip", "knee", "wheel"]
DEFAULT_POSE = (0.1, -0.2, 0.3)
SOFT_LIMITS = ((-0.9, 1.1), (-1.2, 0.3), (-float("inf"), float("inf")))
SCALE = {"hip": 0.5, "knee": 0.25}
DRIVEN = ["knee", "hip"]
"""Joints of the actions, in an order that is not the robot's."""

NOISE = 0.01
"""Largest noise on an angle."""


class Robot:
    """What Isaac Lab's managers ask of an articulation."""

    num_joints = len(JOINTS)

    def __init__(self) -> None:
        """Stand in the default pose."""
        default = torch.tensor(DEFAULT_POSE).repeat(NUM_ENVS, 1)
        limits = torch.tensor(SOFT_LIMITS).repeat(NUM_ENVS, 1, 1)
        self.data = SimpleNamespace(
            joint_pos=default.clone(), default_joint_pos=default, soft_joint_pos_limits=limits, joint_names=JOINTS
        )
        self.target = default.clone()

    def find_joints(self, names: list[str], preserve_order: bool = False) -> tuple[list[int], list[str]]:
        """Return indices and names of joints, in the given order or in the robot's."""
        names = names if preserve_order else sorted(names, key=JOINTS.index)
        return [JOINTS.index(name) for name in names], list(names)

    def set_joint_position_target(self, target: torch.Tensor, joint_ids: list[int]) -> None:
        """Remember targets."""
        self.target[:, joint_ids] = target


class Scene(dict):
    """A scene with the robot."""

    num_envs = NUM_ENVS

    def __init__(self) -> None:
        """Put the robot in."""
        super().__init__(robot=Robot())

    def write_data_to_sim(self) -> None:
        """Do nothing: targets are read from the robot."""

    def update(self, dt: float) -> None:
        """Move half of the way."""
        robot: Robot = self["robot"]
        robot.data.joint_pos = robot.data.joint_pos + 0.5 * (robot.target - robot.data.joint_pos)

    def reset(self, env_ids: torch.Tensor) -> None:
        """Go back to the default pose."""
        robot: Robot = self["robot"]
        robot.data.joint_pos = robot.data.joint_pos.clone()
        robot.data.joint_pos[env_ids] = robot.data.default_joint_pos[env_ids]
        robot.target[env_ids] = robot.data.default_joint_pos[env_ids]


class JointPositionAction:
    """An action term with the names of Isaac Lab's."""

    def __init__(self, robot: Robot, clip: dict[str, tuple[float, float]] | None = None) -> None:
        """Resolve the joints."""
        self.cfg = SimpleNamespace(asset_name="robot", clip=clip)
        self._robot = robot
        self._joint_ids, self._joint_names = robot.find_joints(DRIVEN, preserve_order=True)
        self._scale = torch.tensor([SCALE[name] for name in DRIVEN]).repeat(NUM_ENVS, 1)
        self._offset = robot.data.default_joint_pos[:, self._joint_ids]
        if clip is not None:
            unbounded = (-float("inf"), float("inf"))
            self._clip = torch.tensor([clip.get(name, unbounded) for name in DRIVEN]).repeat(NUM_ENVS, 1, 1)

    def apply(self, actions: torch.Tensor) -> None:
        """Set targets."""
        self._robot.set_joint_position_target(self._scale * actions + self._offset, self._joint_ids)


class JointEffortAction:
    """A term that sets torques."""


class ActionManager:
    """One action term."""

    active_terms = ("joint_pos",)
    total_action_dim = len(DRIVEN)

    def __init__(self, term: object) -> None:
        """Keep the term."""
        self.term = term

    def get_term(self, name: str) -> object:
        """Return the term."""
        return self.term


class History:
    """The last frames, the oldest first; the first frame after a reset fills all."""

    def __init__(self, length: int) -> None:
        """Make room."""
        self.frames = torch.zeros(NUM_ENVS, length, len(JOINTS))
        self.is_empty = torch.ones(NUM_ENVS, dtype=torch.bool)

    def append(self, frame: torch.Tensor) -> None:
        """Add the newest frame, in place."""
        self.frames[:] = torch.cat([self.frames[:, 1:], frame.unsqueeze(1)], dim=1)
        self.frames[self.is_empty] = frame[self.is_empty].unsqueeze(1)
        self.is_empty[:] = False


class Integral:
    """A modifier or a term with a memory: what it returns depends on how often it was called."""

    def __init__(self) -> None:
        """Start at zero."""
        self.total = torch.zeros(NUM_ENVS, len(JOINTS))

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Return the sum of all values so far."""
        self.total += values
        return self.total.clone()


class ObservationManager:
    """One group, ``policy``: the angles, with what is asked for of noise, modifier, history, and a delay by a step."""

    def __init__(self, robot: Robot, history: int, noise: bool, modifier: bool, class_term: bool, delay: bool) -> None:
        """Keep the settings."""
        self.robot, self.noise = robot, noise
        if delay:  # of newer versions only
            self._group_obs_term_delay_buffer = {"policy": {"joint_pos": History(2)}}
        self._group_obs_term_history_buffer = {"policy": {"joint_pos": History(history)} if history else {}}
        self._group_obs_class_instances = [Integral()] if modifier else []
        self._group_obs_class_term_cfgs = {"policy": [SimpleNamespace(func=Integral())] if class_term else []}

    def compute(self, update_history: bool = False) -> dict[str, torch.Tensor]:
        """Return the observations; a history is told only if it is asked for."""
        values = self.robot.data.joint_pos.clone()
        for integral in self._integrals():
            values = integral(values)
        if self.noise:
            values = values + NOISE * (2.0 * torch.rand_like(values) - 1.0)
        for delay in self._delays():
            if update_history:
                delay.append(values)
            return {"policy": delay.frames[:, 0].clone()}
        for history in self._group_obs_term_history_buffer["policy"].values():
            if update_history:
                history.append(values)
            return {"policy": history.frames.reshape(NUM_ENVS, -1).clone()}
        return {"policy": values}

    def reset(self, env_ids: torch.Tensor) -> None:
        """Forget."""
        for history in [*self._group_obs_term_history_buffer["policy"].values(), *self._delays()]:
            history.is_empty[env_ids] = True
        for integral in self._integrals():
            integral.total[env_ids] = 0.0

    def _delays(self) -> list[History]:
        return list(getattr(self, "_group_obs_term_delay_buffer", {"policy": {}})["policy"].values())

    def _integrals(self) -> list[Integral]:
        return [*(term.func for term in self._group_obs_class_term_cfgs["policy"]), *self._group_obs_class_instances]


class CountingNoise:
    """A noise model with a memory: it adds 1000 in its first call, 2000 in the second."""

    def __init__(self) -> None:
        """Start at zero."""
        self.calls = torch.zeros(1)

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Return the values with this noise."""
        self.calls += 1
        return values + 1000.0 * self.calls

    def reset(self, env_ids: torch.Tensor) -> None:
        """Do nothing."""


class _Env:
    """Episodes and resets."""

    num_envs = NUM_ENVS
    device = "cpu"
    max_episode_length = EPISODE_STEPS

    def __init__(self, is_finite_horizon: bool = False) -> None:
        self.cfg = SimpleNamespace(is_finite_horizon=is_finite_horizon, observation_noise_model=None)
        self.unwrapped = self
        self.scene = Scene()
        self.robot: Robot = self.scene["robot"]
        self.extras: dict = {}
        self.episode_length_buf = torch.zeros(NUM_ENVS, dtype=torch.long)
        self.reset_terminated = torch.zeros(NUM_ENVS, dtype=torch.bool)
        self.reset_time_outs = torch.zeros(NUM_ENVS, dtype=torch.bool)

    def _advance(self) -> torch.Tensor:
        """Move, count, and say which episodes ended."""
        self.scene.update(dt=0.1)
        self.episode_length_buf += 1
        self.reset_terminated[:] = self.robot.data.joint_pos[:, 0] > FAILURE_ANGLE
        self.reset_time_outs[:] = self.episode_length_buf >= EPISODE_STEPS
        return (self.reset_terminated | self.reset_time_outs).nonzero().flatten()

    def _reset_idx(self, env_ids: torch.Tensor) -> None:
        self.scene.reset(env_ids)
        self.extras["log"] = {"Episode_Termination/time_out": int(self.reset_time_outs[env_ids].sum())}
        self.episode_length_buf[env_ids] = 0

    def close(self) -> None:
        """Do nothing."""


class ManagerBasedEnv(_Env):
    """Steps in the order of Isaac Lab's ``ManagerBasedRLEnv``."""

    def __init__(
        self,
        history: int = 0,
        noise: bool = False,
        modifier: bool = False,
        class_term: bool = False,
        clip: dict[str, tuple[float, float]] | None = None,
        is_finite_horizon: bool = False,
        has_final_obs: bool = False,
        delay: bool = False,
    ) -> None:
        """Build managers; ``has_final_obs`` makes it a version of Isaac Lab that knows ``compute_final_obs``."""
        super().__init__(is_finite_horizon)
        if has_final_obs:
            self.cfg.compute_final_obs = False
        self.action_manager = ActionManager(JointPositionAction(self.robot, clip))
        self.observation_manager = ObservationManager(self.robot, history, noise, modifier, class_term, delay)

    def reset(self) -> tuple[dict, dict]:
        """Reset all."""
        self._reset_idx(torch.arange(NUM_ENVS))
        return self.observation_manager.compute(update_history=True), self.extras

    def step(self, actions: torch.Tensor) -> tuple[dict, torch.Tensor, torch.Tensor, torch.Tensor, dict]:
        """Step, reset those that ended, observe."""
        self.action_manager.term.apply(actions)  # type: ignore[attr-defined]
        ended = self._advance()
        rewards = self.robot.data.joint_pos[:, 0]
        if len(ended) > 0:
            if getattr(self.cfg, "compute_final_obs", False):
                self.extras["final_obs"] = self.observation_manager.compute()
            self._reset_idx(ended)
        obs = self.observation_manager.compute(update_history=True)
        return obs, rewards, self.reset_terminated, self.reset_time_outs, self.extras

    def _reset_idx(self, env_ids: torch.Tensor) -> None:
        super()._reset_idx(env_ids)
        self.observation_manager.reset(env_ids)


class DirectEnv(_Env):
    """Steps in the order of Isaac Lab's ``DirectRLEnv``; observing it has a side effect, and it reuses its tensors."""

    single_action_space = SimpleNamespace(shape=(len(DRIVEN),))

    def __init__(self, noise: bool = False) -> None:
        """Allocate."""
        super().__init__()
        self.cfg.observation_noise_model = noise
        self._observation_noise_model = CountingNoise()
        self.term = JointPositionAction(self.robot)
        self.num_observed = torch.zeros(1)
        self.obs = torch.zeros(NUM_ENVS, len(JOINTS))
        self.action_bounds: Sequence[torch.Tensor] | None = None

    def reset(self) -> tuple[dict, dict]:
        """Reset all."""
        self._reset_idx(torch.arange(NUM_ENVS))
        return self._get_observations(), self.extras

    def step(self, actions: torch.Tensor) -> tuple[dict, torch.Tensor, torch.Tensor, torch.Tensor, dict]:
        """Step, reset those that ended, observe."""
        self.term.apply(actions)
        ended = self._advance()
        rewards = self.robot.data.joint_pos[:, 0]
        if len(ended) > 0:
            self._reset_idx(ended)
        obs = self._get_observations()
        if self.cfg.observation_noise_model:
            obs["policy"] = self._observation_noise_model(obs["policy"])
        return obs, rewards, self.reset_terminated, self.reset_time_outs, self.extras

    def _get_observations(self) -> dict:
        self.num_observed += 1
        self.obs[:] = self.robot.data.joint_pos
        return {"policy": self.obs}


class Wrapper(VecEnv):
    """What Isaac Lab's ``RslRlVecEnvWrapper`` does."""

    def __init__(self, env: ManagerBasedEnv | DirectEnv, clip_actions: float | None = None) -> None:
        """Wrap and reset."""
        self.env, self.unwrapped, self.clip_actions = env, env, clip_actions
        self.num_envs, self.device, self.num_actions = NUM_ENVS, "cpu", len(DRIVEN)
        self.max_episode_length = EPISODE_STEPS
        env.reset()

    @property
    def cfg(self) -> object:
        """Configuration of the environment."""
        return self.env.cfg

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps since the last reset."""
        return self.env.episode_length_buf

    @episode_length_buf.setter
    def episode_length_buf(self, value: torch.Tensor) -> None:
        self.env.episode_length_buf = value

    def get_observations(self) -> TensorDict:
        """Compute the observations once more."""
        manager = getattr(self.env, "observation_manager", None)
        obs = self.env._get_observations() if manager is None else manager.compute()  # type: ignore[union-attr]
        return TensorDict(obs, batch_size=[NUM_ENVS])

    def reset(self) -> tuple[TensorDict, dict]:
        """Reset all."""
        obs, extras = self.env.reset()
        return TensorDict(obs, batch_size=[NUM_ENVS]), extras

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        """Step; ``extras`` is the environment's own dictionary."""
        obs, rewards, terminated, truncated, extras = self.env.step(actions)
        if not self.env.cfg.is_finite_horizon:
            extras["time_outs"] = truncated
        return TensorDict(obs, batch_size=[NUM_ENVS]), rewards, (terminated | truncated).long(), extras

    def close(self) -> None:
        """Close the environment."""
        self.env.close()
