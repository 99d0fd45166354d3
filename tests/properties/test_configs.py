# SPDX-License-Identifier: BSD-3-Clause

"""Settings of any value: each is refused with one clear line, or the training runs with it."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from typing import Any

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rsl_rl.runners import OnPolicyRunner

from rsl_rl_sac.config import (
    ActorCfg,
    CriticCfg,
    DistributionCfg,
    RndCfg,
    RunnerCfg,
    SACCfg,
    SymmetryCfg,
)
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.ppo_config import GaussianCfg, PPOCfg, PPOModelCfg, PPORunnerCfg
from rsl_rl_sac.runners import OffPolicyRunner
from rsl_rl_sac.utils import ConfigError
from rsl_rl_sac.utils.config_base import Cfg
from rsl_rl_sac.utils.config_file import dump_config, load_config
from tests.properties.helpers import HUGE, assert_clear, clear_error_or_none, examples, odd_values, quiet, tiny_cfg

SECTIONS: tuple[type[Cfg], ...] = (
    ActorCfg, CriticCfg, DistributionCfg, RndCfg, SymmetryCfg, SACCfg, RunnerCfg, PPORunnerCfg, PPOCfg, PPOModelCfg,
    GaussianCfg,
)  # fmt: skip

RANGES: dict[tuple[type[Cfg], str], tuple[type, float, float]] = {
    (DistributionCfg, "mean_weight_std"): (float, 0.0, 1e3),
    (CriticCfg, "num_critics"): (int, 1, 1000),
    (CriticCfg, "num_atoms"): (int, 1, 100_000),
    (SymmetryCfg, "mirror_loss_coeff"): (float, 0.0, 1e9),
    (RndCfg, "weight"): (float, 0.0, 1e9),
    (RndCfg, "num_outputs"): (int, 1, 1_000_000),
    **{
        (SACCfg, name): (int, 1, 2**63 - 1)
        for name in (
            "num_learning_epochs", "num_mini_batches", "batch_size", "replay_size", "n_step", "policy_update_frequency",
        )
    },
    (SACCfg, "training_start_iteration"): (int, 0, 2**63 - 1),
    (SACCfg, "actor_start_update"): (int, 0, 2**63 - 1),
    **{
        (SACCfg, name): (float, 5e-324, 1.0)
        for name in ("actor_learning_rate", "critic_learning_rate", "temperature_learning_rate", "tau")
    },
    (SACCfg, "gamma"): (float, 0.0, 1.0),
    (SACCfg, "init_temperature"): (float, 5e-324, 1e3),
    (SACCfg, "target_entropy_scale"): (float, -1e3, 1e3),
    (SACCfg, "max_grad_norm"): (float, 5e-324, 1e9),
    (SACCfg, "reward_scale"): (float, 5e-324, 1e6),
    **{
        (RunnerCfg, name): (int, 1, 2**63 - 1)
        for name in ("num_envs", "num_steps_per_env", "max_iterations", "save_interval")
    },
    **{(RunnerCfg, name): (int, 0, 2**63 - 1) for name in ("seed", "keep_checkpoints", "num_dumped_steps")},
}  # fmt: skip
"""Numbers that each setting takes: their type, the smallest and the largest."""

FIELDS = [(section, field.name) for section in SECTIONS for field in dataclasses.fields(section)]  # type: ignore[arg-type]


@pytest.mark.parametrize(("section", "name"), RANGES)
def test_numbers_are_taken_in_their_range_only(section: type[Cfg], name: str) -> None:
    """Both ends of the range are taken as they are; what lies beyond, and what is no number, is refused by name."""
    kind, low, high = RANGES[section, name]
    for value in (low, high):
        assert getattr(section.from_dict({name: value}), name) == value
    step = 1 if kind is int else 1e-9
    beyond = [low - step, math.nextafter(high, math.inf) if kind is float else int(high) + 1]
    for value in (*beyond, math.nan, math.inf, -math.inf, 10**400, True, str(low), None, [low], {"value": low}):
        with pytest.raises(ConfigError, match=rf"^{name} must be ") as error:
            section.from_dict({name: value})
        assert_clear(error.value)
    if kind is int:
        with pytest.raises(ConfigError, match=rf"^{name} must be an integer"):
            section.from_dict({name: 2.0})


@examples(400)
@given(st.sampled_from(FIELDS), odd_values())
def test_any_value_of_any_field(field: tuple[type[Cfg], str], value: object) -> None:
    """What is taken is of the declared kind, and comes back from a dictionary; the rest is refused by name."""
    section, name = field
    with clear_error_or_none() as errors:
        cfg = section.from_dict({name: value})
        default = getattr(section(), name)
        taken = getattr(cfg, name)
        if isinstance(default, bool | int | float):
            assert isinstance(taken, bool) == isinstance(default, bool) and math.isfinite(taken)
        assert section.from_dict(cfg.to_dict()) == cfg
    for error in errors:
        assert isinstance(error, ConfigError) and name in str(error)


@examples(60)
@given(st.sampled_from(SECTIONS), st.dictionaries(st.text() | st.integers() | st.none(), st.none(), min_size=1))
def test_unknown_keys_are_refused(section: type[Cfg], values: dict) -> None:
    """A key that no field has is always an error."""
    with clear_error_or_none() as errors:
        section.from_dict(values)
    assert errors or values.keys() <= {field.name for field in dataclasses.fields(section)}  # type: ignore[arg-type]


PLACES = [
    *(("actor", name) for name in ("class_name", "hidden_dims", "activation", "obs_normalization", "layer_norm")),
    *(("critic", field.name) for field in dataclasses.fields(CriticCfg)),
    *(("actor", "distribution_cfg", field.name) for field in dataclasses.fields(DistributionCfg)),
    *(("algorithm", field.name) for field in dataclasses.fields(SACCfg)),
    *((field.name,) for field in dataclasses.fields(RunnerCfg)),
    *((*section, "unknown") for section in (("actor",), ("critic",), ("algorithm",), ("actor", "distribution_cfg"))),
]
"""Paths of settings in the dictionary that runners take."""

LONG_RUNS = {("num_steps_per_env",), ("algorithm", "num_learning_epochs"), ("algorithm", "num_mini_batches")}
"""Settings whose large values are right but take for ever."""

READ_BY_RSL_RL = {
    ("algorithm",),
    ("algorithm", "class_name"),
    *((field.name,) for field in dataclasses.fields(RunnerCfg)),
}
"""Settings that rsl_rl's own runner reads before the algorithm does."""


