# SPDX-License-Identifier: BSD-3-Clause

"""Isaac Lab's own environment, managers, wrapper and tasks from its wheel, with stand-ins for what needs Isaac Sim."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from rsl_rl.env import VecEnv

from tests.envs.isaaclab.stand_ins import (
    DRIVEN,
    EPISODE_STEPS,
    FAILURE_ANGLE,
    NOISE,
    NUM_ENVS,
    SCALE,
    CountingNoise,
    JointPositionAction,
    Scene,
)

SIMULATOR = {"carb", "cv2", "flatdict", "h5py", "hid", "isaacsim", "omni", "pxr", "usdrt", "warp"}
"""Packages that only Isaac Sim brings, or that are of no use without it."""


class _AnythingMeta(type):
    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _AnythingMeta(name, (_Anything,), {})


class _Anything(metaclass=_AnythingMeta):
    """Stands for any class, function or value of the simulator while modules are imported."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __call__(self, *args: object, **kwargs: object) -> _Anything:
        return _Anything()

    def __getattr__(self, name: str) -> type:
        return getattr(type(self), name)


class _SimulatorModule(types.ModuleType):
    def __getattr__(self, name: str) -> type:
        return getattr(_Anything, name)


class _SimulatorFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the simulator's packages where they are not installed: empty ones."""

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        is_simulator = name.split(".")[0] in SIMULATOR
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_simulator else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _SimulatorModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def require_wheel() -> None:
    """Make Isaac Lab's packages importable, or skip the test. The wheel's own import would start the simulator."""
    if "isaaclab" in sys.modules:
        return
    spec = importlib.util.find_spec("isaaclab")
    source = Path(spec.origin).parent / "source" if spec is not None and spec.origin else Path("missing")
    if not source.is_dir():
        pytest.skip("needs the wheel isaaclab (make test-isaaclab)")
    sys.meta_path.append(_SimulatorFinder())  # last: what is installed comes first
    for folder in ("isaaclab", "isaaclab_assets", "isaaclab_contrib", "isaaclab_rl", "isaaclab_tasks"):
        sys.path.insert(0, str(source / folder))
    importlib.import_module("isaaclab.envs")  # before its managers, with which it is entangled


def make_wrapper(
    history: int = 0,
    noise: bool = False,
    modifier: bool = False,
    class_term: bool = False,
    clip: dict[str, tuple[float, float]] | None = None,
    is_finite_horizon: bool = False,
    clip_actions: float | None = None,
    effort: bool = False,
) -> VecEnv:
    """Build Isaac Lab's wrapper around its ``ManagerBasedRLEnv`` with its managers, on the stand-ins' robot."""
    require_wheel()
    from isaaclab.envs import ManagerBasedRLEnv
    from isaaclab.envs.mdp import JointEffortActionCfg, JointPositionActionCfg, time_out
    from isaaclab.managers import (
        EventManager,
        ManagerTermBase,
        ObservationGroupCfg,
        ObservationTermCfg,
        RewardTermCfg,
        TerminationTermCfg,
    )
    from isaaclab.utils.modifiers import IntegratorCfg
    from isaaclab.utils.noise import UniformNoiseCfg
    from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper

    class AngleSum(ManagerTermBase):
        def __init__(self, cfg: ObservationTermCfg, env: ManagerBasedRLEnv) -> None:
            super().__init__(cfg, env)
            self.total = torch.zeros_like(_angles(env))

        def __call__(self, env: ManagerBasedRLEnv) -> torch.Tensor:
            self.total += _angles(env)
            return self.total

        def reset(self, env_ids: torch.Tensor | None = None) -> None:
            self.total[slice(None) if env_ids is None else env_ids] = 0.0

    angles = ObservationTermCfg(
        func=AngleSum if class_term else _angles, noise=UniformNoiseCfg(n_min=-NOISE, n_max=NOISE)
    )
    angles.modifiers = [IntegratorCfg(dt=0.1)] if modifier else None
    group = ObservationGroupCfg(enable_corruption=noise, history_length=history or None)
    group.angles = angles
    action = JointPositionActionCfg(
        asset_name="robot", joint_names=DRIVEN, preserve_order=True, scale=SCALE, use_default_offset=True, clip=clip
    )
    torque = JointEffortActionCfg(asset_name="robot", joint_names=DRIVEN, preserve_order=True)

    class Env(ManagerBasedRLEnv):
        def __init__(self) -> None:  # Isaac Lab's own starts the simulator
            self.cfg = SimpleNamespace(
                actions=SimpleNamespace(torque=torque) if effort else SimpleNamespace(joint_pos=action),
                commands=None,
                curriculum=None,
                decimation=1,
                episode_length_s=0.1 * EPISODE_STEPS,
                events=None,
                is_finite_horizon=is_finite_horizon,
                num_rerenders_on_reset=0,
                observations={"policy": group},
                recorders=None,
                rewards={"hip": RewardTermCfg(func=_hip, weight=1.0)},
                sim=SimpleNamespace(dt=0.1, render_interval=1),
                terminations={
                    "time_out": TerminationTermCfg(func=time_out, time_out=True),
                    "failure": TerminationTermCfg(func=_failure),
                },
                wait_for_textures=False,
            )
            self.sim = _simulation()
            self.scene = Scene()
            self.extras = {}
            self.common_step_counter = self._sim_step_counter = 0
            self.episode_length_buf = torch.zeros(NUM_ENVS, dtype=torch.long)
            self.event_manager = EventManager(None, self)
            self.load_managers()

        def close(self) -> None:  # nothing of the simulator to take down
            pass

    return RslRlVecEnvWrapper(Env(), clip_actions)


