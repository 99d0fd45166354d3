# SPDX-License-Identifier: BSD-3-Clause

"""Soft Actor-Critic for legged robots, as an extension of rsl_rl."""

from importlib.metadata import PackageNotFoundError, version

from .algorithms import SAC

try:
    __version__ = version("rsl-rl-sac")
except PackageNotFoundError:  # run from the sources without installing
    __version__ = "0.0.0"

__all__ = ["SAC", "__version__"]
