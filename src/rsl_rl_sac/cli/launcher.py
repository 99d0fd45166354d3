# SPDX-License-Identifier: BSD-3-Clause

"""One command in many processes of this machine, with one message if it fails.

``torchrun`` does the same over many machines, with a report of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

LOST_PROCESS_EXIT_CODE = 3
"""Exit code of a process that ends because another one did."""

_GRACE_SECONDS = 5.0
"""Time in which the others end by themselves after one has failed."""


def launch(arguments: Sequence[str], num_processes: int) -> int:
    """Run ``rsl-rl-sac`` in many processes and wait for them.

    The first one has the terminal. What the others print to the error output is shown if they fail. Ctrl-C is passed on
    once, for the processes to save; a second one ends them. If one fails, all end.

    Args:
        arguments: Command line.
        num_processes: Number of processes.

    Returns:
        The exit code of a process that failed, 0 if none did; 128 and the signal if one was killed or interrupted.
    """
    with tempfile.TemporaryDirectory(prefix="rsl-rl-sac-") as folder:
        outputs = [Path(folder) / f"process{rank}.log" for rank in range(num_processes)]
        port = _free_port()
        processes: list[subprocess.Popen] = []
        with _passing_on_signals(processes) as received:
            try:
                for rank, output in enumerate(outputs):
                    processes.append(_start(arguments, rank, num_processes, port, output))
                if received:  # one that was not there yet has not heard of it
                    return 128 + received[-1]
                failed = _wait(processes)
            finally:
                for process in processes:
                    process.kill()  # checkpoints are written under another name first: this breaks none
                    process.wait()
        if signal.SIGTERM in received or signal.SIGHUP in received or received.count(signal.SIGINT) > 1:
            return 128 + received[-1]
        if received and -signal.SIGINT in failed.values():  # before there was anything to save
            return 128 + signal.SIGINT
        for rank, code in sorted(failed.items(), key=lambda item: _blame(item[1])):
            who = f"rsl-rl-sac: Process {rank} of {num_processes}"
            said = outputs[rank].read_text().strip() if rank > 0 else ""  # the first one has said itself what happened
            if code < 0:
                print(f"{who} was killed by {signal.Signals(-code).name}.\n{said}".rstrip(), file=sys.stderr)
            elif rank > 0 and code != LOST_PROCESS_EXIT_CODE:
                print(f"{who} failed:\n{said}", file=sys.stderr)
        return _exit_code(list(failed.values()))


def _blame(code: int) -> int:
    """Rank the exit code of a process that failed, the likeliest cause of the others' failure first.

    A process that misses another one ends with its own code, or is aborted by a thread of gloo that throws.
    """
    if code == LOST_PROCESS_EXIT_CODE:
        return 3
    if code == -signal.SIGABRT:
        return 2
    return 1 if code > 0 else 0


def _exit_code(codes: list[int]) -> int:
    """Return the exit code of a command of which processes failed: that of the likeliest cause."""
    code = min(codes, key=_blame, default=0)
    return code if code >= 0 else 128 - code


def _start(arguments: Sequence[str], rank: int, num_processes: int, port: int, output: Path) -> subprocess.Popen:
    """Start one process with the environment variables that ``torchrun`` sets."""
    variables = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": num_processes,
        "LOCAL_WORLD_SIZE": num_processes,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    command = [sys.executable, "-m", "rsl_rl_sac", *arguments]
    # A session of its own: a terminal's Ctrl-C reaches the launcher only, which passes it on to all at once.
    if rank == 0:
        return subprocess.Popen(command, env=environment, start_new_session=True)
    with output.open("w") as file:
        return subprocess.Popen(
            command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=file
        )


def _wait(processes: list[subprocess.Popen]) -> dict[int, int]:
    """Wait until all processes have ended, and end the others soon after one has failed.

    Returns:
        The exit codes of those that failed by themselves.
    """
    failed: dict[int, int] = {}
    deadline = float("inf")
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
        failed = _failures(processes)
        if failed and deadline == float("inf"):
            deadline = time.monotonic() + _GRACE_SECONDS
        time.sleep(0.05)
    return _failures(processes)


def _failures(processes: list[subprocess.Popen]) -> dict[int, int]:
    return {rank: process.returncode for rank, process in enumerate(processes) if process.poll() not in (None, 0)}


@contextlib.contextmanager
def _passing_on_signals(processes: list[subprocess.Popen]) -> Iterator[list[int]]:
    """Pass an interrupt on to all processes, and end them at a second one or at another signal that ends programs."""
    received: list[int] = []

    def pass_on(number: int, _: object) -> None:
        received.append(number)
        is_first_interrupt = number == signal.SIGINT and received.count(signal.SIGINT) == 1
        for process in processes:
            process.send_signal(signal.SIGINT if is_first_interrupt else signal.SIGKILL)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as it is under nohup
        numbers.append(signal.SIGHUP)
    old = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
