# SPDX-License-Identifier: BSD-3-Clause

"""rsl_rl's runner for its PPO, with our checkpoints and errors."""

from __future__ import annotations

from typing import Any

from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner

from rsl_rl_sac.utils.checkpoint import check_parts, delete_older_checkpoints, load_safely, save_atomically
from rsl_rl_sac.utils.config_base import resolve
from rsl_rl_sac.utils.disk import DiskFaults
from rsl_rl_sac.utils.distributed import configure_processes, naming_lost_process
from rsl_rl_sac.utils.errors import CheckpointError

_STATE: dict[str, type] = {
    "actor_state_dict": dict,
    "critic_state_dict": dict,
    "optimizer_state_dict": dict,
    "iter": int,
}
"""Parts of a checkpoint of rsl_rl's PPO."""


class PPORunner(OnPolicyRunner):
    """rsl_rl's runner, on many CPUs too, whose checkpoints are written as ours are and hold a dictionary as well."""

    infos: dict | None = None
    """What checkpoints hold beside what rsl_rl keeps in them."""

    def __init__(self, env: VecEnv, train_cfg: dict, log_dir: str | None = None, device: str = "cpu") -> None:
        """Build as rsl_rl does.

        Raises:
            ConfigError: If a class is named that is not there.
        """
        for name in ("algorithm", "actor", "critic"):
            resolve(train_cfg[name]["class_name"], f"{name}.class_name")
        super().__init__(env, train_cfg, log_dir, device)

    def _configure_multi_gpu(self) -> None:
        configure_processes(self)

    def learn(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        """Learn as rsl_rl does; where it waits for a process that is gone, an error says so."""
        with naming_lost_process():
            super().learn(*args, **kwargs)

    def save(self, path: str, infos: dict | None = None, is_last: bool = False) -> None:
        """Save a checkpoint, whole or not at all."""
        with DiskFaults(self.cfg["disk_faults"]).tolerated(f"The checkpoint '{path}'", is_last):
            self._save(path, infos)

    def _save(self, path: str, infos: dict | None) -> None:
        state = {**self.alg.save(), "iter": self.current_learning_iteration, "infos": infos or self.infos}
        save_atomically(state, path)
        delete_older_checkpoints(path, self.cfg.get("keep_checkpoints", 0))
        self.logger.save_model(path, self.current_learning_iteration)

    def load(
        self, path: str, load_cfg: dict | None = None, strict: bool = True, map_location: str | None = None
    ) -> dict:
        """Load a checkpoint as rsl_rl does, but nothing in it that would run as code."""
        state = load_safely(path, map_location or self.device)
        check_parts(state, _STATE, f"The checkpoint '{path}'")
        try:
            takes_iteration = self.alg.load(state, load_cfg, strict)
        except (RuntimeError, ValueError, KeyError) as error:
            # torch's message has a line for every tensor: the first that differs is enough.
            reason = next((line.strip() for line in str(error).splitlines()[1:] if line.strip()), str(error))
            raise CheckpointError(f"'{path}' does not fit the networks of this run: {reason}") from error
        if takes_iteration:
            self.current_learning_iteration = state["iter"]
        return state.get("infos")  # type: ignore[return-value]  # None if nobody gave any, as in rsl_rl