@quiet
@examples(120)
@given(st.lists(st.tuples(st.sampled_from(PLACES), odd_values()), min_size=1, max_size=2), st.booleans())
def test_any_value_in_the_dictionary_of_a_runner(changes: list[tuple[tuple[str, ...], Any]], is_stock: bool) -> None:
    """Our runner, and rsl_rl's for what the algorithm reads, refuse a configuration or train with it."""
    cfg = tiny_cfg().to_dict()
    for path, value in changes:
        if path in LONG_RUNS and isinstance(value, int):
            value = min(value, 8)
        if is_stock and path in READ_BY_RSL_RL:
            continue
        section: Any = cfg
        for name in path[:-1]:
            section = section.get(name) if isinstance(section, dict) else None
        if isinstance(section, dict):
            section[path[-1]] = value
    with clear_error_or_none():
        runner = (OnPolicyRunner if is_stock else OffPolicyRunner)(DoubleIntegrator(num_envs=4), cfg)
        runner.learn(2)
        assert all(bool(torch.isfinite(values).all()) for values in runner.alg.get_policy().parameters())


@quiet
@pytest.mark.parametrize(
    ("section", "name", "value", "message"),
    [
        ("algorithm", "replay_size", HUGE, "not enough memory for the replay: lower algorithm.replay_size"),
        ("algorithm", "batch_size", HUGE, "not enough memory for a gradient step: lower algorithm.batch_size"),
        ("algorithm", "num_mini_batches", HUGE, "not enough memory for a gradient step"),
        ("actor", "hidden_dims", [2**20, 2**20], "not enough memory for the actor: lower actor.hidden_dims"),
        ("critic", "hidden_dims", [2**20, 2**20], "not enough memory for the critics: lower critic.hidden_dims"),
    ],
)
def test_too_large_for_any_machine(section: str, name: str, value: object, message: str) -> None:
    """What no memory holds is said with the setting to lower."""
    cfg = tiny_cfg().to_dict()
    cfg[section][name] = value
    with pytest.raises(ConfigError, match=message) as error:
        OffPolicyRunner(DoubleIntegrator(num_envs=4), cfg).learn(2)
    assert_clear(error.value)


