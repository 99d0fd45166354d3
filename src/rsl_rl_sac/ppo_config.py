# SPDX-License-Identifier: BSD-3-Clause

"""Configuration dataclasses of rsl_rl's PPO, for comparison. The defaults are the paper's (Table C2)."""

from __future__ import annotations

from dataclasses import dataclass, field

from rsl_rl_sac.config import BaseRunnerCfg
from rsl_rl_sac.utils.config_base import (
    Cfg,
    check,
    check_activation,
    check_hidden_dims,
    check_int,
    check_number,
)


@dataclass
class GaussianCfg(Cfg):
    """Action noise of PPO."""

    class_name: str = "GaussianDistribution"
    """Distribution class of rsl_rl."""

    init_std: float = 1.0
    """Initial standard deviation."""

    std_type: str = "scalar"
    """Whether the network learns the standard deviation (``scalar``) or its logarithm (``log``)."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        check_number(self, "init_std", 0.0, 1e3, open_low=True)
        check(self.std_type in ("scalar", "log"), "std_type", self.std_type, "'scalar' or 'log'")


@dataclass
class PPOModelCfg(Cfg):
    """A network of rsl_rl's PPO."""

    class_name: str = "MLPModel"
    """Model class of rsl_rl."""

    hidden_dims: list[int] = field(default_factory=lambda: [512, 256, 128])
    """Sizes of the hidden layers."""

    activation: str = "elu"
    """Activation function."""

    obs_normalization: bool = False
    """Whether to normalize observations by running statistics."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        check_hidden_dims(self)
        check_activation(self)


@dataclass
class PPOActorCfg(PPOModelCfg):
    """The policy network of rsl_rl's PPO."""

    distribution_cfg: GaussianCfg = field(default_factory=GaussianCfg)
    """Action distribution, with the initial noise of Table C2."""


@dataclass
class PPOCfg(Cfg):
    """rsl_rl's PPO."""

    class_name: str = "PPO"
    """Algorithm class of rsl_rl."""

    learning_rate: float = 1e-3
    """Initial learning rate."""

    schedule: str = "adaptive"
    """Learning-rate schedule: follows the KL divergence."""

    num_learning_epochs: int = 5
    """Epochs per iteration."""

    num_mini_batches: int = 4
    """Mini-batches per epoch."""

    gamma: float = 0.99
    """Discount factor."""

    lam: float = 0.95
    """GAE parameter lambda."""

    clip_param: float = 0.2
    """Clip range of the probability ratio."""

    entropy_coef: float = 0.005
    """Entropy coefficient."""

    value_loss_coef: float = 1.0
    """Value loss coefficient."""

    use_clipped_value_loss: bool = True
    """Whether to clip the value loss."""

    normalize_advantage_per_mini_batch: bool = False
    """Whether to normalize the advantage per mini-batch."""

    desired_kl: float = 0.01
    """KL divergence target of the schedule."""

    max_grad_norm: float = 1.0
    """Norm to which gradients are clipped."""

    rnd_cfg: dict | None = None
    """Random network distillation."""

    symmetry_cfg: dict | None = None
    """Symmetry augmentation."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        for name in ("learning_rate", "desired_kl", "max_grad_norm"):
            check_number(self, name, 0.0, 1e9, open_low=True)
        for name in ("gamma", "lam"):
            check_number(self, name, 0.0, 1.0)
        check_number(self, "clip_param", 0.0, 1.0, open_low=True)
        for name in ("entropy_coef", "value_loss_coef"):
            check_number(self, name, 0.0, 1e9)
        for name in ("num_learning_epochs", "num_mini_batches"):
            check_int(self, name, 1)
        check(self.schedule in ("adaptive", "fixed"), "schedule", self.schedule, "'adaptive' or 'fixed'")


@dataclass
class PPORunnerCfg(BaseRunnerCfg):
    """A training run with rsl_rl's PPO, for comparison."""

    experiment_name: str = "ppo"
    """Name of the experiment."""

    actor: PPOActorCfg = field(default_factory=PPOActorCfg)
    """Policy network."""

    critic: PPOModelCfg = field(default_factory=PPOModelCfg)
    """Value network."""

    algorithm: PPOCfg = field(default_factory=PPOCfg)
    """The algorithm."""
