# SPDX-License-Identifier: BSD-3-Clause

"""Isaac Lab: its environments, manager-based and direct, in the contract of this package.

Nothing here imports Isaac Lab, most of which can only be imported once the simulator runs.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.util
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rsl_rl_sac.envs.action_bounds import action_term_bounds
from rsl_rl_sac.utils.errors import ConfigError, EnvContractError, MissingDependencyError


class IsaacLabVecEnv(VecEnv):
    """Isaac Lab's environments for rsl_rl, with action bounds and the observations before a reset.

    Isaac Lab resets environments inside ``step``. Versions with the setting ``compute_final_obs`` can pass on the last
    observation of an episode themselves; for all others, and for observations with a history, it is taken at the reset.
    """

    def __init__(self, env: Any) -> None:  # noqa: ANN401
        """Wrap environments.

        Args:
            env: Isaac Lab's own ``RslRlVecEnvWrapper``, as its scripts build it.
        """
        self.env = env
        self.num_envs = env.num_envs
        self.num_actions = env.num_actions
        self.max_episode_length = env.max_episode_length
        self.device = env.device
        self._reset_hook = None if _passes_final_obs(self.unwrapped) else ResetHook(self.unwrapped)
        self._obs: TensorDict | None = None

    @property
    def unwrapped(self) -> Any:  # noqa: ANN401  (Isaac Lab has no common class of its environments)
        """The environment itself."""
        return self.env.unwrapped

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

    @property
    def action_bounds(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Bounds of the policy's output, from the soft limits of the joints that each action term drives.

        An environment with ``action_bounds`` of its own, as a direct one may have, is taken at its word.

        Raises:
            EnvContractError: If a term does not set joint positions, one of its joints has no limits, or a direct
                environment does not say what its actions are.
        """
        low, high = _own_action_bounds(self.unwrapped) or _manager_action_bounds(self.unwrapped)
        clip = self.env.clip_actions  # Isaac Lab cuts actions off there
        return (low, high) if clip is None else (low.clamp(min=-clip), high.clamp(max=clip))

    def get_observations(self) -> TensorDict:
        """Return the observations of the last step or reset."""
        return self.env.get_observations() if self._obs is None else self._obs

    def reset(self) -> tuple[TensorDict, dict]:
        """Reset all environments."""
        obs, extras = self.env.reset()
        self._obs = obs.clone()
        return self._obs, extras

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        """Step all environments; Isaac Lab resets those that ended."""
        obs, rewards, dones, extras = self.env.step(actions)
        self._obs = obs.clone()  # some environments fill the same tensors at every step
        return self._obs, rewards.clone(), dones, self.complete(extras)

    def complete(self, extras: dict) -> dict:
        """Return what Isaac Lab's ``step`` reported, with time-outs and final observations as the contract wants them.

        Args:
            extras: Of the step that was just made. The dictionary is Isaac Lab's own and is left as it is.
        """
        extras = dict(extras)
        if "time_outs" in extras:  # not in tasks with a finite horizon
            extras["time_outs"] = extras["time_outs"] & ~self.unwrapped.reset_terminated
        final_obs = extras.pop("final_obs", None) if self._reset_hook is None else self._reset_hook.take()
        if final_obs is not None:
            extras["final_obs"] = TensorDict(final_obs, batch_size=[self.num_envs])
        return extras

    def close(self) -> None:
        """Close the environments."""
        self.env.close()


class ResetHook:
    """Takes the place of an environment's ``_reset_idx`` and keeps the observations of the moment before."""

    def __init__(self, env: Any) -> None:  # noqa: ANN401
        """Put the hook in place.

        Args:
            env: Environment of Isaac Lab, without wrappers.
        """
        self._env = env
        self._reset = env._reset_idx
        self._obs: dict | None = None
        env._reset_idx = self

    def __call__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        """Observe, then reset."""
        self._obs = observe_before_reset(self._env)
        self._reset(*args, **kwargs)

    def take(self) -> dict | None:
        """Return the observations before the last reset, None if there was none since they were taken."""
        obs, self._obs = self._obs, None
        return obs


def observe_before_reset(env: Any) -> dict:  # noqa: ANN401
    """Return the observations that a step would return if no environment was reset, and change nothing.

    Histories get the newest frame, which they have not seen yet, and noise is drawn. Histories, modifiers, noise models
    and terms with a memory work on copies: in the same step they are asked once more, and shall not notice.

    Args:
        env: Environment of Isaac Lab, without wrappers, in the middle of a step.
    """
    if hasattr(env, "observation_manager"):
        with _on_copies(_observers(env.observation_manager)):
            return env.observation_manager.compute(update_history=True)
    noise_model = getattr(env, "_observation_noise_model", None) if env.cfg.observation_noise_model else None
    with _on_copies([env] if noise_model is None else [env, noise_model]):
        obs = copy.deepcopy(env._get_observations())
        if noise_model is not None:
            obs["policy"] = noise_model(obs["policy"])  # as Isaac Lab does after it: not what the critic alone sees
        return obs


