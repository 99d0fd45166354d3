# SPDX-License-Identifier: BSD-3-Clause

"""Random network distillation: rewards by hand, windows by brute force, and in both runners."""

from __future__ import annotations

import copy
import pathlib
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.distributed
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict
from torch.utils.tensorboard import SummaryWriter

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.config import RndCfg, SymmetryCfg
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.extensions import ReplayRND, build_rnd
from rsl_rl_sac.runners import OffPolicyRunner
from rsl_rl_sac.runners.off_policy_runner import WITHOUT_REPLAY
from rsl_rl_sac.storage import ReplayStorage
from rsl_rl_sac.utils import CheckpointError, ConfigError
from tests.helpers import differences, flat_state, small_alg, small_cfg

GROUPS = {"actor": ["policy"], "critic": ["policy"], "rnd_state": ["policy"]}
GAMMA = 0.9


def rnd_by_hand(**settings: object) -> ReplayRND:
    """Return RND of one observation x >= 0: the random network says 3 x, the predictor x, so the error is 2 x."""
    plain = {"state_normalization": False, "reward_normalization": False, "activation": "relu", "num_outputs": 1}
    cfg = RndCfg(predictor_hidden_dims=[1], target_hidden_dims=[1], **{**plain, **settings})  # type: ignore[arg-type]
    rnd = ReplayRND(cfg, 1, GROUPS)
    with torch.no_grad():
        for network, slope in ((rnd.target, 3.0), (rnd.predictor, 1.0)):
            first, second = (layer for layer in network if isinstance(layer, torch.nn.Linear))
            first.weight.fill_(slope)
            second.weight.fill_(1.0)
            first.bias.zero_()
            second.bias.zero_()
    return rnd


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64])
def test_observations_of_any_type(dtype: torch.dtype) -> None:
    """Observations need not be of the networks' type."""
    obs = TensorDict({"policy": torch.tensor([[1]], dtype=dtype)}, [1])
    assert rnd_by_hand(weight=1.0).process_step(obs, torch.zeros(1), None, None).tolist() == [2.0]


def observe(*values: float) -> TensorDict:
    """Wrap one number per environment as observations."""
    return TensorDict({"policy": torch.tensor(values).unsqueeze(1)}, [len(values)])


def step(rnd: ReplayRND, *values: float) -> list[float]:
    """Pass one vector step without any end of an episode."""
    return rnd.process_step(observe(*values), torch.zeros(len(values)), None, None).tolist()


