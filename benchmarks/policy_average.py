# SPDX-License-Identifier: BSD-3-Clause

"""Averages of the policy's weights, scored beside the policy itself while it trains.

    python benchmarks/policy_average.py NAME TASK [flags of rsl-rl-sac train]

SAC's actor goes up and down from one evaluation to the next. Each average follows its weights with every step of it,
over a number of steps; training does not know of them. Every evaluation scores the policy, its averages, and the policy
with its noise on the same episodes, and adds a line for each to the table, under the name of the run.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from common import RESULTS, read_rows, write_rows
from tensordict import TensorDict

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.cli.main import main
from rsl_rl_sac.locomotion.evaluation import Score
from rsl_rl_sac.runners.training import Training

LENGTHS = (250, 1000, 4000)
"""Steps of the actor that the averages are over."""

COLUMNS = ("tracking", "survival", "episode_return")
"""Columns of the table."""

TABLE = "policy_average"


class Averages:
    """Averages of an actor's weights."""

    def __init__(self, weights: torch.Tensor) -> None:
        """Start at the weights."""
        self.values = {length: weights.clone() for length in LENGTHS}
        self.num_steps = 0

    def follow(self, weights: torch.Tensor) -> None:
        """Move towards the weights; the first steps are averaged alike."""
        self.num_steps += 1
        for length, values in self.values.items():
            values.lerp_(weights, max(1.0 / length, 1.0 / (self.num_steps + 1)))


class AveragingSAC(SAC):
    """SAC that keeps averages of its actor."""

    averages: Averages | None = None
    """The averages, once the actor has moved."""

    def _update_actor(self, *arguments: Any) -> dict[str, torch.Tensor]:  # noqa: ANN401
        metrics = super()._update_actor(*arguments)
        weights = self._actor_parameters.vector.data
        self.averages = self.averages or Averages(weights)
        self.averages.follow(weights)
        return metrics


def scores(training: Training) -> dict[str, Score]:
    """Score the averages and the policy with its noise."""
    algorithm, env = training.runner.alg, training.evaluation_env
    if not isinstance(algorithm, AveragingSAC) or algorithm.averages is None or env is None:
        return {}
    policy, weights = algorithm.get_policy(), algorithm._actor_parameters.vector.data
    own, found = weights.clone(), {}

    def noisy(obs: TensorDict) -> torch.Tensor:
        return policy(obs, stochastic_output=True)

    algorithm.eval_mode()
    with torch.random.fork_rng(devices=[]):
        for length, values in algorithm.averages.values.items():
            weights.copy_(values)
            found[f"average over {length}"] = training.world.evaluate(policy, env)
        weights.copy_(own)
        found["with noise"] = training.world.evaluate(noisy, env)
    algorithm.train_mode()
    return found


def add_scores(training: Training, name: str) -> None:
    """Add the scores of an evaluation to the table."""
    progress = training.progress
    found = scores(training)
    if not found or progress.score is None:
        return
    rows = read_rows(RESULTS / f"{TABLE}.csv")
    for policy, score in {"policy": progress.score, **found}.items():
        row = {"run": name, "policy": policy, "seconds": round(progress.seconds, 1), "env_steps": progress.env_steps}
        rows.append(row | {column: round(getattr(score, column), 4) for column in COLUMNS})
    write_rows(TABLE, rows)


def run(name: str, arguments: list[str]) -> None:
    """Train, and score the averages at every evaluation."""
    evaluate = Training._evaluate

    def evaluate_all(training: Training) -> None:
        evaluate(training)
        add_scores(training, name)

    Training._evaluate = evaluate_all
    main(["train", *arguments, "--algorithm.class-name", f"{__name__}:AveragingSAC"])


if __name__ == "__main__":
    import policy_average  # by its name, by which the configuration finds the class

    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    policy_average.run(sys.argv[1], sys.argv[2:])
