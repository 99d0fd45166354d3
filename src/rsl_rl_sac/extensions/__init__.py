# SPDX-License-Identifier: BSD-3-Clause

"""Extensions of the algorithm."""

from .symmetry import Symmetry

__all__ = ["Symmetry"]
