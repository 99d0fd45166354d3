# SPDX-License-Identifier: BSD-3-Clause

"""The runner that mjlab's ``train`` and ``play`` use for SAC."""

from __future__ import annotations

import copy

from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
from mjlab.tasks.velocity.rl import VelocityOnPolicyRunner

from rsl_rl_sac.envs.mjlab import MjlabVecEnv
from rsl_rl_sac.runners.off_policy_runner import OffPolicyRunner
from rsl_rl_sac.utils.errors import ConfigError


class _MjlabOffPolicyRunner(OffPolicyRunner, MjlabOnPolicyRunner):
    """Training and checkpoints of this package; the rest, as the export to ONNX, is mjlab's."""

    def __init__(
        self,
        env: RslRlVecEnvWrapper | MjlabVecEnv,
        train_cfg: dict,
        log_dir: str | None = None,
        device: str = "cpu",
    ) -> None:
        """Construct the runner.

        Args:
            env: Environments as mjlab's scripts build them, or with the adapter around them.
            train_cfg: Configuration as a dictionary.
            log_dir: Folder of the run; without one the runner can only play.
            device: Device of the learner.
        """
        if log_dir is None:
            # A policy that is played needs none of the replay, which is made for gigabytes.
            train_cfg = copy.deepcopy(train_cfg)
            train_cfg["algorithm"]["replay_size"] = env.num_envs * (train_cfg["algorithm"]["n_step"] + 1)
        super().__init__(env if isinstance(env, MjlabVecEnv) else MjlabVecEnv(env), train_cfg, log_dir, device)

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """Train for a number of iterations."""
        if self.logger.log_dir is None:
            raise ConfigError("A runner without log_dir has no replay and can only play: give it one to train.")
        super().learn(num_learning_iterations, init_at_random_ep_len)

    def save(self, path: str, infos: dict | None = None) -> None:
        """Save a checkpoint, with the steps that mjlab's curricula count."""
        env_state = {"common_step_counter": self.env.unwrapped.common_step_counter}
        super().save(path, {**(infos or self.infos or {}), "env_state": env_state})

    def load(
        self, path: str, load_cfg: dict | None = None, strict: bool = True, map_location: str | None = None
    ) -> dict:
        """Load a checkpoint; mjlab's curricula go on where they were."""
        infos = super().load(path, load_cfg, strict, map_location)
        if "env_state" in (infos or {}):  # not in runs of rsl-rl-sac train
            self.env.unwrapped.common_step_counter = infos["env_state"]["common_step_counter"]
        return infos


class MjlabRunner(VelocityOnPolicyRunner, _MjlabOffPolicyRunner):
    """:class:`OffPolicyRunner` for mjlab's velocity tasks.

    mjlab's own runner of these tasks comes first and calls the next one: after every checkpoint it exports the policy
    to ONNX with mjlab's metadata (joint names, gains, default pose, observation terms, action scale).
    """

    def save(self, path: str, infos: dict | None = None) -> None:
        """Save a checkpoint and the policy as ONNX."""
        if self.gpu_global_rank == 0:
            super().save(path, infos)
        else:  # all processes save, the first one exports
            _MjlabOffPolicyRunner.save(self, path, infos)
