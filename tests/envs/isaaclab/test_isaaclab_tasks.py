# SPDX-License-Identifier: BSD-3-Clause

"""Isaac Lab's registry and its way through Hydra, from its wheel, up to a runner that trains."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch
from rsl_rl.runners import OnPolicyRunner

from tests.envs.isaaclab import wheel

ROBOTS = ("Anymal-B", "Anymal-C", "Anymal-D", "Unitree-A1", "Unitree-Go1", "Unitree-Go2", "Cassie", "Digit", "G1", "H1")
GO2 = "Isaac-Velocity-Flat-Unitree-Go2-v0"


@pytest.fixture(scope="module", autouse=True)
def _register() -> None:
    """Call what ``--external_callback rsl_rl_sac.tasks.isaaclab.register`` names, found by its name."""
    wheel.require_wheel()
    string_to_callable = importlib.import_module("isaaclab.utils.string").string_to_callable
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(sys, "argv", ["train.py", "--task", GO2, "agent.seed=3"])
        callback = string_to_callable("rsl_rl_sac.tasks.isaaclab:register")
        assert callback() == ["--task", GO2, "agent.seed=3"]  # nothing is used up


def load(task: str, entry_point: str = "rsl_rl_sac_cfg_entry_point") -> object:
    """Load a configuration as Isaac Lab's scripts do."""
    return importlib.import_module("isaaclab_tasks.utils").load_cfg_from_registry(task, entry_point)


@pytest.mark.parametrize("ground", ["Flat", "Rough"])
@pytest.mark.parametrize("robot", ROBOTS)
def test_every_velocity_task(robot: str, ground: str) -> None:
    """Table C1, with the humanoids' own target entropy; PPO is still there; a player holds next to no replay."""
    task = f"Isaac-Velocity-{ground}-{robot}-v0"
    cfg = load(task)
    assert cfg.class_name == "OnPolicyRunner"
    assert cfg.experiment_name == f"velocity_{ground.lower()}_{robot.lower().replace('-', '_')}_sac"
    assert cfg.algorithm.target_entropy_scale == (0.5 if robot in ("G1", "H1") else 0.167)
    assert cfg.algorithm.replay_size == 5_000_000
    assert load(f"Isaac-Velocity-{ground}-{robot}-Play-v0").algorithm.replay_size == 10_000
    assert load(task, "rsl_rl_cfg_entry_point").algorithm.class_name == "PPO"


def test_through_hydra_to_a_runner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Overrides of the command line reach the algorithm, and what Isaac Lab makes of the configuration trains."""
    hydra = importlib.import_module("isaaclab_tasks.utils.hydra")
    overrides = {
        "seed": "3",
        "num_steps_per_env": "4",
        "actor.hidden_dims": "[16,16]",
        "critic.hidden_dims": "[16,16]",
        "algorithm.num_mini_batches": "2",
        "algorithm.batch_size": "8",
        "algorithm.replay_size": "200",
        "algorithm.action_bounds": "[-1.0,1.5]",
        "algorithm.exploration_scale": "[1.0,2.0]",
    }
    words = [f"agent.{name}={value}" for name, value in overrides.items()]
    monkeypatch.setattr(sys, "argv", ["train.py", *words, f"hydra.run.dir={tmp_path}"])
    seen = []

    @hydra.hydra_task_config(GO2, "rsl_rl_sac_cfg_entry_point")
    def run(env_cfg: object, agent_cfg: object) -> None:
        seen.append(agent_cfg)

    run()
    cfg = seen[0].to_dict()
    runner = OnPolicyRunner(wheel.make_wrapper(), cfg, log_dir=None, device="cpu")
    runner.learn(2)
    assert runner.alg.cfg.exploration_scale == (1.0, 2.0) and runner.alg.num_updates == 2
    torch.testing.assert_close(runner.alg.actor.distribution.scale, torch.tensor([1.25, 1.25]))
    assert cfg["seed"] == 3


def test_translation_of_older_configurations() -> None:
    """Versions of Isaac Lab for rsl_rl 4 and 5 read these fields of both models, then delete what is out of date."""
    cfg = load(GO2)
    assert cfg.actor.distribution_cfg is not None
    assert cfg.critic.distribution_cfg is None and cfg.critic.stochastic is False
    del cfg.critic.stochastic
    assert "stochastic" not in cfg.to_dict()["critic"]
