# SPDX-License-Identifier: BSD-3-Clause

"""SAC in rsl_rl's own, unmodified runner, named only by ``algorithm.class_name``."""

from __future__ import annotations

import pathlib

import numpy as np
import onnxruntime
import pytest
import torch
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from rsl_rl_sac.envs import DoubleIntegrator
from tests.helpers import small_cfg


@pytest.fixture
def runner(tmp_path: pathlib.Path) -> OnPolicyRunner:
    """Train three iterations with the stock runner."""
    assert OnPolicyRunner.__module__.startswith("rsl_rl.")
    cfg = small_cfg().to_dict()
    assert cfg["algorithm"]["class_name"] == "rsl_rl_sac:SAC"
    runner = OnPolicyRunner(DoubleIntegrator(num_envs=16), cfg, log_dir=str(tmp_path))
    runner.learn(3, init_at_random_ep_len=True)
    return runner


def inputs(runner: OnPolicyRunner) -> tuple[torch.Tensor, torch.Tensor]:
    """Return observations, many of them extreme, and the live policy's actions."""
    policy = runner.get_inference_policy()
    obs = DoubleIntegrator(num_envs=256, seed=4).get_observations()
    obs["policy"][128:] *= 1000.0
    with torch.no_grad():
        return obs["policy"], policy(obs)


def test_trains_and_saves(runner: OnPolicyRunner, tmp_path: pathlib.Path) -> None:
    """Gradient steps were made and checkpoints written."""
    assert runner.alg.num_updates == 8
    assert (tmp_path / "model_0.pt").is_file() and (tmp_path / "model_2.pt").is_file()


@pytest.mark.parametrize("load_cfg", [None, {"actor": True}])
def test_loads(runner: OnPolicyRunner, tmp_path: pathlib.Path, load_cfg: dict | None) -> None:
    """A fresh runner acts as the trained one, also if only the actor is asked for, and can train on."""
    fresh = OnPolicyRunner(DoubleIntegrator(num_envs=16, seed=1), small_cfg().to_dict())
    fresh.load(str(tmp_path / "model_2.pt"), load_cfg=load_cfg)
    obs, expected = inputs(runner)
    obs = TensorDict({"policy": obs}, batch_size=[obs.shape[0]])
    assert torch.equal(fresh.get_inference_policy()(obs), expected)
    fresh.learn(3)
    assert fresh.alg.num_updates > 0


def test_exports_jit(runner: OnPolicyRunner, tmp_path: pathlib.Path) -> None:
    """TorchScript gives the same actions."""
    runner.export_policy_to_jit(str(tmp_path), "policy.pt")
    obs, expected = inputs(runner)
    torch.testing.assert_close(torch.jit.load(tmp_path / "policy.pt")(obs), expected, atol=1e-6, rtol=0.0)


def test_exports_onnx(runner: OnPolicyRunner, tmp_path: pathlib.Path) -> None:
    """ONNX gives the same actions to 1e-5, inside the bounds."""
    runner.export_policy_to_onnx(str(tmp_path), "policy.onnx")
    obs, expected = inputs(runner)
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"))
    rows = [session.run(["actions"], {"obs": row[None].numpy()})[0] for row in obs]
    actions = np.concatenate(rows)  # type: ignore[arg-type]
    assert np.abs(actions - expected.numpy()).max() < 1e-5
    assert actions.min() >= -2.0 and actions.max() <= 3.0
    assert actions.max() - actions.min() > 0.1  # the inputs do reach different actions
