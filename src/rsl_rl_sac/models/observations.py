# SPDX-License-Identifier: BSD-3-Clause

"""What models see of the observations."""

from __future__ import annotations

import torch
from rsl_rl.models import MLPModel
from tensordict import TensorDict


def normalized_observations(model: MLPModel, *obs: TensorDict) -> torch.Tensor:
    """Concatenate and normalize the observation groups of a model, in the default type whatever theirs is.

    Args:
        model: Model.
        *obs: Observations; those of several sets become the rows of one tensor, one set after the other.
    """
    dtype = torch.get_default_dtype()
    groups = [[part[group] for part in obs] for group in model.obs_groups]
    groups = [(torch.cat(parts) if len(parts) > 1 else parts[0]).to(dtype) for parts in groups]
    return model.obs_normalizer(torch.cat(groups, dim=-1) if len(groups) > 1 else groups[0])


def sees_the_same(model: MLPModel, other: MLPModel) -> bool:
    """Return whether two models have the same groups and statistics, so that one normalization serves both."""
    statistics, others = model.obs_normalizer.state_dict(), other.obs_normalizer.state_dict()
    return (
        list(model.obs_groups) == list(other.obs_groups)
        and statistics.keys() == others.keys()
        and all(torch.equal(values, others[name]) for name, values in statistics.items())
    )


def same_observations(obs: TensorDict, expected: TensorDict) -> bool:
    """Return whether observations are those that were expected; the same object costs no comparison."""
    return obs is expected or all(torch.equal(obs[group], expected[group]) for group in expected.keys())  # noqa: SIM118
