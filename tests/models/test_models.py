# SPDX-License-Identifier: BSD-3-Clause

"""Actor and critics on rsl_rl's model classes."""

from __future__ import annotations

import pathlib

import onnxruntime
import pytest
import torch
import torch.nn as nn
from rsl_rl.models import MLPModel
from tensordict import TensorDict

from rsl_rl_sac.models import Actor, CriticEnsemble, normalized_observations, sees_the_same
from rsl_rl_sac.modules import SquashedGaussian
from rsl_rl_sac.utils import ConfigError
from rsl_rl_sac.utils.flat_parameters import FlatParameters

OBS = TensorDict({"policy": torch.randn(6, 5), "privileged": torch.randn(6, 3)}, batch_size=[6])
GROUPS = {"actor": ["policy"], "critic": ["policy", "privileged"]}


def test_asymmetric_groups() -> None:
    """The actor sees its group only, the critics see both."""
    actor = Actor(OBS, GROUPS, "actor", 2, [16])
    critic = CriticEnsemble(OBS, GROUPS, "critic", 2, 3, [16])
    assert isinstance(actor, MLPModel) and isinstance(critic, MLPModel)
    changed = OBS.clone()
    changed["privileged"] += 1.0
    assert torch.equal(actor(OBS), actor(changed))
    values = critic(OBS, torch.zeros(6, 2))
    assert values.shape == (3, 6) and not torch.allclose(values, critic(changed, torch.zeros(6, 2)))


def test_normalization() -> None:
    """Both normalize by the statistics they were given."""
    actor, critic = Actor(OBS, GROUPS, "actor", 2, [16]), CriticEnsemble(OBS, GROUPS, "critic", 2, 2, [16])
    for model in (actor, critic):
        model.update_normalization(OBS)
    both = torch.cat([OBS["policy"], OBS["privileged"]], dim=-1)
    expected = (both - both.mean(dim=0)) / (both.std(dim=0, unbiased=False) + 1e-2)
    torch.testing.assert_close(critic.get_latent(OBS), expected)
    torch.testing.assert_close(actor.get_latent(OBS), expected[:, :5])


def test_actor_layer_norm() -> None:
    """Normalizations sit between linear layer and activation, and the head stays as initialized."""
    actor = Actor(OBS, GROUPS, "actor", 2, [16, 8], layer_norm=True)
    kinds = [type(layer) for layer in actor.mlp]
    block = [nn.Linear, nn.LayerNorm, nn.SiLU]
    assert kinds == [*block, *block, nn.Linear, nn.Unflatten]
    actions, log_prob = actor.sample(actor.get_latent(OBS))
    assert actions.shape == (6, 2) and log_prob.shape == (6,)
    torch.testing.assert_close(actor.output_std, torch.full((6, 2), 0.15))
    scripted = torch.jit.script(actor.as_jit())
    torch.testing.assert_close(scripted(OBS["policy"]), actor(OBS))


def test_critic_exports(tmp_path: pathlib.Path) -> None:
    """TorchScript gives the same values for other batch sizes than it was traced with, and so does ONNX."""
    critic = CriticEnsemble(OBS, GROUPS, "critic", 2, 2, [16])
    both = torch.cat([OBS["policy"], OBS["privileged"]], dim=-1)
    actions = torch.randn(6, 2)
    expected = critic(OBS, actions)
    torch.testing.assert_close(critic.as_jit()(both, actions), expected)
    module = critic.as_onnx(verbose=False)
    names = ["obs", "actions"]
    torch.onnx.export(module, (both, actions), str(tmp_path / "critic.onnx"), input_names=names)
    session = onnxruntime.InferenceSession(str(tmp_path / "critic.onnx"))
    (values,) = session.run(None, {"obs": both.numpy(), "actions": actions.numpy()})
    torch.testing.assert_close(torch.as_tensor(values), expected.detach(), atol=1e-5, rtol=0.0)


def test_actor_needs_a_squashed_distribution() -> None:
    """An unbounded policy is refused."""
    with pytest.raises(ConfigError, match="squashed"):
        Actor(OBS, GROUPS, "actor", 2, [16], distribution_cfg={"class_name": "GaussianDistribution"})


