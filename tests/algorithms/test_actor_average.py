# SPDX-License-Identifier: BSD-3-Clause

"""The average of the actor: what it is, who uses it, and what is kept of it."""

from __future__ import annotations

import copy
import pathlib

import pytest
import torch

from rsl_rl_sac.algorithms.actor_average import ActorAverage
from rsl_rl_sac.locomotion.runs import load_actor, resolve_run
from rsl_rl_sac.runners.training import Training
from rsl_rl_sac.utils import CheckpointError
from rsl_rl_sac.utils.config_file import dump_config
from rsl_rl_sac.utils.flat_parameters import FlatParameters
from tests.helpers import collect, small_alg
from tests.runners.test_warm_start import FLAT, ROUGH, make_cfg, observations


def weights(module: torch.nn.Module) -> torch.Tensor:
    """Return all parameters as one vector."""
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


def test_average_by_hand() -> None:
    """The first three weights count alike, then a third of the way is gone: 0, 6, 9 make 3, 5, then 11 makes 7."""
    alg, _ = small_alg()
    parameters = FlatParameters(alg.actor.mlp.parameters())
    parameters.vector.data.zero_()
    average = ActorAverage(alg.actor, parameters, 3)
    for value, expected in ((6.0, 3.0), (9.0, 5.0), (11.0, 7.0)):
        parameters.vector.data.fill_(value)
        average.follow()
        torch.testing.assert_close(weights(average.policy.mlp), torch.full_like(parameters.vector.data, expected))
    average.restart()
    torch.testing.assert_close(weights(average.policy.mlp), parameters.vector.data)


def test_training_does_not_know_of_it() -> None:
    """The actor learns what it learns without; the policy is the average, with the actor's statistics and bounds."""
    algs = []
    for num_steps in (None, 5):
        torch.manual_seed(0)
        alg, env = small_alg(average_actor_steps=num_steps, num_learning_epochs=2)
        for _ in range(3):
            collect(alg, env)
            alg.update()
        algs.append(alg)
    plain, averaging = algs
    assert torch.equal(weights(plain.actor), weights(averaging.actor))
    policy = averaging.get_policy()
    assert plain.get_policy() is plain.actor and policy is not averaging.actor
    assert not torch.allclose(weights(policy), weights(averaging.actor))
    assert policy.obs_normalizer is averaging.actor.obs_normalizer
    assert policy.distribution is averaging.actor.distribution


def test_moves_with_the_bounds() -> None:
    """With bounds that open, what small actions the average takes stays what it was."""
    alg, env = small_alg(average_actor_steps=4, largest_action=0.5, final_largest_action=1.0)
    collect(alg, env)
    alg.update()
    policy, obs = alg.get_policy(), env.get_observations()
    before = policy(obs)
    assert alg.opening is not None and alg.average is not None
    with torch.no_grad():
        alg.opening.open(alg.actor, 1.0, alg.average.policy)
    assert float(policy.distribution.scale) == pytest.approx(1.0)
    # y = tanh(x) / 2 becomes tanh(x / 2).
    torch.testing.assert_close(policy(obs), torch.tanh(torch.atanh(2.0 * before) / 2.0), atol=1e-5, rtol=1e-4)


def test_begins_with_the_actor() -> None:
    """From a checkpoint without an average one begins at the actor; one of other networks is refused."""
    plain, _ = small_alg()
    alg, env = small_alg(average_actor_steps=4)
    collect(alg, env)
    alg.update()
    state = alg.save()
    alg.load(plain.save(), {"actor": True}, True)
    assert torch.equal(weights(alg.get_policy()), weights(plain.actor))
    state["average_state_dict"]["actor_state_dict"]["mlp.0.weight"] = torch.zeros(3, 2)
    with pytest.raises(CheckpointError, match=r"mlp\.0\.weight"):
        alg.load(state, {"actor": True}, True)


def test_what_is_not_strict() -> None:
    """Parts that are missing in the actor's state may be missing in the average's."""
    alg, env = small_alg(average_actor_steps=4)
    collect(alg, env)
    alg.update()
    state = copy.deepcopy(alg.save())
    values = (0.25, 0.5)
    parts = (state["actor_state_dict"], state["average_state_dict"]["actor_state_dict"])
    for part, value in zip(parts, values, strict=True):
        part["mlp.0.bias"].fill_(value)
        del part["mlp.0.weight"]
    with pytest.raises(CheckpointError, match=r"mlp\.0\.weight"):
        alg.load(state, {"actor": True}, True)
    alg.load(state, {"actor": True}, False)
    for policy, value in zip((alg.actor, alg.get_policy()), values, strict=True):
        assert bool((policy.state_dict()["mlp.0.bias"] == value).all())


def test_follows_after_a_move() -> None:
    """A policy that was moved to another device and back has memory of its own; it goes on with its average."""
    alg, env = small_alg(average_actor_steps=4, training_start_iteration=0)
    collect(alg, env)
    policy = alg.get_policy()
    for parameter in policy.mlp.parameters():
        parameter.data = parameter.data.clone()  # as Module.to() does
    before = weights(policy.mlp)
    alg.update()
    assert not torch.equal(weights(policy.mlp), before)


def test_runs(tmp_path: pathlib.Path) -> None:
    """A checkpoint is scored by its average, and another run starts from its actor."""
    cfg = make_cfg("sac")
    cfg.algorithm.average_actor_steps = 50
    flat = Training(FLAT, cfg, tmp_path / "flat", evaluation_envs=1, num_cores=1)
    flat.run()
    (tmp_path / "flat" / "config.yaml").write_text(dump_config(FLAT, cfg))
    file = resolve_run(str(tmp_path / "flat"))
    loaded, alg = load_actor(file), flat.runner.alg
    assert torch.equal(weights(loaded), weights(alg.get_policy()))
    assert not torch.equal(weights(loaded), weights(alg.actor))
    rough = Training(ROUGH, cfg, tmp_path / "rough", evaluation_envs=1, num_cores=1, start_from=file.path)
    before, after = observations(20, 0.0)
    for policy in (rough.runner.alg.actor, rough.runner.alg.get_policy()):
        torch.testing.assert_close(policy(after), alg.actor(before), atol=1e-5, rtol=1e-4)
