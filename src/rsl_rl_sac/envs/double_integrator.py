# SPDX-License-Identifier: BSD-3-Clause

"""A small environment with a known optimum, to try the algorithm in seconds."""

from __future__ import annotations

import math

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict


class DoubleIntegrator(VecEnv):
    """Point masses that are pushed to the origin at least cost: the linear-quadratic regulator is optimal.

    The reward is minus the quadratic cost of position, velocity and force. Episodes end by time, or by failure if the
    position leaves ``failure_position``. The environment fulfils the whole contract, exact resume included, and serves
    as an example of it.
    """

    time_step = 0.1
    """Seconds per step."""

    cost_weights = (1.0, 0.1, 1.0)
    """Weights of squared position, velocity and force."""

    def __init__(
        self,
        num_envs: int = 64,
        max_episode_length: int = 25,
        failure_position: float = math.inf,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        """Create the point masses.

        Args:
            num_envs: Number of point masses.
            max_episode_length: Steps after which an episode ends by time.
            failure_position: Distance from the origin at which an episode ends by failure.
            seed: Seed of the initial states.
            device: Device of the simulation.
        """
        self.num_envs = num_envs
        self.num_actions = 1
        self.max_episode_length = max_episode_length
        self.failure_position = failure_position
        self.device = device
        self.cfg = {"max_episode_length": max_episode_length, "failure_position": failure_position}
        # Asymmetric on purpose, as joint limits are. The optimal force of all initial states lies inside.
        self.action_bounds = (torch.tensor([-2.0], device=device), torch.tensor([3.0], device=device))
        self.generator = torch.Generator(device=device).manual_seed(seed)
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long, device=device)
        self.states = self._initial_states(num_envs)

    def get_observations(self) -> TensorDict:
        """Return position and velocity."""
        return TensorDict({"policy": self.states.clone()}, batch_size=[self.num_envs], device=self.device)

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        """Apply a force to every point mass."""
        rewards = -self.cost(self.states, actions)
        transition, control = self.dynamics()
        self.states = self.states @ transition.T + actions @ control.T
        self.episode_length_buf = self.episode_length_buf + 1
        failures = self.states[:, 0].abs() > self.failure_position
        time_outs = (self.episode_length_buf >= self.max_episode_length) & ~failures
        dones = failures | time_outs
        extras = {"time_outs": time_outs, "final_obs": self.get_observations(), "log": {}}
        self.states = torch.where(dones.unsqueeze(1), self._initial_states(self.num_envs), self.states)
        self.episode_length_buf = torch.where(dones, 0, self.episode_length_buf)
        return self.get_observations(), rewards, dones, extras

    def state_dict(self) -> dict:
        """Return all that the future of the environment depends on."""
        return {
            "states": self.states.clone(),
            "episode_length_buf": self.episode_length_buf.clone(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state_dict: dict) -> None:
        """Restore what :meth:`state_dict` returned, of as many point masses."""
        if state_dict["states"].shape != self.states.shape:
            raise ValueError(f"the state is of {len(state_dict['states'])} environments, these are {self.num_envs}.")
        self.states = state_dict["states"].clone().to(self.device)
        self.episode_length_buf = state_dict["episode_length_buf"].clone().to(self.device)
        self.generator.set_state(state_dict["generator"].cpu())

    def cost(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the quadratic cost of one step."""
        position, velocity, force = self.cost_weights
        return position * states[:, 0] ** 2 + velocity * states[:, 1] ** 2 + force * actions[:, 0] ** 2

    def dynamics(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return A and B of ``x' = A x + B u``, exact for a force held over a step."""
        dt = self.time_step
        transition = torch.tensor([[1.0, dt], [0.0, 1.0]], device=self.device)
        control = torch.tensor([[0.5 * dt * dt], [dt]], device=self.device)
        return transition, control

    def optimal_gain(self, gamma: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the gain K of the optimal force ``u = -K x`` and the cost matrix P of ``x' P x``, discounted.

        Iterates the Riccati equation, whose fixed point they are.
        """
        transition, control = (matrix.double() for matrix in self.dynamics())
        state_cost = torch.diag(torch.tensor(self.cost_weights[:2], dtype=torch.double, device=self.device))
        cost_to_go, gain = state_cost, torch.zeros(1, 2, dtype=torch.double, device=self.device)
        for _ in range(2000):
            curvature = self.cost_weights[2] + gamma * control.T @ cost_to_go @ control
            gain = torch.linalg.solve(curvature, gamma * control.T @ cost_to_go @ transition)
            cost_to_go = state_cost + gamma * transition.T @ cost_to_go @ (transition - control @ gain)
        return gain, cost_to_go

    def _initial_states(self, count: int) -> torch.Tensor:
        return 2.0 * torch.rand(count, 2, generator=self.generator, device=self.device) - 1.0
