# SPDX-License-Identifier: BSD-3-Clause

"""Exact resume, checkpoints that survive, and errors that help."""

from __future__ import annotations

import copy
import os
import pathlib
import pickle
import random
import warnings

import numpy as np
import pytest
import torch

from rsl_rl_sac.config import RndCfg, RunnerCfg, SymmetryCfg
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.runners import OffPolicyRunner
from rsl_rl_sac.utils import CheckpointError, NonFiniteError
from rsl_rl_sac.utils.checkpoint import find_checkpoints, find_replays
from tests.helpers import differences, small_cfg, whole_state

DECAY: dict[str, int | float | str] = {"mode": "linear", "initial_step": 10, "final_step": 90, "final_value": 0.1}
MIRROR = SymmetryCfg("tests.extensions.test_symmetry:negate", use_mirror_loss=True)


def make_cfg(seed: int = 0, **algorithm: object) -> RunnerCfg:
    """Return a configuration whose checkpoints hold the replay."""
    overlap = bool(algorithm.pop("overlap", False))
    critic = algorithm.pop("critic", {})
    cfg = small_cfg(save_replay=True, **algorithm)
    for name, value in critic.items():  # type: ignore[attr-defined]
        setattr(cfg.critic, name, value)
    cfg.seed, cfg.overlap = seed, overlap
    if cfg.algorithm.symmetry_cfg is not None:
        cfg.algorithm.action_bounds = [-2.0, 2.0]  # those of the environment are not symmetric
    return cfg


class Forgetful(DoubleIntegrator):
    """An environment without final observations."""

    def step(self, actions: torch.Tensor) -> tuple:
        """Step and forget."""
        obs, rewards, dones, extras = super().step(actions)
        del extras["final_obs"]
        return obs, rewards, dones, extras


def make_runner(folder: pathlib.Path | None, cfg: RunnerCfg | None = None, env_seed: int = 0) -> OffPolicyRunner:
    """Build a runner on a small double integrator that fails and times out."""
    cfg = cfg or make_cfg()
    env_class = Forgetful if cfg.algorithm.missing_final_obs == "drop" else DoubleIntegrator
    env = env_class(num_envs=16, max_episode_length=15, failure_position=1.2, seed=env_seed)
    return OffPolicyRunner(env, cfg.to_dict(), str(folder) if folder else None)


class TestExactResume:
    """train(2N) equals train(N), resume, train(N), bit for bit."""

    @pytest.mark.parametrize(
        "overrides",
        [
            {},
            {"policy_update_frequency": 2, "replay_dtype": "float16"},
            {"missing_final_obs": "drop"},
            {"overlap": True, "desired_kl": 0.01},
            {"exploration_correlation": (0.0, 0.9), "exploration_scale": (0.5, 2.0)},
            {
                "critic": {"num_atoms": 21, "num_critics": 1},
                "final_target_entropy_scale": 0.0,
                "target_entropy_updates": (5, 40),
                "final_learning_rate_scale": 0.1,
            },
            {"largest_action": 1.0, "final_largest_action": 2.5, "target_entropy_updates": (5, 40), "overlap": True},
            {
                "average_actor_steps": 7,
                "largest_action": 1.0,
                "final_largest_action": 2.5,
                "target_entropy_updates": (5, 40),
            },
            {"rnd_cfg": RndCfg(weight_schedule=DECAY)},
            {
                "rnd_cfg": RndCfg(weight_schedule=DECAY, recompute_rewards=False, reward_normalization=False),
                "overlap": True,
                "symmetry_cfg": MIRROR,
            },
        ],
    )
    def test_equals_uninterrupted(self, tmp_path: pathlib.Path, overrides: dict) -> None:
        """Weights, optimizers, temperature, statistics, replay, generators, logger and environment are the same."""
        cfg = make_cfg(**overrides)
        straight = make_runner(tmp_path / "straight", cfg)
        straight.learn(12, init_at_random_ep_len=True)
        first = make_runner(tmp_path / "first", cfg)
        first.learn(6, init_at_random_ep_len=True)
        # Another seed everywhere: all that matters must come from the checkpoint.
        other_cfg = copy.deepcopy(cfg)
        other_cfg.seed = 77
        _ = torch.randn(13), np.random.rand(5), random.random()
        resumed = make_runner(tmp_path / "second", other_cfg, env_seed=9)
        resumed.load(str(tmp_path / "first" / "model_5.pt"))
        resumed.learn(6, init_at_random_ep_len=True)
        state = whole_state(straight)
        assert len(state) > 100 and any("replay_state_dict" in key for key in state)
        assert differences(state, whole_state(resumed)) == []

    def test_would_notice(self, tmp_path: pathlib.Path) -> None:
        """The comparison above is able to fail: one random number too many changes the weights."""
        first = make_runner(tmp_path)
        first.learn(4)
        resumed = [make_runner(None) for _ in range(2)]
        for runner in resumed:
            runner.load(str(tmp_path / "model_3.pt"))
        torch.randn(1)
        resumed[1].learn(2)
        resumed[0].load(str(tmp_path / "model_3.pt"))
        resumed[0].learn(2)
        changed = differences(whole_state(resumed[0]), whole_state(resumed[1]))
        assert any("actor_state_dict" in key for key in changed)

    def test_environment_without_state(self, tmp_path: pathlib.Path) -> None:
        """Without the environment's state the replay is told that time does not go on from its last row."""
        first = make_runner(tmp_path)
        first.learn(4)
        state = torch.load(tmp_path / "model_3.pt", weights_only=True)
        del state["runner"]["env"]
        torch.save(state, tmp_path / "model_3.pt")
        resumed = make_runner(None)
        resumed.load(str(tmp_path / "model_3.pt"))
        storage = resumed.alg.storage
        newest = storage.flags[(storage.total_steps - 1) % storage.num_steps]
        assert storage.last_cut_step == storage.total_steps - 1 and bool((newest > 0).all())
        resumed.learn(2)

    def test_iterations_go_on(self, tmp_path: pathlib.Path) -> None:
        """No iteration is repeated or skipped, and totals add up."""
        first = make_runner(tmp_path)
        first.learn(4)
        resumed = make_runner(tmp_path)
        resumed.load(str(tmp_path / "model_3.pt"))
        assert resumed.next_iteration == 4
        resumed.learn(3)
        assert resumed.current_learning_iteration == 6 and resumed.alg.iteration == 7
        assert resumed.logger.tot_timesteps == 7 * 8 * 16


