# SPDX-License-Identifier: BSD-3-Clause

"""The command ``rsl-rl-sac``: one small file for each verb."""

from __future__ import annotations

import difflib
import importlib
import sys
import warnings
from collections.abc import Sequence

from rsl_rl_sac.utils.errors import ConfigError, RslRlSacError
from rsl_rl_sac.utils.versions import package_version

INTERRUPTED_EXIT_CODE = 130
"""Exit code after Ctrl-C, as shells have it."""

VERBS = {
    "list": "show the tasks of the suite",
    "train": "train a policy on a task",
    "compare": "train SAC and rsl_rl's PPO side by side",
    "evaluate": "score policies, by direction and terrain, or side by side",
    "export": "write a policy as ONNX and TorchScript for deployment",
    "info": "tell what a run or an exported file is",
    "play": "film a policy, or show it live in the browser",
}
"""Verbs and what they do. Verb ``x`` is the function ``run`` of the module ``rsl_rl_sac.cli.x``."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a verb; an error of this package is one message and exit code 2.

    Args:
        arguments: Command line, without the program's name; None takes that of the process.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        raise SystemExit(0 if arguments else 2)
    if arguments[0] == "--version":
        print(f"rsl-rl-sac {package_version()}")
        raise SystemExit(0)
    verb = arguments[0]
    warnings.formatwarning = _format_warning
    try:
        if verb not in VERBS:
            near = difflib.get_close_matches(verb, VERBS, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise ConfigError(f"There is no verb '{verb}'.{hint} Verbs: {', '.join(VERBS)}.")
        # Here: what a verb imports may be missing, which is an error like any other; and help stays quick.
        importlib.import_module(f"rsl_rl_sac.cli.{verb}").run(arguments[1:])
    except (RslRlSacError, OSError) as error:  # the latter: a disk that is full, a folder that cannot be written to
        print(f"rsl-rl-sac: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("rsl-rl-sac: Interrupted.", file=sys.stderr)
        raise SystemExit(INTERRUPTED_EXIT_CODE) from None


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Return a warning as one line, of this package without the place in the code, which is for developers."""
    is_ours = "rsl_rl_sac" in filename
    return f"rsl-rl-sac: {message}\n" if is_ours else f"{filename}:{lineno}: {category.__name__}: {message}\n"


def _help() -> str:
    verbs = "\n".join(f"  {verb:10s} {text}" for verb, text in VERBS.items())
    return (
        "usage: rsl-rl-sac VERB ...\n\nSoft Actor-Critic for legged robots.\n\n"
        f"verbs:\n{verbs}\n\n"
        "For example:\n"
        "  rsl-rl-sac train Velocity-Flat-Unitree-Go2 --minutes 8   teach a robot to walk\n"
        "  rsl-rl-sac play Velocity-Flat-Unitree-Go2 --viewer       look at it while it learns\n\n"
        "rsl-rl-sac VERB --help tells more."
    )
