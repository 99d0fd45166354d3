# SPDX-License-Identifier: BSD-3-Clause

"""The replay against a brute-force reading of the paper's equations on random streams."""

from __future__ import annotations

import copy

import pytest
import torch
from scipy import stats
from tensordict import TensorDict

from rsl_rl_sac.storage import Batch, ReplayStorage
from rsl_rl_sac.utils import CheckpointError, ConfigError, EnvContractError, NonFiniteError

GAMMA = 0.9


class Stream:
    """A random stream of vector steps. Every observation is a number of its own, so that origins can be told."""

    def __init__(self, num_envs: int, num_steps: int, done_rate: float = 0.15, seed: int = 0) -> None:
        """Draw the stream; half of the ended episodes end by time."""
        generator = torch.Generator().manual_seed(seed)
        shape = (num_steps, num_envs)
        self.num_envs, self.num_steps = shape[1], shape[0]
        self.obs = torch.arange(num_steps * num_envs, dtype=torch.get_default_dtype()).view(shape)
        self.final_obs = -1.0 - self.obs  # before the reset: negative
        self.actions = torch.randn(*shape, 2, generator=generator)
        self.rewards = torch.randn(shape, generator=generator)
        self.dones = torch.rand(shape, generator=generator) < done_rate
        self.time_outs = self.dones & (torch.rand(shape, generator=generator) < 0.5)

    def observations(self, values: torch.Tensor) -> TensorDict:
        """Wrap one number per environment as observations of two groups."""
        column = values.unsqueeze(-1)
        return TensorDict({"policy": column, "critic": column.repeat(1, 3)}, batch_size=[self.num_envs])

    def add_to(self, storage: ReplayStorage, steps: range, with_final_obs: bool = True) -> None:
        """Add some steps of the stream to a storage."""
        for t in steps:
            final_obs = self.observations(self.final_obs[t]) if with_final_obs else None
            storage.add(
                self.observations(self.obs[t]),
                self.actions[t],
                self.rewards[t],
                self.dones[t],
                self.time_outs[t],
                final_obs,
            )

    def storage(self, capacity_steps: int, n_step: int, **kwargs: object) -> ReplayStorage:
        """Create a storage for this stream."""
        capacity = capacity_steps * self.num_envs
        example = self.observations(self.obs[0])
        return ReplayStorage(self.num_envs, capacity, example, 2, n_step, GAMMA, **kwargs)  # type: ignore[arg-type]

    def target(self, t: int, env: int, n: int) -> tuple[float, dict[float, float]]:
        """Read the paper's equation 11 literally: the sum of rewards, and the weight of V at every observation."""
        survival = [1.0]
        for k in range(n):
            survival.append(survival[k] * (1.0 - float(self.dones[t + k, env])))
        rewards = sum(GAMMA**k * survival[k] * float(self.rewards[t + k, env]) for k in range(n))
        weights: dict[float, float] = {}
        for k in range(n):
            if self.time_outs[t + k, env]:
                state = float(self.final_obs[t + k, env])
                weights[state] = weights.get(state, 0.0) + GAMMA ** (k + 1) * survival[k]
        state = float(self.obs[t + n, env])
        weights[state] = weights.get(state, 0.0) + GAMMA**n * survival[n]
        return rewards, {state: weight for state, weight in weights.items() if weight > 0.0}


def assert_batch_equals_paper(stream: Stream, batch: Batch, n_step: int) -> None:
    """Compare every sample of a batch with the literal reading."""
    for i in range(batch.actions.shape[0]):
        origin = int(batch.observations["policy"][i, 0])
        t, env = divmod(origin, stream.num_envs)
        rewards, weights = stream.target(t, env, n_step)
        assert float(batch.returns[i]) == pytest.approx(rewards, abs=1e-5)
        torch.testing.assert_close(batch.actions[i], stream.actions[t, env])
        assert len(weights) <= 1  # the claim the storage rests on: one live bootstrap
        if weights:
            ((state, weight),) = weights.items()
            assert float(batch.discounts[i]) == pytest.approx(weight, rel=1e-5)
            assert float(batch.next_observations["policy"][i, 0]) == state
            assert batch.next_observations["critic"][i].tolist() == [state] * 3
        else:
            assert float(batch.discounts[i]) == 0.0


