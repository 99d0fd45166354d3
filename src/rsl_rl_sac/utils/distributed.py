# SPDX-License-Identifier: BSD-3-Clause

"""Many processes that train one policy, as ``torchrun`` starts them.

All of them make the same calls in the same order. With one process every function here does nothing or returns what it
was given.
"""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

import torch
import torch.distributed
from rsl_rl.models import MLPModel
from rsl_rl.modules import EmpiricalNormalization
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from rsl_rl_sac.utils.errors import ConfigError, LostProcessError, RslRlSacError

T = TypeVar("T")

TIMEOUT = datetime.timedelta(minutes=10)
"""How long a process waits for the others: longer than an evaluation or a checkpoint that one of them may be at."""


_SIGNS_OF_BACKENDS = ("gloo", "nccl", "closed by peer")
"""Words by which errors of torch's backends are known."""


# -- Start -----------------------------------------------------------------------------------------------------------


def launched_world_size() -> int:
    """Return how many processes were started, before or after they joined."""
    return int(os.getenv("WORLD_SIZE", "1"))


def launched_rank() -> int:
    """Return the number of this process among all."""
    return int(os.getenv("RANK", "0")) if launched_world_size() > 1 else 0


def launched_per_machine() -> int:
    """Return how many processes share this machine."""
    return int(os.getenv("LOCAL_WORLD_SIZE", str(launched_world_size())))


def launched_device() -> str:
    """Return the GPU of this process, or the CPU if there is none."""
    return f"cuda:{os.getenv('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"


def join_processes(device: str) -> str:
    """Wait for all processes that were started, and connect to them: by NCCL for tensors on GPUs, by gloo for others.

    Args:
        device: ``cpu``, ``cuda``, or the GPU of this process.

    Returns:
        The device of this process.

    Raises:
        ConfigError: If the device is not this process's own, or the processes were not started by a launcher.
    """
    world_size = launched_world_size()
    if world_size == 1:
        return device
    local_rank = int(os.getenv("LOCAL_RANK", "0"))
    if torch.device(device).type == "cuda":
        own = f"cuda:{local_rank}"
        if device not in ("cuda", own):
            raise ConfigError(f"Process {launched_rank()} must use the device '{own}', not '{device}'.")
        device = own
        torch.cuda.set_device(local_rank)
    if not torch.distributed.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        try:
            torch.distributed.init_process_group(backend, timeout=TIMEOUT)
        except (ValueError, RuntimeError) as error:
            raise ConfigError(
                f"The {world_size} processes that WORLD_SIZE speaks of did not find each other ({_first_line(error)})."
                " Start them with torchrun."
            ) from error
    return device


def leave_processes() -> None:
    """Wait for all processes and part from them: when one ends before the others, one that listens still may abort."""
    if _is_joined():
        with _waiting():
            torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def configure_processes(runner: OnPolicyRunner) -> None:
    """Stand in for rsl_rl's ``_configure_multi_gpu``, which refuses CPUs."""
    runner.device = join_processes(runner.device)
    runner.gpu_world_size = launched_world_size()
    runner.gpu_global_rank = launched_rank()
    runner.gpu_local_rank = int(os.getenv("LOCAL_RANK", "0")) if runner.gpu_world_size > 1 else 0
    runner.is_distributed = runner.gpu_world_size > 1
    runner.cfg["multi_gpu"] = None
    if runner.is_distributed:
        runner.cfg["multi_gpu"] = {
            "global_rank": runner.gpu_global_rank,
            "local_rank": runner.gpu_local_rank,
            "world_size": runner.gpu_world_size,
        }


# -- Tensors on the device of the learner ----------------------------------------------------------------------------


def average(tensor: torch.Tensor, world_size: int) -> torch.Tensor:
    """Replace a tensor by its mean over all processes, bit for bit the same in each."""
    if world_size > 1:
        with _waiting():
            torch.distributed.all_reduce(tensor)
        tensor /= world_size
    return tensor


