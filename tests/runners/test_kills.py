# SPDX-License-Identifier: BSD-3-Clause

"""A training that is killed and resumed ends with the weights of one that was not (short; see the benchmark)."""

from __future__ import annotations

import pathlib

import torch

from benchmarks.kill_test import Options, compare, run
from rsl_rl_sac.utils.checkpoint import find_checkpoints, load_safely, save_atomically


def test_killed_four_times(tmp_path: pathlib.Path) -> None:
    """Two kills at random moments and two within saves change no bit; the comparison would notice one."""
    outcome = run(tmp_path, Options(kills=4, iterations=16))
    assert outcome.kills == 4 and outcome.kills_in_saves >= 1
    assert outcome.differences == [] and outcome.compared > 100
    (last,) = find_checkpoints(tmp_path / "killed")[-1:]
    assert last.name == "model_15.pt"
    assert not list((tmp_path / "killed").glob(".model_*"))
    state = load_safely(last)
    weight = state["actor_state_dict"]["mlp.0.weight"]
    weight[0, 0] = torch.nextafter(weight[0, 0], torch.tensor(2.0))
    save_atomically(state, last)
    different, _ = compare(tmp_path / "straight", tmp_path / "killed")
    assert different == ["/checkpoint/actor_state_dict/mlp.0.weight"]
