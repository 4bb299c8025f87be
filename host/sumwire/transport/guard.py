# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a blind job does to one exchange: it masks the payload, and checks the sums (docs/blind.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sumwire.codec.errors import CodecError
from sumwire.errors import TamperedError
from sumwire.transport.buffers import Results

if TYPE_CHECKING:
    from sumwire.blind.sums import SumCheck

# Masks payload, uint8 (chunks, up words, 128), of the chunks from a sequence number on, in place.
Hide = Callable[[int, NDArray[np.uint8]], None]


class Guard:
    """``chunks``: the caller's. ``check``: of the sums; its chunks are behind the caller's."""

    def __init__(self, chunks: int, hide: Hide, check: SumCheck | None, job: int) -> None:
        self.chunks = chunks
        self.room = 0 if check is None else check.room
        self._hide = hide
        self._check = check
        self._job = job
        self._taken = 0
        self._finished = check is None

    def mask(self, sequence: int, filled: int, upto: int, payload: NDArray[np.uint8]) -> int:
        """Mask the caller's chunks from ``filled`` to ``upto``, and behind its last one those of the check.

        ``payload``: of all chunks, of which chunk 0 has the number ``sequence``. Returns how many are now ready.
        """
        if filled >= upto:
            return filled
        if self._check is not None:
            self._check.send(filled, payload[filled:upto])
            if upto == self.chunks:
                payload[upto:] = self._check.told()
                upto += self.room
        self._hide(sequence + filled, payload[filled:upto])
        return upto

    def completed(self, done: int, results: Results) -> int:
        """How many of the caller's results can be used, of ``done`` from the first on: the last one when all are
        checked. Raises TamperedError."""
        if self._check is None or self._finished:
            return min(done, self.chunks)
        upto = min(done, self.chunks)
        if upto > self._taken:
            self._check.take(self._taken, results.words[self._taken : upto])
            self._taken = upto
        if done < self.chunks + self.room:
            return min(upto, self.chunks - 1)
        try:
            self._check.finish(results.words[self.chunks :], results.counts, results.flags, results.cuts)
        except CodecError as error:
            raise tampered(self._job, error) from error
        self._finished = True
        return self.chunks


def tampered(job: int, error: CodecError) -> TamperedError:
    """The error about what ``error`` says."""
    return TamperedError(
        f"job {job}: what the workers told each other through the switch was changed on the way: {error}; see who can "
        "write to the network or has the switch, then start all workers again"
    )
