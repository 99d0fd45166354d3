# SPDX-License-Identifier: BSD-3-Clause

"""Write the tables of the pages that come from the learning curves here, as ``make figures`` does.

A table stands between two comments, ``<!-- table NAME -->`` and ``<!-- end -->``; all between them is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from rsl_rl_sac.locomotion.curves import Curve, end_differences, read_curves
from rsl_rl_sac.locomotion.figures import TITLES
from rsl_rl_sac.locomotion.statistics import mean_with_interval

FOLDER = Path(__file__).parent
DOCS = FOLDER.parent / "docs"
PAGES = (FOLDER.parent / "README.md", DOCS / "learning.md", DOCS / "learning-trials.md")
"""Pages with tables."""

WALKING = 0.8
"""Tracking score from which on a robot is said to walk."""

MARGIN = 0.02
"""Difference in tracking up to which two runs are level."""

LATE = 5.0
"""Minutes at the end over which scores are averaged, since single evaluations swing."""

NEVER = "–"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows))


def flat_curves() -> dict[str, list[Curve]]:
    """Return the curves of the comparisons on flat ground by the name of the robot."""
    tables = {path: read_curves(path) for path in sorted(FOLDER.glob("compare_Velocity-Flat-*.csv"))}
    return {robot_name(curves[0].task): curves for curves in tables.values()}


def robot_name(task: str) -> str:
    """Return the robot of a task as one writes it."""
    name = re.sub(r"Velocity-(Flat|Rough)-(Unitree-)?", "", task)
    return name.replace("Anymal-", "ANYmal ")


def of_agent(curves: Sequence[Curve], agent: str) -> list[Curve]:
    """Return the curves of one agent, by seed."""
    return sorted((curve for curve in curves if curve.agent == agent), key=lambda curve: curve.seed)


def listed(values: Sequence[float], digits: int) -> str:
    """Return values one by one, those that are infinite as a dash."""
    return ", ".join(f"{value:.{digits}f}" if np.isfinite(value) else NEVER for value in values)


def averaged(values: Sequence[float], digits: int) -> str:
    """Return the mean of values; a dash if all are infinite, and each of them if only some are."""
    finite = np.isfinite(values)
    return f"{np.mean(values):.{digits}f}" if finite.all() else listed(values, digits) if finite.any() else NEVER


def pairs(curves: Sequence[Curve]) -> list[tuple[Curve, Curve]]:
    """Return the curves of SAC and PPO of every seed that both have."""
    others = {curve.seed: curve for curve in of_agent(curves, "ppo")}
    return [(curve, others[curve.seed]) for curve in of_agent(curves, "sac") if curve.seed in others]


def ends(curves: Sequence[Curve], column: str) -> list[float]:
    """Return the last value of each curve."""
    return [float(curve.columns[column][-1]) for curve in curves]


def late(curves: Sequence[Curve], column: str) -> list[float]:
    """Return the mean of each curve's evaluations in its last minutes, which are those of a minute as it is shown."""
    minutes = [np.round(curve.columns["seconds"] / 60.0) for curve in curves]
    recent = [times > times[-1] - LATE for times in minutes]
    return [float(curve.columns[column][which].mean()) for curve, which in zip(curves, recent, strict=True)]


def walks_after(curves: Sequence[Curve], column: str, scale: float) -> list[float]:
    """Return what each curve took to walk, in units of a column; infinity if it did not."""
    return [curve.first("tracking", WALKING, column) / scale for curve in curves]


def crosses_at(curve: Curve, column: str, value: float, of: str) -> float:
    """Return where one column first rises through a value, in terms of another one, between evaluations if need be.

    Those of the ablation are 0.2 to 0.9 million steps apart, so that the first one beyond it would tell little.
    """
    values, places = curve.columns[column], curve.columns[of]
    reached = np.nonzero(values >= value)[0]
    if not len(reached):
        return float("inf")
    which = [max(int(reached[0]) - 1, 0), int(reached[0])]
    return float(np.interp(value, values[which], places[which]))


def compare_flat() -> str:
    """Return one line for each robot: the means of its seeds, and the difference with the interval of three or more."""
    rows = []
    for robot, curves in flat_curves().items():
        agents = [of_agent(curves, agent) for agent in TITLES]
        cells = [averaged(ends(runs, "tracking"), 3) for runs in agents]
        cells.append(mean_with_interval([end_differences(curves, "tracking")], sign=True))
        cells += [averaged(walks_after(runs, "seconds", 60.0), 1) for runs in agents]
        cells += [averaged(walks_after(runs, "env_steps", 1e6), 2) for runs in agents]
        rows.append([robot, str(len(agents[0])), *cells])
    quantities = ("Tracking", "Minutes to 0.8", "M steps to 0.8")
    header = [f"{quantity}: {name}" for quantity in quantities for name in TITLES.values()]
    header.insert(len(TITLES), "SAC − PPO")
    return markdown(["Flat ground, 20 minutes", "Seeds", *header], rows)


