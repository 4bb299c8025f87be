# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Streams of datagrams as a bad network would bring them, cut into batches, and what the golden model says to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from golden import model
from golden.model import Job, udp_frame
from helpers.packet.aggregator_rig import OTHER_JOBS, PLAIN, TREE_JOBS, job_config, state_of
from helpers.packet.play import contribution, random_partial, random_payload
from helpers.packet.star import AGGREGATOR, EVERY, FULL, HOSTS, JOBS, PARENT, QUORUM, SINGLE, WORKERS, golden_switch
from numpy.typing import NDArray
from sumwire.aggregator.batches import ROW_BYTES, Batch, Refusal
from sumwire.aggregator.core import Aggregator
from sumwire.aggregator.state import Shared
from sumwire_protocol.digest import job_digest

# Runs of these may have fewer workers.
LEAST = {FULL.number: 2, EVERY.number: 3}


def _elastic(job: Job) -> Job:
    config = job_config(replace(job, quorum_least=LEAST.get(job.number, 0)))
    table = config.thc.table if config.thc else None
    of = (config.job, config.ops, config.workers, config.quorum, config.slots, table, config.quorum_least)
    return replace(job, quorum_least=config.quorum_least, digest=job_digest(*of))


ELASTIC = [_elastic(job) for job in PLAIN]
TREES = [job for job in JOBS if job.number in TREE_JOBS]
# Without tags; of two priorities, protected or not; marked on the way.
TOS = (0x00, 0x02, 0xE2, 0x58, 0xE3, 0x03)


class Datagram(NamedTuple):
    source: bytes
    data: bytes
    tos: int = 0
    port: int = model.UDP_PORT


# Of the jobs of an aggregator with this seed.
SEED, GENERATION = 99, 100
UP = -1


class Reply(NamedTuple):
    place: int
    data: bytes
    tos: int


class Played(NamedTuple):
    """What a stream has led to, in order: replies to workers, and answers to refused senders."""

    replies: list[Reply]
    refusals: list[Refusal]


def aggregator(*, native: bool, room: int = 64, shared: Shared | None = None, process: int = 0) -> Aggregator:
    """With the star's jobs that are of one level, some elastic; the draws are always the same."""
    return Aggregator(state_of(ELASTIC, shared, process, seed=SEED), batch=room, native=native)


def tree_aggregator(*, native: bool, room: int = 64) -> Aggregator:
    """With the star's jobs of several levels: at a leaf, in between, and at the root."""
    return Aggregator(state_of(TREES, seed=SEED), batch=room, native=native)


def load(datagrams: Sequence[Datagram], rng: np.random.Generator) -> Batch:
    """A batch with rubbish wherever no datagram has its bytes."""
    rows = rng.integers(0, 256, (len(datagrams), ROW_BYTES), np.uint8)
    sizes, sources = np.zeros(len(datagrams), np.uint32), np.zeros(len(datagrams), np.uint32)
    ports = np.array([datagram.port for datagram in datagrams], ">u2")
    marks = np.array([datagram.tos for datagram in datagrams], np.uint8)
    for k, (source, data, *_) in enumerate(datagrams):
        own = np.frombuffer(data[:ROW_BYTES], np.uint8)
        rows[k, : len(own)] = own
        sizes[k], sources[k] = len(data), np.frombuffer(source, np.uint32)[0]
    return Batch(rows, sizes, sources, ports, marks, len(datagrams))


def cut(stream: Sequence[Datagram], rng: np.random.Generator, most: int) -> Iterator[Sequence[Datagram]]:
    """The stream in pieces of 1 to `most`."""
    at = 0
    while at < len(stream):
        length = int(rng.integers(1, most + 1))
        yield stream[at : at + length]
        at += length


def play(served: Aggregator, stream: Sequence[Datagram], rng: np.random.Generator, most: int) -> Played:
    """All that the aggregator says, at one point in time."""
    played = Played([], [])
    for piece in cut(stream, rng, most):
        replies = served.process(load(piece, rng), 0.0)
        played.replies.extend(
            Reply(int(replies.places[k]), replies.data(k), int(replies.tos[k])) for k in range(replies.count)
        )
        played.refusals.extend(replies.refusals)
    return played


