# SPDX-License-Identifier: BSD-3-Clause

"""Runs that were never trained: a configuration and checkpoints that hold nothing but a policy."""

from __future__ import annotations

import pathlib

import torch
from tensordict import TensorDict

from rsl_rl_sac.algorithms.construction import build_actor
from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.utils.checkpoint import save_atomically
from rsl_rl_sac.utils.config_file import dump_config

GO2_TASK = "Velocity-Flat-Unitree-Go2"
GO2_OBS = TensorDict({"policy": torch.ones(1, 48)}, batch_size=[1])
"""Observations of the task: 48 numbers."""


def small_policy_cfg() -> RunnerCfg:
    """Return a configuration with a tiny policy."""
    cfg = RunnerCfg()
    cfg.actor.hidden_dims = [4]
    return cfg


def write_checkpoint(path: pathlib.Path, bias: float = 0.0, obs: TensorDict = GO2_OBS) -> torch.Tensor:
    """Write a checkpoint whose parameters all have one value; return what its policy does with some observations."""
    cfg = small_policy_cfg()
    actor = build_actor(cfg.to_dict()["actor"], obs, cfg.obs_groups, 12, -torch.ones(12), torch.ones(12))
    for parameter in actor.parameters():
        torch.nn.init.constant_(parameter, bias)
    save_atomically({"actor_state_dict": actor.state_dict()}, path)
    return actor(obs).detach()


def write_run(folder: pathlib.Path, task: str = GO2_TASK, num_obs: int = 48) -> None:
    """Write the folder of a run with one checkpoint, ``model_1.pt``."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(dump_config(task, small_policy_cfg()))
    write_checkpoint(folder / "model_1.pt", obs=TensorDict({"policy": torch.ones(1, num_obs)}, batch_size=[1]))
