# SPDX-License-Identifier: BSD-3-Clause

"""The file ``config.yaml`` of a run: complete, and enough to repeat it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.utils.config_base import Cfg, check_int, check_number, one_line, shown
from rsl_rl_sac.utils.errors import ConfigError
from rsl_rl_sac.utils.versions import is_newer_than_ours, package_version

_KINDS: dict[str, type[RunnerCfg] | type[PPORunnerCfg]] = {"sac": RunnerCfg, "ppo": PPORunnerCfg}


@dataclass
class TrainingCfg(Cfg):
    """What a run was asked for beside its configuration."""

    minutes: float | None = None
    """Training time of the whole run, without evaluations; None leaves it to the iterations."""

    evaluation_minutes: float = 1.0
    """Training time between evaluations; 0 only evaluates the end."""

    evaluation_envs: int = 64
    """Episodes per evaluation."""

    until: float | None = None
    """Score of an evaluation at which to stop early; None goes on to the end."""

    cores: int | None = None
    """Cores to use, on which the last digits depend; None takes all."""

    start_from: str | None = None
    """Checkpoint of another run whose networks this one started with; None started afresh."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        if self.minutes is not None:
            check_number(self, "minutes", 0.0, 1e9, open_low=True)
        check_number(self, "evaluation_minutes", 0.0, 1e9)
        check_int(self, "evaluation_envs", 1)
        if self.until is not None:
            check_number(self, "until", -1e9, 1e9)
        if self.cores is not None:
            check_int(self, "cores", 1)


def dump_config(task: str, cfg: RunnerCfg | PPORunnerCfg, training: TrainingCfg | None = None) -> str:
    """Return a configuration as YAML, with the version of this package that wrote it."""
    agent = "sac" if isinstance(cfg, RunnerCfg) else "ppo"
    content = {"version": package_version(), "task": task, "agent": agent, **cfg.to_dict()}
    if training is not None:
        content["training"] = training.to_dict()
    return yaml.safe_dump(to_plain(content), sort_keys=False)


def load_config(path: Path) -> tuple[str, RunnerCfg | PPORunnerCfg]:
    """Read the task and the configuration.

    Raises:
        ConfigError: If the file is missing, is not such a configuration, or is from a newer version of this package.
    """
    task, cfg, _ = load_run_config(path)
    return task, cfg


def load_run_config(path: Path) -> tuple[str, RunnerCfg | PPORunnerCfg, TrainingCfg | None]:
    """Read the task, the configuration, and what else the run was asked for, if the file says so.

    Raises:
        ConfigError: If the file is missing, is not such a configuration, or is from a newer version of this package.
    """
    try:
        content = yaml.safe_load(path.read_text())
    # Dates that do not exist and endless integers are plain value errors, a thousand brackets a recursion error.
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"'{path}' cannot be read as a configuration: {one_line(str(error))}") from error
    agent = content.pop("agent", None) if isinstance(content, dict) else None
    if not isinstance(agent, str) or agent not in _KINDS:
        raise ConfigError(f"'{path}' is not the configuration of a run: it needs 'agent', one of {', '.join(_KINDS)}.")
    written_by, task = content.pop("version", ""), content.pop("task", "")
    if not (isinstance(written_by, str) and isinstance(task, str)):
        raise ConfigError(f"'{path}': 'version' and 'task' must be texts, got {shown(written_by)} and {shown(task)}.")
    if is_newer_than_ours(written_by):
        raise ConfigError(
            f"'{path}' was written by version {written_by} of rsl-rl-sac, this is {package_version()}: upgrade"
            " this package."
        )
    training = content.pop("training", None)
    try:
        training_cfg = None if training is None else TrainingCfg.from_dict(training, "training.")
        return task, _KINDS[agent].from_dict(content), training_cfg
    except ConfigError as error:
        raise ConfigError(f"'{path}': {error}") from error


def to_plain(value: Any) -> Any:  # noqa: ANN401
    """Turn tuples into lists, which YAML has a safe form for."""
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    return [to_plain(item) for item in value] if isinstance(value, list | tuple) else value
