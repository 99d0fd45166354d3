# SPDX-License-Identifier: BSD-3-Clause

"""The page of all configuration fields."""

from __future__ import annotations

import runpy
from dataclasses import dataclass, field
from pathlib import Path

from rsl_rl_sac.utils.config_base import Cfg

FOLDER = Path(__file__).parents[2] / "docs"
GENERATOR = runpy.run_path(str(FOLDER / "generate_configuration.py"))


@dataclass
class InnerCfg(Cfg):
    """The inner ``section``."""

    size: int | None = None
    """A size, ``None`` for any."""


@dataclass
class OuterCfg(Cfg):
    """The outer section."""

    names: list[str] = field(default_factory=lambda: ["a"])
    """Names."""

    inner: InnerCfg = field(default_factory=InnerCfg)
    """Always there."""

    extra: InnerCfg | None = None
    """Perhaps there."""


def test_page_is_current() -> None:
    """The page in the repository is what the code gives; ``make docs`` writes it."""
    assert (FOLDER / "configuration.md").read_text() == GENERATOR["make_page"](), "run make docs"


def test_tables() -> None:
    """Fields come with type, default and docstring, sections after them; a section that may be absent is both."""
    head = "| Field | Type | Default | Meaning |\n| --- | --- | --- | --- |\n"
    size = "| `size` | `int \\| None` | `None` | A size, `None` for any. |\n"
    assert list(GENERATOR["describe_section"](OuterCfg)) == [
        "### The run\n\nThe outer section.\n\n" + head + "| `names` | `list[str]` | `['a']` | Names. |\n"
        "| `extra` | `InnerCfg \\| None` | `None` | Perhaps there. |\n",
        "### `inner`\n\nThe inner `section`.\n\n" + head + size,
        "### `extra`\n\nThe inner `section`.\n\n" + head + size,
    ]


def test_difference() -> None:
    """Only fields that differ are listed, each by its path."""
    changed = OuterCfg(names=["b"], inner=InnerCfg(size=3))
    expected = [["`names`", "`['b']`", "`['a']`"], ["`inner.size`", "`3`", "`None`"]]
    assert GENERATOR["difference"](changed, OuterCfg()) == expected
