# SPDX-License-Identifier: BSD-3-Clause

"""Disks that are full, read-only or gone while a training writes to them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from rsl_rl.utils.logger import Logger

from rsl_rl_sac.utils.distributed import launched_rank
from rsl_rl_sac.utils.errors import CheckpointError


class DiskFaults:
    """What a run does about files that cannot be written."""

    def __init__(self, way: str = "retry") -> None:
        """Initialize with what a run does if it cannot write: ``retry`` at the next interval, or ``stop``."""
        self.way = way

    @contextlib.contextmanager
    def tolerated(self, what: str, is_last: bool = False) -> Iterator[None]:
        """Say in one line that a file could not be written, and go on; or raise an error.

        In many processes the block must fail in all of them or only do what no other waits for.

        Args:
            what: What is written.
            is_last: Whether nobody will try again: an error whatever the configuration says.

        Raises:
            CheckpointError: If the file could not be written, and this is the last attempt or the run shall stop.
        """
        try:
            yield
        except OSError as error:
            message = f"{what} could not be written ({error.strerror or error}); what was there before is untouched."
            if is_last or self.way == "stop":
                raise CheckpointError(f"{message} Make room or mend the folder, then resume the run.") from error
            if launched_rank() == 0:
                print(f"rsl-rl-sac: {message} Training goes on; next try at the next interval.", file=sys.stderr)

    def guard_log(self, logger: Logger, interval: int) -> None:
        """Let a logger whose file cannot be written do the same; it opens a new one at the next interval.

        Args:
            logger: Logger of a runner.
            interval: Iterations between checkpoints.
        """
        write = logger.log
        is_broken = False

        def log(*args: object, **report: object) -> None:
            nonlocal is_broken
            with self.tolerated(f"The log in '{logger.log_dir}'"):
                try:
                    if is_broken and int(report["it"]) % interval == 0:  # type: ignore[call-overload]
                        logger.init_logging_writer()
                        is_broken = False
                    write(*args, **report)  # type: ignore[arg-type]
                except OSError:
                    logger.writer = None  # TensorBoard's does not work again after an error
                    is_broken = True
                    raise

        logger.log = log  # type: ignore[method-assign]