class TestAgainstPaper:
    """n-step batches equal the equation."""

    @pytest.mark.parametrize("n_step", range(1, 9))
    @pytest.mark.parametrize("num_envs", [1, 5])
    def test_at_every_fill_level(self, num_envs: int, n_step: int) -> None:
        """From the first possible sample, through partly filled, to a ring that wrapped five times."""
        stream = Stream(num_envs, 66, seed=n_step)
        storage = stream.storage(capacity_steps=12, n_step=n_step)
        for t in range(60):
            stream.add_to(storage, range(t, t + 1))
            if storage.num_valid_steps > 0 and (t < 20 or t % 7 == 0):
                assert_batch_equals_paper(stream, storage.sample(64), n_step)

    @pytest.mark.parametrize("done_rate", [0.0, 0.6, 1.0])
    def test_at_every_done_rate(self, done_rate: float) -> None:
        """No episode end at all, several in one window, and an end at every step."""
        stream = Stream(3, 70, done_rate)
        storage = stream.storage(capacity_steps=40, n_step=4)
        stream.add_to(storage, range(60))
        assert_batch_equals_paper(stream, storage.sample(500), 4)

    def test_failure_and_time_out_in_one_window(self) -> None:
        """By hand: r = 1, 2, 4 with a time-out at the second step, then a failure at the third."""
        stream = Stream(1, 6, 0.0)
        stream.rewards[:, 0] = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
        stream.dones[1, 0] = stream.time_outs[1, 0] = True
        stream.dones[2, 0] = True
        storage = stream.storage(capacity_steps=6, n_step=3)
        stream.add_to(storage, range(6))
        batch = storage.sample(64)
        by_start = {int(o): i for i, o in enumerate(batch.observations["policy"][:, 0])}
        assert set(by_start) == {0, 1, 2}
        expected = {0: (1 + 0.9 * 2, 0.81, -2.0), 1: (2.0, 0.9, -2.0), 2: (4.0, 0.0, None)}
        for start, (returns, discount, state) in expected.items():
            i = by_start[start]
            assert float(batch.returns[i]) == pytest.approx(returns)
            assert float(batch.discounts[i]) == pytest.approx(discount)
            if state is not None:
                assert float(batch.next_observations["policy"][i, 0]) == state

    def test_mini_batches_equal_paper(self) -> None:
        """Batches drawn together are as right as one alone, and each has its own transitions."""
        stream = Stream(4, 60)
        storage = stream.storage(capacity_steps=30, n_step=3)
        stream.add_to(storage, range(55))
        batches = list(storage.mini_batches(5, 64))
        for batch in batches:
            assert_batch_equals_paper(stream, batch, 3)
        assert len({tuple(batch.indices.tolist()) for batch in batches}) == 5


class TestSampling:
    """What is drawn, and how often."""

    def test_uniform_over_valid_starts(self) -> None:
        """Chi-square over all valid starts of a wrapped ring; nothing else is ever drawn."""
        stream = Stream(3, 60)
        storage = stream.storage(capacity_steps=20, n_step=4)
        stream.add_to(storage, range(53))
        starts = storage.sample(100_000).observations["policy"][:, 0].long()
        counts = torch.bincount(starts, minlength=60 * 3)
        valid = torch.zeros(180, dtype=torch.bool)
        valid[(53 - 20) * 3 : (53 - 4) * 3] = True
        assert int(counts[~valid].sum()) == 0
        assert stats.chisquare(counts[valid].numpy()).pvalue > 1e-3

    def test_never_returns_overwritten_or_unwritten(self) -> None:
        """Poison what is not written, and what the table forgot; no sample may hold it."""
        stream = Stream(2, 200, 0.3)
        storage = stream.storage(capacity_steps=16, n_step=5)
        for values in storage.observations.values():
            values.fill_(float("nan"))
        storage.rewards.fill_(float("nan"))
        storage.actions.fill_(float("nan"))
        for t in range(150):
            stream.add_to(storage, range(t, t + 1))
            table = storage.timeout_table
            for rows in table.rows.values():
                rows[: table._start] = float("nan")
                rows[table._end :] = float("nan")
            if storage.num_valid_steps > 0:
                batch = storage.sample(32)
                oldest = max(0, t + 1 - 16) * 2
                assert int(batch.observations["policy"].min()) >= oldest
                for tensor in (batch.returns, batch.actions, batch.next_observations["policy"], batch.discounts):
                    assert torch.isfinite(tensor).all()

    def test_indices_name_the_rows(self) -> None:
        """The indices point at what was returned."""
        stream = Stream(3, 40)
        storage = stream.storage(capacity_steps=16, n_step=2)
        stream.add_to(storage, range(40))
        batch = storage.sample(50)
        rows = storage.observations["policy"].flatten(0, 1)[batch.indices]
        torch.testing.assert_close(rows, batch.observations["policy"])

    def test_own_generator(self) -> None:
        """Sampling repeats with the seed and leaves torch's generator alone."""
        stream = Stream(3, 40)
        storages = [stream.storage(20, 2, seed=seed) for seed in (7, 7, 8)]
        for storage in storages:
            stream.add_to(storage, range(30))
        state = torch.get_rng_state()
        first, same, other = (storage.sample(64).indices for storage in storages)
        assert torch.equal(first, same) and not torch.equal(first, other)
        assert torch.equal(state, torch.get_rng_state())

    def test_too_few_steps(self) -> None:
        """Sampling before a window is complete says what is missing."""
        stream = Stream(2, 10)
        storage = stream.storage(8, 3)
        stream.add_to(storage, range(3))
        with pytest.raises(RuntimeError, match="needs 4"):
            storage.sample(4)


