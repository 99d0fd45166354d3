# SPDX-License-Identifier: BSD-3-Clause

"""Put the learning curves of several runs into one table, in the form of ``rsl-rl-sac compare``.

    python results/gather.py results/demo_Velocity-Flat-Unitree-Go1.csv RUN [RUN ...]

A run is a folder with ``config.yaml`` and ``curve.csv``. ``make figures`` draws the table.
"""

from __future__ import annotations

import csv
from pathlib import Path

import tyro

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.utils.config_file import load_config


def main(table: tyro.conf.Positional[Path], runs: tyro.conf.Positional[tuple[Path, ...]]) -> None:
    """Write the table.

    Args:
        table: File to write.
        runs: Folders of the runs.
    """
    if not runs:
        raise SystemExit("Name the folder of a run.")
    rows: list[dict[str, object]] = []
    for run in runs:
        task, cfg = load_config(run / "config.yaml")
        agent = "sac" if isinstance(cfg, RunnerCfg) else "ppo"
        with (run / "curve.csv").open(newline="") as file:
            rows += [{"task": task, "agent": agent, "seed": cfg.seed, **row} for row in csv.DictReader(file)]
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    tyro.cli(main)
