# SPDX-License-Identifier: BSD-3-Clause

"""Draw every robot of the suite on rough terrain, off-screen.

python examples/suite_picture.py [docs/images/suite.png]
"""

from __future__ import annotations

import sys

import matplotlib
import numpy as np
import torch

from rsl_rl_sac.locomotion import make_env

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# Robot and column of the terrain, of which each kind has its own: stairs, boxes, rough, slopes.
PLACES = {
    "Rough-Anymal-B": 2,
    "Rough-Anymal-D": 6,
    "Rough-Unitree-A1": 10,
    "Rough-Unitree-Go1": 14,
    "Rough-Unitree-Go2": 17,
    "Rough-Unitree-H1": 1,
    "Rough-Unitree-G1": 19,
    "Flat-Unitree-Go2": 0,
}


def main() -> None:
    """Draw four robots to a row."""
    pictures = []
    for name, column in PLACES.items():
        env = make_env(f"Velocity-{name}", num_envs=20, seed=5, curriculum=False)
        if env.levels is not None:
            env.levels.levels[:] = 6
            env.reset()
        for _ in range(12):
            env.step(torch.zeros(env.num_envs, env.num_actions))
        env.camera.distance *= 1.15
        pictures.append(env.render(column, width=400, height=300))
        env.close()
    rows = [np.concatenate(pictures[i : i + 4], axis=1) for i in range(0, len(pictures), 4)]
    path = sys.argv[1] if len(sys.argv) > 1 else "suite.png"
    plt.imsave(path, np.concatenate(rows, axis=0))
    print(f"Written to {path}")


if __name__ == "__main__":
    main()
