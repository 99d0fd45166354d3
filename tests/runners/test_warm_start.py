# SPDX-License-Identifier: BSD-3-Clause

"""Starting with the networks of another run: what is taken over, what is new, and what is refused."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.cli import main
from rsl_rl_sac.config import RunnerCfg, SACCfg
from rsl_rl_sac.models import Actor
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.runners.training import Training
from rsl_rl_sac.runners.warm_start import (
    REACHED,
    REMEMBERED_SAMPLES,
    _widened_model,
    go_on_from,
    reached_settings,
)
from rsl_rl_sac.utils import CheckpointError
from rsl_rl_sac.utils.checkpoint import find_checkpoints, load_safely, save_atomically
from rsl_rl_sac.utils.config_file import load_run_config

FLAT, ROUGH = "Velocity-Flat-Unitree-Go1", "Velocity-Rough-Unitree-Go1"
NUM_SHARED = 48
"""Observations on flat ground; on rough terrain 187 heights follow."""
SMALL = ["--num-envs", "4", "--evaluation-envs", "1", "--no-video", "--max-iterations", "1", "--cores", "1"]


def make_cfg(agent: str) -> RunnerCfg | PPORunnerCfg:
    """Return a configuration that runs in a moment."""
    cfg = RunnerCfg(seed=1) if agent == "sac" else PPORunnerCfg(seed=1)
    cfg.num_envs, cfg.num_steps_per_env, cfg.max_iterations = 8, 8, 2
    cfg.actor.hidden_dims, cfg.critic.hidden_dims = [16, 8], [16, 8]
    cfg.actor.obs_normalization = cfg.critic.obs_normalization = True
    if isinstance(cfg, RunnerCfg):
        cfg.algorithm.num_mini_batches, cfg.algorithm.batch_size, cfg.algorithm.replay_size = 4, 32, 1000
    return cfg


def make_training(task: str, folder: pathlib.Path, agent: str, start: pathlib.Path | None = None) -> Training:
    """Build a training."""
    return Training(task, make_cfg(agent), folder, evaluation_envs=1, num_cores=1, start_from=start)


def counters(num_updates: int) -> dict[str, int]:
    """Return the counters of a checkpoint after some gradient steps."""
    return {"iteration": 3, "num_updates": num_updates, "learns_after": 1}


@dataclass
class Pair:
    """A training on flat ground, its checkpoint, and one on rough terrain that starts from it."""

    flat: Training
    path: pathlib.Path
    rough: Training


@pytest.fixture(scope="module", params=["sac", "ppo"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Train on flat ground for a moment, then start on rough terrain."""
    folder = tmp_path_factory.mktemp(request.param)
    flat = make_training(FLAT, folder / "flat", request.param)
    flat.run()
    path = find_checkpoints(folder / "flat")[-1]
    return Pair(flat, path, make_training(ROUGH, folder / "rough", request.param, path))


def observations(num: int, heights: float) -> tuple[TensorDict, TensorDict]:
    """Return random states as both trainings see them, the second with heights of some size."""
    shared = torch.randn(num, NUM_SHARED)
    both = torch.cat([shared, heights * torch.randn(num, 187)], dim=-1)
    return TensorDict({"policy": shared}, [num]), TensorDict({"policy": both}, [num])


@pytest.mark.parametrize("heights", [0.0, 0.3])
def test_policy_acts_as_it_did(pair: Pair, heights: float) -> None:
    """Whatever the heights are, the policy does what it does on flat ground, and SAC's noise is as large."""
    flat_obs, rough_obs = observations(50, heights)
    flat, rough = pair.flat.runner.alg.get_policy(), pair.rough.runner.alg.get_policy()
    torch.testing.assert_close(rough(rough_obs), flat(flat_obs))
    if isinstance(flat, Actor) and isinstance(rough, Actor):
        theirs, ours = (
            actor.distribution_parameters(actor.get_latent(obs))
            for actor, obs in ((flat, flat_obs), (rough, rough_obs))
        )
        torch.testing.assert_close(ours, theirs)


