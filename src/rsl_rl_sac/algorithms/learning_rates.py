# SPDX-License-Identifier: BSD-3-Clause

"""The learning rates of SAC: those of the configuration, or on the way to lower ones, or led by the KL divergence."""

from __future__ import annotations

import torch

from rsl_rl_sac.config import SACCfg


class LearningRates:
    """Sets the learning rates of actor, critics and temperature."""

    def __init__(
        self,
        cfg: SACCfg,
        actor: torch.optim.Optimizer,
        critic: torch.optim.Optimizer,
        temperature: torch.optim.Optimizer,
    ) -> None:
        """Take over the optimizers, which have the learning rates of the configuration."""
        self.cfg = cfg
        self._optimizers = {"actor": actor, "critic": critic, "temperature": temperature}

    def reset(self) -> None:
        """Go on with the rates of the configuration after optimizers were loaded, not with those of a checkpoint.

        Where they sink, :meth:`anneal` does the rest; one that follows the KL divergence goes on where it was.
        """
        for name in self._optimizers:
            if name != "actor" or self.cfg.desired_kl is None:
                self._set(name, getattr(self.cfg, f"{name}_learning_rate"))

    def anneal(self, share: float) -> None:
        """Lower the rates of actor and critics, if they sink, to where they are after some share of the way."""
        if self.cfg.final_learning_rate_scale != 1.0:
            factor = 1.0 + share * (self.cfg.final_learning_rate_scale - 1.0)
            self._set("actor", factor * self.cfg.actor_learning_rate)
            self._set("critic", factor * self.cfg.critic_learning_rate)

    def adapt(self, kl: float) -> None:
        """Let an iteration change the policy by the desired KL divergence, with the rule of rsl_rl's PPO."""
        assert self.cfg.desired_kl is not None
        (group,) = self._optimizers["actor"].param_groups
        if kl > 2.0 * self.cfg.desired_kl:
            group["lr"] = max(group["lr"] / 1.5, 1e-6)
        elif kl < 0.5 * self.cfg.desired_kl:
            group["lr"] = min(group["lr"] * 1.5, 1e-3)

    def _set(self, name: str, rate: float) -> None:
        self._optimizers[name].param_groups[0]["lr"] = rate
