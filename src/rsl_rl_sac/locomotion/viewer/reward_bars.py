# SPDX-License-Identifier: BSD-3-Clause

"""Reward terms as bars."""

from __future__ import annotations

import html
from collections.abc import Mapping

_ROW = (
    '<div style="display:flex;align-items:center;gap:6px;margin:2px 0">'
    '<span style="flex:0 0 45%;overflow:hidden;text-overflow:ellipsis" title="{name}">{name}</span>'
    '<span style="flex:1;display:flex">{left}{right}</span>'
    '<span style="flex:0 0 4em;text-align:right;font-variant-numeric:tabular-nums">{value:+.3f}</span></div>'
)
_HALF = '<span style="width:50%;display:flex;justify-content:{side}">{bar}</span>'
_BAR = '<span style="width:{width:.1f}%;height:0.8em;background:{color}"></span>'


class RewardBars:
    """Bars to the right for rewards and to the left for penalties, all to one scale.

    A full bar is the largest term that was shown so far, so that bars do not jump because another one grew smaller.
    """

    def __init__(self) -> None:
        """Begin without a scale."""
        self.largest = 1e-6

    def html(self, rates: Mapping[str, float]) -> str:
        """Return the bars, the total last.

        Args:
            rates: Terms by name, per second.
        """
        self.largest = max(self.largest, *(abs(rate) for rate in rates.values()))
        rows = [self._row(name, rate) for name, rate in rates.items()]
        total = f'<div style="text-align:right;font-weight:600">total {sum(rates.values()):+.3f}</div>'
        return f'<div style="font-size:0.75em;padding:0 0.5em">{"".join(rows)}{total}</div>'

    def _row(self, name: str, rate: float) -> str:
        bar = _BAR.format(width=100.0 * abs(rate) / self.largest, color="#2f9e44" if rate > 0.0 else "#e8590c")
        left = _HALF.format(side="flex-end", bar=bar if rate < 0.0 else "")
        right = _HALF.format(side="flex-start", bar=bar if rate > 0.0 else "")
        return _ROW.format(name=html.escape(name), left=left, right=right, value=rate)
