# SPDX-License-Identifier: BSD-3-Clause

"""Real time, wishes of the page, newer policies."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from rsl_rl_sac.locomotion.play_env import Ground
from rsl_rl_sac.locomotion.viewer import Session, run_viewer
from rsl_rl_sac.locomotion.viewer.loop import Pacer, Request


class FakeTime:
    """A clock that only moves when somebody sleeps or works."""

    def __init__(self) -> None:
        """Begin at 100 s."""
        self.now = 100.0

    def clock(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds > 0.0
        self.now += seconds


class FakeView:
    """A page that wishes what it was told to, one list per pass of the loop."""

    def __init__(self, wishes: list[list[Request]]) -> None:
        """Take the wishes."""
        self.wishes = wishes
        self.num_pictures = 0
        self.reports: list[tuple[str, str]] = []

    def requests(self) -> list[Request]:
        """Return the next wishes."""
        return self.wishes.pop(0)

    def draw(self, session: Session) -> None:
        """Count."""
        self.num_pictures += 1

    def report(self, session: Session, policy_name: str, problem: str, speed: float) -> None:
        """Keep."""
        self.reports.append((policy_name, problem))


def stand(obs: TensorDict) -> torch.Tensor:
    """Return actions that ask for the default pose of a Go2."""
    return torch.zeros(len(obs["policy"]), 12)


def test_real_time() -> None:
    """Steps of 20 ms that take 5 ms of work end every 20 ms, also after one that took 100 ms."""
    time = FakeTime()
    pacer = Pacer(time.clock, time.sleep)
    for step in range(100):
        time.now += 0.1 if step == 10 else 0.005
        pacer.wait(0.02, moved=True)
        if step < 10 or step > 20:
            assert time.now == pytest.approx(100.0 + 0.02 * (step + 1))
    assert pacer.speed == pytest.approx(1.0, rel=0.03)


def test_too_slow() -> None:
    """Steps of 20 ms that take 40 ms are half of real time; what was lost is not made up for in a rush."""
    time = FakeTime()
    pacer = Pacer(time.clock, time.sleep)
    for _ in range(100):
        time.now += 0.04
        pacer.wait(0.02, moved=True)
    assert pacer.speed == pytest.approx(0.5, rel=0.03)
    before = time.now
    for _ in range(50):
        time.now += 0.005
        pacer.wait(0.02, moved=True)
    assert time.now - before > 50 * 0.02 - 0.2 - 1e-6  # behind by 0.2 s at most
    for _ in range(100):
        time.now += 0.005
        pacer.wait(0.02, moved=False)
    assert pacer.speed == pytest.approx(0.0, abs=0.03)


def test_wishes_and_newer_policies() -> None:
    """Wishes are fulfilled in order, a bad one is reported, and a paused session still answers."""
    session = Session("Velocity-Flat-Unitree-Go2", stand, num_threads=1)
    time = FakeTime()

    def pause(session: Session) -> None:
        session.paused = True

    wishes: list[list[Request]] = [
        [],
        [lambda session: session.steer((0.5, 0.0, 0.0))],
        [pause],
        [],
        [lambda session: session.choose_ground(Ground("../../etc/passwd"))],
        [Session.step],
        [],
    ]
    view = FakeView(wishes)
    run_viewer(session, view, "model_1.pt", None, Pacer(time.clock, time.sleep), is_over=lambda: not wishes)
    # Two passes before the pause, then one step. Pictures: the first pass, and each with a wish.
    assert session.num_steps == 3 and view.num_pictures == 5
    assert session.command == (0.5, 0.0, 0.0) and session.ground == Ground("flat")
    assert [bool(problem) for _, problem in view.reports] == [False, False, False, True, False]
    assert "no ground '../../etc/passwd'" in view.reports[3][1]
    session.close()