@pytest.mark.parametrize(("activation", "layer_norm"), [("swish", False), ("softplus", False), ("relu", True)])
def test_actor_learns_from_what_it_acts_with(activation: str, layer_norm: bool) -> None:
    """The path of the learner, fused or not, is the network that acts and is exported."""
    actor = Actor(OBS, GROUPS, "actor", 2, [16, 8], activation, layer_norm=layer_norm)
    nn.init.normal_(actor.mlp[-2].weight)  # type: ignore[arg-type]
    latent = actor.get_latent(OBS)
    torch.testing.assert_close(actor._evaluate(latent), actor.mlp(latent))


def test_two_sets_of_observations() -> None:
    """Two sets are normalized as each on its own, one below the other."""
    critic = CriticEnsemble(OBS, GROUPS, "critic", 2, 2, [16])
    critic.update_normalization(OBS)
    other = TensorDict({name: values + 1.0 for name, values in OBS.items()}, batch_size=[6])
    expected = torch.cat([critic.get_latent(other), critic.get_latent(OBS)])
    torch.testing.assert_close(normalized_observations(critic, other, OBS), expected)


def test_who_sees_the_same() -> None:
    """Models see the same if they have the same groups in the same order and the same statistics."""
    groups = {"actor": ["policy", "privileged"], "critic": ["policy", "privileged"], "turned": ["privileged", "policy"]}
    actor, critic = Actor(OBS, groups, "actor", 2, [16]), CriticEnsemble(OBS, groups, "critic", 2, 2, [16])
    assert sees_the_same(actor, critic)
    actor.update_normalization(OBS)
    assert not sees_the_same(actor, critic)
    critic.update_normalization(OBS)
    assert sees_the_same(actor, critic)
    assert not sees_the_same(actor, Actor(OBS, GROUPS, "actor", 2, [16]))
    turned = Actor(OBS, groups, "turned", 2, [16])
    turned.obs_normalizer.load_state_dict(actor.obs_normalizer.state_dict())
    assert not sees_the_same(actor, turned)
    assert not sees_the_same(actor, Actor(OBS, groups, "actor", 2, [16], obs_normalization=False))


@pytest.mark.parametrize("num_atoms", [1, 7], ids=["scalar", "categorical"])
@pytest.mark.parametrize(
    ("activation", "layer_norm", "num_critics"),
    [("relu", False, 2), ("swish", False, 1), ("elu", False, 3), ("swish", True, 2), ("gelu", False, 2)],
)
@pytest.mark.usefixtures("double_precision")
def test_gradient_of_critics(activation: str, layer_norm: bool, num_critics: int, num_atoms: int) -> None:
    """The gradient is that of the loss by autograd through plain operations; loss and mean value are theirs too."""
    obs = TensorDict({"policy": torch.randn(6, 5), "privileged": torch.randn(6, 3)}, batch_size=[6])
    settings = {"layer_norm": layer_norm, "num_atoms": num_atoms, "value_range": (-2.0, 3.0)}
    critic = CriticEnsemble(obs, GROUPS, "critic", 2, num_critics, [16, 8], activation, **settings)  # type: ignore[arg-type]
    is_written_out = activation != "gelu" and not layer_norm
    assert critic.mlp.fused == is_written_out
    critic.mlp.fused = False  # what is expected must not come from the code that is tested
    latent, actions, target = critic.get_latent(obs), torch.randn(6, 2), 2.0 * torch.randn(6)
    expected_loss = critic.head.loss(critic.mlp(latent, actions), target)
    expected = torch.autograd.grad(expected_loss, list(critic.mlp.parameters()))
    critic.mlp.fused = is_written_out
    parameters = FlatParameters(critic.mlp.parameters())
    loss, value = critic.compute_gradient(latent, actions, target, parameters)
    torch.testing.assert_close(loss, expected_loss.detach())
    torch.testing.assert_close(value, critic(obs, actions).detach().mean())
    torch.testing.assert_close(parameters.gradient, torch.cat([gradient.flatten() for gradient in expected]))
    assert not loss.requires_grad and not value.requires_grad


