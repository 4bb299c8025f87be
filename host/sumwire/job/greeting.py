# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What workers tell each other before the first operation of a run, and how each checks what it is told.

The greeting is a row of steps, each an exchange of one chunk (:mod:`sumwire.job.joining` carries them out).

1. Nonces (MAX32). Worker w puts a random number into element w and zeros elsewhere; one chunk has room for 32 workers.
   The result must have this worker's number in its place. If not, it contains a packet of a run that has ended.
   Example: workers 0 and 1 send (71, 0, ...) and (0, 52, ...). The result must begin with (71, 52, 0, ...).
2. Digests (MAX32). Every worker sends a digest of its settings and a digest of all nonces, each with its complement.
   Both maxima are equal to what this worker sent only if all digests are equal. So all workers have the same settings,
   and have seen the same nonces, and each of them has found its own: it is these processes that make this run.
   Example: the digests 3 and 5 give the maximum 5. Their complements ~3 and ~5 give ~3, which is not ~5: they differ.
3. Table (THC, if the job has it). Every worker sends known indices. The sums must be what the job file's table gives.

A chunk of a job with a quorum below the workers closes without the others. There steps 1 and 2 are repeated for groups
of as many workers as close a chunk, and only the group contributes. Before them all workers send a chunk of zeros,
whose result does not matter: it only shows where the run begins. Example: 5 workers, quorum 2: groups (0, 1), (2, 3),
(3, 4).
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

from sumwire.codec.layout import VALUES, pack_index_planes, unpack_sum_planes
from sumwire.config import JobConfig
from sumwire.errors import MismatchError
from sumwire.job.elements import ELEMENT, ELEMENTS
from sumwire.transport.buffers import Results
from sumwire.transport.switch_answers import APPLY_BOTH
from sumwire.wire.packets import WORD_BYTES

# The bucket of the first step; each further step has the next lower one, so that the switch never mixes two steps.
GREETING_BUCKET: Final = 0xFFFF
_DIGEST_ELEMENTS: Final = 8
_TOKEN_BYTES: Final = 8
_DIGEST_BYTES: Final = _DIGEST_ELEMENTS * ELEMENT.itemsize
# Flags of sums from which an experiment has left something out on purpose.
_DEGRADED: Final = p4.FLAG_MISSING | p4.FLAG_TRIMMED


class SpoiledError(Exception):
    """A step's sum has a packet of a run that has ended: the greeting must begin again, in other rounds."""


class UnlikeError(Exception):
    """Not all workers have the same settings."""


