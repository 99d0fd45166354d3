# SPDX-License-Identifier: BSD-3-Clause

"""Configuration dataclasses.

``to_dict()`` gives the plain dictionary that rsl_rl's runners take. The defaults are the paper's (Table C1).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rsl_rl_sac.utils.config_base import (
    Cfg,
    check,
    check_activation,
    check_hidden_dims,
    check_int,
    check_number,
    check_pair,
    is_number,
)

REPLAY_DTYPES = ("float32", "float16", "bfloat16", "float64")
"""Names of the types in which the replay can store observations and actions."""


@dataclass
class DistributionCfg(Cfg):
    """Squashed Gaussian policy (Sec. 3.2 and 3.3)."""

    class_name: str = "rsl_rl_sac.modules:SquashedGaussian"
    """Distribution class."""

    init_std: float = 0.15
    """Initial standard deviation of the latent action, before the tanh (sigma_0)."""

    log_std_range: tuple[float, float] = (-5.0, 2.0)
    """Range to which the log standard deviation is clipped (the paper leaves it open)."""

    mean_weight_std: float = 0.01
    """Standard deviation of the initial weights of the mean head (epsilon; the paper leaves it open)."""

    mean_bias: str = "default_pose"
    """Initial action: ``default_pose`` is action 0 under any bounds, ``zero`` the paper's bias, the bounds' centre."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        check_number(self, "init_std", 0.0, 1e3, open_low=True)
        check_pair(self, "log_std_range", -50.0, 10.0)
        check_number(self, "mean_weight_std", 0.0, 1e3)
        check(self.mean_bias in ("default_pose", "zero"), "mean_bias", self.mean_bias, "'default_pose' or 'zero'")