def bad_network(rng: np.random.Generator, rounds: int = 12, slots: int = 3) -> list[Datagram]:
    """Workers of four jobs that go through rounds: packets lost, doubled, overtaken, and late by rounds.

    The first packet is refused: it is cut and does not say so.
    """
    untold = contribution(FULL, 0, 0, 0, bytes(2 * model.WORD), model.THC)
    due = [(0.0, Datagram(FULL.workers[0].ip, untold.encode()))]
    for round_ in range(rounds):
        for job in (FULL, QUORUM, EVERY, SINGLE):
            for slot in range(min(slots, job.slots)):
                due += _round(rng, job, slot, round_)
    return [datagram for _, datagram in sorted(due, key=lambda entry: entry[0])]


def _round(rng: np.random.Generator, job: Job, slot: int, round_: int) -> Iterator[tuple[float, Datagram]]:
    every = model.SHORT_OPS
    op = every[(slot + round_) % len(every)] if job is EVERY else (model.THC, model.MAX32)[round_ % 2]
    if rng.random() < 0.05:
        op = int(rng.choice(every))
    for worker, host in enumerate(job.workers):
        packet = contribution(job, worker, slot, (round_ - 3) % 2**32, random_payload(rng, op), op)
        for _ in range(1 + rng.binomial(2, 0.3)):
            late = 2.5 * rng.random() if rng.random() < 0.1 else 0.4 * rng.random()
            if rng.random() > 0.1:
                yield round_ + late, Datagram(host.ip, _sent(rng, packet).encode(), int(rng.choice(TOS)))


def _sent(rng: np.random.Generator, packet: model.Packet) -> model.Packet:
    """A contribution as it comes: with flags, cut to its top planes on the way, or only asked about."""
    if rng.random() < 0.03:
        packet = packet._replace(bucket=8)
    if rng.random() < 0.03:
        return packet._replace(kind=model.PROBE, op=model.NO_OP, words=0, payload=b"")
    flags = int(rng.choice([0, model.FLUSH, model.OVERFLOW], p=[0.65, 0.3, 0.05]))
    least = int(rng.choice([0, 1 << packet.worker, 2, 3], p=[0.5, 0.1, 0.2, 0.2]))
    packet = packet._replace(flags=flags, contributors=least)
    kind = rng.random()
    if kind < 0.1:
        return packet._replace(kind=model.PROBE, words=0, payload=b"")
    if kind < 0.25 and packet.op == model.THC:
        # Some do not say so, and are refused.
        flags |= model.TRIMMED if rng.random() < 0.9 else 0
        return packet._replace(flags=flags, words=2, payload=packet.payload[: 2 * model.WORD])
    return packet


def tree_network(rng: np.random.Generator, rounds: int = 8, slots: int = 2) -> list[Datagram]:
    """As :func:`bad_network`, of the jobs of several levels: lower aggregators send partial results, and from above
    come results and notices, some of them wrong."""
    due: list[tuple[float, Datagram]] = []
    for round_ in range(rounds):
        for job in TREES:
            for slot in range(min(slots, job.slots)):
                due += _tree_round(rng, job, slot, round_)
    return [datagram for _, datagram in sorted(due, key=lambda entry: entry[0])]


def _tree_round(rng: np.random.Generator, job: Job, slot: int, round_: int) -> Iterator[tuple[float, Datagram]]:
    # With a tag behind them signs that are drawn cannot be compared.
    ops = sorted(job.ops.intersection(model.SHORT_OPS) - ({model.SIGN} if job.key else set()))
    op = ops[(slot + round_) % len(ops)]
    for worker, host in enumerate(job.workers):
        payload = random_partial(rng, op, host.weight) if host.is_switch else random_payload(rng, op)
        count = int(rng.choice([host.weight, host.weight - 1, host.weight + 1], p=[0.9, 0.05, 0.05]))
        packet = contribution(job, worker, slot, round_, payload, op, count=max(count, 1))
        for _ in range(1 + rng.binomial(2, 0.4)):
            late = 2.5 * rng.random() if rng.random() < 0.1 else 0.4 * rng.random()
            if rng.random() > 0.1:
                yield round_ + late, _sealed(rng, job, host, _sent(rng, packet), AGGREGATOR.ip)
    if job.parent is None:
        return
    for packet in _from_above(rng, job, slot, round_, op):
        sender = PARENT if rng.random() < 0.95 else HOSTS[3]
        yield round_ + 0.2 + 0.5 * rng.random(), _sealed(rng, job, sender, packet, PARENT.ip)


