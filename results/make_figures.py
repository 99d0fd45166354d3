# SPDX-License-Identifier: BSD-3-Clause

"""Draw the figures of the learning curves from their tables.

    make figures

Every ``compare_TASK.csv`` here is the ``curves.csv`` that ``rsl-rl-sac compare TASK`` wrote, every other table was put
together by ``gather.py`` from runs of ``rsl-rl-sac train``.
"""

from __future__ import annotations

from pathlib import Path

from rsl_rl_sac.locomotion.figures import draw_comparison, read_curves

FOLDER = Path(__file__).parent
IMAGES = FOLDER.parent / "docs" / "images"


def main() -> None:
    """Draw one figure for each table."""
    for table in sorted(FOLDER.glob("*.csv")):
        figure = IMAGES / table.with_suffix(".png").name
        curves = read_curves(table)
        draw_comparison(curves, figure, curves[0].task)
        print(f"{table.name} -> {figure.relative_to(FOLDER.parent)}")


if __name__ == "__main__":
    main()
