# SPDX-License-Identifier: BSD-3-Clause

"""SAC for Isaac Lab's own training script."""

from __future__ import annotations

import warnings

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rsl_rl_sac.algorithms.sac import SAC
from rsl_rl_sac.envs.isaaclab import IsaacLabVecEnv
from rsl_rl_sac.utils.errors import CheckpointError


class IsaacLabSAC(SAC):
    """SAC that brings the adapter of Isaac Lab's environments along.

    Isaac Lab's script gives its own wrapper to rsl_rl's own runner, which hands it to the algorithm. The runner goes on
    stepping that wrapper, so what the adapter adds to a step is added here.
    """

    adapter: IsaacLabVecEnv | None = None
    """Adapter around the environments that the runner steps, None if the runner steps an adapter itself."""

    @classmethod
    def construct_algorithm(cls, obs: TensorDict, env: VecEnv, cfg: dict, device: str) -> IsaacLabSAC:
        """Build the algorithm from the configuration of a rsl_rl runner."""
        cfg.get("critic", {}).pop("stochastic", None)  # for Isaac Lab's eyes only, see tasks/isaaclab.py
        adapter = env if isinstance(env, IsaacLabVecEnv) else IsaacLabVecEnv(env)
        algorithm = super().construct_algorithm(obs, adapter, cfg, device)
        assert isinstance(algorithm, cls)
        algorithm.adapter = None if adapter is env else adapter
        return algorithm

    def record(self, obs: TensorDict, actions: torch.Tensor) -> None:
        """Take note of actions, and of a copy of the observations: some environments overwrite them in the step."""
        super().record(obs, actions)
        self._last_obs = obs.clone()

    def process_env_step(self, obs: TensorDict, rewards: torch.Tensor, dones: torch.Tensor, extras: dict) -> None:
        """Store one vector step, with the observations before a reset."""
        extras = extras if self.adapter is None else self.adapter.complete(extras)
        super().process_env_step(obs, rewards, dones, extras)

    def load(self, loaded_dict: dict, load_cfg: dict | None, strict: bool) -> bool:
        """Load; Isaac Lab's scripts ask for everything, also to play, where the replay is another one."""
        replay = loaded_dict.get("replay_state_dict")
        if load_cfg is None and replay is not None:
            try:
                self.storage.check_state_dict(replay)
            except CheckpointError as error:
                warnings.warn(f"The replay stays empty. {error}", stacklevel=2)
                loaded_dict = {name: value for name, value in loaded_dict.items() if name != "replay_state_dict"}
        return super().load(loaded_dict, load_cfg, strict)
