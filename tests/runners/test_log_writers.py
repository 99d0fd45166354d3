# SPDX-License-Identifier: BSD-3-Clause

"""Log writers: those that cannot be had are refused before training, the others get what they need."""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import pathlib
import sys
import types

import pytest

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.runners.log_writers import check_log_writer, with_project
from rsl_rl_sac.runners.training import Training
from rsl_rl_sac.utils.errors import ConfigError, MissingDependencyError


@pytest.mark.parametrize(
    "logger",
    [
        "tensorboard",
        {"class_name": "tensorboard"},
        {"class_name": "torch.utils.tensorboard:SummaryWriter", "comment": "x"},
    ],
)
def test_known(logger: str | dict) -> None:
    """TensorBoard is always there; a class of the user's is the user's business."""
    check_log_writer(logger)


@pytest.mark.parametrize("logger", ["tensorbord", "", "WandbLogWriter", {}, {"class_name": 3}])
def test_unknown(logger: str | dict) -> None:
    """Names that rsl_rl does not know, and dictionaries without a class, are refused."""
    with pytest.raises(ConfigError, match="logger must be tensorboard, wandb or neptune"):
        check_log_writer(logger)


@pytest.mark.parametrize(
    ("logger", "message"),
    [
        ({"class_name": "my.module:Writer"}, r"logger.class_name = 'my.module:Writer' cannot be found"),
        ({"class_name": "wandbb"}, r"logger.class_name = 'wandbb' cannot be found"),
        ({"class_name": "wandb", "entity": "me"}, "takes a project_name and nothing else, got entity"),
    ],
)
def test_writers_that_cannot_be(logger: dict, message: str) -> None:
    """A class that does not exist, and arguments that a writer does not take, are refused in one line."""
    with pytest.raises(ConfigError, match=message) as info:
        check_log_writer(logger)
    assert len(str(info.value).splitlines()) == 1


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


@pytest.mark.parametrize(
    ("logger", "expected", "project"),
    [
        ({"class_name": "wandb"}, "wandb", "a"),
        ({"class_name": "wandb", "project_name": "c"}, "wandb", "c"),
        ({"class_name": "tensorboard"}, "tensorboard", "a"),
        ({"class_name": "WandbLogWriter"}, {"class_name": "WandbLogWriter", "project_name": "a"}, "a"),
        (
            {"class_name": "WandbLogWriter", "project_name": "c"},
            {"class_name": "WandbLogWriter", "project_name": "c"},
            "a",
        ),
        ({"class_name": "my:Writer", "x": 1}, {"class_name": "my:Writer", "x": 1}, "a"),
        ("wandb", "wandb", "a"),
    ],
)
def test_dictionaries(logger: str | dict, expected: str | dict, project: str) -> None:
    """rsl_rl gets words as words and classes with their project; twice is as good as once."""
    cfg = with_project({"experiment_name": "a", "logger": logger})
    assert cfg["logger"] == expected and cfg["wandb_project"] == project
    assert with_project(cfg) == cfg


class FakeWandb(types.ModuleType):
    """Takes what rsl_rl's writer sends to W&B; the writer itself is the real one."""

    def __init__(self) -> None:
        """Start with nothing sent."""
        super().__init__("wandb")
        self.__spec__ = importlib.machinery.ModuleSpec("wandb", None)
        self.configs: dict = {}
        self.scalars: dict[str, list[float]] = {}
        self.project = ""
        self.is_finished = False
        self.config = types.SimpleNamespace(update=self.configs.update)
        self.Settings = types.SimpleNamespace

    def init(self, project: str, **_: object) -> None:
        """Begin a run."""
        self.project = project

    def log(self, scalars: dict[str, float], step: int | None = None) -> None:
        """Take scalars."""
        for name, value in scalars.items():
            self.scalars.setdefault(name, []).append(value)

    def save(self, *_: object, **__: object) -> None:
        """Take a file."""

    def finish(self) -> None:
        """End the run."""
        self.is_finished = True


@pytest.mark.parametrize(
    ("cfg", "logger"),
    [(RunnerCfg(), "wandb"), (PPORunnerCfg(), "wandb"), (RunnerCfg(), {"class_name": "wandb"})],
    ids=["sac", "ppo", "dictionary"],
)
def test_wandb(
    cfg: RunnerCfg | PPORunnerCfg, logger: str | dict, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W&B gets the configuration of the environment, which is a dictionary, and the losses of every iteration."""
    wandb = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.delitem(sys.modules, "rsl_rl.utils.wandb_utils", raising=False)
    with contextlib.suppress(ImportError):  # before 5.4 the writer is imported, and imports W&B, when it is needed
        monkeypatch.setattr(importlib.import_module("rsl_rl.utils.wandb_log_writer"), "wandb", wandb)
    cfg.logger, cfg.num_envs, cfg.num_steps_per_env, cfg.max_iterations = logger, 8, 4, 3
    cfg.actor.hidden_dims = cfg.critic.hidden_dims = [16]
    if isinstance(cfg, RunnerCfg):
        cfg.algorithm.num_mini_batches, cfg.algorithm.batch_size, cfg.algorithm.replay_size = 2, 16, 1000
    training = Training("Velocity-Flat-Unitree-Go1", cfg, tmp_path, evaluation_envs=2, num_cores=1)
    training.run()
    assert wandb.is_finished
    assert wandb.project == cfg.experiment_name
    assert wandb.configs["env_cfg"] == training.env.cfg and "rewards" in wandb.configs["env_cfg"]
    losses = [values for name, values in wandb.scalars.items() if name.startswith("Loss/")]
    assert len(losses) >= 2 and all(len(values) in (1, 2, 3) for values in losses)
