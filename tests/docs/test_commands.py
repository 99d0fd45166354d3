# SPDX-License-Identifier: BSD-3-Clause

"""Every command of the README and of the documentation is one that the program understands."""

from __future__ import annotations

import importlib
import pathlib
import re
import shlex

import pytest

from rsl_rl_sac.cli.main import VERBS
from rsl_rl_sac.cli.options import parse_options

ROOT = pathlib.Path(__file__).parents[2]
ELSEWHERE = ("mjlab:", "gym:my_package", "My-Dog")
"""What only other virtual environments know, and what readers make themselves; both have tests of their own."""


class ParsedError(Exception):
    """Raised in place of running a command that was understood."""


def documented_commands() -> list[str]:
    """Return the commands that are shown in blocks of code, without their comments."""
    commands = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for block in re.findall(r"```bash\n(.*?)```", page.read_text(), re.DOTALL):
            lines = block.replace("\\\n", " ").splitlines()
            commands += [line.partition("#")[0].strip() for line in lines if line.startswith("rsl-rl-sac ")]
    return [command for command in dict.fromkeys(commands) if not any(name in command for name in ELSEWHERE)]


def test_there_are_commands() -> None:
    """The commands are found: all verbs are shown somewhere."""
    assert {shlex.split(command)[1] for command in documented_commands()} == set(VERBS)


@pytest.mark.parametrize("command", documented_commands())
def test_command_is_understood(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A documented command has a verb, a task and flags that exist."""

    def parse_only(*args: object) -> None:
        parse_options(*args)  # type: ignore[arg-type]
        raise ParsedError

    _, verb, *arguments = shlex.split(command)
    module = importlib.import_module(f"rsl_rl_sac.cli.{verb}")
    monkeypatch.setattr(module, "parse_options", parse_only)
    with pytest.raises((ParsedError, SystemExit)) as end:
        module.run(arguments)
    assert end.type is ParsedError or (end.value.code == 0 and "usage" in capsys.readouterr().out)  # type: ignore[union-attr]
