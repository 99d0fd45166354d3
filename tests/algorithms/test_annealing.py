# SPDX-License-Identifier: BSD-3-Clause

"""When noise and learning rates go down: by gradient steps, and not before the environment reports progress."""

from __future__ import annotations

import pytest
import torch

from rsl_rl_sac.algorithms.annealing import Annealing
from rsl_rl_sac.config import SACCfg
from rsl_rl_sac.utils.errors import ConfigError, EnvContractError
from tests.helpers import collect, small_alg

CPU = torch.device("cpu")


def reach(annealing: Annealing, progress: float, num_steps: int) -> None:
    """Report the same progress in some vector steps."""
    for _ in range(num_steps):
        annealing.observe({"progress": progress})


def test_by_gradient_steps_alone() -> None:
    """Between steps 10 and 30 it goes linearly from 0 to 1; nothing of the environment is needed."""
    annealing = Annealing((10, 30))
    annealing.observe({})
    annealing.decide(0, CPU)
    assert [annealing.share(n) for n in (0, 10, 15, 30, 99)] == [0.0, 0.0, 0.25, 1.0, 1.0]


def test_waits_for_progress() -> None:
    """Reached at step 50 instead of 10, all is shifted by 40; what the progress does afterwards does not matter."""
    annealing = Annealing((10, 30), least_progress=0.5)
    reach(annealing, 0.4, 1000)
    annealing.decide(49, CPU)
    assert annealing.share(49) == annealing.share(1000) == 0.0
    reach(annealing, 1.0, 1000)
    annealing.decide(50, CPU)
    reach(annealing, 0.0, 1000)
    annealing.decide(51, CPU)
    assert [annealing.share(n) for n in (50, 55, 70, 99)] == [0.0, 0.25, 1.0, 1.0]


def test_progress_does_not_hasten_it() -> None:
    """Reached before step 10, it begins at step 10."""
    annealing = Annealing((10, 30), least_progress=0.5)
    reach(annealing, 1.0, 1000)
    annealing.decide(2, CPU)
    assert [annealing.share(n) for n in (2, 10, 20)] == [0.0, 0.0, 0.5]


def test_progress_is_smoothed() -> None:
    """After k steps of 0.6 the average is 0.6 (1 - 0.99^k), which passes 0.5 between k = 178 and 179."""
    annealing = Annealing((0, 10), least_progress=0.5)
    reach(annealing, 0.6, 178)
    annealing.decide(1, CPU)
    assert annealing.start is None
    reach(annealing, 0.6, 1)
    annealing.decide(2, CPU)
    assert annealing.start == 2


def test_environment_that_does_not_say() -> None:
    """An environment without progress would be waited for forever, so it is an error, at once."""
    alg, env = small_alg(anneal_progress=0.5)
    with pytest.raises(EnvContractError, match=r"anneal_progress is 0\.5.*extras\['progress'\].* is missing"):
        collect(alg, env, 1)
    for progress in (float("nan"), torch.ones(16)):
        with pytest.raises(EnvContractError, match="one finite number"):
            alg.annealing.observe({"progress": progress})
    assert alg.annealing.progress == 0.0
    with pytest.raises(ConfigError, match="anneal_progress"):
        SACCfg(anneal_progress=float("nan"))


@pytest.mark.parametrize("begun", [False, True])
def test_goes_on_after_loading(begun: bool) -> None:
    """A run that is loaded anneals at the same gradient steps as the one that was saved."""
    options = {"anneal_progress": 0.5, "target_entropy_updates": (4, 8), "final_target_entropy_scale": -1.0}
    alg, _ = small_alg(**options)
    reach(alg.annealing, 0.9, 60)  # an average of 0.41
    if begun:
        reach(alg.annealing, 0.9, 60)  # 0.63
        alg.annealing.decide(6, CPU)
    other, _ = small_alg(**options)
    other.load(alg.save(), None, strict=True)
    for each in (alg, other):
        reach(each.annealing, 0.9, 21)  # 0.50 where it had not begun
        each.annealing.decide(7, CPU)
    assert other.annealing.start == alg.annealing.start == (6 if begun else 7)
    assert [other.annealing.share(n) for n in (6, 8)] == [0.0, 0.5 if begun else 0.25]


@pytest.mark.parametrize(("progress", "share"), [(1.0, 0.5), (0.1, 0.0)])
def test_update_acts_on_it(progress: float, share: float) -> None:
    """100 steps of progress 1 average to 0.63: of 8 gradient steps that it takes, the 4 of one update are half."""
    options = {"target_entropy_updates": (0, 8), "target_entropy_scale": 1.0, "final_target_entropy_scale": 0.0}
    alg, env = small_alg(anneal_progress=0.5, training_start_iteration=0, **options)
    obs = env.get_observations()
    for _ in range(100):
        obs, rewards, dones, extras = env.step(alg.act(obs))
        alg.process_env_step(obs, rewards, dones, {**extras, "progress": progress})
    alg.update()
    assert alg.num_updates == 4
    assert alg.target_entropy == pytest.approx(-(1.0 - share) * alg.actor.distribution.output_dim)


def test_other_settings_after_loading() -> None:
    """A checkpoint of a run that did not wait leaves the decision to the settings of the run that loads it."""
    source, _ = small_alg(target_entropy_updates=(0, 100))
    waiting, _ = small_alg(target_entropy_updates=(10, 20), anneal_progress=0.5)
    later, _ = small_alg(target_entropy_updates=(10, 20))
    for alg in (waiting, later):
        alg.load(source.save(), None, strict=True)
    assert waiting.annealing.share(15) == 0.0 and later.annealing.share(15) == 0.5
    waiting.annealing.start = 3
    later.load(waiting.save(), None, strict=True)  # nor does one that waited decide for a run that does not
    assert later.annealing.share(15) == 0.5


def test_a_decision_is_undone() -> None:
    """A checkpoint of before the time had come is not yet at the time, whatever happened meanwhile."""
    annealing = Annealing((0, 10), 0.5)
    before = annealing.state_dict()
    annealing.progress = 1.0
    annealing.decide(6, torch.device("cpu"))
    assert annealing.share(11) == 0.5
    annealing.load_state_dict(before)
    assert annealing.share(11) == 0.0
