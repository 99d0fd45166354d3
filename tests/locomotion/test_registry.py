# SPDX-License-Identifier: BSD-3-Clause

"""Names and sizes of the tasks, robots from outside, the list on the command line, and the page on adding a robot."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest
import torch

from rsl_rl_sac.cli import main
from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.locomotion import make_env, register_robot, registry, task_cfg, task_names, tasks
from rsl_rl_sac.locomotion.commands import CommandCfg
from rsl_rl_sac.locomotion.registry import preset_key
from rsl_rl_sac.locomotion.robot import Actuator, Body, Robot, Shape
from rsl_rl_sac.locomotion.scene import PhysicsCfg
from rsl_rl_sac.locomotion.tasks import EventCfg
from rsl_rl_sac.presets import preset
from rsl_rl_sac.utils.errors import ConfigError

ROBOTS = ("Anymal-B", "Anymal-D", "Unitree-A1", "Unitree-Go1", "Unitree-Go2", "Unitree-H1", "Unitree-G1")
# Joints, observations on flat and on rough ground, mass in kg.
SIZES = dict.fromkeys(ROBOTS, (12, 48, 235)) | {"Unitree-H1": (19, 69, 256), "Unitree-G1": (37, 123, 310)}
MASSES = dict(zip(ROBOTS, ("30.4", "51.5", "12.5", "12.7", "15.0", "51.4", "32.2"), strict=True))
PAGE = Path(__file__).parents[2] / "docs" / "add-a-robot.md"


@pytest.fixture(autouse=True)
def _own_robots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test add robots that the next one does not see."""
    monkeypatch.setattr(registry, "ROBOTS", dict(registry.ROBOTS))


def heavy_dog(folder: Path) -> Path:
    """Write the data of a Go2 with a trunk of 10 kg and knees that are less bent."""
    data = json.loads((Path(registry.__file__).parent / "robots" / "unitree_go2.json").read_text())
    data |= {"name": "heavy_dog", "title": "Heavy Dog"}
    data["bodies"][0]["mass"] = 10.0
    data["default_pose"] |= {name: -1.2 for name in data["default_pose"] if "calf" in name}
    path = folder / "heavy_dog.json"
    path.write_text(json.dumps(data))
    return path


def test_names() -> None:
    """Seven robots, each flat and rough."""
    assert task_names() == [f"Velocity-{terrain}-{robot}" for robot in ROBOTS for terrain in ("Flat", "Rough")]
    assert len(set(task_names())) == 14


@pytest.mark.parametrize("robot", ROBOTS)
def test_sizes(robot: str) -> None:
    """Every task can be made and stepped; observations and actions have Isaac Lab's sizes."""
    joints, *sizes = SIZES[robot]
    for terrain, size in zip(("Flat", "Rough"), sizes, strict=True):
        env = make_env(f"Velocity-{terrain}-{robot}", num_envs=3, num_threads=1)
        assert (env.num_envs, env.num_actions, env.max_episode_length) == (3, joints, 1000)
        observations, rewards, dones, _ = env.step(torch.zeros(3, joints))
        assert observations["policy"].shape == (3, size)
        assert observations["policy"].isfinite().all()
        assert rewards.shape == dones.shape == (3,)


def test_flat_and_rough() -> None:
    """Flat tasks have no terrain; small robots have low boxes."""
    for name in task_names():
        terrain = task_cfg(name).terrain
        assert (terrain is None) == ("Flat" in name)
        if terrain is not None:
            small = any(robot in name for robot in ("A1", "Go1", "Go2"))
            assert terrain.box_height == ((0.025, 0.1) if small else (0.05, 0.2))


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("Velocity-Flat-Unitree-Go3", "Velocity-Flat-Unitree-Go"),
        ("Isaac-Velocity-Rough-Anymal-D-v0", "Velocity-Rough-Anymal-D"),
        ("velocity-rough-unitree-h1", "Velocity-Rough-Unitree-H1?"),
        ("go2", "Velocity-Flat-Unitree-Go2 or Velocity-Rough-Unitree-Go2?"),
    ],
)
def test_unknown_task(wrong: str, right: str) -> None:
    """The message names the closest tasks, three at most, and how to see all."""
    for function in (task_cfg, lambda name: make_env(name, num_envs=1)):
        with pytest.raises(ConfigError) as error:
            function(wrong)
        message = str(error.value).removeprefix(f"There is no task '{wrong}'. Did you mean ")
        assert message.startswith(right) and message.endswith("? rsl-rl-sac list shows all.")
        assert message.count("Velocity-") <= 3