class TestRewards:
    """Rewards of single steps."""

    def test_where_episodes_end(self) -> None:
        """Going on: 0.5 * 2 * 1. By time: 0.5 * 2 * 5, of the observation before the reset. By failure: nothing."""
        rnd = rnd_by_hand(weight=0.5)
        dones = torch.tensor([False, True, True])
        time_outs = torch.tensor([False, True, False])
        rewards = rnd.process_step(observe(1.0, 2.0, 3.0), dones, time_outs, observe(9.0, 5.0, 7.0))
        assert rewards.tolist() == [1.0, 5.0, 0.0]

    @pytest.mark.parametrize(
        ("schedule", "expected"),
        [
            (None, [4.0, 4.0, 4.0, 4.0, 4.0]),
            ({"mode": "constant"}, [4.0, 4.0, 4.0, 4.0, 4.0]),
            ({"mode": "step", "final_step": 3, "final_value": 1.0}, [4.0, 4.0, 1.0, 1.0, 1.0]),
            ({"mode": "linear", "initial_step": 1, "final_step": 4, "final_value": 1.0}, [4.0, 3.0, 2.0, 1.0, 1.0]),
        ],
    )
    def test_weight_schedules(self, schedule: dict | None, expected: list[float]) -> None:
        """rsl_rl's schedules, whose steps are vector steps counted from 1; sampling does not count."""
        rnd = rnd_by_hand(weight=4.0, weight_schedule=schedule)
        for weight in expected:
            assert step(rnd, 0.5) == [weight]
            for _ in range(3):
                assert rnd.novelty(observe(0.5)).tolist() == [weight]
            assert rnd.weight == weight

    def test_reward_normalization(self) -> None:
        """Rewards are divided by the standard deviation of their discounted sums so far, worked out with numpy."""
        rnd = rnd_by_hand(reward_normalization=True, weight=1.0)
        states = np.random.default_rng(0).random((6, 4)) + 0.1
        sums, std, history = np.zeros(4), 0.0, []
        for row in states:
            sums = 0.99 * sums + 2.0 * row
            history.append(sums)
            std = np.concatenate(history).std()
            np.testing.assert_allclose(step(rnd, *row.tolist()), 2.0 * row / std, rtol=1e-4)
        np.testing.assert_allclose(rnd.novelty(observe(1.0, 7.0)).numpy(), np.array([2.0, 14.0]) / std, rtol=1e-4)

    def test_first_normalized_rewards_are_not_stored(self) -> None:
        """A hundred steps only feed the statistics, of which numpy gives the next rewards; others pay at once."""
        rnd = rnd_by_hand(reward_normalization=True, recompute_rewards=False, weight=1.0)
        states = np.random.default_rng(0).random((101, 4)) + 0.1
        sums, history = np.zeros(4), []
        for row in states:
            sums = 0.99 * sums + 2.0 * row
            history.append(sums)
        assert all(step(rnd, *row.tolist()) == [0.0] * 4 for row in states[:100])
        expected = 2.0 * states[100] / np.concatenate(history).std()
        np.testing.assert_allclose(step(rnd, *states[100].tolist()), expected, rtol=1e-4)
        assert step(rnd_by_hand(recompute_rewards=False, weight=1.0), 1.0) == [2.0]

    def test_state_normalization(self) -> None:
        """Of 2 and 6 the mean is 4 and the deviation 2, so 8 is seen as (8 - 4) / (2 + 0.01)."""
        rnd = rnd_by_hand(state_normalization=True, weight=1.0)
        rnd.train()
        rnd.update_normalization(observe(2.0, 6.0))
        assert float(rnd.novelty(observe(8.0))) == pytest.approx(2.0 * 4.0 / 2.01, rel=1e-5)

    def test_collection_in_inference_mode(self) -> None:
        """rsl_rl collects in inference mode; statistics updated there can still be updated and loaded into."""
        rnd = rnd_by_hand(reward_normalization=True)
        saved = copy.deepcopy(rnd.save())
        with torch.inference_mode():
            step(rnd, 1.0, 2.0)
        assert not any(tensor.is_inference() for tensor in rnd.state_dict().values())
        assert not rnd.save()["discounted_rewards"].is_inference()
        rnd.load(saved, num_envs=2)
        assert rnd.save()["discounted_rewards"] is None and rnd.update_counter == 0

    def test_seconds_per_step(self) -> None:
        """The weight is per second where the environment says how long a step is, as in rsl_rl."""
        env = DoubleIntegrator(num_envs=2)
        assert build_rnd(RndCfg(weight=3.0), env.get_observations(), GROUPS, env, "cpu").weight == 3.0
        env.unwrapped = env  # type: ignore[attr-defined]
        env.step_dt = 0.02  # type: ignore[attr-defined]
        rnd = build_rnd(RndCfg(weight=3.0), env.get_observations(), GROUPS, env, "cpu")
        assert rnd.weight == pytest.approx(0.06)

    def test_images_are_refused(self) -> None:
        """RND takes vectors; another group is asked for in one line."""
        env = DoubleIntegrator(num_envs=2)
        obs = TensorDict({"policy": torch.zeros(2, 3, 8, 8)}, [2])
        with pytest.raises(ConfigError, match=r"'policy' has shape \(3, 8, 8\)"):
            build_rnd(RndCfg(), obs, GROUPS, env, "cpu")


