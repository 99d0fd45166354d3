# SPDX-License-Identifier: BSD-3-Clause

"""A run that trains on: its newest checkpoint is picked up, a broken one is not."""

from __future__ import annotations

import pathlib

import torch

from rsl_rl_sac.locomotion.runs import PolicyFile
from rsl_rl_sac.locomotion.viewer import CheckpointWatch
from tests.locomotion.run_helpers import GO2_OBS, GO2_TASK, small_policy_cfg, write_checkpoint


def test_newest_checkpoint(tmp_path: pathlib.Path) -> None:
    """Nothing before it is time, then the newest by iteration; a damaged file keeps the policy in use."""
    first = tmp_path / "model_9.pt"
    write_checkpoint(first, 0.1)
    now = 0.0
    watch = CheckpointWatch(PolicyFile(first, "sac", GO2_TASK, small_policy_cfg()), clock=lambda: now)
    now = 10.0
    assert watch.poll() is None  # nothing new
    expected = write_checkpoint(tmp_path / "model_10.pt", 0.2)
    now = 11.0
    assert watch.poll() is None  # too early
    now = 12.5
    policy = watch.poll()
    assert policy is not None and watch.file.path.name == "model_10.pt"
    with torch.inference_mode():
        torch.testing.assert_close(policy(GO2_OBS), expected)
    (tmp_path / "model_11.pt").write_bytes(b"half of a checkpoint")
    now = 20.0
    assert watch.poll() is None
    assert "model_11.pt" in watch.problem and watch.file.path.name == "model_10.pt"
    write_checkpoint(tmp_path / "model_11.pt", 0.3)
    now = 30.0
    assert watch.poll() is not None and watch.problem == ""
