# SPDX-License-Identifier: BSD-3-Clause

"""Time of one gradient step of SAC over the time of its matrix products alone, and against other implementations.

    python benchmarks/learner.py [--sizes S M L] [--activations relu swish] [--no-peers]

A gradient step is everything from sampling the batch to the target update. The floor is the matrix products of that
step and nothing else, with operands in the layout that suits them best and results written in place. All candidates
take turns in one process; figures are medians of ratios within a round.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import torch
from common import NUM_ACTIONS, SIZES, Size, random_observations, ratio, take_turns, write_table

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.config import SACCfg
from rsl_rl_sac.models import Actor, CriticEnsemble
from rsl_rl_sac.storage import ReplayStorage
from rsl_rl_sac.utils.allocator import reuse_large_allocations

NUM_ENVS, NUM_STEPS = 256, 128
ROUNDS = {"S": 15, "M": 11, "L": 7}


def main() -> None:
    """Measure all sizes and activations."""
    parser = argparse.ArgumentParser(description="Time of a gradient step, as a ratio.")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--activations", nargs="+", default=["relu", "swish"], choices=["relu", "swish"])
    parser.add_argument("--no-peers", action="store_true", help="leave out Stable-Baselines3 and SBX")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--keep-malloc", action="store_true", help="leave the allocator of the process as it is")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if not args.keep_malloc:
        reuse_large_allocations()
    peers = [] if args.no_peers else ["sb3", "sbx"]
    header = ["size", "activation", "floor_ms", "ours_over_floor"]
    header += [f"{peer}_over_{other}" for peer in peers for other in ("floor", "ours")]
    rows = []
    for size_name in args.sizes:
        for activation in args.activations:
            seconds = measure(SIZES[size_name], activation, ROUNDS[size_name], bool(peers))
            row: list[object] = [size_name, activation, 1e3 * statistics.median(seconds["floor"])]
            row.append(ratio(seconds, "ours", "floor"))
            row += [ratio(seconds, peer, other) for peer in peers for other in ("floor", "ours")]
            rows.append(row)
            print(dict(zip(header, row, strict=True)), flush=True)
    print()
    write_table("learner" if peers else "learner_alone", header, rows)


def measure(size: Size, activation: str, rounds: int, with_peers: bool) -> dict[str, list[float]]:
    """Return the seconds per gradient step of all candidates."""
    products = floor(size)
    candidates = {"floor": lambda: repeat(products, size.repetitions), "ours": ours(size, activation)}
    if with_peers:
        from peers import make_sb3, make_sbx

        candidates |= {"sb3": make_sb3(size, activation), "sbx": make_sbx(size, activation)}
    seconds = take_turns(candidates, rounds)
    return {name: [value / size.repetitions for value in values] for name, values in seconds.items()}


def repeat(function: Callable[[], None], times: int) -> None:
    """Call a function a number of times."""
    for _ in range(times):
        function()


def floor(size: Size) -> Callable[[], None]:
    """Return a function that makes the matrix products of one gradient step."""
    batch, hidden = size.batch_size, size.hidden_dims
    actor = list(zip([size.observations, *hidden], [*hidden, 2 * NUM_ACTIONS], strict=True))
    critic = list(zip([size.observations + NUM_ACTIONS, *hidden], [*hidden, 1], strict=True))

    def forward(layers: list) -> list:
        return [(batch, inputs, outputs) for inputs, outputs in layers]

    def weight_gradient(layers: list) -> list:
        return [(outputs, batch, inputs) for inputs, outputs in layers]

    def input_gradient(layers: list) -> list:
        return [(batch, outputs, inputs) for inputs, outputs in layers[1:]]

    products = forward(actor) + 2 * forward(critic)  # target: next actions and their values
    products += 2 * (forward(critic) + weight_gradient(critic) + input_gradient(critic))  # critics
    products += forward(actor) + 2 * (forward(critic) + input_gradient(critic))  # actor, through frozen critics
    products += 2 * [(batch, hidden[0], NUM_ACTIONS)]  # and into the action columns of their first layer
    products += weight_gradient(actor) + input_gradient(actor)
    operands = {
        shape: (torch.randn(shape[0], shape[1]), torch.randn(shape[1], shape[2]), torch.empty(shape[0], shape[2]))
        for shape in set(products)
    }
    calls = [operands[shape] for shape in products]

    def run() -> None:
        for left, right, result in calls:
            torch.mm(left, right, out=result)

    return run


def ours(size: Size, activation: str) -> Callable[[], None]:
    """Return a function that makes ``size.repetitions`` gradient steps of this package."""
    cfg = SACCfg(num_mini_batches=size.repetitions, batch_size=size.batch_size, training_start_iteration=0)
    obs, groups = random_observations(NUM_ENVS, size.observations), {"actor": ["policy"], "critic": ["policy"]}
    actor = Actor(obs, groups, "actor", NUM_ACTIONS, size.hidden_dims, activation)
    critic = CriticEnsemble(obs, groups, "critic", NUM_ACTIONS, 2, size.hidden_dims, activation)
    storage = ReplayStorage(NUM_ENVS, NUM_ENVS * NUM_STEPS, obs, NUM_ACTIONS, cfg.n_step, cfg.gamma)
    for _ in range(NUM_STEPS):
        obs = random_observations(NUM_ENVS, size.observations)
        time_outs = torch.rand(NUM_ENVS) < 0.01
        storage.add(obs, torch.rand(NUM_ENVS, NUM_ACTIONS), torch.randn(NUM_ENVS), time_outs, time_outs, obs)
    alg = SAC(actor, critic, storage, cfg)

    def run() -> None:
        alg.update()

    return run


if __name__ == "__main__":
    main()
