# SPDX-License-Identifier: BSD-3-Clause

"""The tables of README.md and docs/learning.md are those of the learning curves in results/."""

from __future__ import annotations

import math
import re
import runpy
from collections.abc import Sequence
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
    # A misspelt comment would be passed over, or take the text up to the next end for a table.
    assert text.count("<!-- table") == text.count("<!-- end") == len(re.findall(r"<!-- table \S+ -->\n", text))


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
    assert (
        "Of 4 pairs of runs SAC ends more than 0.02 above PPO in 2, within 0.02 of it in 1, and further below in 1;"
        in text
    )


def test_late() -> None:
    """Evaluations of minutes 4 to 8 of eight, a little late or not: five of them, or those that there are."""
    every_minute = make_curve("sac", 0, [0.9, 0.9, 0.9, 0.9, 0.1, 0.2, 0.3, 0.4, 0.55])
    every_second_minute = make_curve("sac", 1, [0.9, 0.9, 0.3, 0.4, 0.2])
    every_second_minute.columns["seconds"] = np.array([0.0, 120.4, 240.7, 360.1, 480.2])
    assert MAKER["late"]([every_minute, every_second_minute], "tracking") == pytest.approx([0.31, 0.3])


def test_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three minutes of four and one of two, an agent that never walks, and a seed that only one has."""
    slow, fast, never = [0.2, 0.3, 0.4, 0.5, 0.9], [0.2, 0.8], [0.2, 0.7, 0.7]
    curves = {
        "A": [make_curve("sac", 0, [*slow[:3], 0.85]), make_curve("ppo", 0, slow), make_curve("sac", 7, fast)],
        "B": [make_curve("sac", 0, fast), make_curve("ppo", 0, [0.2, *fast])],
        "C": [make_curve("sac", 3, slow), make_curve("ppo", 3, never)],
        "D": [make_curve("sac", 0, never), make_curve("ppo", 0, never)],
    }
    monkeypatch.setitem(MAKER["compare_flat_first"].__globals__, "flat_curves", lambda: curves)
    text = MAKER["compare_flat_first"]()
    assert text.startswith("SAC reaches 0.8 first in 3 of 4 pairs of runs. PPO reaches it too in 2 of them")
    assert text.endswith("SAC takes 0.50 to 0.75 of PPO's time and 0.50 to 0.75 of its steps.")


def write_comparison(folder: Path, task: str, rows: Sequence[tuple[str, float, float, float, float]]) -> None:
    """Write the table of a comparison; a row is an agent, minutes, million steps, tracking and survival."""
    lines = ["task,agent,seed,seconds,env_steps,tracking,survival,episode_return,training_tracking"]
    for agent, minutes, steps, tracking, survival in rows:
        numbers = (60.0 * minutes, 1e6 * steps, tracking, survival, 10.0 * tracking, tracking / 2.0)
        lines.append(",".join([task, agent, "0", *map(str, numbers)]))
    (folder / f"compare_{task}.csv").write_text("\n".join(lines) + "\n")


def test_compare_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are in the order of the header: ends, minutes and million steps to 0.8, SAC before PPO."""
    rows = [("sac", 0, 0, 0.2, 1.0), ("sac", 5, 2.5, 0.85, 1.0), ("sac", 9, 4.5, 0.91, 1.0)]
    rows += [("ppo", 0, 0, 0.3, 1.0), ("ppo", 8, 3.25, 0.6, 1.0), ("ppo", 9, 3.75, 0.81, 1.0)]
    write_comparison(tmp_path, "Velocity-Flat-Unitree-A1", rows)
    monkeypatch.setitem(MAKER["compare_flat"].__globals__, "FOLDER", tmp_path)
    assert MAKER["compare_flat"]().splitlines()[2] == "| A1 | 1 | 0.910 | 0.810 | +0.100 | 5.0 | 9.0 | 2.50 | 3.75 |"


