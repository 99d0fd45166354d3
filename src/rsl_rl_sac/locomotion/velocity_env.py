# SPDX-License-Identifier: BSD-3-Clause

"""The velocity-tracking environment: many robots that are asked to walk."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rsl_rl_sac.envs.action_bounds import action_bounds
from rsl_rl_sac.locomotion.commands import VelocityCommand
from rsl_rl_sac.locomotion.events import BaseInertia, Pushes, ResetStates, TerrainLevels
from rsl_rl_sac.locomotion.observations import Observations
from rsl_rl_sac.locomotion.physics import Physics
from rsl_rl_sac.locomotion.rendering import Camera
from rsl_rl_sac.locomotion.rewards import Rewards, StepView
from rsl_rl_sac.locomotion.robot import Robot
from rsl_rl_sac.locomotion.scene import build_spec, compile_model
from rsl_rl_sac.locomotion.state import RobotState
from rsl_rl_sac.locomotion.tasks import VelocityTaskCfg
from rsl_rl_sac.locomotion.terrain import Terrain
from rsl_rl_sac.utils.errors import CheckpointError, ConfigError, NonFiniteError

LARGEST_ACTION = 1e6
"""Actions beyond this are refused."""


class VelocityEnv(VecEnv):
    """Robots that track velocity commands, with the MDP of Isaac Lab's velocity tasks.

    It fulfils the whole environment contract of this package: time-outs apart from falls, observations before the
    reset, action bounds from soft joint limits, and a state that can be saved and restored in mid-episode.
    """

    def __init__(
        self,
        cfg: VelocityTaskCfg,
        robot: Robot,
        num_envs: int,
        seed: int = 0,
        device: str = "cpu",
        num_threads: int | None = None,
    ) -> None:
        """Create the environments and reset them.

        Args:
            cfg: Task.
            robot: Robot.
            num_envs: Number of robots.
            seed: Seed of everything random, the terrain included.
            device: Device of the tensors that are returned; the physics runs on the CPU.
            num_threads: Threads of the physics; None takes one for each core this process may use.
        """
        if num_envs < 1:
            raise ConfigError(f"num_envs must be at least 1, got {num_envs}.")
        self.task = cfg
        self.robot = robot
        self.num_envs = num_envs
        self.num_actions = len(robot.joint_names)
        self.device = device
        self.cfg = dataclasses.asdict(cfg)
        self.step_dt = cfg.physics.time_step * cfg.physics.decimation
        self.max_episode_length = round(cfg.episode_length / self.step_dt)
        self.num_diverged = 0

        # Terrain and inertia have streams of their own: what happens in an episode does not depend on their size.
        terrain_seed, startup_seed, episode_seed = np.random.SeedSequence(seed).spawn(3)
        self.rng = np.random.Generator(np.random.SFC64(episode_seed))
        startup = np.random.Generator(np.random.SFC64(startup_seed))
        self.terrain = Terrain(cfg.terrain, terrain_seed) if cfg.terrain is not None else None
        model = compile_model(robot, build_spec(robot, self.terrain, cfg.physics))
        self.physics = Physics(model, num_envs, cfg.physics.decimation, num_threads)
        self.base_inertia = BaseInertia(cfg.events, self.physics, startup)
        self.state = RobotState(robot, self.physics, self.base_inertia.com)
        self.reset_states = ResetStates(cfg.events, robot, self.physics, self.base_inertia.com)
        self.pushes = Pushes(cfg.events, num_envs, self.step_dt, self.rng)
        self.commands = VelocityCommand(cfg.commands, num_envs, self.step_dt, self.rng)
        self.levels = None
        if self.terrain is not None:
            self.levels = TerrainLevels(self.terrain, num_envs, cfg.max_initial_level, cfg.curriculum, self.rng)
        self.rewards = Rewards(robot, cfg.rewards, num_envs, self.step_dt)
        self.observations = Observations(robot, self.terrain, cfg.observation_noise)
        self.camera = Camera(self)

        self._default_pos = robot.default_pos.astype(np.float32)
        self._termination_links = self.state.link_indices(robot.termination_links)
        self._action = np.zeros((num_envs, self.num_actions), dtype=np.float32)
        self._previous_action = np.zeros_like(self._action)
        self._velocity_errors = np.zeros((num_envs, 2), dtype=np.float32)
        self._episode_length = np.zeros(num_envs, dtype=np.int64)
        lower, upper = (torch.from_numpy(limit.astype(np.float32)) for limit in robot.soft_limits)
        self.action_bounds = action_bounds(
            torch.from_numpy(self._default_pos), lower, upper, robot.action_scale, robot.joint_names
        )
        self.reset()

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps since the last reset, a copy; may be set as a whole, as rsl_rl does to spread the time-outs."""
        return torch.from_numpy(self._episode_length).clone().to(self.device)

    @episode_length_buf.setter
    def episode_length_buf(self, lengths: torch.Tensor) -> None:
        self._episode_length[:] = lengths.cpu().numpy()

    def reset(self) -> tuple[TensorDict, dict]:
        """Reset all environments; return their observations."""
        self._reset(np.arange(self.num_envs))
        self._observe()
        return self.get_observations(), {}

    def get_observations(self) -> TensorDict:
        """Return the present observations."""
        return self._tensordict(self._observation.copy())

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        """Apply actions and advance all environments by one control step, in Isaac Lab's order of operations.

        Returns:
            Observations (after the reset, where an episode ended), rewards, whether the episode ended, and ``extras``:
            ``time_outs`` (ended by time alone), ``final_obs`` (observations before the reset, where an episode ended),
            ``progress`` (how well commands were tracked, 0 to 1) and, if any episode ended, ``log``.

        Raises:
            NonFiniteError: If an action is NaN, infinite or beyond 1e6.
        """
        self._take(actions)
        diverged = self.physics.step(self._default_pos + self.robot.action_scale * self._action)
        self.state.after_step()
        self._episode_length += 1

        terminated = self.state.recent_contacts[:, self._termination_links].any(axis=1) & ~diverged
        time_outs = (self._episode_length >= self.max_episode_length) & ~terminated
        view = StepView(self.state, self.commands.velocity, self._action, self._previous_action, terminated, diverged)
        rewards = self.rewards.compute(view)
        # The simulation failed, not the robot: the episode is cut off, as by time, where it was last sound.
        time_outs |= diverged
        dones = terminated | time_outs
        extras: dict = {"time_outs": self._tensor(time_outs)}
        tracking = self.rewards.tracking
        if tracking.size:
            extras["progress"] = float(tracking.mean())
        if diverged.any():
            extras["invalid"] = self._tensor(diverged)

        rows = np.flatnonzero(dones)
        final = None
        if len(rows):
            final = self.observations.compute(self.state, self.commands.velocity, self._action, self.rng, rows)
            final[diverged[rows]] = self._observation[rows[diverged[rows]]]
            extras["log"] = self._end_episodes(rows, terminated, time_outs & ~diverged, diverged)
        self._update_commands()
        pushed = self.pushes.update(self.physics)
        if len(pushed):
            self.state.after_change(pushed)
        self._observe()
        observations = self.get_observations()
        extras["final_obs"] = observations
        if final is not None:
            final_observation = self._observation.copy()
            final_observation[rows] = final
            extras["final_obs"] = self._tensordict(final_observation)
        return observations, self._tensor(rewards), self._tensor(dones), extras

    def seed(self, seed: int) -> int:
        """Seed what happens from now on; terrain and masses stay."""
        fresh = np.random.SFC64(np.random.SeedSequence(seed))
        self.rng.bit_generator.state = fresh.state
        return seed

    def close(self) -> None:
        """Release the renderer; the threads of the physics end with the object."""
        self.camera.close()

    def render(self, env: int | Sequence[int] = 0, width: int = 640, height: int = 480) -> np.ndarray:
        """Return a picture ``(height, width, 3)`` of one or several robots, from a camera that follows them."""
        return self.camera.render(env, width, height)

    def state_dict(self) -> dict:
        """Return all that the future of the environment depends on, as tensors and numbers."""
        state: dict = {name: torch.from_numpy(array.copy()) for name, array in self._arrays().items()}
        generator = self.rng.bit_generator.state
        state["rng"] = torch.from_numpy(generator["state"]["state"].view(np.int64).copy())
        state["rng_buffer"] = [int(generator["has_uint32"]), int(generator["uinteger"])]
        state["num_diverged"] = self.num_diverged
        state["robot"] = self.robot.name
        return state

    def load_state_dict(self, state_dict: dict) -> None:
        """Restore what :meth:`state_dict` returned, of the same task, number of environments and seed.

        Raises:
            CheckpointError: If it does not fit; nothing is changed then.
        """
        arrays = self._arrays()
        missing = sorted({*arrays, "rng", "rng_buffer", "num_diverged", "robot"} - set(state_dict))
        if missing:
            raise CheckpointError(f"The state of the environment lacks {missing}: it is that of another task.")
        if state_dict["robot"] != self.robot.name:
            raise CheckpointError(
                f"The state of the environment is that of {state_dict['robot']}, not of {self.robot.name}."
            )
        for name, array in arrays.items():
            if tuple(state_dict[name].shape) != array.shape:
                shape = tuple(state_dict[name].shape)
                raise CheckpointError(
                    f"The state of the environment has {name} in shape {shape}, expected {array.shape}: use the same"
                    " task and number of environments."
                )
        if self.terrain is not None and not np.array_equal(state_dict["terrain"].cpu().numpy(), arrays["terrain"]):
            raise CheckpointError("The state of the environment belongs to another terrain: use the same seed.")
        for name, array in arrays.items():
            array[...] = state_dict[name].cpu().numpy()
        generator = dict(self.rng.bit_generator.state)
        generator["state"] = {"state": state_dict["rng"].cpu().numpy().view(np.uint64).copy()}
        generator["has_uint32"], generator["uinteger"] = state_dict["rng_buffer"]
        self.rng.bit_generator.state = generator
        self.num_diverged = state_dict["num_diverged"]
        self.base_inertia.apply()
        self.state.base_com[...] = self.base_inertia.com
        self.state.after_change(slice(None))

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of the state, to copy from or to write into."""
        arrays = {
            "physics": self.physics.batch.state,
            "base_mass": self.base_inertia.mass,
            "base_com": self.base_inertia.com,
            "push_time_left": self.pushes.time_left,
            "episode_length": self._episode_length,
            "episode_sums": self.rewards.episode_sums,
            "velocity_errors": self._velocity_errors,
            "action": self._action,
            "observation": self._observation,
            "air_time": self.state.air_time,
            "contact_time": self.state.contact_time,
            "last_air_time": self.state.last_air_time,
            **{f"command_{name}": array for name, array in self.commands.state_dict().items()},
        }
        if self.terrain is not None and self.levels is not None:
            # A fingerprint: the heights themselves follow from the seed.
            arrays.update(levels=self.levels.levels, terrain=self.terrain.heights.sum(axis=1, dtype=np.float64))
        return arrays

    def _take(self, actions: torch.Tensor) -> None:
        """Store the new actions and those before."""
        if tuple(actions.shape) != self._action.shape:
            raise ConfigError(f"Actions must have shape {self._action.shape}, got {tuple(actions.shape)}.")
        action = actions.detach().to("cpu", torch.float32, copy=True).numpy()
        # A NaN fails this comparison too; what is beyond it overflows the squares of the rewards.
        sound = np.abs(action).max(axis=1) < LARGEST_ACTION
        if not sound.all():
            rows = np.flatnonzero(~sound)
            raise NonFiniteError(f"The actions of environments {rows[:8].tolist()} are NaN, infinite or huge.")
        self._previous_action = self._action
        self._action = action

    def _end_episodes(
        self, rows: np.ndarray, terminated: np.ndarray, time_outs: np.ndarray, diverged: np.ndarray
    ) -> dict[str, float]:
        """Log and reset environments whose episode ended; return the log."""
        self.num_diverged += int(diverged.sum())
        log = self.rewards.reset(rows, self.task.episode_length)
        log["Episode_Termination/time_out"] = float(time_outs[rows].mean())
        log["Episode_Termination/base_contact"] = float(terminated[rows].mean())
        log["Episode_Termination/diverged"] = float(diverged[rows].mean())
        for name, error in zip(("xy", "yaw"), self._velocity_errors[rows].mean(axis=0), strict=True):
            log[f"Metrics/base_velocity/error_vel_{name}"] = float(error)
        if self.levels is not None:
            position, command = self.state.root_pos[rows], self.commands.velocity[rows]
            # Where a simulation diverged, nothing is known of the robot's progress.
            sound = ~diverged[rows]
            self.levels.update(rows[sound], position[sound], command[sound], self.task.episode_length)
            log["Curriculum/terrain_levels"] = float(self.levels.levels.mean())
        self._reset(rows)
        return log

    def _reset(self, rows: np.ndarray) -> None:
        """Begin new episodes."""
        origins = self.levels.origins(rows) if self.levels is not None else np.zeros((len(rows), 3))
        self.reset_states.apply(rows, origins, self.rng)
        self.state.after_change(rows)
        self.state.clear_contacts(rows)
        self._action[rows] = 0.0
        self._previous_action[rows] = 0.0
        self._velocity_errors[rows] = 0.0
        self._episode_length[rows] = 0
        self.rewards.episode_sums[rows] = 0.0
        self.commands.resample(rows)
        self.pushes.restart(rows)

    def _update_commands(self) -> None:
        """Record how well the commands are tracked, then advance them."""
        command, share = self.commands.velocity, 1.0 / self.commands.resampling_steps
        error = command[:, :2] - self.state.lin_vel[:, :2]
        self._velocity_errors[:, 0] += share * np.linalg.norm(error, axis=1)
        self._velocity_errors[:, 1] += share * np.abs(command[:, 2] - self.state.ang_vel[:, 2])
        self.commands.update(self.state.heading)

    def _observe(self) -> None:
        self._observation = self.observations.compute(self.state, self.commands.velocity, self._action, self.rng)

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self.device)

    def _tensordict(self, observation: np.ndarray) -> TensorDict:
        return TensorDict({"policy": self._tensor(observation)}, batch_size=[self.num_envs], device=self.device)