def compare_flat_difference() -> str:
    """Return by how much SAC ends above PPO: over all robots, and in how many pairs of runs."""
    groups = [end_differences(curves, "tracking") for curves in flat_curves().values()]
    last = [difference for group in groups for difference in group]
    both = [late(pair, "tracking") for curves in flat_curves().values() for pair in pairs(curves)]
    recent = [sac - ppo for sac, ppo in both]
    return (
        f"SAC − PPO in tracking at the end, mean over the robots: **{mean_with_interval(groups, sign=True)}** (95 %"
        f" bootstrap interval over robots and their seeds). Of {len(last)} pairs of runs SAC ends"
        f" {outcomes(last)}; by the mean of the last {LATE:.0f} minutes {outcomes(recent)}."
    )


def outcomes(differences: Sequence[float]) -> str:
    """Return in how many pairs of runs SAC is above PPO, level with it and below, in words."""
    above, below = (sum(sign * value > MARGIN for value in differences) for sign in (1, -1))
    level = len(differences) - above - below
    return f"more than {MARGIN} above PPO in {above}, within {MARGIN} of it in {level}, and further below in {below}"


def compare_flat_first() -> str:
    """Return which agent walks first, and in which part of the other's time and steps."""
    runs = [pair for curves in flat_curves().values() for pair in pairs(curves)]
    columns = [np.array([walks_after(pair, column, 1.0) for pair in runs]) for column in ("seconds", "env_steps")]
    both, first = np.isfinite(columns[0]).all(axis=1), columns[0][:, 0] < columns[0][:, 1]
    parts = [values[both, 0] / values[both, 1] for values in columns]
    time, steps = (f"{part.min():.2f} to {part.max():.2f}" for part in parts)
    return (
        f"SAC reaches {WALKING} first in {first.sum()} of {len(runs)} pairs of runs. PPO"
        f" reaches it too in {both.sum()} of them, where SAC takes {time} of PPO's time and {steps} of its steps."
    )


def compare_flat_seeds() -> str:
    """Return two lines for each robot, with every seed."""
    rows = []
    for robot, curves in flat_curves().items():
        for agent, title in TITLES.items():
            runs = of_agent(curves, agent)
            scores = [listed(ends(runs, column), digits) for column, digits in SCORES]
            cells = [scores[0], listed(late(runs, "tracking"), 3), *scores[1:]]
            cells += [listed(walks_after(runs, "seconds", 60.0), 1), listed(walks_after(runs, "env_steps", 1e6), 2)]
            cells.append(listed([steps / 1e6 for steps in ends(runs, "env_steps")], 1))
            rows.append([robot if agent == "sac" else "", title, *cells])
    header = ["Robot", "Agent", "Tracking", f"Last {LATE:.0f} minutes", "Return", "Survival"]
    return markdown([*header, "Minutes to 0.8", "M steps to 0.8", "M steps, total"], rows)


def halved_noise() -> str:
    """Return one line for each robot on which PPO also began with half of its noise, beside the same seed's runs."""
    rows = []
    for path in sorted(FOLDER.glob("halved_noise_Velocity-Flat-*.csv")):
        (halved,) = read_curves(path)
        others = [curve for curve in flat_curves()[robot_name(halved.task)] if curve.seed == halved.seed]
        runs = [*of_agent(others, "sac"), *of_agent(others, "ppo"), halved]
        cells = [f"{score:.3f}" for score in ends(runs, "tracking")]
        cells += [listed([minutes], 1) for minutes in walks_after(runs, "seconds", 60.0)]
        rows.append([robot_name(halved.task), str(halved.seed), *cells])
    names = ("SAC", "PPO, σ 1.0", "PPO, σ 0.5")
    header = [f"{quantity}: {name}" for quantity in ("Tracking", "Minutes to 0.8") for name in names]
    return markdown(["Flat ground, 20 minutes", "Seed", *header], rows)


SCORES = (("tracking", 3), ("episode_return", 1), ("survival", 2))
"""Columns of a final score, and their digits."""


def demo() -> str:
    """Return one line for each seed of the demo."""
    rows = []
    for run in read_curves(FOLDER / "demo_Velocity-Flat-Unitree-Go2.csv"):
        minutes = ends([run], "seconds")[0] / 60.0
        cells = [f"{minutes:.1f}", *(f"{ends([run], column)[0]:.{digits}f}" for column, digits in SCORES)]
        cells += [f"{ends([run], 'env_steps')[0] / 1e6:.1f}", listed(walks_after([run], "seconds", 60.0), 1)]
        rows.append([str(run.seed), *cells, listed(walks_after([run], "env_steps", 1e6), 2)])
    header = ["Seed", "Minutes of training", "Tracking", "Return", "Survival", "M steps", "Minutes to 0.8"]
    return markdown([*header, "M steps to 0.8"], rows)