class TestPredictor:
    """Learning of the predictor."""

    def test_learns_the_random_network(self) -> None:
        """What is trained on loses its novelty; the random network stays as it is."""
        torch.manual_seed(1)
        rnd = ReplayRND(RndCfg(learning_rate=1e-3, state_normalization=False), 1, GROUPS)
        target = copy.deepcopy(rnd.target.state_dict())
        known, unknown = observe(0.1, 0.2, 0.3), observe(3.0)
        before = rnd.novelty(known).mean() / rnd.novelty(unknown).mean()
        for _ in range(300):
            rnd.learn(known)
        assert rnd.novelty(known).mean() / rnd.novelty(unknown).mean() < 0.1 * before
        assert all(torch.equal(target[name], value) for name, value in rnd.target.state_dict().items())

    def test_gradients_are_averaged_over_processes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With a second process whose gradient is all 1, the step is taken along (g + 1) / 2."""
        rnd = rnd_by_hand()
        rnd.learn(observe(1.0))
        own = rnd.flat_parameters.gradient.clone()
        other = rnd_by_hand()
        other.world_size = 2
        monkeypatch.setattr(torch.distributed, "all_reduce", lambda tensor: tensor.add_(1.0))
        other.learn(observe(1.0))
        torch.testing.assert_close(other.flat_parameters.gradient, (own + 1.0) / 2.0)
        assert own.abs().max() > 1.0  # (3 - 1)^2 has slope -4 at the output


def filled_storage(n_step: int) -> tuple[ReplayStorage, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a ring that wrapped, with ends of all kinds; observations are positive numbers of their own."""
    generator = torch.Generator().manual_seed(n_step)
    shape = (40, 3)
    obs = torch.arange(1.0, 121.0).view(shape)
    dones = torch.rand(shape, generator=generator) < 0.3
    time_outs = dones & (torch.rand(shape, generator=generator) < 0.5)
    storage = ReplayStorage(3, 3 * 15, observe(0.0, 0.0, 0.0), 1, n_step, GAMMA)
    for t in range(40):
        final_obs = observe(*(1000.0 + obs[t]).tolist())
        storage.add(observe(*obs[t].tolist()), torch.zeros(3, 1), torch.zeros(3), dones[t], time_outs[t], final_obs)
    return storage, obs, dones, time_outs


class TestWindows:
    """Intrinsic rewards of n-step windows."""

    @pytest.mark.parametrize("n_step", [1, 2, 5])
    def test_equal_brute_force(self, n_step: int) -> None:
        """Step by step: discounted errors of what was reached, until the episode ends; a failure reaches nothing."""
        storage, obs, dones, time_outs = filled_storage(n_step)
        rnd = rnd_by_hand(weight=0.5)
        batch = storage.sample(300)
        returns = rnd.add_rewards(batch, storage).returns
        num_timed_out = 0
        for i, origin in enumerate((batch.observations["policy"][:, 0] - 1.0).long().tolist()):
            t, env = divmod(origin, 3)
            expected = 0.0
            for k in range(n_step):
                ended, by_time = bool(dones[t + k, env]), bool(time_outs[t + k, env])
                reached = 1000.0 + float(obs[t + k, env]) if by_time else float(obs[t + k + 1, env])
                expected += GAMMA**k * 0.5 * 2.0 * reached * (by_time or not ended)
                num_timed_out += by_time
                if ended:
                    break
            assert float(returns[i]) == pytest.approx(expected, rel=1e-5)
        assert num_timed_out > 10

    def test_cut_windows(self) -> None:
        """A window that ends in front of a cut has rewards of the steps before it only: 2 * (2 + 0.9 * 3) + 0."""
        storage = ReplayStorage(1, 8, observe(0.0), 1, 3, GAMMA)
        for t in range(6):
            storage.add(observe(t + 1.0), torch.zeros(1, 1), torch.zeros(1), torch.zeros(1), None, None)
            if t == 2:
                storage.cut()
        batch = storage.sample(64)
        first = batch.observations["policy"][:, 0] == 1.0
        returns = rnd_by_hand(weight=1.0).add_rewards(batch, storage).returns
        assert bool(first.any())
        torch.testing.assert_close(returns[first], torch.full_like(returns[first], 2.0 * (2.0 + 0.9 * 3.0)))

    def test_stored_rewards_stay(self) -> None:
        """With recompute_rewards off the batch is left alone."""
        storage, *_ = filled_storage(2)
        batch = storage.sample(8)
        assert rnd_by_hand(recompute_rewards=False).add_rewards(batch, storage) is batch


def collect(alg: SAC, env: DoubleIntegrator, num_steps: int) -> list[torch.Tensor]:
    """Step the environment; return the intrinsic rewards."""
    obs, intrinsic = env.get_observations(), []
    for _ in range(num_steps):
        obs, rewards, dones, extras = env.step(alg.act(obs))
        alg.process_env_step(obs, rewards, dones, extras)
        assert alg.intrinsic_rewards is not None
        intrinsic.append(alg.intrinsic_rewards)
    return intrinsic


