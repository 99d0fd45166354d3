# SPDX-License-Identifier: BSD-3-Clause

"""Devices that are not there, and memory that they do not have."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from rsl_rl_sac.utils.config_base import one_line, shown
from rsl_rl_sac.utils.errors import ConfigError, RslRlSacError

_SIGNS_OF_TOO_LITTLE_MEMORY = (
    "out of memory",
    "not enough memory",
    "allocate memory",
    "multiplication overflow",
    "storage size",
    "invalid shape dimension",
)
"""What torch's messages say, in lower case, if something is larger than what there is or than any size can be."""


def check_device(device: object, name: str = "device") -> None:
    """Raise an error if there is no such device.

    Args:
        device: Device or its name.
        name: Setting that it comes from, for the message.
    """
    try:
        found = torch.device(device)  # type: ignore[arg-type]
        torch.zeros(1, device=found).cpu()  # the device meta, which computes nothing, cannot do it
    except Exception as error:  # every backend has errors of its own
        raise ConfigError(
            f"{name} = {shown(device)} is not a device of this machine ({one_line(str(error), 120)}). Take 'cpu', or"
            " 'cuda:0' where torch.cuda.is_available()."
        ) from error


def on_cpu(value: object) -> object:
    """Return nested dictionaries, lists and tuples with their tensors on the CPU."""
    if isinstance(value, torch.Tensor):
        return value.cpu()
    if isinstance(value, dict):
        return {key: on_cpu(item) for key, item in value.items()}
    return type(value)(on_cpu(item) for item in value) if isinstance(value, list | tuple) else value


@contextlib.contextmanager
def within_memory(what: str, advice: str) -> Iterator[None]:
    """Turn torch's errors about memory into one that says what was too large and what to lower.

    Args:
        what: What is being built or done.
        advice: Settings to lower.
    """
    try:
        yield
    except RslRlSacError:
        raise
    except (RuntimeError, MemoryError) as error:
        message = str(error).lower()
        if not isinstance(error, MemoryError) and not any(sign in message for sign in _SIGNS_OF_TOO_LITTLE_MEMORY):
            raise
        raise ConfigError(f"There is not enough memory for {what}: lower {advice}.") from error
