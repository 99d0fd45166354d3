# SPDX-License-Identifier: BSD-3-Clause

"""The observations that a reset would have hidden."""

from __future__ import annotations

import torch
from tensordict import TensorDict

_INITIAL_ROWS = 256


class TimeoutTable:
    """Pre-reset observations of transitions that ended by time, found by the number of the transition.

    Time-outs happen once per episode at most, so keeping their observations aside is what lets the replay hold every
    other observation once. Transitions are numbered in the order they are stored, hence the numbers in the table are
    sorted: rows are appended at the end, the oldest expire at the front, and a look-up is a binary search. Nothing is
    kept per transition. Rows move only when the end is reached, and then at least half of the table is free.
    """

    def __init__(self, obs: TensorDict, dtypes: dict[str, torch.dtype], device: torch.device | str) -> None:
        """Create an empty table for observations like ``obs``, stored with the given types."""
        self.device = device
        self.keys = torch.zeros(_INITIAL_ROWS, dtype=torch.long, device=device)
        self.rows = {
            group: torch.zeros(_INITIAL_ROWS, *obs[group].shape[1:], dtype=dtype, device=device)
            for group, dtype in dtypes.items()
        }
        self._start = 0
        self._end = 0

    def __len__(self) -> int:
        """Return the number of live rows."""
        return self._end - self._start

    @property
    def nbytes(self) -> int:
        """Bytes of the live rows and their keys."""
        tensors = [self.keys, *self.rows.values()]
        return len(self) * sum(tensor[0].numel() * tensor.element_size() for tensor in tensors)

    def append(self, keys: torch.Tensor, rows: dict[str, torch.Tensor]) -> None:
        """Append rows, of its own groups. The keys are sorted and larger than every key in the table."""
        count = keys.shape[0]
        if self._end + count > self.keys.shape[0]:
            self._make_room(count)
        self.keys[self._end : self._end + count] = keys
        for group, own_rows in self.rows.items():
            own_rows[self._end : self._end + count] = rows[group]
        self._end += count

    def expire(self, first_valid_key: int) -> None:
        """Forget every row whose key is below ``first_valid_key``."""
        if len(self) > 0:
            live = self.keys[self._start : self._end]
            self._start += int(torch.searchsorted(live, first_valid_key))

    def lookup(self, keys: torch.Tensor) -> torch.Tensor:
        """Return the positions in :attr:`rows` of keys that are in the table."""
        return self._start + torch.searchsorted(self.keys[self._start : self._end], keys)

    def state_dict(self) -> dict:
        """Return the live rows."""
        live = slice(self._start, self._end)
        return {
            "keys": self.keys[live].clone(),
            "rows": {group: rows[live].clone() for group, rows in self.rows.items()},
        }

    def load_state_dict(self, state_dict: dict) -> None:
        """Replace the contents by saved rows."""
        self._start = self._end = 0
        self.append(state_dict["keys"].to(self.device), state_dict["rows"])

    def _make_room(self, count: int) -> None:
        """Move the live rows to the front of a table at least twice as large as they are."""
        capacity = self.keys.shape[0]
        while capacity < 2 * (len(self) + count):
            capacity *= 2
        live = slice(self._start, self._end)
        self._end = len(self)
        self._start = 0
        # Runners collect in inference mode; tensors made there could not be written to outside of it.
        with torch.inference_mode(False):
            self.keys = _moved_to_front(self.keys, live, capacity)
            self.rows = {group: _moved_to_front(rows, live, capacity) for group, rows in self.rows.items()}


def _moved_to_front(rows: torch.Tensor, live: slice, capacity: int) -> torch.Tensor:
    moved = rows.new_zeros(capacity, *rows.shape[1:])
    moved[: live.stop - live.start] = rows[live]
    return moved
