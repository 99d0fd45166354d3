# SPDX-License-Identifier: BSD-3-Clause

"""Fixtures of the whole suite."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

# Before torch is imported, and for all programs that tests start: the networks of tests are so small that a second
# thread only waits for the first. The tests of where the critic converges to take 43 s of a core with one thread, 220 s
# of two with two beside another program.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

# A shell lets what it starts in the background ignore Ctrl-C, and so would the programs that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    """Give every test the same random numbers, whatever ran before."""
    torch.manual_seed(0)


@pytest.fixture
def double_precision() -> Iterator[None]:
    """Run a test in float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="session")
def tiny_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Train SAC and PPO for a moment on Go1; return the folders of the runs, in a folder of all runs. Do not change."""
    from rsl_rl_sac.config import RunnerCfg
    from rsl_rl_sac.ppo_config import PPORunnerCfg
    from rsl_rl_sac.runners.training import Training
    from rsl_rl_sac.utils.config_file import dump_config

    sac = RunnerCfg(num_envs=4, num_steps_per_env=3, max_iterations=3, save_interval=2)
    sac.algorithm.num_mini_batches, sac.algorithm.batch_size, sac.algorithm.replay_size = 2, 8, 100
    ppo = PPORunnerCfg(num_envs=4, num_steps_per_env=3, max_iterations=3, save_interval=1, keep_checkpoints=2)
    ppo.algorithm.num_mini_batches = 1
    task, folders = "Velocity-Flat-Unitree-Go1", {}
    logs = tmp_path_factory.mktemp("runs") / "logs"
    for name, cfg in (("sac", sac), ("ppo", ppo)):
        cfg.actor.hidden_dims, cfg.critic.hidden_dims = [8, 6], [8]
        cfg.actor.obs_normalization = True
        folders[name] = logs / task / f"2026-01-31_12-00-00_{name}"
        training = Training(task, cfg, folders[name], evaluation_minutes=1e-5, evaluation_envs=2, num_cores=1)
        (folders[name] / "config.yaml").write_text(dump_config(task, cfg))
        training.evaluation_env.max_episode_length = 20  # type: ignore[union-attr]
        training.run()
        training.close()
    return folders


@pytest.fixture(scope="session")
def exported_policy(tiny_runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export the policy of the SAC run; return the folder. Do not change."""
    from rsl_rl_sac.locomotion.export import export_policy
    from rsl_rl_sac.locomotion.runs import resolve_run

    folder = tmp_path_factory.mktemp("export")
    export_policy(resolve_run(tiny_runs["sac"]), folder)
    return folder
