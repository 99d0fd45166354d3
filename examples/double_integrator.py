# SPDX-License-Identifier: BSD-3-Clause

"""Train SAC on a problem with a known optimum, score it against that, and export the policy.

    python examples/double_integrator.py [--seed 0] [--iterations 110] [--folder logs/double_integrator]

Takes about half a minute on two cores and ends with a table, a curve and an ONNX file.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import logging
import pathlib
import time
import warnings
from collections.abc import Callable

import matplotlib
import numpy as np
import onnxruntime
import torch
from tensordict import TensorDict

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.envs import DoubleIntegrator, check_vec_env
from rsl_rl_sac.runners import OffPolicyRunner

matplotlib.use("Agg")
import matplotlib.pyplot as plt

GAMMA = 0.97
EVALUATION_SEED = 10_000


def main() -> None:
    """Train, score and export."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--seed", type=int, default=0, help="seed of every random generator")
    parser.add_argument("--iterations", type=int, default=110, help="training iterations")
    parser.add_argument("--folder", type=pathlib.Path, default="logs/double_integrator", help="where results go")
    args = parser.parse_args()
    if args.iterations < 1:
        parser.error(f"--iterations must be at least 1, got {args.iterations}")
    try:
        args.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--folder {args.folder} cannot be made: {error.strerror}")

    check_vec_env(DoubleIntegrator(num_envs=8))
    print("The environment fulfils the contract. Training SAC on 64 point masses ...")
    env = DoubleIntegrator(num_envs=64, seed=args.seed)
    with contextlib.redirect_stdout(io.StringIO()):  # rsl_rl prints the networks
        runner = OffPolicyRunner(env, make_cfg(args.seed).to_dict())
    curve = train(runner, args.iterations)
    write_curve(args.folder, curve)

    export(runner, args.folder)
    session = onnxruntime.InferenceSession(str(args.folder / "policy.onnx"))
    optimum = optimal_cost()
    rows = [
        ("default pose (no force)", cost_of(lambda obs: torch.zeros(obs.batch_size[0], 1))),
        ("SAC", curve[-1][1]),
        ("SAC, exported to ONNX", cost_of(lambda obs: run_onnx(session, obs))),
        ("optimum (Riccati)", optimum),
    ]
    print(f"\n{'policy':<26}{'discounted cost':>16}{'over optimum':>14}")
    for name, cost in rows:
        print(f"{name:<26}{cost:>16.3f}{cost / optimum - 1:>13.1%}")
    print(f"\nWritten to {args.folder}: curve.csv, curve.png, policy.onnx (its weights are in policy.onnx.data)")


def make_cfg(seed: int) -> RunnerCfg:
    """Return settings for a small and quick problem."""
    cfg = RunnerCfg(seed=seed, num_envs=64, num_steps_per_env=8)
    cfg.actor.hidden_dims = cfg.critic.hidden_dims = [64, 64]
    cfg.algorithm.gamma = GAMMA
    cfg.algorithm.n_step = 1
    cfg.algorithm.num_mini_batches = 32
    cfg.algorithm.batch_size = 256
    cfg.algorithm.replay_size = 100_000
    cfg.algorithm.actor_learning_rate = cfg.algorithm.critic_learning_rate = 1e-3
    cfg.algorithm.temperature_learning_rate = 1e-3
    cfg.algorithm.init_temperature = 0.01
    cfg.algorithm.target_entropy_scale = 1.0
    cfg.algorithm.tau = 0.02
    return cfg


def train(runner: OffPolicyRunner, iterations: int) -> list[tuple[int, float, float]]:
    """Train and return (environment steps, cost, seconds) every ten iterations."""
    curve, start = [], time.perf_counter()
    final_iterations = iterations // 5
    for done in range(0, iterations, 10):
        if done >= iterations - final_iterations:  # small steps at the end let the noise of learning die out
            for optimizer in (runner.alg.actor_optimizer, runner.alg.critic_optimizer):
                optimizer.param_groups[0]["lr"] = 1e-4
        runner.learn(min(10, iterations - done))
        policy = runner.get_inference_policy()
        cost = cost_of(policy)
        elapsed = time.perf_counter() - start
        steps = runner.next_iteration * runner.cfg["num_steps_per_env"] * runner.env.num_envs
        curve.append((steps, cost, elapsed))
        left = elapsed / runner.next_iteration * (iterations - runner.next_iteration)
        print(f"  {steps:>7} steps   cost {cost:>8.3f}   {elapsed:>5.1f} s, {left:>5.1f} s left")
    return curve


def export(runner: OffPolicyRunner, folder: pathlib.Path) -> None:
    """Export the policy to ONNX, without the exporter's remarks on libraries that are not needed."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner.export_policy_to_onnx(str(folder), "policy.onnx")


def cost_of(policy: Callable[[TensorDict], torch.Tensor]) -> float:
    """Return the mean discounted cost from 512 fixed initial states, over a horizon after which nothing counts."""
    env = DoubleIntegrator(num_envs=512, max_episode_length=10**6, seed=EVALUATION_SEED)
    obs, cost = env.get_observations(), 0.0
    with torch.no_grad():
        for step in range(400):  # 0.97^400 = 5e-6
            obs, rewards, _, _ = env.step(policy(obs))
            cost -= GAMMA**step * float(rewards.mean())
    return cost


def optimal_cost() -> float:
    """Return the cost of the linear-quadratic regulator from the same initial states."""
    env = DoubleIntegrator(num_envs=512, seed=EVALUATION_SEED)
    start = env.states.double()
    _, cost_to_go = env.optimal_gain(GAMMA)
    return float(((start @ cost_to_go) * start).sum(dim=-1).mean())


def run_onnx(session: onnxruntime.InferenceSession, obs: TensorDict) -> torch.Tensor:
    """Run the exported policy, which takes one observation at a time."""
    rows = [session.run(["actions"], {"obs": row[None].numpy()})[0] for row in obs["policy"]]
    return torch.from_numpy(np.concatenate(rows))  # type: ignore[arg-type]


def write_curve(folder: pathlib.Path, curve: list[tuple[int, float, float]]) -> None:
    """Write the learning curve as a table and as a picture."""
    with open(folder / "curve.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["env_steps", "cost", "seconds"])
        writer.writerows(curve)
    steps, costs, _ = zip(*curve, strict=True)
    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    axes.plot(steps, costs, marker="o", label="SAC")
    axes.axhline(optimal_cost(), color="black", linestyle="--", label="optimum")
    axes.set(xlabel="environment steps", ylabel="discounted cost", yscale="log", title="Double integrator")
    axes.legend()
    figure.savefig(folder / "curve.png", dpi=150)


if __name__ == "__main__":
    main()
