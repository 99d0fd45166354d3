# SPDX-License-Identifier: BSD-3-Clause

"""Behaviour of the algorithm around the update: collection, faults, checkpoints, configuration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.algorithms.isaaclab_sac import IsaacLabSAC
from rsl_rl_sac.algorithms.metrics import METRICS
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.utils import CheckpointError, ConfigError, EnvContractError, NonFiniteError
from rsl_rl_sac.utils.checkpoint import check_plain
from tests.helpers import collect, small_alg, small_cfg


class TestCollection:
    """From the environment into the replay."""

    def test_stores_what_happened(self) -> None:
        """Rows hold the observation before the step, the action, the reward and, at time-outs, the final one."""
        alg, env = small_alg(n_step=1)
        obs = env.get_observations()
        seen = []
        for _ in range(30):
            actions = alg.act(obs)
            next_obs, rewards, dones, extras = env.step(actions)
            alg.process_env_step(next_obs, rewards, dones, extras)
            seen.append((obs["policy"], actions, rewards, dones, extras))
            obs = next_obs
        for t, (observations, actions, rewards, _, _) in enumerate(seen):
            assert torch.equal(alg.storage.observations["policy"][t], observations)
            assert torch.equal(alg.storage.actions[t], actions)
            assert torch.equal(alg.storage.rewards[t], rewards)
        final = [extras["final_obs"]["policy"][dones] for _, _, _, dones, extras in seen if dones.any()]
        rows = alg.storage.timeout_table.state_dict()["rows"]["policy"]
        assert len(rows) == 16 and torch.equal(rows, torch.cat(final))

    def test_missing_final_obs(self) -> None:
        """The one error names what is missing and both ways out."""
        alg, env = small_alg()
        obs = env.get_observations()
        alg.act(obs)
        ended = torch.ones(16, dtype=torch.bool)
        with pytest.raises(EnvContractError, match=r"final_obs.*adapter.*missing_final_obs"):
            alg.process_env_step(obs, torch.zeros(16), ended, {"time_outs": ended})

    def test_missing_final_obs_can_be_dropped(self) -> None:
        """With 'drop' training goes on and such transitions are never sampled."""
        alg, env = small_alg(missing_final_obs="drop", replay_size=16 * 60)
        obs = env.get_observations()
        for _ in range(40):
            obs, rewards, dones, extras = env.step(alg.act(obs))
            del extras["final_obs"]
            alg.process_env_step(obs, rewards, dones, extras)
        steps = alg.storage.sample(3000).indices // 16
        assert 24 not in steps and 23 in steps  # all sixteen episodes end by time at step 24

    def test_invalid_steps_are_not_learned_from(self) -> None:
        """What the environment calls invalid, environment 5 in every step here, is stored and never sampled."""
        alg, env = small_alg(n_step=1)
        obs, invalid = env.get_observations(), torch.arange(16) == 5
        for _ in range(8):
            obs, rewards, dones, extras = env.step(alg.act(obs))
            alg.process_env_step(obs, rewards, dones, {**extras, "invalid": invalid})
        assert set((alg.storage.sample(2000).indices % 16).tolist()) == set(range(16)) - {5}

    def test_no_final_obs_needed_without_time_outs(self) -> None:
        """Environments that only fail need no final observations."""
        alg, env = small_alg()
        obs = env.get_observations()
        alg.act(obs)
        alg.process_env_step(obs, torch.zeros(16), torch.ones(16), {})
        assert len(alg.storage) == 16

    def test_policy_explores_from_the_start(self) -> None:
        """Warm-up actions come from the initial policy: around the default pose, inside the bounds."""
        alg, env = small_alg()
        obs = TensorDict({"policy": torch.randn(16, 2)}, batch_size=[16])
        actions = torch.cat([alg.act(obs) for _ in range(250)])
        low, high = env.action_bounds
        assert bool(((actions > low) & (actions < high)).all())
        assert float(actions.mean()) == pytest.approx(0.0, abs=0.05)
        # sigma_0 c (1 - tanh^2 x_0) with c = 2.5 and tanh x_0 = -0.2
        assert float(actions.std()) == pytest.approx(0.15 * 2.5 * 0.96, rel=0.05)


class TestUpdate:
    """When it learns, and what it reports."""

    def test_training_start_iteration(self) -> None:
        """The first iterations only collect."""
        alg, env = small_alg(training_start_iteration=2)
        before = [parameter.clone() for parameter in alg.actor.parameters()]
        for _ in range(2):
            collect(alg, env, 8)
            assert alg.update() == {}
        assert all(torch.equal(a, b) for a, b in zip(before, alg.actor.parameters(), strict=True))
        collect(alg, env, 8)
        assert set(alg.update()) == set(METRICS) - {"rnd", "symmetry"}
        assert alg.num_updates == 4

    def test_normalization_follows_the_data(self) -> None:
        """Statistics are those of everything collected, and no inference tensors (rsl_rl up to 5.4.2)."""
        alg, env = small_alg(training_start_iteration=10)
        for _ in range(3):
            collect(alg, env, 8)
            alg.update()
        data = alg.storage.observations["policy"][:24].flatten(0, 1)
        for model in (alg.actor, alg.critic):
            statistics = model.state_dict()
            torch.testing.assert_close(statistics["obs_normalizer._mean"][0], data.mean(dim=0))
            torch.testing.assert_close(statistics["obs_normalizer._std"][0], data.std(dim=0, unbiased=False))
            assert not statistics["obs_normalizer._std"].is_inference()
        alg.load(alg.save(), None, True)

    def test_each_step_draws_its_own_batch(self) -> None:
        """No batch is used twice within an update."""
        alg, env = small_alg(num_mini_batches=6, num_learning_epochs=2)
        collect(alg, env, 20)
        drawn = []
        original = alg.storage._draw_starts
        alg.storage._draw_starts = lambda shape: drawn.append(original(shape)) or drawn[-1]  # type: ignore[method-assign]
        alg.iteration = 1
        alg.update()
        batches = torch.cat([steps * 16 + envs for steps, envs in drawn])
        assert batches.shape == (12, 64)
        assert len({tuple(batch.tolist()) for batch in batches}) == 12

    def test_replay_in_half_precision_and_policy_delay(self) -> None:
        """The options run together."""
        alg, env = small_alg(replay_dtype="float16", replay_action_dtype="float16", policy_update_frequency=3)
        for _ in range(3):
            collect(alg, env, 8)
            alg.update()
        assert alg.num_updates == 8 and alg.storage.observations["policy"].dtype == torch.float16
        assert next(iter(alg.actor_optimizer.state.values()))["step"] == 3  # at the updates 0, 3 and 6

    def test_layer_norm_and_many_critics(self) -> None:
        """Other network shapes learn as well."""
        cfg = small_cfg()
        cfg.actor.layer_norm = cfg.critic.layer_norm = True
        cfg.critic.num_critics = 5
        env = DoubleIntegrator(num_envs=16)
        alg = SAC.construct_algorithm(env.get_observations(), env, cfg.to_dict(), "cpu")
        before = [parameter.clone() for network in (alg.actor, alg.critic) for parameter in network.parameters()]
        for _ in range(2):
            collect(alg, env, 8)
            alg.update()
        after = [parameter for network in (alg.actor, alg.critic) for parameter in network.parameters()]
        assert all(bool((new != old).any()) for new, old in zip(after, before, strict=True))
        values = alg.critic(env.get_observations(), torch.zeros(16, 1))
        assert values.shape == (5, 16) and len({tuple(row) for row in values.tolist()}) == 5

    def test_metrics_of_a_delayed_policy(self) -> None:
        """The means are over the steps that have a value: a fixed temperature is reported as it is."""
        alg, env = small_alg(
            policy_update_frequency=3, auto_temperature=False, init_temperature=0.25, training_start_iteration=0
        )
        collect(alg, env, 8)
        metrics = alg.update()
        assert metrics["alpha"] == pytest.approx(0.25) and "temperature" not in metrics


class TestFaults:
    """Numbers that go wrong."""

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_reward(self, value: float) -> None:
        """A bad reward stops the run, names the environment and is not stored."""
        alg, env = small_alg()
        rewards = torch.zeros(16)
        rewards[3] = value
        obs = env.get_observations()
        alg.act(obs)
        with pytest.raises(NonFiniteError, match=r"reward.*\[3\], after 0 iterations.*No checkpoint"):
            alg.process_env_step(obs, rewards, torch.zeros(16), {})
        assert len(alg.storage) == 0

    def test_loss(self) -> None:
        """A broken network is reported with quantity, gradient step and the last good checkpoint."""
        alg, env = small_alg(training_start_iteration=0)
        collect(alg, env, 8)
        alg.update()
        alg.save()
        collect(alg, env, 8)
        original, count = alg._update_critic, [0]

        def sabotage(*args: object) -> dict:
            count[0] += 1
            if count[0] == 3:
                alg.critic.mlp.weights[0].data[0, 0, 0] = float("nan")
            return original(*args)  # type: ignore[arg-type]

        alg._update_critic = sabotage  # type: ignore[method-assign]
        with pytest.raises(NonFiniteError, match=r"gradient step 6 \(iteration 1\): critic, .*after iteration 0"):
            alg.update()

    def test_gradient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An infinite gradient is found even where the loss is finite."""
        alg, env = small_alg(training_start_iteration=0)
        collect(alg, env, 8)
        infinite = torch.full((alg.cfg.batch_size, env.num_actions), float("inf"))
        monkeypatch.setattr(alg.critic, "action_gradient", lambda *_: (torch.zeros(()), infinite))
        with pytest.raises(NonFiniteError, match=r"gradient step 0 .*actor_grad_norm"):
            alg.update()


