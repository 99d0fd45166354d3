# SPDX-License-Identifier: BSD-3-Clause

"""Building blocks of the models."""

from .ensemble_mlp import EnsembleMLP
from .fused_mlp import can_fuse, fused_mlp
from .squashed_gaussian import SquashedGaussian

__all__ = ["EnsembleMLP", "SquashedGaussian", "can_fuse", "fused_mlp"]
