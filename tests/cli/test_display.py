# SPDX-License-Identifier: BSD-3-Clause

"""What a training shows: every number on a terminal, one line per evaluation elsewhere."""

from __future__ import annotations

import io
import os
import sys

import pytest
from rich.console import Console

from rsl_rl_sac.cli.display import STARTING, STOPPING, TrainingDisplay, clock, count, sparkline
from rsl_rl_sac.locomotion.evaluation import Score
from rsl_rl_sac.runners.training import Progress

SCORE = Score(21.5, 987.0, 64, tracking=0.625, tracking_lin=0.5, tracking_ang=0.75, survival=0.875)


def progress(**changes: object) -> Progress:
    """Return a training that is a quarter done after 90 seconds."""
    values: dict = {
        "iteration": 1234,
        "env_steps": 2_527_232,
        "updates": 19_744,
        "seconds": 90.0,
        "budget": 0.25,
        "steps_per_second": 9876.0,
        "updates_per_second": 77.0,
        "collect_seconds": 0.3,
        "learn_seconds": 0.1,
        "training_columns": {"training_tracking": 0.581},
        "losses": {"alpha": 0.0321, "entropy": 9.87, "q_value": -3.21},
        "score": SCORE,
        "log": {"terrain level": 4.56},
    }
    return Progress(**{**values, **changes})


def shown(*steps: Progress, terminal: bool) -> str:
    """Return what a display writes for some iterations."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=120, height=40, color_system=None)
    with TrainingDisplay("SAC on a task", console) as display:
        for step in steps:
            display(step)
    return output.getvalue()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("iteration", "1234"),
        ("environment steps", "2.53 M"),
        ("steps/s", "9,876"),
        ("gradient steps", "19,744"),
        ("gradient steps/s", "77"),
        ("device", "cpu"),
        ("time", "1:30"),
        ("time left", "4:30"),  # 90 s are a quarter
        ("physics", "75 %"),
        ("learning", "25 %"),
        ("temperature", "0.0321"),
        ("entropy", "9.87"),
        ("Q", "-3.21"),
        ("terrain level", "4.56"),
        ("return", "21.50"),
        ("survival", "0.88"),
        ("training tracking", "0.581"),
    ],
)
def test_terminal_shows(name: str, value: str) -> None:
    """Each number stands beside its name."""
    words = shown(progress(scored_now=True), terminal=True).split("SAC on a task")[-1]
    assert f" {name} {value} " in f" {' '.join(words.split())} "


def test_terminal_from_the_first_moment() -> None:
    """Title and what is being done are there before the first iteration, and Ctrl-C is answered at once."""
    assert "SAC on a task" in shown(terminal=True) and STARTING in shown(terminal=True)
    assert STOPPING in shown(progress(stopping=True), terminal=True)
    assert shown(terminal=False) == ""  # what was refused is told by one line alone


def test_lines_elsewhere() -> None:
    """In a file there is the title, then a line for every evaluation, and none in between."""
    title, line, stopping = shown(
        progress(), progress(scored_now=True), progress(stopping=True), terminal=False
    ).splitlines()
    assert title == "SAC on a task" and stopping == STOPPING
    assert line.split()[:5] == ["1:30", "2.53", "M", "steps", "19744"]
    assert "tracking 0.625" in line and line.endswith("training tracking 0.581  left 4:30")


def test_nobody_reads_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in ``train ... 2>&1 | tee log`` ends the reader too; the training goes on to its checkpoint."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as nowhere:
        monkeypatch.setattr(sys, "stderr", nowhere)
        display = TrainingDisplay("SAC on a task")
        display(progress(stopping=True))
        display(progress(stopping=True, scored_now=True))
        nowhere.write("what is written without the console goes nowhere either")


def test_small_numbers() -> None:
    """Few steps are counted in thousands; a curve is drawn in eight heights, others than scores by their range."""
    assert (count(51_200), clock(3661.0)) == ("51.2 k", "61:01")
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█" and sparkline([-10.0, 30.0]) == "▁█"
