# SPDX-License-Identifier: BSD-3-Clause

"""The page: where it is served, what it refuses, and, in a real browser, what it shows and steers."""

from __future__ import annotations

import importlib
import io
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from PIL import Image
from tensordict import TensorDict

from rsl_rl_sac.locomotion.viewer import Session, run_viewer
from rsl_rl_sac.utils.errors import ConfigError, MissingDependencyError

pytest.importorskip("viser")
pytest.importorskip("mjviser")

from rsl_rl_sac.locomotion.viewer.page import Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""Programs that can show the page."""


def lean(obs: TensorDict) -> torch.Tensor:
    """Return actions by which a Go2 stands, and bends all joints if it is told to go forwards."""
    return 0.5 * obs["policy"][:, 9:10].repeat(1, 12)  # after two velocities and gravity come the commands


@pytest.fixture
def session() -> Iterator[Session]:
    """One robot."""
    session = Session("Velocity-Flat-Unitree-Go2", lean, num_threads=1)
    yield session
    session.close()


@pytest.fixture
def page(session: Session) -> Iterator[Page]:
    """A page at a free port."""
    page = Page(session, port=0)
    yield page
    page.close()


def test_stays_on_this_machine(page: Page) -> None:
    """It is served at the loopback address only, quietly, and cannot be made public from the page."""
    port = page.server.get_port()
    assert page.url == f"http://127.0.0.1:{port}"
    # All of 127.0.0.0/8 is this machine, so a server at 0.0.0.0 would answer here too.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5.0)
    assert page.server.request_share_url() is None


def test_address_in_use(page: Page, session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    """A taken port, a port that is none and a host that is not ours are refused in one line."""
    for host, port in (("127.0.0.1", page.server.get_port()), ("127.0.0.1", 65536), ("no such host", 0)):
        with pytest.raises(ConfigError) as error:
            Page(session, host, port)
        assert "\n" not in str(error.value)
    assert capsys.readouterr().out == ""


def test_without_viser(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing package is named, with the command that installs it."""
    monkeypatch.setitem(sys.modules, "viser", None)
    monkeypatch.delitem(sys.modules, "rsl_rl_sac.locomotion.viewer.page")
    with pytest.raises(MissingDependencyError, match="pip install viser mjviser"):
        importlib.import_module("rsl_rl_sac.locomotion.viewer.page")


def test_in_a_browser(page: Page, session: Session) -> None:
    """A slider moves the command and the robot obeys, buttons pause, step, push and reset, and the picture shows it."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium on this machine")
    over = threading.Event()
    loop = threading.Thread(target=run_viewer, args=(session, page, "model_7.pt"), kwargs={"is_over": over.is_set})
    loop.start()
    try:
        with playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--use-angle=swiftshader"])
            tab = browser.new_page(viewport={"width": 1200, "height": 760})
            tab.set_default_timeout(120_000)
            tab.goto(page.url)
            tab.get_by_text("model_7.pt").wait_for()
            tab.get_by_text("track_lin_vel_xy_exp").wait_for()
            joints = session.env.state.joint_pos[0].copy()
            tab.get_by_role("slider").first.press("End")
            wait_until(lambda: session.command == (1.0, 0.0, 0.0))
            # A unit of action is 0.25 rad, of which half is asked for.
            wait_until(lambda: bool(np.abs(session.env.state.joint_pos[0] - joints).max() > 0.05))

            tab.get_by_role("button", name="Pause / go").click()
            wait_until(lambda: session.paused)
            num_steps = session.num_steps
            tab.get_by_role("button", name="Step").click()
            wait_until(lambda: session.num_steps == num_steps + 1)
            still = wait_for_picture(tab.screenshot)
            position = session.env.state.root_pos[0].copy()
            tab.get_by_role("button", name="Push").click()
            tab.get_by_role("button", name="Pause / go").click()
            wait_until(lambda: bool(np.linalg.norm(session.env.state.root_pos[0] - position) > 0.1))
            tab.get_by_role("button", name="Pause / go").click()
            wait_until(lambda: session.paused)
            moved = wait_for_picture(tab.screenshot)
            assert np.abs(moved - still).max() > 50.0

            tab.get_by_role("button", name="Stand").click()
            wait_until(lambda: session.command == (0.0, 0.0, 0.0))
            tab.get_by_role("button", name="Reset").click()
            wait_until(lambda: session.num_steps == 0)
            browser.close()
    finally:
        over.set()
        loop.join()


def wait_until(is_true: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait for the loop, which runs in another thread."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def wait_for_picture(screenshot: Callable[[], bytes]) -> np.ndarray:
    """Return the middle of the page, between notices and the panel, once something dark is on the light ground."""
    end = time.monotonic() + 120.0
    while True:
        picture = np.asarray(Image.open(io.BytesIO(screenshot())).convert("L"), dtype=float)[230:580, 420:780]
        if (picture < 150.0).sum() > 300:
            return picture
        assert time.monotonic() < end, "no robot in sight"
        time.sleep(0.2)
