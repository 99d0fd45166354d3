# SPDX-License-Identifier: BSD-3-Clause

"""Functions in many processes, with the environment variables that ``torchrun`` sets."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import pickle
import socket
import time
import traceback
from collections.abc import Callable
from typing import Any

# A server that has imported what is slow to import forks the processes.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["rsl_rl_sac.runners", "tests.helpers"])


def run_processes(function: Callable[..., Any], *arguments: object, timeout: float = 300.0) -> list[Any]:
    """Call a function in two processes at once and return what it returns in each.

    A process that is killed returns the negative number of the signal. If one raises an error, so does this function.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    pipes = [_CONTEXT.Pipe(duplex=False) for _ in range(2)]
    processes = [
        _CONTEXT.Process(target=_call, args=(pipes[rank][1], rank, port, function, arguments)) for rank in range(2)
    ]
    for process, (_, sender) in zip(processes, pipes, strict=True):
        process.start()
        sender.close()
    deadline = time.monotonic() + timeout
    results = []
    try:
        for process, (receiver, _) in zip(processes, pipes, strict=True):
            assert receiver.poll(max(0.0, deadline - time.monotonic())), "The processes hang."
            try:
                succeeded, result = pickle.loads(receiver.recv_bytes())
            except EOFError:
                process.join(10.0)
                succeeded, result = True, process.exitcode
            assert succeeded, result
            results.append(result)
    finally:
        for process in processes:
            process.join(0.0 if len(results) < 2 else 10.0)
            process.kill()
    return results


def _call(
    sender: multiprocessing.connection.Connection, rank: int, port: int, function: Callable, arguments: tuple
) -> None:
    variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in variables.items()})
    import torch

    torch.set_num_threads(1)
    try:
        outcome = (True, function(*arguments))
    except Exception:
        outcome = (False, traceback.format_exc())
    sender.send_bytes(pickle.dumps(outcome))  # not send(), with which torch would share memory that ends with us