def make_direct_wrapper(noise: bool = False, clip_actions: float | None = None) -> VecEnv:
    """Build Isaac Lab's wrapper around its ``DirectRLEnv``, on the stand-ins' robot."""
    require_wheel()
    from gymnasium.spaces import Box
    from isaaclab.envs import DirectRLEnv
    from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper

    class DirectEnv(DirectRLEnv):
        def __init__(self) -> None:  # Isaac Lab's own starts the simulator
            self.cfg = SimpleNamespace(
                action_noise_model=None,
                decimation=1,
                episode_length_s=0.1 * EPISODE_STEPS,
                events=None,
                is_finite_horizon=False,
                num_rerenders_on_reset=0,
                observation_noise_model=noise,
                sim=SimpleNamespace(dt=0.1, render_interval=1),
                wait_for_textures=False,
            )
            self.sim = _simulation()
            self.scene = Scene()
            self.extras = {}
            self.common_step_counter = self._sim_step_counter = 0
            self.episode_length_buf = torch.zeros(NUM_ENVS, dtype=torch.long)
            self.reset_terminated = torch.zeros(NUM_ENVS, dtype=torch.bool)
            self.reset_time_outs = torch.zeros(NUM_ENVS, dtype=torch.bool)
            self.single_action_space = Box(-float("inf"), float("inf"), (len(DRIVEN),))
            self._observation_noise_model = CountingNoise()
            self.term = JointPositionAction(self.scene["robot"])
            self.num_observed = torch.zeros(1)
            self.obs = torch.zeros_like(self.scene["robot"].target)

        def _pre_physics_step(self, actions: torch.Tensor) -> None:
            self.actions = actions

        def _apply_action(self) -> None:
            self.term.apply(self.actions)

        def _get_observations(self) -> dict:
            self.num_observed += 1
            self.obs[:] = _angles(self)
            return {"policy": self.obs}

        def _get_rewards(self) -> torch.Tensor:
            return _hip(self)

        def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
            return _failure(self), self.episode_length_buf >= self.max_episode_length

        def close(self) -> None:  # nothing of the simulator to take down
            pass

    return RslRlVecEnvWrapper(DirectEnv(), clip_actions)


def _simulation() -> SimpleNamespace:
    """Return what environments ask of the simulation."""
    return SimpleNamespace(
        device="cpu",
        forward=lambda: None,
        has_gui=lambda: False,
        has_rtx_sensors=lambda: False,
        is_playing=lambda: True,
        step=lambda render: None,
    )


def _angles(env: object) -> torch.Tensor:
    return env.scene["robot"].data.joint_pos


def _hip(env: object) -> torch.Tensor:
    return env.scene["robot"].data.joint_pos[:, 0]


def _failure(env: object) -> torch.Tensor:
    return env.scene["robot"].data.joint_pos[:, 0] > FAILURE_ANGLE
