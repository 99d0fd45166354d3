# SPDX-License-Identifier: BSD-3-Clause

"""Configuration files: complete, readable again, and harmless."""

from __future__ import annotations

import pathlib

import pytest

from rsl_rl_sac.config import RunnerCfg, SymmetryCfg
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.presets import PRESETS, preset
from rsl_rl_sac.utils import ConfigError
from rsl_rl_sac.utils.config_file import TrainingCfg, dump_config, load_config, load_run_config


@pytest.mark.parametrize("name", PRESETS)
def test_round_trip(tmp_path: pathlib.Path, name: str) -> None:
    """Every preset comes back as it was, of the same class."""
    cfg = preset(name, "Velocity-Flat-Unitree-G1")
    cfg.seed = 3
    path = tmp_path / "config.yaml"
    path.write_text(dump_config("Velocity-Flat-Unitree-G1", cfg))
    task, loaded = load_config(path)
    assert task == "Velocity-Flat-Unitree-G1" and type(loaded) is type(cfg)
    assert _listed(loaded.to_dict()) == _listed(cfg.to_dict())


def test_nested_options(tmp_path: pathlib.Path) -> None:
    """Optional parts keep their types, so that a reloaded configuration trains."""
    cfg = RunnerCfg()
    cfg.algorithm.symmetry_cfg = SymmetryCfg("some.module:function")
    cfg.algorithm.action_bounds = [-1.0, 1.0]
    path = tmp_path / "config.yaml"
    path.write_text(dump_config("task", cfg))
    _, loaded = load_config(path)
    assert isinstance(loaded, RunnerCfg) and loaded.algorithm.symmetry_cfg == SymmetryCfg("some.module:function")
    assert loaded.algorithm.action_bounds == [-1.0, 1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agent: sac\nnum_envz: 3\n", "num_envz"),
        ("agent: a2c\n", "needs 'agent'"),
        ("- 1\n", "needs 'agent'"),
        ("agent: [\n", "cannot be read"),
        ("agent: sac\nseed: !!python/object/apply:os.system ['true']\n", "cannot be read"),
        ("agent: ppo\nnum_envs: 0\n", "num_envs must be an integer >= 1"),
        ("agent: sac\ntraining: 3\n", "'training' must be a dictionary, got 3"),
        ("agent: sac\ntraining: {minutes: 0}\n", "minutes must be"),
        ("agent: sac\ntraining: {minuts: 3}\n", "minuts"),
    ],
)
def test_refused(tmp_path: pathlib.Path, text: str, message: str) -> None:
    """Bad files, one that would run a command among them, are refused with one message."""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_config(path)


@pytest.mark.parametrize("training", [None, TrainingCfg(12.5, 0.5, 32, 0.9, 1), TrainingCfg()])
def test_what_a_run_was_asked_for(tmp_path: pathlib.Path, training: TrainingCfg | None) -> None:
    """Its time and its evaluations are in the file too, if they were known when it was written."""
    path = tmp_path / "config.yaml"
    path.write_text(dump_config("task", RunnerCfg(), training))
    assert load_run_config(path)[2] == training


def test_missing(tmp_path: pathlib.Path) -> None:
    """A missing file is named."""
    with pytest.raises(ConfigError, match=r"nothing\.yaml"):
        load_config(tmp_path / "nothing.yaml")


def test_ppo_is_kept_apart(tmp_path: pathlib.Path) -> None:
    """A file of PPO loads as PPO's configuration."""
    path = tmp_path / "config.yaml"
    path.write_text(dump_config("task", PPORunnerCfg(num_envs=7)))
    _, loaded = load_config(path)
    assert isinstance(loaded, PPORunnerCfg) and loaded.num_envs == 7


def _listed(value: object) -> object:
    """Turn tuples into lists."""
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value
