# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The first two chunks of every job: is the switch's state fresh, and do all workers mean the same job?

Both are MAX32 chunks (the first are more where there are more workers than lanes). In the first, worker w puts a
random number into lane w and nothing elsewhere: if lane w comes back different, some of the sum was made by an earlier
run under the same job generation. In the second every worker puts a digest of its settings and the digest's
complement: the maximum of both is what all of them sent only if they are all equal.

Where a quorum is enough, a worker may be left out of the greeting: its lane is then empty, and it compares its settings
with those of the others all the same.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.config import JobConfig
from sumwire.errors import OrderError, StaleRunError
from sumwire.wire.header import WORD_BYTES

LANES: Final = p4.WORD_BITS // p4.ELEMENT_BITS
_DIGEST_LANES: Final = 8
_LANE: Final = np.dtype(">u4")


class Greeting:
    """One worker's greeting; ``settings`` is whatever must be equal on all workers (JSON values)."""

    def __init__(self, config: JobConfig, settings: Mapping[str, object]) -> None:
        self._config = config
        self._nonce_chunks = -(-config.workers // LANES)
        self._nonce = 1 + secrets.randbelow(2**32 - 1)
        self._digest = _digest(config, settings)

    @property
    def chunks(self) -> int:
        """Chunks of the greeting."""
        return self._nonce_chunks + 1

    def payload(self) -> NDArray[np.uint8]:
        """uint8 (chunks, 1, 128): a lane for each worker, then the digest."""
        lanes = np.zeros((self._nonce_chunks + 1, LANES), _LANE)
        lanes.reshape(-1)[self._config.worker] = self._nonce
        lanes[-1, :_DIGEST_LANES] = self._digest
        lanes[-1, _DIGEST_LANES : 2 * _DIGEST_LANES] = ~self._digest
        return lanes.view(np.uint8).reshape(-1, 1, WORD_BYTES)

    def check(self, words: NDArray[np.uint8], contributors: NDArray[np.uint32] | None = None) -> None:
        """``words``: the result, of the payload's shape. ``contributors`` (chunks,): bitmaps of who is in it at the own
        switch; None for all. Raises StaleRunError or OrderError."""
        lanes = words.reshape(-1, WORD_BYTES).view(_LANE)
        config = self._config
        nonces = lanes[: self._nonce_chunks].reshape(-1)
        included = contributors is None or contributors[config.worker // LANES] >> config.seat & 1
        if nonces[config.worker] != (self._nonce if included else 0) or nonces[config.workers :].any():
            raise StaleRunError(
                f"job {config.job}: the switch answers with sums of an earlier run; renew the job's generation"
            )
        highest, lowest = lanes[-1, :_DIGEST_LANES], ~lanes[-1, _DIGEST_LANES : 2 * _DIGEST_LANES]
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
    return np.frombuffer(digest, _LANE, _DIGEST_LANES).astype(np.uint32)
