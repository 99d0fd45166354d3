# SPDX-License-Identifier: BSD-3-Clause
# pyright: reportMissingImports=false

"""Steps of mjlab's flat Go1 task on the CPU, for ``physics.py``, which starts this in mjlab's own virtual environment.

    python benchmarks/peer_mjlab.py NUM_ENVS THREADS

Prints a line of JSON when it is ready, after the kernels are compiled. Then every line on the standard input is a
number of steps; it runs them and prints the seconds they took, and the seconds of processor time.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time

TASK = "Mjlab-Velocity-Flat-Unitree-Go1"
WARM_UP_STEPS = 10
ACTION_SCALE = 0.5


def main() -> None:
    """Serve steps until the standard input ends."""
    # mjlab and Warp report on the standard output, which is kept for the numbers here.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    import mjlab.tasks  # noqa: F401 (registers the tasks)
    import mujoco
    import torch
    import warp
    from mjlab.envs import ManagerBasedRlEnv
    from mjlab.tasks.registry import load_env_cfg

    num_envs, threads = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    cfg = load_env_cfg(TASK)
    cfg.scene.num_envs = num_envs
    env = ManagerBasedRlEnv(cfg=cfg, device="cpu")
    env.reset()
    num_actions = env.action_manager.total_action_dim

    def run(steps: int) -> tuple[float, float]:
        actions = ACTION_SCALE * torch.randn(steps, num_envs, num_actions)
        start, processor_start = time.perf_counter(), time.process_time()
        for action in actions:
            env.step(action)
        return time.perf_counter() - start, time.process_time() - processor_start

    run(WARM_UP_STEPS)
    facts = {
        "task": TASK,
        "mjlab": importlib.metadata.version("mjlab"),
        "mujoco": mujoco.__version__,
        "warp": warp.__version__,
        "physics_steps": cfg.decimation,
        "step_dt": env.step_dt,
    }
    print(json.dumps(facts), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(run(int(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
