# SPDX-License-Identifier: BSD-3-Clause

"""Models and replay from the configuration sections of a rsl_rl runner."""

from __future__ import annotations

import copy
import inspect

import torch
from rsl_rl.env import VecEnv
from rsl_rl.models import MLPModel
from rsl_rl.modules.distribution import GaussianDistribution
from rsl_rl.utils import resolve_callable, resolve_obs_groups
from tensordict import TensorDict

from rsl_rl_sac.config import SACCfg
from rsl_rl_sac.models import Actor, CriticEnsemble
from rsl_rl_sac.modules import SquashedGaussian
from rsl_rl_sac.storage import ReplayStorage
from rsl_rl_sac.utils.config_base import check_known_keys
from rsl_rl_sac.utils.errors import ConfigError


def resolve_groups(obs: TensorDict, obs_groups: dict[str, list[str]], cfg: SACCfg) -> dict[str, list[str]]:
    """Return the observation groups of each network. If it is not said, RND sees what the actor sees."""
    sets = ["actor", "critic"]
    if cfg.rnd_cfg is not None:
        sets.append("rnd_state")
        if "actor" in obs_groups and "rnd_state" not in obs:
            obs_groups.setdefault("rnd_state", obs_groups["actor"])
    return {name: groups for name, groups in resolve_obs_groups(obs, obs_groups, sets).items() if name in sets}


def build_storage(
    cfg: SACCfg, obs: TensorDict, obs_groups: dict[str, list[str]], env: VecEnv, device: str, seed: int
) -> ReplayStorage:
    """Build the replay, which holds the observations that any network sees."""
    return ReplayStorage(
        env.num_envs,
        cfg.replay_size,
        obs.select(*{group for groups in obs_groups.values() for group in groups}),
        env.num_actions,
        cfg.n_step,
        cfg.gamma,
        cfg.replay_device or device,
        getattr(torch, cfg.replay_dtype),
        seed=seed,
        action_dtype=getattr(torch, cfg.replay_action_dtype),
    )


def build_actor(
    cfg: dict,
    obs: TensorDict,
    obs_groups: dict[str, list[str]],
    num_actions: int,
    low: torch.Tensor,
    high: torch.Tensor,
) -> Actor:
    """Build the actor with the given action bounds.

    The section of a PPO configuration is taken as well: rsl_rl's plain model becomes :class:`Actor` of the same shape,
    a plain Gaussian becomes :class:`SquashedGaussian` with its defaults.
    """
    actor_class, kwargs = _resolve("actor.", cfg, MLPModel, Actor)
    distribution_cfg = kwargs.pop("distribution_cfg", None) or {}
    if issubclass(_class_of(distribution_cfg) or SquashedGaussian, GaussianDistribution):
        distribution_cfg = {}
    distribution_class, distribution_kwargs = _resolve(
        "actor.distribution_cfg.", distribution_cfg, None, SquashedGaussian
    )
    distribution_kwargs.update(class_name=distribution_class, low=low, high=high)
    return actor_class(obs, obs_groups, "actor", num_actions, distribution_cfg=distribution_kwargs, **kwargs)


def build_critic(cfg: dict, obs: TensorDict, obs_groups: dict[str, list[str]], num_actions: int) -> CriticEnsemble:
    """Build the Q-functions. The section of a PPO configuration is taken as well, of the same shape."""
    critic_class, kwargs = _resolve("critic.", cfg, MLPModel, CriticEnsemble)
    if kwargs.get("distribution_cfg", ...) is None:  # what PPO's configurations say of their critic
        del kwargs["distribution_cfg"]
    check_known_keys(kwargs, inspect.signature(critic_class).parameters, "critic.")
    if kwargs.get("num_critics", 1) < 1:
        raise ConfigError(f"critic.num_critics must be at least 1, got {kwargs['num_critics']}.")
    return critic_class(obs, obs_groups, "critic", num_actions, **kwargs)


def _class_of(cfg: dict) -> type | None:
    return resolve_callable(cfg["class_name"]) if cfg.get("class_name") else None  # type: ignore[return-value]


def _resolve(where: str, cfg: dict, replaced: type | None, default: type) -> tuple[type, dict]:
    """Return the class of a section (the default if it is missing or the replaced one) and its other keys, copied."""
    kwargs = {key: copy.deepcopy(value) for key, value in cfg.items() if key != "class_name"}
    model_class = _class_of(cfg)
    if model_class is None or model_class is replaced:
        model_class = default
    if not issubclass(model_class, default):
        raise ConfigError(
            f"{where}class_name must be '{default.__name__}' or a subclass, got '{model_class.__name__}'."
        )
    check_known_keys(kwargs, {*inspect.signature(model_class).parameters, "distribution_cfg"}, where)
    hidden_dims = kwargs.get("hidden_dims", [1])
    if not hidden_dims or any(not isinstance(size, int) or size < 1 for size in hidden_dims):
        raise ConfigError(f"{where}hidden_dims must be a non-empty list of positive integers, got {hidden_dims!r}.")
    return model_class, kwargs
