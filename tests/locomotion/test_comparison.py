# SPDX-License-Identifier: BSD-3-Clause

"""Comparisons: fair shares of the cores, kept results, one table, readable figures."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.locomotion.comparison import Comparison, Run, share_cores
from rsl_rl_sac.locomotion.curves import Curve, end_differences, mean_curve, read_curves
from rsl_rl_sac.locomotion.figures import draw_comparison
from rsl_rl_sac.locomotion.world import CURVE_COLUMNS
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.runners.curve import write_curve
from rsl_rl_sac.utils.config_file import TrainingCfg, dump_config, load_run_config
from rsl_rl_sac.utils.errors import ConfigError, TrainingFailedError

TASK = "Velocity-Flat-Unitree-Go1"


def write_run(folder: pathlib.Path, tracking: list[float], minutes: float) -> None:
    """Write what a finished run leaves behind."""
    folder.mkdir(parents=True)
    rows = [
        dict.fromkeys(CURVE_COLUMNS, 0.0) | {"env_steps": 1e6 * k, "seconds": 60.0 * k, "tracking": value}
        for k, value in enumerate(tracking)
    ]
    write_curve(folder / "curve.csv", rows)
    (folder / "finished.txt").write_text(f"{minutes}\n")


class TestCores:
    """Both algorithms get the same number of cores, none of them twice."""

    def test_disjoint_halves(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of five cores each gets two, and one is left over."""
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 4, 6, 8, 9}, raising=False)
        assert share_cores(2) == [{3, 4}, {6, 8}]

    def test_too_few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """On one core a comparison would be unfair, and the message says what to do."""
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
        with pytest.raises(ConfigError, match="at least 2 cores, this process may use 1"):
            share_cores(2)


