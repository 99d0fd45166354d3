# SPDX-License-Identifier: BSD-3-Clause

"""The package as a whole."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import rsl_rl_sac

SOURCES = pathlib.Path(rsl_rl_sac.__file__).parent


def test_imports_without_mujoco() -> None:
    """The algorithm needs no simulator."""
    code = "import sys; sys.modules['mujoco'] = None; import rsl_rl_sac.runners, rsl_rl_sac.envs, rsl_rl_sac.config"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_resolves_by_name() -> None:
    """rsl_rl finds the class by the documented name."""
    from rsl_rl.utils import resolve_callable

    assert resolve_callable("rsl_rl_sac:SAC") is rsl_rl_sac.SAC
    assert resolve_callable("rsl_rl_sac.algorithms:SAC") is rsl_rl_sac.SAC


def test_no_file_outgrows_one_idea() -> None:
    """No source file is longer than 500 lines."""
    lengths = {path.name: len(path.read_text().splitlines()) for path in SOURCES.rglob("*.py")}
    assert max(lengths.values()) <= 500, lengths