def broadcast(tensors: Iterable[torch.Tensor]) -> None:
    """Overwrite tensors by those of the first process."""
    with _waiting():
        for tensor in tensors:
            torch.distributed.broadcast(tensor, src=0)


def update_normalization(model: MLPModel, obs: TensorDict, world_size: int) -> None:
    """Update the observation statistics of a model by what all processes saw."""
    if world_size > 1 and model.obs_normalization:
        values = torch.cat([obs[group] for group in model.obs_groups], dim=-1)
        update_normalizer(model.obs_normalizer, values)  # type: ignore[arg-type]
    else:
        model.update_normalization(obs)


@torch.no_grad()
def update_normalizer(normalizer: EmpiricalNormalization, values: torch.Tensor) -> None:
    """Update running statistics by what all processes saw, as one process would that saw it all.

    rsl_rl does so itself from 5.5 on, in three rounds of communication; before, every process had its own statistics.

    Args:
        normalizer: Statistics, the same in every process.
        values: What this process saw. Shape: ``(count, size)``.
    """
    if not normalizer.training or (normalizer.until is not None and normalizer.count >= normalizer.until):
        return
    count = values.shape[0]
    # Moments around the old mean, in double precision: they can be added up without loss.
    old_mean = normalizer._mean.double()
    offset = values.mean(dim=0, keepdim=True).double() - old_mean
    second = values.var(dim=0, keepdim=True, unbiased=False).double() + offset.square()
    sums = count * torch.cat([torch.ones_like(offset[:, :1]), offset, second], dim=1)
    with _waiting():
        torch.distributed.all_reduce(sums)
    total, offset, second = sums[:, :1], *sums[:, 1:].chunk(2, dim=1)
    offset, variance = offset / total, second / total - (offset / total).square()
    normalizer.count += total.view(()).long()
    rate = total / normalizer.count
    normalizer._mean += (rate * offset).to(values.dtype)
    shifted = variance - normalizer._var + (1.0 - rate) * offset.square()
    normalizer._var += (rate * shifted).to(values.dtype)
    normalizer._std = normalizer._var.sqrt()


# -- Plain values ----------------------------------------------------------------------------------------------------


def gather(value: T) -> list[T]:
    """Return the values of all processes, in every process."""
    if not _is_joined():
        return [value]
    values: list = [None] * torch.distributed.get_world_size()
    with _waiting():
        torch.distributed.all_gather_object(values, value)
    return values


def from_first(value: T) -> T:
    """Return the value of the first process."""
    if not _is_joined():
        return value
    values = [value]
    with _waiting():
        torch.distributed.broadcast_object_list(values, src=0)
    return values[0]


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Leave a block when all processes have, with the error of any of them in all.

    So none waits for one that failed. The block itself must not communicate.
    """
    error: Exception | None = None
    try:
        yield
    except (RslRlSacError, OSError) as caught:
        error = caught
    errors = [other for other in gather(error) if other is not None]
    if error is not None or errors:
        raise error or errors[0]


@contextlib.contextmanager
def naming_lost_process() -> Iterator[None]:
    """Say what happened where rsl_rl itself waits for another process that is gone.

    In such a block anything may fail; by what torch's backends say, those errors are told from others.
    """
    try:
        yield
    except RslRlSacError:
        raise
    except RuntimeError as error:
        if not _is_joined() or not any(sign in str(error).lower() for sign in _SIGNS_OF_BACKENDS):
            raise
        raise _lost_process(error) from error


def _is_joined() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


@contextlib.contextmanager
def _waiting() -> Iterator[None]:
    """Turn the errors of torch's backends into one that says what happened."""
    try:
        yield
    except RuntimeError as error:
        raise _lost_process(error) from error


def _lost_process(error: Exception) -> LostProcessError:
    return LostProcessError(f"Another process of this training ended or does not answer ({_first_line(error)}).")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