class Greeting:
    """One worker's greeting. ``settings``: JSON values that must be equal on all workers.

    ``groups``: the workers (numbers) that contribute to each chunk of a step. ``announces``: a chunk of zeros comes
    first.
    """

    def __init__(self, config: JobConfig, settings: Mapping[str, object]) -> None:
        self.groups = _groups(config.workers, config.quorum)
        self.announces = config.quorum < config.workers
        self._config = config
        self._nonce = 1 + secrets.randbelow(2**32 - 1)
        self._nonces = np.zeros(config.workers, np.uint32)
        self._settings = _settings_digest(config, settings)

    @property
    def blocks(self) -> range:
        """The numbers of the chunks that hold the nonces of a group."""
        return range(-(-self._config.workers // ELEMENTS))

    @property
    def nonces(self) -> tuple[int, ...]:
        """The workers' nonces, as far as they are known."""
        return tuple(self._nonces.tolist())

    def begin(self) -> None:
        """Forget what was seen in other rounds."""
        self._nonces[:] = 0

    @staticmethod
    def announcement() -> NDArray[np.uint8]:
        """The chunk of zeros, uint8 (1, 1, 128)."""
        return np.zeros((1, 1, WORD_BYTES), np.uint8)

    def nonce(self, block: int) -> NDArray[np.uint8]:
        """This worker's nonces chunk: uint8 (1, 1, 128)."""
        own_block, element = divmod(self._config.worker, ELEMENTS)
        elements = np.zeros(ELEMENTS, ELEMENT)
        if block == own_block:
            elements[element] = self._nonce
        return elements.view(np.uint8).reshape(1, 1, WORD_BYTES)

    def take_nonces(self, block: int, group: list[int], words: NDArray[np.uint8]) -> None:
        """Take in the result of a nonces chunk, uint8 (1, 1, 128).

        Raises SpoiledError if one of the group has no number in it, or this worker another one than its own, or
        somebody else has.
        """
        elements = words.reshape(-1).view(ELEMENT).astype(np.uint32)
        first = block * ELEMENTS
        here = [worker - first for worker in group if first <= worker < first + ELEMENTS]
        own = self._config.worker - first
        others = np.delete(elements, here)
        if others.any() or not elements[here].all() or (own in here and elements[own] != self._nonce):
            raise SpoiledError("the nonces are not those of this run's workers")
        for element in here:
            self._nonces[first + element] = elements[element]

    def digests(self) -> NDArray[np.uint8]:
        """This worker's digests, of its settings and of the nonces: uint8 (1, 1, 128)."""
        seen = _digest(self._nonces.astype(ELEMENT).tobytes())
        both = np.concatenate([self._settings, ~self._settings, seen, ~seen]).astype(ELEMENT)
        return both.view(np.uint8).reshape(1, 1, WORD_BYTES)

    def check_digests(self, words: NDArray[np.uint8]) -> None:
        """Check the result of a digests chunk. Raises SpoiledError if not all have seen the same nonces, UnlikeError if
        the settings differ."""
        own, highest = self.digests().reshape(4, _DIGEST_BYTES), words.reshape(4, _DIGEST_BYTES)
        if (own[2:] != highest[2:]).any():
            raise SpoiledError("the workers have not all seen the same nonces")
        if (own[:2] != highest[:2]).any():
            raise UnlikeError

    def token(self, first_round: int, generation: int) -> int:
        """The token of the run that these workers have begun in ``first_round`` of the job's ``generation``: 64 bits
        that no other run has."""
        seen = np.concatenate([self._nonces, self._settings, [first_round, generation]]).astype(ELEMENT).tobytes()
        token = int.from_bytes(hashlib.blake2b(seen, digest_size=_TOKEN_BYTES).digest())
        return token if token >= p4.TOKENS_OF_RUNS else token + p4.TOKENS_OF_RUNS

    @staticmethod
    def opening(chunks: int, generation: int) -> NDArray[np.uint8]:
        """The chunks that open a run, uint8 (chunks, 1, 128): each begins with the job's generation."""
        elements = np.zeros((chunks, 1, ELEMENTS), ELEMENT)
        elements[:, :, 0] = generation
        return elements.view(np.uint8)

    def indices(self) -> NDArray[np.uint8]:
        """This worker's planes of known indices: uint8 (1, 4, 128)."""
        return pack_index_planes(_pattern(self._config, self._config.worker)[None])

    def check_table(self, results: Results) -> None:
        """Check the sums of all workers' known indices. Raises MismatchError naming the first wrong one."""
        config = self._config
        if results.flags[0] & _DEGRADED or results.cuts[0]:
            return
        inside = list(range(config.workers))
        if results.counts[0] < config.workers:
            seats = int(results.contributors[0])
            inside = [worker for seat, worker in config.seats.items() if seats >> seat & 1]
        assert config.thc is not None
        table = np.array(config.thc.table, np.int64)
        patterns = [_pattern(config, worker) for worker in inside]
        right = np.sum([table[pattern] for pattern in patterns], axis=0)
        sums = unpack_sum_planes(results.words)[0].astype(np.int64)
        wrong = np.flatnonzero(sums != right)
        if len(wrong):
            at = int(wrong[0])
            raise MismatchError(
                f"job {config.job}: the table at the switch {config.aggregator} is not the job file's: value {at}, "
                f"indices {[int(pattern[at]) for pattern in patterns]}: the sum is {sums[at]}, by the job file "
                f"{right[at]}; {APPLY_BOTH}"
            )


def _groups(workers: int, quorum: int) -> list[list[int]]:
    """Groups of ``quorum`` workers that have all of them."""
    firsts = [min(first, workers - quorum) for first in range(0, workers, quorum)]
    return [list(range(first, first + quorum)) for first in firsts]


def _pattern(config: JobConfig, worker: int) -> NDArray[np.uint8]:
    """The known indices of a worker, uint8 (1024,): every index occurs, and together with every other one."""
    assert config.thc is not None
    values = np.arange(VALUES)
    steps = values + worker * (values // len(config.thc.table) + 1)
    return (steps % len(config.thc.table)).astype(np.uint8)


def _digest(data: bytes) -> NDArray[np.uint32]:
    return np.frombuffer(hashlib.sha256(data).digest(), ELEMENT, _DIGEST_ELEMENTS).astype(np.uint32)


def _settings_digest(config: JobConfig, settings: Mapping[str, object]) -> NDArray[np.uint32]:
    thc = config.thc
    common = {
        "job": config.job,
        "workers": config.workers,
        "quorum": config.quorum,
        "slots": config.slots,
        "thc": None if thc is None else [thc.bits, thc.p, list(thc.table)],
        "settings": dict(settings),
    }
    return _digest(json.dumps(common, sort_keys=True).encode())
