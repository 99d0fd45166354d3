# SPDX-License-Identifier: BSD-3-Clause

"""The ring of transitions and its n-step sampler (Sec. 3.4 and 3.5 of the paper)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from tensordict import TensorDict

from rsl_rl_sac.storage.timeout_table import TimeoutTable
from rsl_rl_sac.utils.checkpoint import check_parts
from rsl_rl_sac.utils.errors import CheckpointError, ConfigError, EnvContractError, NonFiniteError

_DONE = 1
"""Flag of a transition that ended its episode, by failure or by time."""

_TIME_OUT = 2
"""Flag of a transition that ended by time: the value of its pre-reset observation belongs to the target."""

_CUT = 4
"""Flag of a transition whose next observation is unknown: it can be neither sampled nor passed by a window."""

_SAVED: dict[str, type] = {
    **dict.fromkeys(("observations", "timeout_table"), dict),
    **dict.fromkeys(("actions", "rewards", "flags", "generator"), torch.Tensor),
    **dict.fromkeys(("total_steps", "num_steps", "last_cut_step"), int),
}
"""Parts of a saved ring."""

_WINDOWS_AT_ONCE = 1 << 20
"""Windows whose returns are computed together, which bounds the scratch memory (an index alone takes 8 bytes each)."""


@dataclass
class Batch:
    """An n-step mini-batch. The critic target is ``returns + discounts * V(next_observations)``."""

    observations: TensorDict
    """Observations :math:`s_t`."""

    actions: torch.Tensor
    """Actions :math:`a_t`. Shape: ``(batch, num_actions)``."""

    returns: torch.Tensor
    """Rewards summed over the window, :math:`\\sum_k \\gamma^k S_k r_{t+k}`. Shape: ``(batch,)``."""

    next_observations: TensorDict
    """Observations to bootstrap from: ``m`` steps later, or before the reset if the window met a time-out."""

    discounts: torch.Tensor
    """:math:`\\gamma^m` with the number ``m`` of steps really taken, 0 after a failure. Shape: ``(batch,)``."""

    indices: torch.Tensor
    """Rows ``step * num_envs + env`` of the ring that were drawn. Shape: ``(batch,)``."""

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on another device."""
        return Batch(**{name: value.to(device, non_blocking=True) for name, value in vars(self).items()})


