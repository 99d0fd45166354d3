# SPDX-License-Identifier: BSD-3-Clause

"""The file ``config.yaml`` of a run: complete, and enough to repeat it."""

from __future__ import annotations

from pathlib import Path

import yaml

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.utils.errors import ConfigError

_KINDS: dict[str, type[RunnerCfg] | type[PPORunnerCfg]] = {"sac": RunnerCfg, "ppo": PPORunnerCfg}


def dump_config(task: str, cfg: RunnerCfg | PPORunnerCfg) -> str:
    """Return a configuration as YAML."""
    agent = "sac" if isinstance(cfg, RunnerCfg) else "ppo"
    return yaml.safe_dump(_plain({"task": task, "agent": agent, **cfg.to_dict()}), sort_keys=False)


def load_config(path: Path) -> tuple[str, RunnerCfg | PPORunnerCfg]:
    """Read the task and the configuration.

    Raises:
        ConfigError: If the file is missing or is not such a configuration.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"'{path}' cannot be read as a configuration: {error}") from error
    if not isinstance(content, dict) or content.get("agent") not in _KINDS:
        raise ConfigError(f"'{path}' is not the configuration of a run: it needs 'agent', one of {', '.join(_KINDS)}.")
    task = str(content.pop("task", ""))
    return task, _KINDS[content.pop("agent")].from_dict(content)


def _plain(value: object) -> object:
    """Turn tuples into lists, which YAML has a safe form for."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
