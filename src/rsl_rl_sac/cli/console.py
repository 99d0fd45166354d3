# SPDX-License-Identifier: BSD-3-Clause

"""The console that trainings print to."""

from __future__ import annotations

import contextlib
import os

from rich.console import Console


class LastingConsole(Console):
    """A console that falls silent when nobody reads it any more, so that a training goes on, and saves.

    Ctrl-C in ``train ... 2>&1 | tee log`` ends both programs.
    """

    def on_broken_pipe(self) -> None:
        """Take the place of rich's, which ends the program."""
        self.quiet = True
        with contextlib.suppress(OSError, ValueError):  # for what Python itself writes there at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())
