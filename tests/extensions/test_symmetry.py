# SPDX-License-Identifier: BSD-3-Clause

"""Symmetry augmentation of mini-batches and mirror loss, by hand."""

from __future__ import annotations

import pytest
import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.config import SymmetryCfg
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.extensions import Symmetry
from rsl_rl_sac.models import Actor, ActorSample
from rsl_rl_sac.storage import Batch
from rsl_rl_sac.utils import ConfigError
from tests.helpers import small_alg, small_cfg


def negate(
    env: VecEnv, obs: TensorDict | None, actions: torch.Tensor | None
) -> tuple[TensorDict | None, torch.Tensor | None]:
    """Append the point reflection, under which a double integrator is symmetric."""
    if obs is not None:
        obs = torch.cat([obs, TensorDict({"policy": -obs["policy"]}, obs.batch_size)])  # type: ignore[assignment]
    return obs, torch.cat([actions, -actions]) if actions is not None else None


def make_batch() -> Batch:
    """Four transitions with numbers that tell them apart."""
    rows = torch.arange(1.0, 5.0)

    def obs(offset: float) -> TensorDict:
        return TensorDict({"policy": (rows + offset).unsqueeze(1)}, [4])

    return Batch(obs(0.0), (10.0 * rows).unsqueeze(1), 100.0 * rows, obs(0.5), rows / 10.0, rows.long())


def test_every_second_transition_is_mirrored() -> None:
    """Rows 1 and 3 stay, rows 2 and 4 change sign in state, action and next state; returns and discounts stay."""
    batch = make_batch()
    mirrored = Symmetry(DoubleIntegrator(num_envs=2), negate).augment(batch)
    assert mirrored.observations["policy"].flatten().tolist() == [1.0, -2.0, 3.0, -4.0]
    assert mirrored.actions.flatten().tolist() == [10.0, -20.0, 30.0, -40.0]
    assert mirrored.next_observations["policy"].flatten().tolist() == [1.5, -2.5, 3.5, -4.5]
    assert torch.equal(mirrored.returns, batch.returns) and torch.equal(mirrored.discounts, batch.discounts)
    assert batch.actions.flatten().tolist() == [10.0, 20.0, 30.0, 40.0]


def test_function_with_four_images() -> None:
    """Of four images each sample takes another one in turn."""

    def four(env: VecEnv, obs: TensorDict, actions: torch.Tensor | None) -> tuple:
        return (
            torch.cat([TensorDict({"policy": obs["policy"] * 10.0**k}, obs.batch_size) for k in range(4)]),
            torch.cat([actions * 10.0**k for k in range(4)]) if actions is not None else None,
        )

    mirrored = Symmetry(DoubleIntegrator(num_envs=2), four).augment(make_batch())
    assert mirrored.actions.flatten().tolist() == [10.0, 200.0, 3000.0, 40000.0]
    assert mirrored.next_observations["policy"].flatten().tolist() == [1.5, 25.0, 350.0, 4500.0]


def test_wrong_number_of_rows() -> None:
    """A function that returns half an image is refused with a message that says what it must return."""

    def one_and_a_half(env: VecEnv, obs: TensorDict, actions: torch.Tensor | None) -> tuple:
        return torch.cat([obs, obs[:2]]), torch.cat([actions, actions[:2]]) if actions is not None else None

    with pytest.raises(ConfigError, match="6 rows of a batch of 4"):
        Symmetry(DoubleIntegrator(num_envs=2), one_and_a_half).augment(make_batch())


