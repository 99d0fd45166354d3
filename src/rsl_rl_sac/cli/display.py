# SPDX-License-Identifier: BSD-3-Clause

"""What a training shows while it runs."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rsl_rl_sac.locomotion.training import Progress


class TrainingDisplay:
    """A table that is redrawn in place on a terminal; elsewhere one line for every evaluation."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        """Start with nothing to show.

        Args:
            title: First line.
            console: Where to draw; None is the error output, so that results alone go to the standard output.
        """
        self.title = title
        self.console = console or Console(stderr=True)
        self._live = Live(console=self.console, refresh_per_second=4) if self.console.is_terminal else None
        self._history: list[float] = []

    def __enter__(self) -> TrainingDisplay:
        if self._live is not None:
            self._live.start()
        else:
            self.console.print(self.title, highlight=False, soft_wrap=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, progress: Progress) -> None:
        """Show where the training stands."""
        if progress.scored_now and progress.score is not None:
            self._history.append(progress.score.tracking)
        if self._live is not None:
            self._live.update(self._draw(progress))
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
        curve = Text("tracking  ", style="dim") + Text(sparkline(self._history[-50:]), style="green")
        return Group(Text(self.title, style="bold"), table, curve, bar)


def _facts(progress: Progress) -> list[tuple[str, str]]:
    """Return names and values, in an even number."""
    score, losses = progress.score, progress.losses
    busy = progress.collect_seconds + progress.learn_seconds

    def number(value: float | None, digits: int = 2) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    return [
        ("iteration", f"{progress.iteration}"),
        ("environment steps", f"{progress.env_steps / 1e6:.2f} M"),
        ("steps/s", f"{progress.steps_per_second:,.0f}"),
        ("gradient steps", f"{progress.updates:,}"),
        ("time", clock(progress.seconds)),
        ("time left", time_left(progress)),
        ("physics", f"{100.0 * progress.collect_seconds / busy:.0f} %" if busy > 0.0 else "-"),
        ("learning", f"{100.0 * progress.learn_seconds / busy:.0f} %" if busy > 0.0 else "-"),
        ("tracking (0 to 1)", number(score.tracking if score else None, 3)),
        ("return", number(score.episode_return if score else None)),
        ("survival", number(score.survival if score else None)),
        ("episode length", number(score.episode_length if score else None, 0)),
        ("temperature", number(losses.get("alpha"), 4)),
        ("entropy", number(losses.get("entropy"))),
        ("Q", number(losses.get("q_value"))),
        ("tracking in training", number(progress.training_tracking, 3)),
    ]


def summary_line(progress: Progress) -> str:
    """Return one line on the last evaluation."""
    score = progress.score
    assert score is not None
    return (
        f"{clock(progress.seconds)}  {progress.env_steps / 1e6:6.2f} M steps  {progress.updates:6d} updates"
        f"  tracking {score.tracking:.3f} (linear {score.tracking_lin:.2f}, turning {score.tracking_ang:.2f})"
        f"  training {progress.training_tracking:.3f}  return {score.episode_return:6.2f}"
        f"  survival {score.survival:.2f}  left {time_left(progress)}"
    )


def clock(seconds: float) -> str:
    """Return minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def time_left(progress: Progress) -> str:
    """Return the training time that is left, from the share of the run that is done."""
    if not progress.budget or progress.seconds <= 0.0:
        return "-"
    return clock(progress.seconds * (1.0 / progress.budget - 1.0))


def sparkline(values: list[float]) -> str:
    """Draw values between 0 and 1 as a line of blocks."""
    return "".join("▁▂▃▄▅▆▇█"[min(7, max(0, int(8 * value)))] for value in values)
