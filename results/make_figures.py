# SPDX-License-Identifier: BSD-3-Clause

"""Draw the figures of the learning curves from their tables, and write the tables of README.md and docs/learning.md.

    make figures

Every ``compare_TASK.csv`` here is the ``curves.csv`` that ``rsl-rl-sac compare TASK`` wrote, ``ablation_TASK.csv`` is
written by ``benchmarks/ablation.py``, every other table was put together by ``gather.py`` from runs of
``rsl-rl-sac train``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from make_tables import main as write_tables

from rsl_rl_sac.locomotion.curves import Curve, mean_curve, read_curves
from rsl_rl_sac.locomotion.figures import COLOURS, TITLES, draw_comparison, drawing

FOLDER = Path(__file__).parent
IMAGES = FOLDER.parent / "docs" / "images"

ABLATIONS = {
    "Initial noise": ("sigma_0.15", "sigma_1.0"),
    "Action bounds": ("bounds_1", "bounds_soft", "bounds_hard", "bounds_100", "bounds_soft_bias_zero"),
    "Wide bounds, small first noise": (
        "bounds_soft_sigma_0.15",
        "bounds_soft_sigma_0.15_bias_zero",
        "bounds_opening",
        "paper_exploration",
    ),
    "Returns and time-outs": ("n1", "n3", "time_outs_naive"),
    "Networks": ("critic_scalar", "critic_layer_norm", "actor_layer_norm", "critics_2", "critics_2_mean"),
    "Batches, rewards, overlap": ("batch_512", "batch_1024_fewer", "reward_scale_1", "overlap_off"),
    "How fast the actor follows": ("actor_at_once", "actor_every_step", "kl_0.006"),
    "Noise": ("noise_lasting", "noise_mixed", "noise_constant", "rates_constant"),
    "Symmetry and physics": ("symmetry_off", "physics_fine"),
}
"""Variants of the ablation by panel, each beside the base."""


def draw_ablation(curves: Sequence[Curve], path: Path, title: str) -> None:
    """Draw tracking against environment steps, a panel for each kind of change made, the base in black in all."""
    made = {curve.agent for curve in curves}
    panels = {panel: made.intersection(variants) for panel, variants in ABLATIONS.items() if made & set(variants)}
    columns = 3
    rows = -(-len(panels) // columns)
    with drawing(path, rows, columns, (4.0 * columns, 3.2 * rows), sharex=True, sharey=True) as (figure, axes):
        for axis in axes.flat[len(panels) :]:
            axis.remove()
        for axis in axes.flat[max(len(panels) - columns, 0) : len(panels)]:  # the lowest of their columns
            axis.tick_params(labelbottom=True)
        for axis, (panel, variants) in zip(axes.flat, panels.items(), strict=False):
            for variant in ("base", *sorted(variants)):
                runs = [curve for curve in curves if curve.agent == variant]
                grid, mean = mean_curve(runs, "env_steps", "tracking")
                axis.plot(grid / 1e6, mean, label=variant, color="black" if variant == "base" else None)
            axis.set_title(panel, fontsize=10)
            axis.grid(alpha=0.3)
            axis.legend(fontsize=8)
        figure.supxlabel("environment steps (millions)")
        figure.supylabel("tracking score")
        figure.suptitle(title)


def draw_starts(curves: Sequence[Curve], path: Path, title: str) -> None:
    """Draw tracking with noise against time, a line for each task."""
    with drawing(path, 1, 1, (6.5, 4)) as (figure, ((axis,),)):
        for curve in curves:
            # The first evaluation comes before any training.
            minutes, tracking = curve.columns["seconds"][1:] / 60.0, curve.columns["training_tracking"][1:]
            axis.plot(minutes, tracking, marker="o", label=curve.task.removeprefix("Velocity-"))
        axis.set_xlabel("minutes on one core")
        axis.set_ylabel("tracking score with noise")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
        figure.suptitle(title)


def draw_overview(comparisons: Sequence[Sequence[Curve]], path: Path) -> None:
    """Draw tracking on several robots, a column each, against time and against steps: every seed, and their mean."""
    units = (("seconds", 60.0, "minutes on one core"), ("env_steps", 1e6, "million steps"))
    with drawing(path, 2, len(comparisons), (2.6 * len(comparisons), 4.6), sharey=True) as (figure, axes):
        for column, curves in zip(axes.T, comparisons, strict=True):
            column[0].set_title(curves[0].task.removeprefix("Velocity-").removeprefix("Flat-"), fontsize=10)
            for axis, (unit, scale, label) in zip(column, units, strict=True):
                for agent, name in TITLES.items():
                    runs = [curve for curve in curves if curve.agent == agent]
                    for run in runs:
                        line = (run.columns[unit] / scale, run.columns["tracking"])
                        axis.plot(*line, color=COLOURS[agent], alpha=0.35, linewidth=1)
                    grid, mean = mean_curve(runs, unit, "tracking")
                    axis.plot(grid / scale, mean, color=COLOURS[agent], label=name)
                axis.axhline(0.8, color="grey", linewidth=0.8, linestyle=":")
                axis.set_xlabel(label, fontsize=9)
                axis.grid(alpha=0.3)
        axes[0][0].legend(loc="lower right", fontsize=9)
        figure.supylabel("tracking score", fontsize=10)


def main() -> None:
    """Draw one figure for each table, and one of all robots on flat ground; then write the tables of the pages."""
    flat = [read_curves(table) for table in sorted(FOLDER.glob("compare_Velocity-Flat-*.csv"))]
    draw_overview(flat, IMAGES / "compare_flat.png")
    for table in sorted(FOLDER.glob("*.csv")):
        figure = IMAGES / table.with_suffix(".png").name
        curves = read_curves(table)
        if table.name.startswith("ablation") and all(curve.agent != "base" for curve in curves):
            continue  # nothing to draw it beside
        if table.stem == "five_minutes":
            draw_starts(curves, figure, "From scratch, five minutes")
        else:
            draw = draw_ablation if table.name.startswith("ablation") else draw_comparison
            draw(curves, figure, curves[0].task)
        print(f"{table.name} -> {figure.relative_to(FOLDER.parent)}")
    write_tables()


if __name__ == "__main__":
    main()
