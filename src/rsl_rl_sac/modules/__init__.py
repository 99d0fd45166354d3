# SPDX-License-Identifier: BSD-3-Clause

"""Building blocks of the models."""

from .ensemble_mlp import EnsembleMLP
from .fused_mlp import Tape, can_fuse, fused_mlp, input_gradient, mlp_gradient, record_mlp
from .squashed_gaussian import RecordedSample, SquashedGaussian
from .value_head import CategoricalHead, ScalarHead, make_head

__all__ = [
    "CategoricalHead",
    "EnsembleMLP",
    "RecordedSample",
    "ScalarHead",
    "SquashedGaussian",
    "Tape",
    "can_fuse",
    "fused_mlp",
    "input_gradient",
    "make_head",
    "mlp_gradient",
    "record_mlp",
]