def rough(name: str) -> str:
    """Return the curves of a comparison on rough terrain, a column for each evaluation at about the same minute."""
    rows, minutes, curves = [], np.arange(0.0, 31.0, 5.0), read_curves(FOLDER / f"{name}.csv")
    for run in curves:
        title, seconds = TITLES[run.agent], run.columns["seconds"]
        rounds = [int(np.argmin(np.abs(seconds - 60.0 * minute))) for minute in minutes]
        columns = [{key: values[index] for key, values in run.columns.items()} for index in rounds]
        rows += [
            [f"{title}: tracking (survival)", *(f"{at['tracking']:.2f} ({at['survival']:.2f})" for at in columns)],
            [f"{title}: return", *(f"{at['episode_return']:.1f}" for at in columns)],
            [f"{title}: tracking with noise", "", *(f"{at['training_tracking']:.2f}" for at in columns[1:])],
            [f"{title}: million steps", "", *(f"{at['env_steps'] / 1e6:.1f}" for at in columns[1:])],
        ]
        if np.abs(seconds[rounds] / 60.0 - minutes).max() > 0.5:  # not what the header says
            rows.append([f"{title}: minute of the evaluation", *(f"{at['seconds'] / 60.0:.0f}" for at in columns)])
    return markdown([robot_name(curves[0].task), "0 minutes", *(f"{minute:.0f}" for minute in minutes[1:])], rows)


def rough_from_flat() -> str:
    """Return one line for each robot that went from flat ground to rough terrain: how both agents ended."""
    rows = []
    for path in sorted(FOLDER.glob("compare_Velocity-Rough-*_from_flat.csv")):
        curves = read_curves(path)
        agents = [of_agent(curves, agent) for agent in TITLES]
        cells = [listed(ends(runs, column), digits) for column, digits in SCORES for runs in agents]
        rows.append([robot_name(curves[0].task), *cells])
    header = [f"{quantity}: {name}" for quantity in ("Tracking", "Return", "Survival") for name in TITLES.values()]
    return markdown(["Rough terrain, 30 minutes", *header], rows)


def five_minutes() -> str:
    """Return one line for each task that was only tried for five minutes: how the policy with its noise rose."""
    rows, minutes = [], range(1, 6)
    for run in read_curves(FOLDER / "five_minutes.csv"):
        noisy = np.interp(
            [60.0 * minute for minute in minutes], run.columns["seconds"], run.columns["training_tracking"]
        )
        ground = "rough" if "Rough" in run.task else "flat"
        cells = [f"{ends([run], 'env_steps')[0] / 1e6:.2f}", *(f"{score:.2f}" for score in noisy)]
        cells.append(f"{ends([run], 'tracking')[0]:.2f} ({ends([run], 'survival')[0]:.2f})")
        rows.append([f"{robot_name(run.task)}, {ground}", *cells])
    header = ["From scratch", "M steps", "Tracking with noise, minute 1", *(str(minute) for minute in minutes[1:])]
    return markdown([*header, "Without noise (survival)"], rows)


SAME = "no difference that one seed shows"
"""Verdict on most."""

ABLATION = {
    "base": ("base: σ₀ 0.6, ±0.5 rad, n = 5, start at the default pose", ""),
    "sigma_0.15": ("σ₀ = 0.15, the paper's", SAME),
    "sigma_1.0": ("σ₀ = 1.0", SAME),
    "paper_exploration": (
        "the paper's exploration: soft limits, σ₀, target entropy and temperature; start at the default pose",
        f"walks; {SAME}",
    ),
    "bounds_opening": (
        "bounds: ±0.5 rad that open to the soft limits as the noise sinks",
        SAME,
    ),
    "bounds_soft_sigma_0.15": (
        "bounds: soft limits, and σ₀ = 0.15, the paper's",
        f"walks; {SAME}",
    ),
    "bounds_soft_sigma_0.15_bias_zero": (
        "bounds: soft limits, σ₀ = 0.15, mean-head bias zero",
        "does not walk yet: it begins in a pose from which it falls",
    ),
    "bounds_soft": ("bounds: soft limits, σ₀ 0.6 of them", "does not walk yet: the first noise is 0.6 rad in the mean"),
    "bounds_soft_bias_zero": (
        "bounds: soft limits, σ₀ 0.6 of them, mean-head bias zero",
        "falls: both faults at once",
    ),
    "bounds_hard": ("bounds: hard limits, σ₀ 0.6 of them", "does not walk yet: the first noise is larger still"),
    "bounds_1": (
        "bounds: ±1 unit (0.25 rad)",
        "stands: the entropy that is asked for does not fit in (at most 0.69 nats per joint)",
    ),
    "bounds_100": ("bounds: ±100 units, σ₀ 0.6 of them", "only falls"),
    "n1": ("n = 1", "does not walk yet"),
    "n3": ("n = 3", "about as n = 5"),
    "time_outs_naive": ("time-outs taken for failures", f"{SAME}, in this task"),
}
"""Names and verdicts of the paper's changes taken back."""

