# SPDX-License-Identifier: BSD-3-Clause

"""The file that a run leaves when a number was not finite: its last vector steps, replayed for people."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import torch

from rsl_rl_sac.runners.numbers import DUMP_KIND
from rsl_rl_sac.utils.checkpoint import load_safely
from rsl_rl_sac.utils.errors import CheckpointError, ConfigError

_NAME = re.compile(r"dump_\d+(_rank\d+)?\.pt")


@dataclass
class Dump:
    """Last vector steps of some environments."""

    reason: str
    """What went wrong."""
    iteration: int
    """Iteration in which it did."""
    num_envs: int
    """Environments of the run."""
    envs: list[int]
    """Those that the file holds: the ones that went wrong, or the first ones if none did."""
    steps: list[dict[str, torch.Tensor]]
    """Observations before and after, actions, rewards and ends of each step, oldest first, of these environments."""


def is_dump(path: Path) -> bool:
    """Return whether a file is called as dumps are."""
    return path.is_file() and _NAME.fullmatch(path.name) is not None


def load_dump(path: Path) -> Dump:
    """Read a dump.

    Raises:
        CheckpointError: If the file is damaged, unsafe, or something else.
    """
    content = load_safely(path, "cpu")
    if content.pop("kind", None) != DUMP_KIND:
        raise CheckpointError(f"'{path}' is not a dump of vector steps.")
    try:
        return Dump(**content)
    except TypeError as error:
        raise CheckpointError(f"'{path}' is not a dump of this version: {error}.") from error


def replay_dump(dump: Dump, env: int | None = None) -> list[tuple[str, ...]]:
    """Return the steps of one environment: number, what it is, its range, and the columns that are not finite.

    Args:
        dump: Dump.
        env: Environment, by its number in the run; None is the first that the dump holds.

    Raises:
        ConfigError: If the dump does not hold the environment.
    """
    env = dump.envs[0] if env is None else env
    if env not in dump.envs:
        raise ConfigError(f"The dump does not hold environment {env}, only {', '.join(map(str, dump.envs))}.")
    row = dump.envs.index(env)
    lines = []
    for index, step in enumerate(dump.steps):
        number = str(index + 1 - len(dump.steps))  # 0 is the last
        for name, tensor in step.items():
            lines.append((number, name.replace("/", " "), *_summary(tensor[row].flatten())))
    return lines


def _summary(values: torch.Tensor) -> tuple[str, str]:
    """Return the range of the finite values, or the values if they are few, and where others are."""
    if values.dtype == torch.bool or not values.dtype.is_floating_point:
        return " ".join(str(int(value)) for value in values), ""
    bad = (~torch.isfinite(values)).nonzero().flatten().tolist()
    marks = ", ".join(f"{values[column]:.0f} at {column}" for column in bad[:8])
    if values.numel() <= 4:
        return " ".join(f"{value:.4g}" for value in values.tolist()), marks
    finite = values[torch.isfinite(values)]
    span = f"{finite.min():.4g} … {finite.max():.4g}" if finite.numel() > 0 else "nothing finite"
    return f"{span}, {values.numel()} values", marks
