# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""examples/p4/vectors.p4: headers of its own around the library p4src/aggregation.p4; on both engines and on bmv2."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from fuzz.samples import bmv2
from helpers.p4runtime.client import DEVICE_ID, Controller, Program, insert, modify
from helpers.p4runtime.messages import group, update
from helpers.p4runtime.served import primary_of
from helpers.paths import ROOT
from helpers.softswitch.compile_programs import EXAMPLES, included
from p4.v1 import p4runtime_pb2 as p4rt
from softswitch.switch import EngineChoice, SoftSwitch

HOSTS, ELEMENTS, GROUP = 4, 32, 1
HEAD = bytes(range(12)) + b"\x88\xb5"
VECTOR, TOTAL, LATE = 1, 2, 3
ANSWER_S = 30.0
PROGRAM = Program("vectors", EXAMPLES)

Frames = list[tuple[int, bytes]]
Vector = list[int]
# Sends a frame in at a port, and waits for as many as are expected.
Exchange = Callable[[int, bytes, int], Frames]


def message(kind: int, slot: int, number: int, hosts: int, numbers: Vector) -> bytes:
    head = bytes([kind, slot]) + number.to_bytes(4) + bytes([hosts])
    return HEAD + head + b"".join(value.to_bytes(2) for value in numbers)


def vector(draw: random.Random) -> Vector:
    return [draw.choice([0, 1, 0x7FFF, 0x8000, 0xFFFF, draw.getrandbits(16)]) for _ in range(ELEMENTS)]


def total(vectors: list[Vector]) -> Vector:
    return [sum(column) % 2**16 for column in zip(*vectors, strict=True)]


class Star:
    """Hosts at ports 1 to 4 around a switch with the program."""

    def __init__(self, controller: Controller, exchange: Exchange) -> None:
        self._controller, self._exchange, self._owners = controller, exchange, count(1)
        replicas = [(host + 1, host + 1) for host in range(HOSTS)]
        controller.write(update(p4rt.Update.INSERT, group(GROUP, *replicas)))
        self.start(write=insert)

    def start(self, hosts: int = HOSTS, write: Callable[..., object] = modify) -> None:
        """The hosts begin, with another owner than before. So many of them close a round."""
        owner = next(self._owners).to_bytes()
        for host in range(HOSTS):
            words = {
                "bit_of_host": bytes([1 << host]),
                "hosts": bytes([hosts]),
                "group": bytes([GROUP]),
                "owner": owner,
            }
            match = {"standard.ingress_port": ("exact", bytes([host + 1]))}
            self._controller.write(write(PROGRAM.entry("hosts", action=PROGRAM.action("host", **words), **match)))

    def send(self, host: int, slot: int, number: int, numbers: Vector, *expected: tuple[int, bytes]) -> None:
        found = self._exchange(host + 1, message(VECTOR, slot, number, 0, numbers), len(expected))
        assert sorted(found) == sorted(expected), f"host {host}, slot {slot}, round {number}"

    def refuses(self, port: int, frame: bytes) -> None:
        assert self._exchange(port, frame, 0) == []


def to_all(frame: bytes) -> Frames:
    return [(host + 1, frame) for host in range(HOSTS)]


@contextmanager
def soft(engine: EngineChoice) -> Iterator[Star]:
    switch = SoftSwitch(engine=engine)
    with primary_of(switch, PROGRAM.config()) as controller:
        yield Star(controller, lambda port, frame, _: [(out, bytes(sent)) for out, sent in switch.process(port, frame)])


@contextmanager
def on_bmv2(folder: Path) -> Iterator[Star]:
    program, options = EXAMPLES / "vectors.json", ("--device-id", str(DEVICE_ID))
    with bmv2.wires() as wires, bmv2.running(program, wires, folder, *options):
        controller = Controller(f"unix:{folder}/p4rt.sock")
        controller.become(1)
        controller.set_pipeline(PROGRAM.config())
        yield Star(controller, lambda port, frame, expected: wires.answers(port, frame, expected, ANSWER_S))
        controller.close()


@pytest.fixture(
    scope="module",
    params=[
        "python",
        pytest.param("native", marks=pytest.mark.cc),
        pytest.param("bmv2", marks=[pytest.mark.root, pytest.mark.bmv2]),
    ],
)
def switch(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Star]:
    made = on_bmv2(tmp_path_factory.mktemp("bmv2")) if request.param == "bmv2" else soft(request.param)
    with made as star:
        yield star


@pytest.fixture
def star(switch: Star) -> Star:
    """Every test has hosts that begin anew, in slots that have been used."""
    switch.start()
    return switch


def test_all_hosts_in_several_rounds(star: Star) -> None:
    draw = random.Random(1)
    for number in (0, 1, 2, 7, 2**31, 2**32 - 1, 0):
        vectors = [vector(draw) for _ in range(HOSTS)]
        order = draw.sample(range(HOSTS), HOSTS)
        for host in order[:-1]:
            star.send(host, 9, number, vectors[host])
        star.send(order[-1], 9, number, vectors[order[-1]], *to_all(message(TOTAL, 9, number, 4, total(vectors))))


