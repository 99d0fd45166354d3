# SPDX-License-Identifier: BSD-3-Clause

"""The loop behind the page: robots in real time, wishes of the page, newer checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from rsl_rl_sac.locomotion.viewer.checkpoint_watch import CheckpointWatch
from rsl_rl_sac.locomotion.viewer.session import Session
from rsl_rl_sac.utils.errors import RslRlSacError

STEPS_PER_PICTURE = 2
"""Control steps from picture to picture, which makes 25 per second."""

LARGEST_LAG = 0.2
"""Seconds behind which the loop gives up catching up, and robots move slower than they should."""

Request = Callable[[Session], None]
"""Something the page wishes."""


class View(Protocol):
    """What the loop needs of the page."""

    def requests(self) -> list[Request]:
        """Return what was wished for since the last call, in this order."""
        ...

    def draw(self, session: Session) -> None:
        """Show the robots as they are."""
        ...

    def report(self, session: Session, policy_name: str, problem: str, speed: float) -> None:
        """Show numbers.

        Args:
            session: Session.
            policy_name: Name of the policy in use.
            problem: What went wrong; empty if all is well.
            speed: Simulated time over real time.
        """
        ...


class Pacer:
    """Waits so that steps take their time."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Begin now.

        Args:
            clock: Seconds, from any origin.
            sleep: Waits for some seconds.
        """
        self.speed = 1.0
        """Simulated time over real time, over the last second."""
        self._clock, self._sleep = clock, sleep
        self._due = self._window_start = clock()
        self._simulated = 0.0

    def wait(self, seconds: float, moved: bool) -> None:
        """Wait for the end of a step.

        Args:
            seconds: Length of the step.
            moved: Whether time passed for the robots.
        """
        self._due += seconds
        self._simulated += seconds if moved else 0.0
        now = self._clock()
        if now - self._due > LARGEST_LAG:
            self._due = now
        elif self._due > now:
            self._sleep(self._due - now)
        elapsed = self._clock() - self._window_start
        if elapsed >= 1.0:
            self.speed = self._simulated / elapsed
            self._window_start += elapsed
            self._simulated = 0.0


def run_viewer(
    session: Session,
    view: View,
    policy_name: str,
    watch: CheckpointWatch | None = None,
    pacer: Pacer | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Run until Ctrl-C, or until it is over.

    Args:
        session: Session.
        view: Page.
        policy_name: Name of the policy.
        watch: Watches for newer policies; None keeps the one there is.
        pacer: Keeps the time; None makes one.
        is_over: Asked after every step.
    """
    pacer = pacer or Pacer()
    problem, num_passes = "", 0
    while not is_over():
        wishes = view.requests()
        for wish in wishes:
            try:
                wish(session)
                problem = ""
            except RslRlSacError as error:  # the page may send anything
                problem = str(error)
        newer = watch.poll() if watch is not None else None
        if newer is not None and watch is not None:
            session.policy, policy_name = newer, watch.file.path.name
        moved = session.tick()
        if wishes or (moved and num_passes % STEPS_PER_PICTURE == 0):
            view.draw(session)
        if wishes or num_passes % (5 * STEPS_PER_PICTURE) == 0:
            view.report(session, policy_name, problem or (watch.problem if watch else ""), pacer.speed)
        num_passes += 1
        pacer.wait(session.env.step_dt, moved)