class TestCuts:
    """Transitions whose next observation is unknown."""

    def test_missing_final_obs_is_dropped(self) -> None:
        """A time-out without its observation is never sampled and windows end in front of it."""
        stream = Stream(3, 60, 0.3)
        storage = stream.storage(capacity_steps=40, n_step=4)
        stream.add_to(storage, range(50), with_final_obs=False)
        batch = storage.sample(4000)
        starts = batch.observations["policy"][:, 0].long()
        assert not stream.time_outs.flatten()[starts].any()
        assert len(storage.timeout_table) == 0
        for i in range(300):
            t, env = divmod(int(starts[i]), 3)
            returns, m = 0.0, 0
            while m < 4 and not stream.time_outs[t + m, env]:
                returns += GAMMA**m * float(stream.rewards[t + m, env])
                m += 1
                if stream.dones[t + m - 1, env]:
                    break
            failed = bool(stream.dones[t + m - 1, env])
            assert float(batch.returns[i]) == pytest.approx(returns, abs=1e-5)
            assert float(batch.discounts[i]) == pytest.approx(0.0 if failed else GAMMA**m)
            if not failed:
                assert int(batch.next_observations["policy"][i, 0]) == (t + m) * 3 + env

    def test_uniform_over_what_is_not_cut(self) -> None:
        """Drawing again keeps the distribution uniform."""
        stream = Stream(3, 60, 0.3)
        storage = stream.storage(capacity_steps=20, n_step=2)
        stream.add_to(storage, range(40), with_final_obs=False)
        counts = torch.bincount(storage.sample(100_000).observations["policy"][:, 0].long(), minlength=180)
        valid = torch.zeros(60, 3, dtype=torch.bool)
        valid[20:38] = ~stream.time_outs[20:38]
        assert int(counts[~valid.flatten()].sum()) == 0
        assert stats.chisquare(counts[valid.flatten()].numpy()).pvalue > 1e-3

    def test_cut_separates_trajectories(self) -> None:
        """After a restart of the environment no window joins what lies before and after."""
        stream = Stream(2, 40, 0.0)
        storage = stream.storage(capacity_steps=40, n_step=3)
        stream.add_to(storage, range(10))
        storage.cut()
        stream.add_to(storage, range(20, 30))
        batch = storage.sample(2000)
        start = batch.observations["policy"][:, 0].long() // 2
        end = batch.next_observations["policy"][:, 0].long() // 2
        assert 9 not in start  # its successor is unknown
        before = start < 9
        assert (end[before] <= 9).all()
        torch.testing.assert_close(batch.discounts, GAMMA ** (end - start).float())

    def test_all_cut(self) -> None:
        """If nothing can be sampled, that is said instead of looking for ever."""
        stream = Stream(2, 10, 1.0)
        stream.time_outs[:] = True
        storage = stream.storage(8, 1)
        stream.add_to(storage, range(6), with_final_obs=False)
        with pytest.raises(RuntimeError, match="nothing can be sampled"):
            storage.sample(4)