def test_unknown_task_that_is_like_none() -> None:
    """No guess where there is none."""
    with pytest.raises(ConfigError) as error:
        task_cfg("Xyzzy")
    assert str(error.value) == "There is no task 'Xyzzy'. rsl-rl-sac list shows all."


def test_overrides() -> None:
    """Fields of the task can be changed; an unknown one is named beside those there are."""
    physics = dataclasses.replace(task_cfg("Velocity-Flat-Unitree-Go2").physics, decimation=8)
    env = make_env("Velocity-Flat-Unitree-Go2", 2, episode_length=4.0, observation_noise=False, physics=physics)
    assert env.step_dt == pytest.approx(0.04)
    assert env.max_episode_length == 100
    still = torch.zeros(2, 12)
    projected_gravity = env.step(still)[0]["policy"][:, 6:9]
    assert projected_gravity.norm(dim=1) == pytest.approx(torch.ones(2), abs=1e-5)  # no noise
    assert make_env("Velocity-Flat-Unitree-Go2", 2).max_episode_length == 1000
    with pytest.raises(ConfigError, match=r"no field\(s\) decimation, noise; it has robot, rewards, terrain"):
        make_env("Velocity-Flat-Unitree-Go2", 2, noise=False, decimation=8)


def test_data_file_of_a_robot() -> None:
    """A robot of the package goes by its name; one that is not there is named."""
    assert registry.load_robot("unitree_go2").title == "Unitree Go2"
    with pytest.raises(ConfigError, match=r"Cannot read the robot file .*unitree_go9\.json"):
        registry.load_robot("unitree_go9")


