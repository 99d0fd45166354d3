# SPDX-License-Identifier: BSD-3-Clause

"""Gymnasium: its vector environments in the contract of this package, and its tasks as a world."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rsl_rl_sac.envs.evaluation import EVALUATION_SEED, EpisodeOutcomes, EpisodeScore, Policy, run_episodes
from rsl_rl_sac.envs.worlds import World
from rsl_rl_sac.utils.config_base import one_line
from rsl_rl_sac.utils.errors import ConfigError, EnvContractError, MissingDependencyError

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
    from gymnasium.wrappers import FlattenObservation
except ImportError as error:  # missing, or of a time before autoreset modes
    raise MissingDependencyError(
        "Tasks of Gymnasium need gymnasium >= 1.1: pip install --upgrade 'gymnasium[mujoco]'."
    ) from error

DEFAULT_EPISODE_LENGTH = 1000
"""Time limit of environments that have none. Time-outs bootstrap, so it changes what is visited, not what is best."""


class GymnasiumVecEnv(VecEnv):
    """A vector environment of Gymnasium for rsl_rl, with any autoreset mode.

    Observations become the group ``policy``, or those of a ``Dict`` one group each, flattened and in torch's default
    type. The box of the actions gives the action bounds. :attr:`episode_length_buf` is heeded: an environment whose
    count reaches the time limit ends by time, also if the count was set by hand; not in the mode ``SAME_STEP`` of
    vector environments that take no ``reset_mask``, where only Gymnasium's own limit counts.

    Where it can, the adapter resets the environments that ended itself, with Gymnasium's ``reset_mask``. So in the
    mode ``NEXT_STEP`` there are no steps that only reset and ignore their action.
    """

    def __init__(
        self,
        vector_env: VectorEnv,
        seed: int | None = None,
        max_episode_length: int | None = None,
        device: str = "cpu",
    ) -> None:
        """Wrap a vector environment and reset it.

        Args:
            vector_env: ``SyncVectorEnv``, ``AsyncVectorEnv``, wrappers around them, or another vector environment in
                mode ``SAME_STEP`` or ``DISABLED``.
            seed: Seed of the first environment, the others count on; None takes one from the operating system.
            max_episode_length: Time limit; None takes that of the task, or :data:`DEFAULT_EPISODE_LENGTH`.
            device: Device of the tensors that are returned.

        Raises:
            EnvContractError: If the spaces or the autoreset mode are not of a kind that can be used.
        """
        self.vector_env = vector_env
        self.num_envs = vector_env.num_envs
        self.device = device
        self.action_bounds = box_bounds(vector_env.single_action_space, device)
        self.num_actions = self.action_bounds[0].shape[0]
        check_observation_space(vector_env.single_observation_space)
        self.autoreset_mode = _autoreset_mode(vector_env)
        self.max_episode_length = max_episode_length or _time_limit(vector_env) or DEFAULT_EPISODE_LENGTH
        spec = vector_env.spec
        self.cfg = {"task": spec.id if spec is not None else repr(vector_env)}
        self._resets_rows = self.autoreset_mode != AutoresetMode.SAME_STEP or _takes_reset_mask(vector_env)
        if max_episode_length is not None and not self._resets_rows:
            raise EnvContractError(
                "max_episode_length cannot be kept: a vector environment that resets by itself in the same step, and"
                " takes no reset_mask, has only the time limit of its task (gymnasium.wrappers.TimeLimit sets it)."
            )
        self.reset(seed)

    def get_observations(self) -> TensorDict:
        """Return the observations of the last step or reset."""
        return self._obs.clone()

    def reset(self, seed: int | None = None) -> tuple[TensorDict, dict]:
        """Reset all environments.

        Args:
            seed: Seed of the first environment, the others count on; None lets their generators go on.
        """
        obs, _ = self.vector_env.reset(seed=seed)
        self._obs = self._observations(obs)
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        return self.get_observations(), {}

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        """Step all environments, and reset those that ended."""
        obs, rewards, terminated, truncated, infos = self.vector_env.step(self._actions(actions))
        terminated, truncated = (self._tensor(flags, torch.bool) for flags in (terminated, truncated))
        self.episode_length_buf = self.episode_length_buf + 1
        ended = terminated | truncated
        overdue = (self.episode_length_buf >= self.max_episode_length) & ~ended & self._resets_rows
        time_outs = (truncated & ~terminated) | overdue
        dones = terminated | time_outs
        # Whoever resets in the same step returns the observations after it.
        self._obs = final_obs = self._observations(obs)
        to_reset = dones
        if self.autoreset_mode == AutoresetMode.SAME_STEP:
            final_obs, to_reset = self._with_final_rows(infos, ended), overdue
        if bool(to_reset.any()):
            obs, _ = self.vector_env.reset(options={"reset_mask": to_reset.cpu().numpy()})
            self._obs = self._obs.clone()
            self._obs[to_reset] = self._observations(obs)[to_reset]
        self.episode_length_buf = torch.where(dones, 0, self.episode_length_buf)
        extras: dict[str, Any] = {"time_outs": time_outs, "final_obs": final_obs}
        if bool(dones.any()):  # rsl_rl's logger keeps the keys of the first entry, so none is empty
            extras["log"] = {"Episode_Termination/time_out": float(time_outs.sum() / dones.sum())}
        return self.get_observations(), self._tensor(rewards), dones, extras

    def close(self) -> None:
        """Close the environments."""
        self.vector_env.close()

    def _actions(self, actions: torch.Tensor) -> np.ndarray:
        """Return actions as Gymnasium takes them. PPO's are cut off at the bounds, SAC's lie within them."""
        space = self.vector_env.single_action_space
        low, high = self.action_bounds
        inside = actions.detach().to(low).clamp(low, high).cpu().numpy()
        inside = inside.reshape(self.num_envs, *space.shape).astype(space.dtype)  # type: ignore[misc]
        return np.clip(inside, space.low, space.high)  # outside of which bounds in single precision may be rounded

    def _observations(self, obs: object) -> TensorDict:
        """Return observations as groups, in memory of their own."""
        groups = obs if isinstance(obs, Mapping) else {"policy": obs}
        tensors = {name: self._tensor(values).reshape(self.num_envs, -1) for name, values in groups.items()}
        return TensorDict(tensors, batch_size=[self.num_envs], device=self.device)

    def _with_final_rows(self, infos: dict, ended: torch.Tensor) -> TensorDict:
        """Return the observations with the rows of ``infos["final_obs"]``, which holds one entry per environment."""
        rows = ended.nonzero().flatten().tolist()
        if not rows:
            return self._obs
        if "final_obs" not in infos:
            raise EnvContractError(
                f"{self.vector_env!r} resets in the same step, but infos['final_obs'] is missing, which holds the"
                " observations before the reset. Make it with another autoreset_mode."
            )
        final_obs, entries = self._obs.clone(), infos["final_obs"]
        for name in final_obs.keys():  # noqa: SIM118
            column = entries[name] if isinstance(entries, Mapping) else entries
            for row in rows:
                entry = column[row][name] if isinstance(column[row], Mapping) else column[row]
                final_obs[name][row] = self._tensor(entry).flatten()
        return final_obs

    def _tensor(self, values: object, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Copy numbers of any type into a tensor, of torch's default type if None."""
        return torch.tensor(np.asarray(values), dtype=dtype or torch.get_default_dtype(), device=self.device)


