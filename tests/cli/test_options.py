# SPDX-License-Identifier: BSD-3-Clause

"""Command lines that are wrong are errors of one line."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import tyro

from rsl_rl_sac.cli.options import error_line, parse_options
from rsl_rl_sac.config import SACCfg
from rsl_rl_sac.utils.errors import ConfigError

BOX = """\
╭─ Unrecognized options ───────────────────────╮
│ Unrecognized options: --num-env, 4           │
│ ──────────────────────────────────────────── │
│ Available subcommands: a:b, a:none           │
│ ──────────────────────────────────────────── │
│ Perhaps you meant:                           │
│     --num-envs INT                           │
│         Number of environments. (default: 5) │
│         in prog --help                       │
│ ──────────────────────────────────────────── │
│ For full helptext, run prog --help           │
╰──────────────────────────────────────────────╯
"""


PLAIN_BOX = """\
 Unrecognized options
 ----------------------------------------------
  \x1b[31mUnrecognized\x1b[0m options: --num-env, 4
  --------------------------------------------
  Perhaps you meant:
      --num-envs INT
  --------------------------------------------
  For full helptext, run prog --help

"""


@dataclass
class Options:
    """What a verb takes."""

    task: tyro.conf.Positional[str]
    """Task."""

    num_envs: int = 5
    """Number of environments."""

    algorithm: SACCfg = field(default_factory=SACCfg)
    """A section, which has sections that may be absent."""


def test_box_becomes_a_line() -> None:
    """Of a box, what is wrong and what is proposed are left; text without a box stays as it is."""
    assert error_line(BOX) == "Unrecognized options: --num-env, 4. Did you mean --num-envs?"
    assert error_line(PLAIN_BOX) == error_line(BOX)
    assert error_line("no box") == "no box."


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["x", "--num-env", "4"], ["--num-env", "Did you mean --num-envs"]),
        (["x", "--algorithm.gama", "0.5"], ["--algorithm.gama", "--algorithm.gamma"]),
        (["x", "--num-envs", "many"], ["--num-envs", "many"]),
        (["x", "--algorithm.gamma", "2"], ["gamma must be a number in [0, 1], got 2.0"]),
        ([], ["TASK"]),
    ],
)
def test_errors(arguments: list[str], parts: list[str]) -> None:
    """An unknown flag, a word for a number, a value out of range, and nothing at all."""
    with pytest.raises(ConfigError) as error:
        parse_options(Options, "rsl-rl-sac try", arguments)
    line = str(error.value)
    assert "\n" not in line and "│" not in line and "subcommands" not in line
    assert line.endswith("rsl-rl-sac try --help tells more.") and all(part in line for part in parts)


def test_options_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    """A good command line gives the options; help ends with exit code 0."""
    assert parse_options(Options, "try", ["x", "--num-envs", "3"]) == Options("x", 3)
    assert parse_options(Options, "try", ["x"], Options("y", 7)).num_envs == 7
    with pytest.raises(SystemExit) as end:
        parse_options(Options, "try", ["--help"])
    assert end.value.code == 0 and "TASK" in capsys.readouterr().out
