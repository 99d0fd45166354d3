# SPDX-License-Identifier: BSD-3-Clause

"""What a training shows while it runs."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rsl_rl_sac.cli.console import plain_console
from rsl_rl_sac.runners.training import Progress

STARTING = "Builds the environments and scores the first policy ..."
"""Shown until there is something to show."""

STOPPING = "Stopping: saves, then scores once more ..."
"""Shown after Ctrl-C."""


class TrainingDisplay:
    """A table that is redrawn in place on a terminal; elsewhere one line for every evaluation."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        """Start with nothing to show.

        Args:
            title: First line.
            console: Where to draw; None is the error output, so that results alone go to the standard output.
        """
        self.title = title
        self.console = console or plain_console(stderr=True)
        start = Group(Text(title, style="bold"), Text(STARTING, style="dim"))
        self._live = Live(start, console=self.console, refresh_per_second=4) if self.console.is_terminal else None
        self._history: list[float] = []
        self._has_begun = False

    def __enter__(self) -> TrainingDisplay:
        if self._live is not None:
            self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            if not self._has_begun:  # refused: the message shall stand alone
                self._live.update(Text())
            self._live.stop()

    def __call__(self, progress: Progress) -> None:
        """Show where the training stands."""
        if self._live is None and not self._has_begun:
            self.console.print(self.title, highlight=False, soft_wrap=True)
        self._has_begun = True
        if progress.scored_now and progress.score is not None:
            self._history.append(progress.score.headline[1])
        if self._live is not None:
            self._live.update(self._draw(progress))
        elif progress.stopping and not progress.scored_now:
            self.console.print(STOPPING, highlight=False, soft_wrap=True)
        elif progress.scored_now:
            self.console.print(summary_line(progress), highlight=False, soft_wrap=True)

    def _draw(self, progress: Progress) -> Group:
        table = Table.grid(padding=(0, 2))
        for _ in range(4):
            table.add_column()
        facts = _facts(progress)
        for left, right in zip(facts[::2], facts[1::2], strict=True):
            table.add_row(Text(left[0], style="dim"), left[1], Text(right[0], style="dim"), right[1])
        bar = ProgressBar(total=1.0, completed=progress.budget or 0.0, width=60)
        name = progress.score.headline[0] if progress.score is not None else ""
        curve = Text(f"{name}  ", style="dim") + Text(sparkline(self._history[-50:]), style="green")
        return Group(Text(self.title, style="bold"), table, curve, Text(STOPPING) if progress.stopping else bar)


def _facts(progress: Progress) -> list[tuple[str, str]]:
    """Return names and values, in an even number."""
    losses = progress.losses
    busy = progress.collect_seconds + progress.learn_seconds

    def number(value: float | None, digits: int = 2) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    scores = progress.score.facts() if progress.score is not None else []
    scores += [(name.replace("_", " "), number(value, 3)) for name, value in progress.training_columns.items()]
    facts = [
        ("iteration", f"{progress.iteration}"),
        ("environment steps", count(progress.env_steps)),
        ("steps/s", f"{progress.steps_per_second:,.0f}"),
        ("gradient steps", f"{progress.updates:,}"),
        ("device", progress.device),
        ("gradient steps/s", f"{progress.updates_per_second:,.0f}"),
        ("time", clock(progress.seconds)),
        ("time left", time_left(progress)),
        ("physics", f"{100.0 * progress.collect_seconds / busy:.0f} %" if busy > 0.0 else "-"),
        ("learning", f"{100.0 * progress.learn_seconds / busy:.0f} %" if busy > 0.0 else "-"),
        ("temperature", number(losses.get("alpha"), 4)),
        ("entropy", number(losses.get("entropy"))),
        ("Q", number(losses.get("q_value"))),
        *([("quarantined", number(losses["quarantined"], 0))] if "quarantined" in losses else []),
        *((name, number(value)) for name, value in progress.log.items()),
        *scores,
    ]
    return facts if len(facts) % 2 == 0 else [*facts, ("", "")]


def summary_line(progress: Progress) -> str:
    """Return one line on the last evaluation."""
    score = progress.score
    assert score is not None
    training = "".join(f"  {name.replace('_', ' ')} {value:.3f}" for name, value in progress.training_columns.items())
    return (
        f"{clock(progress.seconds)}  {count(progress.env_steps):>8} steps  {progress.updates:6d} updates"
        f"  {score.line()}{training}  left {time_left(progress)}"
    )


def count(number: int) -> str:
    """Return a number of steps in millions, or in thousands if it is small."""
    return f"{number / 1e6:.2f} M" if number >= 100_000 else f"{number / 1e3:.1f} k"


def clock(seconds: float) -> str:
    """Return minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def time_left(progress: Progress) -> str:
    """Return the training time that is left, from the share of the run that is done."""
    if not progress.budget or progress.seconds <= 0.0:
        return "-"
    return clock(progress.seconds * (1.0 / progress.budget - 1.0))


def sparkline(values: list[float]) -> str:
    """Draw values as a line of blocks: between 0 and 1 as they are, others from the smallest to the largest."""
    if any(not 0.0 <= value <= 1.0 for value in values):
        low, high = min(values), max(values)
        values = [(value - low) / max(high - low, 1e-9) for value in values]
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(8 * value))] for value in values)