def test_values_are_what_they_were(pair: Pair) -> None:
    """Critics, and SAC's targets, value states and actions as on flat ground, whatever the heights are."""
    flat_obs, rough_obs = observations(50, 0.3)
    flat, rough = pair.flat.runner.alg, pair.rough.runner.alg
    if isinstance(pair.flat.cfg, PPORunnerCfg):
        torch.testing.assert_close(rough.critic(rough_obs), flat.critic(flat_obs))
        return
    actions = torch.randn(50, 12)
    for network in ("critic", "target_critic"):
        theirs, ours = (
            getattr(alg, network)(alg.critic.get_latent(obs), actions)
            if network == "target_critic"
            else alg.critic.mlp(alg.critic.get_latent(obs), actions)
            for alg, obs in ((flat, flat_obs), (rough, rough_obs))
        )
        torch.testing.assert_close(ours, theirs)
    assert not torch.equal(
        *(torch.cat([p.flatten() for p in net.parameters()]) for net in (rough.critic.mlp, rough.target_critic))
    )
    torch.testing.assert_close(rough.alpha, flat.alpha)


def test_the_rest_is_new(pair: Pair) -> None:
    """Clock, counters and optimizers begin at nothing, and statistics of the heights are those of the first states."""
    progress, alg = pair.rough.progress, pair.rough.runner.alg
    assert progress.iteration == progress.env_steps == 0 and progress.seconds == 0.0
    if isinstance(alg, SAC):
        assert alg.num_updates == alg.iteration == 0 and len(alg.storage) == 0
        assert all(float(state["step"]) == 0.0 for state in alg.actor_optimizer.state.values())
    normalizer = alg.get_policy().state_dict()
    heights = pair.rough.env.get_observations()["policy"][:, NUM_SHARED:]
    torch.testing.assert_close(normalizer["obs_normalizer._mean"][0, NUM_SHARED:], heights.mean(dim=0))
    spread = ((heights - heights.mean(dim=0)) ** 2).mean(dim=0).sqrt()
    torch.testing.assert_close(normalizer["obs_normalizer._std"][0, NUM_SHARED:], spread)
    assert int(normalizer["obs_normalizer.count"]) == 2 * 8 * 8  # two iterations of eight steps of eight environments


def test_long_memories_are_shortened(pair: Pair, tmp_path: pathlib.Path) -> None:
    """Statistics of a hundred million samples count as some, so that the new observations get theirs."""
    state = load_safely(pair.path, "cpu")
    for model in ("actor", "critic"):
        state[f"{model}_state_dict"]["obs_normalizer.count"].fill_(100_000_000)
    save_atomically(state, tmp_path / "model_1.pt")
    agent = "sac" if isinstance(pair.rough.cfg, RunnerCfg) else "ppo"
    rough = make_training(ROUGH, tmp_path / "rough", agent, tmp_path / "model_1.pt")
    count = rough.runner.alg.get_policy().state_dict()["obs_normalizer.count"]
    assert int(count) == REMEMBERED_SAMPLES


def test_it_trains_on_and_resumes(pair: Pair, tmp_path: pathlib.Path) -> None:
    """A run that started so makes its iterations; resumed, it goes on from its own checkpoint."""
    agent = "sac" if isinstance(pair.rough.cfg, RunnerCfg) else "ppo"
    rough = make_training(ROUGH, tmp_path, agent, pair.path)
    rough.run()
    again = make_training(ROUGH, tmp_path, agent, pair.path)
    assert again.progress.iteration == 2
    for one, other in zip(*(t.runner.alg.get_policy().parameters() for t in (rough, again)), strict=True):
        assert torch.equal(one, other)


def test_other_networks_are_refused(pair: Pair, tmp_path: pathlib.Path) -> None:
    """Other layers or critics, or a policy without values: one line, and no folder of a run."""
    misfit = "does not fit the networks of this run"
    cases = {"hidden layers": misfit, "critic": misfit, "policy": "holds a policy without values"}
    if isinstance(pair.rough.cfg, RunnerCfg):
        cases["critics"] = misfit
    for case, message in cases.items():
        cfg, path = make_cfg("sac" if isinstance(pair.rough.cfg, RunnerCfg) else "ppo"), pair.path
        if case == "hidden layers":
            cfg.actor.hidden_dims = [32, 8]
        elif case == "critic":
            cfg.critic.hidden_dims = [32, 8]
        elif case == "critics" and isinstance(cfg, RunnerCfg):
            cfg.critic.num_critics = 3
        elif case == "policy":
            path = pair.path.with_name("model_best.pt")
        with pytest.raises(CheckpointError, match=message) as error:
            Training(ROUGH, cfg, tmp_path / case, evaluation_envs=1, num_cores=1, start_from=path)
        assert "\n" not in str(error.value) and not (tmp_path / case).exists()


