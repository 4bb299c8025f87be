# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Workers that give each other results the switch no longer has."""

from __future__ import annotations

import random
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from golden import model
from helpers.transport.udp_bridge import JOB, configs, job_mapping
from helpers.waiting import until
from sumwire.config import JobConfig
from sumwire.errors import ConfigError
from sumwire.transport.kept_results import USUAL_BYTES, KeptResults
from sumwire.transport.recovery import FIRST_TIMEOUT_S, LONGEST_TIMEOUT_S, MOST_ASKED, CatchUp, Recovery
from sumwire.transport.recovery_service import ANSWERS_AT_ONCE, ANSWERS_PER_S, NO_NONCE, NONCES_AT_ONCE, recovery_port
from sumwire.wire.packets import HEADER_BYTES

SLOTS = 8
PROBE = 4
PORT = model.UDP_PORT + 1000
KEY = bytes(range(50, 82))


def result(
    sequence: int, worker: int, op: int = model.THC, contributors: int = 0b011, flags: int = 0x40
) -> model.Packet:
    words = model.WORDS_DOWN[op]
    payload = random.Random(sequence).randbytes(words * model.WORD)
    place = sequence % SLOTS, worker, 2, sequence // SLOTS
    return model.Packet(model.RESULT, op, JOB, *place, contributors, flags, words, 3, 17, payload)


def keep(kept: KeptResults, packets: dict[int, model.Packet]) -> None:
    for sequence, packet in packets.items():
        data = packet.encode()
        row = np.zeros((1, HEADER_BYTES + USUAL_BYTES), np.uint8)
        row[0, : len(data)] = np.frombuffer(data, np.uint8)
        kept.put(np.array([sequence]), row, np.array([len(data)]))


class Group:
    """A recovery for each worker of a job, without a switch. ``keys``: of workers with a key."""

    def __init__(
        self, stack: ExitStack, mapping: dict[str, Any], absent: tuple[int, ...], keys: Sequence[bytes | None]
    ) -> None:
        self.configs = configs(mapping)
        for number, key in enumerate(keys):
            self.configs[number] = replace(self.configs[number], key=key)
        self.kept = [KeptResults(SLOTS, least=512) for _ in self.configs]
        self.workers: dict[int, Recovery] = {}
        for number, (config, kept) in enumerate(zip(self.configs, self.kept, strict=True)):
            if number not in absent:
                self.workers[number] = Recovery(config, kept)
                stack.callback(self.workers[number].close)
        self._stack = stack

    def udp(self) -> socket.socket:
        return self._stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))

    def has(self, worker: int, sequences: list[int], op: int = model.THC) -> None:
        """The worker keeps results as the switch sent them to it."""
        keep(self.kept[worker], {k: result(k, worker, op) for k in sequences})


@contextmanager
def group(
    workers: int = 3, absent: tuple[int, ...] = (), leaves: int = 1, keys: Sequence[bytes | None] = ()
) -> Iterator[Group]:
    mapping = job_mapping(workers, SLOTS)
    for entry in mapping["addresses"]:
        leaf, seat = entry["worker"] % leaves, entry["worker"] // leaves
        entry.update(aggregator=entry["aggregator"].replace(".250", f".{250 + leaf}"), seat=seat)
    with ExitStack() as stack:
        yield Group(stack, mapping, absent, keys)


def collect(recovery: Recovery, sequences: list[int], op: int = model.THC, patience_s: float = 5.0) -> dict[int, bytes]:
    """Ask, and wait for all; or for as long as the time-out policy lasts."""
    got: dict[int, bytes] = {}
    recovery.ask(sequences, op)
    poll = select.poll()
    poll.register(recovery.fileno(), select.POLLIN)
    until = time.monotonic() + patience_s
    while recovery.missing and (now := time.monotonic()) < until:
        recovery.send(now)
        poll.poll(max(0.0, min(recovery.wake_at(), until) - now) * 1000)
        numbers, rows, sizes = recovery.answers()
        for sequence, row, size in zip(numbers.tolist(), rows, sizes.tolist(), strict=True):
            assert sequence not in got, f"{sequence} is given twice"
            got[sequence] = row[:size].tobytes()
    return got


