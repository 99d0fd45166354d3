# SPDX-License-Identifier: BSD-3-Clause

"""Curiosity finds what chance does not: the goal of a maze without any other reward."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from benchmarks.rnd import maze_cfg
from rsl_rl_sac.config import RndCfg
from rsl_rl_sac.envs import PointMaze
from rsl_rl_sac.runners import OffPolicyRunner

NUM_ENVS = 32
SEEDS = range(5)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Let torch compute in one thread: the networks are too small to share."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def finds_the_goal(rnd_cfg: RndCfg | None, seed: int, num_iterations: int = 40) -> bool:
    """Train until the maze gives a reward and return whether it did."""
    cfg = maze_cfg(rnd_cfg, seed, NUM_ENVS)
    runner = OffPolicyRunner(PointMaze(NUM_ENVS, seed=seed), cfg.to_dict())
    for _ in range(num_iterations):
        runner.learn(1)
        if bool((runner.alg.storage.rewards > 0.0).any()):  # the replay holds the rewards of the maze only
            return True
    return False


def test_with_rnd() -> None:
    """With RND at least four of five seeds find the goal."""
    rnd_cfg = RndCfg(weight=10.0, learning_rate=1e-4)
    assert sum(finds_the_goal(rnd_cfg, seed) for seed in SEEDS) >= 4


def test_without_rnd() -> None:
    """Without RND, and all else the same, at most one of five seeds does."""
    assert sum(finds_the_goal(None, seed) for seed in SEEDS) <= 1
