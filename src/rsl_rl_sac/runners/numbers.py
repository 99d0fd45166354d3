# SPDX-License-Identifier: BSD-3-Clause

"""Numbers that are not: NaN and infinity in what the environment returns and in what the policy does.

Nothing of it reaches the replay. Either the run stops, with the last vector steps in a file that ``rsl-rl-sac info``
shows, or the environments that it came from are put into quarantine: their transitions are kept out, and their episodes
ended.
"""

from __future__ import annotations

import pathlib
from collections import deque
from dataclasses import dataclass

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rsl_rl_sac.envs.check_vec_env import check_step
from rsl_rl_sac.utils.checkpoint import save_atomically
from rsl_rl_sac.utils.errors import NonFiniteError

DUMP_KIND = "vector steps"
"""What a dump says of itself, under the key ``kind``."""

_ENVS_IN_DUMP = 32
"""Environments whose steps a dump holds."""

_PATIENCE = 10
"""Vector steps in a row that may be bad in every environment before there is nothing left to learn from."""


@dataclass
class VectorStep:
    """One step of all environments."""

    actions: torch.Tensor
    """Actions taken."""
    obs: TensorDict
    """Observations after the step, and after the reset of those that ended."""
    rewards: torch.Tensor
    """Rewards."""
    dones: torch.Tensor
    """Whether the episode ended."""
    extras: dict
    """What else the environment returned."""
    poisoned: torch.Tensor | None = None
    """Environments whose transition must not be learned from, None if there are none. Shape: ``(num_envs,)``."""


class Numbers:
    """Steps an environment and sees to it that every number is finite.

    In quarantine, an observation that is not finite is replaced by the last good one of the same environment, so that
    the policy can act on it, and neither the transition that led to it nor the one that starts from it is learned from.
    """

    def __init__(self, env: VecEnv, way: str = "stop", num_dumped: int = 10, enabled: bool = True) -> None:
        """Initialize.

        Args:
            env: Environment.
            way: What a run does about numbers that are not finite, ``stop`` or ``quarantine``.
            num_dumped: Vector steps to keep for a dump.
            enabled: Whether to look at the numbers at all.
        """
        self.env = env
        self.way = way
        self.enabled = enabled
        self.when = "before the first iteration"
        """Where the training is, for messages."""
        self.num_quarantined = 0
        """Transitions that were kept out since :meth:`take_count`."""
        self._steps: deque[dict] = deque(maxlen=num_dumped)
        self._bad_starts: torch.Tensor | None = None
        self._replaced: dict[str, torch.Tensor] = {}
        self._num_hopeless = 0

    def start(self, obs: TensorDict) -> TensorDict:
        """Return the first observations of a call of ``learn``; those replaced before a checkpoint still are."""
        if not self.enabled:
            return obs
        obs = obs.clone()
        if self._bad_starts is not None:
            for group, rows in self._replaced.items():
                obs[group][self._bad_starts] = rows.to(obs[group])
        bad = _bad_rows(obs)
        if bool(bad.any()):
            self._stop_unless_quarantine(_place(obs=obs))
            self._replace(obs, bad, obs.clone().zero_())
            self._bad_starts = bad if self._bad_starts is None else bad | self._bad_starts
        return obs

    def step(self, obs: TensorDict, actions: torch.Tensor) -> VectorStep:
        """Step the environment.

        Args:
            obs: Observations, as :meth:`start` or this method returned them.
            actions: Actions of the policy.

        Raises:
            NonFiniteError: If a number is not finite and the run shall stop, or if no environment is left.
        """
        bad_actions = _bad_rows({"actions": actions}) if self.enabled else None
        if bad_actions is not None and bool(bad_actions.any()):
            self._remember(obs, VectorStep(actions, obs, *_nothing(actions)))
            self._stop_unless_quarantine(_place(actions=actions))
            if bool(bad_actions.all()):
                raise NonFiniteError(f"{_place(actions=actions)} The policy itself is broken.")
            actions = torch.where(bad_actions.unsqueeze(1), 0.0, actions)
        new_obs, rewards, dones, extras = self.env.step(actions.to(self.env.device))
        check_step({group: values.shape for group, values in _groups(obs).items()}, new_obs, rewards, dones, extras)
        step = VectorStep(actions, new_obs.to(actions.device), rewards, dones, extras)
        if self.enabled:
            self._remember(obs, step)
            self._examine(obs, step, bad_actions)
        return step

    def _examine(self, obs: TensorDict, step: VectorStep, bad_actions: torch.Tensor | None) -> None:
        """Find what is not finite in a step, and replace it."""
        time_outs, final_obs = step.extras.get("time_outs"), step.extras.get("final_obs")
        bad_obs, bad_rewards = _bad_rows(step.obs), ~torch.isfinite(step.rewards.to(step.obs.device))
        bad_final = torch.zeros_like(bad_obs)
        if time_outs is not None and final_obs is not None:  # the other rows are never read
            bad_final = _bad_rows(final_obs).to(bad_obs.device) & (time_outs.to(bad_obs.device) > 0)
        bad = bad_obs | bad_rewards | bad_final
        if bool(bad.any()):
            place = _place(step.obs, step.rewards, final_obs if bool(bad_final.any()) else None)
            self._stop_unless_quarantine(place)
            step.obs, step.rewards, step.extras = step.obs.clone(), step.rewards.clone(), dict(step.extras)
            self._replace(step.obs, bad_obs, obs)
            step.rewards[bad_rewards.to(step.rewards.device)] = 0.0
            if final_obs is not None and bool(bad_final.any()):
                step.extras["final_obs"] = final_obs.clone()
                rows = bad_final.to(final_obs.device)
                self._replace(step.extras["final_obs"], rows, obs.to(final_obs.device))
            self._end_episodes(bad)
            self._num_hopeless = self._num_hopeless + 1 if bool(bad.all()) else 0
            if self._num_hopeless >= _PATIENCE:
                raise NonFiniteError(f"{place} It was so in every environment, {_PATIENCE} steps in a row.")
        else:
            self._num_hopeless = 0
        for other in (bad_actions, self._bad_starts):
            bad = bad if other is None else bad | other.to(bad.device)
        self._bad_starts = bad_obs if bool(bad_obs.any()) else None
        self._replaced = {}
        if self._bad_starts is not None:
            self._replaced = {group: values[bad_obs] for group, values in _groups(step.obs).items()}
        if bool(bad.any()):
            step.poisoned = bad
            self.num_quarantined += int(bad.sum())

    def _stop_unless_quarantine(self, place: str) -> None:
        if self.way == "stop":
            raise NonFiniteError(f"{place} It was {self.when}; nothing of this step was stored.")

    @staticmethod
    def _replace(obs: TensorDict, rows: torch.Tensor, good: TensorDict) -> None:
        for group, values in _groups(obs).items():
            values[rows] = good[group][rows]

    def _end_episodes(self, envs: torch.Tensor) -> None:
        """Let environments reset themselves in their next step: their time is over."""
        lengths = self.env.episode_length_buf.clone()
        lengths[envs.to(lengths.device)] = int(torch.as_tensor(self.env.max_episode_length).max())
        self.env.episode_length_buf = lengths

    def take_count(self) -> int:
        """Return how many transitions were kept out since the last call."""
        count, self.num_quarantined = self.num_quarantined, 0
        return count

    # -- Dumps -------------------------------------------------------------------------------------------------------

    def _remember(self, obs: TensorDict, step: VectorStep) -> None:
        """Keep a copy of a step, since an environment may write its next one into the same memory."""
        if self._steps.maxlen:
            record = {f"obs/{group}": values for group, values in _groups(obs).items()}
            record |= {"actions": step.actions, "rewards": step.rewards, "dones": step.dones}
            record |= {f"next_obs/{group}": values for group, values in _groups(step.obs).items()}
            self._steps.append({name: tensor.detach().clone() for name, tensor in record.items()})

    def dump(self, path: pathlib.Path, reason: str, iteration: int) -> None:
        """Write the last vector steps of the environments that went wrong, or of the first ones.

        Args:
            path: File.
            reason: What went wrong.
            iteration: Iteration in which it did.
        """
        num_envs = self.env.num_envs
        bad = torch.zeros(num_envs, dtype=torch.bool)
        for step in self._steps:
            bad |= _bad_rows(step).cpu()
        envs = (bad if bool(bad.any()) else ~bad).nonzero().flatten()[:_ENVS_IN_DUMP]
        steps = [{name: tensor.cpu()[envs] for name, tensor in step.items()} for step in self._steps]
        content = {"kind": DUMP_KIND, "reason": reason, "iteration": iteration, "num_envs": num_envs}
        save_atomically({**content, "envs": envs.tolist(), "steps": steps}, path)

    # -- Resume ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict:
        """Return which observations are replaced, and by what."""
        bad = self._bad_starts
        return {"bad_starts": None if bad is None else bad.clone(), "replaced": dict(self._replaced)}

    def load_state_dict(self, state_dict: dict) -> None:
        """Restore what :meth:`state_dict` returned."""
        self._bad_starts = state_dict["bad_starts"]
        self._replaced = dict(state_dict["replaced"])


