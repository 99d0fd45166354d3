# SPDX-License-Identifier: BSD-3-Clause

"""Worlds are found by prefix, and nobody needs the packages of another world."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rsl_rl_sac.envs.worlds import find_world
from rsl_rl_sac.utils.errors import ConfigError

WITHOUT = """
import sys
sys.modules[{missing!r}] = None
import rsl_rl_sac.runners.training  # trainings, without any world
from rsl_rl_sac.cli import main
main({arguments!r})
"""


def test_prefix() -> None:
    """The prefix names the world; without one it is the suite."""
    world, name = find_world("gym:Pendulum-v1")
    assert type(world).__name__ == "GymnasiumWorld" and name == "Pendulum-v1"
    world, name = find_world("Velocity-Flat-Unitree-Go1")
    assert type(world).__name__ == "LocomotionWorld" and name == "Velocity-Flat-Unitree-Go1"


def test_unknown_world() -> None:
    """The message names the worlds there are."""
    with pytest.raises(ConfigError, match=r"There is no world 'gymm:'. Known: gym:, mjlab:"):
        find_world("gymm:Pendulum-v1")


@pytest.mark.parametrize(
    ("missing", "arguments", "message"),
    [
        ("gymnasium", ["train", "gym:Pendulum-v1"], "rsl-rl-sac: Tasks of Gymnasium need gymnasium >= 1.1"),
        ("mujoco", ["train", "gym:CartPole-v1"], "rsl-rl-sac: gym:CartPole-v1: SAC needs continuous actions"),
    ],
)
def test_missing_packages(missing: str, arguments: list[str], message: str) -> None:
    """A world without its package is one line; a task of Gymnasium needs no mujoco to be looked at."""
    code = WITHOUT.format(missing=missing, arguments=arguments)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 2 and result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith(message)