MANY = tuple(range(5 * MOST_ASKED))


@pytest.mark.parametrize(
    ("absent", "peer", "asker", "numbers"),
    [((), 1, 0, (3, 100, 4)), ((), 0, 2, MANY), ((1,), 2, 0, MANY[:MOST_ASKED])],
    ids=["some", "more than are asked for at a time", "a dead peer costs its time only"],
)
def test_a_peer_gives_what_the_switch_would_have_sent_to_the_asker(
    absent: tuple[int, ...], peer: int, asker: int, numbers: tuple[int, ...]
) -> None:
    with group(absent=absent) as g:
        g.has(peer, list(numbers))
        assert collect(g.workers[asker], list(numbers)) == {k: result(k, asker).encode() for k in numbers}
        assert g.workers[asker].counters.recovered == len(numbers)
        assert g.workers[peer].service.counters.answered >= len(numbers)


def test_a_peer_does_not_tell_of_its_own_queues() -> None:
    """CE may be of the way to the peer, and the asker's window follows its own way."""
    with group() as g:
        keep(g.kept[1], {3: result(3, 1, flags=0x40 | model.CE), 4: result(4, 1)})
        assert collect(g.workers[0], [3, 4]) == {k: result(k, 0).encode() for k in (3, 4)}


@pytest.mark.parametrize("op", model.SHORT_OPS)
def test_results_of_every_op(op: int) -> None:
    with group() as g:
        g.has(2, [9], op)
        assert collect(g.workers[1], [9], op) == {9: result(9, 1, op).encode()}


@pytest.mark.parametrize("other", [KEY, bytes(32), None], ids=["same key", "another key", "no key"])
def test_only_who_has_the_key_is_answered_and_believed(other: bytes | None) -> None:
    with group(2, keys=(KEY, other)) as g:
        g.has(1, [3])
        got = collect(g.workers[0], [3], patience_s=10.0 if other == KEY else 0.5)
        assert got == ({3: result(3, 0).encode()} if other == KEY else {})
        assert (g.workers[1].service.counters.malformed > 0) == (other != KEY)


def asked(recovery: Recovery) -> int:
    """Questions that a worker has had."""
    counters = recovery.service.counters
    return counters.answered + counters.unknown + counters.nonces


def test_peers_are_asked_in_turn_from_the_next_number_on() -> None:
    """On a clock of the test's own."""
    with group(4) as g:
        g.has(1, [5, 6])
        recovery = g.workers[2]
        recovery.ask([5], model.THC)
        for turn, peer in enumerate((3, 0, 1)):
            recovery.send(turn * FIRST_TIMEOUT_S)
            until(lambda peer=peer: asked(g.workers[peer]) == 1)  # type: ignore[misc]
        until(lambda: recovery.answers()[0].tolist() == [5])
        # The one that had it is asked first from now on, with its nonce: once.
        assert asked(g.workers[1]) == 2
        sent = recovery.counters.asked
        recovery.ask([6], model.THC)
        recovery.send(1.0)
        until(lambda: recovery.answers()[0].tolist() == [6])
        # The one question that was sent.
        assert asked(g.workers[1]) == 3
        assert recovery.counters.asked == sent + 1


