# SPDX-License-Identifier: BSD-3-Clause

"""Action bounds from soft joint limits (Sec. 3.2 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rsl_rl_sac.utils.config_base import shown
from rsl_rl_sac.utils.errors import ConfigError, EnvContractError


def action_bounds(
    default_pos: torch.Tensor | Sequence[float],
    soft_lower: torch.Tensor | Sequence[float],
    soft_upper: torch.Tensor | Sequence[float],
    scale: torch.Tensor | Sequence[float] | float,
    joint_names: Sequence[str] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the lower and upper bound of the policy's output for position targets ``scale * action + default_pos``.

    The bounds are the distances from the default pose to the soft limits, in units of the action:
    ``low = -|soft_lower - default_pos| / scale`` and ``high = |soft_upper - default_pos| / scale``.

    Args:
        default_pos: Default joint positions, in the order of the actions.
        soft_lower: Lower soft limits.
        soft_upper: Upper soft limits.
        scale: Action scale, for all joints or one per joint.
        joint_names: Names of the joints, for messages.

    Raises:
        EnvContractError: If a limit is not finite or a bound is empty; the message names the joints.
    """
    dtype = torch.get_default_dtype()
    default_pos, soft_lower, soft_upper = (
        torch.as_tensor(value, dtype=dtype) for value in (default_pos, soft_lower, soft_upper)
    )
    scale = torch.as_tensor(scale, dtype=dtype, device=default_pos.device)
    if not default_pos.shape == soft_lower.shape == soft_upper.shape or default_pos.dim() != 1:
        shapes = [tuple(value.shape) for value in (default_pos, soft_lower, soft_upper)]
        raise EnvContractError(f"Default pose and soft limits need one number per joint, got the shapes {shapes}.")
    if scale.dim() > 0 and scale.shape != default_pos.shape:
        raise EnvContractError(
            f"The action scale must be one number or one per joint ({len(default_pos)}), got shape"
            f" {tuple(scale.shape)}."
        )
    names = list(joint_names) if joint_names is not None else [f"joint {i}" for i in range(default_pos.shape[0])]
    low = -(soft_lower - default_pos).abs() / scale
    high = (soft_upper - default_pos).abs() / scale
    bad = ~(torch.isfinite(low) & torch.isfinite(high) & (low < high))
    if bool(bad.any()):
        culprits = ", ".join(names[i] for i in bad.nonzero().flatten().tolist())
        raise EnvContractError(
            f"No action bounds for {culprits}: the soft limits must be finite, apart, and the scale positive. Give"
            " these joints limits, or set algorithm.action_bounds by hand."
        )
    return low, high


def action_term_bounds(
    scale: torch.Tensor | float,
    offset: torch.Tensor | float,
    soft_limits: torch.Tensor,
    joint_names: Sequence[str],
    clip: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the bounds of an action term of a manager-based environment, with targets ``scale * action + offset``.

    mjlab and Isaac Lab keep these numbers once for every environment. Where limits differ among the environments, the
    narrowest count, since all have one policy; scale and offset are those of the first.

    Args:
        scale: Scale of the term, a number or of shape ``(num_envs, num_joints)``.
        offset: Offset of the term, likewise; with the usual settings it is the default pose.
        soft_limits: Lower and upper soft limits of the term's joints. Shape: ``(num_envs, num_joints, 2)``.
        joint_names: Names of the joints, in the order of the term.
        clip: Limits at which the term cuts off its targets, if it does. Shape: ``(num_envs, num_joints, 2)``.
    """
    lower, upper = soft_limits[..., 0].amax(dim=0), soft_limits[..., 1].amin(dim=0)
    offset, scale = (
        value[0] if isinstance(value, torch.Tensor) else torch.full_like(lower, value) for value in (offset, scale)
    )
    low, high = action_bounds(offset, lower, upper, scale, joint_names)
    if clip is None:
        return low, high
    # With its sign, unlike the distance to a limit: beyond the clip all actions are the same one.
    clip = clip.to(low)
    low = torch.maximum(low, (clip[..., 0].amax(dim=0) - offset) / scale)
    high = torch.minimum(high, (clip[..., 1].amin(dim=0) - offset) / scale)
    culprits = [name for name, is_empty in zip(joint_names, (low >= high).tolist(), strict=True) if is_empty]
    if culprits:
        raise EnvContractError(
            f"No action bounds for {', '.join(culprits)}: the targets are cut off beyond the soft limits. Change the"
            " action term's clip, or set algorithm.action_bounds by hand."
        )
    return low, high


def resolve_action_bounds(
    env: object, num_actions: int, override: list | None = None, largest: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the action bounds given by hand or, if there are none, those of the environment.

    Args:
        env: Environment, which may have ``action_bounds``: (low, high) tensors of shape ``(num_actions,)``, or None.
        num_actions: Number of actions.
        override: ``[low, high]`` from the configuration, numbers or one list each.
        largest: Size of an action beyond which the bounds are narrowed, if any.
    """
    bounds = override if override is not None else getattr(env, "action_bounds", None)
    if bounds is None:
        raise EnvContractError(
            f"{type(env).__name__} has no 'action_bounds', and SAC cannot explore an unbounded action space. Compute"
            " them with rsl_rl_sac.envs.action_bounds() from the soft joint limits, or set algorithm.action_bounds to"
            " [low, high]."
        )
    where = "algorithm.action_bounds" if override is not None else f"{type(env).__name__}.action_bounds"
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        raise ConfigError(f"{where} must be a pair (low, high), got {shown(bounds)}.")
    try:
        low, high = (torch.as_tensor(bound, dtype=torch.get_default_dtype()).cpu() for bound in bounds)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"{where} must hold numbers, got {shown(bounds)}.") from error
    low, high = (bound.repeat(num_actions) if bound.dim() == 0 else bound for bound in (low, high))
    if low.shape != (num_actions,) or high.shape != (num_actions,):
        raise ConfigError(
            f"{where} needs one number per action ({num_actions}), got the shapes {tuple(low.shape)} and"
            f" {tuple(high.shape)}."
        )
    bad = ~(torch.isfinite(low) & torch.isfinite(high) & (low < high))
    if bool(bad.any()):
        actions = bad.nonzero().flatten().tolist()
        raise ConfigError(f"{where} must be finite with low < high, which fails for the actions {actions}.")
    if largest is not None:
        low, high = low.clamp(min=-largest), high.clamp(max=largest)
        bad = (low >= high).nonzero().flatten().tolist()
        if bad:
            raise ConfigError(f"largest_action = {largest:g} leaves no room within {where} for the actions {bad}.")
    return low, high