def _from_above(rng: np.random.Generator, job: Job, slot: int, round_: int, op: int) -> Iterator[model.Packet]:
    assert job.parent is not None
    words = model.WORDS_DOWN[op]
    cut = op == model.THC and rng.random() < 0.3
    payload = random_payload(rng, op, model.WORDS_CUT if cut else words)
    seats = 0xFF & ~(int(rng.random() < 0.2) << job.parent.worker)
    packet = contribution(job, job.parent.worker, slot, round_, payload, op, count=9, contributors=seats)
    packet = packet._replace(
        cut=model.CUT_RESULT | 2 if cut else 0, flags=int(rng.choice([0, model.CE, model.MISSING]))
    )
    for _ in range(1 + rng.binomial(2, 0.3)):
        if rng.random() > 0.1:
            yield packet._replace(kind=model.RESULT, bucket=8 if rng.random() < 0.05 else packet.bucket)
    if rng.random() < 0.4:
        kind = model.STALE if rng.random() < 0.5 else model.REFUSED
        yield packet._replace(kind=kind, words=0, payload=b"", round=round_ + int(rng.integers(-1, 2)) & 0xFFFFFFFF)


def _sealed(rng: np.random.Generator, job: Job, host: model.Host, packet: model.Packet, switch: bytes) -> Datagram:
    if rng.random() > 0.03:
        packet = job.sealed(packet, switch)
    return Datagram(host.ip, packet.encode(), int(rng.choice(TOS)))


def expected(stream: Sequence[Datagram], got: Sequence[Reply]) -> tuple[model.GoldenSwitch, Played]:
    """What the golden model says; signs are taken from the replies in `got` where the model allows them."""
    golden, played = golden_switch(), Played([], [])
    golden.generation_of = lambda job: GENERATION
    golden.jobs = (*ELASTIC, *(job for job in golden.jobs if job.number in OTHER_JOBS))
    golden.refusals.senders = frozenset((host.port, host.mac, host.ip) for host in HOSTS)
    places = places_by_job(PLAIN)
    _play_golden(golden, stream, got, played, places)
    return golden, played


def expected_in_tree(stream: Sequence[Datagram], got: Sequence[Reply]) -> tuple[model.GoldenSwitch, Played]:
    """As :func:`expected`, of :func:`tree_aggregator`."""
    golden, played = golden_switch(), Played([], [])
    golden.generation_of = lambda job: GENERATION
    golden.refusals.senders = frozenset((host.port, host.mac, host.ip) for host in WORKERS)
    _play_golden(golden, stream, got, played, places_by_job(TREES))
    return golden, played


def _play_golden(
    golden: model.GoldenSwitch,
    stream: Sequence[Datagram],
    got: Sequence[Reply],
    played: Played,
    places: dict[int, dict[int, int]],
) -> None:
    out = played.replies
    for source, data, tos, port in stream:
        sender = replace(next(host for host in (*golden.hosts, PARENT) if host.ip == source), udp_port=port)
        for _, frame in sorted(golden.receive(sender.port, udp_frame(sender, AGGREGATOR, data, dscp_ecn=tos))):
            packet = model.decode(frame[42:])
            if packet.kind == model.REFUSED and data[0] & 0xF != model.REFUSED:
                played.refusals.append(Refusal(frame[42:], (".".join(map(str, source)), port), frame[15]))
                continue
            seat = UP if packet.kind == model.CONTRIBUTE else packet.worker
            reply = Reply(places[packet.job][seat], frame[42:], frame[15])
            if packet.op == model.SIGN and packet.payload and len(got) > len(out):
                drawn = got[len(out)].data[model.HEADER :]
                golden.settle(packet.job, packet.slot, drawn)
                reply = reply._replace(data=packet._replace(payload=drawn).encode())
            out.append(reply)


def places_by_job(jobs: Sequence[Job]) -> dict[int, dict[int, int]]:
    """Job, worker: place, counted as State does. The place above is that of worker UP."""
    numbers = iter(range(1000))
    return {
        job.number: {worker: next(numbers) for worker in (*range(len(job.workers)), *((UP,) if job.parent else ()))}
        for job in jobs
    }


def counted(cells: NDArray[np.uint64], names: dict[int, str]) -> dict[str, int]:
    return {names[index]: int(count) for index, count in enumerate(cells) if count}
