# SPDX-License-Identifier: BSD-3-Clause

"""The command line as a whole."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

OLD_MUJOCO = """
import sys
sys.modules["mujoco.batch"] = None  # as in MuJoCo 3
from rsl_rl_sac.cli import main
main(["list"])
"""


def test_old_mujoco_is_one_message() -> None:
    """Without MuJoCo's thread pool a verb of the suite ends with one line that says what to do, and exit code 2."""
    result = subprocess.run([sys.executable, "-c", OLD_MUJOCO], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("rsl-rl-sac: The locomotion suite needs mujoco >= 4.0")


def test_version() -> None:
    """The version is that of the installed package."""
    result = subprocess.run([sys.executable, "-m", "rsl_rl_sac", "--version"], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, f"rsl-rl-sac {importlib.metadata.version('rsl-rl-sac')}\n")


def test_help() -> None:
    """Help names the verbs and fits a screen."""
    result = subprocess.run([sys.executable, "-m", "rsl_rl_sac", "--help"], capture_output=True, text=True)
    assert result.returncode == 0
    assert "list" in result.stdout and len(result.stdout.splitlines()) < 25