class TestCheckpoint:
    """What is saved and loaded, in rsl_rl's protocol."""

    def test_parts(self) -> None:
        """load_cfg selects parts; the actor alone needs nothing else of the file."""
        (source, env), (target, _) = small_alg(training_start_iteration=0), small_alg()
        collect(source, env, 8)
        source.update()
        saved = source.save()
        critic_before = [parameter.clone() for parameter in target.critic.parameters()]
        assert target.load(saved, {"actor": True}, True) is False
        for one, other in zip(source.actor.parameters(), target.actor.parameters(), strict=True):
            assert torch.equal(one, other)
        assert all(torch.equal(a, b) for a, b in zip(critic_before, target.critic.parameters(), strict=True))
        assert target.iteration == 0
        assert target.load(saved, None, True) is True
        assert torch.equal(source.log_alpha, target.log_alpha) and target.num_updates == 4

    def test_replay_only_if_asked(self) -> None:
        """The replay is in the state if save_replay says so."""
        alg, env = small_alg(save_replay=True)
        collect(alg, env, 8)
        other, _ = small_alg(save_replay=True)
        other.load(alg.save(), None, True)
        assert len(other.storage) == len(alg.storage) == 128
        assert "replay_state_dict" not in small_alg()[0].save()

    @pytest.mark.parametrize(("desired_kl", "actor_rate"), [(None, 1e-5), (0.01, 7e-4)])
    def test_other_learning_rates(self, desired_kl: float | None, actor_rate: float) -> None:
        """The configuration's learning rates count, but for one that the KL divergence has moved."""
        alg, _ = small_alg(desired_kl=desired_kl)
        alg.actor_optimizer.param_groups[0]["lr"] = 7e-4
        rates = {"actor_learning_rate": 1e-5, "critic_learning_rate": 2e-5, "temperature_learning_rate": 3e-5}
        other, _ = small_alg(desired_kl=desired_kl, **rates)
        other.load(alg.save(), None, True)
        optimizers = (other.actor_optimizer, other.critic_optimizer, other.temperature_optimizer)
        assert [optimizer.param_groups[0]["lr"] for optimizer in optimizers] == [actor_rate, 2e-5, 3e-5]

    def test_of_ppo(self) -> None:
        """A checkpoint of PPO is told apart."""
        with pytest.raises(CheckpointError, match="not a checkpoint of SAC"):
            small_alg()[0].load({"actor_state_dict": {}, "critic_state_dict": {}}, None, True)

    def test_of_other_networks(self) -> None:
        """Other sizes are refused with torch's list of differences, in one line."""
        cfg = small_cfg()
        cfg.actor.hidden_dims = [8]
        env = DoubleIntegrator(num_envs=16)
        other = SAC.construct_algorithm(env.get_observations(), env, cfg.to_dict(), "cpu")
        with pytest.raises(CheckpointError, match="does not fit the networks") as error:
            small_alg()[0].load(other.save(), None, True)
        assert "mlp.0.weight" in str(error.value) and "\n" not in str(error.value)


