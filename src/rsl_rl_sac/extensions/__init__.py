# SPDX-License-Identifier: BSD-3-Clause

"""Extensions of the algorithm."""

from .rnd import ReplayRND, build_rnd
from .symmetry import Symmetry, build_symmetry

__all__ = ["ReplayRND", "Symmetry", "build_rnd", "build_symmetry"]
