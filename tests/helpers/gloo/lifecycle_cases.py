# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every object that has a :class:`sumwire.lifecycle.Lifecycle`, in every situation that ends one.

Two ranks make the same object and use it once. Then rank 0 alone uses it again and so waits for rank 1, which does not
come: meanwhile it is forked, interrupted or closed. :func:`outcome` says what rank 0's calls ended with.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import sumwire
import torch
import torch.distributed as dist
from helpers.waiting import until
from sumwire.backend.network import GroupRank, Network, ReduceRoute, Reduction, opener, reduced
from sumwire.config import parse_job
from sumwire.dlcp import Lanes
from sumwire.job.gloo import Ranks
from sumwire.job.handshake import join
from sumwire.multihop.bounded_ring import BoundedRing
from sumwire.multihop.neighbours import Neighbours
from sumwire.start.supervisor import RunningAggregator
from sumwire.systems.system import AcpSystem
from sumwire.training.buckets import Bucket
from sumwire.training.comm_thread import CommThread, wait_for
from sumwire.training.ddp import DdpState
from sumwire.training.hierarchical import NodeJob, RankGroup
from sumwire.transport.options import Alone, TransportOptions
from sumwire.transport.udp import Transport
from sumwire.wire.packets import OP_WORDS
from sumwire_protocol import constants as p4

# Far above what any of it takes, also on a busy machine.
LONG_S: Final = 30.0
HANGS: Final = "hangs"
_TOKEN: Final = 0x0123_4567_89AB_CDEF

Mapping = dict[str, Any]
Case = Callable[..., list[str]]


@dataclass
class Thing:
    """``use``: a call that both ranks make. ``close``: its end; ``agree=False`` does not wait for rank 1. ``also``:
    what else a forked child may ask for."""

    use: Callable[[], object]
    close: Callable[..., object]
    also: tuple[Callable[[], object], ...] = ()


def _whether_or_not(close: Callable[[], object]) -> Callable[..., object]:
    """The end of what agrees with nobody."""

    def end(*, agree: bool = True) -> None:
        close()

    return end


def _job(rank: int, mapping: Mapping, **options: Any) -> sumwire.Job:
    return sumwire.Job(parse_job(mapping, rank), block=1024, **options)


def job(rank: int, mapping: Mapping, _place: Path) -> Thing:
    made = _job(rank, mapping)
    return Thing(lambda: made.reduce(torch.ones(100)), made.close, (made.state_dict, made.pause))


def hook(rank: int, mapping: Mapping, _place: Path) -> Thing:
    made = _job(rank, mapping)
    parameter = torch.nn.Parameter(torch.zeros(100))
    state = DdpState(made, model=[parameter])
    # Of a bucket that the parent handed over before the fork.
    earlier: list[Any] = []

    def use() -> None:
        bucket = Bucket(0, True, torch.ones(parameter.numel()), (parameter,))
        earlier.append(state.submit(bucket))  # type: ignore[arg-type]
        wait_for(earlier[-1])
        state.settle()

    def close(*, agree: bool = True) -> None:
        if not agree:
            made.give_up()
        state.close()
        made.close(agree=agree)

    return Thing(use, close, (state.state_dict, lambda: wait_for(earlier[-1])))


def node_job(rank: int, mapping: Mapping, _place: Path) -> Thing:
    """Each rank is a node by itself."""
    node = RankGroup.among([[0], [1]])
    made = NodeJob("test", _job(rank, mapping), node, 2)
    return Thing(lambda: made.reduce(torch.ones(100)), made.close)


def shared_node(rank: int, mapping: Mapping, _place: Path) -> Thing:
    """Both ranks are one node, of a job with one worker."""
    node = RankGroup.among([[0, 1]])
    own = {**mapping, "workers": 1, "quorum": 1, "addresses": mapping["addresses"][:1]}
    ranks = None
    if rank == 0:
        store = dist.PrefixStore("alone", dist.HashStore())
        ranks = Ranks(store, 0, 1, timedelta(seconds=LONG_S))
    made = NodeJob("test", _job(0, own, ranks=ranks, through="group") if rank == 0 else None, node, 2)
    return Thing(lambda: made.reduce(torch.ones(100)), made.close)


def acp(rank: int, mapping: Mapping, _place: Path) -> Thing:
    """A system with a thread of its own."""
    made = _job(rank, mapping)
    torch.manual_seed(1)
    model = torch.nn.Linear(40, 40)
    system = AcpSystem("acp", "switch", made, made.reduce, dict, settings={"rank": 2})
    optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))

    def use() -> None:
        model(torch.ones(1, 40)).sum().backward()
        optimizer.step()

    def close(*, agree: bool = True) -> None:
        made.close(agree=agree)

    return Thing(use, close)


def network(rank: int, mapping: Mapping, place: Path) -> Thing:
    """The backend's way through a job of its own."""
    store = dist.FileStore(str(place / "store"), 2)
    ranked = GroupRank(store, rank, [0, 1], 2, timedelta(seconds=LONG_S))
    made = Network("test", opener(parse_job(mapping, rank), ranked))
    what = Reduction(ReduceRoute.FLOATS, "AVG", "4bit")

    def use() -> None:
        x = torch.ones(100)
        wait_for(made.submit(lambda job: [reduced(what, job, x)], x.device))

    def close(*, agree: bool = True) -> None:
        if not agree and made.job is not None:
            made.job.give_up()
        made.close()

    return Thing(use, close)


