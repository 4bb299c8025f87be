# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The handshake of a run: how a worker finds the run's first round, and how the workers check each other there.

:mod:`sumwire.job.session` calls :func:`join` before the first operation. The greeting is a sequence of steps, each an
exchange of one chunk:

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

A job's slots hold what earlier runs left there. A run therefore picks rounds that no earlier run has used:

1. The worker asks the switch for slot 0 (HELLO). Slot 0 has the first chunk of every round, and no packet of a run is
   more than SPREAD_ROUNDS + 1 rounds from it.
2. Nobody has used it: the run begins in its round. It is open and this worker is not in: another worker has begun a run
   there, most likely this one; the worker joins it. Otherwise: at least ROUNDS_APART rounds later.
   Every run begins in a multiple of ROUNDS_APART. So the rounds of two greetings never overlap, and each worker can
   tell whether the round that slot 0 has reached is one of its own greeting's.
3. The workers greet each other there. Late packets of dead processes can spoil a
   greeting, but each worker finds out, and then tries ROUNDS_APART rounds later.
4. The workers bring the run's token to the switch, which from then on takes packets of this run alone.
5. The newest round wins. Whoever waits in a greeting and learns that slot 0 has a newer round joins that.

Example: run 1 of two workers was killed in round 57. Worker 0 asks, is told round 57, closed, and greets in round 80.
Worker 1 comes a minute later, is told round 80, open, with worker 0 in it, and joins.

Example: then worker 0 alone is killed while worker 1 is still greeting in round 80, and starts again. Slot 0 has a
packet of worker 0 already, so it greets in round 96. Worker 1 asks every half second, and joins round 96.

In a tree a worker sees only its own switch's slots. Of a newer run behind other switches it learns when its own packet
for slot 0 meets it at the switch above (STALE, which the own switch passes on). A worker that waits for long in a later
step therefore begins its greeting again: all had come to the first step, so one of them must have gone.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.events import Event
from sumwire_protocol.ops import JUMBO

from sumwire.codec.layout import VALUES, pack_index_planes, unpack_sum_planes
from sumwire.config import JobConfig
from sumwire.errors import DeadlineError, MismatchError, OrderError, StaleRunError, SwitchLostError
from sumwire.job.operations import ELEMENT, ELEMENTS, JumboPayload
from sumwire.transport.buffers import Results
from sumwire.transport.options import DeadlinePassedError, ExchangeOptions, TimeoutPolicy
from sumwire.transport.switch_answers import (
    APPLY_BOTH,
    ForgottenRunError,
    SwitchState,
    check_switch,
    silence,
    wrong_quorum,
)
from sumwire.transport.udp import Transport
from sumwire.transport.waiting import SILENT_PROBES
from sumwire.wire.packets import ROUNDS, WORD_BYTES, Place, place_of, round_newer

# The bucket of the first step; each further step has the next lower one, so that the switch never mixes two steps.
GREETING_BUCKET: Final = 0xFFFF
_DIGEST_ELEMENTS: Final = 8
_TOKEN_BYTES: Final = 8
_DIGEST_BYTES: Final = _DIGEST_ELEMENTS * ELEMENT.itemsize
# Flags of sums from which an experiment has left something out on purpose.
_DEGRADED: Final = p4.FLAG_MISSING | p4.FLAG_TRIMMED


class SpoiledError(Exception):
    """A step's sum contains a packet of a run that has ended, so the handshake must begin again in other rounds."""


class UnlikeError(Exception):
    """Not all workers have the same settings."""


