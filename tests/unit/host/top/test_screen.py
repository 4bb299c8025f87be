# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The screen at the sizes of terminals."""

from __future__ import annotations

import io
import runpy
from dataclasses import replace

import pytest
from helpers.paths import ROOT
from rich.console import Console
from sumwire.top.picture import Picture, PortRow, SwitchRow, WorkerRow
from sumwire.top.screen import Screen

WORKER = WorkerRow("10.0.0.1:9464", "7", "digits", 0, 1.1e6, 2.2e6, 12.5e6, 3.0, 0.95, 17, 1.5, 42, 0, 3, False, 0)
SWITCH = SwitchRow(
    "10.0.0.9:9464", "s1", True, None, 5213.0, 1303.0, 2.0, {"token": 4}, 0.5, {"drop tagged class 3": 12}
)
PORT = PortRow("10.0.0.9:9464", "s1", "1", 1.1e6, 2.2e6, 12.5e6, {})
SILENT = {"10.0.0.8:9464": "Connection refused"}


def of(workers: int, *, troubled: int | None = None) -> Picture:
    rows = tuple(replace(WORKER, worker=w, straggler=w == troubled) for w in range(workers))
    ports = tuple(replace(PORT, port=str(p)) for p in range(workers))
    return Picture(rows, (SWITCH,), ports, SILENT, workers + 2)


def drawn(picture: Picture, width: int, height: int | None) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height or 100, color_system=None, force_terminal=True)
    console.print(Screen(picture, "12:00:00", height))
    lines = out.getvalue().splitlines()
    assert all(len(line.rstrip()) <= width for line in lines)
    return [line.rstrip() for line in lines]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60)])
def test_four_workers_fit_whole(width: int, height: int) -> None:
    lines = drawn(of(4), width, height)
    assert len(lines) <= height - 1
    text = "\n".join(lines)
    assert "…" not in text and "more" not in text
    assert "sumwire top  12:00:00  5 of 6 endpoints  job 7 digits: 4 workers" in lines[0]
    assert text.count("8.8Mb") == 8 and text.count("17.6Mb") == 8
    # 1.1 of 12.5 MB/s.
    assert text.count(" 9%") == 8
    for word in ("5.2k", "1.3k", "refused: token", "queue: drop tagged class 3", "Connection refused", "95%"):
        assert word in text, word
    assert ("10.0.0.1:9464" in text) == (width == 200)


def test_what_has_no_room_is_counted_and_trouble_goes_first() -> None:
    lines = drawn(of(32, troubled=30), 80, 24)
    assert len(lines) == 23
    text = "\n".join(lines)
    assert "straggler" in text
    shown = sum(line.endswith((" ok", " straggler")) and "Mb" in line for line in lines)
    assert f"... and {32 - shown} more workers" in text
    assert "refused: token" in text and "Connection refused" in text


def test_the_picture_of_the_page_is_current() -> None:
    drawing = runpy.run_path(str(ROOT / "dashboards" / "top_picture.py"))["svg"]()
    assert (ROOT / "docs" / "images" / "top.svg").read_text() == drawing + "\n", "python dashboards/top_picture.py"
    # Nothing is fetched from elsewhere.
    assert "url(" not in drawing.replace("url(#", "")


def test_once_shows_everything() -> None:
    lines = drawn(of(32), 80, None)
    assert sum("Mb" in line for line in lines) == 64


def test_states_are_words_not_only_colours() -> None:
    down = replace(SWITCH, up=False)
    other = replace(SWITCH, switch="s2", in_sync=False)
    picture = Picture((replace(WORKER, fallen_back=True),), (down, other), (), {}, 3)
    text = "\n".join(drawn(picture, 80, 24))
    assert "waiting" in "\n".join(drawn(Picture((replace(WORKER, waiting=True),), (), (), {}, 1), 80, 24))
    assert "fall-back" in text and "does not answer" in text and "out of sync" in text
