# SPDX-License-Identifier: BSD-3-Clause

"""Tasks of other packages, registered with SAC. Each module needs the package it is named after."""
