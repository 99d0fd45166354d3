# SPDX-License-Identifier: BSD-3-Clause

"""mjlab: its environments in the contract of this package, and its tasks as a world."""

from __future__ import annotations

import contextlib
import difflib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from packaging.version import Version
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rsl_rl_sac.envs.action_bounds import action_term_bounds
from rsl_rl_sac.envs.evaluation import EVALUATION_SEED, EpisodeScore, Policy, evaluate_episodes
from rsl_rl_sac.envs.worlds import World
from rsl_rl_sac.utils.distributed import launched_device
from rsl_rl_sac.utils.errors import ConfigError, EnvContractError, MissingDependencyError
from rsl_rl_sac.utils.seeding import get_rng_state, set_rng_state
from rsl_rl_sac.utils.versions import UNKNOWN_VERSION, package_version

if TYPE_CHECKING:  # so that asking for a task without mjlab is an error with a message
    from mjlab.envs import ManagerBasedRlEnv, ManagerBasedRlEnvCfg
    from mjlab.rl import RslRlVecEnvWrapper

OLDEST_VERSION = Version("1.6")
"""The first mjlab whose reset of some environments leaves the others alone."""


class MjlabVecEnv(VecEnv):
    """mjlab's environments for rsl_rl, with action bounds and the observations before a reset.

    mjlab resets environments inside ``step``, and its observation manager caches, so that no hook sees the last
    observation of an episode. Here ``step`` runs without mjlab's automatic reset, and those that ended are reset
    afterwards. The setting is changed for the time of a step only: mjlab's viewers go on stepping the wrapper inside.
    """

    def __init__(self, env: RslRlVecEnvWrapper) -> None:
        """Wrap environments.

        Args:
            env: mjlab's own wrapper for rsl_rl, as its scripts build it.

        Raises:
            MissingDependencyError: If mjlab is too old.
        """
        installed = package_version("mjlab")
        if installed != UNKNOWN_VERSION and Version(installed) < OLDEST_VERSION:
            raise MissingDependencyError(
                f"mjlab {installed} is too old: before {OLDEST_VERSION}, resetting some environments changes histories"
                " and delays of the others. Install a newer one (pip install -U mjlab)."
            )
        self.env = env
        self.num_envs = env.num_envs
        self.num_actions = env.num_actions
        self.max_episode_length = env.max_episode_length
        self.device = env.device
        self._obs = env.get_observations()
        self._buffer = self.unwrapped.obs_buf

    @property
    def unwrapped(self) -> ManagerBasedRlEnv:
        """The environment itself."""
        return self.env.unwrapped

    @property
    def cfg(self) -> ManagerBasedRlEnvCfg:
        """Configuration of the environment."""
        return self.unwrapped.cfg

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps since the last reset."""
        return self.unwrapped.episode_length_buf

    @episode_length_buf.setter
    def episode_length_buf(self, value: torch.Tensor) -> None:
        self.unwrapped.episode_length_buf = value

    @property
    def action_bounds(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Bounds of the policy's output, from the soft limits of the joints that each action term drives.

        Raises:
            EnvContractError: If a term does not set joint positions, or one of its joints has no limits.
        """
        from mjlab.envs.mdp.actions import JointPositionAction

        bounds = []
        for name in self.unwrapped.action_manager.active_terms:
            term = self.unwrapped.action_manager.get_term(name)
            if not isinstance(term, JointPositionAction):
                raise EnvContractError(
                    f"No action bounds for the action term '{name}': a {type(term).__name__} does not set joint"
                    " positions. Set algorithm.action_bounds to [low, high]."
                )
            limits = self.unwrapped.scene[term.cfg.entity_name].data.soft_joint_pos_limits
            limits, clip = limits[:, term.target_ids], term._clip if term.cfg.clip is not None else None
            bounds.append(action_term_bounds(term.scale, term.offset, limits, list(term.target_names), clip))
        low, high = (torch.cat(parts) for parts in zip(*bounds, strict=True))
        clip = self.env.clip_actions  # mjlab cuts actions off there
        return (low, high) if clip is None else (low.clamp(min=-clip), high.clamp(max=clip))

    def get_observations(self) -> TensorDict:
        """Return the observations of the last step or reset."""
        if self.unwrapped.obs_buf is not self._buffer:  # somebody stepped or reset the environment itself
            return self.env.get_observations()
        return self._obs

    def reset(self, seed: int | None = None) -> tuple[TensorDict, dict]:
        """Reset all environments.

        Args:
            seed: Seed of everything random, which mjlab draws from the generators of the process; None leaves them.
        """
        obs, extras = self.unwrapped.reset(seed=seed)
        self._remember(TensorDict(obs, batch_size=[self.num_envs]))
        return self._obs, extras

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        """Step all environments, then reset those that ended."""
        env = self.unwrapped
        with _no_auto_reset(env.cfg):
            final_obs, rewards, dones, extras = self.env.step(actions)
        extras = {**extras, "final_obs": final_obs}  # mjlab hands out the same dictionary at every step
        if "time_outs" in extras:
            extras["time_outs"] = extras["time_outs"] & ~env.reset_terminated
        obs = final_obs
        ended = dones.nonzero().flatten()
        if len(ended) > 0:
            env.recorder_manager.record_pre_reset(ended)  # as the automatic reset does
            obs_after_reset, reset_extras = env.reset(env_ids=ended)
            # Only the rows that ended: the others would get a second draw of their noise.
            obs = final_obs.clone()
            obs[ended] = TensorDict(obs_after_reset, batch_size=[self.num_envs])[ended]
            extras["log"] = {**extras["log"], **reset_extras["log"]}
        self._remember(obs)
        return obs, rewards.clone(), dones, extras  # mjlab fills the same rewards at every step

    def close(self) -> None:
        """Close the environments."""
        self.env.close()

    def _remember(self, obs: TensorDict) -> None:
        self._obs, self._buffer = obs, self.unwrapped.obs_buf


