# SPDX-License-Identifier: BSD-3-Clause

"""Options beyond the paper, all off by default."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.config import CriticCfg, RunnerCfg, SACCfg
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.presets import preset
from rsl_rl_sac.utils.errors import ConfigError
from tests.helpers import collect, small_alg, small_cfg


def test_off_by_default() -> None:
    """The defaults, and so preset paper, are the paper's: every option of docs/method.md's table is off."""
    off = {
        "value_reduction": "min",
        "reward_scale": 1.0,
        "actor_start_update": 0,
        "exploration_scale": (1.0, 1.0),
        "exploration_correlation": (0.0, 0.0),
        "desired_kl": None,
        "final_target_entropy_scale": None,
        "anneal_progress": None,
        "final_learning_rate_scale": 1.0,
        "largest_action": None,
        "symmetry_cfg": None,
        "rnd_cfg": None,
    }
    for cfg in (RunnerCfg(), preset("paper", "Unitree-Go2"), preset("paper", "Unitree-H1")):
        assert isinstance(cfg, RunnerCfg)
        assert {name: getattr(cfg.algorithm, name) for name in off} == off
        assert (cfg.critic.num_atoms, cfg.critic.layer_norm, cfg.actor.layer_norm) == (1, False, False)
        assert not cfg.overlap and not cfg.coarse_physics


def test_reduction() -> None:
    """Values 1 and 3 of two critics are 1 by the minimum and 2 by the mean."""
    values = torch.tensor([[1.0, 4.0], [3.0, -2.0]])
    alg, _ = small_alg()
    for reduction, expected in (("min", [1.0, -2.0]), ("mean", [2.0, 1.0])):
        assert alg.critic.reduce(values, reduction).tolist() == expected


@pytest.mark.parametrize(("reduction", "value"), [("min", 1.0), ("mean", 2.0)])
def test_reduction_in_training(reduction: str, value: float) -> None:
    """Critics that say 1 and 3 everywhere: the target of a reward of 0 and the actor's value are 1 or 2, discounted."""
    alg, env = small_alg(value_reduction=reduction, init_temperature=0.0, auto_temperature=False, n_step=1, gamma=0.5)
    collect(alg, env)
    for network in (alg.critic.mlp, alg.target_critic):
        for parameter in network.parameters():
            parameter.data.zero_()
        network.biases[-1].data = torch.tensor([1.0, 3.0]).view(2, 1, 1)
    batch = alg.storage.sample(64)
    batch = dataclasses.replace(batch, returns=torch.zeros(64), discounts=torch.full((64,), 0.5))
    alg.critic_optimizer.param_groups[0]["lr"] = 0.0
    metrics = alg._gradient_step(batch, same_latents=False)
    assert float(metrics["critic"]) == pytest.approx(((1.0 - value / 2) ** 2 + (3.0 - value / 2) ** 2) / 2)
    assert float(metrics["actor"]) == pytest.approx(-value)


def test_reward_scale_scales_the_target() -> None:
    """Critics that predict 0 with nothing to bootstrap have the loss (scale * return)^2."""
    losses = {}
    for scale in (1.0, 3.0):
        alg, env = small_alg(reward_scale=scale, gamma=0.0, n_step=1)
        for parameter in alg.critic.mlp.parameters():
            parameter.data.zero_()
        collect(alg, env)
        batch = alg.storage.sample(64)
        losses[scale] = float(alg._gradient_step(batch, same_latents=False)["critic"])
        assert losses[scale] == pytest.approx(scale**2 * float(batch.returns.square().mean()), rel=1e-5)


def test_actor_waits_for_the_critics() -> None:
    """The actor and the temperature stay as they are for the given number of gradient steps, then move."""
    alg, env = small_alg(actor_start_update=6, training_start_iteration=0, num_mini_batches=4)
    before = [parameter.clone() for parameter in alg.actor.mlp.parameters()]
    alpha = alg.alpha.clone()
    collect(alg, env)
    assert "actor" not in alg.update()
    assert all(torch.equal(a, b) for a, b in zip(before, alg.actor.mlp.parameters(), strict=True))
    assert torch.equal(alpha, alg.alpha)
    assert "actor" in alg.update()
    assert not all(torch.equal(a, b) for a, b in zip(before, alg.actor.mlp.parameters(), strict=True))
    assert not torch.equal(alpha, alg.alpha)


def test_categorical_critic_learns_the_reward() -> None:
    """Without a future, the values come close to the rewards of the batch."""
    env = DoubleIntegrator(num_envs=16)
    cfg = small_cfg(gamma=0.0, n_step=1, critic_learning_rate=3e-3, num_mini_batches=300, training_start_iteration=0)
    cfg.critic.num_atoms, cfg.critic.value_range = 51, (-4.0, 1.0)
    alg = SAC.construct_algorithm(env.get_observations(), env, cfg.to_dict(), "cpu")
    collect(alg, env, 40)
    batch = alg.storage.sample(256)
    before = (alg.critic(batch.observations, batch.actions) - batch.returns).abs().mean()
    alg.update()
    after = (alg.critic(batch.observations, batch.actions) - batch.returns).abs().mean()
    assert alg.critic(batch.observations, batch.actions).shape == (2, 256)
    assert after.item() < 0.2 * before.item()


