# SPDX-License-Identifier: BSD-3-Clause

"""Named configurations."""

from __future__ import annotations

from collections.abc import Callable

from rsl_rl_sac.config import RunnerCfg, SymmetryCfg
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.utils.errors import ConfigError


def _paper(words: set[str]) -> RunnerCfg:
    """Table C1; the humanoids have their own target entropy."""
    cfg = RunnerCfg()
    if words & {"g1", "h1"}:
        cfg.algorithm.target_entropy_scale = 0.5
    return cfg


def _ppo_paper(words: set[str]) -> PPORunnerCfg:
    """Table C2; the humanoids have their own entropy coefficients."""
    cfg = PPORunnerCfg()
    for humanoid, entropy_coef in (("g1", 0.008), ("h1", 0.01)):
        if humanoid in words:
            cfg.algorithm.entropy_coef = entropy_coef
    return cfg


def _cpu(words: set[str]) -> RunnerCfg:
    """Chosen by experiment on Go2, for machines without a GPU (docs/learning.md); humanoids have not been tried."""
    cfg = RunnerCfg(num_envs=512, num_steps_per_env=4, max_iterations=5000, save_interval=500, overlap=True)
    cfg.keep_checkpoints = 2
    cfg.actor.hidden_dims = [256, 128, 64]
    cfg.critic.hidden_dims = [256, 128, 64]
    # One critic, and a larger step, instead of two: gradient steps are what a CPU is short of.
    cfg.critic.num_critics, cfg.critic.num_atoms, cfg.critic.value_range = 1, 101, (-20.0, 40.0)
    # Noise of 0.3 to 0.45 in units of the action, in every joint: less, and the feet stick; free to choose, the policy
    # moves its noise to where it costs least.
    cfg.actor.distribution_cfg.init_std, cfg.actor.distribution_cfg.log_std_range = 0.09, (-2.45, -2.35)
    algorithm = cfg.algorithm
    algorithm.num_mini_batches, algorithm.batch_size, algorithm.replay_size = 24, 512, 2_000_000
    algorithm.policy_update_frequency, algorithm.actor_start_update, algorithm.desired_kl = 3, 1000, 0.05
    algorithm.training_start_iteration, algorithm.save_replay = 5, True  # a stopped run goes on exactly
    algorithm.n_step, algorithm.tau, algorithm.critic_learning_rate = 3, 0.02, 1e-3
    algorithm.reward_scale = 20.0
    # Wide enough that the policy does not escape its noise towards the bounds, narrow enough for the critic to follow.
    algorithm.largest_action = 5.0
    algorithm.auto_temperature, algorithm.init_temperature = False, 0.01
    algorithm.symmetry_cfg = SymmetryCfg()
    return cfg


def _ppo_cpu(words: set[str]) -> PPORunnerCfg:
    """Isaac Lab's settings of each task, with fewer environments and normalized observations; not tuned further yet."""
    cfg = PPORunnerCfg(num_envs=2048, max_iterations=1000, save_interval=50)
    is_flat = "rough" not in words
    hidden_dims = [128, 128, 128] if is_flat else [512, 256, 128]
    if is_flat and "g1" in words:
        hidden_dims = [256, 128, 128]
    cfg.actor.hidden_dims, cfg.critic.hidden_dims = list(hidden_dims), list(hidden_dims)
    cfg.actor.obs_normalization = cfg.critic.obs_normalization = True
    cfg.algorithm.entropy_coef = 0.005 if "anymal" in words else 0.008 if "g1" in words else 0.01
    return cfg


PRESETS: dict[str, Callable[[set[str]], RunnerCfg | PPORunnerCfg]] = {
    "paper": _paper,
    "ppo_paper": _ppo_paper,
    "cpu": _cpu,
    "ppo_cpu": _ppo_cpu,
}
"""Named configurations, as functions of the words in the task's name."""


def preset(name: str, robot: str = "") -> RunnerCfg | PPORunnerCfg:
    """Return a named configuration.

    Args:
        name: ``"paper"`` (Table C1), ``"ppo_paper"`` (Table C2), ``"cpu"`` or ``"ppo_cpu"``.
        robot: Robot or task name, for example ``"g1"``, ``"Unitree-G1"`` or ``"Velocity-Rough-Unitree-G1"``.
    """
    if name not in PRESETS:
        raise ConfigError(f"Unknown preset '{name}'. Known presets: {', '.join(PRESETS)}.")
    return PRESETS[name](set(robot.lower().split("-")))