class GymnasiumWorld(World):
    """All tasks that are registered with Gymnasium and have bounded actions, scored by their return."""

    preset = "gym"
    evaluation_envs = 10

    def check_task(self, name: str) -> None:
        """Raise an error if Gymnasium has no such task, or if its spaces are not of a kind that can be used."""
        _wrappers(name)

    def make_env(self, name: str, num_envs: int, seed: int, num_threads: int | None = None) -> GymnasiumVecEnv:
        """Make the environments of a task for training; they are stepped one after the other in this process."""
        return make_gymnasium_env(name, num_envs, seed, wrappers=_wrappers(name))

    def make_evaluation_env(self, name: str, num_envs: int, num_threads: int | None = None) -> GymnasiumVecEnv:
        """Make the environments of a task for evaluation."""
        return make_gymnasium_env(name, num_envs, EVALUATION_SEED, wrappers=_wrappers(name))

    def evaluate(self, policy: Policy, env: VecEnv) -> EpisodeScore:
        """Score a policy on the first episodes after a reset with the evaluation's seed."""
        return self.run_episodes(policy, env).score()

    def run_episodes(self, policy: Policy, env: VecEnv) -> EpisodeOutcomes:
        """Run the first episodes after a reset with the evaluation's seed."""
        assert isinstance(env, GymnasiumVecEnv)
        obs, _ = env.reset(EVALUATION_SEED)
        return run_episodes(policy, env, obs)


def make_gymnasium_env(
    task: str,
    num_envs: int,
    seed: int | None = None,
    device: str = "cpu",
    vectorization_mode: str = "sync",
    **kwargs: Any,  # noqa: ANN401
) -> GymnasiumVecEnv:
    """Make the environments of a registered task.

    Args:
        task: Gymnasium's id, as ``Ant-v5``, or ``module:id`` for tasks that a module registers.
        num_envs: Number of environments.
        seed: Seed of the first environment, the others count on.
        device: Device of the tensors that are returned.
        vectorization_mode: ``sync`` steps them one after the other, ``async`` each in a process of its own.
        **kwargs: Arguments of ``gymnasium.make_vec`` and of the task, as ``max_episode_steps=100``.
    """
    # The adapter resets: it copies the last observation first, so that environments may reuse their memory.
    vector_kwargs = {"autoreset_mode": AutoresetMode.DISABLED}
    vector_env = gymnasium.make_vec(task, num_envs, vectorization_mode, vector_kwargs, **kwargs)
    return GymnasiumVecEnv(vector_env, seed, device=device)


