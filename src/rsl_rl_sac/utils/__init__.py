# SPDX-License-Identifier: BSD-3-Clause

"""Helpers."""

from .errors import CheckpointError, ConfigError, EnvContractError, NonFiniteError, RslRlSacError

__all__ = ["CheckpointError", "ConfigError", "EnvContractError", "NonFiniteError", "RslRlSacError"]