class TestStorage:
    """Memory, types and state."""

    @pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 1e-3), (torch.bfloat16, 1e-2)])
    def test_half_precision(self, dtype: torch.dtype, tolerance: float) -> None:
        """Observations are stored rounded, and returned in single precision."""
        obs = TensorDict({"policy": torch.randn(4, 6)}, batch_size=[4])
        storage = ReplayStorage(4, 80, obs, 1, 1, GAMMA, obs_dtype=dtype, action_dtype=dtype)
        for _ in range(5):
            storage.add(obs, torch.zeros(4, 1), torch.zeros(4), torch.ones(4), torch.ones(4), obs)
        batch = storage.sample(100)
        assert batch.observations["policy"].dtype == batch.actions.dtype == torch.float32
        expected = obs["policy"][batch.indices % 4]
        torch.testing.assert_close(batch.observations["policy"], expected, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(batch.next_observations["policy"], expected, rtol=tolerance, atol=tolerance)

    def test_integer_observations_keep_their_type(self) -> None:
        """Images stay bytes."""
        obs = TensorDict({"camera": torch.randint(255, (4, 1, 3, 3), dtype=torch.uint8)}, batch_size=[4])
        storage = ReplayStorage(4, 80, obs, 1, 1, GAMMA)
        for _ in range(3):
            storage.add(obs, torch.zeros(4, 1), torch.zeros(4), torch.zeros(4))
        batch = storage.sample(10)
        assert batch.observations["camera"].dtype == torch.uint8
        assert torch.equal(batch.observations["camera"], obs["camera"][batch.indices % 4])

    def test_bytes_per_transition(self) -> None:
        """By hand: 10 observations, 3 actions, a reward (4 bytes each) and one byte of flags; 48 bytes a time-out."""
        obs = TensorDict({"policy": torch.zeros(2, 10)}, batch_size=[2])
        storage = ReplayStorage(2, 200, obs, 3, 1, GAMMA)
        assert storage.nbytes == 200 * ((10 + 3 + 1) * 4 + 1)
        storage.add(obs, torch.zeros(2, 3), torch.zeros(2), torch.ones(2), torch.ones(2), obs)
        assert storage.nbytes == 200 * 57 + 2 * (10 * 4 + 8)

    def test_state_dict_round_trip(self) -> None:
        """A restored storage goes on as the original: same samples, before and after more steps."""
        stream = Stream(3, 60, 0.3)
        for filled in (10, 45):
            storage, restored = stream.storage(20, 3, seed=1), stream.storage(20, 3, seed=2)
            stream.add_to(storage, range(filled))
            restored.load_state_dict(storage.state_dict())
            for steps in (range(0), range(filled, 55)):
                stream.add_to(storage, steps)
                stream.add_to(restored, steps)
                one, other = storage.sample(200), restored.sample(200)
                for name in ("actions", "returns", "discounts", "indices"):
                    assert torch.equal(getattr(one, name), getattr(other, name))
                assert torch.equal(one.next_observations["critic"], other.next_observations["critic"])
            assert_batch_equals_paper(stream, restored.sample(100), 3)

    def test_newest_observations(self) -> None:
        """The newest steps are returned across the seam of the ring."""
        stream = Stream(2, 30)
        storage = stream.storage(8, 1)
        stream.add_to(storage, range(19))
        newest = storage.newest_observations(5)["policy"]
        torch.testing.assert_close(newest, stream.obs[14:19].reshape(-1, 1))

    def test_length(self) -> None:
        """The length counts transitions and stops at the capacity."""
        stream = Stream(2, 30)
        storage = stream.storage(8, 1)
        lengths = []
        for t in range(12):
            stream.add_to(storage, range(t, t + 1))
            lengths.append(len(storage))
        assert lengths == [2, 4, 6, 8, 10, 12, 14, 16, 16, 16, 16, 16]

    def test_too_small(self) -> None:
        """A ring that cannot hold one window is refused with the size it needs."""
        with pytest.raises(ConfigError, match="at least 12"):
            Stream(2, 10).storage(5, 5)

    def test_state_of_another_run(self) -> None:
        """State of other sizes is refused before anything is overwritten."""
        storage, other = Stream(2, 10).storage(8, 1), Stream(3, 10).storage(8, 1)
        Stream(2, 10).add_to(storage, range(3))
        before = storage.rewards.clone()
        with pytest.raises(CheckpointError, match="does not fit"):
            storage.load_state_dict(other.state_dict())
        assert torch.equal(storage.rewards, before) and storage.total_steps == 3

    def test_overflow_of_half_precision(self) -> None:
        """An observation beyond the range of float16 is not stored as infinity."""
        obs = TensorDict({"policy": torch.full((4, 6), 1e5)}, batch_size=[4])
        storage = ReplayStorage(4, 80, obs, 1, 1, GAMMA, obs_dtype=torch.float16)
        with pytest.raises(NonFiniteError, match=r"'policy'.*float16"):
            storage.add(obs, torch.zeros(4, 1), torch.zeros(4), torch.zeros(4))
        assert len(storage) == 0

    def test_overflow_of_a_final_observation(self) -> None:
        """Nor is one before a reset, which the table stores in the same type."""
        obs = TensorDict({"policy": torch.zeros(4, 6)}, batch_size=[4])
        storage = ReplayStorage(4, 80, obs, 1, 1, GAMMA, obs_dtype=torch.float16)
        ended = torch.tensor([False, True, False, False])
        final_obs = TensorDict({"policy": torch.full((4, 6), 1e5)}, batch_size=[4])
        with pytest.raises(NonFiniteError, match=r"final_obs.*float16"):
            storage.add(obs, torch.zeros(4, 1), torch.zeros(4), ended, ended, final_obs)
        assert len(storage) == 0

    def test_final_obs_that_is_not_finite(self) -> None:
        """A poisoned final observation is named and not stored."""
        stream = Stream(2, 10, 1.0)
        stream.time_outs[:] = True
        stream.final_obs[0, 1] = float("nan")
        storage = stream.storage(8, 1)
        with pytest.raises(NonFiniteError, match="final_obs"):
            stream.add_to(storage, range(1))
        assert len(storage) == 0

    def test_refused_step_leaves_a_full_ring_alone(self) -> None:
        """In a ring that is full, the oldest step is still there after a newer one was refused."""
        stream = Stream(2, 20, 1.0)
        stream.time_outs[:] = True
        stream.final_obs[15, 1] = float("nan")
        storage = stream.storage(8, 1)
        stream.add_to(storage, range(15))
        before = copy.deepcopy(storage.state_dict())
        with pytest.raises(NonFiniteError, match="final_obs"):
            stream.add_to(storage, range(15, 16))
        torch.testing.assert_close(storage.state_dict(), before, rtol=0.0, atol=0.0)

    def test_overflow_of_half_precision_actions(self) -> None:
        """An action beyond the range of float16 is not stored as infinity."""
        obs = TensorDict({"policy": torch.zeros(4, 6)}, batch_size=[4])
        storage = ReplayStorage(4, 80, obs, 1, 1, GAMMA, action_dtype=torch.float16)
        with pytest.raises(NonFiniteError, match=r"actions do not fit into float16"):
            storage.add(obs, torch.full((4, 1), 1e5), torch.zeros(4), torch.zeros(4))
        assert len(storage) == 0

    @pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32])
    def test_invalid_steps_are_never_drawn(self, dtype: torch.dtype) -> None:
        """Of two environments the second is invalid in step 3: all of the 20 starts but that one are drawn."""
        obs = TensorDict({"policy": torch.zeros(2, 1)}, batch_size=[2])
        storage = ReplayStorage(2, 40, obs, 1, 1, GAMMA)
        for step in range(11):
            invalid = torch.tensor([False, step == 3])
            storage.add(obs, torch.zeros(2, 1), torch.zeros(2), invalid, invalid, obs, invalid.to(dtype))
        drawn = set(storage.sample(2000).indices.tolist())
        assert drawn == set(range(20)) - {2 * 3 + 1}

    def test_final_obs_without_a_group(self) -> None:
        """A final observation that lacks a group is an error that names it."""
        stream = Stream(2, 10, 1.0)
        stream.time_outs[:] = True
        storage = stream.storage(8, 1)
        obs = stream.observations(stream.obs[0])
        with pytest.raises(EnvContractError, match="critic"):
            storage.add(
                obs, stream.actions[0], stream.rewards[0], stream.dones[0], stream.time_outs[0], obs.select("policy")
            )