class TestRuns:
    """What is there already is kept."""

    def test_finished_runs_are_not_repeated(self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """With both runs finished nothing starts; asked for more minutes, both start."""
        write_run(tmp_path / "sac_seed0", [0.2, 0.9], minutes=2.0)
        write_run(tmp_path / "ppo_seed0", [0.2, 0.7], minutes=2.0)
        started = []
        monkeypatch.setattr(Comparison, "_run_pair", lambda self, runs: started.extend(run.agent for run in runs))
        Comparison(TASK, tmp_path, 2.0, [0]).run()
        assert started == []
        Comparison(TASK, tmp_path, 3.0, [0]).run()
        assert started == ["sac", "ppo"]

    def test_other_settings_are_refused(self, tmp_path: pathlib.Path) -> None:
        """What is there with another preset, other physics or more minutes is not shown as what was asked for."""
        for agent in ("sac", "ppo"):
            write_run(tmp_path / f"{agent}_seed0", [0.2, 0.9], minutes=2.0)
        Comparison(TASK, tmp_path, 2.0, [0], fine_physics=True).run()
        table = (tmp_path / "curves.csv").read_text()
        others: list[dict] = [{}, {"preset": "paper", "fine_physics": True}]
        for other in others:
            with pytest.raises(ConfigError, match=r"have the settings .*'fine_physics': True.* choose another"):
                Comparison(TASK, tmp_path, 2.0, [0], **other).run()
        for _ in range(2):  # also of runs that were gone on with, and stopped
            with pytest.raises(ConfigError, match="runs of 2 minutes"):
                Comparison(TASK, tmp_path, 0.5, [0], fine_physics=True).run()
            for agent in ("sac", "ppo"):
                rows = [dict.fromkeys(CURVE_COLUMNS, 0.0) | {"seconds": 120.2}]
                write_curve(tmp_path / f"{agent}_seed0" / "curve.csv", rows)
                (tmp_path / f"{agent}_seed0" / "finished.txt").unlink(missing_ok=True)
        assert (tmp_path / "curves.csv").read_text() == table

    def test_a_last_iteration_that_is_long(self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A run may end seven seconds late, with the iteration that began in time; the same command goes on with it."""
        monkeypatch.setattr(Comparison, "_run_pair", lambda *_: None)
        for agent in ("sac", "ppo"):
            write_run(tmp_path / f"{agent}_seed0", [0.2, 0.9], minutes=2.0)
            row = dict.fromkeys(CURVE_COLUMNS, 0.0) | {"seconds": 126.9}
            write_curve(tmp_path / f"{agent}_seed0" / "curve.csv", [row])
            config = dump_config(TASK, RunnerCfg() if agent == "sac" else PPORunnerCfg(), TrainingCfg(minutes=2.0))
            (tmp_path / f"{agent}_seed0" / "config.yaml").write_text(config)
        Comparison(TASK, tmp_path, 2.0, [0]).run()
        with pytest.raises(ConfigError, match="runs of 2 minutes"):
            Comparison(TASK, tmp_path, 1.95, [0]).run()
        (tmp_path / "ppo_seed0" / "finished.txt").unlink()  # as if the other one had failed beside it
        Comparison(TASK, tmp_path, 2.0, [0]).run()

    def test_damaged_mark(self, tmp_path: pathlib.Path) -> None:
        """A run whose mark was cut off is not finished, and is no obstacle."""
        write_run(tmp_path / "sac_seed0", [0.2, 0.9], minutes=2.0)
        run = Comparison(TASK, tmp_path, 2.0, [0]).runs[0]
        assert run.is_finished(2.0)
        run.finished_path.write_text("")
        assert run.had_minutes is None and not run.is_finished(2.0)

    def test_interrupt_is_passed_on(self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """If only the comparison is interrupted, the trainings are told once, save and end."""
        program = (
            "import pathlib, sys, time\nfolder = pathlib.Path(sys.argv[1])\n"
            "try:\n    (folder / 'started').touch()\n    time.sleep(60)\n"
            "except KeyboardInterrupt:\n    (folder / 'saved').touch()\n"
        )

        def start(self: Comparison, run: Run, cores: set[int]) -> subprocess.Popen:
            run.folder.mkdir(parents=True)
            return subprocess.Popen([sys.executable, "-c", program, str(run.folder)], start_new_session=True)

        def interrupt(runs: list[Run]) -> None:
            if all((run.folder / "started").exists() for run in runs):
                raise KeyboardInterrupt

        monkeypatch.setattr(Comparison, "_start", start)
        monkeypatch.setattr("rsl_rl_sac.locomotion.comparison.share_cores", lambda count: [{0}, {0}])
        comparison = Comparison(TASK, tmp_path, 1.0, [0], listener=interrupt)
        with pytest.raises(KeyboardInterrupt):
            comparison.run()
        assert all((run.folder / "saved").exists() and run.had_minutes is None for run in comparison.runs)

    def test_one_that_cannot_start(self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """If the second training of a pair cannot start, the first is not left alone."""
        processes: list[subprocess.Popen] = []

        def popen(command: list[str], **settings: object) -> subprocess.Popen:
            assert settings["start_new_session"]  # a terminal's Ctrl-C is passed on, not met twice
            if processes:
                raise OSError("no memory")
            processes.append(real(["sleep", "60"]))
            return processes[0]

        real = subprocess.Popen
        write_run(tmp_path / "sac_seed0", [0.2, 0.9], minutes=2.0)
        monkeypatch.setattr(subprocess, "Popen", popen)
        monkeypatch.setattr("rsl_rl_sac.locomotion.comparison.share_cores", lambda count: [{0}, {0}])
        with pytest.raises(OSError, match="no memory"):
            Comparison(TASK, tmp_path, 3.0, [0]).run()
        assert processes[0].poll() == -signal.SIGTERM
        assert not (tmp_path / "sac_seed0" / "finished.txt").exists()  # it was gone on with

    def test_signals(self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A terminal that is closed ends a comparison, but not one that nohup protects."""
        for before, expected in ((signal.SIG_DFL, [True, True]), (signal.SIG_IGN, [True, False])):
            monkeypatch.setattr(Comparison, "_start", lambda self, run, cores: subprocess.Popen(["sleep", "60"]))
            monkeypatch.setattr("rsl_rl_sac.locomotion.comparison.share_cores", lambda count: [{0}, {0}])
            changed: list[bool] = []

            def look(runs: list[Run], before: object = before, changed: list[bool] = changed) -> None:
                own = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
                changed += [handler is not before and handler is not signal.SIG_DFL for handler in own]
                raise KeyboardInterrupt

            old = signal.signal(signal.SIGHUP, before)
            try:
                with pytest.raises(KeyboardInterrupt):
                    Comparison(TASK, tmp_path, 1.0, [0], listener=look).run()
                assert changed == expected and signal.getsignal(signal.SIGHUP) is before
            finally:
                signal.signal(signal.SIGHUP, old)

    def test_told_twice(self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """All trainings are told to end before any is waited for, and what comes meanwhile does not stop that."""
        told: list[str] = []

        class Process:
            """A training that ends when it is told to."""

            def poll(self) -> int | None:
                return -signal.SIGTERM if told.count("terminate") == 2 else None

            def terminate(self) -> None:
                os.kill(os.getpid(), signal.SIGTERM)  # once more
                told.append("terminate")

            def wait(self) -> None:
                told.append("wait")

        def leave(runs: list[Run]) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1.0)

        monkeypatch.setattr(Comparison, "_start", lambda self, run, cores: Process())
        monkeypatch.setattr("rsl_rl_sac.locomotion.comparison.share_cores", lambda count: [{0}, {0}])
        old = signal.signal(signal.SIGTERM, lambda *_: told.append("signal"))
        try:
            with pytest.raises(SystemExit):
                Comparison(TASK, tmp_path, 1.0, [0], listener=leave).run()
        finally:
            signal.signal(signal.SIGTERM, old)
        assert told == ["terminate", "terminate", "wait", "wait"]

    def test_table(self, tmp_path: pathlib.Path) -> None:
        """The table has the rows of all runs, and reads back as curves."""
        for seed, end in ((0, 0.9), (1, 0.7)):
            write_run(tmp_path / f"sac_seed{seed}", [0.2, 0.5, end], minutes=2.0)
            write_run(tmp_path / f"ppo_seed{seed}", [0.2, 0.4], minutes=2.0)
        comparison = Comparison(TASK, tmp_path, 2.0, [0, 1])
        comparison.run()
        curves = read_curves(comparison.table_path)
        assert [(curve.agent, curve.seed) for curve in curves] == [("sac", 0), ("ppo", 0), ("sac", 1), ("ppo", 1)]
        assert curves[2].columns["tracking"].tolist() == [0.2, 0.5, 0.7]

    def test_seeds_are_added(self, tmp_path: pathlib.Path) -> None:
        """Finished runs of other seeds stay in the table; unfinished ones do not, nor those that had other times."""
        for seed, minutes in ((0, 2.0), (1, 1.0), (2, 2.0), (3, 5.0), (10, 2.0)):
            write_run(tmp_path / f"sac_seed{seed}", [0.2, 0.5], minutes)
            write_run(tmp_path / f"ppo_seed{seed}", [0.2, 0.4], minutes)
        (tmp_path / "ppo_seed0" / "finished.txt").unlink()
        comparison = Comparison(TASK, tmp_path, 2.0, [2])
        comparison.run()
        runs = [(curve.agent, curve.seed) for curve in read_curves(comparison.table_path)]
        assert runs == [("sac", 0), ("sac", 2), ("ppo", 2), ("sac", 10), ("ppo", 10)]

    @pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
    def test_trains_both(self, tmp_path: pathlib.Path) -> None:
        """Both algorithms train in processes of their own, on the same evaluation; the table has both."""
        seen: list[int] = []
        small = ["--num-envs", "8", "--evaluation-envs", "2", "--max-iterations", "2"]
        comparison = Comparison(
            TASK, tmp_path, 1.0, [0], options=small, listener=lambda runs: seen.append(sum(len(r.rows) for r in runs))
        )
        comparison.run()
        curves = {curve.agent: curve for curve in read_curves(comparison.table_path)}
        assert set(curves) == {"sac", "ppo"} and seen == sorted(seen)
        assert all(curve.columns["iteration"].tolist() == [0.0, 2.0] for curve in curves.values())
        # Both start from the default pose, near enough for nearly the same score.
        starts = [curve.columns["episode_return"][0] for curve in curves.values()]
        assert starts[0] == pytest.approx(starts[1], rel=0.1)
        assert all(run.is_finished(1.0) for run in comparison.runs)

        # On rough terrain each goes on from its own run, or not at all.
        rough = TASK.replace("Flat", "Rough")
        second = Comparison(rough, tmp_path / "rough", 1.0, [0], options=small, start_folder=tmp_path)
        second.run()
        for run in second.runs:
            training = load_run_config(run.folder / "config.yaml")[2]
            assert training is not None and training.start_from is not None
            assert pathlib.Path(training.start_from) == tmp_path / f"{run.agent}_seed0" / "model_1.pt"

    def test_failure_names_the_log(self, tmp_path: pathlib.Path) -> None:
        """A run that fails ends the comparison with its own last words and where the rest is."""
        comparison = Comparison(TASK, tmp_path, 1.0, [0], preset="nonsense")
        with pytest.raises(TrainingFailedError, match=r"Unknown preset 'nonsense'.*output\.log"):
            comparison.run()


class TestFigures:
    """Numbers behind the figures."""

    def make_curve(self, tracking: list[float], seconds: list[float]) -> Curve:
        """Return a curve."""
        columns = {"tracking": np.array(tracking), "seconds": np.array(seconds), "env_steps": np.array(seconds)}
        return Curve(TASK, "sac", 0, columns | {"episode_return": np.array(tracking)})

    def test_first(self) -> None:
        """The first evaluation at or above a score counts, even if the score falls again."""
        curve = self.make_curve([0.1, 0.8, 0.3, 0.9], [0.0, 10.0, 20.0, 30.0])
        assert curve.first("tracking", 0.8, "seconds") == 10.0
        assert curve.first("tracking", 0.85, "seconds") == 30.0
        assert curve.first("tracking", 0.95, "seconds") == float("inf")

    def test_mean(self) -> None:
        """The mean of lines 0 to 1 and 0 to 3 over ten seconds is a line from 0 to 2, cut where the shorter ends."""
        curves = [self.make_curve([0.0, 1.0], [0.0, 10.0]), self.make_curve([0.0, 6.0], [0.0, 20.0])]
        grid, mean = mean_curve(curves, "seconds", "tracking", num_points=11)
        assert grid[-1] == 10.0
        np.testing.assert_allclose(mean, np.linspace(0.0, 2.0, 11))

    def test_end_differences(self) -> None:
        """Seeds that both have are compared where they end, in the order of the first agent's; others are left out."""
        curves = [
            Curve(TASK, agent, seed, {"tracking": np.array([0.0, end])})
            for agent, seed, end in (
                ("sac", 2, 0.75),
                ("sac", 0, 0.5),
                ("ppo", 0, 1.0),
                ("ppo", 2, 0.5),
                ("sac", 1, 1.0),
            )
        ]
        assert end_differences(curves, "tracking") == [0.25, -0.5]
        assert end_differences(curves, "tracking", "ppo", "sac") == [0.5, -0.25]

    def test_draws(self, tmp_path: pathlib.Path) -> None:
        """A figure is a picture of some size."""
        draw_comparison([self.make_curve([0.1, 0.8], [0.0, 60.0])], tmp_path / "a" / "curves.png", TASK)
        assert (tmp_path / "a" / "curves.png").stat().st_size > 10_000