class Greeting:
    """One worker's part in the handshake. ``settings``: JSON values that must be equal on all workers.

    ``groups``: the workers (numbers) that contribute to each chunk of a step. ``announces``: a chunk of zeros is sent
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
        """Begin again in other rounds, and forget the nonces seen so far."""
        self._nonces[:] = 0

    @staticmethod
    def announcement() -> NDArray[np.uint8]:
        """Return the chunk of zeros, uint8 (1, 1, 128)."""
        return np.zeros((1, 1, WORD_BYTES), np.uint8)

    def nonce(self, block: int) -> NDArray[np.uint8]:
        """Return this worker's chunk of nonces, uint8 (1, 1, 128)."""
        own_block, element = divmod(self._config.worker, ELEMENTS)
        elements = np.zeros(ELEMENTS, ELEMENT)
        if block == own_block:
            elements[element] = self._nonce
        return elements.view(np.uint8).reshape(1, 1, WORD_BYTES)

    def take_nonces(self, block: int, group: list[int], words: NDArray[np.uint8]) -> None:
        """Process the result of a nonces chunk, uint8 (1, 1, 128).

        Raises SpoiledError if a member of the group has no number in it, if this worker has a number other than its
        own, or if a worker outside the group has one.
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
        """Return the digests of this worker's settings and of the nonces: uint8 (1, 1, 128)."""
        seen = _digest(self._nonces.astype(ELEMENT).tobytes())
        both = np.concatenate([self._settings, ~self._settings, seen, ~seen]).astype(ELEMENT)
        return both.view(np.uint8).reshape(1, 1, WORD_BYTES)

    def check_digests(self, words: NDArray[np.uint8]) -> None:
        """Check the result of a digests chunk. Raises SpoiledError if the workers have not all seen the same nonces,
        UnlikeError if their settings differ."""
        own, highest = self.digests().reshape(4, _DIGEST_BYTES), words.reshape(4, _DIGEST_BYTES)
        if (own[2:] != highest[2:]).any():
            raise SpoiledError("the workers have not all seen the same nonces")
        if (own[:2] != highest[:2]).any():
            raise UnlikeError

    def token(self, first_round: int, generation: int) -> int:
        """Return the 64-bit token of the run that these workers began in ``first_round`` of the job's ``generation``.
        No other run has the same one."""
        seen = np.concatenate([self._nonces, self._settings, [first_round, generation]]).astype(ELEMENT).tobytes()
        token = int.from_bytes(hashlib.blake2b(seen, digest_size=_TOKEN_BYTES).digest())
        return token if token >= p4.TOKENS_OF_RUNS else token + p4.TOKENS_OF_RUNS

    @staticmethod
    def opening(chunks: int, generation: int) -> NDArray[np.uint8]:
        """Return the chunks that open a run, uint8 (chunks, 1, 128). Each begins with the job's generation."""
        elements = np.zeros((chunks, 1, ELEMENTS), ELEMENT)
        elements[:, :, 0] = generation
        return elements.view(np.uint8)

    def indices(self) -> NDArray[np.uint8]:
        """Return this worker's planes of known indices, uint8 (1, 4, 128)."""
        return pack_index_planes(_pattern(self._config, self._config.worker)[None])

    def check_table(self, results: Results) -> None:
        """Check the sums of all workers' known indices. Raises MismatchError that names the first wrong one."""
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
    """Return groups of ``quorum`` workers, in which each worker occurs."""
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


_LOG: Final = logging.getLogger("sumwire")
# From the newest round of earlier runs to a new run's first, at least. Every run's first is a multiple of it.
ROUNDS_APART: Final = 16
# A run is opened in so many slots: each of up to four roots of a tree has one of them.
_OPENING_CHUNKS: Final = 4
# How long a step after the first one may take in a tree: so long in the first greeting, twice as long in each that
# follows, up to the second. Workers that always began anew after 5 s would chase each other where packets come late.
_STUCK_S: Final = 5.0
_STUCK_MOST_S: Final = 20.0
# Greetings in a row that packets of dead processes have spoiled: more are something else.
_SPOILED_MOST: Final = 16
# Greetings that somebody on the way spoils for ever. Late workers are waited for within one.
_GREETINGS_MOST: Final = 200
# Settings that differ may be those of a dead process, so they are compared twice.
_UNLIKE_MOST: Final = 2


@dataclass(frozen=True)
class JoinedRun:
    """A run that a worker has joined: its first round, the number that each worker's process drew for it, and the job's
    generation at the switch."""

    first_round: int
    nonces: tuple[int, ...]
    generation: int = 0


def join(
    transport: Transport, config: JobConfig, settings: Mapping[str, object], *, timeout_policy: TimeoutPolicy
) -> JoinedRun:
    """Join the run of the other workers, or begin it, and greet them. The transport then continues in the run's rounds.

    ``settings``: JSON values that must be equal on all workers. An exchange under way is dropped. Raises MismatchError
    if the switch and the job file differ, OrderError if the workers' settings differ, and RefusedError. Also raises
    what ``timeout_policy`` raises: SwitchLostError, and DeadlineError with the missing workers.
    """
    return _Joining(transport, config, settings, timeout_policy).run()


def _place(config: JobConfig) -> dict[str, Any]:
    return {"job": config.job, "worker": config.worker, "name": config.name}


