# SPDX-License-Identifier: BSD-3-Clause

"""Averages of the policy's weights, scored beside the policy itself while it trains.

    python benchmarks/policy_average.py NAME TASK [flags of rsl-rl-sac train]

SAC's actor goes up and down from one evaluation to the next. Each average follows its weights with every step of it,
over a number of steps; training does not know of them. Every evaluation scores the policy, its averages, and the policy
with its noise on the same episodes, and adds a line for each to the table, under the name of the run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from common import RESULTS, read_rows, write_rows
from tensordict import TensorDict

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.algorithms.actor_average import ActorAverage
from rsl_rl_sac.cli.main import main
from rsl_rl_sac.envs.evaluation import EpisodeScore
from rsl_rl_sac.runners.training import Training

LENGTHS = (250, 1000, 4000)
"""Steps of the actor that the averages are over."""

COLUMNS = ("tracking", "survival", "episode_return")
"""Columns of the table."""

TABLE = "policy_average"


class AveragingSAC(SAC):
    """SAC that keeps several averages of its actor."""

    averages: dict[int, ActorAverage] | None = None
    """The averages by their length, once the actor has moved."""

    def _update_actor(self, *arguments: Any) -> dict[str, torch.Tensor]:  # noqa: ANN401
        if self.averages is None:
            self.averages = {length: ActorAverage(self.actor, self._actor_parameters, length) for length in LENGTHS}
        metrics = super()._update_actor(*arguments)
        for average in self.averages.values():
            average.follow()
        return metrics


def scores(training: Training) -> dict[str, EpisodeScore]:
    """Score the averages and the policy with its noise."""
    algorithm, env = training.runner.alg, training.evaluation_env
    if not isinstance(algorithm, AveragingSAC) or algorithm.averages is None or env is None:
        return {}

    def noisy(obs: TensorDict) -> torch.Tensor:
        return algorithm.actor(obs, stochastic_output=True)

    algorithm.eval_mode()
    policies: dict[str, Callable[[TensorDict], torch.Tensor]] = {"with noise": noisy}
    for length, average in algorithm.averages.items():
        policies[f"average over {length}"] = average.policy.eval()
    with torch.random.fork_rng(devices=[]):
        found = {name: training.world.evaluate(policy, env) for name, policy in policies.items()}
    algorithm.train_mode()
    return found


def add_scores(training: Training, name: str) -> None:
    """Add the scores of an evaluation to the table."""
    progress = training.progress
    found = scores(training)
    if not found or progress.score is None:
        return
    seconds = round(progress.seconds, 1)
    rows = read_rows(RESULTS / f"{TABLE}.csv")
    rows = [row for row in rows if (row["run"], row["seconds"]) != (name, str(seconds))]
    for policy, score in {"policy": progress.score, **found}.items():
        row = {"run": name, "policy": policy, "seconds": seconds, "env_steps": progress.env_steps}
        rows.append(row | {column: round(getattr(score, column), 4) for column in COLUMNS})
    write_rows(TABLE, rows)


def run(name: str, arguments: list[str]) -> None:
    """Train, and score the averages at every evaluation.

    Bounds that open, and an average that is the policy, are refused: these averages would not know of the former, and
    the policy that is scored beside them would not be the actor.
    """
    for flag in ("--algorithm.final-largest-action", "--algorithm.average-actor-steps"):
        if any(argument.split("=")[0] == flag for argument in arguments):
            raise SystemExit(f"{flag} is not for this benchmark.")
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
