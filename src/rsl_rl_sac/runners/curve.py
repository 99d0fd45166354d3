# SPDX-License-Identifier: BSD-3-Clause

"""The learning curve of a run: a table and a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection
from pathlib import Path

from matplotlib.figure import Figure

from rsl_rl_sac.utils.checkpoint import write_bytes_atomically, write_text_atomically
from rsl_rl_sac.utils.errors import CheckpointError

DRAWN_COLUMNS = {
    "tracking": "tracking score",
    "survival": "survival",
    "episode_return": "return",
    "episode_length": "episode length",
}
"""Columns that the picture shows, as far as there are such, with their labels."""


def write_curve(path: Path, rows: list[dict[str, float]]) -> None:
    """Write a learning curve; all rows have the same columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: round(value, 4) for name, value in row.items()})
    write_text_atomically(text.getvalue(), path)


def read_curve(path: Path, columns: Collection[str] | None = None) -> list[dict[str, float]]:
    """Read a learning curve; a missing one has no rows.

    Args:
        path: File.
        columns: Columns that it must have, no more and no less; None takes any.

    Raises:
        CheckpointError: If the file is damaged, or of other columns.
    """
    if not path.exists():
        return []
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file, strict=True)
            rows = [{name: float(value) for name, value in row.items()} for row in reader]
    except (TypeError, ValueError, csv.Error) as error:  # a row that is too short or too long, or not of numbers
        raise CheckpointError(f"The learning curve '{path}' is damaged: delete its last line, or the file.") from error
    if rows and columns is not None and set(rows[0]) != set(columns):
        names = ", ".join(sorted(set(rows[0]) ^ set(columns)))
        raise CheckpointError(
            f"The learning curve '{path}' is of another version of this package ({names} in one of them only): move it"
            " away, and the run goes on with a new one."
        )
    return rows


def draw_curve(path: Path, rows: list[dict[str, float]], title: str = "") -> None:
    """Draw a learning curve as a PNG: its scores against environment steps."""
    columns = [name for name in DRAWN_COLUMNS if name in rows[0]]
    # Without pyplot: nothing global is touched, and no window system is looked for.
    figure = Figure(figsize=(4.0 * len(columns), 3.2), layout="constrained")
    figure.suptitle(title)
    for axis, name in zip(figure.subplots(1, len(columns), squeeze=False)[0], columns, strict=True):
        axis.plot([row["env_steps"] / 1e6 for row in rows], [row[name] for row in rows], marker=".")
        axis.set_xlabel("environment steps (millions)")
        axis.locator_params(axis="x", nbins=4)  # more labels touch each other
        axis.set_ylabel(DRAWN_COLUMNS[name])
        axis.grid(alpha=0.3)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=90)
    write_bytes_atomically(picture.getvalue(), path)
