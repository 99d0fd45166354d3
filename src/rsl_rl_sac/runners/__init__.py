# SPDX-License-Identifier: BSD-3-Clause

"""Training loops."""

from .off_policy_runner import OffPolicyRunner

__all__ = ["OffPolicyRunner"]
