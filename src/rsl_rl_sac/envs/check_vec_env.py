# SPDX-License-Identifier: BSD-3-Clause

"""The environment checker."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rsl_rl_sac.envs.action_bounds import resolve_action_bounds
from rsl_rl_sac.utils.checkpoint import check_plain
from rsl_rl_sac.utils.errors import CheckpointError, EnvContractError, RslRlSacError
from rsl_rl_sac.utils.seeding import get_rng_state, set_rng_state

_ATTRIBUTES = ("num_envs", "num_actions", "max_episode_length", "episode_length_buf", "device", "cfg")


def check_vec_env(env: VecEnv, num_steps: int | None = None, seed: int = 0) -> None:
    """Step an environment with random actions inside its bounds and check the contract of this package.

    Half of the environments start near the end of their episode, so that time-outs are seen however soon random actions
    make a robot fall. Checked are: the attributes of rsl_rl's ``VecEnv``; shapes, types and finiteness of what ``step``
    returns; ``time_outs`` only where ``dones``, and not left out where episodes end by time; ``final_obs`` present when
    a time-out happens, with the groups and shapes of the observations, and neither that of the step before nor that
    after the reset; observations that are not overwritten by the next step; action bounds; and, if there is a
    ``load_state_dict``, that the environment goes on from a state of plain values as it did before.

    Args:
        env: Environment. It is stepped, so use one made for the check.
        num_steps: Steps to take; None takes one more than the longest episode, 200 at most.
        seed: Seed of the actions.

    Raises:
        EnvContractError: If anything is wrong, with one line for each finding.
    """
    missing = [name for name in _ATTRIBUTES if not hasattr(env, name)]
    if missing:
        raise EnvContractError(f"{type(env).__name__} lacks the attribute(s) {', '.join(missing)} of rsl_rl's VecEnv.")
    findings = _Findings()
    try:
        low, high = resolve_action_bounds(env, env.num_actions)
    except RslRlSacError as error:
        findings.add(str(error))
        low, high = -torch.ones(env.num_actions), torch.ones(env.num_actions)
    if num_steps is None:
        num_steps = min(200, int(torch.as_tensor(env.max_episode_length).max()) + 1)
    lengths = env.episode_length_buf.clone()
    nearly_over = torch.as_tensor(env.max_episode_length, dtype=lengths.dtype, device=lengths.device) - 2
    lengths[::2] = nearly_over.expand_as(lengths)[::2]
    env.episode_length_buf = lengths

    generator = torch.Generator().manual_seed(seed)
    obs = env.get_observations()
    _check_observations(findings, "get_observations()", obs, env)
    time_out_seen = reports_time_outs = False
    for _ in range(num_steps):
        if findings.fatal:
            break
        actions = low + (high - low) * torch.rand(env.num_envs, env.num_actions, generator=generator)
        before = obs.clone()
        last_step = torch.as_tensor(env.episode_length_buf + 1 >= env.max_episode_length)
        next_obs, rewards, dones, extras = env.step(actions.to(env.device))
        if any(not torch.equal(before[group].nan_to_num(), obs[group].nan_to_num()) for group in before.keys()):  # noqa: SIM118
            findings.add("step() overwrites the observations it returned before; return copies.")
        _check_observations(findings, "step()", next_obs, env)
        _check_vector(findings, "rewards", rewards, env.num_envs)
        _check_vector(findings, "dones", dones, env.num_envs)
        reports_time_outs |= "time_outs" in extras
        time_out_seen |= _check_extras(findings, before, next_obs, dones, extras, env)
        if (
            not findings.fatal
            and "time_outs" not in extras
            and last_step.sum() > 1
            and bool((dones[last_step] > 0).all())
        ):
            findings.add(
                "Episodes end at max_episode_length, but extras['time_outs'] is missing: critics would take them for"
                " failures. Tell which ended by time; with a finite horizon that is meant to be one, none."
            )
        obs = next_obs
    if not findings.fatal and hasattr(env, "state_dict") and hasattr(env, "load_state_dict"):
        _check_state_dict(findings, env, low.expand(env.num_envs, -1).to(env.device))
    if reports_time_outs and not time_out_seen and not findings.lines:
        findings.add(
            f"No time-out was seen in {num_steps} steps, so time_outs and final_obs could not be checked. Pass a larger"
            " num_steps, or set episode_length_buf to something that time-outs heed."
        )
    findings.raise_if_any(type(env).__name__)


def check_step(
    shapes: Mapping[str, tuple[int, ...]], obs: TensorDict, rewards: torch.Tensor, dones: torch.Tensor, extras: dict
) -> None:
    """Raise an error if what ``step`` returned has other shapes than it must have.

    Torch would stretch many a wrong shape to the right one, and the critics would learn from wrong numbers.

    Args:
        shapes: Shapes of the observation groups, of at least one.
        obs: Observations.
        rewards: Rewards.
        dones: Whether the episode ended.
        extras: What else the environment returned.
    """
    num_envs = next(iter(shapes.values()))[0]
    vectors = {"rewards": rewards, "dones": dones}
    for name in ("time_outs", "invalid"):
        if extras.get(name) is not None:
            vectors[f"extras['{name}']"] = extras[name]
    for name, value in vectors.items():
        if not isinstance(value, torch.Tensor) or value.shape != (num_envs,):
            found = tuple(value.shape) if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
            raise EnvContractError(f"step(): {name} must be a tensor of shape ({num_envs},), got {found}.")
    for name, groups in {"observations": obs, "extras['final_obs']": extras.get("final_obs")}.items():
        for group, shape in shapes.items():
            found = groups.get(group, None) if groups is not None else None
            if found is not None and found.shape != shape:
                raise EnvContractError(
                    f"step(): group '{group}' of the {name} must have the shape {tuple(shape)}, got"
                    f" {tuple(found.shape)}."
                )
            if found is None and groups is obs:
                raise EnvContractError(f"step(): the {name} have no group '{group}', which they had before.")


def check_final_obs(dones: torch.Tensor, time_outs: torch.Tensor | None, final_obs: TensorDict | None) -> None:
    """Raise an error if an episode ended by time and the observation before its reset is missing.

    Args:
        dones: Whether the episode ended.
        time_outs: Whether it ended by time, if the environment tells.
        final_obs: Observations before the reset, if the environment gives them.
    """
    if final_obs is not None or time_outs is None:
        return
    if bool(((time_outs.to(dones.device) > 0) & (dones > 0)).any()):
        raise EnvContractError(
            "An episode ended by time, but extras['final_obs'] is missing: the observation before the reset, which"
            " the critic must bootstrap from. Let the environment provide it (docs/your-environment.md), or an"
            " adapter of rsl_rl_sac.envs: GymnasiumVecEnv, MjlabVecEnv or IsaacLabVecEnv. Or set"
            " algorithm.missing_final_obs to 'drop' to leave such transitions out."
        )


class _Findings:
    """What was found, each line once."""

    def __init__(self) -> None:
        self.lines: dict[str, None] = {}
        self.fatal = False

    def add(self, line: str, fatal: bool = False) -> None:
        self.lines[line] = None
        self.fatal |= fatal

    def add_if_not_finite(self, what: str, values: torch.Tensor) -> None:
        """Name the first environment whose numbers are not finite; once for each kind of number is enough."""
        bad = ~torch.isfinite(values).reshape(len(values), -1).all(dim=1)
        if bool(bad.any()) and not any(line.startswith(what) for line in self.lines):
            self.add(f"{what} NaN or infinite values, the first of them in environment {int(bad.nonzero()[0])}.")

    def raise_if_any(self, name: str) -> None:
        if self.lines:
            headline = f"{name} does not fulfil the environment contract (docs/your-environment.md):"
            raise EnvContractError("\n  - ".join([headline, *self.lines]))


def _check_observations(findings: _Findings, source: str, obs: object, env: VecEnv) -> None:
    if not isinstance(obs, TensorDict):
        findings.add(f"{source} must return observations as a TensorDict, got {type(obs).__name__}.", fatal=True)
        return
    for group in obs.keys():  # noqa: SIM118
        value: torch.Tensor = obs[group]
        if value.shape[:1] != (env.num_envs,):
            shape = tuple(value.shape)
            findings.add(f"{source}: group '{group}' has shape {shape}, expected {env.num_envs} rows.", fatal=True)
        else:
            findings.add_if_not_finite(f"{source}: group '{group}' holds", value)


def _check_vector(findings: _Findings, name: str, value: torch.Tensor, num_envs: int) -> None:
    if not isinstance(value, torch.Tensor) or value.shape != (num_envs,):
        shape = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
        findings.add(f"step(): {name} must be a tensor of shape ({num_envs},), got {shape}.", fatal=True)
    else:
        findings.add_if_not_finite(f"step(): {name} hold", value)


def _check_extras(
    findings: _Findings, before: TensorDict, obs: TensorDict, dones: torch.Tensor, extras: dict, env: VecEnv
) -> bool:
    """Check time-outs and final observations of one step; return whether a time-out happened."""
    if findings.fatal or "time_outs" not in extras:
        return False
    time_outs = extras["time_outs"]
    _check_vector(findings, "extras['time_outs']", time_outs, env.num_envs)
    if findings.fatal:
        return False
    time_outs = time_outs > 0
    if bool((time_outs & ~(dones > 0)).any()):
        findings.add("extras['time_outs'] is set where dones is not: an episode that ends by time is done too.")
        return True  # what else is wrong may follow from it
    if not bool(time_outs.any()):
        return False
    final_obs = extras.get("final_obs")
    if final_obs is None:
        findings.add(
            "extras['final_obs'] is missing at a time-out: pass the observations of the moment before the reset."
        )
        return True
    for group, value in obs.items():
        if group not in final_obs or final_obs[group].shape != value.shape:
            findings.add(f"extras['final_obs'] must hold group '{group}' in shape {tuple(value.shape)}.")
        elif not bool(torch.isfinite(final_obs[group][time_outs].float()).all()):
            findings.add(f"extras['final_obs']: group '{group}' holds NaN or infinite values.")
    groups = [group for group in obs.keys() if group in final_obs]  # noqa: SIM118

    def is_final(other: TensorDict) -> bool:
        return bool(groups) and all(
            torch.equal(final_obs[group][time_outs], other[group][time_outs]) for group in groups
        )

    if is_final(obs):
        findings.add(
            "extras['final_obs'] equals the observations after the reset: take it before you reset, and as a copy."
        )
    elif is_final(before):
        findings.add(
            "extras['final_obs'] equals the observations before the step: it must show what the action led to, so"
            " compute it after the physics instead of taking one that was kept."
        )
    return True


def _check_state_dict(findings: _Findings, env: VecEnv, actions: torch.Tensor) -> None:
    """Check that a restored environment is where it was, and goes on as it did, resets included."""
    state, before = copy.deepcopy(env.state_dict()), env.get_observations().clone()  # type: ignore[attr-defined]
    rng_state = get_rng_state()  # a runner restores it too
    try:
        check_plain(state, "state_dict()")
    except CheckpointError as error:
        findings.add(f"{error}")
    # Half of the episodes are over in the next step: a reset draws from the generators that a state may forget.
    lengths, restart = env.episode_length_buf.clone(), env.episode_length_buf.clone()
    restart[::2] = int(torch.as_tensor(env.max_episode_length).max())

    def advance() -> list[torch.Tensor]:
        env.episode_length_buf = restart.clone()
        outcomes = [env.step(actions)[:3] for _ in range(2)]
        parts = [part for obs, rewards, dones in outcomes for part in (*obs.values(), rewards, dones)]
        return [torch.as_tensor(part).nan_to_num(nan=-1e9) for part in parts]  # copies, in which NaN equals NaN

    first = advance()
    env.load_state_dict(state)  # type: ignore[attr-defined]
    set_rng_state(rng_state)
    after = env.get_observations()
    if any(not torch.equal(before[group], after[group]) for group in before.keys()):  # noqa: SIM118
        findings.add("load_state_dict() does not bring back the observations of the time of state_dict().")
    elif not torch.equal(lengths, env.episode_length_buf):
        findings.add("load_state_dict() does not bring back episode_length_buf.")
    elif not all(map(torch.equal, first, advance())):
        findings.add(
            "After load_state_dict() the environment goes on otherwise than after state_dict(), with the same actions:"
            " something is missing in the state, such as a random generator."
        )
