# SPDX-License-Identifier: BSD-3-Clause

"""Presets against the paper's tables, and errors for bad values."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
from types import ModuleType

import pytest
from rsl_rl.runners import OnPolicyRunner

from rsl_rl_sac import config, ppo_config
from rsl_rl_sac.config import RndCfg, RunnerCfg, SACCfg, SymmetryCfg
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.locomotion import task_names
from rsl_rl_sac.ppo_config import PPOCfg, PPORunnerCfg
from rsl_rl_sac.presets import preset
from rsl_rl_sac.runners import OffPolicyRunner
from rsl_rl_sac.utils import ConfigError
from rsl_rl_sac.utils.config_base import PPO_KEYS

TABLE_C1 = {
    "num_envs": 8192, "num_steps_per_env": 24, "max_iterations": 800,
    "algorithm.training_start_iteration": 1, "algorithm.replay_size": 5_000_000, "algorithm.num_learning_epochs": 1,
    "algorithm.num_mini_batches": 200, "algorithm.batch_size": 8192, "algorithm.actor_learning_rate": 2e-4,
    "algorithm.critic_learning_rate": 2e-4, "algorithm.temperature_learning_rate": 2e-5, "algorithm.gamma": 0.97,
    "algorithm.tau": 0.003, "algorithm.init_temperature": 0.001, "algorithm.auto_temperature": True,
    "algorithm.target_entropy_scale": 0.167, "algorithm.max_grad_norm": 1.0, "algorithm.policy_update_frequency": 1,
    "algorithm.n_step": 5, "actor.obs_normalization": True, "critic.obs_normalization": True,
    "actor.hidden_dims": [1024, 512, 256], "critic.hidden_dims": [1024, 512, 256], "actor.activation": "swish",
    "critic.activation": "swish", "actor.layer_norm": False, "critic.layer_norm": False, "critic.num_critics": 2,
    "actor.distribution_cfg.init_std": 0.15,
}  # fmt: skip

TABLE_C2 = {
    "num_envs": 8192, "num_steps_per_env": 24, "max_iterations": 800, "algorithm.learning_rate": 1e-3,
    "algorithm.schedule": "adaptive", "algorithm.num_learning_epochs": 5, "algorithm.num_mini_batches": 4,
    "algorithm.gamma": 0.99, "algorithm.lam": 0.95, "algorithm.clip_param": 0.2, "algorithm.entropy_coef": 0.005,
    "algorithm.value_loss_coef": 1.0, "algorithm.use_clipped_value_loss": True,
    "algorithm.normalize_advantage_per_mini_batch": False, "algorithm.desired_kl": 0.01,
    "algorithm.max_grad_norm": 1.0, "actor.obs_normalization": False, "critic.obs_normalization": False,
    "actor.hidden_dims": [512, 256, 128], "critic.hidden_dims": [512, 256, 128], "actor.activation": "elu",
    "critic.activation": "elu", "actor.distribution_cfg.init_std": 1.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "robot", "table", "overrides"),
    [
        ("paper", "", TABLE_C1, {}),
        ("paper", "Unitree-Go2", TABLE_C1, {}),
        ("paper", "Unitree-G1", TABLE_C1, {"algorithm.target_entropy_scale": 0.5}),
        ("paper", "Isaac-Velocity-Rough-H1-v0", TABLE_C1, {"algorithm.target_entropy_scale": 0.5}),
        ("ppo_paper", "anymal-d", TABLE_C2, {}),
        ("ppo_paper", "g1", TABLE_C2, {"algorithm.entropy_coef": 0.008}),
        ("ppo_paper", "Velocity-Flat-Unitree-H1", TABLE_C2, {"algorithm.entropy_coef": 0.01}),
    ],
)
def test_presets_equal_the_tables(name: str, robot: str, table: dict, overrides: dict) -> None:
    """Every row of Tables C1 and C2, with what the text says of the humanoids."""
    cfg = preset(name, robot).to_dict()
    for path, expected in {**table, **overrides}.items():
        value = cfg
        for key in path.split("."):
            value = value[key]
        assert value == expected, path


def test_ppo_preset_runs() -> None:
    """rsl_rl's PPO takes the configuration as it is."""
    cfg = preset("ppo_paper")
    assert isinstance(cfg, PPORunnerCfg)
    cfg.actor.hidden_dims = cfg.critic.hidden_dims = [16]
    runner = OnPolicyRunner(DoubleIntegrator(num_envs=16), cfg.to_dict())
    assert runner.alg.get_policy().state_dict()["distribution.std_param"].tolist() == [1.0]
    runner.learn(1)
    assert 0.5 < float(runner.alg.get_policy().output_std.mean()) < 2.0


