# SPDX-License-Identifier: BSD-3-Clause

"""What the page shows and steers, without the page: robots, a policy, a command, a ground."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mujoco
import numpy as np
import torch

from rsl_rl_sac.locomotion.evaluation import Policy
from rsl_rl_sac.locomotion.play_env import Ground, SteeredCommand, default_ground, make_play_env
from rsl_rl_sac.locomotion.velocity_env import VelocityEnv

PUSH_SPEED = 1.0
"""Speed in m/s that a push adds, twice the largest along an axis in training."""

SMOOTHING_SECONDS = 0.5
"""Time over which the rewards shown are averaged, since they jump at every footfall."""


class Session:
    """Robots that a policy moves, one control step at a time. For one thread."""

    def __init__(
        self,
        task: str,
        policy: Policy,
        num_robots: int = 1,
        ground: Ground | None = None,
        num_threads: int | None = None,
        seed: int = 0,
    ) -> None:
        """Put the robots on the ground.

        Args:
            task: Task that the policy was trained on.
            policy: Deterministic policy; may be replaced at any time.
            num_robots: Number of robots.
            ground: Ground; None is the one to show the task on.
            num_threads: Threads of the physics; None takes one for each core this process may use.
            seed: Seed of terrain, masses and pushes.
        """
        self.task = task
        self.policy = policy
        self.paused = False
        self.command = (0.0, 0.0, 0.0)
        self.num_falls = 0
        self.ground = ground or default_ground(task)
        self._num_threads, self._seed = num_threads, seed
        self._rng = np.random.default_rng(seed)
        self._data: mujoco.MjData | None = None
        self.env = self._make_env(num_robots)
        self._begin()

    def tick(self) -> bool:
        """Advance by one control step unless paused; return whether anything moved."""
        if not self.paused:
            self._advance()
        return not self.paused

    def step(self) -> None:
        """Pause, and advance by one control step."""
        self.paused = True
        self._advance()

    def reset(self) -> None:
        """Put the robots back to where they began, with the same command."""
        self.env.reset()
        self._begin()

    def steer(self, command: Sequence[float]) -> None:
        """Ask for forward speed, speed to the left and turning speed, moved into the ranges of the task.

        Raises:
            ConfigError: If it is not three finite numbers.
        """
        commands = self._commands(self.env)
        commands.steer(command)
        self.command = commands.target

    def push(self) -> None:
        """Push every robot in a random horizontal direction."""
        angle = self._rng.uniform(-math.pi, math.pi, size=self.env.num_envs)
        self.env.physics.qvel[:, 0] += PUSH_SPEED * np.cos(angle)
        self.env.physics.qvel[:, 1] += PUSH_SPEED * np.sin(angle)
        self.env.state.after_change(slice(None))

    def choose_ground(self, ground: Ground) -> None:
        """Go to another ground, with the same command.

        Raises:
            ConfigError: If there is no such ground or level; the session goes on as before then.
        """
        before = self.ground
        self.ground = ground
        try:
            env = self._make_env(self.env.num_envs)
        except Exception:
            self.ground = before
            raise
        self.env.close()
        self.env, self._data = env, None
        self.steer(self.command)
        self.reset()

    def reward_rates(self) -> dict[str, float]:
        """Return each reward term per second, mean over the robots and the last moments."""
        return dict(zip(self.env.rewards.names, self._reward_rates.tolist(), strict=True))

    def velocity(self) -> tuple[float, float, float]:
        """Return forward speed, speed to the left and turning speed of the first robot."""
        state = self.env.state
        return float(state.lin_vel[0, 0]), float(state.lin_vel[0, 1]), float(state.ang_vel[0, 2])

    def poses(self) -> tuple[np.ndarray, np.ndarray]:
        """Return positions ``(N, bodies, 3)`` and rotations ``(N, bodies, 3, 3)`` of all bodies, the world included."""
        model = self.env.physics.model
        positions = np.empty((self.env.num_envs, model.nbody, 3))
        rotations = np.empty((self.env.num_envs, model.nbody, 3, 3))
        for index in range(self.env.num_envs):
            self._data = self.env.physics.batch.get_data(index, self._data)
            mujoco.mj_kinematics(model, self._data)
            positions[index] = self._data.xpos
            rotations[index] = self._data.xmat.reshape(-1, 3, 3)
        return positions, rotations

    def close(self) -> None:
        """Free the environments."""
        self.env.close()

    def _make_env(self, num_robots: int) -> VelocityEnv:
        return make_play_env(self.task, num_robots, self.ground, self._num_threads, self._seed)

    def _begin(self) -> None:
        self._obs = self.env.get_observations()
        self._reward_rates = np.zeros(len(self.env.rewards.names))
        self.num_steps = 0

    def _advance(self) -> None:
        with torch.inference_mode():
            self._obs, _, dones, extras = self.env.step(self.policy(self._obs))
        self.num_falls += int((dones & ~extras["time_outs"]).sum())
        self.num_steps += 1
        rates = self.env.rewards.last.mean(axis=0) / self.env.step_dt
        # A plain mean at first, so that nothing is drawn towards the zeros of the beginning.
        share = max(1.0 / self.num_steps, self.env.step_dt / SMOOTHING_SECONDS)
        self._reward_rates += share * (rates - self._reward_rates)

    @staticmethod
    def _commands(env: VelocityEnv) -> SteeredCommand:
        assert isinstance(env.commands, SteeredCommand)
        return env.commands
