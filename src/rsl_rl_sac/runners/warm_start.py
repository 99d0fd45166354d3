# SPDX-License-Identifier: BSD-3-Clause

"""Start a training with the networks of another one, which may have seen fewer observations."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.algorithms.annealing import Annealing
from rsl_rl_sac.algorithms.saved_state import check_kept_parts
from rsl_rl_sac.config import SACCfg
from rsl_rl_sac.utils.checkpoint import check_network, check_parts, load_safely
from rsl_rl_sac.utils.errors import CheckpointError

REMEMBERED_SAMPLES = 100_000
"""Weight of the other run's observation statistics, in samples: with all of its millions they would never change."""

_NORMALIZER = "obs_normalizer."
"""Prefix of the statistics of observations in the state of a model."""

_FIRST_WEIGHTS = ("mlp.0.weight", "mlp.weights.0", "weights.0")
"""Weights of the first layer: of rsl_rl's networks, of SAC's critics and of its targets."""

_BOUNDS = ("distribution.bias", "distribution.scale")
"""Centre and half-width of the actions in the state of SAC's policy."""


_BOUNDS_SETTINGS = {"action_bounds", "largest_action", "final_largest_action"}
"""Settings that make the bounds together."""

REACHED = (
    "target_entropy_scale",
    "actor_learning_rate",
    "critic_learning_rate",
    "final_learning_rate_scale",
    *sorted(_BOUNDS_SETTINGS),
)
"""Settings that :func:`reached_settings` may return."""


def start_from(runner: OnPolicyRunner, path: Path | str, obs: TensorDict) -> None:
    """Take over policy and values of a checkpoint, but neither its replay nor its optimizers, counters or clock.

    Observations that only this run has come after those that both have. Their weights start at zero, so that the
    policy acts as it did, and learns what they are good for. If this run has other bounds of the actions, the policy
    moves with them: small actions stay what they are, those that leaned on a bound go further.

    Args:
        runner: Runner of SAC or of rsl_rl's PPO, before its first iteration.
        path: Checkpoint of the same algorithm, with networks of the same hidden layers.
        obs: Observations of this run, for the first statistics of those that are new.

    Raises:
        CheckpointError: If the checkpoint is damaged, or does not fit. Nothing has been changed then.
    """
    state = load_safely(path, "cpu")
    algorithm, what = runner.alg, f"'{path}', to start from,"
    check_start(state, path)
    is_sac = isinstance(algorithm, SAC)
    actor = algorithm.actor if is_sac else algorithm.get_policy()  # an average is of an actor that its critics left
    state.pop("average_state_dict", None)
    critic = getattr(algorithm, "_raw_critic", algorithm.critic)  # rsl_rl 5.5 may have compiled the other
    num_actions = runner.env.num_actions if is_sac else 0  # what SAC's critics see after the observations
    for name, model, num_last in (("actor", actor, 0), ("critic", critic, num_actions)):
        own, seen = model.state_dict(), torch.cat([obs[group] for group in model.obs_groups], dim=-1).cpu()
        state[f"{name}_state_dict"] = _widened_model(state[f"{name}_state_dict"], own, seen, num_last)
    bounds = {name: actor.state_dict()[name].clone() for name in _BOUNDS} if is_sac else None
    if is_sac:
        targets = state.get("target_critic_state_dict", {})
        own_targets = algorithm.target_critic.state_dict()
        state["target_critic_state_dict"] = _widened_model(targets, own_targets, None, num_actions)
    try:
        if not is_sac:  # rsl_rl loads the actor before it looks at the critic
            for name, model in (("actor", actor), ("critic", critic)):
                check_network(state[f"{name}_state_dict"], model.state_dict())
        algorithm.load(state, {"actor": True, "critic": True}, strict=True)
    except CheckpointError as error:
        raise CheckpointError(f"{what} cannot be used. {error}") from error
    if isinstance(algorithm, SAC) and bounds is not None:
        bias, scale = (bounds[name] for name in _BOUNDS)
        with torch.no_grad():
            actor.distribution.move_bounds(actor.mlp, bias - scale, bias + scale)  # type: ignore[operator]  # an Actor
        if algorithm.average is not None:
            algorithm.average.restart()


def check_start(state: dict, path: Path | str) -> None:
    """Raise an error if a checkpoint has not what a training can start from, policy and values.

    Args:
        state: The checkpoint.
        path: Where it is.
    """
    what = f"'{path}', to start from,"
    if "critic_state_dict" not in state:
        raise CheckpointError(f"{what} holds a policy without values: name its run, or a checkpoint model_<iteration>.")
    check_parts(state, {"actor_state_dict": dict, "critic_state_dict": dict}, what)


