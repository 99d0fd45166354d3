# SPDX-License-Identifier: BSD-3-Clause

"""The observation before a reset, recomputed from MuJoCo's own steps of the robot that is reset."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

from rsl_rl_sac.locomotion import VelocityEnv, make_env
from tests.locomotion.velocity_helpers import end_by_time, forward, observation_by_mujoco, press_onto_ground

TASKS = {
    "Velocity-Flat-Unitree-Go1": None,
    "Velocity-Rough-Anymal-D": "base",  # whose centres of mass are shifted
    "Velocity-Flat-Unitree-H1": None,
    "Velocity-Rough-Unitree-G1": "torso_link",
}
"""Quadrupeds and humanoids, flat and rough, and the body that carries the height scanner."""


def lay_on_back(env: VelocityEnv, row: int) -> None:
    """Put a robot at rest upside down onto the ground, so that it fails in the next step."""
    env.physics.qpos[row, 3:7] = [0.0, 1.0, 0.0, 0.0]
    env.physics.qvel[row] = 0.0
    press_onto_ground(env, row, env.robot.termination_links)


@pytest.mark.parametrize(("task", "scanner"), TASKS.items())
def test_final_observation_is_the_state_before_the_reset(task: str, scanner: str | None) -> None:
    """Ended by nothing, by time, by a fall and by both: four steps of MuJoCo's own say what is observed at the end.

    The returned observation is that of the state after the reset, and of an episode that ended, no term is the same.
    """
    env = make_env(task, 4, seed=3, num_threads=1, observation_noise=False)
    robot, joints = env.robot, env.num_actions
    generator = torch.Generator().manual_seed(0)
    for _ in range(6):
        env.step(0.2 * torch.randn(4, joints, generator=generator))
    end_by_time(env, [1, 3])
    for row in (2, 3):
        lay_on_back(env, row)
    action, command = 0.2 * torch.randn(4, joints, generator=generator), env.commands.velocity.copy()
    twins = [(env.physics.batch.get_model(row), env.physics.batch.get_data(row)) for row in range(4)]  # copies
    observations, _, dones, extras = env.step(action)
    assert dones.tolist() == [False, True, True, True]
    assert extras["time_outs"].tolist() == [False, True, False, False]
    returned, final = observations["policy"].numpy(), extras["final_obs"]["policy"].numpy()
    ends = np.cumsum([3, 3, 3, 3, joints, joints])  # of all terms but the last
    for row, (model, data) in enumerate(twins):
        data.ctrl[:joints] = robot.default_pos + robot.action_scale * action[row].numpy()
        mujoco.mj_step(model, data, 4)
        mujoco.mj_forward(model, data)
        last = observation_by_mujoco(model, data, robot, command[row], action[row].numpy(), scanner)
        last_action = np.zeros(joints) if dones[row] else action[row].numpy()
        new_command = env.commands.velocity[row]
        now = observation_by_mujoco(*forward(env, row), robot, new_command, last_action, scanner)
        np.testing.assert_allclose(returned[row], now, rtol=1e-5, atol=2e-4)
        if not dones[row]:
            assert np.array_equal(final[row], returned[row])
            continue
        np.testing.assert_allclose(final[row], last, rtol=1e-5, atol=2e-4)
        assert all(np.abs(term).max() > 2e-3 for term in np.split(final[row] - returned[row], ends))