class _StuckError(Exception):
    """In a tree: a later step of the greeting takes so long that a worker must have gone."""


class _Joining:
    def __init__(
        self, transport: Transport, config: JobConfig, settings: Mapping[str, object], timeout_policy: TimeoutPolicy
    ) -> None:
        self._transport = transport
        self._config = config
        self._timeout_policy = timeout_policy
        self._greeting = Greeting(config, settings)
        # From the first round of a run to the first that its greeting does not reach.
        self._rounds = _rounds_of(self._greeting, config)
        self._first = 0
        self._generation = p4.TOKEN_NONE
        self._stuck_s = _STUCK_S
        self._step = 0
        self._place: Place = (0, 0)

    def run(self) -> JoinedRun:
        newest = self._transport.newest_round
        least = None if newest is None else _later(newest)
        spoiled = unlike = 0
        for _ in range(_GREETINGS_MOST):
            self._transport.restart()
            self._first = self._choose(least)
            self._transport.rebase(self._first)
            # A greeting names the generation, so that what it sends means nothing to a switch that has been renewed.
            self._transport.enter_run(self._generation)
            try:
                self._greet()
            except _StuckError:
                self._stuck_s = min(2 * self._stuck_s, _STUCK_MOST_S)
                least = self._next()
            except StaleRunError as error:
                spoiled = 0
                least = self._next() if error.slot or error.round is None else _first_from(error.round)
            except (SpoiledError, OrderError) as error:
                spoiled += 1
                if spoiled > _SPOILED_MOST:
                    raise StaleRunError(
                        f"job {self._config.job}: {spoiled} greetings in a row were spoiled by packets of other runs "
                        f"({error}); end the other processes of this job, apply the switches of a tree together, "
                        "then start all workers again"
                    ) from error
                least = self._next()
            except UnlikeError as error:
                unlike += 1
                if unlike == _UNLIKE_MOST:
                    raise OrderError(
                        f"job {self._config.job}: not all workers have the same job file and settings; give all "
                        "workers the same job file, and Job the same options"
                    ) from error
                least = self._next()
            else:
                return JoinedRun(self._first, self._greeting.nonces, self._generation)
            _LOG.debug(
                "job %s: greeting in round %d given up", self._config.name, self._first,
                extra=Event.GREETING_REPEATED(**_place(self._config), round=self._first),
            )  # fmt: skip
            # Workers that overtake each other's greetings never wait, and would not learn that one of them has gone.
            self._timeout_policy.waiting(0.0, None)
        raise StaleRunError(
            f"job {self._config.job}: {_GREETINGS_MOST} greetings were begun and none came to its end; see who else "
            "sends packets of this job or changes them on the way, then start all workers again"
        )

    def _next(self) -> int:
        return _later(self._first)

    def _choose(self, least: int | None) -> int:
        """The first round of the run. ``least``: the least that it can be, if known."""
        state = self._ask()
        self._generation = state.generation
        if least is not None and round_newer(least, state.round):
            return least
        # A quorum below the workers may close the first chunk without this one. Another call's chunk is refused.
        joins = not state.contributors >> self._config.seat & 1 and (self._greeting.announces or not state.closed)
        return _first_from(state.round) if joins else _later(state.round)

    def _ask(self) -> SwitchState:
        config, questions, waited_s = self._config, 0, 0.0
        hello_s = self._transport.silence_s / SILENT_PROBES
        while (state := self._transport.hello(hello_s)) is None:
            questions += 1
            waited_s += hello_s
            if questions % SILENT_PROBES == 0:
                text = silence(config, waited_s, questions, self._transport.link.last_failure)
                self._timeout_policy.switch_lost(SwitchLostError(text, job=config.job, waited_s=waited_s))
            self._waiting(waited_s, None)
        check_switch(config, state)
        return state

    def _greet(self) -> None:
        """Make all steps of the handshake. Raises StaleRunError, SpoiledError, OrderError and UnlikeError if they must
        be begun again."""
        greeting, everyone = self._greeting, list(range(self._config.workers))
        greeting.begin()
        self._step = 0
        if greeting.announces:
            self._exchange(p4.OP_MAX32, greeting.announcement(), everyone)
        for group in greeting.groups:
            for block in greeting.blocks:
                results = self._exchange(p4.OP_MAX32, greeting.nonce(block), group)
                greeting.take_nonces(block, group, results.words)
        for group in greeting.groups:
            greeting.check_digests(self._exchange(p4.OP_MAX32, greeting.digests(), group).words)
        if self._config.thc is not None:
            greeting.check_table(self._exchange(p4.OP_THC, greeting.indices(), everyone))
            if JUMBO.name in self._config.ops:
                self._check_long_packets(self._config.thc.table, everyone)
        self._open_run()

    def _check_long_packets(self, table: tuple[int, ...], everyone: list[int]) -> None:
        """So long packets pass, and the switch sums them."""
        form, words = JumboPayload(table), np.empty((1, JUMBO.up.words, WORD_BYTES), np.uint8)
        form.put(partial(np.copyto, src=self._greeting.indices()), words, form.chunks)
        results = self._exchange(p4.OP_JUMBO, words, everyone)
        for chunk in form.take(results.words):
            self._greeting.check_table(replace(results, words=chunk[None]))

    def _open_run(self) -> None:
        """Bring the run's token to the switch."""
        self._transport.enter_run(self._greeting.token(self._first, self._generation))
        payload = self._greeting.opening(min(_OPENING_CHUNKS, self._config.slots), self._generation)
        self._exchange(p4.OP_MAX32, payload, list(range(self._config.workers)), bucket=p4.BUCKET_OPENS_RUN)

    def _exchange(self, op: int, payload: NDArray[np.uint8], group: list[int], bucket: int | None = None) -> Results:
        """One step, to which the workers of ``group`` contribute."""
        config, step = self._config, self._step
        self._place = place_of(self._transport.next_sequence, config.slots)
        self._step += 1
        options = ExchangeOptions(
            waits_for_workers=True,
            timeout_policy=_Greeting(self, step),
            contribute=config.worker in group,
            next_run=(self._first + self._rounds) % ROUNDS,
        )
        bucket = GREETING_BUCKET - step if bucket is None else bucket
        results = self._transport.exchange(op, payload, bucket, options)
        count = int(results.counts[0])
        if count != min(len(group), config.quorum) and not results.flags[0] & p4.FLAG_MISSING:
            raise wrong_quorum(config, *self._place, count)
        return results

    def _waiting(self, waited_s: float, missing: Collection[int] | None, *, step: int = 0) -> None:
        config = self._config
        if step and waited_s >= self._stuck_s and len(config.seats) < config.workers:
            raise _StuckError
        try:
            self._timeout_policy.waiting(waited_s, missing)
        except DeadlinePassedError:
            slot, round_ = self._place
            error = DeadlineError(
                job=config.job,
                slot=slot,
                round_=round_,
                chunk=0,
                open_chunks=1,
                waited_s=waited_s,
                missing=missing,
                detail="while greeting",
                cure="start the missing workers, or give them more time: Job(config, join_s=SECONDS)",
            )
            raise error from None