class LossySocket:
    """Loses a share of what is sent."""

    def __init__(self, real: socket.socket, seed: int, share: float = 0.3) -> None:
        self._real, self._share, self._random = real, share, random.Random(seed)
        self.lost = 0

    def sendto(self, data: bytes, target: tuple[str, int]) -> int:
        if self._random.random() < self._share:
            self.lost += 1
            return len(data)
        return self._real.sendto(data, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_questions_nonces_and_answers_are_lost() -> None:
    with group() as g:
        numbers = list(range(2 * MOST_ASKED))
        lossy = []
        for number in (1, 2):
            g.has(number, numbers)
            lossy.append(LossySocket(g.workers[number].service._udp, number))
            g.workers[number].service._udp = lossy[-1]  # type: ignore[assignment]
        lossy.append(LossySocket(g.workers[0]._udp, 0))
        g.workers[0]._udp = lossy[-1]  # type: ignore[assignment]
        assert collect(g.workers[0], numbers, patience_s=60) == {k: result(k, 0).encode() for k in numbers}
        assert all(each.lost > 0 for each in lossy)
        assert g.workers[0].counters.nonces > 0


def test_a_peer_that_dies_meanwhile() -> None:
    with group() as g:
        for peer in (1, 2):
            g.has(peer, list(range(300)))
        assert len(collect(g.workers[0], list(range(100)))) == 100
        g.workers[1].close()
        assert collect(g.workers[0], list(range(100, 300))) == {k: result(k, 0).encode() for k in range(100, 300)}


def test_a_result_that_comes_to_a_peer_later_is_had_then() -> None:
    with group() as g:
        assert collect(g.workers[0], [7], patience_s=0.1) == {}
        g.has(1, [7])
        assert collect(g.workers[0], [7]) == {7: result(7, 0).encode()}


def test_time_outs_back_off() -> None:
    """On a clock of the test's own; nobody answers. Two peers, each asked once a turn."""
    with group(3, absent=(1, 2)) as g:
        recovery = g.workers[0]
        recovery.ask([1], model.THC)
        now, gaps = 50.0, []
        assert recovery.wake_at() < now
        for number in range(1, 13):
            recovery.send(now)
            recovery.send(now + 0.001)
            assert recovery.counters.asked + recovery.counters.send_failures == number
            gaps.append(recovery.wake_at() - now)
            now = recovery.wake_at()
        expected = [0.02, 0.02, 0.04, 0.04, 0.08, 0.08, 0.16, 0.16, 0.2, 0.2, 0.2, 0.2]
        assert gaps == pytest.approx(expected)
        assert (FIRST_TIMEOUT_S, LONGEST_TIMEOUT_S) == (0.02, 0.2)


def test_asking_twice_is_asking_once_and_nothing_is_asked_after_the_end() -> None:
    with group(2, absent=(1,)) as g:
        recovery = g.workers[0]
        for _ in range(3):
            recovery.ask([1, 2], model.THC)
        assert recovery.missing == 2
        recovery.send(0.0)
        recovery.ask([1], model.THC)
        assert recovery.counters.asked + recovery.counters.send_failures == 2
        recovery.landed([1, 99])
        assert recovery.missing == 1
        recovery.forget()
        recovery.send(100.0)
        assert (recovery.missing, recovery.wake_at()) == (0, float("inf"))
        assert recovery.counters.asked + recovery.counters.send_failures == 2


def question(config: JobConfig, nonce: bytes = NO_NONCE, **changed: Any) -> bytes:
    fields = {"version": model.VERSION, "kind": PROBE, "op": model.THC, "job": JOB, "slot": 3, "worker": config.seat}
    rest = {"count": 0, "round": 0, "contributors": 0, "flags": 0, "words": 0, "bucket": 0, "chunk": 0, "payload": b""}
    return model.Packet(**{**fields, **rest, **changed}).encode() + nonce


class RawAsker:
    """A plain socket at an address, which asks worker 1; and one of worker 2's, whose question is the last."""

    def __init__(self, g: Group, ip: str) -> None:
        self.udp, self._last = (g.udp() for _ in range(2))
        self.udp.bind((ip, 0))
        self._last.bind((g.configs[2].own_address.ip, 0))
        self._last.settimeout(30)
        self._question = question(g.configs[2])
        self.target = (g.configs[1].own_address.ip, PORT)

    def ask(self, datagrams: list[bytes]) -> list[bytes]:
        """Send, and collect what comes back: all of it is there when the question behind them is answered."""
        for data in datagrams:
            self.udp.sendto(data, self.target)
        self._last.sendto(self._question, self.target)
        self._last.recv(4096)
        answers = []
        self.udp.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                answers.append(self.udp.recv(4096))
        return answers

    def nonce(self, config: JobConfig) -> bytes:
        """The nonce of this socket's address and port."""
        self.udp.settimeout(30)
        self.udp.sendto(question(config), self.target)
        return self.udp.recv(4096)[-8:]


def test_questions_that_are_none_are_counted_and_ignored() -> None:
    with group() as g:
        g.has(1, [3])
        asker = g.configs[0]
        raw = RawAsker(g, asker.own_address.ip)
        nonce = raw.nonce(asker)
        good = question(asker, nonce)
        bad = [
            b"",
            b"\x14",
            good[:-1],
            good + b"\0",
            good * 50,
            random.Random(1).randbytes(32),
            question(asker, nonce, version=1),
            question(asker, nonce, kind=model.CONTRIBUTE),
            question(asker, nonce, kind=model.RESULT),
            question(asker, nonce, op=0),
            question(asker, nonce, op=99),
            question(asker, nonce, job=JOB + 1),
            question(asker, nonce, worker=1),
            question(asker, nonce, worker=255),
            question(asker, nonce, words=8),
            question(asker, nonce, words=8, payload=bytes(1024)),
            question(asker, nonce, count=1),
            good[: model.HEADER],
        ]
        assert raw.ask(bad) == []
        counters = g.workers[1].service.counters
        assert (counters.malformed, counters.unknown, counters.answered) == (len(bad), 0, 0)
        # It goes on, and what it does not have is no mistake.
        places: tuple[dict[str, int], ...] = ({"slot": 4}, {"slot": 65535}, {"round": 2**32 - 1})
        lacking = [question(asker, nonce, **place) for place in places]
        assert raw.ask([*lacking, good]) == [result(3, 0).encode()]
        assert (counters.malformed, counters.unknown, counters.answered) == (len(bad), 3, 1)


def test_strangers_get_no_answer() -> None:
    with group() as g:
        g.has(1, [3])
        stranger = g.configs[0].own_address.ip.rsplit(".", 1)[0] + ".99"
        assert RawAsker(g, stranger).ask([question(g.configs[0])]) == []
        # Nor this worker's own address under another's seat, or its own.
        own = RawAsker(g, g.configs[1].own_address.ip)
        assert own.ask([question(g.configs[0]), question(g.configs[1])]) == []
        counters = g.workers[1].service.counters
        # The last questions of both are answered.
        assert (counters.strangers, counters.refused, counters.nonces) == (3, 3, 2)


NONCES = {
    "none": lambda right: NO_NONCE,
    "guessed": lambda right: random.Random(1).randbytes(8),
    "one bit": lambda right: bytes([right[0] ^ 1, *right[1:]]),
}


@pytest.mark.parametrize("forged", NONCES.values(), ids=NONCES)
def test_before_the_nonce_came_back_answers_are_no_longer_than_questions(forged: Callable[[bytes], bytes]) -> None:
    with group() as g:
        g.has(1, [3])
        raw = RawAsker(g, g.configs[0].own_address.ip)
        questions = [question(g.configs[0], forged(raw.nonce(g.configs[0])))] * 50
        answers = raw.ask(questions)
        assert len(answers) == len(questions)
        factor = sum(map(len, answers)) / sum(map(len, questions))
        assert factor == 1
        assert g.workers[1].service.counters.answered == 0
        # With it the result comes, which is many times as long.
        [answer] = raw.ask([question(g.configs[0], answers[0][-8:])])
        assert answer == result(3, 0).encode()
        assert len(answer) > 3 * len(questions[0])


def test_a_nonce_is_of_one_address_port_and_worker() -> None:
    with group() as g:
        one, other = (RawAsker(g, g.configs[0].own_address.ip) for _ in range(2))
        elsewhere = RawAsker(g, g.configs[2].own_address.ip)
        nonces = {one.nonce(g.configs[0]), other.nonce(g.configs[0]), elsewhere.nonce(g.configs[2])}
        one.target = (g.configs[2].own_address.ip, PORT)
        nonces.add(one.nonce(g.configs[0]))
        assert len(nonces) == 4
        assert NO_NONCE not in nonces


def test_the_first_question_to_a_worker_needs_one_more_round_trip_and_later_ones_none() -> None:
    with group(2) as g:
        g.has(1, [3, 4])
        recovery, counters = g.workers[0], g.workers[1].service.counters
        for sequence, sent in ((3, 2), (4, 3)):
            recovery.ask([sequence], model.THC)
            recovery.send(0.0)
            until(lambda sequence=sequence: recovery.answers()[0].tolist() == [sequence])  # type: ignore[misc]
            assert (recovery.counters.asked, recovery.counters.nonces) == (sent, 1)
        assert (counters.nonces, counters.answered) == (1, 2)


def test_the_rate_of_an_address_is_bounded_and_forgers_do_not_use_up_that_of_answers() -> None:
    """On a clock of the test's own, without packets."""
    with group() as g:
        g.has(1, [3])
        service, sender = g.workers[1].service, (g.configs[0].own_address.ip, 5)
        flood = [service.answer(question(g.configs[0]), sender, now=7.0) for _ in range(1000)]
        told = [answer for answer in flood if answer is not None]
        assert (len(told), service.counters.nonces, service.counters.limited) == (NONCES_AT_ONCE, NONCES_AT_ONCE, 744)
        right = question(g.configs[0], bytes(told[0][-8:]))
        had = [service.answer(right, sender, now=7.0) for _ in range(ANSWERS_AT_ONCE + 10)]
        assert [answer is not None for answer in had] == [True] * ANSWERS_AT_ONCE + [False] * 10
        # As many again as the time that passed allows; other addresses have rates of their own.
        had = [service.answer(right, sender, now=7.001) for _ in range(30)]
        assert sum(answer is not None for answer in had) == round(ANSWERS_PER_S / 1000)
        other = service.answer(question(g.configs[2]), (g.configs[2].own_address.ip, 5), now=7.0)
        assert other is not None


def test_a_worker_that_takes_no_nonce_is_asked_twice_in_its_turn() -> None:
    with group(3, absent=(1,)) as g:
        recovery, peer = g.workers[0], FakePeer(g)
        recovery.ask([3], model.THC)
        recovery.send(0.0)
        for number in range(4):
            if number < 2:
                asked_for, asker = peer.udp.recvfrom(100)
                assert asked_for[model.HEADER :] == (NO_NONCE, bytes([1] * 8))[number]
            answer = bytearray(asked_for[: model.HEADER] + bytes([number + 1] * 8))
            answer[7] = 1
            peer.udp.sendto(answer, asker)
            until(lambda number=number: (recovery.answers(), recovery.counters.nonces)[1] == number + 1)  # type: ignore[misc]
        assert recovery.counters.asked == 2
        # From a stranger, or to another question, it is none.
        answer[3] ^= 1
        peer.udp.sendto(answer, asker)
        until(lambda: (recovery.answers(), recovery.counters.ignored)[1] == 1)


class FakePeer:
    """Worker 1's port for others, with answers that the test makes."""

    def __init__(self, g: Group) -> None:
        self.udp = g.udp()
        self.udp.bind((g.configs[1].own_address.ip, PORT))
        self.udp.settimeout(5)

    def answer(self, recovery: Recovery, datagrams: list[bytes]) -> None:
        recovery.send(0.0)
        _, asker = self.udp.recvfrom(100)
        for data in datagrams:
            self.udp.sendto(data, asker)


def test_answers_that_are_none_are_counted_and_ignored() -> None:
    with group(3, absent=(1,)) as g:
        recovery, peer = g.workers[0], FakePeer(g)
        good = result(3, 0)
        data = good.encode()
        changed = [
            good._replace(kind=model.CONTRIBUTE),
            good._replace(kind=PROBE),
            good._replace(version=1),
            good._replace(op=model.SUM32),
            good._replace(op=99),
            good._replace(job=JOB + 1),
            good._replace(worker=1),
            good._replace(count=0),
            good._replace(flags=model.INCOMPLETE),
            good._replace(slot=4),
            good._replace(round=1),
            good._replace(words=7),
        ]
        bad = [b"", b"\x22", data[: model.HEADER], data[:-1], data + b"\0", data * 2, *(p.encode() for p in changed)]
        recovery.ask([3], model.THC)
        peer.answer(recovery, [*bad, data, data])
        got = []
        for _ in range(10):
            numbers, rows, sizes = recovery.answers()
            got += [(int(k), row[:size].tobytes()) for k, row, size in zip(numbers, rows, sizes, strict=True)]
        assert got == [(3, data)]
        assert recovery.counters.ignored == len(bad) + 1
        # From an address or port that is no worker's.
        recovery.ask([4], model.THC)
        peer.answer(recovery, [])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.bind((g.configs[1].own_address.ip, 0))
            stranger.sendto(result(4, 0).encode(), recovery._udp.getsockname())
        assert len(recovery.answers()[0]) == 0
        assert recovery.counters.ignored == len(bad) + 2


def test_behind_another_switch_the_bitmap_is_of_the_askers_own() -> None:
    """Workers 0 and 2 at one switch, 1 and 3 at another: those at the own switch are asked first."""
    with group(4, leaves=2) as g:
        keep(g.kept[1], {3: result(3, 0, contributors=0b01, flags=0)})
        assert collect(g.workers[0], [3]) == {3: result(3, 0, contributors=0b11, flags=0).encode()}
        assert asked(g.workers[2]) >= 1
        keep(g.kept[2], {4: result(4, 1, contributors=0b10)})
        assert collect(g.workers[0], [4]) == {4: result(4, 0, contributors=0b10).encode()}


def test_a_result_that_lacks_somebody_is_taken_from_behind_another_switch_only_with_the_own_bitmap() -> None:
    """Workers 0 and 2 at one switch, 1 and 3 at another, of whom one is missing."""
    with group(4, leaves=2) as g:
        recovery = g.workers[0]
        keep(g.kept[1], {k: result(k, 0, contributors=0b01) for k in (3, 4)})
        recovery.passed_up((4, 0), 0b10)
        assert collect(recovery, [3, 4], patience_s=0.3) == {4: result(4, 0, contributors=0b10).encode()}
        # The worker at the own switch has it by now.
        keep(g.kept[2], {3: result(3, 1, contributors=0b10)})
        assert collect(recovery, []) == {3: result(3, 0, contributors=0b10).encode()}
        # A place is known for one exchange.
        recovery.forget()
        assert collect(recovery, [4], patience_s=0.1) == {}


def test_a_worker_alone_at_its_switch_is_in_every_sum() -> None:
    with group(2, leaves=2) as g:
        keep(g.kept[1], {3: result(3, 0, contributors=0b10)})
        assert collect(g.workers[0], [3]) == {3: result(3, 0, contributors=0b01).encode()}


def test_a_job_of_one_worker_asks_nobody() -> None:
    with group(1) as g:
        g.workers[0].ask([3], model.THC)
        g.workers[0].send(0.0)
        assert (g.workers[0].missing, g.workers[0].counters.asked) == (0, 0)


def test_port_out_of_range_and_taken_port() -> None:
    with group() as g:
        with pytest.raises(OSError, match="in use") as caught:
            Recovery(g.configs[0], g.kept[0])
        assert f"{g.configs[0].own_address.ip}:{PORT}" in caught.value.__notes__[0]
        g.workers[0].close()
        g.workers[0].close()
        address = replace(g.configs[0].own_address, udp_port=65000)
        with pytest.raises(ConfigError, match=r"udp_port = 65000: must be at most 64535"):
            recovery_port(address)


def test_results_of_long_packets_are_kept_in_the_same_memory() -> None:
    """An eighth as many of them. They once took eight times as much, half a gigabyte with four lanes."""
    rows = []
    for ops in (["thc", "max32"], ["thc", "max32", "jumbo"]):
        catch_up = CatchUp(configs({**job_mapping(2, 64), "ops": ops})[0], 1 << 14)
        catch_up.close()
        rows.append((catch_up.kept.capacity, catch_up.kept._rows.shape[1] - HEADER_BYTES))
    assert rows == [(1 << 14, 1024), (1 << 11, 8192)]
