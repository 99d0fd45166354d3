# SPDX-License-Identifier: BSD-3-Clause

"""Versions of this package and of what it stands on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from packaging.version import InvalidVersion, Version

UNKNOWN_VERSION = "0.0.0"
"""Version of a package that runs from its sources without being installed."""

_PACKAGES = ("rsl-rl-sac", "rsl-rl-lib", "torch", "mujoco", "numpy", "onnx", "onnxruntime")


def package_version(name: str = "rsl-rl-sac") -> str:
    """Return the version of an installed package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return UNKNOWN_VERSION


def installed_versions() -> dict[str, str]:
    """Return the versions that the outcome of a training depends on."""
    return {name: package_version(name) for name in _PACKAGES} | {"python": platform.python_version()}


def is_newer_than_ours(other: str) -> bool:
    """Return whether something was written by a newer version of this package; what is no version is not."""
    ours = package_version()
    try:
        return ours != UNKNOWN_VERSION and Version(other) > Version(ours)
    except InvalidVersion:
        return False