def box_bounds(space: spaces.Space, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    """Return the bounds of a box of actions, flattened.

    Raises:
        EnvContractError: If the space is not a box of real numbers with finite bounds.
    """
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise EnvContractError(f"SAC needs continuous actions (a Box of floats), this environment has {space}.")
    unbounded = np.flatnonzero(~(np.isfinite(space.low) & np.isfinite(space.high))).tolist()
    if unbounded:
        raise EnvContractError(
            f"SAC needs bounded actions; the actions {unbounded} of {space} have no finite bounds. Wrap the environment"
            " in gymnasium.wrappers.RescaleAction, or give its action space bounds."
        )
    low, high = (torch.as_tensor(bound.flatten(), dtype=torch.get_default_dtype()) for bound in (space.low, space.high))
    return low.to(device), high.to(device)


def check_observation_space(space: spaces.Space) -> None:
    """Raise an EnvContractError if observations are not a box of numbers or a dictionary of them."""
    parts = space.spaces if isinstance(space, spaces.Dict) else {"policy": space}
    wrong = [f"{name}: {part}" for name, part in parts.items() if not isinstance(part, spaces.Box | spaces.MultiBinary)]
    if wrong:
        raise EnvContractError(
            f"Observations must be a Box, or a Dict of Boxes, got {', '.join(wrong)}. Wrap the environment in"
            " gymnasium.wrappers.FlattenObservation."
        )


@lru_cache
def _wrappers(name: str) -> tuple[type[gymnasium.Wrapper], ...]:
    """Try a task once, and return the wrappers that it needs to be trained without naming its observation groups.

    Raises:
        ConfigError: If Gymnasium has no such task.
        MissingDependencyError: If it needs a package that is missing.
        EnvContractError: If its spaces are not of a kind that can be used.
    """
    module, _, task = name.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        env = gymnasium.make(task)
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingDependencyError(
            f"The task '{name}' of Gymnasium lacks a package: {one_line(str(error))}"
        ) from error
    except (gymnasium.error.Error, ImportError) as error:
        raise ConfigError(f"Gymnasium cannot make the task '{name}': {one_line(str(error))}") from error
    try:
        box_bounds(env.action_space)
        space = env.observation_space
        is_plain = isinstance(space, spaces.Box) or (isinstance(space, spaces.Dict) and "policy" in space.spaces)
        wrappers = () if is_plain or not space.is_np_flattenable else (FlattenObservation,)
        if not wrappers:
            check_observation_space(space)
    except EnvContractError as error:
        raise EnvContractError(f"gym:{name}: {error}") from error
    finally:
        env.close()
    return wrappers


def _autoreset_mode(vector_env: VectorEnv) -> AutoresetMode:
    """Return the mode of a vector environment, if it is one whose resets never look like steps."""
    mode = vector_env.metadata.get("autoreset_mode")
    if mode is None:
        raise EnvContractError(f"{vector_env!r} does not say in metadata['autoreset_mode'] when it resets.")
    mode = AutoresetMode(mode)
    if mode == AutoresetMode.NEXT_STEP and not _takes_reset_mask(vector_env):
        raise EnvContractError(
            f"{vector_env!r} resets in the step after the end, and ignores the actions of that step, which must not be"
            " learned from. Make it with autoreset_mode=AutoresetMode.SAME_STEP or DISABLED."
        )
    return mode


def _takes_reset_mask(vector_env: VectorEnv) -> bool:
    """Return whether single environments can be reset, after which a vector environment does not do it again."""
    inner = vector_env.unwrapped
    # The processes of AsyncVectorEnv forget that they were reset unless they share memory (Gymnasium 1.4).
    return isinstance(inner, SyncVectorEnv) or (isinstance(inner, AsyncVectorEnv) and bool(inner.shared_memory))


def _time_limit(vector_env: VectorEnv) -> int | None:
    """Return the time limit of the task, None if it is not known."""
    inner = vector_env.unwrapped
    # The environments inside know better: an argument of make_vec may have changed their limit.
    specs = list(inner.get_attr("spec")) if isinstance(inner, SyncVectorEnv | AsyncVectorEnv) else []
    specs.append(vector_env.spec)
    return next((spec.max_episode_steps for spec in specs if spec is not None and spec.max_episode_steps), None)
