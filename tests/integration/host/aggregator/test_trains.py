# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs whose packets travel in trains, on loopback and over a cable with offloads and without: the same bits."""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sumwire
import torch
from commonlib.events import ProgramEvent
from helpers.aggregator.served import every_op_mapping, serving
from helpers.logs import lines_of, of
from helpers.transport.udp_bridge import configs, run_workers
from sumwire.transport.stats import JobStats
from sumwire.wire import batch
from torch import Tensor

_CLONE_NEWNET = 0x40000000
_OFFLOADS = ("tx", "rx", "sg", "tso", "gso", "gro")


@dataclass(frozen=True)
class Wire:
    """The far end is in ``namespace``. Addresses begin with ``prefix``; .1 to .32 are here, and .250 is there."""

    namespace: str
    prefix: str

    def mapping(self, mapping: dict[str, Any]) -> dict[str, Any]:
        """A job file with its addresses moved to the pair."""
        addresses = [
            {**entry, "ip": f"{self.prefix}.{1 + entry['worker']}", "aggregator": f"{self.prefix}.250"}
            for entry in mapping["addresses"]
        ]
        return {**mapping, "addresses": addresses}

    def there(self, make: Callable[[], Any]) -> Any:
        """What ``make`` makes in the namespace: sockets stay in it."""
        made: list[Any] = []

        def run() -> None:
            with Path(f"/run/netns/{self.namespace}").open("rb") as namespace:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(namespace.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
            made.append(make())

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return made[0]


def _do(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@contextmanager
def veth(*, offloads: bool) -> Iterator[Wire]:
    number = os.getpid() % 60000
    name, wire = f"tr{number}", Wire(f"trains{number}", f"10.{128 + number // 250 % 100}.{number % 250}")
    far = ("ip", "netns", "exec", wire.namespace)
    state = "on" if offloads else "off"
    _do("ip", "netns", "add", wire.namespace)
    try:
        _do("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p", "netns", wire.namespace)
        for there, end in (((), name), (far, f"{name}p")):
            _do(*there, "ethtool", "-K", end, *(word for offload in _OFFLOADS for word in (offload, state)))
            _do(*there, "ip", "link", "set", end, "up")
        for worker in range(1, 33):
            _do("ip", "address", "add", f"{wire.prefix}.{worker}/24", "dev", name)
        _do(*far, "ip", "address", "add", f"{wire.prefix}.250/24", "dev", f"{name}p")
        yield wire
    finally:
        subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)
        _do("ip", "netns", "del", wire.namespace)


WORKERS = 3
LENGTH = 400_000
SLOTS = 512

Outcome = tuple[list[Tensor], JobStats]


def run(mapping: dict[str, Any], *, loss: float = 0.0, wire: Wire | None = None) -> list[Outcome]:
    """A THC mean and an exact one of each worker."""
    generator = torch.Generator().manual_seed(3)
    xs = [torch.randn(LENGTH, generator=generator) for _ in range(WORKERS)]
    if wire is not None:
        mapping = wire.mapping(mapping)

    def work(worker: int) -> Outcome:
        with sumwire.Job(configs(mapping)[worker], fallback="never", deadline_s=20.0) as job:
            return [job.reduce(xs[worker])[0], job.mean(xs[worker])], job.stats

    with serving(mapping, loss, within=None if wire is None else wire.there):
        return run_workers(work, WORKERS)


@pytest.fixture(scope="module")
def singly() -> list[Tensor]:
    """The means where nothing travels in trains."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "UDP_SEGMENT", 9999)
        patch.setattr(batch, "UDP_GRO", 9999)
        outcomes = run(every_op_mapping(WORKERS, SLOTS))
    for _, stats in outcomes:
        assert stats.messages_sent == stats.packets_sent > 700
        assert stats.messages_received == stats.packets_received > 700
        assert stats.without_trains == 2
    return outcomes[0][0]


def assert_same(outcomes: list[Outcome], expected: list[Tensor]) -> None:
    for means, _ in outcomes:
        assert all(torch.equal(mean, other) for mean, other in zip(means, expected, strict=True))


@pytest.mark.cc
def test_trains_both_ways_on_loopback(singly: list[Tensor]) -> None:
    """Fails where workers, or the aggregator, send or receive packets one by one."""
    outcomes = run(every_op_mapping(WORKERS, SLOTS))
    assert_same(outcomes, singly)
    for _, stats in outcomes:
        assert stats.packets_sent > 4 * stats.messages_sent
        assert stats.packets_received > 4 * stats.messages_received
        assert stats.without_trains == 0


@pytest.mark.cc
def test_lost_trains_and_packets_change_no_bit(singly: list[Tensor]) -> None:
    mapping = every_op_mapping(WORKERS, SLOTS)
    outcomes = run(mapping, loss=0.03)
    assert_same(outcomes, singly)
    assert sum(stats.retransmissions for _, stats in outcomes) > 0


@pytest.mark.cc
@pytest.mark.root
@pytest.mark.parametrize("offloads", [True, False], ids=["offloads", "no offloads"])
def test_over_a_cable(singly: list[Tensor], offloads: bool) -> None:
    """Without offloads the kernel cuts the trains before they leave, and the receiver gets packets one by one."""
    with veth(offloads=offloads) as wire:
        outcomes = run(every_op_mapping(WORKERS, SLOTS), wire=wire)
    assert_same(outcomes, singly)
    for _, stats in outcomes:
        assert stats.packets_sent > 4 * stats.messages_sent
        if offloads:
            assert stats.packets_received > 4 * stats.messages_received
        else:
            assert stats.packets_received == stats.messages_received


def test_going_one_by_one_is_said_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(batch, "UDP_SEGMENT", 9999)
    mapping = every_op_mapping(1, 64)
    with serving(mapping), caplog.at_level(logging.WARNING, "sumwire"), sumwire.Job(configs(mapping)[0]) as job:
        for _ in range(3):
            job.mean(torch.ones(10_000))
        assert job.stats.without_trains == 1
    [said] = [text for text in caplog.messages if "one by one" in text]
    assert "sends" in said and "ethtool" in said
    [line] = of(lines_of(caplog.records), ProgramEvent.TRAINS_MISSING)
    assert (line["job"], line["worker"]) == (mapping["job"], 0)