def test_training_sees_mirrored_transitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a symmetry in the configuration the critics learn from both signs where the replay has one only."""
    env = DoubleIntegrator(num_envs=16)
    cfg = small_cfg(symmetry_cfg=SymmetryCfg("tests.extensions.test_symmetry:negate"), training_start_iteration=0)
    cfg.algorithm.action_bounds = [-2.0, 2.0]
    alg = SAC.construct_algorithm(env.get_observations(), env, cfg.to_dict(), "cpu")
    seen: list[Batch] = []
    update_critic = alg._update_critic

    def spy(batch: Batch, *rest: torch.Tensor) -> dict[str, torch.Tensor]:
        seen.append(batch)
        return update_critic(batch, *rest)

    monkeypatch.setattr(alg, "_update_critic", spy)
    obs = env.get_observations()
    for _ in range(8):
        obs["policy"].abs_()
        alg.record(obs, torch.full((16, env.num_actions), 0.5))
        obs, rewards, dones, _ = env.step(torch.zeros(16, env.num_actions))
        alg.process_env_step(obs, rewards, torch.zeros_like(dones), {})
    alg.update()
    actions = torch.cat([batch.actions for batch in seen])
    observations = torch.cat([batch.observations["policy"] for batch in seen])
    assert set(actions.unique().tolist()) == {-0.5, 0.5}
    assert torch.equal(actions > 0, (observations >= 0).all(dim=1, keepdim=True))


# -- A function written as Isaac Lab's are ---------------------------------------------------------------------------


class Legged(DoubleIntegrator):
    """Stands for a wrapped robot with two joints, one per side, whose critics see more than its actor."""

    def __init__(self, num_envs: int = 4) -> None:
        """Give the right joint the mirrored limits of the left one."""
        super().__init__(num_envs)
        self.num_actions = 2
        self.action_bounds = (torch.tensor([-1.0, -3.0]), torch.tensor([3.0, 1.0]))

    @property
    def unwrapped(self) -> Legged:
        """The environment itself, as Isaac Lab's wrapper gives it."""
        return self

    def get_observations(self) -> TensorDict:
        """Return positions of both joints, and for the critics also the sideways and the forward velocity."""
        joints = torch.arange(2.0 * self.num_envs).view(self.num_envs, 2)
        return TensorDict({"policy": joints, "critic": torch.cat([joints, 10.0 + joints], 1)}, [self.num_envs])


@torch.no_grad()
def left_right(
    env: VecEnv, obs: TensorDict | None = None, actions: torch.Tensor | None = None
) -> tuple[TensorDict | None, torch.Tensor | None]:
    """Stack originals and mirror images, either argument may be None."""
    assert env.unwrapped is env  # type: ignore[attr-defined]
    obs_aug = actions_aug = None
    if obs is not None:
        num = obs.batch_size[0]
        obs_aug = obs.repeat(2)
        obs_aug["policy"][num:] = -obs["policy"].flip(1)
        obs_aug["critic"][num:, :2] = -obs["critic"][:, :2].flip(1)
        obs_aug["critic"][num:, 2] = -obs["critic"][:, 2]
    if actions is not None:
        actions_aug = torch.zeros(2 * actions.shape[0], actions.shape[1], device=actions.device)
        actions_aug[: actions.shape[0]] = actions
        actions_aug[actions.shape[0] :] = -actions.flip(1)
    return obs_aug, actions_aug


def legged_alg(**symmetry: object) -> SAC:
    """Build SAC for the robot, with the function and further settings of rsl_rl's section."""
    env = Legged()
    cfg = small_cfg()
    cfg.obs_groups = {"actor": ["policy"], "critic": ["critic"]}
    cfg.actor.obs_normalization = cfg.critic.obs_normalization = False
    values = cfg.to_dict()
    values["algorithm"]["symmetry_cfg"] = {"data_augmentation_func": left_right, **symmetry}
    return SAC.construct_algorithm(env.get_observations(), env, values, "cpu")