class TestInSAC:
    """Random network distillation in the algorithm."""

    @pytest.mark.parametrize("recompute", [True, False])
    def test_what_is_stored(self, recompute: bool) -> None:
        """The replay holds the rewards of the environment, or their sum with the intrinsic ones."""
        alg, env = small_alg(rnd_cfg=RndCfg(recompute_rewards=recompute, reward_normalization=False))
        costs = []
        cost = env.cost
        env.cost = lambda *args: costs.append(cost(*args)) or costs[-1]  # type: ignore[method-assign]
        intrinsic = collect(alg, env, 8)
        assert float(torch.stack(intrinsic).min()) > 0.0
        expected = -torch.stack(costs) + (0.0 if recompute else torch.stack(intrinsic))
        torch.testing.assert_close(alg.storage.rewards[:8], expected)

    def test_critics_learn_from_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each batch reaches the critics with the rewards of the predictor before its step on that batch."""
        alg, env = small_alg(rnd_cfg=RndCfg(), training_start_iteration=0)
        collect(alg, env, 8)
        assert alg.rnd is not None
        events: list[str] = []
        for name in ("add_rewards", "learn"):
            method = getattr(alg.rnd, name)
            monkeypatch.setattr(alg.rnd, name, lambda *args, f=method, n=name: events.append(n) or f(*args))
        returns = []
        update_critic = alg._update_critic
        monkeypatch.setattr(
            alg, "_update_critic", lambda batch, *rest: returns.append(batch) or update_critic(batch, *rest)
        )
        losses = alg.update()
        assert events == ["add_rewards", "learn"] * 4 and losses["rnd"] > 0.0
        plain = -torch.stack([env.cost(batch.observations["policy"], batch.actions) for batch in returns])
        assert float(torch.stack([batch.returns for batch in returns]).mean()) > float(plain.mean())

    def test_symmetry_does_not_change_novelty(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A mirrored transition has the returns of what was met, as in rsl_rl; the predictor sees what was met."""
        batches = []
        for symmetry in (None, SymmetryCfg("tests.extensions.test_symmetry:negate")):
            torch.manual_seed(0)
            settings = {"symmetry_cfg": symmetry, "action_bounds": [-2.0, 2.0], "training_start_iteration": 0}
            alg, env = small_alg(rnd_cfg=RndCfg(), num_mini_batches=1, **settings)
            collect(alg, env, 8)
            seen: list = []
            learn, critic = alg.rnd.learn, alg._update_critic  # type: ignore[union-attr]
            monkeypatch.setattr(alg.rnd, "learn", lambda obs, f=learn, s=seen: s.append(obs) or f(obs))
            monkeypatch.setattr(alg, "_update_critic", lambda b, *z, f=critic, s=seen: s.append(b) or f(b, *z))
            alg.update()
            batches.append(seen)
        (plain_obs, plain), (mirrored_obs, mirrored) = batches
        assert torch.equal(plain_obs["policy"], mirrored_obs["policy"])
        assert torch.equal(plain.returns, mirrored.returns)
        assert torch.equal(plain.actions[1::2], -mirrored.actions[1::2])

    def test_separate_observations(self) -> None:
        """Novelty may be judged by a group that neither the actor nor the critics see; the replay stores it too."""

        class Tagged(DoubleIntegrator):
            def get_observations(self) -> TensorDict:
                obs = super().get_observations()
                obs["place"] = obs["policy"][:, :1].clone()
                return obs

        env = Tagged(num_envs=16)
        cfg = small_cfg(rnd_cfg=RndCfg(), training_start_iteration=0)
        cfg.obs_groups["rnd_state"] = ["place"]
        alg = SAC.construct_algorithm(env.get_observations(), env, cfg.to_dict(), "cpu")
        assert alg.rnd is not None and alg.rnd.num_states == 1 and set(alg.storage.observations) == {"policy", "place"}
        collect(alg, env, 8)
        assert alg.update()["rnd"] > 0.0


