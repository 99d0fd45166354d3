# SPDX-License-Identifier: BSD-3-Clause

"""Training in two processes over gloo: what is equal, what is not, resume, and processes that fail."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import time
import warnings

import pytest
import torch
from rsl_rl.runners import OnPolicyRunner

from rsl_rl_sac.config import RndCfg, RunnerCfg
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.runners import OffPolicyRunner, off_policy_runner
from rsl_rl_sac.runners.off_policy_runner import WITHOUT_REPLAY
from rsl_rl_sac.runners.ppo_runner import PPORunner
from rsl_rl_sac.utils import CheckpointError
from rsl_rl_sac.utils.checkpoint import find_checkpoints, find_replays
from rsl_rl_sac.utils.distributed import configure_processes, launched_rank
from rsl_rl_sac.utils.errors import LostProcessError
from rsl_rl_sac.utils.seeding import rank_seed
from tests.helpers import differences, flat_state, small_cfg, whole_state
from tests.processes import run_processes

SHARED = (
    "actor_state_dict",
    "average_state_dict",
    "critic_state_dict",
    "target_critic_state_dict",
    "log_alpha",
    "optimizer_state_dict",
)
"""What all processes must have in common."""


def make_cfg(seed: int = 0, overlap: bool = False) -> RunnerCfg:
    """Return a configuration with everything that processes must agree on."""
    cfg = small_cfg(save_replay=True, desired_kl=0.01, actor_learning_rate=1e-4, average_actor_steps=7)
    cfg.seed, cfg.overlap = seed, overlap
    return cfg


def make_runner(folder: pathlib.Path | None, cfg: RunnerCfg | None = None, seed: int = 0) -> OffPolicyRunner:
    """Build the runner of this process."""
    env = DoubleIntegrator(16, max_episode_length=15, failure_position=1.2, seed=rank_seed(seed, launched_rank()))
    return OffPolicyRunner(env, (cfg or make_cfg()).to_dict(), str(folder) if folder else None)


def train_both(folder: pathlib.Path, overlap: bool) -> dict:
    """Train a while; the folders differ, as names with a time in them may."""
    runner = make_runner(folder / ("run" if launched_rank() == 0 else "elsewhere"), make_cfg(overlap=overlap))
    runner.learn(5)
    return flat_state(runner.alg.save())


@pytest.mark.parametrize("overlap", [False, True])
def test_one_policy(tmp_path: pathlib.Path, overlap: bool) -> None:
    """Weights, optimizers, learning rate, temperature and statistics are equal bit for bit; experience is not."""
    first, second = run_processes(train_both, tmp_path, overlap)
    shared = [name for name in first if any(part in name for part in SHARED)]
    assert len(shared) > 50
    assert [name for name in differences(first, second) if name in shared] == []
    assert first["/actor_optimizer_state_dict/param_groups/0/lr"] > 1e-4  # the KL divergence has moved it
    collected = 5 if not overlap else 4  # the last iteration's steps are counted at the next update
    assert first["/actor_state_dict/obs_normalizer.count"] == collected * 8 * 16 * 2
    actions = [state["/replay_state_dict/actions"] for state in (first, second)]
    assert not bool((actions[0] == actions[1]).any())
    files = {re.sub(r"\.[0-9a-f]{8}", "", path.name) for path in (tmp_path / "run").glob("model_4*")}
    assert files == {"model_4.pt", "model_4.replay.pt", "model_4.rank1.replay.pt"}
    assert not (tmp_path / "elsewhere").exists()


def resume_both(folder: pathlib.Path) -> list[str]:
    """Train straight, and in two parts; return what differs."""
    straight = make_runner(folder / "straight")
    straight.learn(8, init_at_random_ep_len=True)
    first = make_runner(folder / "first")
    first.learn(4, init_at_random_ep_len=True)
    resumed = make_runner(folder / "second", make_cfg(seed=77), seed=9)  # all that matters must come from the files
    resumed.load(str(folder / "first" / "model_3.pt"))
    resumed.learn(4, init_at_random_ep_len=True)
    return differences(whole_state(straight), whole_state(resumed))


def test_resume_is_exact(tmp_path: pathlib.Path) -> None:
    """train(2N) equals train(N), resume, train(N), bit for bit, in each process."""
    assert run_processes(resume_both, tmp_path) == [[], []]


class Uneven(DoubleIntegrator):
    """Says how far it is: nothing in the first process, twice the task in the second."""

    def step(self, actions: torch.Tensor) -> tuple:
        """Step and tell."""
        obs, rewards, dones, extras = super().step(actions)
        return obs, rewards, dones, {**extras, "progress": 2.0 * launched_rank()}


def resume_while_waiting(folder: pathlib.Path) -> tuple[list[str], float]:
    """Train straight, and in two parts, until what is waited for has come; return what differs, and how far it is."""
    cfg = small_cfg(save_replay=True, anneal_progress=0.4, final_target_entropy_scale=0.1)
    cfg.algorithm.target_entropy_updates = (0, 40)

    def make(name: str, seed: int) -> OffPolicyRunner:
        return OffPolicyRunner(Uneven(16, seed=rank_seed(seed, launched_rank())), cfg.to_dict(), str(folder / name))

    straight = make("straight", 0)
    straight.learn(8, init_at_random_ep_len=True)
    make("first", 0).learn(4, init_at_random_ep_len=True)
    resumed = make("second", 9)
    resumed.load(str(folder / "first" / "model_3.pt"))
    resumed.learn(4, init_at_random_ep_len=True)
    share = straight.alg.annealing.share(straight.alg.num_updates)
    return differences(whole_state(straight), whole_state(resumed)), share


def test_resume_while_waiting_is_exact(tmp_path: pathlib.Path) -> None:
    """What each process has seen of its progress goes on: 0 and 2, which come to 0.4 in the mean after 51 steps.

    After 32 steps, where it is stopped, they are at 0 and 0.55; with both at 0 it would not begin within the 64 steps.
    """
    for differing, share in run_processes(resume_while_waiting, tmp_path):
        assert differing == [] and 0.0 < share < 1.0


def load_damaged(folder: pathlib.Path) -> list[str]:
    """Load checkpoints of which the replay of the second process is damaged or gone; return what was said."""
    runner = make_runner(folder)
    runner.learn(1)
    (shard,) = [path for path in find_replays(folder / "model_0.pt") if "rank1" in path.name]
    said = []
    if launched_rank() == 1:
        shard.write_bytes(shard.read_bytes()[:1000])
    torch.distributed.barrier()
    try:
        make_runner(None).load(str(folder / "model_0.pt"))
    except CheckpointError as error:
        said.append(str(error))
    torch.distributed.barrier()
    if launched_rank() == 1:
        shard.unlink()
    torch.distributed.barrier()
    fresh = make_runner(None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fresh.load(str(folder / "model_0.pt"))
        said += [str(warning.message) for warning in caught]
    fresh.learn(2)
    assert len(fresh.alg.storage) == 2 * 8 * 16  # it began empty in both
    return said


def test_damage_of_one_is_told_by_all(tmp_path: pathlib.Path) -> None:
    """No process goes on with a replay that another one lacks."""
    for said in run_processes(load_damaged, tmp_path):
        refused, warning = said
        assert "rank1.replay.pt' is damaged" in refused
        assert "loaded without its replay" in warning


def load_other_number(path: pathlib.Path) -> str:
    """Load a checkpoint of one process; return the error, then learn on without the replay."""
    runner = make_runner(None)
    with pytest.raises(CheckpointError) as refused:
        runner.load(str(path))
    runner.load(str(path), WITHOUT_REPLAY)
    assert runner.next_iteration == 2 and len(runner.alg.storage) == 0
    runner.learn(2)
    return str(refused.value)


def save_both(folder: pathlib.Path) -> None:
    """Train two iterations."""
    make_runner(folder).learn(2)


def test_another_number_of_processes(tmp_path: pathlib.Path) -> None:
    """From one to two and from two to one: an error that names the way out, which works."""
    make_runner(tmp_path / "one").learn(2)
    for message in run_processes(load_other_number, tmp_path / "one" / "model_1.pt"):
        assert "replays of 1 process(es), this run has 2. Start as many" in message and "--fresh-replay" in message
    run_processes(save_both, tmp_path / "two")
    assert "replays of 2 process(es), this run has 1." in load_other_number(tmp_path / "two" / "model_1.pt")


def kill_while_saving(folder: pathlib.Path) -> tuple[str, float]:
    """Let the second process be killed in its second save."""
    runner = make_runner(folder)
    runner.learn(1)
    if launched_rank() == 1:
        off_policy_runner.save_atomically = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(LostProcessError) as lost:
        runner.learn(5)
    return str(lost.value), time.monotonic() - start


def load_both(path: pathlib.Path) -> int:
    """Load a checkpoint and return the size of the replay."""
    runner = make_runner(None)
    runner.load(str(path))
    return len(runner.alg.storage)


def test_killed_process(tmp_path: pathlib.Path) -> None:
    """The other one ends at once and says so, and what is on the disk is the checkpoint before, whole."""
    (message, seconds), code = run_processes(kill_while_saving, tmp_path)
    assert code == -signal.SIGKILL and seconds < 60.0  # not the ten minutes that a process waits for one that hangs
    assert message.startswith("Another process of this training ended or does not answer (")
    assert [path.name for path in find_checkpoints(tmp_path)] == ["model_0.pt"]
    assert run_processes(load_both, tmp_path / "model_0.pt") == [8 * 16] * 2


def die_while_learning(folder: pathlib.Path) -> str:
    """Let the second process be killed in the middle of an update."""
    runner = make_runner(folder)
    runner.learn(1)
    if launched_rank() == 1:
        runner.alg._update_actor = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    with pytest.raises(LostProcessError) as lost:
        runner.learn(2)
    return str(lost.value)


def test_killed_while_learning(tmp_path: pathlib.Path) -> None:
    """The error of the other one names the last good checkpoint."""
    message, code = run_processes(die_while_learning, tmp_path)
    assert code == -signal.SIGKILL and message.endswith(f"Last good checkpoint: {tmp_path / 'model_0.pt'}.")


def die_while_rsl_rl_waits(folder: pathlib.Path) -> str:
    """Let the second process be killed while the first waits for it within rsl_rl: in PPO, or in RND."""
    env = DoubleIntegrator(16, max_episode_length=15, seed=launched_rank())
    if folder.name == "ppo":
        cfg = PPORunnerCfg(num_steps_per_env=4)
        cfg.actor.hidden_dims = cfg.critic.hidden_dims = [8]
        runner = PPORunner(env, cfg.to_dict(), str(folder))
        die_in, name = runner.alg, "compute_returns"
    else:
        runner = OffPolicyRunner(env, small_cfg(rnd_cfg=RndCfg(num_outputs=2)).to_dict(), str(folder))
        die_in, name = runner.alg.rnd, "get_intrinsic_reward"
    runner.learn(1)
    if launched_rank() == 1:
        setattr(die_in, name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(LostProcessError) as lost:
        runner.learn(2)
    return str(lost.value)


@pytest.mark.parametrize("algorithm", ["ppo", "rnd"])
def test_killed_while_rsl_rl_waits(tmp_path: pathlib.Path, algorithm: str) -> None:
    """What rsl_rl's own communication says becomes the same one line."""
    message, code = run_processes(die_while_rsl_rl_waits, tmp_path / algorithm)
    assert code == -signal.SIGKILL and message.startswith("Another process of this training ended or does not answer (")


