# SPDX-License-Identifier: BSD-3-Clause

"""Random network distillation for a replay: curiosity that does not go stale."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from rsl_rl.env import VecEnv
from rsl_rl.extensions import RandomNetworkDistillation
from rsl_rl.modules import EmpiricalDiscountedVariationNormalization, EmpiricalNormalization
from tensordict import TensorDict

from rsl_rl_sac.config import RndCfg
from rsl_rl_sac.storage import Batch, ReplayStorage
from rsl_rl_sac.utils.checkpoint import check_network, check_parts
from rsl_rl_sac.utils.distributed import naming_lost_process, update_normalizer
from rsl_rl_sac.utils.errors import CheckpointError, ConfigError
from rsl_rl_sac.utils.flat_parameters import FlatAdam, FlatParameters

WARM_UP_STEPS = 100
"""Vector steps before normalized rewards are stored: the horizon of the discounted sums behind the statistics."""


class ReplayRND(RandomNetworkDistillation):
    """rsl_rl's random network distillation, for an algorithm that learns from a replay.

    A predictor learns the outputs of a random network. Its error at the observation that a step led to is the intrinsic
    reward of the step: large where few have been. As rsl_rl has it, the weight schedule and the reward statistics move
    on with every vector step. But a replay outlives the predictor, so the rewards of a mini-batch are computed when it
    is drawn, each window's with the masks and discounts of the extrinsic ones, unless ``recompute_rewards`` is off.

    A failure gets no intrinsic reward: what it led to is not stored, and nobody shall be curious to fall. Nor do the
    first steps if normalized rewards are stored: divided by statistics of next to nothing they are up to a thousand
    times too large, and unlike in PPO they would stay.
    """

    def __init__(
        self,
        cfg: RndCfg,
        num_states: int,
        obs_groups: dict[str, list[str]],
        step_dt: float = 1.0,
        device: torch.device | str = "cpu",
        world_size: int = 1,
    ) -> None:
        """Build the networks.

        Args:
            cfg: Settings.
            num_states: Number of observations that novelty is judged by.
            obs_groups: Observation groups; ``rnd_state`` lists those that novelty is judged by.
            step_dt: Seconds per step, which rsl_rl multiplies the weight by.
            device: Device of the learner.
            world_size: Number of processes, over which the predictor's gradients are averaged.
        """
        super().__init__(
            num_states=num_states,
            obs_groups=obs_groups,
            num_outputs=cfg.num_outputs,
            predictor_hidden_dims=cfg.predictor_hidden_dims,
            target_hidden_dims=cfg.target_hidden_dims,
            activation=cfg.activation,
            state_normalization=cfg.state_normalization,
            reward_normalization=cfg.reward_normalization,
            weight=cfg.weight * step_dt,
            weight_schedule=cfg.weight_schedule,
            device=str(device),
        )
        self.cfg = cfg
        self.world_size = world_size
        self.weight: float = self.initial_weight
        """Factor on the intrinsic rewards, after the last vector step."""
        self.groups = obs_groups["rnd_state"]
        """Observation groups that novelty is judged by."""
        self.target.requires_grad_(False)
        self.flat_parameters = FlatParameters(self.predictor.parameters())
        """The parameters of the predictor."""
        # In place of rsl_rl's own, which 5.0 does not have.
        self.optimizer = FlatAdam(self.flat_parameters.vector, cfg.learning_rate)

    def process_step(
        self, obs: TensorDict, dones: torch.Tensor, time_outs: torch.Tensor | None, final_obs: TensorDict | None
    ) -> torch.Tensor:
        """Return the intrinsic rewards of a vector step; the schedule and the reward statistics move on.

        Args:
            obs: Observations after the step, and after the reset of those that ended.
            dones: Whether the episode ended.
            time_outs: Whether it ended by time, None if none did.
            final_obs: Observations before the reset, None if they are not known.
        """
        timed_out = torch.zeros_like(dones, dtype=torch.bool)
        if time_outs is not None and final_obs is not None:
            timed_out = (dones > 0) & (time_outs.to(dones.device) > 0)
        # Out of inference mode, in which runners collect: its tensors could not be updated or loaded into later.
        with torch.inference_mode(False), torch.no_grad():
            reached = {group: obs[group].clone() for group in self.groups}
            if final_obs is not None:
                for group, values in reached.items():
                    values[timed_out] = final_obs[group].to(values)[timed_out]
            with naming_lost_process():  # rsl_rl's statistics are of all processes, from 5.5 on
                rewards = self.get_intrinsic_reward(TensorDict(reached, obs.batch_size))
            if not self.cfg.recompute_rewards and self.reward_normalization and self.update_counter <= WARM_UP_STEPS:
                rewards.zero_()
            return rewards.masked_fill((dones > 0) & ~timed_out, 0.0)

    def add_rewards(self, batch: Batch, storage: ReplayStorage) -> Batch:
        """Return the batch with the intrinsic rewards of its windows in the returns, unless they are stored there."""
        if not self.cfg.recompute_rewards:
            return batch
        obs, factors = storage.reached_observations(batch.indices.to(storage.device), self.groups)
        device = batch.returns.device
        rewards = self.novelty(obs.to(device)).view_as(factors)
        return replace(batch, returns=batch.returns + (factors.to(device) * rewards).sum(dim=-1))

    def get_rnd_state(self, obs: TensorDict) -> torch.Tensor:
        """Return the observations that novelty is judged by as one tensor, whatever their type."""
        return torch.cat([obs[group].to(torch.get_default_dtype()) for group in self.groups], dim=-1)

    @torch.no_grad()
    def novelty(self, obs: TensorDict) -> torch.Tensor:
        """Return the intrinsic rewards of observations as of now; nothing moves on."""
        states = self.state_normalizer(self.get_rnd_state(obs))
        rewards = torch.linalg.vector_norm(self.target(states) - self.predictor(states), dim=-1)
        if isinstance(self.reward_normalizer, EmpiricalDiscountedVariationNormalization):
            std = self.reward_normalizer.emp_norm.std
            rewards = torch.where(std > 0.0, rewards / std, rewards)  # rsl_rl does not divide by 0 either
        return self.weight * rewards

    def update_normalization(self, obs: TensorDict) -> None:
        """Update the observation statistics by what all processes saw."""
        if self.world_size > 1 and isinstance(self.state_normalizer, EmpiricalNormalization):
            update_normalizer(self.state_normalizer, self.get_rnd_state(obs))
        else:
            super().update_normalization(obs)

    def learn(self, obs: TensorDict) -> torch.Tensor:
        """Make a gradient step of the predictor and return its loss."""
        self.flat_parameters.ensure_bound()
        with torch.no_grad():
            states = self.state_normalizer(self.get_rnd_state(obs))
            target = self.target(states)
        loss = torch.nn.functional.mse_loss(self.predictor(states), target)
        self.flat_parameters.compute_gradient(loss, math.inf, self.world_size)
        self.optimizer.step()
        return loss.detach()

    def save(self) -> dict:
        """Return all that the future depends on, which is more than rsl_rl's ``state_dict``."""
        return {
            "networks": self.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "update_counter": self.update_counter,
            "weight": self.weight,
            "discounted_rewards": self._discounted_rewards,
            "recompute_rewards": self.cfg.recompute_rewards,
        }

    def check(self, state: dict | None, has_replay: bool, strict: bool = True) -> None:
        """Raise an error if training cannot go on from what a checkpoint holds.

        Args:
            state: What :meth:`save` returned, None if the checkpoint has none.
            has_replay: Whether the replay is loaded too.
            strict: Whether the parameters must match exactly.
        """
        if state is None:
            parts = dict.fromkeys(("actor", "critic", "optimizer", "iteration"), True)
            raise CheckpointError(
                f"The checkpoint is of a run without RND. To begin with RND, pass load_cfg={parts}, or --start-from on"
                " the command line."
            )
        check_parts(state, {"networks": dict, "optimizer": dict, "update_counter": int}, "The checkpoint's RND")
        if strict:
            check_network(state["networks"], self.state_dict())
        if has_replay and state["recompute_rewards"] != self.cfg.recompute_rewards:
            raise CheckpointError(
                f"The saved replay is of a run with rnd_cfg.recompute_rewards = {state['recompute_rewards']}: its"
                f" rewards {'lack' if state['recompute_rewards'] else 'hold'} the intrinsic ones. Set it to the same."
            )

    def load(self, state: dict, num_envs: int, strict: bool = True) -> None:
        """Restore what :meth:`save` returned.

        Args:
            state: State.
            num_envs: Number of environments; statistics that belong to single ones of another number are dropped.
            strict: Whether the parameters must match exactly.
        """
        self.load_state_dict(state["networks"], strict=strict)
        self.optimizer.load_state_dict(state["optimizer"])
        self.update_counter = state["update_counter"]
        self.weight = state["weight"]
        if isinstance(self.reward_normalizer, EmpiricalDiscountedVariationNormalization):
            rewards = state["discounted_rewards"]
            fits = rewards is not None and len(rewards) == num_envs
            self.reward_normalizer.disc_avg.avg = rewards.clone().to(self.device) if fits else None

    @property
    def _discounted_rewards(self) -> torch.Tensor | None:
        """Sums of discounted intrinsic rewards, of each environment, which the reward statistics are taken of."""
        if not isinstance(self.reward_normalizer, EmpiricalDiscountedVariationNormalization):
            return None
        return self.reward_normalizer.disc_avg.avg


def build_rnd(
    cfg: RndCfg,
    obs: TensorDict,
    obs_groups: dict[str, list[str]],
    env: VecEnv,
    device: torch.device | str,
    world_size: int = 1,
) -> ReplayRND:
    """Build random network distillation for an environment, as rsl_rl resolves its configuration.

    Raises:
        ConfigError: If an observation group is not a vector.
    """
    for group in obs_groups["rnd_state"]:
        if obs[group].dim() != 2:
            raise ConfigError(
                f"RND takes vectors, but the observation group '{group}' has shape {tuple(obs[group].shape[1:])}. Set"
                " obs_groups.rnd_state to other groups."
            )
    num_states = sum(obs[group].shape[1] for group in obs_groups["rnd_state"])
    step_dt = getattr(getattr(env, "unwrapped", env), "step_dt", 1.0)
    return ReplayRND(cfg, num_states, obs_groups, step_dt, device, world_size)