def test_round_trip() -> None:
    """A dictionary gives back the configuration it came from."""
    cfg = RunnerCfg(seed=3, algorithm=SACCfg(gamma=0.5, action_bounds=[-1.0, 2.0]))
    assert RunnerCfg.from_dict(cfg.to_dict()) == cfg
    ppo = preset("ppo_paper", "g1")
    assert PPORunnerCfg.from_dict(ppo.to_dict()) == ppo


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gamma", 1.5), ("gamma", "0.9"), ("gamma", float("nan")), ("gamma", True), ("tau", 0.0), ("batch_size", 0),
        ("batch_size", 1.5), ("n_step", 0), ("actor_learning_rate", -1e-4), ("init_temperature", 0.0),
        ("missing_final_obs", "ignore"), ("replay_dtype", "float8"), ("max_grad_norm", 0.0),
        ("policy_update_frequency", 0), ("training_start_iteration", -1),
    ],
)  # fmt: skip
def test_values_out_of_range(key: str, value: object) -> None:
    """The one message names the key, what is allowed and what was given."""
    with pytest.raises(ConfigError) as error:
        RunnerCfg.from_dict({"algorithm": {key: value}})
    assert str(error.value).startswith(f"algorithm.{key} must be") and repr(value) in str(error.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gamma", 7.0), ("lam", -0.1), ("learning_rate", -1.0), ("schedule", "foo"), ("num_mini_batches", 0),
        ("num_learning_epochs", 0), ("clip_param", 0.0), ("entropy_coef", -1.0), ("max_grad_norm", 0.0),
    ],
)  # fmt: skip
def test_values_of_ppo_out_of_range(key: str, value: object) -> None:
    """PPO's values are checked as well."""
    with pytest.raises(ConfigError) as error:
        PPORunnerCfg.from_dict({"algorithm": {key: value}})
    assert str(error.value).startswith(f"algorithm.{key} must be") and repr(value) in str(error.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"wieght": 1.0}, r"^Unknown configuration key: 'algorithm\.rnd_cfg\.wieght', did you mean 'weight'"),
        ({"zzz": 1.0}, r"^Unknown configuration key: 'algorithm\.rnd_cfg\.zzz'\. Known keys here: "),
        ({"weight": -1.0}, r"rnd_cfg\.weight must be a number in \[0, 1e\+09\], got -1\.0"),
        (
            {"target_hidden_dims": [0]},
            r"rnd_cfg\.target_hidden_dims must be a non-empty list of positive integers or -1",
        ),
        ({"weight_schedule": {"mode": "cosine"}}, r"rnd_cfg\.weight_schedule must be .*one of constant, step, linear"),
        ({"weight_schedule": {"mode": "step"}}, r"must be complete: step needs final_step, final_value"),
        (
            {"weight_schedule": {"mode": "linear", "initial_step": 5, "final_step": 5, "final_value": 0.0}},
            "linear with initial_step < final_step",
        ),
    ],
)
def test_rnd_is_checked(values: dict, message: str) -> None:
    """Bad settings of RND are named with their path."""
    with pytest.raises(ConfigError, match=message):
        RunnerCfg.from_dict({"algorithm": {"rnd_cfg": values}})


def test_sections_of_rsl_rl_are_taken() -> None:
    """Sections as Isaac Lab's classes write them become ours; an empty one of RND is off, as in rsl_rl."""
    rnd_cfg = {
        "weight": 100.0,
        "weight_schedule": {"mode": "linear", "initial_step": 0, "final_step": 1000, "final_value": 0.0},
        "reward_normalization": False,
        "state_normalization": True,
        "learning_rate": 1e-3,
        "num_outputs": 1,
        "predictor_hidden_dims": [-1],
        "target_hidden_dims": [-1],
    }
    symmetry_cfg = {
        "use_data_augmentation": False,
        "use_mirror_loss": True,
        "data_augmentation_func": "a:b",
        "mirror_loss_coeff": 0.5,
    }
    cfg = SACCfg.from_dict({"rnd_cfg": rnd_cfg, "symmetry_cfg": symmetry_cfg})
    assert cfg.rnd_cfg == RndCfg(**rnd_cfg) and cfg.rnd_cfg.recompute_rewards
    assert cfg.symmetry_cfg == SymmetryCfg("a:b", False, True, 0.5)
    assert SACCfg.from_dict({"rnd_cfg": {}}).rnd_cfg is None


def test_unknown_keys() -> None:
    """Typos at any depth are answered with the path and the nearest name."""
    with pytest.raises(ConfigError, match=r"'actor\.distribution_cfg\.init_sdt', did you mean 'init_std'"):
        RunnerCfg.from_dict({"actor": {"distribution_cfg": {"init_sdt": 1.0}}})
    with pytest.raises(ConfigError, match="Unknown preset 'papr'"):
        preset("papr")


