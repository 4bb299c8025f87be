# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Keys and masks of workers in one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray
from sumwire.blind.keys import Keys
from sumwire.blind.masks import CHUNK_BYTES, KeyStream, Masks, Places
from sumwire.codec.errors import CodecError
from sumwire.errors import MaskReuseError, PeerLostError

WORKERS = 3
NONCES = (71, 52, 9)


def agreed(
    change: Callable[[int, bytes], bytes] = lambda _, own: own, known: Sequence[bytes | None] = (None,) * WORKERS
) -> list[Any]:
    """What the workers have after agreeing, each in a thread: keys, or an error. ``change``: of what a worker says."""
    barrier, said = threading.Barrier(WORKERS), [b""] * WORKERS
    outcomes: list[Any] = [None] * WORKERS

    def work(worker: int) -> None:
        def gather(own: bytes) -> list[bytes]:
            said[worker] = change(worker, own)
            barrier.wait(60)
            everyone = list(said)
            barrier.wait(60)
            return everyone

        try:
            outcomes[worker] = Keys.agree("7 test", worker, gather, known[worker])
        except PeerLostError as error:
            outcomes[worker] = error

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return outcomes


def masks_of(keys: list[Keys], first_round: int = 16) -> list[Masks]:
    return [key.for_run(first_round, NONCES) for key in keys]


def drawn(chunks: int, seed: int) -> NDArray[np.uint8]:
    """Payload with other bytes between its chunks, as headers are."""
    rows = np.random.default_rng(seed).integers(0, 256, (chunks, 24 + CHUNK_BYTES), np.uint8)
    return rows[:, 24:].reshape(chunks, 8, 128)


def total(payloads: list[NDArray[np.uint8]]) -> NDArray[np.uint32]:
    return np.sum([payload.view(">u4").astype(np.uint32) for payload in payloads], axis=0, dtype=np.uint32)


@pytest.fixture(scope="module")
def keys() -> list[Keys]:
    return agreed()


@pytest.mark.parametrize("native", ["1", "0"])
def test_masks_cancel_in_the_sum_of_all_and_in_no_other(
    keys: list[Keys], native: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUMWIRE_NATIVE", native)
    plain = [drawn(150, worker) for worker in range(WORKERS)]
    hidden = [payload.copy() for payload in plain]
    for worker, masks in enumerate(masks_of(keys, 100 + int(native))):
        masks.hide(1000, hidden[worker][:70])
        masks.hide(1070, hidden[worker][70:])
    assert np.array_equal(total(hidden), total(plain))
    for others in ([0, 1], [1, 2], [0, 2], [0], [1], [2]):
        differ = total([hidden[worker] for worker in others]) != total([plain[worker] for worker in others])
        assert differ.mean() > 0.999


def test_native_and_numpy_masks_are_equal(keys: list[Keys], monkeypatch: pytest.MonkeyPatch) -> None:
    both = []
    for number, native in enumerate("10"):
        monkeypatch.setenv("SUMWIRE_NATIVE", native)
        payload = drawn(5, 1)
        copy = Masks(1, {0: b"a" * 32, 2: b"b" * 32}, common=b"c" * 32, tags=b"d" * 32, sums=b"e" * 32)
        copy.hide(3, payload)
        both.append(payload.copy())
        assert number == 0 or np.array_equal(*both)


def test_a_stream_is_aes_in_counter_mode_wherever_it_is_entered() -> None:
    stream, key = KeyStream(b"k" * 32), b"k" * 32
    whole = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update(bytes(20 * CHUNK_BYTES))
    for first, count in ((0, 3), (3, 2), (10, 7), (5, 1)):
        assert stream.chunks(first, count).tobytes() == whole[first * CHUNK_BYTES :][: count * CHUNK_BYTES]


def test_a_place_is_used_once(keys: list[Keys]) -> None:
    [masks, *_] = masks_of(keys, 200)
    masks.hide(10, drawn(5, 0))
    for again in (10, 14, 3):
        payload = drawn(1, 0)
        with pytest.raises(MaskReuseError, match="start all workers again"):
            masks.hide(again, payload)
        assert np.array_equal(payload, drawn(1, 0)), "nothing is masked, or half masked"
    masks.hide(15, drawn(1, 0))


def test_every_run_and_every_job_has_masks_of_its_own(keys: list[Keys]) -> None:
    def first(masks: Masks) -> bytes:
        payload = np.zeros((1, 8, 128), np.uint8)
        masks.hide(0, payload)
        return payload.tobytes() + masks.places(0, 1).tobytes() + masks.tag(b"x")

    [key, *_] = keys
    seen = {first(key.for_run(32, NONCES)), first(key.for_run(48, NONCES)), first(key.for_run(32, (72, 52, 9)))}
    seen.add(first(agreed()[0].for_run(32, NONCES)))
    assert len(seen) == 4
    with pytest.raises(MaskReuseError, match="numbers of an earlier one"):
        key.for_run(32, NONCES)


def test_keys_that_were_changed_on_the_way_are_noticed() -> None:
    outcomes = agreed(lambda worker, own: bytes([own[0] ^ 1]) + own[1:] if worker == 1 and any(own) else own)
    assert isinstance(outcomes[1], PeerLostError)
    assert "keys do not fit together" in str(outcomes[1])


def test_who_lacks_the_workers_own_secret_takes_no_part() -> None:
    assert all(isinstance(keys, Keys) for keys in agreed(known=[b"secret"] * WORKERS))
    for known in (None, b"guessed"):
        assert isinstance(agreed(known=[b"secret", b"secret", known])[2], PeerLostError)


def test_places_tell_all_numbers_to_all(keys: list[Keys]) -> None:
    numbers = np.random.default_rng(3).integers(0, 1 << 32, (WORKERS, 300), np.uint32)
    everyone = [
        Places(masks, 40, 300, worker=worker, workers=WORKERS) for worker, masks in enumerate(masks_of(keys, 300))
    ]
    words = [places.pack(own) for places, own in zip(everyone, numbers, strict=True)]
    assert words[0].shape == (4, 8, 128)
    sums = total(words).astype(">u4").view(np.uint8).reshape(4, 8, 128)
    for places in everyone:
        assert np.array_equal(places.unpack(sums), numbers)
    own = words[1].reshape(-1).view(">u4")[304:604]
    assert not np.array_equal(own, numbers[1]), "hidden"
    sums[-1, -1, -1] = 1
    with pytest.raises(CodecError, match="belongs to no worker"):
        everyone[0].unpack(sums)
    sums[-1, -1, -1] = 0
    for element in range(WORKERS * 304):
        for bit in (0, 20, 31):
            changed = sums.copy()
            changed.reshape(-1).view(">u4")[element] ^= 1 << bit
            with pytest.raises(CodecError, match=f"numbers of worker {element // 304}: their tag does not fit them"):
                everyone[1].unpack(changed)
