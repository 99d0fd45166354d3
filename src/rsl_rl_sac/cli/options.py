# SPDX-License-Identifier: BSD-3-Clause

"""Command lines as dataclasses, with errors of one line."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import tyro

from rsl_rl_sac.utils.errors import ConfigError

T = TypeVar("T")


def check_folder(flag: str, folder: Path) -> None:
    """Raise an error if a folder that is to be written to cannot be one, since it or one above it is a file."""
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise ConfigError(f"{flag} must be a folder: '{path}' is a file.")


def parse_options(
    kind: type[T] | Callable[..., T],
    program: str,
    arguments: Sequence[str],
    default: T | None = None,
    sections_by_word: bool = True,
    help_flag: str = "--help",
) -> T:
    """Parse the command line of a verb.

    Args:
        kind: Dataclass of the options, or a function.
        program: What the user typed before the arguments.
        arguments: Command line.
        default: Options that hold where the command line says nothing.
        sections_by_word: Whether sections that may be absent are chosen by a word, as ``algorithm.rnd-cfg:rnd-cfg``;
            otherwise they are there if they are in the default, and their flags are like any others.
        help_flag: Flag that shows all options, for messages.

    Raises:
        ConfigError: If the command line is wrong.
    """
    values = {} if default is None else {"default": default}
    config = (tyro.conf.PositionalMetavarFromFieldName, *([] if sections_by_word else [tyro.conf.AvoidSubcommands]))

    def parse(words: list[str]) -> T | str:
        """Return the options, or what tyro says is wrong."""
        output = io.StringIO()
        try:
            with contextlib.redirect_stderr(output):
                return tyro.cli(
                    kind,
                    prog=program,
                    args=words,
                    config=config,
                    **values,  # type: ignore[reportArgumentType]
                )
        except SystemExit as end:
            if end.code:
                return error_line(output.getvalue())
            sys.stderr.write(output.getvalue())
            raise

    result = parse(list(arguments))
    if isinstance(result, str) and result.startswith("Missing"):
        # tyro asks for what is missing first, but a wrong flag is what a user wants to hear of.
        other = parse(["-", *arguments])
        result = other if isinstance(other, str) and other.startswith("Unrecognized options: -") else result
    if isinstance(result, str):
        raise ConfigError(f"{result} {program} {help_flag} tells more.")
    return result


def error_line(box: str) -> str:
    """Return the first part of a box that tyro draws around an error, and the flags that it proposes, as one line."""
    # Lines are drawn with other characters where the output is not UTF-8, and coloured on a terminal.
    rows = [line.strip("│╭╰╮╯ ") for line in re.sub(r"\x1b\[[\d;]*m", "", box).splitlines()]
    rules = [number for number, row in enumerate(rows) if row.endswith(("──", "--")) or not row]
    first, *others = [" ".join(rows[start + 1 : end]) for start, end in itertools.pairwise(rules)] or [box]
    proposals = [text for text in others if text.startswith("Perhaps you meant")]
    flags = list(dict.fromkeys(re.findall(r"(?<!\S)--[a-z][\w.-]*", " ".join(proposals))))
    hint = f" Did you mean {' or '.join(flag for flag in flags if flag != '--help')}?" if flags else ""
    line = " ".join(first.split())
    return f"{line}{'' if line.endswith(('.', '?', '!')) else '.'}{hint}"
