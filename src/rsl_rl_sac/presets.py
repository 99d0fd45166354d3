# SPDX-License-Identifier: BSD-3-Clause

"""Named configurations."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable

from rsl_rl_sac.config import RunnerCfg, SymmetryCfg
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.utils.errors import ConfigError

HUMANOIDS = {"g1", "h1", "humanoid"}
"""Words of a task's name by which a humanoid is known."""


def _paper(words: set[str]) -> RunnerCfg:
    """Table C1; the humanoids have their own target entropy."""
    cfg = RunnerCfg()
    if words & HUMANOIDS:
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
    """Chosen by experiment for machines without a GPU (docs/learning.md): on Go1 and Go2, then ANYmal B and H1.

    Bold noise within narrow bounds, which breaks the feet's contacts; it goes down once the robot walks. It is the same
    in radians on every robot, whatever its unit of action: bounds of 0.5, and noise that goes from 0.14 to 0.06. With
    the same noise in units instead, ANYmal B, whose unit is twice as large, only learned to fall.
    """
    cfg = RunnerCfg(num_envs=512, num_steps_per_env=4, max_iterations=5000, save_interval=500, overlap=True)
    cfg.keep_checkpoints = 2
    cfg.coarse_physics = True  # in which noise costs two fifths less (benchmarks/exploration.py)
    cfg.actor.hidden_dims = [256, 128, 64]
    cfg.critic.hidden_dims = [256, 128, 64]
    cfg.actor.distribution_cfg.init_std = 0.6
    # One critic, and more steps of it, instead of two: gradient steps are what a CPU is short of.
    cfg.critic.num_critics, cfg.critic.num_atoms, cfg.critic.value_range = 1, 101, (-10.0, 30.0)
    algorithm = cfg.algorithm
    algorithm.num_mini_batches, algorithm.replay_size, algorithm.training_start_iteration = 16, 1_000_000, 10
    algorithm.save_replay = True  # a stopped run goes on exactly
    algorithm.reward_scale, algorithm.tau, algorithm.actor_start_update = 20.0, 0.02, 1000
    # An actor step for every fourth one of the critic: on Go1 as much is learned per step as with one for each.
    algorithm.policy_update_frequency, algorithm.actor_learning_rate, algorithm.critic_learning_rate = 4, 6e-4, 1e-3
    # Small batches: on Go2 as much is learned from a step of the environments as from batches of 512, in less time.
    action_scale = _action_scale(words)
    algorithm.batch_size, algorithm.largest_action = 256, 0.5 / action_scale
    algorithm.init_temperature, algorithm.temperature_learning_rate = 0.04, 1e-3
    # In nats per joint, of a unit of 0.25 rad; the unit of this robot adds its logarithm.
    unit = math.log(action_scale / 0.25)
    algorithm.target_entropy_scale, algorithm.final_target_entropy_scale = -0.85 + unit, unit
    algorithm.target_entropy_updates, algorithm.final_learning_rate_scale = (16_000, 28_000), 0.3
    algorithm.anneal_progress = 0.5  # not before it walks after a fashion; standing has 0.24
    algorithm.symmetry_cfg = SymmetryCfg()
    if words & HUMANOIDS:
        cfg.critic.value_range = (-20.0, 40.0)  # a fall costs more
        algorithm.symmetry_cfg = None  # with it H1 took 1.4 times as many steps to stand (benchmarks/symmetry.py)
    return cfg


def _action_scale(words: set[str]) -> float:
    """Return the radians that a unit of action stands for: what a word such as ``0.5rad`` says, or Isaac Lab's."""
    said = [float(word.removesuffix("rad")) for word in words if re.fullmatch(r"\d+(\.\d+)?rad", word)]
    return said[0] if said else 0.5 if words & {"anymal", *HUMANOIDS} else 0.25


def _ppo_cpu(words: set[str]) -> PPORunnerCfg:
    """Isaac Lab's settings of each task, with fewer environments, normalized observations, and small networks on rough.

    Of 512, 1024 and 2048 environments, Go2 needed the fewest steps with 512 and 1024 (docs/learning.md). On rough Isaac
    Lab has 512, 256 and 128 units, with which a core makes 1 500 steps a second on Go2, half as many as with SAC's.
    """
    cfg = PPORunnerCfg(num_envs=1024, max_iterations=1000, save_interval=50, keep_checkpoints=2)
    is_flat = "rough" not in words
    hidden_dims = [128, 128, 128] if is_flat else [256, 128, 64]
    if is_flat and "g1" in words:
        hidden_dims = [256, 128, 128]
    cfg.actor.hidden_dims, cfg.critic.hidden_dims = list(hidden_dims), list(hidden_dims)
    cfg.actor.obs_normalization = cfg.critic.obs_normalization = True
    cfg.coarse_physics = True  # as SAC's
    cfg.algorithm.entropy_coef = 0.005 if "anymal" in words else 0.008 if "g1" in words else 0.01
    return cfg