def test_a_vector_that_comes_twice_is_added_once(star: Star) -> None:
    vectors = [vector(random.Random(seed)) for seed in range(HOSTS)]
    for host in (0, 0, 1, 0, 1, 2, 2, 1):
        star.send(host, 1, 5, vectors[host])
    star.send(3, 1, 5, vectors[3], *to_all(message(TOTAL, 1, 5, 4, total(vectors))))


def test_a_lost_answer_is_given_again_to_whom_asks(star: Star) -> None:
    vectors = [vector(random.Random(seed)) for seed in range(HOSTS)]
    answer = message(TOTAL, 2, 0, 4, total(vectors))
    for host in range(HOSTS - 1):
        star.send(host, 2, 0, vectors[host])
    star.send(3, 2, 0, vectors[3], *to_all(answer))
    for host in (2, 2, 0, 3):
        star.send(host, 2, 0, vectors[host], (host + 1, answer))
    star.send(1, 2, 1, vectors[1])  # the next round is as new as ever
    star.send(1, 2, 1, vectors[1])


def test_a_round_that_is_over_is_told_so_and_changes_nothing(star: Star) -> None:
    vectors = [vector(random.Random(seed)) for seed in range(HOSTS)]
    star.send(0, 3, 4, vectors[0])
    for number in (3, 0, 2**32 - 1):
        star.send(1, 3, number, vectors[1], (2, message(LATE, 3, 4, 0, vectors[1])))
    for host in (1, 2):
        star.send(host, 3, 4, vectors[host])
    star.send(3, 3, 4, vectors[3], *to_all(message(TOTAL, 3, 4, 4, total(vectors))))


def test_hosts_that_begin_anew_do_not_find_what_was_there(star: Star) -> None:
    vectors = [vector(random.Random(seed)) for seed in range(HOSTS)]
    star.send(0, 4, 6, vectors[1])
    star.start()
    for host in range(HOSTS - 1):
        star.send(host, 4, 0, vectors[host])
    star.send(3, 4, 0, vectors[3], *to_all(message(TOTAL, 4, 0, 4, total(vectors))))


def test_a_quorum_closes_a_round_and_who_is_late_gets_its_sum(star: Star) -> None:
    star.start(hosts=3)
    vectors = [vector(random.Random(seed)) for seed in range(HOSTS)]
    answer = message(TOTAL, 5, 0, 3, total(vectors[:3]))
    for host in (2, 0):
        star.send(host, 5, 0, vectors[host])
    star.send(1, 5, 0, vectors[1], *to_all(answer))
    star.send(3, 5, 0, vectors[3], (4, answer))


def test_others_are_not_answered(star: Star) -> None:
    """Neither answers nor other types nor what is too short, nor ports without a host."""
    whole = message(VECTOR, 6, 0, 0, [1] * ELEMENTS)
    frames = [whole[:-1], HEAD, HEAD[:12] + b"\x08\x00" + bytes(46), message(TOTAL, 6, 0, 4, [1] * ELEMENTS)]
    for frame in frames:
        star.refuses(1, frame)
    star.refuses(5, whole)


@dataclass
class Held:
    """What a slot must hold."""

    number: int
    vectors: dict[int, Vector]


@pytest.mark.parametrize("seed", range(3))
def test_random_schedules(star: Star, seed: int) -> None:
    """Each host sends any of the last, this and the next round, again and again, by a model of three rules."""
    draw, slots = random.Random(seed), dict[int, Held]()
    for _ in range(200):
        host, slot = draw.randrange(HOSTS), draw.randrange(3)
        held = slots.get(slot, Held(0, {}))
        number = max(0, held.number + draw.choice([-1, 0, 0, 0, 0, 0, 1] if len(held.vectors) < HOSTS else [-1, 0, 1]))
        sent = vector(draw)
        if number < held.number:
            star.send(host, slot, number, sent, (host + 1, message(LATE, slot, held.number, 0, sent)))
            continue
        if number > held.number:
            held = Held(number, {})
        slots[slot] = held
        was_closed = len(held.vectors) == HOSTS
        held.vectors.setdefault(host, sent)
        answer = message(TOTAL, slot, number, HOSTS, total(list(held.vectors.values())))
        if was_closed:
            star.send(host, slot, number, sent, (host + 1, answer))
        else:
            star.send(host, slot, number, sent, *(to_all(answer) if len(held.vectors) == HOSTS else []))


def test_the_library_is_sumwires_own_and_knows_no_headers() -> None:
    library = [path.resolve() for path in included(ROOT / "p4src/aggregation.p4")]
    assert {path.name for path in library} > {"opening.p4", "join.p4", "verdict.p4", "elements.p4", "carry.p4"}
    assert set(library[1:]) <= {path.resolve() for path in included(ROOT / "p4src/sumwire.p4")}
    of_a_program = re.compile(r"\b(hdr|meta)\.|\b(headers_t|metadata_t)\b")
    assert [path.name for path in library if of_a_program.search(path.read_text())] == []
