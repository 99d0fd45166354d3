# SPDX-License-Identifier: BSD-3-Clause

"""The terrain curriculum, by hand and by statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from rsl_rl_sac.locomotion import make_env
from rsl_rl_sac.locomotion.events import TerrainLevels
from rsl_rl_sac.locomotion.terrain import Terrain, TerrainCfg
from tests.locomotion.velocity_helpers import end_by_time, random_actions, zero_actions


@pytest.fixture(scope="module")
def terrain() -> Terrain:
    """Return a terrain of 10 levels and 20 columns."""
    return Terrain(TerrainCfg(), seed=0)


class TestTerrainLevels:
    """Which tile a robot starts on."""

    def levels(self, terrain: Terrain, num_envs: int, curriculum: bool = True, seed: int = 0) -> TerrainLevels:
        """Return the levels of a task."""
        return TerrainLevels(terrain, num_envs, 5, curriculum, np.random.default_rng(seed))

    def test_start(self, terrain: Terrain) -> None:
        """Levels 0 to 5 are equally likely; without a curriculum all ten are."""
        for curriculum, count in ((True, 6), (False, 10)):
            drawn = np.bincount(self.levels(terrain, 6000, curriculum).levels)
            assert len(drawn) == count
            assert stats.chisquare(drawn).pvalue > 1e-3

    @pytest.mark.parametrize(
        ("num_envs", "columns"),
        [(1, [0]), (3, [0, 6, 13]), (20, list(range(20))), (40, [i // 2 for i in range(40)])],
    )
    def test_columns(self, terrain: Terrain, num_envs: int, columns: list[int]) -> None:
        """Environment i of N has column 20 i / N, rounded down."""
        assert self.levels(terrain, num_envs).columns.tolist() == columns

    def test_columns_of_many(self, terrain: Terrain) -> None:
        """All columns have as many of 4096 environments, give or take one."""
        columns = self.levels(terrain, 4096).columns
        assert columns.tolist() == [math.floor(i * 20 / 4096) for i in range(4096)]

    def test_beyond_the_last_level_is_any(self, terrain: Terrain) -> None:
        """Who finishes level 9 comes to any of the ten levels."""
        levels = self.levels(terrain, 5000)
        levels.levels[:] = 9
        rows = np.arange(5000)
        position = levels.origins(rows) + np.array([5.0, 0.0, 0.0])
        levels.update(rows, position, np.zeros((5000, 3)), 20.0)
        drawn = np.bincount(levels.levels)
        assert len(drawn) == 10 and stats.chisquare(drawn).pvalue > 1e-3

    def test_progress(self) -> None:
        """Up beyond 4 m from the tile's centre, else down below 10 s x speed of the command, else the same."""
        # Offset from the tile's centre, command, level before, level after.
        cases = [
            ((3.9, 0.0), (0.0, 0.0), 3, 3),
            ((4.1, 0.0), (0.0, 0.0), 3, 4),
            ((0.0, -4.1), (0.0, 0.0), 3, 4),
            ((2.9, 2.9), (0.0, 0.0), 3, 4),  # 4.1 m, over the corner
            ((2.8, 2.8), (0.0, 0.0), 3, 3),
            ((4.5, 0.0), (0.3, 0.4), 3, 4),  # less than 5 m, but up comes first
            ((3.5, 0.0), (0.3, 0.4), 3, 2),
            ((0.0, 1.2), (0.1, 0.0), 3, 3),
            ((0.0, 0.8), (0.1, 0.0), 3, 2),
            ((0.0, 0.8), (0.0, -0.1), 3, 2),
            ((0.3, 0.0), (0.0, 0.0), 3, 3),  # standing
            ((0.3, 0.0), (1.0, 1.0), 0, 0),
            ((0.3, 0.0), (1.0, 1.0), 9, 8),
            ((4.1, 0.0), (0.0, 0.0), 8, 9),
        ]
        count = len(cases)
        # Two seeds: the spawn point, which differs, does not count.
        for seed in (0, 1):
            env = make_env("Velocity-Rough-Unitree-Go1", count + 1, seed)
            assert env.levels is not None and env.terrain is not None
            untouched = env.levels.levels[count]
            for row, (offset, command, before, _) in enumerate(cases):
                env.levels.levels[row] = before
                centre = env.terrain.origins[before, env.levels.columns[row]]
                # High above the ground, and far in height from where the robot started.
                env.physics.qpos[row, :3] = centre + np.array([*offset, 15.0])
                env.commands.velocity[row] = [*command, 0.7]
            end_by_time(env, list(range(count)))
            _, _, dones, extras = env.step(zero_actions(env))
            assert dones.tolist() == [True] * count + [False]
            assert env.levels.levels[:count].tolist() == [case[-1] for case in cases]
            assert env.levels.levels[count] == untouched
            assert extras["log"]["Curriculum/terrain_levels"] == pytest.approx(env.levels.levels.mean())
            # The next episode begins on the new tile.
            origins = env.terrain.origins[env.levels.levels, env.levels.columns]
            assert np.abs(env.physics.qpos[:count, :2] - origins[:count, :2]).max() <= 0.5

    def test_early_fall(self) -> None:
        """The full 20 s count after a fall in the first second too: 1 m at 0.2 m/s is down."""
        env = make_env("Velocity-Rough-Unitree-Go1", num_envs=4)
        assert env.levels is not None
        env.levels.levels[:] = 4
        env.physics.qpos[:, :3] = env.levels.origins(np.arange(4))  # the trunk in the ground
        env.physics.qpos[:, 0] += 1.0
        env.commands.velocity[:] = [0.2, 0.0, 0.0]
        _, _, dones, extras = env.step(zero_actions(env))
        assert dones.all() and not extras["time_outs"].any()
        assert env.levels.levels.tolist() == [3] * 4

    def test_explicit_resets_change_nothing(self) -> None:
        """Neither the first reset nor a later one is the end of an episode."""
        env = make_env("Velocity-Rough-Unitree-Go1", num_envs=200)
        assert env.levels is not None
        before = env.levels.levels.copy()
        assert set(before.tolist()) == set(range(6))  # a rule that ran at once would have made it 1 to 6
        env.physics.qpos[:, 0] += 5.0
        env.reset()
        assert np.array_equal(env.levels.levels, before)

    def test_without_curriculum(self) -> None:
        """The end of an episode draws any level, however far the robot came."""
        env = make_env("Velocity-Rough-Unitree-Go1", num_envs=200, curriculum=False)
        assert env.levels is not None
        assert set(env.levels.levels.tolist()) == set(range(10))
        before = env.levels.levels.copy()
        env.commands.velocity[:] = 0.0
        end_by_time(env, list(range(100)))
        env.step(random_actions(env, torch.Generator().manual_seed(0)))
        assert set(env.levels.levels[:100].tolist()) == set(range(10))
        assert (env.levels.levels[:100] != before[:100]).mean() == pytest.approx(0.9, abs=0.1)
        assert np.array_equal(env.levels.levels[100:], before[100:])