class TestConstruction:
    """Configurations of all kinds."""

    def test_ppo_sections_are_understood(self) -> None:
        """Models of a PPO configuration become ours, of the same shape, without changing the configuration."""
        env = DoubleIntegrator(num_envs=16)
        cfg = small_cfg().to_dict()
        cfg["actor"] = {
            "class_name": "MLPModel", "hidden_dims": [24, 12], "activation": "elu",
            "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "scalar"},
        }  # fmt: skip
        cfg["critic"] = {"class_name": "MLPModel", "hidden_dims": [20], "activation": "elu", "distribution_cfg": None}
        alg = SAC.construct_algorithm(env.get_observations(), env, cfg, "cpu")
        assert alg.actor.mlp[0].out_features == 24 and alg.critic.mlp.weights[0].shape == (2, 3, 20)
        assert alg.actor.distribution.init_std == 0.15
        assert cfg["actor"]["distribution_cfg"]["class_name"] == "GaussianDistribution"

    @pytest.mark.parametrize(
        ("section", "key", "words"),
        [
            ("algorithm", "gama", "'algorithm.gama', did you mean 'gamma'"),
            ("algorithm", "clip_param", "a key of PPO"),
            ("actor", "hidden_dim", "'actor.hidden_dim', did you mean 'hidden_dims'"),
            ("critic", "num_critic", "did you mean 'num_critics'"),
        ],
    )
    def test_unknown_keys(self, section: str, key: str, words: str) -> None:
        """A typo is answered with the nearest name."""
        env = DoubleIntegrator(num_envs=16)
        cfg = small_cfg().to_dict()
        cfg[section][key] = 1
        with pytest.raises(ConfigError, match=words.replace(".", r"\.")):
            OnPolicyRunner(env, cfg)

    @pytest.mark.parametrize(
        ("section", "values", "words"),
        [
            ("actor", {"class_name": "RNNModel"}, "actor.class_name must be 'Actor'"),
            ("actor", {"hidden_dims": []}, "actor.hidden_dims must be"),
            ("actor", {"distribution_cfg": {"class_name": "rsl_rl_sac.models:Actor"}}, "must be 'SquashedGaussian'"),
            ("critic", {"num_critics": 0}, "critic.num_critics must be"),
        ],
    )
    def test_unusable_models(self, section: str, values: dict, words: str) -> None:
        """Models that SAC cannot use are refused by name."""
        env = DoubleIntegrator(num_envs=16)
        cfg = small_cfg().to_dict()
        cfg[section].update(values)
        with pytest.raises(ConfigError, match=words.replace(".", r"\.")):
            SAC.construct_algorithm(env.get_observations(), env, cfg, "cpu")

    def test_subclass_and_no_seed(self) -> None:
        """A subclass named in the configuration is what is built, also without a seed."""

        class Own(SAC):
            pass

        env = DoubleIntegrator(num_envs=16)
        cfg = {**small_cfg().to_dict(), "seed": None}
        assert type(Own.construct_algorithm(env.get_observations(), env, cfg, "cpu")) is Own

    def test_bounds_by_hand(self) -> None:
        """Bounds in the configuration win over the environment's."""
        alg, _ = small_alg(action_bounds=[-0.5, [0.25]])
        assert alg.actor.distribution.low.tolist() == [-0.5]
        assert alg.actor.distribution.high.tolist() == [0.25]

    def test_no_bounds(self) -> None:
        """An environment without bounds gets the two ways out."""
        env = DoubleIntegrator(num_envs=16)
        env.action_bounds = None  # type: ignore[assignment]
        with pytest.raises(EnvContractError, match=r"no 'action_bounds'.*algorithm.action_bounds"):
            SAC.construct_algorithm(env.get_observations(), env, small_cfg().to_dict(), "cpu")