class TestSeeds:
    """Same seed, same run."""

    def test_seed_decides(self) -> None:
        """Equal seeds give equal weights, another seed others."""
        weights = []
        for seed in (1, 1, 2):
            runner = make_runner(None, make_cfg(seed))
            runner.learn(3)
            weights.append(torch.cat([p.detach().flatten() for p in runner.alg.actor.parameters()]))
        assert torch.equal(weights[0], weights[1])
        assert not torch.equal(weights[0], weights[2])

    def test_configuration_is_not_changed(self) -> None:
        """The caller's dictionary stays as it was."""
        cfg = make_cfg().to_dict()
        before = copy.deepcopy(cfg)
        OffPolicyRunner(DoubleIntegrator(num_envs=16), cfg)
        assert cfg == before


class TestDamage:
    """Files that are not what they should be."""

    def test_truncated_at_random_bytes(self, tmp_path: pathlib.Path) -> None:
        """A checkpoint cut anywhere is refused, the message names the one before, and that one loads."""
        runner = make_runner(tmp_path)
        runner.learn(4)
        content = (tmp_path / "model_3.pt").read_bytes()
        rng = random.Random(0)
        for _ in range(10):
            (tmp_path / "model_3.pt").write_bytes(content[: rng.randrange(len(content))])
            with pytest.raises(CheckpointError, match=r"damaged.*newest other checkpoint.*model_2\.pt"):
                make_runner(None).load(str(tmp_path / "model_3.pt"))
        replay_free = {"actor": True, "critic": True, "optimizer": True, "iteration": True}
        fresh = make_runner(None)
        fresh.load(str(tmp_path / "model_2.pt"), load_cfg=replay_free)
        assert fresh.next_iteration == 3

    def test_flipped_byte(self, tmp_path: pathlib.Path) -> None:
        """One wrong byte in the weights is found by the checksum."""
        runner = make_runner(tmp_path)
        runner.learn(1)
        content = bytearray((tmp_path / "model_0.pt").read_bytes())
        weights = runner.alg.actor.state_dict()["mlp.0.weight"].numpy().tobytes()
        place = bytes(content).index(weights) + 10
        content[place] ^= 0x40
        (tmp_path / "model_0.pt").write_bytes(bytes(content))
        with pytest.raises(CheckpointError, match="damaged"):
            make_runner(None).load(str(tmp_path / "model_0.pt"))

    @pytest.mark.parametrize("kind", ["pickle", "torch"])
    def test_malicious_pickle(self, tmp_path: pathlib.Path, kind: str) -> None:
        """A file that would run a command is refused, and the command does not run."""

        class Malicious:
            def __reduce__(self) -> tuple:
                return os.system, (f"touch {tmp_path / 'owned'}",)

        path = tmp_path / "model_0.pt"
        if kind == "torch":
            torch.save({"iter": 0, "infos": Malicious()}, path)
        else:
            path.write_bytes(pickle.dumps(Malicious()))
        with pytest.raises(CheckpointError, match=r"refused|damaged"):
            make_runner(None).load(str(path))
        assert not (tmp_path / "owned").exists()

    def test_missing(self, tmp_path: pathlib.Path) -> None:
        """A path that does not exist is named."""
        with pytest.raises(CheckpointError, match="There is no checkpoint"):
            make_runner(None).load(str(tmp_path / "model_7.pt"))

    def test_replay_missing_or_of_another_save(self, tmp_path: pathlib.Path) -> None:
        """A checkpoint without its own replay says so, and how to go on without."""
        runner = make_runner(tmp_path)
        runner.learn(2)
        path = tmp_path / "model_1.pt"
        runner.save(str(tmp_path / "other.pt"))
        (own,), (others,) = find_replays(path), find_replays(tmp_path / "other.pt")
        os.replace(others, own)
        with pytest.raises(CheckpointError, match=r"does not belong.*load_cfg=\{'actor': True"):
            make_runner(None).load(str(path))
        own.unlink()
        fresh = make_runner(None)
        with pytest.warns(UserWarning, match="without its replay"):
            fresh.load(str(path))
        assert len(fresh.alg.storage) == 0 and fresh.next_iteration == 2
        make_runner(None).load(str(path), load_cfg={"actor": True})
        other_cfg = make_cfg()
        other_cfg.actor.hidden_dims = [5]
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of what is refused nothing else is said
            with pytest.raises(CheckpointError, match="does not fit"):
                make_runner(None, other_cfg).load(str(path))