def test_other_bounds(pair: Pair, tmp_path: pathlib.Path) -> None:
    """The policy moves with its bounds: near the middle of both it acts as before, and it may go further."""
    if not isinstance(pair.flat.cfg, RunnerCfg):
        pytest.skip("PPO has no bounds")
    narrow, wide = make_cfg("sac"), make_cfg("sac")
    narrow.algorithm.largest_action = 0.5
    flat = Training(FLAT, narrow, tmp_path / "flat", evaluation_envs=1, num_cores=1)
    flat.run()
    path = find_checkpoints(tmp_path / "flat")[-1]
    wide.algorithm.largest_action = 1.0
    opened = Training(FLAT, wide, tmp_path / "opened", evaluation_envs=1, num_cores=1, start_from=path)
    distributions = [run.runner.alg.get_policy().distribution for run in (flat, opened)]
    for distribution, size in zip(distributions, (0.5, 1.0), strict=True):
        torch.testing.assert_close(distribution.scale, torch.full((12,), size))
    obs, _ = observations(100, 0.0)
    before, after = (run.runner.alg.get_policy()(obs) for run in (flat, opened))
    # y = tanh(x) / 2 becomes tanh(x / 2), which is further from zero by up to x^3 / 8.
    latent = torch.atanh(2.0 * before)
    torch.testing.assert_close(after, torch.tanh(latent / 2.0), atol=1e-5, rtol=1e-4)
    assert bool((after.abs() >= before.abs() - 1e-6).all()) and float(before.detach().abs().max()) > 0.01


@pytest.mark.parametrize(
    ("start", "num_updates", "expected"),
    [(-1, 500, -0.8), (100, 90, -0.8), (100, 125, -0.6), (100, 300, 0.0), (40, 60, -0.64)],
)
def test_noise_goes_on_where_it_was(start: int, num_updates: int, expected: float) -> None:
    """From -0.8 to 0 within a hundred gradient steps: not begun, begun at some step, at a quarter, at the end."""
    cfg = SACCfg(target_entropy_scale=-0.8, final_target_entropy_scale=0.0, target_entropy_updates=(40, 140))
    cfg.anneal_progress = 0.5
    state = {"annealing": {"progress": 0.4, "start": start}, "counters": counters(num_updates)}
    assert reached_settings(cfg, state)["target_entropy_scale"] == pytest.approx(expected)


def test_noise_without_an_end() -> None:
    """A run whose target entropy stays has it; one that waits for nothing is where its gradient steps say."""
    state = {"annealing": {"progress": 0.0, "start": -1}, "counters": counters(60)}
    assert reached_settings(SACCfg(target_entropy_scale=0.3), state)["target_entropy_scale"] == 0.3
    cfg = SACCfg(target_entropy_scale=0.0, final_target_entropy_scale=1.0, target_entropy_updates=(40, 140))
    assert reached_settings(cfg, state)["target_entropy_scale"] == pytest.approx(0.2)


@pytest.mark.parametrize(("num_updates", "factor", "left"), [(40, 1.0, 0.4), (90, 0.7, 4 / 7), (140, 0.4, 1.0)])
def test_learning_rates_go_on_where_they_were(num_updates: int, factor: float, left: float) -> None:
    """On the way from 1 to 0.4 of themselves: the factor reached, and what is left of it to the same end."""
    cfg = SACCfg(actor_learning_rate=1e-3, critic_learning_rate=2e-3, final_learning_rate_scale=0.4)
    cfg.target_entropy_updates = (40, 140)
    state = {"annealing": {"progress": 0.0, "start": -1}, "counters": counters(num_updates)}
    reached = reached_settings(cfg, state)
    assert reached["actor_learning_rate"] == pytest.approx(factor * 1e-3)
    assert reached["critic_learning_rate"] == pytest.approx(factor * 2e-3)
    assert reached["final_learning_rate_scale"] == pytest.approx(left)
    SACCfg(**reached)  # rounding has not made it more than 1


