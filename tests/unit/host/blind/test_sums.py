# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of sums, of workers in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")

from numpy.typing import NDArray
from sumwire.blind.masks import Masks
from sumwire.blind.sums import PRIME, SumCheck
from sumwire.codec.errors import CodecError
from sumwire_protocol import constants as p4

WORKERS, CHUNKS, SEQUENCE = 3, 5, 77


def masks_of(worker: int) -> Masks:
    return Masks(worker, {}, common=b"c" * 32, tags=b"d" * 32, sums=b"e" * 32)


def checks(*, signed: bool, workers: int = WORKERS) -> list[SumCheck]:
    return [
        SumCheck(masks_of(worker), SEQUENCE, CHUNKS, worker=worker, workers=workers, signed=signed)
        for worker in range(workers)
    ]


def elements_of(*, signed: bool, workers: int = WORKERS) -> NDArray[np.int64]:
    """Of which no sum leaves its range, and some are at its ends: int64 (workers, chunks, 256)."""
    low, high = (-(2**31), 2**31 - 1) if signed else (0, 2**32 - 1)
    drawn = np.random.default_rng(1).integers(low // workers, high // workers, (workers, CHUNKS, 256))
    drawn[:, 0, 0], drawn[0, 0, 0] = 0, low
    drawn[:, 0, 1], drawn[1, 0, 1] = 0, high
    return drawn


def payload_of(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """With other bytes between the chunks, as headers are."""
    rows = np.full((len(numbers), 32 + 1024), 99, np.uint8)
    rows[:, 32:] = (numbers & 0xFFFFFFFF).astype(">u4").view(np.uint8).reshape(len(numbers), 1024)
    return rows[:, 32:].reshape(-1, 8, 128)


def told_by(all_checks: list[SumCheck], elements: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The sum of what all workers put behind their elements, which they send in two parts."""
    for check, own in zip(all_checks, elements, strict=True):
        check.send(0, payload_of(own[:2]))
        check.send(2, payload_of(own[2:]))
    told = [check.told().reshape(-1).view(">u4").astype(np.uint32) for check in all_checks]
    return np.sum(told, axis=0, dtype=np.uint32).astype(">u4").view(np.uint8).reshape(-1, 8, 128)


def finish(check: SumCheck, sums: NDArray[np.int64], told: NDArray[np.uint8], **changed: Any) -> None:
    check.take(0, payload_of(sums[:4]))
    check.take(4, payload_of(sums[4:]))
    heads = {name: np.zeros(CHUNKS + check.room, np.uint8) for name in ("flags", "cuts")}
    heads["counts"] = np.full(CHUNKS + check.room, WORKERS, np.uint8)
    for name, value in changed.items():
        heads[name][3] = value
    check.finish(told, **heads)


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("signed", [True, False])
def test_true_sums_pass_and_no_others(native: str, signed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMWIRE_NATIVE", native)
    elements = elements_of(signed=signed)
    sums = elements.sum(axis=0)
    told = told_by(checks(signed=signed), elements)
    for check in checks(signed=signed):
        finish(check, sums, told)
    swapped = sums.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    wrong = [swapped, sums[:, ::-1]]
    for chunk, element, bit in ((0, 0, 31), (0, 0, 0), (2, 255, 16), (4, 17, 31)):
        changed = sums.copy()
        changed[chunk, element] ^= 1 << bit
        wrong.append(changed)
    for changed in wrong:
        with pytest.raises(CodecError, match="not those of what the workers sent"):
            finish(checks(signed=signed)[0], changed, told)


@pytest.mark.parametrize(
    "changed", [{"counts": 2}, {"flags": p4.FLAG_MISSING}, {"flags": p4.FLAG_TRIMMED}, {"cuts": 1}], ids=str
)
def test_a_sum_that_is_said_to_lack_something(changed: dict[str, int]) -> None:
    elements = elements_of(signed=True)
    told = told_by(checks(signed=True), elements)
    with pytest.raises(CodecError, match="not to be of all workers"):
        finish(checks(signed=True)[0], elements.sum(axis=0), told, **changed)


def test_what_a_worker_tells_cannot_be_changed() -> None:
    elements = elements_of(signed=True)
    told = told_by(checks(signed=True), elements)
    told.reshape(-1)[3] ^= 1
    with pytest.raises(CodecError, match="numbers of worker 0: their tag does not fit them"):
        finish(checks(signed=True)[1], elements.sum(axis=0), told)


def test_the_kernel_has_the_sum_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python's integers."""
    elements = elements_of(signed=True)[0]
    factors, weights = (each.tolist() for each in masks_of(0).weights(SEQUENCE, CHUNKS))
    assert max(factors + weights) < 2**61
    expected = sum(
        element * factor * weight
        for row, weight in zip(elements.tolist(), weights, strict=True)
        for element, factor in zip(row, factors, strict=True)
    )
    for native in "10":
        monkeypatch.setenv("SUMWIRE_NATIVE", native)
        assert checks(signed=True)[0]._of(0, payload_of(elements)) % PRIME == expected % PRIME


def test_more_workers_than_one_chunk_has_places_for() -> None:
    elements = elements_of(signed=False, workers=60)
    told = told_by(checks(signed=False, workers=60), elements)
    assert len(told) == 2
