# SPDX-License-Identifier: BSD-3-Clause

"""What the property-based tests share: settings, odd values, and what an error must look like."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.utils import RslRlSacError

HUGE = 2**62
"""An integer that torch takes as a size, and that no machine has the memory for."""


def examples(count: int) -> settings:
    """Return the settings of a test with so many examples, the same ones in every run."""
    return settings(
        max_examples=count,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


def odd_values() -> st.SearchStrategy[object]:
    """Draw values of every kind, few of which a setting can have."""
    numbers = [0, 1, 2, 3, -1, HUGE, 2**63, 10**400, 0.0, 0.5, 1.0, 1e-9, -0.5, 1e300, math.nan, math.inf, -math.inf]
    others = [True, False, None, "", "cpu", "0.9", "relu\nelu", b"1", 1j, print, int, object(), torch.ones(2)]
    arrays = [np.float64(0.5), np.float32(0.5), np.int64(2), np.ones(2)]
    lists = [[], [0], [4], [4, 4], [-1], [0.5, 0.25], [0.0, 1.0], [1.0, 0.0], (1.0,), (0, HUGE), [math.nan, 1.0]]
    lists += [[[0.0], [1.0]], [[-1.0], 1.0], ["policy"], [HUGE, 4], [True], [None, None], [[[[[[[[]]]]]]]]]
    sections = [{}, {"mode": "linear"}, {1: 2}, {"class_name": "nothing:Nothing"}, {"actor": "policy"}, {"actor": []}]
    return st.sampled_from([*numbers, *others, *arrays, *lists, *sections]) | st.floats() | st.integers() | st.text()


@contextlib.contextmanager
def clear_error_or_none() -> Iterator[list[RslRlSacError]]:
    """Let a block end well, or with an error of this package, which is then in the list; any other one is a failure."""
    errors: list[RslRlSacError] = []
    try:
        yield errors
    except RslRlSacError as error:
        assert_clear(error)
        errors.append(error)


def assert_clear(error: BaseException) -> None:
    """Assert that an error is one line that a person can read."""
    message = str(error)
    assert message and "\n" not in message and len(message) < 2000, message


def assert_same_outcome(errors: list[RslRlSacError], expected: type[RslRlSacError] | None) -> None:
    """Assert that a block ended as expected: with an error of a type, or with none."""
    if expected is None:
        assert not errors, errors
    else:
        assert [type(error) for error in errors] == [expected], f"expected {expected.__name__}, got {errors}"


def tiny_cfg(num_envs: int = 4, n_step: int = 2) -> RunnerCfg:
    """Return a configuration whose training takes a few milliseconds."""
    cfg = RunnerCfg(num_envs=num_envs, num_steps_per_env=4, save_interval=10)
    cfg.actor.hidden_dims, cfg.critic.hidden_dims = [4], [4]
    algorithm = cfg.algorithm
    algorithm.num_mini_batches, algorithm.batch_size, algorithm.n_step = 1, 4, n_step
    algorithm.replay_size, algorithm.training_start_iteration = 8 * num_envs, 0
    return cfg


quiet = pytest.mark.filterwarnings("ignore")
"""Silences warnings: of rsl_rl about settings that it mends, of torch about what is odd."""
