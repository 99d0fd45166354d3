# SPDX-License-Identifier: BSD-3-Clause

"""The command line."""

from .main import main

__all__ = ["main"]