def isaaclab_world() -> NoReturn:
    """Say how tasks of Isaac Lab are trained.

    They are no world: its simulator has one scene in a process, while a training here has two, one for evaluations.

    Raises:
        MissingDependencyError: If Isaac Lab is not installed.
        ConfigError: Otherwise.
    """
    if importlib.util.find_spec("isaaclab") is None:
        raise MissingDependencyError("Tasks of Isaac Lab need Isaac Lab and its simulator (docs/isaaclab.md).")
    raise ConfigError(
        "Tasks of Isaac Lab are trained by its own script (docs/isaaclab.md): train.py --task TASK"
        " --agent rsl_rl_sac_cfg_entry_point --external_callback rsl_rl_sac.tasks.isaaclab.register"
    )


def _passes_final_obs(env: Any) -> bool:  # noqa: ANN401
    """Return whether Isaac Lab itself passes complete final observations on, after switching it on where that helps."""
    if not hasattr(env.cfg, "compute_final_obs"):
        return False
    if hasattr(env, "observation_manager"):
        if _memories(env.observation_manager):  # it computes them without the newest frame, and steps memories twice
            return False
        env.cfg.compute_final_obs = True
    return env.cfg.compute_final_obs  # direct environments may look at it when they are built: it is too late to set it


def _memories(manager: Any) -> list[object]:  # noqa: ANN401
    """Return everything with a memory in an observation manager: histories, delays, modifiers, noise models, terms."""
    delays = getattr(manager, "_group_obs_term_delay_buffer", {})  # newer versions only
    groups = [*manager._group_obs_term_history_buffer.values(), *delays.values()]
    terms = [term.func for group in manager._group_obs_class_term_cfgs.values() for term in group]
    return [*(buffer for group in groups for buffer in group.values()), *manager._group_obs_class_instances, *terms]


def _observers(manager: Any) -> list[object]:  # noqa: ANN401
    """Return everything that computing observations may change."""
    return [manager, *_memories(manager)]


@contextlib.contextmanager
def _on_copies(instances: Iterable[object]) -> Iterator[None]:
    """Let instances work on copies of their tensors and containers, and have their own back afterwards."""
    originals = [(instance, dict(vars(instance))) for instance in instances]
    for instance, attributes in originals:
        vars(instance).update({name: _copied(value) for name, value in attributes.items()})
    try:
        yield
    finally:
        for instance, attributes in originals:
            vars(instance).clear()
            vars(instance).update(attributes)


def _copied(value: object) -> object:
    """Copy what an observation term may keep numbers in; all else, as the environment itself, is shared."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if type(value) is dict:
        return {name: _copied(entry) for name, entry in value.items()}
    if type(value) in (list, deque):
        return type(value)(_copied(entry) for entry in value)  # type: ignore[attr-defined]
    if type(value).__module__.startswith("isaaclab.utils.buffers"):  # for histories and delays
        return copy.deepcopy(value)
    return value


def _own_action_bounds(env: Any) -> tuple[torch.Tensor, torch.Tensor] | None:  # noqa: ANN401
    bounds = getattr(env, "action_bounds", None)
    if bounds is None and not hasattr(env, "action_manager"):
        raise EnvContractError(
            f"No action bounds: the direct environment {type(env).__name__} does not say what its actions are. Give it"
            " an attribute action_bounds, or set algorithm.action_bounds to [low, high]."
        )
    return bounds


def _manager_action_bounds(env: Any) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: ANN401
    """Return the bounds of all action terms, one after the other."""
    bounds = []
    for name in env.action_manager.active_terms:
        term = env.action_manager.get_term(name)
        # By name: Isaac Lab has this class more than once, for torch and for Warp.
        if "JointPositionAction" not in (base.__name__ for base in type(term).__mro__):
            raise EnvContractError(
                f"No action bounds for the action term '{name}': a {type(term).__name__} does not set joint positions."
                " Set algorithm.action_bounds to [low, high]."
            )
        limits = _as_tensor(env.scene[term.cfg.asset_name].data.soft_joint_pos_limits)[:, term._joint_ids]
        clip = term._clip if term.cfg.clip is not None else None
        bounds.append(action_term_bounds(term._scale, term._offset, limits, term._joint_names, clip))
    low, high = (torch.cat(parts) for parts in zip(*bounds, strict=True))
    return low, high


def _as_tensor(values: Any) -> torch.Tensor:  # noqa: ANN401
    """Return data of an asset as a tensor: Isaac Lab 3 keeps it in Warp's arrays, some with a view for torch."""
    if isinstance(values, torch.Tensor):
        return values
    if hasattr(values, "torch"):
        return values.torch
    return importlib.import_module("warp").to_torch(values)