def _gym(words: set[str]) -> RunnerCfg:
    """The usual SAC for a few environments, a gradient step for every step of theirs; 1 M steps, as is customary.

    The actor moves with every second step of the critics, as in TD3, which saves a quarter of the time. Temperature and
    learning rates were chosen on HalfCheetah: with 1.0 and the usual 3e-4, 18 000 steps of seed 0 brought 45, now 563.
    """
    cfg = RunnerCfg(num_envs=4, num_steps_per_env=16, max_iterations=15_625, save_interval=1000, keep_checkpoints=2)
    for network in (cfg.actor, cfg.critic):
        network.hidden_dims, network.activation, network.obs_normalization = [256, 256], "relu", False
    # Nearly uniform over the box of the actions at first.
    cfg.actor.distribution_cfg.init_std, cfg.actor.distribution_cfg.mean_bias = 1.0, "zero"
    algorithm = cfg.algorithm
    algorithm.num_mini_batches, algorithm.batch_size, algorithm.replay_size = 64, 256, 1_000_000
    algorithm.actor_learning_rate = algorithm.critic_learning_rate = algorithm.temperature_learning_rate = 1e-3
    algorithm.gamma, algorithm.n_step, algorithm.tau, algorithm.max_grad_norm = 0.99, 1, 0.005, 1e6
    algorithm.init_temperature, algorithm.target_entropy_scale, algorithm.policy_update_frequency = 0.2, 1.0, 2
    algorithm.training_start_iteration, algorithm.save_replay = 16, True  # about a thousand steps
    if "pendulum" in words:
        # The usual temperature: rewards are larger there. With 0.2, one of three seeds swung back after it had learned.
        cfg.max_iterations, algorithm.init_temperature, algorithm.temperature_learning_rate = 313, 1.0, 3e-4
    return cfg


def _ppo_gym(words: set[str]) -> PPORunnerCfg:
    """The usual PPO for a few environments: 2048 steps an iteration, ten epochs, batches of 64."""
    cfg = PPORunnerCfg(num_envs=8, num_steps_per_env=256, max_iterations=490, save_interval=100)
    for network in (cfg.actor, cfg.critic):
        network.hidden_dims, network.activation, network.obs_normalization = [64, 64], "tanh", True
    algorithm = cfg.algorithm
    algorithm.learning_rate, algorithm.schedule, algorithm.num_learning_epochs = 3e-4, "fixed", 10
    algorithm.num_mini_batches, algorithm.entropy_coef, algorithm.max_grad_norm = 32, 0.0, 0.5
    return cfg


_MJLAB_OBS_GROUPS = {"actor": ["actor"], "critic": ["critic"]}


def _mjlab(words: set[str]) -> RunnerCfg:
    """Table C1 with mjlab's observation groups; not tuned on its rewards, for want of a GPU."""
    cfg = _paper(words)
    cfg.obs_groups = copy.deepcopy(_MJLAB_OBS_GROUPS)
    return cfg


def _ppo_mjlab(words: set[str]) -> PPORunnerCfg:
    """The settings of mjlab itself for its velocity tasks."""
    cfg = PPORunnerCfg(num_envs=4096, max_iterations=30_000 if "g1" in words else 10_000)
    cfg.obs_groups = copy.deepcopy(_MJLAB_OBS_GROUPS)
    cfg.actor.obs_normalization = cfg.critic.obs_normalization = True
    cfg.algorithm.entropy_coef = 0.01
    return cfg


PRESETS: dict[str, Callable[[set[str]], RunnerCfg | PPORunnerCfg]] = {
    "paper": _paper,
    "ppo_paper": _ppo_paper,
    "cpu": _cpu,
    "ppo_cpu": _ppo_cpu,
    "gym": _gym,
    "ppo_gym": _ppo_gym,
    "mjlab": _mjlab,
    "ppo_mjlab": _ppo_mjlab,
}
"""Named configurations, as functions of the words in the task's name."""


def preset(name: str, robot: str = "") -> RunnerCfg | PPORunnerCfg:
    """Return a named configuration.

    Args:
        name: One of :data:`PRESETS`, such as ``"paper"`` (Table C1) or ``"ppo_paper"`` (Table C2).
        robot: Robot or task name, for example ``"g1"``, ``"Unitree-G1"`` or ``"Velocity-Rough-Unitree-G1"``; the word
            ``humanoid`` in it stands for any other robot on two legs, ``0.3rad`` for the unit of its actions.
    """
    if name not in PRESETS:
        raise ConfigError(f"Unknown preset '{name}'. Known presets: {', '.join(PRESETS)}.")
    return PRESETS[name](set(re.split(r"[-:_\s]", robot.lower())))