@pytest.mark.parametrize("robot", ["g1", "Unitree-G1", "unitree_g1", "Unitree G1", "Velocity-Rough-Unitree-G1"])
def test_robots_by_any_spelling(robot: str) -> None:
    """A humanoid gets its target entropy whether it is named as a task, a file or a robot; others do not."""
    cfg = preset("paper", robot)
    assert isinstance(cfg, RunnerCfg) and cfg.algorithm.target_entropy_scale == 0.5
    other = preset("paper", "unitree_go1")
    assert isinstance(other, RunnerCfg) and other.algorithm.target_entropy_scale == 0.167


def test_keys_of_ppo() -> None:
    """The keys that a message calls PPO's are those which PPO has and SAC has not."""
    keys = [{field.name for field in dataclasses.fields(cfg)} for cfg in (PPOCfg, SACCfg)]
    assert keys[0] - keys[1] == PPO_KEYS


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (config, {"SACCfg", "RunnerCfg", "ActorCfg", "CriticCfg", "DistributionCfg", "RndCfg", "SymmetryCfg"}),
        (ppo_config, {"PPOCfg", "PPORunnerCfg"}),
    ],
)
def test_every_field_is_documented(module: ModuleType, names: set[str]) -> None:
    """A one-line docstring stands under every field of every configuration."""
    tree = ast.parse(inspect.getsource(module))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    assert names <= {node.name for node in classes}
    for node in classes:
        documented = {
            field.target.id
            for field, text in zip(node.body, node.body[1:], strict=False)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str) and "\n" not in text.value.value
        }  # fmt: skip
        own = inspect.get_annotations(getattr(module, node.name))
        assert documented == set(own), node.name
        assert set(own) <= {field.name for field in dataclasses.fields(getattr(module, node.name))}


def test_presets_are_independent() -> None:
    """Changing one configuration does not change the next."""
    preset("paper").actor.hidden_dims.append(7)
    assert preset("paper").actor.hidden_dims == [1024, 512, 256]


def test_cpu_preset_keeps_its_replay() -> None:
    """A run with the preset for CPUs can be stopped and goes on exactly, which needs the replay in its checkpoints."""
    cfg = preset("cpu", "Velocity-Flat-Unitree-Go2")
    assert isinstance(cfg, RunnerCfg) and cfg.algorithm.save_replay


@pytest.mark.parametrize(
    ("robot", "unit"),
    [("Unitree-Go2", 0.25), ("Anymal-D", 0.5), ("Unitree-H1", 0.5), ("Velocity-Flat-Walker-quadruped-0.1rad", 0.1)],
)
def test_cpu_preset_is_the_same_in_radians(robot: str, unit: float) -> None:
    """Whatever a unit of action is: bounds of 0.5 rad, noise of 0.1415 rad at first and 0.0605 rad at the end.

    A Gaussian of standard deviation s has an entropy of log(s sqrt(2 pi e)).
    """
    cfg = preset("cpu", robot)
    assert isinstance(cfg, RunnerCfg)
    assert cfg.algorithm.largest_action == pytest.approx(0.5 / unit)
    scales = (cfg.algorithm.target_entropy_scale, cfg.algorithm.final_target_entropy_scale)
    for scale, noise in zip(scales, (0.1415, 0.0605), strict=True):
        assert scale is not None
        assert unit * math.exp(-scale) / math.sqrt(2.0 * math.pi * math.e) == pytest.approx(noise, rel=1e-3)


@pytest.mark.parametrize("task", task_names())
def test_compared_in_the_same_physics(task: str) -> None:
    """SAC and PPO train with the same physics, coarse on a CPU only."""
    assert preset("cpu", task).coarse_physics and preset("ppo_cpu", task).coarse_physics
    assert not preset("paper", task).coarse_physics and not preset("ppo_paper", task).coarse_physics


def test_quarantine_needs_the_check() -> None:
    """Who does not look for what is not finite cannot put it aside; runs of before can still be read."""
    cfg = RunnerCfg(non_finite="quarantine", check_for_nan=False)
    with pytest.raises(ConfigError, match="'stop' without check_for_nan"):
        OffPolicyRunner(DoubleIntegrator(2), cfg.to_dict())


def test_presets_share_nothing() -> None:
    """A change of a preset's lists is one of this configuration only."""
    for name, other in (("mjlab", "ppo_mjlab"), ("ppo_mjlab", "mjlab")):
        preset(name).obs_groups["critic"].append("x")
        assert preset(other).obs_groups["critic"] == preset(name).obs_groups["critic"] == ["critic"]
