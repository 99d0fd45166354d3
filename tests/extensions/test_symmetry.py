# SPDX-License-Identifier: BSD-3-Clause

"""Symmetry augmentation of mini-batches, by hand."""

from __future__ import annotations

import pytest
import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.config import SymmetryCfg
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.extensions import Symmetry
from rsl_rl_sac.storage import Batch
from rsl_rl_sac.utils import ConfigError
from tests.helpers import small_cfg


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
    alg = SAC.construct_algorithm(env.get_observations(), env, cfg.to_dict(), "cpu")
    seen: list[Batch] = []
    update_critic = alg._update_critic

    def spy(batch: Batch, latent: torch.Tensor) -> dict[str, torch.Tensor]:
        seen.append(batch)
        return update_critic(batch, latent)

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
