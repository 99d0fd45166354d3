# SPDX-License-Identifier: BSD-3-Clause

"""A maze with its only reward at the far end, to try exploration in seconds."""

from __future__ import annotations

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict


class PointMaze(VecEnv):
    """Points that move through a corridor with a corner and are rewarded in its last cell only.

    A random walk does not get there: the corridor is several times longer than it spreads in an episode. Nothing on the
    way tells a policy that it is right, except that it has not been there before. Episodes end by time. The environment
    fulfils the whole contract, exact resume included.
    """

    maze = ("#####", "#S..#", "###.#", "###G#", "#####")
    """Cells of size 1: walls ``#``, the start ``S`` and the goal ``G``."""

    max_speed = 0.1
    """Largest way along each axis in a step."""

    def __init__(self, num_envs: int = 64, max_episode_length: int = 80, seed: int = 0, device: str = "cpu") -> None:
        """Create the points.

        Args:
            num_envs: Number of points.
            max_episode_length: Steps after which an episode ends.
            seed: Seed of the initial positions.
            device: Device of the simulation.
        """
        self.num_envs = num_envs
        self.num_actions = 2
        self.max_episode_length = max_episode_length
        self.device = device
        self.cfg = {"max_episode_length": max_episode_length}
        self.action_bounds = (-torch.ones(2, device=device), torch.ones(2, device=device))
        self.generator = torch.Generator(device=device).manual_seed(seed)
        self.walls = torch.tensor([[cell == "#" for cell in row] for row in self.maze], device=device)
        self.start = self._centre_of("S")
        self.goal = self._centre_of("G")
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long, device=device)
        self.positions = self._initial_positions()

    def get_observations(self) -> TensorDict:
        """Return the positions, scaled to [-1, 1]."""
        size = torch.tensor(self.walls.shape, device=self.device)
        return TensorDict({"policy": 2.0 * self.positions / size - 1.0}, [self.num_envs], device=self.device)

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        """Move every point along one axis and then the other, unless a wall is in the way."""
        moves = self.max_speed * actions.clamp(-1.0, 1.0)
        for axis in range(2):
            moved = self.positions.clone()
            moved[:, axis] += moves[:, axis]
            cells = moved.long()
            self.positions = torch.where(self.walls[cells[:, 0], cells[:, 1]].unsqueeze(1), self.positions, moved)
        rewards = self.at_goal().float()
        self.episode_length_buf = self.episode_length_buf + 1
        time_outs = self.episode_length_buf >= self.max_episode_length
        extras = {"time_outs": time_outs, "final_obs": self.get_observations(), "log": {}}
        self.positions = torch.where(time_outs.unsqueeze(1), self._initial_positions(), self.positions)
        self.episode_length_buf = torch.where(time_outs, 0, self.episode_length_buf)
        return self.get_observations(), rewards, time_outs, extras

    def at_goal(self) -> torch.Tensor:
        """Return which points are in the rewarded cell."""
        return (self.positions.long() == self.goal.long()).all(dim=1)

    def state_dict(self) -> dict:
        """Return all that the future of the environment depends on."""
        return {
            "positions": self.positions.clone(),
            "episode_length_buf": self.episode_length_buf.clone(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state_dict: dict) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.positions = state_dict["positions"].clone().to(self.device)
        self.episode_length_buf = state_dict["episode_length_buf"].clone().to(self.device)
        self.generator.set_state(state_dict["generator"].cpu())

    def _centre_of(self, mark: str) -> torch.Tensor:
        (cell,) = [(i, j) for i, row in enumerate(self.maze) for j, cell in enumerate(row) if cell == mark]
        return torch.tensor(cell, device=self.device) + 0.5

    def _initial_positions(self) -> torch.Tensor:
        noise = torch.rand(self.num_envs, 2, generator=self.generator, device=self.device) - 0.5
        return self.start + 0.4 * noise