def test_compare_flat_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds are subtracted pair by pair; of three the interval reaches from the smallest difference to the largest."""
    write_comparison(tmp_path, "Velocity-Flat-Unitree-A1", [("sac", 1, 1, 0.9, 1.0), ("ppo", 1, 1, 0.8, 1.0)])
    table = tmp_path / "compare_Velocity-Flat-Unitree-A1.csv"
    lines = [
        f"Velocity-Flat-Unitree-A1,{agent},{seed},60,1,{tracking},1,1,1\n"
        for seed, pair in ((2, (0.85, 0.55)), (1, (0.5, 0.7)))
        for agent, tracking in zip(("ppo", "sac"), pair, strict=True)
    ]
    table.write_text(table.read_text() + "".join(lines))
    monkeypatch.setitem(MAKER["compare_flat"].__globals__, "FOLDER", tmp_path)
    # SAC 0.9, 0.7, 0.55 and PPO 0.8, 0.5, 0.85: differences of 0.1, 0.2 and -0.3, all means 0.717.
    row = MAKER["compare_flat"]().splitlines()[2].split(" | ")
    assert row[:5] == ["| A1", "3", "0.717", "0.717", "+0.000 [-0.300, +0.200]"]


def test_halved_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a run stand those of its own seed."""
    rows = [("sac", 0, 0, 0.2, 1.0), ("sac", 9, 1, 0.91, 1.0), ("ppo", 0, 0, 0.2, 1.0), ("ppo", 9, 1, 0.4, 1.0)]
    write_comparison(tmp_path, "Velocity-Flat-Anymal-B", rows)
    table = tmp_path / "compare_Velocity-Flat-Anymal-B.csv"
    table.write_text(table.read_text() + "Velocity-Flat-Anymal-B,sac,1,60,1,0.5,1,1,1\n")
    write_comparison(tmp_path, "Velocity-Flat-Anymal-X", [("ppo", 7, 1, 0.8, 1.0), ("ppo", 8, 1, 0.79, 1.0)])
    text = (tmp_path / "compare_Velocity-Flat-Anymal-X.csv").read_text().replace("Anymal-X", "Anymal-B")
    (tmp_path / "halved_noise_Velocity-Flat-Anymal-B.csv").write_text(text)
    (tmp_path / "compare_Velocity-Flat-Anymal-X.csv").unlink()
    monkeypatch.setitem(MAKER["halved_noise"].__globals__, "FOLDER", tmp_path)
    assert MAKER["halved_noise"]().splitlines()[2:] == ["| ANYmal B | 0 | 0.910 | 0.400 | 0.790 | 9.0 | – | 7.0 |"]


def test_rough_from_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both agents' last evaluations, of runs that came from flat ground only."""
    rows = [("sac", 0, 0, 0.2, 1.0), ("sac", 30, 8, 0.61, 0.69), ("ppo", 30, 9, 0.68, 0.75)]
    write_comparison(tmp_path, "Velocity-Rough-Unitree-A1", rows)
    text = (tmp_path / "compare_Velocity-Rough-Unitree-A1.csv").read_text()
    (tmp_path / "compare_Velocity-Rough-Unitree-A1_from_flat.csv").write_text(text)
    monkeypatch.setitem(MAKER["rough_from_flat"].__globals__, "FOLDER", tmp_path)
    lines = MAKER["rough_from_flat"]().splitlines()
    titles = "Tracking: SAC | Tracking: PPO | Return: SAC | Return: PPO | Survival: SAC | Survival: PPO"
    assert lines[0] == f"| Rough terrain, 30 minutes | {titles} |"
    assert lines[2:] == ["| A1 | 0.610 | 0.680 | 6.1 | 6.8 | 0.69 | 0.75 |"]


