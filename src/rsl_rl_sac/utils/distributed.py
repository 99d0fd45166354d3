# SPDX-License-Identifier: BSD-3-Clause

"""Collective operations between the processes of one training."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed


def broadcast_tensors(tensors: Iterable[torch.Tensor]) -> None:
    """Overwrite the tensors of every process by those of the first."""
    for tensor in tensors:
        torch.distributed.broadcast(tensor.data, src=0)


def average_gradients(parameters: Iterable[torch.Tensor], world_size: int) -> None:
    """Replace gradients by their mean over all processes, in one message.

    One step of SAC reduces the critics', the actor's and the temperature's gradients apart, each a few megabytes, so
    one packed buffer per call needs no further splitting.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    packed = torch.cat([gradient.flatten() for gradient in gradients])
    torch.distributed.all_reduce(packed)
    packed /= world_size
    for gradient, mean in zip(gradients, packed.split([gradient.numel() for gradient in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))