@dataclass
class ActorCfg(Cfg):
    """Policy network."""

    class_name: str = "rsl_rl_sac.models:Actor"
    """Model class."""

    hidden_dims: list[int] = field(default_factory=lambda: [1024, 512, 256])
    """Sizes of the hidden layers."""

    activation: str = "swish"
    """Activation function by rsl_rl's name; ``swish`` is SiLU."""

    obs_normalization: bool = True
    """Whether to normalize observations by running statistics."""

    layer_norm: bool = False
    """Whether to normalize every hidden layer before its activation."""

    distribution_cfg: DistributionCfg = field(default_factory=DistributionCfg)
    """Action distribution."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        check_hidden_dims(self)
        check_activation(self)


@dataclass
class CriticCfg(Cfg):
    """Ensemble of Q-networks."""

    class_name: str = "rsl_rl_sac.models:CriticEnsemble"
    """Model class."""

    num_critics: int = 2
    """Number N of Q-functions; ``algorithm.value_reduction`` makes one target of them."""

    hidden_dims: list[int] = field(default_factory=lambda: [1024, 512, 256])
    """Sizes of the hidden layers."""

    activation: str = "swish"
    """Activation function by rsl_rl's name; ``swish`` is SiLU."""

    obs_normalization: bool = True
    """Whether to normalize observations by running statistics."""

    layer_norm: bool = False
    """Whether to normalize every hidden layer before its activation."""

    num_atoms: int = 1
    """Atoms of each Q-function's distribution; 1 regresses the value, as the paper does, 51 to 101 classify it."""

    value_range: tuple[float, float] = (-10.0, 30.0)
    """Values of the first and the last atom, after ``algorithm.reward_scale``."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        check_hidden_dims(self)
        check_activation(self)
        check_int(self, "num_critics", 1, 1000)
        check_int(self, "num_atoms", 1, 100_000)
        check_pair(self, "value_range", -1e9, 1e9)


@dataclass
class SymmetryCfg(Cfg):
    """Symmetry augmentation and mirror loss, with the fields of rsl_rl's ``symmetry_cfg``."""

    data_augmentation_func: str = "rsl_rl_sac.locomotion.symmetry:mirror_states"
    """Function with rsl_rl's signature, ``(env, obs, actions)``, or its name."""

    use_data_augmentation: bool = True
    """Whether the mini-batches hold mirrored transitions."""

    use_mirror_loss: bool = False
    """Whether the actor is held to be symmetric by a loss."""

    mirror_loss_coeff: float = 1.0
    """Factor on that loss, which is in squared units of the action."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        check_number(self, "mirror_loss_coeff", 0.0, 1e9)


@dataclass
class RndCfg(Cfg):
    """Random network distillation, with the fields of rsl_rl's ``rnd_cfg``; it sees ``obs_groups.rnd_state``."""

    weight: float = 1.0
    """Factor on the intrinsic rewards; times ``env.unwrapped.step_dt`` if there is one, as in rsl_rl."""

    weight_schedule: dict[str, int | float | str] | None = None
    """``mode`` (``constant``, ``step`` or ``linear``) and its ``initial_step``, ``final_step``, ``final_value``."""

    num_outputs: int = 16
    """Outputs of both networks."""

    predictor_hidden_dims: list[int] = field(default_factory=lambda: [64, 64])
    """Sizes of the hidden layers of the predictor; -1 is the number of observations."""

    target_hidden_dims: list[int] = field(default_factory=lambda: [64, 64])
    """Sizes of the hidden layers of the random network; -1 is the number of observations."""

    activation: str = "elu"
    """Activation function by rsl_rl's name."""

    state_normalization: bool = True
    """Whether to normalize the observations by running statistics."""

    reward_normalization: bool = True
    """Whether to divide the rewards by the standard deviation of their discounted sum."""

    learning_rate: float = 1e-3
    """Learning rate of the predictor."""

    recompute_rewards: bool = True
    """Whether rewards are those of the predictor as it is when a batch is drawn; otherwise those of the collection."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        check_number(self, "weight", 0.0, 1e9)
        check_int(self, "num_outputs", 1, 1_000_000)
        check_number(self, "learning_rate", 0.0, 1.0, open_low=True)
        for name in ("predictor_hidden_dims", "target_hidden_dims"):
            check_hidden_dims(self, name, allows_input_size=True)
        check_activation(self)
        schedule = self.weight_schedule
        if schedule is None:
            return
        needed = {
            "constant": set(),
            "step": {"final_step", "final_value"},
            "linear": {"initial_step", "final_step", "final_value"},
        }
        mode = schedule.get("mode")
        check(mode in needed, "weight_schedule", schedule, f"None or have a mode, one of {', '.join(needed)}")
        numbers = {name: value for name, value in schedule.items() if name != "mode"}
        ok = needed[str(mode)] <= numbers.keys() and all(is_number(value) for value in numbers.values())
        check(ok, "weight_schedule", schedule, f"complete: {mode} needs {', '.join(sorted(needed[str(mode)]))}")
        if mode == "linear":
            ok = float(numbers["initial_step"]) < float(numbers["final_step"])
            check(ok, "weight_schedule", schedule, "linear with initial_step < final_step")


@dataclass
class SACCfg(Cfg):
    """The algorithm."""

    wider_types = {"action_bounds": list[float | list[float]] | None}  # noqa: RUF012  (not a field)
    optional_sections = {"rnd_cfg": RndCfg, "symmetry_cfg": SymmetryCfg}  # noqa: RUF012

    class_name: str = "rsl_rl_sac:SAC"
    """Algorithm class."""

    num_learning_epochs: int = 1
    """Epochs per iteration; an iteration makes ``num_learning_epochs * num_mini_batches`` gradient steps."""

    num_mini_batches: int = 200
    """Mini-batches per epoch, each drawn afresh from the replay."""

    batch_size: int = 8192
    """Transitions per mini-batch."""

    replay_size: int = 5_000_000
    """Transitions the replay holds, over all environments."""

    training_start_iteration: int = 1
    """Iterations that only collect, with the initial policy, before the first gradient step."""

    actor_learning_rate: float = 2e-4
    """Learning rate of the actor."""

    critic_learning_rate: float = 2e-4
    """Learning rate of the critics."""

    temperature_learning_rate: float = 2e-5
    """Learning rate of log alpha."""

    gamma: float = 0.97
    """Discount factor."""

    n_step: int = 5
    """Length of the return window (n)."""

    tau: float = 0.003
    """Step of the target critics towards the critics, per gradient step."""

    init_temperature: float = 0.001
    """Initial temperature alpha."""

    auto_temperature: bool = True
    """Whether to tune the temperature to the target entropy; otherwise it stays as it is."""

    target_entropy_scale: float = 0.167
    """The target entropy is minus this times the number of actions."""

    final_target_entropy_scale: float | None = None
    """Scale at which the target entropy ends; None keeps it."""

    target_entropy_updates: tuple[int, int] = (0, 100_000)
    """Gradient steps between which target entropy, learning rates and bounds go to their final values."""

    anneal_progress: float | None = None
    """Value of the environment's ``extras["progress"]`` before which that does not begin; None does not wait."""

    final_learning_rate_scale: float = 1.0
    """Factor on the learning rates of actor and critics at the end of that; 1 keeps them."""

    policy_update_frequency: int = 1
    """Gradient steps of the critics per gradient step of the actor."""

    exploration_scale: tuple[float, float] = (1.0, 1.0)
    """Factors on the policy's noise, of the first to the last environment; ``1 1`` acts as the policy samples."""

    exploration_correlation: tuple[float, float] = (0.0, 0.0)
    """Correlation of that noise in successive steps, over the environments; 0 is white noise, as the paper has it."""

    desired_kl: float | None = None
    """KL divergence by which an iteration shall change the policy; the actor's learning rate follows it."""

    actor_start_update: int = 0
    """Gradient steps of the critics before the first of actor and temperature."""

    value_reduction: str = "min"
    """What the targets and the actor take of the critics' values: ``min``, as the paper does, or ``mean``."""

    reward_scale: float = 1.0
    """Factor on the rewards that the critics learn from."""

    max_grad_norm: float = 1.0
    """Norm to which the gradients of the actor and of the critics are clipped, each."""

    action_bounds: list[float] | list[list[float]] | None = None
    """Bounds ``[low, high]`` of the policy's output, numbers or one list each; None takes ``env.action_bounds``."""

    largest_action: float | None = None
    """Size to which wider bounds are narrowed, in units of the policy's output; None keeps them."""

    final_largest_action: float | None = None
    """Size to which such bounds open while target entropy and learning rates go to their ends; None keeps them."""

    average_actor_steps: int | None = None
    """Steps of the actor over which the policy that is scored and exported is averaged; None takes the actor itself."""

    missing_final_obs: str = "error"
    """Time-out without ``extras['final_obs']``: ``error`` stops, ``drop`` never samples such transitions."""

    replay_dtype: str = "float32"
    """Type in which observations are stored: ``float32``, ``float64``; half the memory: ``float16``, ``bfloat16``."""

    replay_action_dtype: str = "float32"
    """Type in which actions are stored."""

    replay_device: str | None = None
    """Device of the replay; None is the learner's."""

    save_replay: bool = False
    """Whether checkpoints hold the replay, which an exact resume needs."""

    reuse_cpu_memory: bool = True
    """On Linux CPUs, keep freed memory in the process: without it large batches spend their time on page faults."""

    rnd_cfg: RndCfg | None = None
    """Random network distillation: intrinsic rewards for what is new."""

    symmetry_cfg: SymmetryCfg | None = None
    """Symmetry augmentation of the mini-batches, and mirror loss."""

    def __post_init__(self) -> None:
        """Check the values."""
        if isinstance(self.rnd_cfg, dict):  # an empty one is off, as in rsl_rl
            self.rnd_cfg = RndCfg.from_dict(self.rnd_cfg, "rnd_cfg.") if self.rnd_cfg else None
        if isinstance(self.symmetry_cfg, dict):
            self.symmetry_cfg = SymmetryCfg.from_dict(self.symmetry_cfg, "symmetry_cfg.")
        super().__post_init__()
        for name in ("num_learning_epochs", "num_mini_batches", "batch_size", "n_step", "policy_update_frequency"):
            check_int(self, name, 1)
        check_int(self, "replay_size", 1)
        check_int(self, "training_start_iteration", 0)
        for name in ("actor_learning_rate", "critic_learning_rate", "temperature_learning_rate"):
            check_number(self, name, 0.0, 1.0, open_low=True)
        check_number(self, "gamma", 0.0, 1.0)
        check_number(self, "tau", 0.0, 1.0, open_low=True)
        check_number(self, "init_temperature", 0.0, 1e3, open_low=self.auto_temperature)
        check_number(self, "target_entropy_scale", -1e3, 1e3)
        if self.final_target_entropy_scale is not None:
            check_number(self, "final_target_entropy_scale", -1e3, 1e3)
        first, last = self.target_entropy_updates
        check(
            0 <= first < last, "target_entropy_updates", self.target_entropy_updates, "two integers, 0 <= first < last"
        )
        if self.anneal_progress is not None:
            check_number(self, "anneal_progress", -1e6, 1e6)
        check_number(self, "final_learning_rate_scale", 0.0, 1.0, open_low=True)
        check_number(self, "max_grad_norm", 0.0, 1e9, open_low=True)
        check_int(self, "actor_start_update", 0)
        if self.average_actor_steps is not None:
            check_int(self, "average_actor_steps", 1)
        ok = all(0.0 < factor <= 1e6 for factor in self.exploration_scale)
        check(ok, "exploration_scale", self.exploration_scale, "two positive numbers, 1e6 at most")
        ok = all(0.0 <= value < 1.0 for value in self.exploration_correlation)
        check(ok, "exploration_correlation", self.exploration_correlation, "two numbers in [0, 1)")
        if self.desired_kl is not None:
            check_number(self, "desired_kl", 0.0, 1e3, open_low=True)
            scale = self.final_learning_rate_scale
            check(scale == 1.0, "final_learning_rate_scale", scale, "1 with desired_kl, which sets the learning rate")
        check_number(self, "reward_scale", 0.0, 1e6, open_low=True)
        if self.largest_action is not None:
            check_number(self, "largest_action", 0.0, 1e6, open_low=True)
        if self.final_largest_action is not None:
            has_first = self.largest_action is not None
            check(has_first, "final_largest_action", self.final_largest_action, "None without largest_action")
            check_number(self, "final_largest_action", self.largest_action or 0.0, 1e6)
        ways = ("min", "mean")
        check(self.value_reduction in ways, "value_reduction", self.value_reduction, "'min' or 'mean'")
        ways = ("error", "drop")
        check(self.missing_final_obs in ways, "missing_final_obs", self.missing_final_obs, "'error' or 'drop'")
        for name in ("replay_dtype", "replay_action_dtype"):
            check(getattr(self, name) in REPLAY_DTYPES, name, getattr(self, name), f"one of {', '.join(REPLAY_DTYPES)}")


