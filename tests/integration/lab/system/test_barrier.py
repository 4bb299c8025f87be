# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The barrier beside the network."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from sumwire_lab.errors import LabError, OptionError
from sumwire_lab.system.barrier import Barrier, Participant


def test_nobody_goes_on_before_the_last_has_come(tmp_path: Path) -> None:
    """Every worker notes its round before it meets; after it, all notes of the round must be there."""
    rounds, workers = 50, 4
    notes: list[int] = []
    missing: list[tuple[int, int]] = []

    def work(path: Path) -> None:
        seat = Participant(path)
        for k in range(rounds):
            notes.append(k)
            seat.wait()
            if notes.count(k) != workers:
                missing.append((k, notes.count(k)))
            seat.wait()
        seat.close()

    with Barrier(tmp_path / "m", workers) as barrier:
        threads = [threading.Thread(target=work, args=(barrier.path,)) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert not missing
    assert len(notes) == rounds * workers


def test_who_waits_is_told_that_another_has_left(tmp_path: Path) -> None:
    with Barrier(tmp_path / "m", 2) as barrier:
        stays, leaves = Participant(barrier.path, 10), Participant(barrier.path, 10)
        leaves.close()
        with pytest.raises(LabError, match="left"):
            stays.wait()
        stays.close()


def test_who_waits_too_long_is_told(tmp_path: Path) -> None:
    with Barrier(tmp_path / "m", 2) as barrier:
        alone = Participant(barrier.path, 0.05)
        with pytest.raises(LabError, match=r"not all there after 0\.05 s"):
            alone.wait()
        alone.close()


def test_no_barrier_and_no_size(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="nowhere"):
        Participant(tmp_path / "nowhere")
    with pytest.raises(OptionError, match="size=0"):
        Barrier(tmp_path / "m", 0)


def test_the_socket_goes_with_the_barrier(tmp_path: Path) -> None:
    with Barrier(tmp_path / "m", 1) as barrier:
        assert barrier.path.is_socket()
    assert not barrier.path.exists()