class ReplayStorage:
    """Ring of vector steps that stores every observation once.

    The observation that follows row ``(step, env)`` is row ``(step + 1, env)``. Only where an episode ended by time is
    that row (an observation after the reset) not the successor; those few pre-reset observations are kept in a
    :class:`TimeoutTable`. After a failure no successor is needed.

    The paper's three-term target has exactly one live bootstrap per sample (``n`` steps later, before the reset of the
    first time-out, or none after a failure), so a window is summed up by its return, one observation and one discount.
    """

    def __init__(
        self,
        num_envs: int,
        capacity: int,
        obs: TensorDict,
        num_actions: int,
        n_step: int = 1,
        gamma: float = 0.99,
        device: torch.device | str = "cpu",
        obs_dtype: torch.dtype = torch.float32,
        seed: int = 0,
        action_dtype: torch.dtype | None = None,
    ) -> None:
        """Allocate the ring.

        Args:
            num_envs: Number of environments.
            capacity: Number of transitions to hold, over all environments.
            obs: Observations whose groups, shapes and types the storage takes over.
            num_actions: Number of actions.
            n_step: Length of the return window.
            gamma: Discount factor.
            device: Device of the storage and of the batches.
            obs_dtype: Type in which floating-point observations are stored. They are returned in the default type.
            seed: Seed of the sampling generator.
            action_dtype: Type in which actions are stored, the default type if None.
        """
        self.num_envs = int(num_envs)  # NumPy's, which checkpoints do not take, will do
        self.num_steps = capacity // self.num_envs
        self.n_step = n_step
        self.gamma = gamma
        self.device = torch.device(device)
        self.dtype = torch.get_default_dtype()
        if n_step < 1:
            raise ConfigError(f"n_step must be at least 1, got {n_step}.")
        if self.num_steps < n_step + 1:
            raise ConfigError(
                f"A replay of {capacity} transitions holds {self.num_steps} steps of {num_envs} environments, but"
                f" {n_step}-step returns need {n_step + 1}. Set replay_size to at least {(n_step + 1) * num_envs}."
            )
        obs_dtypes = {
            group: obs_dtype if value.dtype.is_floating_point else value.dtype for group, value in obs.items()
        }
        ring = (self.num_steps, num_envs)
        self.observations = {
            group: torch.zeros(*ring, *obs[group].shape[1:], dtype=dtype, device=device)
            for group, dtype in obs_dtypes.items()
        }
        self.actions = torch.zeros(*ring, num_actions, dtype=action_dtype or self.dtype, device=device)
        self.rewards = torch.zeros(*ring, dtype=self.dtype, device=device)
        self.flags = torch.zeros(*ring, dtype=torch.uint8, device=device)
        self.timeout_table = TimeoutTable(obs, obs_dtypes, device)
        self.generator = torch.Generator(device=self.device)
        self.generator.manual_seed(seed)
        self.total_steps = 0
        """Number of vector steps ever added; step ``i`` lies in row ``i % num_steps``."""
        self.last_cut_step = -1
        """Newest vector step with a cut transition; while the ring holds it, sampling looks for cuts."""
        self._powers = self.gamma ** torch.arange(n_step + 1, dtype=self.dtype, device=device)
        self._window = torch.arange(n_step, device=device)

    def __len__(self) -> int:
        """Return the number of stored transitions."""
        return min(self.total_steps, self.num_steps) * self.num_envs

    @property
    def num_valid_steps(self) -> int:
        """Number of vector steps from which a whole window can be drawn: none may cross the write head."""
        return max(0, min(self.total_steps, self.num_steps) - self.n_step)

    @property
    def nbytes(self) -> int:
        """Bytes of the ring and of the live rows of the time-out table."""
        tensors = [*self.observations.values(), self.actions, self.rewards, self.flags]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors) + self.timeout_table.nbytes

    def add(
        self,
        obs: TensorDict,
        actions: torch.Tensor,
        rewards: torch.Tensor,
        dones: torch.Tensor,
        time_outs: torch.Tensor | None = None,
        final_obs: TensorDict | None = None,
        invalid: torch.Tensor | None = None,
    ) -> None:
        """Store one vector step.

        Args:
            obs: Observations the actions were chosen from.
            actions: Actions. Shape: ``(num_envs, num_actions)``.
            rewards: Rewards. Shape: ``(num_envs,)``.
            dones: Whether the episode ended, by failure or by time. Shape: ``(num_envs,)``.
            time_outs: Whether it ended by time. Shape: ``(num_envs,)``.
            final_obs: Observations before the reset, of which the rows that ended by time are read. Without them such
                transitions are cut: never sampled, and windows that reach one end in front of it.
            invalid: Whether the step must never be sampled, as one of a broken simulation. Shape: ``(num_envs,)``.
        """
        # Checked first, so that a step which is refused leaves the ring as it was.
        stored = {group: self._stored(group, values, obs[group]) for group, values in self.observations.items()}
        actions = actions.to(self.actions)
        if actions.dtype == torch.float16:
            _check_finite("The actions", actions, "do not fit into float16; use bfloat16")
        dones = dones.to(self.device) > 0
        timed_out = torch.zeros_like(dones) if time_outs is None else dones & (time_outs.to(self.device) > 0)
        envs = timed_out.nonzero().flatten()
        final_rows = None if final_obs is None or len(envs) == 0 else self._final_rows(envs, final_obs)

        row = self.total_steps % self.num_steps
        if self.total_steps >= self.num_steps:
            self.timeout_table.expire((self.total_steps - self.num_steps + 1) * self.num_envs)
        for group, values in stored.items():
            self.observations[group][row] = values
        self.actions[row] = actions
        self.rewards[row] = rewards
        self.flags[row] = dones.to(torch.uint8) * _DONE
        if final_rows is not None:
            self.flags[row, envs] |= _TIME_OUT
            self.timeout_table.append(self.total_steps * self.num_envs + envs, final_rows)
        elif len(envs) > 0:
            self.flags[row, envs] |= _CUT
            self.last_cut_step = self.total_steps
        self.total_steps += 1
        if invalid is not None and bool(invalid.any()):
            self.cut(invalid)

    def _stored(self, group: str, ring: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
        """Return observations of one group in the type of the ring, in which they must fit."""
        stored = obs.to(ring)
        if stored.dtype == torch.float16:
            _check_finite(f"Observation group '{group}'", stored, "does not fit into float16; use bfloat16")
        return stored

    def _final_rows(self, envs: torch.Tensor, final_obs: TensorDict) -> dict[str, torch.Tensor]:
        """Return the final observations of some environments, in the types of the ring."""
        missing = [group for group in self.observations if group not in final_obs]
        if missing:
            raise EnvContractError(f"extras['final_obs'] has no group {missing}, which the observations have.")
        rows = {
            group: final_obs[group].to(self.device)[envs].to(values.dtype)
            for group, values in self.observations.items()
        }
        for group, values in rows.items():
            is_half = values.dtype == torch.float16
            beyond = ", or some that do not fit into float16; use bfloat16 then" if is_half else ""
            _check_finite(f"extras['final_obs'], group '{group}',", values, f"holds NaN or infinite values{beyond}")
        return rows

    def cut(self, envs: torch.Tensor | None = None) -> None:
        """Keep what was added last apart from what comes next.

        Args:
            envs: Environments whose newest transition is wrong and must never be sampled, whether it ended its episode
                or not. None declares that what is added next does not follow what was added last, in any environment
                that did not end its episode, e.g. after all of them restarted. Shape: ``(num_envs,)``.
        """
        if self.total_steps > 0:
            newest = self.flags[(self.total_steps - 1) % self.num_steps]
            newest[(newest & _DONE) == 0 if envs is None else envs.to(self.device) > 0] |= _CUT
            self.last_cut_step = self.total_steps - 1

    def newest_observations(self, num_steps: int) -> TensorDict:
        """Return the observations of the last vector steps, flattened over time and environments."""
        num_steps = min(num_steps, self.num_steps, self.total_steps)
        rows = torch.arange(self.total_steps - num_steps, self.total_steps, device=self.device) % self.num_steps
        envs = torch.arange(self.num_envs, device=self.device)
        return self._gather((rows.unsqueeze(1) * self.num_envs + envs).flatten())

    def sample(self, batch_size: int) -> Batch:
        """Draw one mini-batch."""
        return next(self.mini_batches(1, batch_size))

    def mini_batches(self, num_mini_batches: int, batch_size: int) -> Iterator[Batch]:
        """Draw mini-batches one after the other, each on transitions of its own.

        Indices, returns and discounts of many batches are computed at once, which is what makes small batches cheap;
        the observations, which are large, are gathered when a batch is asked for. So take all batches before the next
        :meth:`add`.
        """
        if self.num_valid_steps == 0:
            raise RuntimeError(
                f"The replay holds {min(self.total_steps, self.num_steps)} vector steps, sampling {self.n_step}-step"
                f" returns needs {self.n_step + 1}."
            )
        batches_at_once = max(1, _WINDOWS_AT_ONCE // batch_size)
        for first in range(0, num_mini_batches, batches_at_once):
            yield from self._draw_batches(min(batches_at_once, num_mini_batches - first), batch_size)

    def _draw_batches(self, num_mini_batches: int, batch_size: int) -> Iterator[Batch]:
        steps, envs = self._draw_starts((num_mini_batches, batch_size))
        returns, lengths, last_flags = self._sum_windows(steps, envs)
        timed_out = (last_flags & _TIME_OUT) > 0
        discounts = self._powers[lengths] * ((last_flags == 0) | timed_out)
        next_steps = steps + lengths
        rows = (steps % self.num_steps) * self.num_envs + envs
        next_rows = (next_steps % self.num_steps) * self.num_envs + envs
        # The time-outs of all batches are looked up together: one transfer from a GPU instead of one per batch.
        positions = self.timeout_table.lookup(((next_steps - 1) * self.num_envs + envs)[timed_out])
        places = timed_out.nonzero()[:, 1]
        counts = timed_out.sum(dim=1).tolist()
        for i, (place, position) in enumerate(zip(places.split(counts), positions.split(counts), strict=True)):
            next_observations = self._gather(next_rows[i])
            if counts[i] > 0:
                for group, values in self.timeout_table.rows.items():
                    next_observations[group][place] = values[position].to(self._returned(values))
            yield Batch(
                observations=self._gather(rows[i]),
                actions=self.actions.flatten(0, 1).index_select(0, rows[i]).to(self.dtype),
                returns=returns[i],
                next_observations=next_observations,
                discounts=discounts[i],
                indices=rows[i],
            )

    def _draw_starts(self, shape: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw the first steps (counted as :attr:`total_steps` counts) and environments of windows, uniformly."""
        first = max(0, self.total_steps - self.num_steps)
        num_valid = self.num_valid_steps * self.num_envs
        flat = torch.randint(num_valid, shape, generator=self.generator, device=self.device)
        while self.last_cut_step >= first:  # draw those again that start at a cut
            steps, envs = first + flat // self.num_envs, flat % self.num_envs
            is_cut = (self.flags[steps % self.num_steps, envs] & _CUT) > 0
            num_cut = int(is_cut.sum())
            if num_cut == 0:
                break
            if num_cut == flat.numel() and self._num_startable() == 0:
                raise RuntimeError("Every stored transition is cut: nothing can be sampled.")
            flat[is_cut] = torch.randint(num_valid, (num_cut,), generator=self.generator, device=self.device)
        return first + flat // self.num_envs, flat % self.num_envs

    def _num_startable(self) -> int:
        """Count the valid starts that are not cut."""
        end = self.total_steps - self.n_step
        steps = torch.arange(end - self.num_valid_steps, end, device=self.device)
        return int(((self.flags[steps % self.num_steps] & _CUT) == 0).sum())

    def _sum_windows(self, steps: torch.Tensor, envs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the n-step return, the number of steps taken, and the flags of the last step, of each window."""
        rows, flags, taken = self._open_windows(steps, envs)
        returns = (self.rewards.flatten()[rows] * self._powers[:-1] * taken).sum(dim=-1)
        lengths = taken.sum(dim=-1)
        last_flags = flags.gather(-1, lengths.unsqueeze(-1) - 1).squeeze(-1)
        return returns, lengths, last_flags

    def _open_windows(self, steps: torch.Tensor, envs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the rows, the flags, and whether a window takes them (S_k of the paper), of the steps of each window.

        A window takes its steps up to and including the first that ends the episode.
        """
        rows = (steps.unsqueeze(-1) + self._window) % self.num_steps * self.num_envs + envs.unsqueeze(-1)
        flags = self.flags.flatten()[rows]
        ended = torch.cumsum(flags != 0, dim=-1, dtype=torch.int32)
        taken = (ended - (flags != 0).int()) == 0
        # A cut step has no usable successor. The window ends in front of it and bootstraps from its own observation.
        return rows, flags, taken & ((flags & _CUT) == 0)

    def reached_observations(self, indices: torch.Tensor, groups: list[str]) -> tuple[TensorDict, torch.Tensor]:
        """Return what every step of sampled windows led to, for rewards that are computed when sampling.

        Args:
            indices: :attr:`Batch.indices` of a batch that was drawn since the last :meth:`add`.
            groups: Observation groups to return.

        Returns:
            The observations after each step, before the reset if it ended by time, of ``batch * n_step`` rows, and the
            factors ``gamma^k S_k`` of their rewards, of shape ``(batch, n_step)``. The factor is 0 after a
            failure too, whose observation is not stored.
        """
        first = max(0, self.total_steps - self.num_steps)
        steps = first + (indices // self.num_envs - first) % self.num_steps
        envs = indices % self.num_envs
        rows, flags, taken = self._open_windows(steps, envs)
        timed_out = taken & ((flags & _TIME_OUT) > 0)
        failed = ((flags & _DONE) > 0) & ~timed_out
        next_rows = (rows + self.num_envs) % (self.num_steps * self.num_envs)
        observations = self._gather(next_rows.flatten(), groups)
        keys = (steps.unsqueeze(-1) + self._window) * self.num_envs + envs.unsqueeze(-1)
        positions = self.timeout_table.lookup(keys[timed_out])
        for group in groups:
            values = self.timeout_table.rows[group]
            observations[group][timed_out.flatten()] = values[positions].to(self._returned(values))
        return observations, self._powers[:-1] * (taken & ~failed)

    def _gather(self, rows: torch.Tensor, groups: Iterable[str] | None = None) -> TensorDict:
        gathered = {}
        for group in self.observations if groups is None else groups:
            values = self.observations[group]
            gathered[group] = values.flatten(0, 1).index_select(0, rows).to(self._returned(values))
        return TensorDict(gathered, batch_size=rows.shape)

    def _returned(self, values: torch.Tensor) -> torch.dtype:
        """Type in which stored values are returned: the default floating-point type, other types as they are."""
        return self.dtype if values.dtype.is_floating_point else values.dtype

    def state_dict(self) -> dict:
        """Return the filled part of the ring, the time-out table and the generator, as tensors and numbers."""
        filled = min(self.total_steps, self.num_steps)

        def part(values: torch.Tensor) -> torch.Tensor:
            # A file holds the whole memory behind a view, so a part of the ring is copied.
            return values if filled == self.num_steps else values[:filled].clone()

        return {
            "observations": {group: part(values) for group, values in self.observations.items()},
            "actions": part(self.actions),
            "rewards": part(self.rewards),
            "flags": part(self.flags),
            "timeout_table": self.timeout_table.state_dict(),
            "generator": self.generator.get_state(),
            "total_steps": self.total_steps,
            "num_steps": self.num_steps,
            "last_cut_step": self.last_cut_step,
        }

    def check_state_dict(self, state_dict: dict) -> None:
        """Raise an error if a state is not one of a ring of the same size with the same observations."""
        check_parts(state_dict, _SAVED, "The saved replay")
        for group, mine in self.observations.items():
            theirs = state_dict["observations"].get(group)
            if theirs is None or theirs.shape[1:] != mine.shape[1:]:
                found = "none" if theirs is None else tuple(theirs.shape[1:])
                raise CheckpointError(
                    f"The saved replay does not fit: observation group '{group}' has shape {found} per step (num_envs,"
                    f" size), this run has {tuple(mine.shape[1:])}."
                )
        if state_dict["num_steps"] != self.num_steps or state_dict["actions"].shape[1:] != self.actions.shape[1:]:
            raise CheckpointError(
                f"The saved replay holds {state_dict['num_steps']} steps of {tuple(state_dict['actions'].shape[1:])}"
                f" (num_envs, num_actions), this run has {self.num_steps} of {tuple(self.actions.shape[1:])}."
            )

    def load_state_dict(self, state_dict: dict, with_generator: bool = True) -> None:
        """Restore what :meth:`state_dict` returned, for a ring of the same size and the same observations.

        Args:
            state_dict: State.
            with_generator: Whether to draw as the saved one would have; otherwise the draws stay this one's own.
        """
        self.check_state_dict(state_dict)
        filled = state_dict["actions"].shape[0]
        for group, values in self.observations.items():
            values[:filled] = state_dict["observations"][group]
        for name in ("actions", "rewards", "flags"):
            getattr(self, name)[:filled] = state_dict[name]
        self.timeout_table.load_state_dict(state_dict["timeout_table"])
        same_kind = state_dict["generator"].shape == self.generator.get_state().shape  # a GPU's differs from a CPU's
        if with_generator and same_kind:
            self.generator.set_state(state_dict["generator"].cpu())
        self.total_steps = state_dict["total_steps"]
        self.last_cut_step = state_dict["last_cut_step"]


def _check_finite(name: str, values: torch.Tensor, fault: str) -> None:
    if values.dtype.is_floating_point and not bool(torch.isfinite(values).all()):
        raise NonFiniteError(f"{name} {fault}.")