@pytest.mark.parametrize("runner_class", [OnPolicyRunner, OffPolicyRunner])
def test_runners_train_and_log(
    runner_class: type[OnPolicyRunner], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rsl_rl's own runner and ours train, log under rsl_rl's names, and load what they saved."""
    cfg = small_cfg(rnd_cfg=RndCfg(weight=0.5), save_replay=True).to_dict()
    runner = runner_class(DoubleIntegrator(num_envs=16, max_episode_length=5), cfg, log_dir=str(tmp_path))
    values: dict[str, list[float]] = {}
    monkeypatch.setattr(
        SummaryWriter, "add_scalar", lambda _, name, value, *__: values.setdefault(name, []).append(float(value))
    )
    runner.learn(3)
    assert values["Rnd/weight"] == [0.5] * 3 and len(values["Loss/rnd"]) == 2
    for mean, extrinsic, intrinsic in zip(
        *(values[name] for name in ("Train/mean_reward", "Rnd/mean_extrinsic_reward", "Rnd/mean_intrinsic_reward")),
        strict=True,
    ):
        assert mean == pytest.approx(extrinsic + intrinsic, rel=1e-4) and intrinsic > 0.0 > extrinsic
    fresh_cfg = small_cfg(rnd_cfg=RndCfg(weight=0.5), save_replay=True).to_dict()
    fresh = runner_class(DoubleIntegrator(num_envs=16, max_episode_length=5), fresh_cfg)
    fresh.load(str(tmp_path / "model_2.pt"))
    obs = fresh.env.get_observations()
    assert isinstance(fresh.alg.rnd, ReplayRND) and isinstance(runner.alg.rnd, ReplayRND)
    assert fresh.alg.rnd.update_counter == 24
    assert torch.equal(fresh.alg.rnd.novelty(obs), runner.alg.rnd.novelty(obs))


class WithPlace(DoubleIntegrator):
    """Has a group of observations for RND alone."""

    def get_observations(self) -> TensorDict:
        """Return the observations, and the position once more."""
        obs = super().get_observations()
        return TensorDict({"policy": obs["policy"], "place": obs["policy"][:, :1]}, obs.batch_size)


class TestCheckpoint:
    """What does not fit is refused before anything changes."""

    def test_run_without_rnd(self) -> None:
        """The message says how to begin with RND, and that works."""
        plain, _ = small_alg()
        alg, _ = small_alg(rnd_cfg=RndCfg())
        with pytest.raises(CheckpointError, match="without RND"):
            alg.load(plain.save(), None, True)
        assert alg.load(plain.save(), dict.fromkeys(("actor", "critic", "optimizer", "iteration"), True), True)

    def test_replay_with_other_rewards(self) -> None:
        """A replay of stored sums is no replay of bare rewards."""
        algs = [small_alg(rnd_cfg=RndCfg(recompute_rewards=on), save_replay=True)[0] for on in (True, False)]
        with pytest.raises(CheckpointError, match="recompute_rewards = True: its rewards lack"):
            algs[1].load(algs[0].save(), None, True)

    def test_other_number_of_environments(self) -> None:
        """Sums of single environments are dropped if there are more now, all else is taken over."""
        rnd = rnd_by_hand(reward_normalization=True)
        step(rnd, 1.0, 2.0)
        other = rnd_by_hand(reward_normalization=True)
        other.load(rnd.save(), num_envs=3)
        assert other.save()["discounted_rewards"] is None
        assert other.update_counter == 1
        assert len(step(other, 1.0, 2.0, 3.0)) == 3

    def test_networks_of_another_size(self) -> None:
        """Other networks are refused by the checkpoint's error."""
        alg, _ = small_alg(rnd_cfg=RndCfg())
        other, _ = small_alg(rnd_cfg=replace(RndCfg(), num_outputs=3))
        before = flat_state(other.save())
        with pytest.raises(CheckpointError, match="does not fit"):
            other.load(alg.save(), None, True)
        assert differences(before, flat_state(other.save())) == []

    def test_goes_on_without_the_replay(self) -> None:
        """What has become familiar still is, where a training goes on with an empty replay."""
        alg, env = small_alg(rnd_cfg=RndCfg())
        collect(alg, env, 12)
        alg.update()
        other, _ = small_alg(rnd_cfg=RndCfg())
        other.load(alg.save(), WITHOUT_REPLAY, True)
        saved, loaded = (flat_state(one.save()["rnd_state_dict"]) for one in (alg, other))
        assert saved["/update_counter"] == 12 and differences(saved, loaded) == []

    def test_group_of_its_own(self) -> None:
        """A replay that holds observations for RND alone is taken over without RND, and without those."""
        algs, env = [], WithPlace(num_envs=16, max_episode_length=5)
        for rnd_cfg in (RndCfg(), None):
            cfg = small_cfg(rnd_cfg=rnd_cfg, save_replay=True).to_dict()
            cfg["obs_groups"] = {"actor": ["policy"], "critic": ["policy"], "rnd_state": ["place"]}
            algs.append(SAC.construct_algorithm(env.get_observations(), env, cfg, "cpu"))
        alg, plain = algs
        collect(alg, env, 12)
        assert len(alg.storage.timeout_table) > 0 and "place" in alg.storage.timeout_table.rows
        plain.load(alg.save(), None, True)
        assert len(plain.storage) == 12 * 16
