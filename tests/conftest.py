# SPDX-License-Identifier: BSD-3-Clause

"""Fixtures of the whole suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    """Give every test the same random numbers, whatever ran before."""
    torch.manual_seed(0)


@pytest.fixture
def double_precision() -> Iterator[None]:
    """Run a test in float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
