# SPDX-License-Identifier: BSD-3-Clause

"""Log writers that cannot be had are refused before training."""

from __future__ import annotations

import importlib.util

import pytest

from rsl_rl_sac.runners.log_writers import check_log_writer, with_project
from rsl_rl_sac.utils.errors import ConfigError, MissingDependencyError


@pytest.mark.parametrize("logger", ["tensorboard", {"class_name": "tensorboard"}, {"class_name": "my.module:Writer"}])
def test_known(logger: str | dict) -> None:
    """TensorBoard is always there; a class of the user's is the user's business."""
    check_log_writer(logger)


@pytest.mark.parametrize("logger", ["tensorbord", "", {}, {"class_name": 3}])
def test_unknown(logger: str | dict) -> None:
    """Names that rsl_rl does not know, and dictionaries without a class, are refused."""
    with pytest.raises(ConfigError, match="logger must be tensorboard, wandb or neptune"):
        check_log_writer(logger)


@pytest.mark.parametrize("logger", ["wandb", {"class_name": "WandbLogWriter", "project_name": "x"}])
def test_missing_package(logger: str | dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install; once it is there, there is none."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="needs the package wandb: pip install wandb"):
        check_log_writer(logger)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: "found" if name == "wandb" else None)
    check_log_writer(logger)


def test_project() -> None:
    """Services get the name of the experiment as their project, unless one is named."""
    assert with_project({"experiment_name": "a"})["wandb_project"] == "a"
    assert with_project({"experiment_name": "a", "wandb_project": "b"})["wandb_project"] == "b"
