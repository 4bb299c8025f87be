# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The barrier beside the network."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from sumwire_lab.errors import LabError, OptionError
from sumwire_lab.system.barrier import Attendance, Meeting


def test_nobody_goes_on_before_the_last_has_come(tmp_path: Path) -> None:
    """Every worker notes its round before it meets; after it, all notes of the round must be there."""
    rounds, workers = 50, 4
    notes: list[int] = []
    missing: list[tuple[int, int]] = []

    def work(path: Path) -> None:
        seat = Attendance(path)
        for k in range(rounds):
            notes.append(k)
            seat.meet()
            if notes.count(k) != workers:
                missing.append((k, notes.count(k)))
            seat.meet()
        seat.close()

    with Meeting(tmp_path / "m", workers) as meeting:
        threads = [threading.Thread(target=work, args=(meeting.path,)) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert not missing
    assert len(notes) == rounds * workers


def test_who_waits_is_told_that_another_has_left(tmp_path: Path) -> None:
    with Meeting(tmp_path / "m", 2) as meeting:
        stays, leaves = Attendance(meeting.path, 10), Attendance(meeting.path, 10)
        leaves.close()
        with pytest.raises(LabError, match="left"):
            stays.meet()
        stays.close()


def test_who_waits_too_long_is_told(tmp_path: Path) -> None:
    with Meeting(tmp_path / "m", 2) as meeting:
        alone = Attendance(meeting.path, 0.05)
        with pytest.raises(LabError, match=r"not all there after 0\.05 s"):
            alone.meet()
        alone.close()


def test_no_meeting_and_no_size(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="nowhere"):
        Attendance(tmp_path / "nowhere")
    with pytest.raises(OptionError, match="size=0"):
        Meeting(tmp_path / "m", 0)


def test_the_socket_goes_with_the_meeting(tmp_path: Path) -> None:
    with Meeting(tmp_path / "m", 1) as meeting:
        assert meeting.path.is_socket()
    assert not meeting.path.exists()