@pytest.mark.parametrize("agent", ["sac", "ppo"])
def test_command_line(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, agent: str) -> None:
    """A task stands for its newest run, whose networks count; the configuration says which checkpoint it was."""
    monkeypatch.chdir(tmp_path)
    own = []
    if agent == "sac":
        own = ["--algorithm.actor-learning-rate", "1e-4", "--algorithm.final-learning-rate-scale", "0.5"]
    main(["train", FLAT, *SMALL, "--agent", agent, "--actor.hidden-dims", "8", "--critic.hidden-dims", "6", *own])
    main(["train", ROUGH, *SMALL, "--agent", agent, "--start-from", FLAT, "--folder", "rough"])
    (checkpoint,) = find_checkpoints(next(pathlib.Path("logs", FLAT).iterdir()))
    task, cfg, training = load_run_config(pathlib.Path("rough/config.yaml"))
    assert task == ROUGH and training is not None and training.start_from == str(checkpoint)
    assert cfg.actor.hidden_dims == [8] and cfg.critic.hidden_dims == [6]
    if isinstance(cfg, RunnerCfg):  # a run that is repeated has the noise that it was asked for
        assert cfg.algorithm.actor_learning_rate == 1e-4 and cfg.algorithm.final_learning_rate_scale == 0.5
        main(
            ["train", ROUGH, *SMALL, "--start-from", FLAT, "--folder", "own", "--algorithm.target-entropy-scale", "0.3"]
        )
        main(["train", "--config", "own/config.yaml", "--folder", "again"])
        again = load_run_config(pathlib.Path("again/config.yaml"))[1]
        assert isinstance(again, RunnerCfg) and again.algorithm.target_entropy_scale == 0.3


@pytest.mark.parametrize("agent", ["sac", "ppo"])
def test_the_same_command_goes_on(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], agent: str
) -> None:
    """Stopped and started again, as compare does it, a run keeps what it took over, and no other run's networks."""
    monkeypatch.chdir(tmp_path)
    own = ["--actor.hidden-dims", "8", *(["--algorithm.critic-learning-rate", "2e-4"] if agent == "sac" else [])]
    main(["train", FLAT, *SMALL, "--agent", agent, "--folder", "flat", *own])
    command = ["train", ROUGH, *SMALL, "--agent", agent, "--start-from", "flat", "--folder", "rough"]
    main(command)
    before = load_run_config(pathlib.Path("rough/config.yaml"))
    main([*command, "--max-iterations", "2"])
    after = load_run_config(pathlib.Path("rough/config.yaml"))
    assert before[1].max_iterations == 1 and after[1].max_iterations == 2
    after[1].max_iterations = 1
    assert before == after and after[1].actor.hidden_dims == [8]
    if isinstance(after[1], RunnerCfg):
        assert after[1].algorithm.critic_learning_rate == 2e-4
    with pytest.raises(SystemExit):  # its networks are not to be chosen any more
        main([*command, "--actor.hidden-dims", "4"])
    if agent == "sac":  # nor are its bounds, which the checkpoint has
        capsys.readouterr()
        with pytest.raises(SystemExit):
            main([*command, "--algorithm.largest-action", "0.5"])
        assert "has other action bounds, which are in its checkpoint" in capsys.readouterr().err
    with pytest.raises(SystemExit):  # and the other run started from nothing
        main(["train", FLAT, *SMALL, "--agent", agent, "--start-from", "flat", "--folder", "flat"])


REACHED_RATES = {"actor_learning_rate": 1e-4, "critic_learning_rate": 2e-4, "final_learning_rate_scale": 0.9}


