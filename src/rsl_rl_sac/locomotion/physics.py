# SPDX-License-Identifier: BSD-3-Clause

"""Many robots on one C++ thread pool."""

from __future__ import annotations

import mujoco
import numpy as np

from rsl_rl_sac.utils.cores import num_usable_cores
from rsl_rl_sac.utils.errors import ConfigError, MissingDependencyError

try:
    from mujoco.batch import Batch, SimulationError
except ImportError as error:  # MuJoCo 3, which mjlab 1.6 pins
    raise MissingDependencyError(
        f"The locomotion suite needs mujoco >= 4.0 (and with it Python >= 3.11) for its thread pool; this is mujoco"
        f" {mujoco.__version__}. Upgrade it with pip install --upgrade mujoco, in an environment of its own if another"
        " package pins the old one."
    ) from error

STATE = int(mujoco.mjtState.mjSTATE_QPOS) | int(mujoco.mjtState.mjSTATE_QVEL)
"""What is recorded after each physics step: positions, then velocities."""

HISTORY = 3
"""Physics steps that contact terms look back, as Isaac Lab's contact sensor; a shorter control step is seen whole."""

FEWEST_STEPS = 2
"""Physics steps of the shortest control step: joint accelerations are the difference of the last two."""

LARGEST_STATE = 1e3
"""Any position in m or rad, or speed in m/s or rad/s, beyond this is a diverged simulation."""


class Physics:
    """A batch of simulations of one model, of which each may have other inertial parameters.

    ``mujoco.batch`` rather than ``mujoco.rollout``: both were equally fast, but a batch keeps the solver's warm start
    over control steps, has its whole state in one array that can be saved, and lets simulations differ in masses
    without a copy of the model, terrain included, for each.
    """

    def __init__(self, model: mujoco.MjModel, num_envs: int, decimation: int, num_threads: int | None = None) -> None:
        """Create the simulations.

        Args:
            model: Model of :func:`rsl_rl_sac.locomotion.scene.compile_model`.
            num_envs: Number of simulations.
            decimation: Physics steps per control step.
            num_threads: Threads; None takes one for each core this process may use.
        """
        if decimation < FEWEST_STEPS:
            raise ConfigError(f"A control step needs at least {FEWEST_STEPS} physics steps, got {decimation}.")
        self.model = model
        self.num_envs = num_envs
        self.decimation = decimation
        if mujoco.get_mju_user_warning() is None:
            # step() sees every warning and ends the episode; MuJoCo would write a line of MUJOCO_LOG.TXT for each.
            mujoco.set_mju_user_warning(lambda message: None)
        self.batch = Batch(model, num_envs, num_threads or num_usable_cores())
        self.qpos, self.qvel, self.ctrl = (self.batch.bind(name) for name in ("qpos", "qvel", "ctrl"))
        self._trajectory = np.empty((num_envs, decimation, model.nq + model.nv))
        self._sensordata = np.empty((num_envs, decimation, model.nsensordata))
        self._records = {STATE: self._trajectory, "sensordata": self._sensordata}

    @property
    def sensordata(self) -> np.ndarray:
        """Sensors of each physics step of the last control step: torques and forces that acted during it."""
        return self._sensordata

    @property
    def previous_qvel(self) -> np.ndarray:
        """Velocities one physics step before the present ones."""
        return self._trajectory[:, -2, self.model.nq :]

    def step(self, targets: np.ndarray) -> np.ndarray:
        """Advance all simulations by one control step; return which of them diverged.

        A diverged simulation is put back to the state before the step (or, if that was broken already, to the model's
        own), with all sensors zero, so that everything computed from it stays finite until the environment resets it.

        Args:
            targets: Position targets of the joints, held over the physics steps.
        """
        qpos, qvel, warnings = self.qpos.copy(), self.qvel.copy(), self._num_warnings()
        self.ctrl[:] = targets
        failed = np.zeros(self.num_envs, dtype=bool)
        try:
            self.batch.rollout(self.decimation, record=list(self._records), out=self._records)
        except SimulationError as error:
            failed[error.ids] = True
        # A simulation that raised a warning stopped in mid-step.
        failed |= self._num_warnings() > warnings
        # A NaN fails this comparison too.
        failed |= ~(np.abs(self._trajectory[:, -1]).max(axis=1) < LARGEST_STATE)
        if failed.any():
            before = np.concatenate([qpos[failed], qvel[failed]], axis=1)
            broken = ~(np.abs(before).max(axis=1) < LARGEST_STATE)
            before[broken] = np.concatenate([self.model.qpos0, np.zeros(self.model.nv)])
            self.reset(failed, before[:, : self.model.nq], before[:, self.model.nq :])
            self._trajectory[failed] = before[:, None]
            self._sensordata[failed] = 0.0
        return failed

    def _num_warnings(self) -> np.ndarray:
        """Return how many warnings each simulation has raised so far."""
        return self.batch.warning[:, :, 1].sum(axis=1)  # the other column says where the last one came from

    def reset(self, rows: np.ndarray, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Put simulations into a state, forgetting time and warm start."""
        self.batch.state[rows] = 0.0
        self.qpos[rows] = qpos
        self.qvel[rows] = qvel

    def set_base_inertia(self, mass: np.ndarray, com: np.ndarray, inertia: np.ndarray) -> None:
        """Give the base of each simulation its own mass, centre of mass and principal inertia."""
        base = 1
        self.batch.expand("body_mass")[:, base] = mass
        self.batch.expand("body_ipos")[:, base] = com
        self.batch.expand("body_inertia")[:, base] = inertia
        self.batch.set_const()
