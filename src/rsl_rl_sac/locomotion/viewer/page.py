# SPDX-License-Identifier: BSD-3-Clause

"""The page in the browser, drawn by viser and mjviser."""

from __future__ import annotations

import contextlib
import html
import io
import queue
import socket

from rsl_rl_sac.locomotion.play_env import GROUNDS, Ground, command_ranges, num_levels
from rsl_rl_sac.locomotion.rendering import ground_as_felt, view_offset
from rsl_rl_sac.locomotion.viewer.loop import Request
from rsl_rl_sac.locomotion.viewer.reward_bars import RewardBars
from rsl_rl_sac.locomotion.viewer.session import PUSH_SPEED, Session
from rsl_rl_sac.utils.errors import ConfigError, MissingDependencyError

try:
    import viser
    from mjviser import ViserMujocoScene
except ImportError as error:
    raise MissingDependencyError(f"The viewer needs viser and mjviser ({error}): pip install viser mjviser.") from error

COMMAND_NAMES = ("Forwards (m/s)", "Left (m/s)", "Turn (rad/s)")
"""Labels of the command's sliders."""


def _toggle_pause(session: Session) -> None:
    session.paused = not session.paused


BUTTONS: dict[str, Request] = {
    "Pause / go": _toggle_pause,
    "Step": Session.step,
    "Reset": Session.reset,
    f"Push {PUSH_SPEED:g} m/s": Session.push,
}
"""Buttons and what they do."""


class _Server(viser.ViserServer):
    """A server that stays where it was put."""

    def request_share_url(self, verbose: bool = True) -> str | None:
        """Refuse: a page could ask for a tunnel that makes the server public."""
        return None


class Page:
    """The page of a session. What is clicked arrives in other threads, and waits until the loop asks for it."""

    def __init__(self, session: Session, host: str = "127.0.0.1", port: int = 8080) -> None:
        """Serve the page.

        Args:
            session: Session.
            host: Address to listen at.
            port: Port; 0 takes a free one.

        Raises:
            ConfigError: If it is not possible to listen there.
        """
        _check_address(host, port)
        with contextlib.redirect_stdout(io.StringIO()):  # a banner of its own
            self.server = _Server(host=host, port=port, label=session.task, verbose=False)
        self.server.gui.configure_theme(show_logo=False, show_share_button=False, control_width="large")
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._ranges = command_ranges(session.env.task.commands)
        self._bars = RewardBars()
        self._show_ground(session)
        self._status = self.server.gui.add_html("")
        self._add_command(session)
        self._add_buttons()
        self._add_ground(session)
        with self.server.gui.add_folder("Rewards per second"):
            self._rewards = self.server.gui.add_html("")
        self.draw(session)

    @property
    def url(self) -> str:
        """Address to open."""
        host = self.server.get_host()
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server.get_port()}"

    def requests(self) -> list[Request]:
        """Return what was clicked since the last call."""
        return [self._requests.get() for _ in range(self._requests.qsize())]

    def draw(self, session: Session) -> None:
        """Show the robots as they are."""
        if session.env.physics.model is not self._scene.mj_model:
            self._show_ground(session)
        self._scene.update_from_arrays(*session.poses())

    def report(self, session: Session, policy_name: str, problem: str, speed: float) -> None:
        """Show numbers and reward terms."""
        asked, moves = (" / ".join(f"{value:+.2f}" for value in row) for row in (session.command, session.velocity()))
        lines = [
            f"<b>{html.escape(policy_name)}</b>, {'paused' if session.paused else f'{speed:.0%} of real time'}",
            f"asked {asked}, moves {moves}",
            f"{session.num_falls} falls",
        ]
        if problem:
            lines.append(f'<span style="color:#e03131">{html.escape(problem)}</span>')
        self._status.content = f'<div style="font-size:0.8em;padding:0.5em">{"<br>".join(lines)}</div>'
        self._rewards.content = self._bars.html(session.reward_rates())

    def close(self) -> None:
        """Stop serving."""
        with contextlib.redirect_stdout(io.StringIO()):
            self.server.stop()

    def _show_ground(self, session: Session) -> None:
        """Build the scene anew."""
        model = session.env.physics.model
        # mjviser hands the colours of MuJoCo over as linear ones, which makes them pale.
        model.mat_rgba[:, :3] **= 2.2
        self.server.scene.reset()
        with ground_as_felt(model):
            self._scene = ViserMujocoScene(self.server, model, session.env.num_envs)
        camera = self.server.initial_camera  # the scene moves, so that the robot stays at the origin
        camera.position, camera.look_at = tuple(view_offset(session.env)), (0.0, 0.0, 0.0)

    def _add_command(self, session: Session) -> None:
        with self.server.gui.add_folder("Command"):
            self._sliders = [
                self.server.gui.add_slider(
                    name,
                    min=low,
                    max=high if high > low else low + 1.0,  # a slider needs some way to go
                    step=0.05,
                    initial_value=min(max(value, low), high),
                    disabled=high == low,
                )
                for name, (low, high), value in zip(COMMAND_NAMES, self._ranges, session.command, strict=True)
            ]
            stand = self.server.gui.add_button("Stand")
        for slider in self._sliders:
            slider.on_update(lambda _: self._steer())

        @stand.on_click
        def _(_: object) -> None:
            for slider, (low, high) in zip(self._sliders, self._ranges, strict=True):
                slider.value = min(max(0.0, low), high)
            self._steer()

    def _steer(self) -> None:
        command = [float(slider.value) for slider in self._sliders]
        self._requests.put(lambda session: session.steer(command))

    def _add_buttons(self) -> None:
        buttons = self.server.gui.add_button_group("Robot", tuple(BUTTONS))

        @buttons.on_click
        def _(_: object) -> None:
            if buttons.value in BUTTONS:  # a page may send anything
                self._requests.put(BUTTONS[buttons.value])

    def _add_ground(self, session: Session) -> None:
        with self.server.gui.add_folder("Ground"):
            kind = self.server.gui.add_dropdown("Kind", GROUNDS, initial_value=session.ground.kind)
            level = self.server.gui.add_slider(
                "Level", min=0, max=num_levels(session.task) - 1, step=1, initial_value=session.ground.level
            )

        def choose(_: object) -> None:
            ground = Ground(kind.value, int(level.value))
            self._requests.put(lambda session: session.choose_ground(ground))

        kind.on_update(choose)
        level.on_update(choose)


def _check_address(host: str, port: int) -> None:
    """Try to listen: viser would look for another port, and for one without an end if the host is wrong."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"A port is a number from 0 to 65535, got {port}.")
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"Cannot listen at {host}, port {port} ({error}): choose others with --host, --port."
        ) from error