def _groups(obs: TensorDict) -> dict[str, torch.Tensor]:
    return {str(group): obs[group] for group in obs.keys()}  # noqa: SIM118


def _bad_rows(tensors: TensorDict | dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the environments for which any number is not finite. Shape: ``(num_envs,)``."""
    tensors = _groups(tensors) if isinstance(tensors, TensorDict) else tensors
    rows = [torch.isfinite(_with_columns(tensor)).flatten(1).all(dim=1) for tensor in tensors.values()]
    return ~torch.stack(rows).all(dim=0)


def _with_columns(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.unsqueeze(1) if tensor.dim() == 1 else tensor


def _place(
    obs: TensorDict | None = None,
    rewards: torch.Tensor | None = None,
    final_obs: TensorDict | None = None,
    actions: torch.Tensor | None = None,
) -> str:
    """Say in which environments, and where in them, a number is NaN or infinite."""
    named: dict[str, torch.Tensor] = {}
    for title, groups in (("observation group", obs), ("extras['final_obs'] group", final_obs)):
        if groups is not None:
            named |= {f"{title} '{group}'": values for group, values in _groups(groups).items()}
    named |= {"the rewards": rewards} if rewards is not None else {}
    named |= {"the actions": actions} if actions is not None else {}
    places = []
    for name, values in named.items():
        bad = ~torch.isfinite(_with_columns(values).flatten(1))
        if bool(bad.any()):
            envs = bad.any(dim=1).nonzero().flatten().tolist()
            columns = bad.any(dim=0).nonzero().flatten().tolist()
            where = f", columns {_short(columns)}" if bad.shape[1] > 1 else ""
            places.append(f"{name} of environment {_short(envs)}{where}")
    return f"NaN or infinity in {'; '.join(places)}."


def _short(numbers: list[int]) -> str:
    return f"{numbers[:8]}{f' and {len(numbers) - 8} more' if len(numbers) > 8 else ''}"


def _nothing(actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, dict]:
    """Return the rewards and ends of a step that was not made."""
    zeros = torch.zeros(actions.shape[0], device=actions.device)
    return zeros, zeros > 0, {}