class TestSaving:
    """Saves that are interrupted, and what is kept."""

    @pytest.mark.parametrize("fails_at", ["write", "rename"])
    def test_crash_in_the_middle(self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, fails_at: str) -> None:
        """The older checkpoint stays whole and nothing half-written is left."""
        runner = make_runner(tmp_path)
        runner.learn(2)
        path = tmp_path / "model_1.pt"
        before = path.read_bytes()

        def crash(*_: object, **__: object) -> None:
            raise OSError("disk on fire")

        monkeypatch.setattr(os, "replace" if fails_at == "rename" else "fsync", crash)
        files = sorted(tmp_path.iterdir())
        with pytest.raises(OSError, match="disk on fire"):
            runner.save(str(path))
        monkeypatch.undo()
        assert path.read_bytes() == before
        assert sorted(tmp_path.iterdir()) == files
        make_runner(None).load(str(path))

    @pytest.mark.parametrize("iteration", [2, 3])
    def test_crash_between_replay_and_checkpoint(
        self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, iteration: int
    ) -> None:
        """A new replay without its checkpoint does not harm the checkpoint before, of the same name or another."""
        runner = make_runner(tmp_path)
        runner.learn(3)  # saves model_0 and model_2
        runner.current_learning_iteration = iteration
        replace = os.replace

        def crash_at_second(source: str, target: str) -> None:
            if "replay" not in os.path.basename(target):
                raise OSError("power cut")
            replace(source, target)

        monkeypatch.setattr(os, "replace", crash_at_second)
        with pytest.raises(OSError, match="power cut"):
            runner.save(str(tmp_path / f"model_{iteration}.pt"))
        monkeypatch.undo()
        resumed = make_runner(None)
        resumed.load(str(tmp_path / "model_2.pt"))
        assert len(resumed.alg.storage) == len(runner.alg.storage)

    def test_unloadable_state_is_refused_at_once(self) -> None:
        """An environment whose state could not be loaded again is told before training."""
        runner = make_runner(None)
        runner.env.state_dict = lambda: {"positions": np.zeros(3)}  # type: ignore[attr-defined]
        with pytest.raises(CheckpointError, match=r"env/positions.*numpy.ndarray.*torch.as_tensor"):
            runner.learn(1)
        assert len(runner.alg.storage) == 0

    def test_replays_of_similar_names(self, tmp_path: pathlib.Path) -> None:
        """Saving 'run.pt' leaves the replay of 'run.v1.pt' alone."""
        runner = make_runner(None)
        runner.learn(1)
        for name in ("run.v1.pt", "run.pt", "run.pt"):
            runner.save(str(tmp_path / name))
        assert len(find_replays(tmp_path / "run.v1.pt")) == len(find_replays(tmp_path / "run.pt")) == 1

    def test_retention(self, tmp_path: pathlib.Path) -> None:
        """The newest checkpoints stay, and one replay, the newest."""
        cfg = make_cfg()
        cfg.keep_checkpoints = 2
        runner = make_runner(tmp_path, cfg)
        runner.learn(7)
        assert [path.name for path in find_checkpoints(tmp_path)] == ["model_4.pt", "model_6.pt"]
        replays = [path.name.split(".")[0] for path in tmp_path.glob("*.replay.pt")]
        assert replays == ["model_6"]

    def test_nan_names_the_checkpoint(self, tmp_path: pathlib.Path) -> None:
        """When training breaks, the error says which file to go back to."""
        runner = make_runner(tmp_path)
        runner.learn(3)
        runner.alg.critic.mlp.weights[0].data.fill_(float("nan"))
        with pytest.raises(NonFiniteError, match=r"critic.*NaN.*Last good checkpoint: .*model_2\.pt"):
            runner.learn(2)

    def test_nan_observation(self, tmp_path: pathlib.Path) -> None:
        """A bad observation is caught before it is stored."""
        runner = make_runner(tmp_path)
        runner.learn(1)
        stored = len(runner.alg.storage)
        step = runner.env.step

        def poisoned(actions: torch.Tensor) -> tuple:
            obs, *rest = step(actions)
            obs["policy"][0, 0] = float("nan")
            return obs, *rest

        runner.env.step = poisoned  # type: ignore[method-assign]
        with pytest.raises(NonFiniteError, match=r"NaN.*'policy' of environment \[0\], columns \[0\].*model_0\.pt"):
            runner.learn(1)
        assert len(runner.alg.storage) == stored