def _later(round_: int) -> int:
    """The first round of a run that follows one which has reached ``round_``."""
    return (-(-round_ // ROUNDS_APART) + 1) * ROUNDS_APART % ROUNDS


def _first_from(round_: int) -> int:
    """The first round of a run that slot 0 has in ``round_``, or of one after it if no run begins there."""
    return _later(round_) if round_ % ROUNDS_APART else round_


def _rounds_of(greeting: Greeting, config: JobConfig) -> int:
    """How many rounds a greeting uses, and one more, since others may be a chunk ahead. Where a quorum closes chunks,
    others may be anywhere in the run: there only the rounds of later runs tell that one has begun."""
    if greeting.announces:
        return ROUNDS_APART
    tables = 1 + (JUMBO.name in config.ops)
    steps = len(greeting.groups) * (len(greeting.blocks) + 1) + tables
    return min(-(-(steps + _OPENING_CHUNKS) // config.slots) + 1, ROUNDS_APART)


class _Greeting:
    """How long one step waits: as long as the caller says. No FLUSH asks who is missing: others may wait longer."""

    def __init__(self, joining: _Joining, step: int) -> None:
        self._joining = joining
        self._step = step

    def waiting(self, waited_s: float, missing: Collection[int] | None) -> None:
        self._joining._waiting(waited_s, missing, step=self._step)

    def switch_lost(self, error: SwitchLostError) -> None:
        if isinstance(error, ForgottenRunError):
            # The switch was renewed in the midst of the greeting, or another run has been opened.
            raise SpoiledError(str(error))
        self._joining._timeout_policy.switch_lost(error)