def lanes(rank: int, mapping: Mapping, _place: Path) -> Thing:
    made = Lanes(parse_job(mapping, rank), block=1024)

    def use() -> None:
        wait_for(made.submit(0, lambda: made.reduce(torch.ones(100), 0, 0.0)))

    return Thing(use, made.close, (made.state_dict,))


def comm_thread(rank: int, mapping: Mapping, _place: Path) -> Thing:
    """A thread without a job; its calls wait for nobody else."""
    made, gate = CommThread("test"), threading.Event()
    calls: list[int] = []

    def use() -> None:
        calls.append(0)
        wait_for(made.submit(lambda: len(calls) > 1 and gate.wait(LONG_S)))

    def close(*, agree: bool = True) -> None:
        gate.set()
        made.close()

    return Thing(use, close)


def transport(rank: int, mapping: Mapping, _place: Path) -> Thing:
    config = parse_job(mapping, rank)
    made = Transport(config, TransportOptions(deadline_s=3.0))
    join(made, config, {}, timeout_policy=Alone(LONG_S))
    payload = np.zeros((1, OP_WORDS[p4.OP_MAX32][0], 128), np.uint8)
    return Thing(lambda: made.exchange(p4.OP_MAX32, payload), _whether_or_not(made.close))


def neighbours(rank: int, mapping: Mapping, place: Path) -> Thing:
    made = Neighbours(mapping["addresses"][rank]["ip"])
    ring = BoundedRing(made, 2, rank, 0.0)
    (place / f"told{rank}").write_text(f"{made.ports.host} {made.ports.values} {made.ports.answers}")
    (place / f"told{rank}").rename(place / f"ports{rank}")
    until((place / f"ports{1 - rank}").exists)
    host, values, answers = (place / f"ports{1 - rank}").read_text().split()
    made.connect((host, int(answers)), (host, int(values)), _TOKEN)
    return Thing(lambda: ring.reduce(np.ones(100, np.float32)), _whether_or_not(made.close))


def aggregator(rank: int, mapping: Mapping, _place: Path) -> Thing:
    """A child process, which rank 0 alone has. Its start is what it waits for."""
    made = RunningAggregator([sys.executable, "-c", "import sys; sys.stdin.read()"], {}, lambda line: None)
    return Thing(made.await_ready, _whether_or_not(made.close))


GROUPED: Final = {made.__name__: made for made in (job, hook, node_job, shared_node, acp, network, lanes)}
ALONE: Final = {made.__name__: made for made in (job, hook, lanes, comm_thread, transport, neighbours, aggregator)}


def told(call: Callable[[], object]) -> str:
    """The name of the error that a call ends with, with "foreign" before it if it is none of Sumwire's; "" for none."""
    try:
        call()
    except (sumwire.SumwireError, KeyboardInterrupt) as error:
        return type(error).__name__
    except BaseException as error:  # noqa: BLE001 - its kind is the outcome
        return f"foreign {error!r}"
    return ""


@contextlib.contextmanager
def waiting(thing: Thing) -> Iterator[list[str]]:
    """Within it a thread waits in the object. Afterwards the list has what that call ended with."""
    ended: list[str] = []
    thread = threading.Thread(target=lambda: ended.append(told(thing.use)), daemon=True)
    thread.start()
    time.sleep(0.3)
    yield ended
    thread.join(LONG_S)
    if not ended:
        ended.append(HANGS)


def in_child(*calls: Callable[[], object]) -> list[str]:
    """What calls end with in a forked child."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        for call in calls:
            os.write(writer, f"{told(call)}\n".encode())
        os._exit(0)
    os.close(writer)
    lines = b""
    end = time.monotonic() + LONG_S
    while select.select([reader], [], [], max(0.0, end - time.monotonic()))[0] and (part := os.read(reader, 1000)):
        lines += part
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reader)
    found = lines.decode().split("\n")[:-1]
    return found + [HANGS] * (len(calls) - len(found))


def forked(thing: Thing) -> list[str]:
    with waiting(thing):
        outcomes = in_child(thing.use, thing.close, thing.use, *thing.also)
        thing.close(agree=False)
    return outcomes


def interrupted(thing: Thing) -> list[str]:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    first = told(thing.use)
    return [first, told(lambda: thing.close(agree=False)), told(thing.use)]


def closed_twice(thing: Thing) -> list[str]:
    closers = [threading.Thread(target=thing.close, kwargs={"agree": False}, daemon=True) for _ in range(2)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join(LONG_S)
    hung = [HANGS for closer in closers if closer.is_alive()]
    return hung or [told(lambda: thing.close(agree=False)), told(thing.use)]


def closed_while_another_waits(thing: Thing) -> list[str]:
    with waiting(thing) as ended:
        closing = told(lambda: thing.close(agree=False))
    return [closing, *ended]


SITUATIONS: Final = {one.__name__: one for one in (forked, interrupted, closed_twice, closed_while_another_waits)}


def outcome(rank: int, kinds: Mapping, kind: str, situation: str, mapping: Mapping, place: Path) -> list[str]:
    """See the module. Rank 1 waits until rank 0 is done."""
    thing = kinds[kind](rank, mapping, place)
    if kind != "aggregator":
        thing.use()
    if rank == 0:
        try:
            return SITUATIONS[situation](thing)
        finally:
            (place / "done").touch()
    until((place / "done").exists, LONG_S * 2)
    thing.close(agree=False)
    return []


def grouped(rank: int, *case: Any) -> list[str]:
    return outcome(rank, GROUPED, *case)


def alone(rank: int, *case: Any) -> list[str]:
    return outcome(rank, ALONE, *case)
