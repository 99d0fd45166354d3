# SPDX-License-Identifier: BSD-3-Clause

"""Tasks of mjlab where it is not installed. With it: tests/envs/mjlab."""

from __future__ import annotations

import sys

import pytest

from rsl_rl_sac.envs.worlds import find_world
from rsl_rl_sac.utils.errors import MissingDependencyError


def test_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package and where to read on."""
    monkeypatch.setitem(sys.modules, "mjlab", None)
    monkeypatch.delitem(sys.modules, "mjlab.tasks", raising=False)
    with pytest.raises(MissingDependencyError, match=r"need the package mjlab.*docs/mjlab\.md"):
        find_world("mjlab:Mjlab-Velocity-Flat-Unitree-Go1")