def reached_settings(cfg: SACCfg, state: dict) -> dict[str, Any]:
    """Return noise, learning rates and bounds that a run of SAC had come to when it saved a checkpoint.

    Args:
        cfg: Settings of the run.
        state: Its checkpoint.

    Returns:
        Settings with which another run goes on from there; bounds only if they had been opening.
    """
    check_kept_parts(state, ("annealing", "counters"), "The checkpoint to start from")
    annealing = Annealing(cfg.target_entropy_updates, cfg.anneal_progress)
    annealing.load_state_dict(state["annealing"])
    share = annealing.share(state["counters"]["num_updates"])
    final_scale = cfg.target_entropy_scale if cfg.final_target_entropy_scale is None else cfg.final_target_entropy_scale
    factor = 1.0 + share * (cfg.final_learning_rate_scale - 1.0)
    reached: dict[str, Any] = {
        "target_entropy_scale": cfg.target_entropy_scale + share * (final_scale - cfg.target_entropy_scale),
        "actor_learning_rate": factor * cfg.actor_learning_rate,
        "critic_learning_rate": factor * cfg.critic_learning_rate,
        "final_learning_rate_scale": min(cfg.final_learning_rate_scale / factor, 1.0),
    }
    if cfg.final_largest_action is not None:  # no size stands for bounds that are half open
        bias, scale = (state["actor_state_dict"][name] for name in _BOUNDS)
        bounds = [(bias - scale).tolist(), (bias + scale).tolist()]
        reached |= {"action_bounds": bounds, "largest_action": None, "final_largest_action": None}
    return reached


def go_on_from(cfg: SACCfg, reached: dict[str, Any], given: Collection[str]) -> None:
    """Let a run go on from what another one had come to, but for the settings that it was given.

    Args:
        cfg: Settings of the run, which are changed.
        reached: What :func:`reached_settings` returned.
        given: Names of the settings that the user gave.
    """
    keeps = set(given)
    if cfg.desired_kl is not None or keeps & {"actor_learning_rate", "critic_learning_rate"}:
        keeps.add("final_learning_rate_scale")  # what is left of the way belongs to the rates reached
    if keeps & _BOUNDS_SETTINGS:
        keeps |= _BOUNDS_SETTINGS  # those reached would narrow those given, or not go with them
    for name, value in reached.items():
        if name not in keeps:
            setattr(cfg, name, value)


def _widened_model(saved: dict, own: dict, obs: torch.Tensor | None, num_last: int) -> dict:
    """Return the state of a model as one that has as many inputs as ours.

    Args:
        saved: State of the model.
        own: State of our model.
        obs: Observations of our model, for the statistics of those that are new; None for a network without any.
        num_last: Inputs after the observations.
    """
    widened, statistics = dict(saved), {}
    if obs is not None:
        var, mean = torch.var_mean(obs, dim=0, unbiased=False, keepdim=True)
        statistics = {
            f"{_NORMALIZER}{name}": value for name, value in (("_mean", mean), ("_var", var), ("_std", var.sqrt()))
        }
    for name, tensor in own.items():
        if not isinstance(saved.get(name), torch.Tensor) or saved[name].dim() != tensor.dim():
            continue  # refused when it is loaded
        axis = tensor.dim() - 2 if tensor.dim() == 3 else tensor.dim() - 1  # of the inputs; critics have [N, in, out]
        if [i for i, size in enumerate(tensor.shape) if size != saved[name].shape[i]] != [axis]:
            continue  # refused as well
        if saved[name].shape[axis] > tensor.shape[axis]:
            continue
        if name in statistics:
            values, num_after = statistics[name].to(saved[name].device), 0
        elif name in _FIRST_WEIGHTS:
            values, num_after = saved[name].new_zeros(tensor.shape), num_last
        else:
            continue  # it is not inputs that differ; refused as well
        num_known = saved[name].shape[axis] - num_after
        num_new = tensor.shape[axis] - saved[name].shape[axis]
        known, after = saved[name].split([num_known, num_after], dim=axis)
        widened[name] = torch.cat([known, values.narrow(axis, num_known, num_new), after], dim=axis)
    count = f"{_NORMALIZER}count"
    if count in widened:
        widened[count] = widened[count].clamp(max=REMEMBERED_SAMPLES)
    return widened