@quiet
@pytest.mark.parametrize("train_cfg", [None, [], {}, {"algorithm": None}, {"algorithm": {}}, {"algorithm": "PPO"}])
def test_no_configuration_of_a_runner(train_cfg: Any) -> None:  # noqa: ANN401
    """What is no configuration at all is said to be none."""
    with pytest.raises(ConfigError) as error:
        OffPolicyRunner(DoubleIntegrator(num_envs=4), train_cfg)
    assert_clear(error.value)


ODD_TEXTS = [
    "agent: [sac]\n", "agent: sac\ntask: [1]\n", "agent: sac\nseed: 2026-99-99\n", "agent: sac\nseed: &a [*a]\n",
    f"agent: sac\nseed: {'9' * 5000}\n", "[" * 1200, "agent: sac\n? [1, 2]\n: 3\n", "agent: sac\n1: 2\n", "\0", "",
    "agent: sac\nactor: {hidden_dims: {a: b}}\n", "agent: sac\nalgorithm: 3\n", "agent: ppo\nseed: .nan\n",
    "a: &a [x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b]\n"
    "d: &d [*c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e]\n"
    "agent: sac\nseed: [*f, *f, *f, *f, *f, *f, *f, *f, *f, *f, *f, *f, *f, *f, *f]\n",
]  # fmt: skip
"""Files that are not what they seem, the last with a few lines that stand for four million words."""

LINES = dump_config("task", tiny_cfg()).splitlines(keepends=True)


@st.composite
def _texts(draw: st.DrawFn) -> str:
    """Draw an odd text, a document of odd values, or a good file in which a line was changed."""
    kind = draw(st.sampled_from(["odd", "text", "document", "line"]))
    if kind == "odd":
        return draw(st.sampled_from(ODD_TEXTS))
    if kind == "text":
        return draw(st.text())
    plain = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), _nested, max_leaves=5)
    if kind == "document":
        names = st.sampled_from(["agent", "seed", "actor", "algorithm", "logger", "obs_groups"]) | st.text()
        return yaml.safe_dump({"agent": "sac", **draw(st.dictionaries(names, plain, max_size=3))})
    number = draw(st.integers(1, len(LINES) - 1))
    key = LINES[number].split(":")[0]
    line = f"{key}: {yaml.safe_dump(draw(plain), default_flow_style=True).splitlines()[0]}\n"
    return "".join([*LINES[:number], line, *LINES[number + 1 :]])


def _nested(children: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3)


@examples(100)
@given(_texts())
def test_any_file_of_settings(tmp_path: pathlib.Path, text: str) -> None:
    """A file is refused with one line, or is a configuration that survives being written and read again."""
    path = tmp_path / "config.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with clear_error_or_none() as errors:
        task, cfg = load_config(path)
        path.write_text(dump_config(task, cfg))
        assert load_config(path) == (task, cfg)
    assert all(isinstance(error, ConfigError) for error in errors)


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_files_are_refused(tmp_path: pathlib.Path, text: str) -> None:
    """Each of these is an error, and a quick one."""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_config(path)
    assert_clear(error.value)
