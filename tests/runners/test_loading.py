# SPDX-License-Identifier: BSD-3-Clause

"""What is loaded, what is refused, and what loading leaves behind."""

from __future__ import annotations

import pathlib

import pytest
import torch

from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.runners import OffPolicyRunner
from rsl_rl_sac.runners.off_policy_runner import WITHOUT_REPLAY
from rsl_rl_sac.utils import CheckpointError, ConfigError
from rsl_rl_sac.utils.checkpoint import find_replays, save_atomically
from tests.helpers import differences, small_cfg, whole_state
from tests.runners.test_off_policy_runner import make_cfg, make_runner


def test_refused_replay_changes_nothing(tmp_path: pathlib.Path) -> None:
    """A replay of another size is refused before the networks are touched."""
    make_runner(tmp_path).learn(3)
    other = make_runner(None, make_cfg(replay_size=16 * 20))
    before = whole_state(other)
    with pytest.raises(CheckpointError, match="saved replay holds 40 steps"):
        other.load(str(tmp_path / "model_2.pt"))
    assert differences(before, whole_state(other)) == []


def test_in_the_same_process_after_many_time_outs(tmp_path: pathlib.Path) -> None:
    """The tables that grew while collecting, in inference mode, can be loaded into and written to."""
    cfg = make_cfg(replay_size=16 * 400)
    runner = make_runner(tmp_path, cfg)
    runner.learn(50)
    assert len(runner.alg.storage.timeout_table) > 256
    runner.load(str(tmp_path / "model_49.pt"))
    runner.learn(2)
    runner.alg.eval_mode()
    with torch.no_grad():
        runner.env.step(torch.zeros(16, 1))


def test_rollback_cuts_the_replay(tmp_path: pathlib.Path) -> None:
    """Going back in time without a replay does not join the newest row to an older state."""
    cfg = small_cfg()
    runner = make_runner(tmp_path, cfg)
    runner.learn(5)
    runner.load(str(tmp_path / "model_2.pt"))
    assert runner.alg.storage.last_cut_step == runner.alg.storage.total_steps - 1


def test_environment_moved_in_between() -> None:
    """Stepping the environment between two calls does not splice trajectories; merely learning on does not cut."""
    runner = make_runner(None)
    runner.learn(2)
    runner.learn(1)
    assert runner.alg.storage.last_cut_step == -1
    runner.env.step(torch.zeros(16, 1))
    runner.learn(1)
    assert runner.alg.storage.last_cut_step == 3 * 8 - 1


def test_part_of_a_ring_makes_a_small_file(tmp_path: pathlib.Path) -> None:
    """A nearly empty replay is not written with all its memory."""
    cfg = make_cfg(replay_size=16 * 100_000)  # 27 MB
    runner = make_runner(tmp_path, cfg)
    runner.learn(1)
    (replay,) = find_replays(tmp_path / "model_0.pt")
    assert replay.stat().st_size < 200_000


def test_refused_environment_changes_nothing(tmp_path: pathlib.Path) -> None:
    """The state of more environments is refused before networks, statistics or generators are touched."""
    cfg = small_cfg()
    make_runner(tmp_path, cfg).learn(3)
    other = OffPolicyRunner(DoubleIntegrator(num_envs=6), cfg.to_dict())
    before = whole_state(other)
    with pytest.raises(CheckpointError, match="does not fit this one: the state is of 16 environments, these are 6"):
        other.load(str(tmp_path / "model_2.pt"))
    assert differences(before, whole_state(other)) == []


def test_refused_networks_leave_the_environment(tmp_path: pathlib.Path) -> None:
    """If the networks do not fit, the environment is where it was."""
    make_runner(tmp_path).learn(3)
    cfg = make_cfg()
    cfg.critic.hidden_dims = [7]
    other = make_runner(None, cfg, env_seed=5)
    before = whole_state(other)
    with pytest.raises(CheckpointError, match="the shape of"):
        other.load(str(tmp_path / "model_2.pt"))
    assert differences(before, whole_state(other)) == []


@pytest.mark.parametrize(
    ("part", "key"), [("counters", "num_updates"), ("counters", "iteration"), ("explorer", "noise")]
)
def test_lost_values_within_a_part(tmp_path: pathlib.Path, part: str, key: str) -> None:
    """What is missing inside of a part is named, and nothing was changed."""
    make_runner(tmp_path).learn(3)
    path = tmp_path / "model_2.pt"
    state = torch.load(path, weights_only=True)
    del state[part][key]
    save_atomically(state, path)
    other = make_runner(None, env_seed=5)
    before = whole_state(other)
    with pytest.raises(CheckpointError, match=f"'{part}'.*{key}"):
        other.load(str(path))
    assert differences(before, whole_state(other)) == []


def test_actor_alone(tmp_path: pathlib.Path) -> None:
    """A file with nothing but a policy, such as that of the best one, is enough if no more is asked for."""
    runner = make_runner(None)
    runner.learn(2)
    path = str(tmp_path / "model_best.pt")
    save_atomically({"actor_state_dict": runner.alg.actor.state_dict(), "iter": 1, "infos": None}, path)
    other = make_runner(None, make_cfg(seed=3))
    other.load(path, {"actor": True})
    own, loaded = runner.alg.actor.state_dict(), other.alg.actor.state_dict()
    assert all(torch.equal(own[name], loaded[name]) for name in own) and other.next_iteration == 0
    with pytest.raises(CheckpointError, match="no target critics"):
        other.load(path, WITHOUT_REPLAY)


def test_other_values_of_the_atoms(tmp_path: pathlib.Path) -> None:
    """The logits of a categorical critic are not read as those of other values."""
    cfg = make_cfg(critic={"num_atoms": 11, "value_range": (-5.0, 5.0)})
    make_runner(tmp_path, cfg).learn(2)
    cfg.critic.value_range = (-5.0, 20.0)
    with pytest.raises(CheckpointError, match=r"value_range = \(-5\.0, 5\.0\), this run has \(-5\.0, 20\.0\)"):
        make_runner(None, cfg).load(str(tmp_path / "model_1.pt"))


def test_empty_replay_is_filled_first(tmp_path: pathlib.Path) -> None:
    """Without the replay of a run, gradient steps begin after as many iterations as at its start, also if it stops."""
    cfg = make_cfg(training_start_iteration=3)
    runner = make_runner(tmp_path, cfg)
    runner.learn(5)
    updates = runner.alg.num_updates  # of iterations 3 and 4
    per_iteration = cfg.algorithm.num_mini_batches * cfg.algorithm.num_learning_epochs
    assert updates == 2 * per_iteration
    resumed = make_runner(tmp_path / "resumed", cfg)
    resumed.load(str(tmp_path / "model_4.pt"), WITHOUT_REPLAY)
    resumed.learn(2)
    assert resumed.alg.num_updates == updates
    again = make_runner(None, cfg)
    again.load(str(tmp_path / "resumed" / "model_6.pt"))
    again.learn(2)
    assert again.alg.num_updates == updates + per_iteration


def test_other_algorithms_are_refused() -> None:
    """A configuration of PPO is told where it belongs."""
    cfg = small_cfg().to_dict()
    cfg["algorithm"]["class_name"] = "PPO"
    with pytest.raises(ConfigError, match="SAC or a subclass, got 'PPO'; rsl_rl's own runner, OnPolicyRunner"):
        OffPolicyRunner(DoubleIntegrator(num_envs=4), cfg)