def test_eighth_robot(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A data file and one call are a robot with both tasks."""
    path = heavy_dog(tmp_path)
    register_robot("Heavy-Dog", path, tasks.unitree_quadruped)
    assert task_names()[-2:] == ["Velocity-Flat-Heavy-Dog", "Velocity-Rough-Heavy-Dog"]
    for terrain, size in (("Flat", 48), ("Rough", 235)):
        env = make_env(f"Velocity-{terrain}-Heavy-Dog", num_envs=4, seed=3, num_threads=1)
        assert env.robot == Robot.from_file(path)
        assert env.robot.total_mass == pytest.approx(15.019 + 10.0 - 6.923)
        assert env.base_inertia.mass.min() >= 9.0 and env.base_inertia.mass.max() <= 13.0
        for _ in range(4):
            env.step(torch.zeros(4, 12))
        observations, rewards, _, _ = env.step(torch.zeros(4, 12))
        assert observations["policy"].shape == (4, size)
        assert observations["policy"].isfinite().all() and rewards.isfinite().all()
        assert env.num_diverged == 0
    monkeypatch.setenv("COLUMNS", "120")
    main(["list"])
    assert re.search(r"Velocity-Rough-Heavy-Dog +Heavy Dog +rough +12 +235 +18\.1", capsys.readouterr().out)


def test_missing_data_file(tmp_path: Path) -> None:
    """A wrong path is told when the task is made."""
    register_robot("Ghost", tmp_path / "ghost.json", tasks.anymal)
    with pytest.raises(ConfigError, match=r"Cannot read the robot file .*ghost\.json"):
        make_env("Velocity-Flat-Ghost", num_envs=1)


def test_family_that_does_not_fit(tmp_path: Path) -> None:
    """A humanoid's rewards on a quadruped are refused when the task is made, with what it lacks."""
    register_robot("Heavy-Dog", heavy_dog(tmp_path), tasks.h1)
    with pytest.raises(ConfigError, match="heavy_dog: feet_slide needs feet that are bodies of their own"):
        make_env("Velocity-Flat-Heavy-Dog", num_envs=1)


def test_list(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One row for each task, with joints, observations and mass."""
    monkeypatch.setenv("COLUMNS", "120")
    main(["list"])
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["Task", "Robot", "Terrain", "Joints", "Observations", "Mass", "(kg)"]
    found = [(*row.split()[:1], *row.split()[-4:]) for row in rows]
    expected = []
    for robot in ROBOTS:
        joints, flat, rough = SIZES[robot]
        expected.append((f"Velocity-Flat-{robot}", "flat", str(joints), str(flat), MASSES[robot]))
        expected.append((f"Velocity-Rough-{robot}", "rough", str(joints), str(rough), MASSES[robot]))
    assert found == expected


def test_list_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are whole also where the terminal is narrow, so that they can be copied."""
    monkeypatch.setenv("COLUMNS", "80")
    main(["list"])
    out = capsys.readouterr().out
    assert [name for name in task_names() if name not in out] == []


@pytest.mark.parametrize("arguments", [["fly"], ["list", "--fast"]])
def test_unknown_verb(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line ends with an error code and says what it does not know."""
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code not in (0, None)
    captured = capsys.readouterr()
    assert arguments[-1] in captured.out + captured.err


def test_error_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An error of this package is a message and exit code 2, not a traceback."""
    register_robot("Ghost", tmp_path / "ghost.json", tasks.anymal)
    with pytest.raises(SystemExit) as error:
        main(["list"])
    assert error.value.code == 2
    assert capsys.readouterr().err.startswith("rsl-rl-sac: Cannot read the robot file")


def blocks(language: str) -> list[str]:
    """Return the code of a language on the page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)


def test_page_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The code of the page on adding a robot runs as it stands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    (code,) = blocks("python")
    exec(compile(code, str(PAGE), "exec"), {"__name__": "__main__"})
    out = capsys.readouterr().out
    assert len(re.findall(r"My Dog +(flat|rough) +12 +(48|235) +15\.2", out)) == 2
    robot = Robot.from_file("my_dog.json")
    assert robot.total_mass == pytest.approx(8.0 + 4 * 1.8)

    # The annotated data on the page is of the same robot.
    head, body = (json.loads(re.sub(r"//.*$", "", block, flags=re.MULTILINE)) for block in blocks("jsonc"))
    data = json.loads(Path("my_dog.json").read_text())
    texts = {key: data[key] for key in ("sources", "licence", "notes")}
    Path("annotated.json").write_text(json.dumps(head | texts | {"bodies": data["bodies"]}))
    assert Robot.from_file("annotated.json") == robot
    shank = next(part for part in data["bodies"] if part["name"] == body["name"])
    assert body.pop("inertia") == pytest.approx(shank.pop("inertia"), rel=0.01)
    assert body.pop("quat") == [1.0, 0.0, 0.0, 0.0]
    assert body == shank


def test_page_data_is_complete() -> None:
    """The annotated data on the page has every key there is."""
    head, body = (json.loads(re.sub(r"//.*$", "", block, flags=re.MULTILINE)) for block in blocks("jsonc"))
    assert {*head, "bodies"} == {field.name for field in dataclasses.fields(Robot)}
    assert set(body) == {field.name for field in dataclasses.fields(Body)}
    assert set(head["actuators"][0]) == {field.name for field in dataclasses.fields(Actuator)}
    keys = {key for shape in body["shapes"] for key in shape}
    assert keys | {"quat"} == {field.name for field in dataclasses.fields(Shape)}


def test_names_are_not_taken_twice(tmp_path: Path) -> None:
    """A name of another robot is refused; the same robot again is not."""
    with pytest.raises(ConfigError, match="There is a robot 'Unitree-Go1' already, of unitree_go1"):
        register_robot("Unitree-Go1", tmp_path / "other.json", tasks.unitree_quadruped)
    for _ in range(2):
        register_robot("Heavy-Dog", heavy_dog(tmp_path), tasks.unitree_quadruped)
    assert len(task_names()) == 16


OWN = """
from pathlib import Path
from rsl_rl_sac.locomotion import register_robot, task_names
from rsl_rl_sac.locomotion.tasks import unitree_quadruped

register_robot("Heavy-Dog", Path(__file__).with_name("heavy_dog.json"), unitree_quadruped)
assert "Velocity-Flat-Heavy-Dog" in task_names()
"""


def test_robots_of_the_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands know the robots of the files that the variable names; a file that fails is one line."""
    heavy_dog(tmp_path)
    file = tmp_path / "own.py"
    file.write_text(OWN)
    monkeypatch.setattr(registry, "_files_run", set())
    monkeypatch.setenv("RSL_RL_SAC_ROBOTS", str(file))
    assert task_cfg("Velocity-Rough-Heavy-Dog").robot == str(tmp_path / "heavy_dog.json")
    main(["list"])
    assert "Velocity-Flat-Heavy-Dog" in capsys.readouterr().out
    monkeypatch.setenv("RSL_RL_SAC_ROBOTS", f"{file}:{tmp_path / 'missing.py'}")
    with pytest.raises(SystemExit) as refused:
        main(["list"])
    errors = capsys.readouterr().err
    assert (
        refused.value.code == 2 and "missing.py', which fails: FileNotFoundError" in errors and errors.count("\n") == 1
    )


def test_presets_know_the_kind_of_robot(tmp_path: Path) -> None:
    """A humanoid of one's own is trained as H1 and G1 are, whatever its name."""
    data = json.loads((Path(registry.__file__).parent / "robots" / "unitree_h1.json").read_text())
    path = tmp_path / "robot.json"
    path.write_text(json.dumps({**data, "name": "walker"}))
    register_robot("Walker", path, tasks.h1)
    own, theirs, dog = (
        preset("cpu", preset_key(f"Velocity-Flat-{name}")) for name in ("Walker", "Unitree-H1", "Unitree-Go1")
    )
    assert own == theirs != dog


def test_presets_know_the_unit_of_action(tmp_path: Path) -> None:
    """A quadruped of one's own whose unit is 0.1 rad gets bounds of 0.5 rad, five units."""
    data = json.loads((Path(registry.__file__).parent / "robots" / "unitree_go2.json").read_text())
    path = tmp_path / "robot.json"
    path.write_text(json.dumps({**data, "name": "pup", "action_scale": 0.1}))
    register_robot("Pup", path, tasks.unitree_quadruped)
    cfg = preset("cpu", preset_key("Velocity-Flat-Pup"))
    assert isinstance(cfg, RunnerCfg) and cfg.algorithm.largest_action == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ({"physics": {"cone": "round"}}, "cone must be 'pyramidal' or 'elliptic', got 'round'"),
        ({"physics": {"time_step": 0.0}}, "time_step must be positive"),
        ({"commands": {"lin_vel_x": (1.0, -1.0)}}, "lin_vel_x must be a range"),
        ({"commands": {"standing_share": 2.0}}, "standing_share must be in"),
        ({"commands": {"lin_vel_x": (0.0, math.inf)}}, "lin_vel_x must be a range"),
        ({"commands": {"heading_stiffness": math.nan}}, "heading_stiffness must be finite, got nan"),
        ({"commands": {"resampling_time": math.inf}}, "resampling_time a positive number of seconds"),
        ({"commands": {"resampling_time": 0.005}}, "resampling_time is 0.005 s, less than a control step of 0.02 s"),
        ({"events": {"base_com": (0.05, math.inf, 0.01)}}, "base_com must be finite and not negative, got"),
        ({"events": {"base_com": (0.05, math.nan, 0.01)}}, "base_com must be finite and not negative, got"),
    ],
)
def test_bad_settings(override: dict[str, dict], message: str) -> None:
    """Settings out of range are refused by name."""
    classes = {"physics": PhysicsCfg, "commands": CommandCfg, "events": EventCfg}
    with pytest.raises(ConfigError, match=message):
        make_env("Velocity-Flat-Unitree-Go1", 1, **{name: classes[name](**value) for name, value in override.items()})