UNLIMITED_ITERATIONS = 10**9
"""``max_iterations`` of runs that their time ends."""


@dataclass
class BaseRunnerCfg(Cfg):
    """What runs of all algorithms have in common."""

    seed: int = 0
    """Seed of every random generator."""

    num_envs: int = 8192
    """Number of environments, for those who build the environment from this configuration."""

    num_steps_per_env: int = 24
    """Vector steps per iteration."""

    max_iterations: int = 800
    """Iterations of the run."""

    save_interval: int = 50
    """Iterations between checkpoints."""

    keep_checkpoints: int = 0
    """Number of newest checkpoints to keep; 0 keeps all."""

    disk_faults: str = "retry"
    """Checkpoint that cannot be written: ``retry`` trains on until the next interval, ``stop`` ends the run."""

    experiment_name: str = "sac"
    """Name of the experiment."""

    run_name: str = ""
    """Name of the run."""

    logger: str | dict = "tensorboard"
    """rsl_rl's log writer: ``tensorboard``, ``wandb``, ``neptune``, or a dictionary with a ``class_name``."""

    check_for_nan: bool = True
    """Whether to check what the environment returns."""

    coarse_physics: bool = False
    """Whether robots of the suite train with half as many physics steps, twice as long; evaluations never do so."""

    obs_groups: dict[str, list[str]] = field(default_factory=lambda: {"actor": ["policy"], "critic": ["policy"]})
    """Observation groups of the actor and of the critics."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        for name in ("num_envs", "num_steps_per_env", "max_iterations", "save_interval"):
            check_int(self, name, 1)
        check_int(self, "seed", 0)
        check_int(self, "keep_checkpoints", 0)
        check(self.disk_faults in ("retry", "stop"), "disk_faults", self.disk_faults, "'retry' or 'stop'")


@dataclass
class RunnerCfg(BaseRunnerCfg):
    """A training run with SAC."""

    non_finite: str = "stop"
    """NaN or infinity from the environment: ``stop`` with a dump, or ``quarantine`` what it came from."""

    num_dumped_steps: int = 10
    """Newest vector steps that are kept for such a dump; 0 writes none."""

    overlap: bool = False
    """Whether to step the environment and to learn at the same time; the policy that acts is one iteration older."""

    actor: ActorCfg = field(default_factory=ActorCfg)
    """Policy network."""

    critic: CriticCfg = field(default_factory=CriticCfg)
    """Q-networks."""

    algorithm: SACCfg = field(default_factory=SACCfg)
    """The algorithm."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        check(self.non_finite in ("stop", "quarantine"), "non_finite", self.non_finite, "'stop' or 'quarantine'")
        check_int(self, "num_dumped_steps", 0)
