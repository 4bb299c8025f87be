# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The greeting: the first exchange of every job. Is the switch's state fresh, and do all workers mean the same job?

It consists of MAX32 chunks, so every element of the result is the maximum over the workers.

1. Nonces. Worker w puts a random number into element w and zeros elsewhere. If element w comes back different, part of
   the sum is of an earlier run with the same job generation. One chunk holds the nonces of 32 workers.
   Example: workers 0 and 1 send (71, 0, ...) and (0, 52, ...). The result must begin with (71, 52, 0, ...).
2. Settings, the last chunk. Every worker sends a digest of its settings and the digest's complement. Both maxima are
   equal to what all of them sent only if all digests are equal.
   Example: the digests 3 and 5 give the maximum 5. Their complements ~3 and ~5 give ~3, which is not ~5: they differ.

With a quorum below the number of workers, a worker may be left out of the greeting. Its nonce is then 0 in the result,
and it still compares its settings with those of the others.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sumwire.config import JobConfig
from sumwire.errors import OrderError, StaleRunError
from sumwire.job.elements import ELEMENT, ELEMENTS
from sumwire.wire.header import WORD_BYTES

_DIGEST_ELEMENTS: Final = 8


class Greeting:
    """One worker's greeting. ``settings``: JSON values that must be equal on all workers."""

    def __init__(self, config: JobConfig, settings: Mapping[str, object]) -> None:
        self._config = config
        self._nonce_chunks = -(-config.workers // ELEMENTS)
        self._nonce = 1 + secrets.randbelow(2**32 - 1)
        self._digest = _digest(config, settings)

    @property
    def chunks(self) -> int:
        """Chunks of the greeting."""
        return self._nonce_chunks + 1

    def payload(self) -> NDArray[np.uint8]:
        """uint8 (chunks, 1, 128): an element for each worker, then the digest and its complement."""
        elements = np.zeros((self._nonce_chunks + 1, ELEMENTS), ELEMENT)
        elements.reshape(-1)[self._config.worker] = self._nonce
        elements[-1, :_DIGEST_ELEMENTS] = self._digest
        elements[-1, _DIGEST_ELEMENTS : 2 * _DIGEST_ELEMENTS] = ~self._digest
        return elements.view(np.uint8).reshape(-1, 1, WORD_BYTES)

    def check(self, words: NDArray[np.uint8], contributors: NDArray[np.uint32] | None = None) -> None:
        """Check the result.

        ``words``: uint8, of the payload's shape. ``contributors``: uint32 (chunks,), bitmaps of the seats at this
        worker's switch; None if all workers are in it. Raises StaleRunError if the nonces are wrong, OrderError if the
        settings differ.
        """
        elements = words.reshape(-1, WORD_BYTES).view(ELEMENT)
        config = self._config
        nonces = elements[: self._nonce_chunks].reshape(-1)
        included = contributors is None or contributors[config.worker // ELEMENTS] >> config.seat & 1
        if nonces[config.worker] != (self._nonce if included else 0) or nonces[config.workers :].any():
            raise StaleRunError(
                f"job {config.job}: the switch answers with sums of an earlier run; renew the job's generation"
            )
        highest, lowest = elements[-1, :_DIGEST_ELEMENTS], ~elements[-1, _DIGEST_ELEMENTS : 2 * _DIGEST_ELEMENTS]
        if (highest != self._digest).any() or (lowest != self._digest).any():
            raise OrderError(f"job {config.job}: not all workers have the same job file and settings")


def _digest(config: JobConfig, settings: Mapping[str, object]) -> NDArray[np.uint32]:
    thc = config.thc
    common = {
        "job": config.job,
        "workers": config.workers,
        "quorum": config.quorum,
        "slots": config.slots,
        "thc": None if thc is None else [thc.bits, thc.p, list(thc.table)],
        "settings": dict(settings),
    }
    digest = hashlib.sha256(json.dumps(common, sort_keys=True).encode()).digest()
    return np.frombuffer(digest, ELEMENT, _DIGEST_ELEMENTS).astype(np.uint32)
