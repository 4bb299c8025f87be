# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The golden model's SipHash against the published vectors, and derived keys against the golden model."""

from __future__ import annotations

import pytest
from golden.tags import blocks, siphash
from sumwire_protocol.authentication import tag_keys

KEY = bytes(range(16))
# Aumasson and Bernstein's vectors of SipHash-2-4 (vectors.h of their reference code): messages of bytes 00, 01, 02 ...
VECTORS = {
    0: "310e0edd47db6f72",
    1: "fd67dc93c539f874",
    2: "5a4fa9d909806c0d",
    3: "2d7efbd796666785",
    7: "37d1018bf50002ab",
    8: "6224939a79f5f593",
    # Appendix A of the paper: a129ca6149be45e5.
    15: "e545be4961ca29a1",
}


@pytest.mark.parametrize("length", VECTORS)
def test_the_golden_siphash_gives_the_published_vectors(length: int) -> None:
    assert siphash(KEY, bytes(range(length))).to_bytes(8, "little").hex() == VECTORS[length]


@pytest.mark.parametrize("job", [0, 1, 0xFFFF])
def test_derived_keys_are_the_golden_model_s(job: int) -> None:
    key = bytes(range(32))
    keys = tag_keys(key, job)
    assert b"".join(word.to_bytes(128, "big") for word in keys.words) == blocks(key, job, 0, 16)
    low, high = (number.to_bytes(8, "little") for number in keys.sip)
    assert low + high == blocks(key, job, 16, 1)[:16]
    low, high = (number.to_bytes(8, "little") for number in keys.recovery)
    assert low + high == blocks(key, job, 17, 1)[:16]


def test_every_job_has_keys_of_its_own_and_no_text_shows_them() -> None:
    one, other = tag_keys(bytes(32), 1), tag_keys(bytes(32), 2)
    numbers = {*one.words, *other.words, *one.sip, *other.sip, *one.recovery, *other.recovery}
    assert len(numbers) == 24
    assert not any(str(number) in repr(one) for number in numbers)


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="31 bytes: must have 32"):
        tag_keys(bytes(31), 1)
