# SPDX-License-Identifier: BSD-3-Clause

"""The console that verbs print to."""

from __future__ import annotations

import contextlib
import os
import sys

from rich.console import Console


def plain_console(width_of_files: int | None = None, stderr: bool = False) -> Console:
    """Return a console that prints what it is given: paths and names of tasks may look like rich's own language.

    Args:
        width_of_files: Width of tables that do not go to a terminal; None is rich's.
        stderr: Whether it is the error output.
    """
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    width = None if is_terminal else width_of_files
    return _LastingConsole(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


class _LastingConsole(Console):
    """A console that falls silent when nobody reads it any more, so that a training goes on, and saves.

    Ctrl-C in ``train ... 2>&1 | tee log`` ends both programs.
    """

    def on_broken_pipe(self) -> None:
        """Take the place of rich's, which ends the program."""
        self.quiet = True
        # For what Python itself writes there at its end.
        with contextlib.suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), self.file.fileno())
