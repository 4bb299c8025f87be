# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A whole run of the lab in a tree whose links lose packets, captured at both ends of every link.

It is long: `make verify-see` runs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.see import on_links, truth
from sumwire_lab.options.conditions import Conditions
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run import training_run

pytestmark = [pytest.mark.long, pytest.mark.mininet, pytest.mark.root, pytest.mark.tshark, pytest.mark.timeout(800)]

STEPS = int(os.environ.get("SUMWIRE_SEE_STEPS", "5"))
OPTIONS = RunOptions(
    workers=4, topology="leaf-spine", link=LinkOptions(100.0, 256), train=TrainOptions(hidden=300, max_steps=STEPS),
    systems=("thc",), switch="soft", conditions=Conditions(loss=0.01), deadline_s=600.0,
)  # fmt: skip


def test_a_whole_run_in_a_lossy_tree_of_mininet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, int], None]
) -> None:
    """Every field is the golden model's, nothing is malformed, and lost and resent chunks are all found."""
    links: list[tuple[str, str]] = []
    train = training_run.train

    def watched(session: Any, *arguments: Any, **options: Any) -> Any:
        names = [end.interface for end in session.network.limited_ends()]
        links.extend(zip(names[::2], names[1::2], strict=True))
        with on_links.captured(session.network, tmp_path):
            return train(session, *arguments, **options)

    monkeypatch.setattr(training_run, "train", watched)
    summary, _ = training_run.run(OPTIONS, tmp_path / "results", lambda _: None)
    thc = summary["systems"]["thc"]
    assert thc["replicas_equal"] and len(links) == 6

    capture = on_links.capture_of(links, tmp_path)
    lost_on_links = sum(not one.arrived for one in capture.crossings)
    assert 0.5 < lost_on_links / len(capture.crossings) / OPTIONS.conditions.loss < 2
    assert len(capture.in_order()) > 2000 * STEPS
    record_property("packets", len(capture.in_order()))
    record_property("lost on links", lost_on_links)
    resent = truth.check_seen(capture, tmp_path / "run.pcapng")
    # What the hosts count themselves.
    record_property("resent by hosts", thc["retransmissions"])
    # A HELLO without an answer is asked again, too, and counts as a question.
    by_hosts = sum(count for (end, key), count in resent.items() if "-eth" not in end and not truth.is_of_hello(key))
    assert by_hosts == thc["retransmissions"]