class StockRunner(OnPolicyRunner):
    """rsl_rl's runner but for the device, which must be a GPU there."""

    def _configure_multi_gpu(self) -> None:
        configure_processes(self)


def train_stock(folder: pathlib.Path) -> tuple[dict, torch.Tensor]:
    """Train with rsl_rl's loop, and load its checkpoint, which is of the first process, in both."""
    cfg = make_cfg()
    runner = StockRunner(DoubleIntegrator(16, seed=launched_rank()), cfg.to_dict(), str(folder))
    runner.learn(3)
    state = flat_state(runner.alg.save())
    torch.distributed.barrier()
    fresh = StockRunner(DoubleIntegrator(16, seed=launched_rank()), cfg.to_dict())
    fresh.load(str(folder / "model_2.pt"))
    fresh.learn(2)
    return state, fresh.alg.storage.actions[fresh.alg.storage.total_steps - 1]


def test_stock_runner(tmp_path: pathlib.Path) -> None:
    """rsl_rl's runner trains one policy, and after loading the processes still explore differently."""
    (first, actions), (second, other_actions) = run_processes(train_stock, tmp_path)
    shared = [name for name in first if any(part in name for part in SHARED)]
    assert [name for name in differences(first, second) if name in shared] == []
    assert not bool((actions == other_actions).any())
