# SPDX-License-Identifier: BSD-3-Clause

"""``python -m rsl_rl_sac`` is the command ``rsl-rl-sac``."""

from rsl_rl_sac.cli import main

main()