@contextlib.contextmanager
def _no_auto_reset(cfg: ManagerBasedRlEnvCfg) -> Iterator[None]:
    before, cfg.auto_reset = cfg.auto_reset, False
    try:
        yield
    finally:
        cfg.auto_reset = before


class MjlabWorld(World):
    """The tasks that are registered with mjlab, scored by their return."""

    preset = "mjlab"

    def __init__(self) -> None:
        """Import mjlab, which takes seconds."""
        try:
            import mjlab.tasks  # noqa: F401
        except ImportError as error:
            raise MissingDependencyError(
                f"Tasks of mjlab need the package mjlab, in an environment with MuJoCo 3 (docs/mjlab.md): {error}."
            ) from error
        self.device = launched_device()

    def check_task(self, name: str) -> None:
        """Raise an error if mjlab has no such task."""
        from mjlab.tasks.registry import list_tasks

        tasks = list_tasks()
        if name not in tasks:
            near = difflib.get_close_matches(name, tasks, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else " list-envs shows them."
            raise ConfigError(f"mjlab has no task '{name}'.{hint}")

    def make_env(self, name: str, num_envs: int, seed: int, num_threads: int | None = None) -> MjlabVecEnv:
        """Make the environments of a task for training."""
        from mjlab.tasks.registry import load_env_cfg

        return self._build(load_env_cfg(name), num_envs, seed)

    def make_evaluation_env(self, name: str, num_envs: int, num_threads: int | None = None) -> MjlabVecEnv:
        """Make the environments of a task for evaluation: no noise, no pushes, no curriculum."""
        from mjlab.tasks.registry import load_env_cfg

        cfg = load_env_cfg(name)
        for group in cfg.observations.values():
            group.enable_corruption = False
        cfg.events = {term: event for term, event in cfg.events.items() if event.mode != "interval"}
        cfg.curriculum = {}
        state = get_rng_state()  # building an environment seeds the generators of the process
        env = self._build(cfg, num_envs, EVALUATION_SEED)
        set_rng_state(state)
        return env

    def evaluate(self, policy: Policy, env: VecEnv) -> EpisodeScore:
        """Score a policy on the first episodes after a reset with the evaluation's seed."""
        assert isinstance(env, MjlabVecEnv)
        state = get_rng_state()
        with torch.inference_mode():  # as in the episodes, whose tensors the reset writes to
            obs, _ = env.reset(seed=EVALUATION_SEED)
        score = evaluate_episodes(policy, env, obs)
        set_rng_state(state)
        return score

    def _build(self, cfg: ManagerBasedRlEnvCfg, num_envs: int, seed: int) -> MjlabVecEnv:
        from mjlab.envs import ManagerBasedRlEnv
        from mjlab.rl import RslRlVecEnvWrapper

        cfg.scene.num_envs, cfg.seed = num_envs, seed
        with contextlib.redirect_stdout(sys.stderr):  # mjlab prints its tables, results alone go to the standard output
            return MjlabVecEnv(RslRlVecEnvWrapper(ManagerBasedRlEnv(cfg, self.device)))
