# SPDX-License-Identifier: BSD-3-Clause

"""Models and replay from the configuration sections of a rsl_rl runner."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Iterator
from numbers import Integral

import torch
from rsl_rl.env import VecEnv
from rsl_rl.models import MLPModel
from rsl_rl.modules.distribution import GaussianDistribution
from rsl_rl.utils import resolve_obs_groups
from tensordict import TensorDict

from rsl_rl_sac.config import ActorCfg, CriticCfg, DistributionCfg, SACCfg
from rsl_rl_sac.models import Actor, CriticEnsemble
from rsl_rl_sac.modules import SquashedGaussian
from rsl_rl_sac.storage import ReplayStorage
from rsl_rl_sac.utils.config_base import Cfg, check_known_keys, is_of_type, one_line, resolve, shown
from rsl_rl_sac.utils.devices import within_memory
from rsl_rl_sac.utils.errors import ConfigError, EnvContractError

_FROM_ENVIRONMENT = {"obs", "obs_groups", "obs_set", "output_dim", "num_actions", "low", "high"}
"""Arguments of models and distributions that follow from the environment."""


def check_env(obs: TensorDict, env: VecEnv) -> None:
    """Raise an error if an environment is not one that networks and a replay can be built for."""
    name = type(env).__name__
    for attribute in ("num_envs", "num_actions"):
        value = getattr(env, attribute, None)
        if not (isinstance(value, Integral) and int(value) >= 1):  # NumPy's integers will do
            raise EnvContractError(f"{name}.{attribute} must be a positive integer, got {shown(value)}.")
    if not isinstance(obs, TensorDict):
        raise EnvContractError(f"{name} must return observations as a TensorDict, got {type(obs).__name__}.")
    for group, values in obs.items():
        if values.shape[:1] != (env.num_envs,):
            raise EnvContractError(
                f"{name} has {env.num_envs} environments, but its observation group '{group}' has the shape"
                f" {tuple(values.shape)}."
            )


def resolve_groups(obs: TensorDict, obs_groups: dict[str, list[str]], cfg: SACCfg) -> dict[str, list[str]]:
    """Return the observation groups of each network. If it is not said, RND sees what the actor sees."""
    if not is_of_type(obs_groups, dict[str, list[str]]):
        raise ConfigError(f"obs_groups must list the observation groups of each network, got {shown(obs_groups)}.")
    sets = ["actor", "critic"]
    if cfg.rnd_cfg is not None:
        sets.append("rnd_state")
        if "actor" in obs_groups and "rnd_state" not in obs:
            obs_groups.setdefault("rnd_state", obs_groups["actor"])
    try:
        resolved = resolve_obs_groups(obs, obs_groups, sets)
    except ValueError as error:
        raise ConfigError(f"obs_groups: {one_line(str(error), 500)}") from error
    return {name: groups for name, groups in resolved.items() if name in sets}


def build_storage(
    cfg: SACCfg, obs: TensorDict, obs_groups: dict[str, list[str]], env: VecEnv, device: str, seed: int
) -> ReplayStorage:
    """Build the replay, which holds the observations that any network sees."""
    with within_memory("the replay", "algorithm.replay_size, or set algorithm.replay_dtype to bfloat16"):
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
    actor_class, kwargs = _resolve("actor.", cfg, MLPModel, Actor, ActorCfg)
    distribution_cfg = kwargs.pop("distribution_cfg", None)
    distribution_cfg = {} if distribution_cfg is None else distribution_cfg
    where = "actor.distribution_cfg."
    if issubclass(_class_of(where, distribution_cfg) or SquashedGaussian, GaussianDistribution):
        distribution_cfg = {}
    distribution_class, distribution_kwargs = _resolve(where, distribution_cfg, None, SquashedGaussian, DistributionCfg)
    distribution_kwargs.update(class_name=distribution_class, low=low, high=high)
    with _built("the actor", "actor.hidden_dims"):
        return actor_class(obs, obs_groups, "actor", num_actions, distribution_cfg=distribution_kwargs, **kwargs)


def build_critic(cfg: dict, obs: TensorDict, obs_groups: dict[str, list[str]], num_actions: int) -> CriticEnsemble:
    """Build the Q-functions. The section of a PPO configuration is taken as well, of the same shape."""
    critic_class, kwargs = _resolve("critic.", cfg, MLPModel, CriticEnsemble, CriticCfg)
    if kwargs.get("distribution_cfg", ...) is None:  # what PPO's configurations say of their critic
        del kwargs["distribution_cfg"]
    check_known_keys(kwargs, _settings(critic_class), "critic.")
    with _built("the critics", "critic.hidden_dims, critic.num_critics or critic.num_atoms"):
        return critic_class(obs, obs_groups, "critic", num_actions, **kwargs)


@contextlib.contextmanager
def _built(what: str, advice: str) -> Iterator[None]:
    """Turn what rsl_rl's models say of observations that they cannot take, and torch of memory, into errors of ours."""
    try:
        with within_memory(what, advice):
            yield
    except ConfigError:
        raise
    except ValueError as error:
        raise EnvContractError(f"{what} cannot be built: {one_line(str(error))}") from error


def _class_of(where: str, cfg: dict) -> type | None:
    if not isinstance(cfg, dict):
        raise ConfigError(f"'{where.rstrip('.')}' must be a dictionary, got {shown(cfg)}.")
    name = cfg.get("class_name")
    if name is None or (isinstance(name, str) and not name):
        return None
    found = resolve(name, f"{where}class_name")
    if not isinstance(found, type):
        raise ConfigError(f"{where}class_name must name a class, got {shown(found)}.")
    return found


def _settings(model_class: type) -> set[str]:
    """Return the arguments of a class that a configuration may give."""
    return set(inspect.signature(model_class).parameters) - _FROM_ENVIRONMENT


def _resolve(where: str, cfg: dict, replaced: type | None, default: type, section: type[Cfg]) -> tuple[type, dict]:
    """Return the class of a section (the default if it is missing or the replaced one) and its other keys, copied.

    Args:
        where: Path of the section, for messages.
        cfg: Section.
        replaced: Class in whose place the default is taken.
        default: Class of the model.
        section: Checks the values of the keys that it knows; a class that is not ours may have others.
    """
    model_class = _class_of(where, cfg)
    kwargs = {key: copy.deepcopy(value) for key, value in cfg.items() if key != "class_name"}
    if model_class is None or model_class is replaced:
        model_class = default
    if not issubclass(model_class, default):
        raise ConfigError(
            f"{where}class_name must be '{default.__name__}' or a subclass, got '{model_class.__name__}'."
        )
    check_known_keys(kwargs, {*_settings(model_class), "distribution_cfg"}, where)
    section.check_values({key: value for key, value in kwargs.items() if key != "distribution_cfg"}, where)
    return model_class, kwargs