def test_integers_of_numpy() -> None:
    """An environment may count in NumPy's integers; checkpoints have Python's."""
    env = DoubleIntegrator(4)
    env.num_envs, env.num_actions = np.int64(4), np.int64(1)  # type: ignore[assignment]
    cfg = small_cfg(save_replay=True).to_dict()
    alg = SAC.construct_algorithm(env.get_observations(), env, cfg, "cpu")
    check_plain(alg.save())


def test_isaac_lab_plays_without_the_replay() -> None:
    """Isaac Lab's script to play loads everything into a player, whose replay has another size."""
    env = DoubleIntegrator(16)
    algs = []
    for size in (1600, 320):
        cfg = small_cfg(save_replay=True, replay_size=size, training_start_iteration=0).to_dict()
        # Without the adapter, which needs environments of Isaac Lab.
        construct = SAC.construct_algorithm.__func__  # type: ignore[attr-defined]
        algs.append(construct(IsaacLabSAC, env.get_observations(), env, cfg, "cpu"))
    trained, player = algs
    obs = env.get_observations()
    for _ in range(5):
        obs, rewards, dones, extras = env.step(trained.act(obs))
        trained.process_env_step(obs, rewards, dones, extras)
    trained.update()
    with pytest.warns(UserWarning, match="The replay stays empty"):
        player.load(trained.save(), None, True)
    assert player.num_updates == trained.num_updates > 0 and player.storage.total_steps == 0
    with pytest.raises(CheckpointError):  # who asks for it is told
        player.load(trained.save(), {"replay": True}, True)