@pytest.mark.parametrize(
    ("settings", "given", "expected"),
    [
        ({}, set(), (1e-4, 2e-4, 0.9)),
        ({}, {"actor_learning_rate"}, (3e-4, 2e-4, 0.3)),
        ({}, {"final_learning_rate_scale"}, (1e-4, 2e-4, 0.3)),
        ({"desired_kl": 0.01, "final_learning_rate_scale": 1.0}, set(), (1e-4, 2e-4, 1.0)),
    ],
)
def test_what_is_given_counts(settings: dict, given: set[str], expected: tuple[float, ...]) -> None:
    """A rate that is given sinks as a new run's does, not by what another run had left of its way."""
    new_run: dict[str, Any] = {"actor_learning_rate": 3e-4, "final_learning_rate_scale": 0.3}
    cfg = SACCfg(**new_run | settings)
    go_on_from(cfg, REACHED_RATES, given)
    assert (cfg.actor_learning_rate, cfg.critic_learning_rate, cfg.final_learning_rate_scale) == expected


def test_opened_bounds_stay() -> None:
    """Bounds that are half open, here 1 ± 2 and 0 ± 0.5, are those of the run that goes on."""
    cfg = SACCfg(largest_action=1.0, final_largest_action=4.0)
    actor = {"distribution.bias": torch.tensor([1.0, 0.0]), "distribution.scale": torch.tensor([2.0, 0.5])}
    state = {
        "annealing": {"progress": 0.0, "start": -1},
        "counters": counters(60),
        "actor_state_dict": actor,
    }
    reached = reached_settings(cfg, state)
    assert set(reached) == set(REACHED)  # what a run that is started again keeps
    go_on_from(cfg, reached, set())
    assert cfg.action_bounds == [[-1.0, -0.5], [3.0, 0.5]]
    assert cfg.largest_action is None and cfg.final_largest_action is None


@pytest.mark.parametrize("given", [{"largest_action": 5.0}, {"final_largest_action": 9.0}])
def test_bounds_that_are_given_count(given: dict[str, float]) -> None:
    """The bounds that another run had come to would narrow those that are given, which belong together."""
    settings: dict[str, Any] = {"largest_action": 1.0, "final_largest_action": 8.0, **given}
    cfg = SACCfg(**settings)
    before = (cfg.action_bounds, cfg.largest_action, cfg.final_largest_action)
    reached = {"action_bounds": [[-1.0], [3.0]], "largest_action": None, "final_largest_action": None}
    go_on_from(cfg, {**reached, "target_entropy_scale": 0.5}, set(given))
    assert (cfg.action_bounds, cfg.largest_action, cfg.final_largest_action) == before
    assert cfg.target_entropy_scale == 0.5


def test_learner_elsewhere() -> None:
    """Weights that are new are where the checkpoint's are, whatever the device of the learner."""
    own = {"mlp.0.weight": torch.empty(2, 5, device="meta")}
    widened = _widened_model({"mlp.0.weight": torch.ones(2, 3)}, own, None, 1)["mlp.0.weight"]
    assert widened.tolist() == [[1.0, 1.0, 0.0, 0.0, 1.0]] * 2


def test_damaged_annealing() -> None:
    """A checkpoint that lacks what is needed is named as such."""
    state = {"annealing": {"progress": 0.4}, "counters": counters(60)}
    with pytest.raises(CheckpointError, match="annealing"):
        reached_settings(SACCfg(), state)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Velocity-Rough-Unitree-Go2", "--start-from", "{sac}"], "cannot start from"),
        ([ROUGH, "--start-from", "{ppo}"], "SAC cannot start from"),
        ([ROUGH, "--agent", "ppo", "--start-from", "{sac}"], "PPO cannot start from"),
        ([ROUGH, "--start-from", "{sac}/model_best.pt"], "holds a policy without values: name its run"),
        ([ROUGH, "--start-from", "nothing"], "There is no run, file or task 'nothing'"),
        ([ROUGH, "--start-from", "{sac}", "--actor.hidden-dims", "4"], "--actor.hidden-dims would be ignored"),
        ([FLAT, "--resume", "{sac}", "--start-from", "{sac}"], "--start-from would be ignored"),
    ],
)
def test_bad_starts(
    tiny_runs: dict[str, pathlib.Path],
    capsys: pytest.CaptureFixture[str],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    """Each is answered in one line, before anything is written."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["train", *(argument.format(**tiny_runs) for argument in arguments)])
    errors = capsys.readouterr().err
    assert end.value.code == 2 and message in errors and len(errors.splitlines()) == 1
    assert not list(tmp_path.iterdir())