def test_rough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each agent the evaluation nearest to every fifth minute, and when that was."""
    rows = [("sac", 3.0 * k, 0.5 * k, 0.02 * k, 1.0 - 0.05 * k) for k in range(11)]
    rows += [("ppo", 5.05 * k, 0.25 * k, 0.3, 0.5) for k in range(7)]
    write_comparison(tmp_path, "Velocity-Rough-Anymal-D", rows)
    monkeypatch.setitem(MAKER["rough"].__globals__, "FOLDER", tmp_path)
    lines = MAKER["rough"]("compare_Velocity-Rough-Anymal-D").splitlines()
    assert lines[0] == "| ANYmal D | 0 minutes | 5 | 10 | 15 | 20 | 25 | 30 |"
    # SAC's evaluations 0, 2 (6 minutes), 3 (9), 5 (15), 7 (21), 8 (24) and 10 (30).
    sac = "0.00 (1.00) | 0.04 (0.90) | 0.06 (0.85) | 0.10 (0.75) | 0.14 (0.65) | 0.16 (0.60) | 0.20 (0.50)"
    assert lines[2] == f"| SAC: tracking (survival) | {sac} |"
    assert lines[3] == "| SAC: return | 0.0 | 0.4 | 0.6 | 1.0 | 1.4 | 1.6 | 2.0 |"
    assert lines[4] == "| SAC: tracking with noise |  | 0.02 | 0.03 | 0.05 | 0.07 | 0.08 | 0.10 |"
    assert lines[5] == "| SAC: million steps |  | 1.0 | 1.5 | 2.5 | 3.5 | 4.0 | 5.0 |"
    assert lines[6] == "| SAC: minute of the evaluation | 0 | 6 | 9 | 15 | 21 | 24 | 30 |"
    # PPO's evaluations are within half a minute of the header's.
    assert lines[-1] == "| PPO: million steps |  | 0.2 | 0.5 | 0.8 | 1.0 | 1.2 | 1.5 |"


def test_ablation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps to a score with noise, between evaluations, then what the runs end with, seed by seed."""
    rows = [
        ("base", 0, 0, 0.2, 1.0),
        ("base", 1, 1.0, 0.6, 0.5),
        ("base", 2, 2.0, 1.0, 0.5),
        ("base", 3, 3.5, 0.9, 0.75),
    ]
    write_comparison(tmp_path, "Velocity-Flat-Unitree-Go1", [*rows, ("n1", 3, 3.5, 0.4, 0.8)])
    (tmp_path / "compare_Velocity-Flat-Unitree-Go1.csv").rename(tmp_path / "ablation_Velocity-Flat-Unitree-Go1.csv")
    monkeypatch.setitem(MAKER["ablation"].__globals__, "FOLDER", tmp_path)
    # With noise the rows have half of the tracking: from 0.3 to 0.5, of which three quarters of the way are 0.45.
    lines = MAKER["ablation"]({"base": ("as it is", ""), "n1": ("n = 1", "never")}, 0.45).splitlines()
    assert lines[2:] == ["| as it is | 1.8 | 0.45 | 0.90 | 0.75 |  |", "| n = 1 | – | 0.20 | 0.40 | 0.80 | never |"]


def test_five_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each task, the policy with its noise at whole minutes, between evaluations if need be."""
    rows = [("sac", 0, 0, 0.0, 1.0), ("sac", 1, 0.2, 0.4, 0.9), ("sac", 3, 0.6, 0.8, 0.7), ("sac", 5, 1.25, 1.0, 0.5)]
    write_comparison(tmp_path, "Velocity-Rough-Unitree-H1", rows)
    (tmp_path / "compare_Velocity-Rough-Unitree-H1.csv").rename(tmp_path / "five_minutes.csv")
    monkeypatch.setitem(MAKER["five_minutes"].__globals__, "FOLDER", tmp_path)
    # With noise the rows have half of the tracking: 0.2, 0.3 halfway, 0.4, 0.45 halfway, 0.5.
    expected = "| H1, rough | 1.25 | 0.20 | 0.30 | 0.40 | 0.45 | 0.50 | 1.00 (0.50) |"
    assert MAKER["five_minutes"]().splitlines()[2:] == [expected]