@pytest.mark.parametrize("num_atoms", [1, 7], ids=["scalar", "categorical"])
@pytest.mark.parametrize("reduction", ["min", "mean"])
@pytest.mark.parametrize(
    ("activation", "layer_norm", "num_critics"),
    [("relu", False, 2), ("swish", False, 1), ("elu", False, 3), ("swish", True, 2), ("gelu", False, 2)],
)
@pytest.mark.usefixtures("double_precision")
def test_gradient_of_actions(
    activation: str, layer_norm: bool, num_critics: int, reduction: str, num_atoms: int
) -> None:
    """What the actor follows is the gradient by autograd through plain operations of the least or the mean value."""
    obs = TensorDict({"policy": torch.randn(6, 5), "privileged": torch.randn(6, 3)}, batch_size=[6])
    settings = {"layer_norm": layer_norm, "num_atoms": num_atoms, "value_range": (-2.0, 3.0)}
    critic = CriticEnsemble(obs, GROUPS, "critic", 2, num_critics, [16, 8], activation, **settings)  # type: ignore[arg-type]
    is_written_out, critic.mlp.fused = critic.mlp.fused, False
    latent, actions = critic.get_latent(obs), torch.randn(6, 2, requires_grad=True)
    values = critic.head(critic.mlp(latent, actions))
    expected_value = (values.min(dim=0).values if reduction == "min" else values.mean(dim=0)).mean()
    (expected,) = torch.autograd.grad(expected_value, actions)
    critic.mlp.fused = is_written_out
    value, gradient = critic.action_gradient(latent, actions.detach(), reduction)
    torch.testing.assert_close(value, expected_value.detach())
    torch.testing.assert_close(gradient, expected)
    assert not gradient.requires_grad and all(parameter.grad is None for parameter in critic.mlp.parameters())


@pytest.mark.parametrize(
    ("activation", "layer_norm"), [("relu", False), ("swish", False), ("swish", True), ("gelu", False)]
)
@pytest.mark.usefixtures("double_precision")
def test_gradient_of_actor(activation: str, layer_norm: bool) -> None:
    """The gradient for given ones of actions and log-probabilities is autograd's through the formula of the paper."""
    obs = TensorDict({"policy": 2.0 * torch.randn(6, 5)}, batch_size=[6])
    bounds = {"low": [-1.0, -0.5], "high": [2.0, 0.25], "init_std": 0.5, "log_std_range": (-1.0, 0.5)}
    distribution_cfg = {"class_name": SquashedGaussian, **bounds}
    actor = Actor(obs, GROUPS, "actor", 2, [16, 8], activation, True, layer_norm, distribution_cfg)
    nn.init.normal_(actor.mlp[-2].weight)  # type: ignore[arg-type]
    latent, action_grad, log_prob_grad = actor.get_latent(obs), torch.randn(4, 2), torch.randn(4)
    torch.manual_seed(1)
    noise = torch.cat([torch.randn(2, 2), torch.randn(4, 2)])
    mean, raw = actor.mlp(latent).unbind(dim=-2)
    log_std = raw.clamp(-1.0, 0.5)
    assert bool((raw != log_std).any()) and bool((raw[2:] == log_std[2:]).any())
    x = mean + log_std.exp() * noise
    actions = torch.tensor([0.5, -0.125]) + torch.tensor([1.5, 0.375]) * x.tanh()
    slope = torch.tensor([1.5, 0.375]) * (1.0 - x.tanh().square())
    log_prob = (torch.distributions.Normal(mean, log_std.exp()).log_prob(x) - slope.log()).sum(dim=-1)
    parameters = FlatParameters(actor.mlp.parameters())
    loss = (actions[2:] * action_grad).sum() + (log_prob[2:] * log_prob_grad).sum()
    expected = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(actor.mlp.parameters()))])
    torch.manual_seed(1)
    constants, sample = actor.sample_in_parts(latent, 2, keep=True)
    torch.testing.assert_close(torch.cat([constants[0], sample.actions]).detach(), actions.detach())
    torch.testing.assert_close(torch.cat([constants[1], sample.log_prob]).detach(), log_prob.detach())
    actor.compute_gradient(sample, action_grad, log_prob_grad, parameters)
    torch.testing.assert_close(parameters.gradient, expected)
    torch.manual_seed(1)
    unkept = actor.sample_in_parts(latent, 2, keep=False)[1]
    torch.testing.assert_close(unkept.actions, sample.actions.detach())
    assert not unkept.actions.requires_grad and unkept.tape is None
