# SPDX-License-Identifier: BSD-3-Clause

"""The table of pre-reset observations against a dictionary."""

from __future__ import annotations

import random

import torch
from tensordict import TensorDict

from rsl_rl_sac.storage.timeout_table import TimeoutTable


def test_equals_dictionary() -> None:
    """Random appends, expiries and look-ups, through many growths and moves to the front."""
    rng = random.Random(0)
    table = TimeoutTable(TensorDict({"o": torch.zeros(1, 2)}, batch_size=[1]), {"o": torch.float32}, "cpu")
    reference: dict[int, float] = {}
    next_key, first_valid = 0, 0
    for _ in range(2000):
        keys = sorted(rng.sample(range(next_key, next_key + 60), rng.choice([0, 1, 5, 40])))
        next_key += 60
        if keys:
            values = torch.rand(len(keys), 1).repeat(1, 2)
            table.append(torch.tensor(keys), {"o": values})
            reference.update(zip(keys, values[:, 0].tolist(), strict=True))
        first_valid = max(first_valid, next_key - rng.choice([600, 3000]))
        table.expire(first_valid)
        reference = {key: value for key, value in reference.items() if key >= first_valid}
        assert len(table) == len(reference)
        if reference:
            asked = rng.choices(list(reference), k=20)
            rows = table.rows["o"][table.lookup(torch.tensor(asked))]
            assert rows[:, 0].tolist() == [reference[key] for key in asked]
    assert table.keys.shape[0] <= 4 * 2 * 2048  # bounded by what lives at once, not by what ever was
