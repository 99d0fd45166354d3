# SPDX-License-Identifier: BSD-3-Clause

"""rsl_rl's log writers by name: whether one can be had, before any work is done."""

from __future__ import annotations

import importlib.util

from rsl_rl.utils.logger import Logger

from rsl_rl_sac.utils.config_base import resolve
from rsl_rl_sac.utils.errors import ConfigError, MissingDependencyError

_PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb", "neptune": "neptune"}
"""Packages that the writers which rsl_rl knows by a word need."""

_CLASS_PACKAGES = {"WandbLogWriter": "wandb", "NeptuneLogWriter": "neptune"}
"""Packages that its classes need, which it takes in a dictionary only."""


def check_log_writer(logger: str | dict) -> None:
    """Raise an error if a log writer cannot be made: rsl_rl itself finds out when training has begun.

    Args:
        logger: Name of a writer, or a dictionary with its ``class_name``.

    Raises:
        ConfigError: If there is no such writer.
        MissingDependencyError: If its package is not installed.
    """
    name = logger if isinstance(logger, str) else logger.get("class_name")
    if not isinstance(name, str) or (isinstance(logger, str) and name not in _PACKAGES):
        raise ConfigError(
            f"logger must be tensorboard, wandb or neptune, or a dictionary with the class_name of a writer, got"
            f" {logger!r}."
        )
    package = {**_PACKAGES, **_CLASS_PACKAGES}.get(name)
    if package is None:
        resolve(name, "logger.class_name")  # a class of the user's, whose arguments are the user's business
        return
    unknown = sorted(map(str, set(logger) - {"class_name", "project_name"})) if isinstance(logger, dict) else []
    if unknown:
        raise ConfigError(f"The logger '{name}' takes a project_name and nothing else, got {', '.join(unknown)}.")
    if importlib.util.find_spec(package) is None:
        raise MissingDependencyError(f"The logger '{name}' needs the package {package}: pip install {package}.")


def with_project(cfg: dict) -> dict:
    """Return the configuration of a runner in which rsl_rl finds the log writer, and services find a project.

    The project is the experiment, unless one is named. rsl_rl knows ``tensorboard``, ``wandb`` and ``neptune`` as plain
    words only: in a dictionary it takes them for the name of a class, which it does not have.
    """
    project = cfg.get("experiment_name")
    cfg = {**({} if project is None else {"wandb_project": project, "neptune_project": project}), **cfg}
    logger = cfg.get("logger")
    name = logger.get("class_name") if isinstance(logger, dict) else None
    if not isinstance(logger, dict) or not isinstance(name, str):
        return cfg
    if name in _PACKAGES:
        cfg["logger"] = name
        if "project_name" in logger:
            cfg[f"{name}_project"] = logger["project_name"]
    elif name in _CLASS_PACKAGES:
        cfg["logger"] = {"project_name": project, **logger}
    return cfg


class _ReadableCfg(dict):
    """A dictionary that offers itself in the way in which rsl_rl's writers ask for a configuration."""

    def to_dict(self) -> dict:
        """Return a plain dictionary."""
        return dict(self)


def make_cfg_readable(logger: Logger) -> None:
    """Let writers read the environment's configuration if it is a dictionary.

    rsl_rl's environments may have one, but its writers for W&B and Neptune take a dataclass or an object with
    ``to_dict()`` only, and stop the training otherwise.
    """
    if isinstance(logger.env_cfg, dict):
        logger.env_cfg = _ReadableCfg(logger.env_cfg)
