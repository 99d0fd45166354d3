# SPDX-License-Identifier: BSD-3-Clause

"""Errors that tell a user what was wrong and what to do."""

from __future__ import annotations


class RslRlSacError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(RslRlSacError, ValueError):
    """A configuration has an unknown key or a value out of range."""


class EnvContractError(RslRlSacError, ValueError):
    """An environment does not fulfil the contract of ``rsl_rl_sac.envs``."""


class CheckpointError(RslRlSacError, RuntimeError):
    """A checkpoint is missing, damaged, unsafe, or belongs to another run."""


class LostProcessError(RslRlSacError, RuntimeError):
    """Another process of a training with many ended, or does not answer."""


class MissingDependencyError(RslRlSacError, ImportError):
    """A package that a part of this one needs is missing or too old."""


class NonFiniteError(RslRlSacError, ArithmeticError):
    """A reward, loss or gradient became NaN or infinite."""


class TrainingFailedError(RslRlSacError, RuntimeError):
    """A training that ran in a process of its own ended with an error."""


class ExportError(RslRlSacError, RuntimeError):
    """An exported policy does not do what the policy itself does."""
