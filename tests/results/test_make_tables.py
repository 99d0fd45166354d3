# SPDX-License-Identifier: BSD-3-Clause

"""The tables of README.md and docs/learning.md are those of the learning curves in results/."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import numpy as np
import pytest

from rsl_rl_sac.locomotion.curves import Curve

FOLDER = Path(__file__).parents[2] / "results"
MAKER = runpy.run_path(str(FOLDER / "make_tables.py"))


def make_curve(agent: str, seed: int, tracking: list[float]) -> Curve:
    """Return a curve with an evaluation every minute and half million steps."""
    grid = np.arange(len(tracking))
    return Curve("task", agent, seed, {"tracking": np.array(tracking), "seconds": 60.0 * grid, "env_steps": 5e5 * grid})


@pytest.mark.parametrize("page", MAKER["PAGES"], ids=lambda page: page.name)
def test_page_is_current(page: Path) -> None:
    """What a page shows is what the curves give; ``make figures`` writes it."""
    text = page.read_text()
    assert "<!-- table " in text and text == MAKER["with_tables"](text), "run make figures"


def test_every_table_is_shown() -> None:
    """Nothing is measured and then left out."""
    pages = "".join(page.read_text() for page in MAKER["PAGES"])
    assert [name for name in MAKER["TABLES"] if f"<!-- table {name} -->" not in pages] == []


def test_replaces_between_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what stands between the comments changes, as often as a table is named."""
    monkeypatch.setitem(MAKER["TABLES"], "one", lambda: "| 1 |\n| 2 |")
    page = "a\n<!-- table one -->\nold\nold\n<!-- end -->\nb\n<!-- table one -->\n\n<!-- end -->\n"
    table = "<!-- table one -->\n| 1 |\n| 2 |\n<!-- end -->\n"
    assert MAKER["with_tables"](page) == f"a\n{table}b\n{table}"


def test_unknown_table() -> None:
    """A misspelt name is not left as it is."""
    with pytest.raises(KeyError, match="nonsense"):
        MAKER["with_tables"]("<!-- table nonsense -->\n\n<!-- end -->")


def test_markdown() -> None:
    """A header, a line below it, rows."""
    assert MAKER["markdown"](["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


@pytest.mark.parametrize(
    ("task", "name"),
    (("Velocity-Flat-Anymal-D", "ANYmal D"), ("Velocity-Rough-Unitree-Go2", "Go2"), ("Velocity-Flat-Unitree-H1", "H1")),
)
def test_robot_name(task: str, name: str) -> None:
    """Robots have the names that people give them."""
    assert MAKER["robot_name"](task) == name


@pytest.mark.parametrize(
    ("values", "text"),
    (
        ([4.0, 7.0], "5.5"),
        ([4.0, math.inf], "4.0, –"),
        ([math.inf, math.inf], "–"),
        ([3.25], "3.2"),
    ),
)
def test_averaged(values: list[float], text: str) -> None:
    """A mean hides no run that never got there."""
    assert MAKER["averaged"](values, 1) == text


def test_walks_after() -> None:
    """The first evaluation at 0.8 counts, in minutes or in steps."""
    curves = [make_curve("sac", 0, [0.2, 0.7, 0.8, 0.5]), make_curve("sac", 1, [0.2, 0.79])]
    assert MAKER["walks_after"](curves, "seconds", 60.0) == [2.0, math.inf]
    assert MAKER["walks_after"](curves, "env_steps", 1e6) == [1.0, math.inf]


def test_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Robots weigh the same whatever their seeds; a difference of up to 0.02 is a tie."""
    ends = {"A": [(0.9, 0.5), (0.5, 0.515)], "B": [(0.5, 0.6)], "C": [(0.7, 0.2)]}
    curves = {
        robot: [
            make_curve(agent, seed, [0.2, end])
            for seed, pair in enumerate(pairs)
            for agent, end in zip(("sac", "ppo"), pair, strict=True)
        ]
        for robot, pairs in ends.items()
    }
    monkeypatch.setitem(MAKER["compare_flat_difference"].__globals__, "flat_curves", lambda: curves)
    text = MAKER["compare_flat_difference"]()
    assert "**+0.198 [" in text  # the mean of 0.1925, -0.1 and 0.5 is 0.1975
    assert "Of 4 pairs" in text and "in 2, within 0.02 of it in 1, and more than 0.02 below in 1." in text
