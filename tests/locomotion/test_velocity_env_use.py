# SPDX-License-Identifier: BSD-3-Clause

"""The velocity environment in use: faults, wrong input, the contract, pictures, and training on it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from rsl_rl.runners import OnPolicyRunner

from rsl_rl_sac.envs import check_vec_env
from rsl_rl_sac.locomotion import VelocityEnv, make_env, task_cfg, task_names
from rsl_rl_sac.locomotion.world import LocomotionWorld
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.runners import OffPolicyRunner
from rsl_rl_sac.utils.errors import ConfigError, NonFiniteError
from tests.helpers import small_cfg
from tests.locomotion.velocity_helpers import end_by_time, observe, random_actions, zero_actions
from tests.runners.test_off_policy_runner import differences, whole_state

FLAT, ROUGH = "Velocity-Flat-Unitree-Go1", "Velocity-Rough-Unitree-Go1"


class TestDivergence:
    """A simulation that breaks is not the robot's fault."""

    @pytest.mark.parametrize("task", [FLAT, "Velocity-Rough-Anymal-D", "Velocity-Flat-Unitree-G1"])
    @pytest.mark.parametrize(
        ("array", "column", "value"),
        [("qpos", 2, np.nan), ("qpos", 4, np.nan), ("qpos", 0, 1e8), ("qvel", 1, np.nan), ("qvel", 8, 1e10)],
    )
    @pytest.mark.filterwarnings("ignore:.*encountered in.*:RuntimeWarning")
    def test_one_broken_simulation(
        self,
        tmp_path: pathlib.Path,
        monkeypatch: pytest.MonkeyPatch,
        task: str,
        array: str,
        column: int,
        value: float,
    ) -> None:
        """Its episode is cut off where it was last sound; the others go on as if nothing had happened."""
        monkeypatch.chdir(tmp_path)  # where MuJoCo writes its log
        env, twin = (make_env(task, num_envs=5, observation_noise=False) for _ in range(2))
        generator = torch.Generator().manual_seed(0)
        for _ in range(3):
            actions = 0.2 * random_actions(env, generator)
            env.step(actions)
            twin.step(actions)
        last = observe(env)
        getattr(env.physics, array)[2, column] = value
        actions = 0.2 * random_actions(env, generator)
        obs, rewards, dones, extras = env.step(actions)
        twin_obs, twin_rewards, _, _ = twin.step(actions)

        assert dones.tolist() == extras["time_outs"].tolist() == [False, False, True, False, False]
        assert extras["invalid"].tolist() == dones.tolist()  # nothing is learned from the step
        assert float(rewards[2]) == 0.0
        assert np.array_equal(extras["final_obs"]["policy"][2].numpy(), last[2])
        assert env.num_diverged == 1 and int(env.episode_length_buf[2]) == 0
        assert extras["log"]["Episode_Termination/diverged"] == 1.0
        assert extras["log"]["Episode_Termination/time_out"] == 0.0
        assert extras["log"]["Episode_Termination/base_contact"] == 0.0
        for tensor in (obs["policy"], extras["final_obs"]["policy"], rewards):
            assert bool(torch.isfinite(tensor).all())
        others = [0, 1, 3, 4]
        assert torch.equal(obs["policy"][others], twin_obs["policy"][others])
        assert torch.equal(rewards[others], twin_rewards[others])
        for _ in range(20):
            actions = 0.2 * random_actions(env, generator)
            obs, rewards, dones, _ = env.step(actions)
            twin_obs, twin_rewards, _, _ = twin.step(actions)
            assert torch.equal(obs["policy"][others], twin_obs["policy"][others])
            assert torch.equal(rewards[others], twin_rewards[others])
            assert bool(torch.isfinite(obs["policy"]).all()) and bool(torch.isfinite(rewards).all())
        assert env.num_diverged == 1 and twin.num_diverged == 0

    @pytest.mark.parametrize("value", [np.nan, 1e10])
    @pytest.mark.filterwarnings("ignore:.*encountered in.*:RuntimeWarning")
    def test_log_stays_clean(self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, value: float) -> None:
        """The logged reward of a broken episode is what was returned of it, per 20 s."""
        monkeypatch.chdir(tmp_path)
        env = make_env(FLAT, num_envs=3)
        returned = sum(float(env.step(zero_actions(env))[1][0]) for _ in range(5))
        env.physics.qvel[0, 2] = value
        _, _, _, extras = env.step(zero_actions(env))
        assert all(np.isfinite(number) for number in extras["log"].values())
        total = sum(number for name, number in extras["log"].items() if name.startswith("Episode_Reward"))
        assert total == pytest.approx(returned / 20.0, rel=1e-4)

    @pytest.mark.filterwarnings("ignore:.*encountered in.*:RuntimeWarning")
    def test_all_at_once(self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """All simulations may break in one step, some in the last step of their episode."""
        monkeypatch.chdir(tmp_path)
        env = make_env(ROUGH, num_envs=4)
        assert env.levels is not None
        levels = env.levels.levels.copy()
        end_by_time(env, [1])
        env.physics.qpos[:] = np.nan
        obs, rewards, dones, extras = env.step(zero_actions(env))
        assert dones.all() and extras["time_outs"].all() and (rewards == 0.0).all()
        assert env.num_diverged == 4 and extras["log"]["Episode_Termination/diverged"] == 1.0
        assert bool(torch.isfinite(obs["policy"]).all())
        assert np.array_equal(env.levels.levels, levels)  # nothing is known of their progress
        assert not env.step(zero_actions(env))[2].any()


class TestInput:
    """Wrong input is refused before anything is done."""

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
    def test_action_that_is_no_number(self, value: float) -> None:
        """The error names the environments, and the environment is as before."""
        env = make_env(FLAT, num_envs=4)
        env.step(zero_actions(env))
        before = env.state_dict()
        actions = zero_actions(env)
        actions[1, 3] = actions[3, 0] = value
        with pytest.raises(NonFiniteError, match=r"environments \[1, 3\]"):
            env.step(actions)
        after = env.state_dict()
        assert [name for name in before if not np.array_equal(before[name], after[name])] == []

    @pytest.mark.parametrize("shape", [(4, 11), (3, 12), (12,), (1, 12), (4, 12, 1)])
    def test_shape_of_the_actions(self, shape: tuple[int, ...]) -> None:
        """The error names both shapes."""
        env = make_env(FLAT, num_envs=4)
        with pytest.raises(ConfigError, match=r"\(4, 12\)"):
            env.step(torch.zeros(shape))

    def test_actions_are_copied(self) -> None:
        """A policy may fill the same tensor again, in another type or with a gradient."""
        env, twin = (make_env(FLAT, num_envs=2) for _ in range(2))
        actions = torch.full((2, 12), 0.1)
        env.step(actions)
        actions.fill_(7.0)
        twin.step(torch.full((2, 12), 0.1, dtype=torch.float64).requires_grad_())
        results = [one.step(torch.zeros(2, 12)) for one in (env, twin)]
        assert torch.equal(results[0][1], results[1][1])

    @pytest.mark.parametrize("num_envs", [0, -3])
    def test_no_environments(self, num_envs: int) -> None:
        """There must be one at least."""
        with pytest.raises(ConfigError, match="num_envs"):
            make_env(FLAT, num_envs=num_envs)

    @pytest.mark.parametrize("task", [FLAT, "Velocity-Rough-Unitree-G1"])
    def test_one_environment(self, task: str) -> None:
        """One is enough, over the end of an episode."""
        env, generator = make_env(task, num_envs=1), torch.Generator().manual_seed(0)
        env.episode_length_buf = torch.tensor([995])
        ends = 0
        for _ in range(10):
            obs, rewards, dones, _ = env.step(random_actions(env, generator))
            assert obs["policy"].shape == (1, env.observations.size) and rewards.shape == dones.shape == (1,)
            ends += int(dones.sum())
        assert ends == 1


@pytest.mark.parametrize("task", task_names())
def test_contract(task: str) -> None:
    """All fourteen tasks fulfil the contract of this package."""
    check_vec_env(make_env(task, num_envs=4), num_steps=20)


@pytest.mark.parametrize("task", task_names())
def test_random_actions(task: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 20 000 steps of the wildest policies all that is returned is finite, and but for one case nothing diverges.

    That many steps are of robots whose actions jump between the bounds, which is too much for G1, whose joints jump by
    up to 5 rad at 5 ms steps. A fifth of the robots draw actions within the bounds.
    """
    monkeypatch.chdir(tmp_path)  # where MuJoCo would write its warnings
    num_envs, num_steps = 250, 100
    within = np.arange(num_envs) % 5 == 0  # the other 200 are at the bounds
    env, generator = make_env(task, num_envs), torch.Generator().manual_seed(0)
    env.episode_length_buf = torch.randint(0, 1000, (num_envs,), generator=generator)
    middle = (env.action_bounds[0] + env.action_bounds[1]) / 2
    num_failures = num_time_outs = 0
    diverged, step = np.zeros(num_envs, dtype=int), env.physics.step

    def count(targets: np.ndarray) -> np.ndarray:
        failed = step(targets)
        diverged[failed] += 1
        return failed

    env.physics.step = count  # type: ignore[method-assign]
    for _ in range(num_steps):
        actions = random_actions(env, generator)
        actions[~within] = torch.where(actions[~within] < middle, *env.action_bounds)
        obs, rewards, dones, extras = env.step(actions)
        for tensor in (obs["policy"], extras["final_obs"]["policy"], rewards):
            assert np.isfinite(tensor.numpy()).all()  # not torch, whose threads would spin on MuJoCo's cores
        invalid = extras.get("invalid", torch.zeros(num_envs, dtype=torch.bool))
        num_time_outs += int((extras["time_outs"] & ~invalid).sum())
        num_failures += int((dones & ~extras["time_outs"]).sum())
    assert env.num_diverged == diverged.sum()
    assert num_steps * np.sum(~within) == 20_000
    assert diverged[within].sum() == 0
    assert diverged.sum() == 0 or (task.endswith("G1") and diverged.sum() < 500)
    assert num_failures > 10 and num_time_outs > 1


def test_coarse_physics_on_a_height_field() -> None:
    """Robots that tremble stay on their feet on even ground that is a height field, as on a plane.

    With a field that lies where the ground is, and the cone of the shorter steps, a sixth of them fall within 2.4 s.
    """
    task = task_cfg(ROUGH)
    assert task.terrain is not None
    even = replace(task.terrain, num_columns=2, slope=(0.0, 0.0), proportions=(0.0, 0.0, 0.0, 0.0, 1.0, 0.0))
    falls = {}
    same = replace(task.physics.coarse(), terrain_depth=0.0)
    for name, physics in (("same", same), ("own", task.physics.coarse(on_height_field=True))):
        env = make_env(ROUGH, 64, physics=physics, terrain=even, observation_noise=False)
        generator, fell = torch.Generator().manual_seed(0), np.zeros(64, dtype=bool)
        for _ in range(120):
            fell |= env.step(0.7 * torch.randn(64, 12, generator=generator))[2].numpy().astype(bool)
        falls[name] = int(fell.sum())
    assert falls["own"] <= 1 and falls["same"] >= 5
    for name in (FLAT, ROUGH):  # what trainings get
        env = LocomotionWorld().make_coarse_env(name, 1, seed=0)
        assert env.task.physics == task_cfg(name).physics.coarse(on_height_field=name == ROUGH)


def test_device() -> None:
    """All that is returned is on the device that was asked for; torch's device without memory stands in for it."""
    env = make_env(FLAT, num_envs=3, device="meta")
    env.episode_length_buf = torch.tensor([999, 5, 5])
    obs, rewards, dones, extras = env.step(torch.zeros(3, 12))
    reset_obs, _ = env.reset()
    observations = [obs, extras["final_obs"], env.get_observations(), reset_obs]
    tensors = [rewards, dones, extras["time_outs"], env.episode_length_buf]
    tensors += [group["policy"] for group in observations]
    assert all(tensor.device.type == "meta" for tensor in tensors)
    assert all(group.device == torch.device("meta") for group in observations)
    assert "log" in extras and str(env.device) == "meta"


PICTURES = """
import sys
import mujoco
import numpy as np
from rsl_rl_sac.locomotion import make_env
from rsl_rl_sac.utils.errors import RslRlSacError
env, rough = make_env("Velocity-Flat-Unitree-Go1", num_envs=2), make_env("Velocity-Rough-Unitree-G1", num_envs=2)
try:
    pictures = {name: env.render(row, 96, 64) for name, row in (("first", 0), ("second", 1), ("repeated", 0))}
except RslRlSacError as error:
    print(error)
    sys.exit(3)
env.physics.qpos[0, 3:7] = [0.0, 1.0, 0.0, 0.0]
pictures["fallen"] = env.render(0, 96, 64)
env.physics.qpos[0, :2] += [30.0, -20.0]
pictures["far_away"] = env.render(0, 96, 64)
env.physics.qpos[0, :2] -= [30.0, -20.0]
pictures["large"] = env.render(width=700, height=500)
env.close()
pictures["after_close"] = env.render(0, 96, 64)
pictures["rough_first"], pictures["rough_second"] = rough.render(0, 96, 64), rough.render(1, 96, 64)
rough.close()
model = rough.physics.model
model.geom_rgba[model.geom_type == mujoco.mjtGeom.mjGEOM_HFIELD, 3] = 0.0
pictures["rough_without_ground"] = rough.render(0, 96, 64)
np.savez(sys.argv[1], **pictures)
"""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """Draw in a process of its own: MuJoCo chooses its way to draw when it is first imported."""
    path = tmp_path_factory.mktemp("pictures") / "pictures.npz"
    command = [sys.executable, "-c", PICTURES, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if result.returncode == 3:
        message = f"No OpenGL context can be made here: {result.stdout}"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    assert result.returncode == 0, result.stderr
    return dict(np.load(path))


class TestPictures:
    """Off-screen pictures."""

    @pytest.mark.parametrize(
        ("one", "other"), [("first", "second"), ("first", "fallen"), ("rough_first", "rough_second")]
    )
    def test_environments_and_poses(self, pictures: dict[str, np.ndarray], one: str, other: str) -> None:
        """They have the size asked for, show something, and differ between environments and poses."""
        for picture in (pictures[one], pictures[other]):
            assert picture.shape == (64, 96, 3) and picture.dtype == np.uint8
            assert picture.std() > 10.0 and len(np.unique(picture.reshape(-1, 3), axis=0)) > 50
        difference = np.abs(pictures[one].astype(int) - pictures[other].astype(int)).max(axis=2)
        assert (difference > 10).mean() > 0.02

    def test_terrain_is_visible(self, pictures: dict[str, np.ndarray]) -> None:
        """The same picture without the height field has another ground: nearly all of what is not the robot."""
        one, other = (pictures[name].astype(int) for name in ("rough_first", "rough_without_ground"))
        assert (np.abs(one - other).max(axis=2) > 10).mean() > 0.3

    def test_camera_follows(self, pictures: dict[str, np.ndarray]) -> None:
        """A robot that is elsewhere on the plane, whose pattern repeats every metre, looks as before."""
        difference = np.abs(pictures["fallen"].astype(int) - pictures["far_away"].astype(int)).max(axis=2)
        assert (difference > 10).mean() < 0.02

    def test_same_state_same_picture(self, pictures: dict[str, np.ndarray]) -> None:
        """Drawing changes nothing, and an environment that was closed can be drawn again."""
        assert np.array_equal(pictures["first"], pictures["repeated"])
        assert np.array_equal(pictures["fallen"], pictures["after_close"])

    def test_large_picture(self, pictures: dict[str, np.ndarray]) -> None:
        """A picture may be larger than MuJoCo's default of 640 x 480."""
        assert pictures["large"].shape == (500, 700, 3) and pictures["large"].std() > 10.0

    @pytest.mark.parametrize("row", [-1, 2, 100])
    def test_no_such_environment(self, row: int) -> None:
        """The error says which there are."""
        with pytest.raises(ConfigError, match="0 to 1"):
            make_env(FLAT, num_envs=2).render(row)


def make_runner(folder: pathlib.Path | None, seed: int = 0) -> OffPolicyRunner:
    """Build a runner with tiny networks, whose robots end episodes soon."""
    cfg = small_cfg(save_replay=True)
    cfg.seed = seed
    env = make_env(FLAT, cfg.num_envs, episode_length=0.8)
    return OffPolicyRunner(env, cfg.to_dict(), str(folder) if folder else None)


def test_sac_trains_and_resumes_exactly(tmp_path: pathlib.Path) -> None:
    """Four iterations equal two, a checkpoint and two more, bit for bit, environment included."""
    straight = make_runner(tmp_path / "straight")
    straight.learn(4, init_at_random_ep_len=True)
    first = make_runner(tmp_path / "first")
    weights = [parameter.detach().clone() for parameter in first.alg.actor.parameters()]
    first.learn(2, init_at_random_ep_len=True)
    trained = list(first.alg.actor.parameters())
    assert first.alg.num_updates > 0
    assert any(not torch.equal(old, new) for old, new in zip(weights, trained, strict=True))
    assert all(bool(torch.isfinite(parameter).all()) for parameter in trained)

    resumed = make_runner(tmp_path / "second", seed=7)
    resumed.load(str(tmp_path / "first" / "model_1.pt"))
    resumed.learn(2, init_at_random_ep_len=True)
    state = whole_state(straight)
    assert any("runner/env/physics" in key for key in state) and any("replay_state_dict" in key for key in state)
    assert differences(state, whole_state(resumed)) == []
    assert any(not torch.equal(old, new) for old, new in zip(trained, resumed.alg.actor.parameters(), strict=True))


@pytest.mark.parametrize("task", [FLAT, "Velocity-Rough-Unitree-H1"])
def test_ppo_of_rsl_rl_trains(tmp_path: pathlib.Path, task: str) -> None:
    """rsl_rl's own runner and algorithm take the environment as it is, log included."""
    env: VelocityEnv = make_env(task, num_envs=8)
    cfg = PPORunnerCfg(num_steps_per_env=24)
    cfg.actor.hidden_dims = cfg.critic.hidden_dims = [16]
    runner = OnPolicyRunner(env, cfg.to_dict(), log_dir=str(tmp_path))
    weights = [parameter.detach().clone() for parameter in runner.alg.actor.parameters()]
    env.episode_length_buf = torch.full((8,), 990)
    runner.learn(1)
    trained = list(runner.alg.actor.parameters())
    assert any(not torch.equal(old, new) for old, new in zip(weights, trained, strict=True))
    assert all(bool(torch.isfinite(parameter).all()) for parameter in trained)
    assert (tmp_path / "model_0.pt").is_file()