OPTIONS = {
    "critic_scalar": (
        "one scalar Q-function in place of a categorical one",
        "later, with settings that were found with a categorical one",
    ),
    "critic_layer_norm": ("layer normalization in the critic", "does not walk: no progress from 1.4 M steps on"),
    "actor_layer_norm": ("layer normalization in the actor", SAME),
    "critics_2": ("the smaller of two critics", SAME),
    "critics_2_mean": ("the mean of two critics", SAME),
    "physics_fine": ("the physics of the evaluation, 4 x 5 ms", "much later: noise costs more"),
    "symmetry_off": ("no mirrored transitions", f"{SAME}, on Go1"),
    "noise_constant": (
        "noise that stays, and with it the learning rates",
        f"{SAME} without noise; with noise worse, as it must be",
    ),
    "reward_scale_1": (
        "rewards as they are; range of values and temperature in the same unit",
        f"{SAME}: it is a unit",
    ),
    "batch_1024_fewer": (
        "batches of 1024, a quarter of the gradient steps",
        "later; what is counted in gradient steps comes later too: the actor's start, at 0.5 M, and less noise, never",
    ),
    "batch_512": ("batches of 512", f"{SAME}, in steps; they take longer"),
    "actor_every_step": (
        "the actor follows every step of the critic",
        SAME,
    ),
    "actor_at_once": ("the actor learns from the first step on", SAME),
    "kl_0.006": ("an actor that changes by a KL divergence of 0.006 an iteration", "later"),
    "noise_mixed": ("noise of 0.4 to 2 times its size, environment by environment", "later"),
    "noise_lasting": ("noise with a correlation of 0.8 from step to step", "later"),
    "overlap_off": ("physics and learning in turn", f"{SAME}, in steps"),
    "rates_constant": ("learning rates that stay", SAME),
}
"""The same for the options of preset ``cpu``."""


def ablation(names: dict[str, tuple[str, str]], moving: float = 0.5) -> str:
    """Return one line for each variant: when its policy moves with its noise, and its scores at the end."""
    curves = read_curves(FOLDER / "ablation_Velocity-Flat-Unitree-Go1.csv")
    rows, noisy = [], "training_tracking"
    for variant, (name, verdict) in names.items():
        runs = of_agent(curves, variant)
        if not runs:
            raise ValueError(f"There are no runs of {variant}.")
        cells = [listed([crosses_at(run, noisy, moving, "env_steps") / 1e6 for run in runs], 1)]
        cells += [listed(ends(runs, column), 2) for column in (noisy, "tracking", "survival")]
        rows.append([name, *cells, verdict])
    header = ["Setting", f"M steps to {moving} with noise", "With noise, 3.5 M", "Tracking, 3.5 M", "Survival"]
    return markdown([*header, "Verdict"], rows)


TABLES: dict[str, Callable[[], str]] = {
    "compare_flat": compare_flat,
    "compare_flat_difference": compare_flat_difference,
    "compare_flat_first": compare_flat_first,
    "compare_flat_seeds": compare_flat_seeds,
    "halved_noise": halved_noise,
    "rough_from_flat": rough_from_flat,
    "five_minutes": five_minutes,
    "demo": demo,
    "ablation": lambda: ablation(ABLATION),
    "ablation_options": lambda: ablation(OPTIONS),
} | {path.stem: lambda name=path.stem: rough(name) for path in sorted(FOLDER.glob("compare_Velocity-Rough-*.csv"))}
"""What can stand between the comments, by name."""


def with_tables(page: str) -> str:
    """Return a page with its tables made anew."""
    return re.sub(
        r"(<!-- table (\S+) -->\n).*?(\n<!-- end -->)",
        lambda match: match[1] + TABLES[match[2]]() + match[3],
        page,
        flags=re.DOTALL,
    )


def main() -> None:
    """Write the tables of all pages."""
    for path in PAGES:
        path.write_text(with_tables(path.read_text()))
        print(f"tables -> {path.relative_to(FOLDER.parent)}")


if __name__ == "__main__":
    main()