def test_isaac_lab_function() -> None:
    """The function itself, not its name, is taken; both groups, actions and bootstrap states are mirrored."""
    alg = legged_alg(use_data_augmentation=True, use_mirror_loss=False, mirror_loss_coeff=0.0)
    assert alg.symmetry is not None
    obs = Legged(num_envs=2).get_observations()
    actions = torch.tensor([[0.1, 0.2], [0.3, 0.4]])
    batch = Batch(obs, actions, torch.tensor([5.0, 6.0]), 2.0 * obs, torch.ones(2), torch.arange(2))  # type: ignore[arg-type]
    mirrored = alg.symmetry.augment(batch)
    assert mirrored.observations["policy"].tolist() == [[0.0, 1.0], [-3.0, -2.0]]
    assert mirrored.observations["critic"].tolist() == [[0.0, 1.0, 10.0, 11.0], [-3.0, -2.0, -12.0, 13.0]]
    assert mirrored.next_observations["policy"].tolist() == [[0.0, 2.0], [-6.0, -4.0]]
    assert mirrored.next_observations["critic"].tolist() == [[0.0, 2.0, 20.0, 22.0], [-6.0, -4.0, -24.0, 26.0]]
    torch.testing.assert_close(mirrored.actions, torch.tensor([[0.1, 0.2], [-0.4, -0.3]]))
    assert mirrored.returns.tolist() == [5.0, 6.0]


class Linear(torch.nn.Module):
    """A policy whose mean action is the observation times a matrix."""

    def __init__(self, matrix: list[list[float]]) -> None:
        """Take the matrix."""
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.tensor(matrix))

    def forward(self, obs: TensorDict) -> torch.Tensor:
        """Return the mean actions."""
        return obs["policy"] @ self.matrix


def test_mirror_loss_by_hand() -> None:
    """Policy (a, b) of (x, y) = (x, 0): at (1, 2) it does (1, 0), whose image is (0, -1); at the image it does (-2, 0).

    The loss is the mean of (-2 - 0)^2 and (0 + 1)^2. The gradient moves what is done at the image (-2, -1) only: its
    first action has slope 2 * -2 / 2 = -2, its second 2 * 1 / 2 = 1, so the matrix gets the products with (-2, -1).
    """
    policy = Linear([[1.0, 0.0], [0.0, 0.0]])
    symmetry = Symmetry(Legged(), left_right, use_mirror_loss=True)
    obs = TensorDict({"policy": torch.tensor([[1.0, 2.0]]), "critic": torch.zeros(1, 4)}, [1])
    loss = symmetry.mirror_loss(policy, obs)  # type: ignore[arg-type]
    assert float(loss.detach()) == 2.5
    loss.backward()
    assert policy.matrix.grad is not None
    assert policy.matrix.grad.tolist() == [[4.0, -2.0], [2.0, -1.0]]
    symmetric = Linear([[1.0, 0.5], [0.5, 1.0]])
    assert float(symmetry.mirror_loss(symmetric, obs).detach()) == 0.0  # type: ignore[arg-type]


@pytest.mark.parametrize("use", [True, False])
def test_mirror_loss_in_training(use: bool) -> None:
    """The actor steps along its loss plus the weighted mirror loss; without use_mirror_loss it is reported only."""
    torch.manual_seed(0)
    alg = legged_alg(use_data_augmentation=False, use_mirror_loss=use, mirror_loss_coeff=0.5)
    assert alg.symmetry is not None
    obs = Legged(num_envs=8).get_observations()
    batch = Batch(obs, torch.zeros(8, 2), torch.zeros(8), obs, torch.ones(8), torch.arange(8))
    latent = alg.critic.get_latent(obs)
    actions, log_prob = alg.actor.sample(alg.actor.get_latent(obs))
    parameters = list(alg.actor.mlp.parameters())
    mirror_loss = mean_difference(alg.actor, obs)
    loss = (alg.alpha * log_prob - alg.critic.mlp(latent, actions).squeeze(-1).min(dim=0).values).mean()
    total = loss + 0.5 * mirror_loss if use else loss
    expected = torch.autograd.grad(total, parameters, retain_graph=True)
    expected = torch.cat([gradient.flatten() for gradient in expected])
    metrics = alg._update_actor(batch, latent, ActorSample(actions, log_prob))
    assert float(metrics["symmetry"]) == pytest.approx(float(mirror_loss), rel=1e-5) and float(mirror_loss) > 0.0
    assert float(metrics["actor"]) == pytest.approx(float(loss), rel=1e-5)
    scale = min(1.0, alg.cfg.max_grad_norm / (float(expected.norm()) + 1e-6))
    torch.testing.assert_close(alg._actor_parameters.gradient, scale * expected, rtol=1e-4, atol=1e-6)


