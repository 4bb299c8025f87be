# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/top.svg, an example of what `sumwire top` shows: `python dashboards/top_picture.py`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from sumwire.top.picture import Picture, PortRow, SwitchRow, WorkerRow
from sumwire.top.screen import Screen

TARGET: Final = Path(__file__).parents[1] / "docs" / "images" / "top.svg"
_RATE: Final = 12.5e6
_SIZE: Final = (80, 18)
# By worker: bytes per second sent and received, share of time in operations, in flight, sent again per second.
_WORKERS: Final = ((5.9e6, 9.6e6, 0.81, 116, 1.5), (5.9e6, 9.6e6, 0.79, 120, 0.0), (5.8e6, 9.5e6, 0.42, 64, 0.0),
                   (5.9e6, 9.6e6, 0.83, 118, 0.5))  # fmt: skip


def picture() -> Picture:
    """Four workers; the third computes for longer than the others."""
    workers = tuple(
        WorkerRow(f"10.0.0.{1 + w}:9464", "1", "digits", w, sent, got, _RATE, 8.5, share, flying, resent, 0, 0, 0,
                  False, 0, straggler=w == 2)
        for w, (sent, got, share, flying, resent) in enumerate(_WORKERS)
    )  # fmt: skip
    switch = SwitchRow("10.0.1.1:9464", "1", True, None, 39300.0, 9820.0, 2.0, {"token": 4}, 0.0, {})
    ports = tuple(
        PortRow("10.0.1.1:9464", "1", str(1 + w), sent, got, _RATE, {"tx_dropped": 3} if w == 0 else {})
        for w, (sent, got, *_) in enumerate(_WORKERS)
    )
    return Picture(workers, (switch,), ports, {}, 5)


def svg() -> str:
    """The picture, without fonts from elsewhere."""
    console = Console(record=True, width=_SIZE[0], height=_SIZE[1], file=io.StringIO(), force_terminal=True)
    console.print(Screen(picture(), "14:02:11", _SIZE[1]))
    text = console.export_svg(title="sumwire top digits.json", theme=DIMMED_MONOKAI, unique_id="top")
    head, _, rest = text.partition("@font-face")
    _, _, rest = rest.rpartition("@font-face")
    return head + rest.partition("}")[2]


if __name__ == "__main__":
    TARGET.write_text(svg() + "\n")
