# SPDX-License-Identifier: BSD-3-Clause

"""rsl_rl's own runner on Isaac Lab's wrapper, as Isaac Lab's script puts them together."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rsl_rl.runners import OnPolicyRunner

from rsl_rl_sac.algorithms.isaaclab_sac import IsaacLabSAC
from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.envs.isaaclab import IsaacLabVecEnv
from rsl_rl_sac.runners import OffPolicyRunner
from tests.envs.isaaclab import stand_ins, wheel
from tests.envs.isaaclab.stand_ins import EPISODE_STEPS, NUM_ENVS

STEPS = 4


def small_cfg() -> RunnerCfg:
    """Return settings that train in a moment."""
    cfg = RunnerCfg(num_steps_per_env=STEPS, save_interval=2)
    cfg.actor.hidden_dims = cfg.critic.hidden_dims = [16, 16]
    cfg.algorithm.class_name = "rsl_rl_sac.algorithms.isaaclab_sac:IsaacLabSAC"
    cfg.algorithm.num_mini_batches, cfg.algorithm.batch_size, cfg.algorithm.replay_size = 2, 8, 200
    cfg.algorithm.n_step = 1
    return cfg


def make_wrapper(kind: str) -> stand_ins.Wrapper:
    """Build an environment of each kind in Isaac Lab's wrapper or its stand-in."""
    if kind == "direct":
        env = stand_ins.DirectEnv()
        env.action_bounds = (torch.tensor([-4.0, -2.0]), torch.tensor([2.0, 2.0]))
        return stand_ins.Wrapper(env)
    if kind == "stand-in":
        return stand_ins.Wrapper(stand_ins.ManagerBasedEnv())
    return wheel.make_wrapper()  # type: ignore[return-value]


@pytest.mark.parametrize("kind", ["stand-in", "direct", "wheel"])
def test_replay_of_the_stock_runner(kind: str, tmp_path: Path) -> None:
    """Where an episode ends by time, the replay bootstraps from the pose that the action led to, not from the start.

    In this world the next pose is half of the way to the target, and the observations are the poses.
    """
    runner = OnPolicyRunner(make_wrapper(kind), small_cfg().to_dict(), log_dir=str(tmp_path), device="cpu")
    assert isinstance(runner.alg, IsaacLabSAC)
    # Bounds (-4, 2) and (-2, 2): the centres and halves of the tanh's range.
    distribution = runner.alg.actor.distribution
    torch.testing.assert_close(distribution.bias, torch.tensor([-1.0, 0.0]))
    torch.testing.assert_close(distribution.scale, torch.tensor([3.0, 2.0]))
    runner.learn(3)
    storage = runner.alg.storage
    assert storage.total_steps == 3 * STEPS and len(storage.timeout_table) == NUM_ENVS * (3 * STEPS // EPISODE_STEPS)
    batch = storage.sample(500)
    poses, actions = batch.observations["policy"], batch.actions
    driven = torch.stack([0.1 + 0.5 * actions[:, 1], -0.2 + 0.25 * actions[:, 0], torch.full((500,), 0.3)], dim=1)
    expected = 0.5 * (poses + driven)
    alive = batch.discounts > 0.0
    torch.testing.assert_close(batch.next_observations["policy"][alive], expected[alive])
    assert sorted(path.name for path in tmp_path.glob("*.pt")) == ["model_0.pt", "model_2.pt"]


def test_resume_with_the_stock_runner(tmp_path: Path) -> None:
    """What it saved, it loads, fills its empty replay, and trains on."""
    cfg = small_cfg().to_dict()
    OnPolicyRunner(make_wrapper("stand-in"), cfg, log_dir=str(tmp_path), device="cpu").learn(3)
    runner = OnPolicyRunner(make_wrapper("stand-in"), small_cfg().to_dict(), log_dir=None, device="cpu")
    runner.load(str(tmp_path / "model_2.pt"))
    assert runner.alg.num_updates == 4  # the first iteration only collects
    runner.learn(1)
    assert runner.alg.num_updates == 4  # and so does the first one without the replay
    runner.learn(1)
    assert runner.alg.num_updates == 6


def test_own_runner() -> None:
    """A script of one's own gives the adapter to our runner; the final observations arrive once."""
    runner = OffPolicyRunner(IsaacLabVecEnv(make_wrapper("stand-in")), small_cfg().to_dict())
    runner.learn(2)
    assert runner.alg.adapter is None and len(runner.alg.storage.timeout_table) == NUM_ENVS