def mean_difference(actor: Actor, obs: TensorDict) -> torch.Tensor:
    """Return the mirror loss of the two joints, written out."""
    there = TensorDict({"policy": torch.stack([-obs["policy"][:, 1], -obs["policy"][:, 0]], dim=1)}, obs.batch_size)
    here = actor(obs).detach()
    return ((actor(there) - torch.stack([-here[:, 1], -here[:, 0]], dim=1)) ** 2).mean()


def test_augmentation_alone_has_no_mirror_loss() -> None:
    """It costs a pass of the actor; without it nothing is reported."""
    alg, _ = small_alg(
        symmetry_cfg=SymmetryCfg("tests.extensions.test_symmetry:negate"), action_bounds=[-1.0, 1.0], num_mini_batches=1
    )
    assert alg.symmetry is not None and not alg.symmetry.has_mirror_loss


# -- What does not fit -----------------------------------------------------------------------------------------------


def test_bounds_that_are_not_symmetric() -> None:
    """The double integrator's bounds [-2, 3] are no image of themselves, and one line says so."""
    with pytest.raises(ConfigError, match=r"action 0 are \[-2, 3\], but the mirror image .* is \[-3, 2\]"):
        small_alg(symmetry_cfg=SymmetryCfg("tests.extensions.test_symmetry:negate"))
    small_alg(symmetry_cfg=SymmetryCfg("tests.extensions.test_symmetry:negate"), action_bounds=[-2.0, 2.0])


def test_bounds_that_change_places() -> None:
    """Limits [-1, 3] on the left and [-3, 1] on the right are each other's image; the same on both sides are not."""
    symmetry = Symmetry(Legged(), left_right)
    symmetry.check_action_bounds(*Legged().action_bounds)
    with pytest.raises(ConfigError, match=r"action 0 are \[-1, 3\], but the mirror image .* is \[-3, 1\]"):
        symmetry.check_action_bounds(torch.tensor([-1.0, -1.0]), torch.tensor([3.0, 3.0]))


def test_lost_group() -> None:
    """A function that returns fewer groups than it was given is refused."""

    def forgetful(env: VecEnv, obs: TensorDict, actions: torch.Tensor | None) -> tuple:
        images, actions = left_right(env, obs, actions)
        assert images is not None
        return images.exclude("critic"), actions

    obs = Legged(num_envs=2).get_observations()
    batch = Batch(obs, torch.zeros(2, 2), torch.zeros(2), obs, torch.ones(2), torch.arange(2))
    with pytest.raises(ConfigError, match="no observation group 'critic'"):
        Symmetry(Legged(), forgetful).augment(batch)


def test_group_that_is_not_mirrored() -> None:
    """A group that is only repeated is most likely forgotten, and a warning names it, once."""

    def half(env: VecEnv, obs: TensorDict, actions: torch.Tensor | None) -> tuple:
        images, actions = left_right(env, obs, actions)
        assert images is not None
        images["critic"] = obs["critic"].repeat(2, 1)
        return images, actions

    obs = Legged(num_envs=2).get_observations()
    batch = Batch(obs, torch.zeros(2, 2), torch.zeros(2), obs, torch.ones(2), torch.arange(2))
    symmetry = Symmetry(Legged(), half)
    with pytest.warns(UserWarning, match="leaves the observation group 'critic'") as records:
        symmetry.augment(batch)
        symmetry.augment(batch)
    assert len(records) == 1