def test_categorical_critic_is_saved_and_exported() -> None:
    """State and exported values are those of the model."""
    env = DoubleIntegrator(num_envs=4)
    cfg = small_cfg()
    cfg.critic.num_atoms = 21
    first, second = (SAC.construct_algorithm(env.get_observations(), env, cfg.to_dict(), "cpu") for _ in range(2))
    second.load(first.save(), None, strict=True)
    obs, actions = env.get_observations(), torch.rand(4, 1)
    assert torch.equal(first.critic(obs, actions), second.critic(obs, actions))
    exported = first.critic.as_jit()(obs["policy"], actions)
    assert torch.allclose(exported, first.critic(obs, actions), atol=1e-5)


@pytest.mark.parametrize(
    "values", [{"value_reduction": "max"}, {"reward_scale": 0.0}, {"actor_start_update": -1}, {"reward_scale": "1"}]
)
def test_bad_values(values: dict) -> None:
    """Values out of range are refused by name."""
    with pytest.raises(ConfigError, match=next(iter(values))):
        SACCfg(**values)


def test_bad_critic_values() -> None:
    """An empty range of values and no atoms are refused."""
    with pytest.raises(ConfigError, match="value_range"):
        CriticCfg(value_range=(1.0, 1.0))
    with pytest.raises(ConfigError, match="num_atoms"):
        CriticCfg(num_atoms=0)


def test_target_entropy_moves_linearly() -> None:
    """From scale 0.5 to -0.3 between the gradient steps 10 and 30, it is 0.1 in the middle, and stays at the end."""
    alg, _ = small_alg(target_entropy_scale=0.5, final_target_entropy_scale=-0.3, target_entropy_updates=(10, 30))
    expected = {0: 0.5, 10: 0.5, 20: 0.1, 25: -0.1, 30: -0.3, 1000: -0.3}
    for updates, scale in expected.items():
        alg.num_updates = updates
        assert alg.target_entropy == pytest.approx(-scale * alg.actor.distribution.output_dim)


def test_learning_rates_move_linearly() -> None:
    """To a quarter between the gradient steps 10 and 30: 0.625 in the middle, and the optimizers step by it."""
    options = {"actor_learning_rate": 4e-3, "critic_learning_rate": 8e-3, "target_entropy_updates": (10, 30)}
    alg, env = small_alg(final_learning_rate_scale=0.25, training_start_iteration=0, **options)
    collect(alg, env, 20)
    for updates, factor in {0: 1.0, 10: 1.0, 20: 0.625, 30: 0.25, 1000: 0.25}.items():
        alg.num_updates = updates
        alg.update()
        assert alg.learning_rate == pytest.approx(factor * 4e-3)
        assert alg.critic_optimizer.param_groups[0]["lr"] == pytest.approx(factor * 8e-3)


@pytest.mark.parametrize(("shift", "factor"), [(0.0, 1.5), (0.1, 1.0), (1.0, 1 / 1.5)])
def test_learning_rate_follows_the_divergence(shift: float, factor: float) -> None:
    """A policy whose mean moved by k sigma has diverged by k^2 / 2: too little speeds the actor up, too much slows it.

    The desired divergence of 0.005 is that of a shift by 0.1 sigma; the rule acts outside of its half and its double.
    """
    alg, env = small_alg(desired_kl=0.005)
    latent = alg.actor.get_latent(env.get_observations())
    mean, std = alg.actor.distribution_parameters(latent)
    before = alg.learning_rate
    divergence = alg.actor.distribution.kl_divergence((mean + shift * std, std), (mean, std)).mean()
    alg._learning_rates.adapt(float(divergence))
    assert alg.learning_rate == pytest.approx(factor * before)


def test_desired_divergence_is_reached() -> None:
    """Over some iterations the divergence of an iteration settles within the band around what is desired."""
    alg, env = small_alg(desired_kl=0.01, training_start_iteration=0, num_mini_batches=8)
    collect(alg, env, 20)
    divergences = []
    for _ in range(40):
        latent = alg.actor.get_latent(env.get_observations())
        old = alg.actor.distribution_parameters(latent)
        alg.update()
        new = alg.actor.distribution_parameters(latent)
        divergences.append(float(alg.actor.distribution.kl_divergence(old, new).mean()))
    assert 0.003 < sorted(divergences[20:])[10] < 0.03


@pytest.mark.parametrize(
    "settings",
    [
        {"exploration_scale": (0.0, 1.0)},
        {"exploration_correlation": (0.0, 1.0)},
        {"desired_kl": 0.0},
        {"final_target_entropy_scale": float("nan")},
        {"target_entropy_updates": (5, 5)},
        {"final_learning_rate_scale": 0.0},
        {"final_learning_rate_scale": 0.5, "desired_kl": 0.01},
    ],
)
def test_options_are_checked(settings: dict) -> None:
    """Values out of range are refused by name."""
    with pytest.raises(ConfigError, match=next(iter(settings))):
        SACCfg(**settings)
