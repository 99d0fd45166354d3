# SPDX-License-Identifier: BSD-3-Clause

"""What ``isaaclab:`` says, which is no world. The adapter: tests/envs/isaaclab."""

from __future__ import annotations

import importlib.util

import pytest

from rsl_rl_sac.cli import main
from rsl_rl_sac.envs.worlds import find_world
from rsl_rl_sac.utils.errors import ConfigError, MissingDependencyError


def test_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package and where to read on."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    with pytest.raises(MissingDependencyError, match=r"need Isaac Lab.*docs/isaaclab\.md"):
        find_world("isaaclab:Isaac-Velocity-Flat-G1-v0")


def test_names_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Isaac Lab is installed, the error says which script trains there."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: object())
    with pytest.raises(ConfigError, match=r"train\.py .* --external_callback rsl_rl_sac\.tasks\.isaaclab\.register"):
        find_world("isaaclab:Isaac-Velocity-Flat-G1-v0")


def test_command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, and the exit code of a bad argument."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    with pytest.raises(SystemExit) as stopped:
        main(["train", "isaaclab:Isaac-Velocity-Flat-G1-v0"])
    assert stopped.value.code == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err.strip().splitlines() == [
        "rsl-rl-sac: Tasks of Isaac Lab need Isaac Lab and its simulator (docs/isaaclab.md)."
    ]
