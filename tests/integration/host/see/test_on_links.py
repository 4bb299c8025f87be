# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What was lost on links is found again from captures at their ends: on a simulated run, which knows it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from helpers.see import on_links, pcaps
from simulate.capture import Crossing, lossy_tree, play_captured

pytestmark = pytest.mark.long


def interface(end: str) -> str:
    """As the lab would call the end."""
    return end.replace("-eth", "-p") if "-eth" in end else f"sw1234-{end}"


def known(crossing: Crossing) -> tuple[str, str, bytes, int]:
    names = (interface(end).removesuffix("-eth") for end in (crossing.source, crossing.target))
    return (*names, crossing.frame, min(crossing.arrived, 1))


def test_losses_of_a_run_from_its_captures(tmp_path: Path) -> None:
    capture, _ = play_captured(lossy_tree(3, 1024 * 20, drop=0.05))
    links = sorted({tuple(sorted((one.source, one.target))) for one in capture.crossings})
    for end in {end for link in links for end in link}:
        frames = [(one.at_s, one.frame) for one in capture.in_order() if one.end == end]
        (tmp_path / f"{interface(end)}.pcap").write_bytes(pcaps.pcap(frames))
    found = on_links.capture_of([(interface(one), interface(other)) for one, other in links], tmp_path)
    assert len(found.seen) == len(capture.seen)
    wanted = Counter(known(one) for one in capture.crossings)
    assert sum(count for (*_, arrived), count in wanted.items() if not arrived) > 10
    told = Counter(
        (one.source.removesuffix("-eth"), one.target.removesuffix("-eth"), one.frame, min(one.arrived, 1))
        for one in found.crossings
    )
    assert told == wanted
