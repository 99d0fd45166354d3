# SPDX-License-Identifier: BSD-3-Clause

"""Bars: lengths to one scale, penalties to the left."""

from __future__ import annotations

import re

from rsl_rl_sac.locomotion.viewer.reward_bars import RewardBars


def test_bars() -> None:
    """The largest term is a full bar, also when it gets smaller later; names cannot become markup."""
    bars = RewardBars()
    text = bars.html({"track": 2.0, "torque": -0.5, "<b>": 0.0})
    assert re.findall(r"width:([\d.]+)%;height", text) == ["100.0", "25.0"]
    assert re.findall(r"justify-content:flex-(\w+)\"><span", text) == ["start", "end"]
    assert "total +1.500" in text and "<b>" not in text and "&lt;b&gt;" in text
    assert re.findall(r"width:([\d.]+)%;height", bars.html({"track": 1.0})) == ["50.0"]
