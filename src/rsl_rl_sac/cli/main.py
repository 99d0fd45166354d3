# SPDX-License-Identifier: BSD-3-Clause

"""The command ``rsl-rl-sac``: one small file for each verb."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import tyro

from rsl_rl_sac.utils.errors import RslRlSacError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a verb; an error of this package is one message and exit code 1.

    Args:
        arguments: Command line, without the program's name; None takes that of the process.
    """
    try:
        # Inside: what a verb imports may be missing, which is an error like any other.
        from rsl_rl_sac.cli.list import list_tasks

        tyro.extras.subcommand_cli_from_dict(
            {"list": list_tasks},
            prog="rsl-rl-sac",
            description="Soft Actor-Critic for legged robots.",
            args=arguments,
        )
    except RslRlSacError as error:
        print(f"rsl-rl-sac: {error}", file=sys.stderr)
        raise SystemExit(1) from None
