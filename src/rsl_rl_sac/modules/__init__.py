# SPDX-License-Identifier: BSD-3-Clause

"""Building blocks of the models."""

from .ensemble_mlp import EnsembleMLP
from .fused_mlp import can_fuse, fused_mlp, fused_mlp_in_parts, mlp_gradient, record_mlp
from .squashed_gaussian import SquashedGaussian
from .value_head import CategoricalHead, ScalarHead, make_head

__all__ = [
    "CategoricalHead",
    "EnsembleMLP",
    "ScalarHead",
    "SquashedGaussian",
    "can_fuse",
    "fused_mlp",
    "fused_mlp_in_parts",
    "make_head",
    "mlp_gradient",
    "record_mlp",
]
