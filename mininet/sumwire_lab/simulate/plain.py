# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""All-reduces among hosts: a ring, halving-doubling, and a parameter server, by messages and their shares of links.

Messages are those of gloo, over TCP in full frames. A message begins when what it needs has arrived; each host does one
step after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from sumwire_lab.options.fabric import Fabric
from sumwire_lab.simulate.costs import Costs
from sumwire_lab.simulate.shares import Floats, Uses, Whole, capacities, fair_rates, flows_between
from sumwire_lab.simulate.systems import System, tcp_frames

# Of the flows given: units a second, shape (flows,).
Rates = Callable[[Uses], Floats]
_BITS: Final = 8


@dataclass(frozen=True)
class Plain:
    """One all-reduce. ``up_bytes``, ``down_bytes``: of the busiest worker's link, headers included."""

    seconds: float
    up_bytes: float
    down_bytes: float
    limit: str


def plain_reduce(fabric: Fabric, system: System, values: int, costs: Costs, rates: Rates | None = None) -> Plain:
    """Return an all-reduce of so many values. ``rates``: of flows beside other traffic; None where there is none."""
    if fabric.workers == 1:
        return Plain(0.0, 0.0, 0.0, "one worker")
    whole = tcp_frames(values * system.value_bytes, fabric)
    if system.way == "parameter server":
        found = _by_server(fabric, whole)
    else:
        rounds = _rounds(fabric, system.way) if rates is None else _WAYS[system.way](fabric, rates)
        found = _by_rounds(rounds, whole, fabric)
    # Every host adds, sends and receives its values while others' messages travel.
    worked = values * costs.plain_s + costs.operation_s
    if costs.cores:
        worked *= max(1.0, fabric.workers / costs.cores)
    seconds = costs.whole_s(found.transfer_s, worked) + found.waits_s + found.messages * costs.trip_s
    return Plain(
        seconds, found.octets, found.octets, found.limit if found.transfer_s >= worked / costs.busy else "host"
    )


@dataclass(frozen=True)
class _Sent:
    """Seconds of links and of waiting, messages that follow one another, bytes of a worker, and what takes longest."""

    transfer_s: float
    waits_s: float
    messages: int
    octets: float
    limit: str


def _latency(fabric: Fabric, sources: Whole, targets: Whole) -> Floats:
    """Seconds of the first frame from link to link beyond the first link's: shape (messages,)."""
    frame = tcp_frames(fabric.mtu + 0.0, fabric)
    seconds = np.full(len(sources), 2 * fabric.delay_s + _BITS * frame / fabric.rate_bit_s)
    for level in range(1, len(fabric.levels)):
        apart = sources // fabric.unit(level) != targets // fabric.unit(level)
        seconds += apart * 2 * (fabric.delay_s + _BITS * frame / fabric.trunk)
    return seconds


@dataclass(frozen=True)
class _Round:
    """Messages that all hosts send one after the other. ``part``: of the tensor, that each of them sends in all;
    ``rate``: bits a second of the slowest; ``waits_s``: what the way adds; ``messages``: how many one after the
    other."""

    part: float
    rate: float
    waits_s: float
    messages: int


def _by_rounds(rounds: Sequence[_Round], whole: float, fabric: Fabric) -> _Sent:
    transfer, longest = 0.0, (0.0, "")
    for one in rounds:
        took = _BITS * one.part * whole / one.rate
        transfer += took
        named = "uplink" if one.rate >= fabric.rate_bit_s * (1 - _NEAR) else "shared link"
        longest = max(longest, (took, named), (one.waits_s, "steps"))
    waits, messages = sum(one.waits_s for one in rounds), sum(one.messages for one in rounds)
    return _Sent(transfer, waits, messages, whole * sum(one.part for one in rounds), longest[1])


def _ring(fabric: Fabric, rates: Rates) -> tuple[_Round, ...]:
    """Each host sends 2 (n - 1) parts of 1/n to the next. Each message waits for the one before it, so the link with
    the smallest share holds up all, and waits add up around the ring."""
    workers = fabric.workers
    hosts = np.arange(workers, dtype=np.int64)
    after = (hosts + 1) % workers
    slowest = float(rates(flows_between(fabric, hosts, after)).min())
    waits = 2 * (workers - 1) * float(_latency(fabric, hosts, after).mean())
    return (_Round(2 * (workers - 1) / workers, slowest, waits, 2 * (workers - 1)),)


def _halving(fabric: Fabric, rates: Rates) -> tuple[_Round, ...]:
    """Pairs at distance 1, 2, 4, ... exchange a half, a quarter, ... and sum; then the same backward. Hosts beyond a
    power of two give their values to a partner first, and get the sums from it."""
    power = 1 << (fabric.workers.bit_length() - 1)
    hosts = np.arange(power, dtype=np.int64)
    pairs = [(2 / (2 << index), hosts, hosts ^ (1 << index)) for index in range(power.bit_length() - 1)]
    if more := fabric.workers - power:
        extra = np.arange(power, fabric.workers, dtype=np.int64)
        pairs += [(1.0, extra, hosts[:more]), (1.0, hosts[:more], extra)]
    made = []
    for part, here, there in pairs:
        slowest, wait = rates(flows_between(fabric, here, there)).min(), _latency(fabric, here, there).max()
        messages = 2 if len(here) == power else 1
        made.append(_Round(part, float(slowest), messages * float(wait), messages))
    return tuple(made)


_WAYS: Final = {"ring": _ring, "halving-doubling": _halving}
_NEAR: Final = 1e-9


@lru_cache(maxsize=64)
def _rounds(fabric: Fabric, way: str) -> tuple[_Round, ...]:
    """Without other traffic they depend on the fabric alone."""
    return _WAYS[way](fabric, lambda uses: fair_rates(capacities(fabric), uses))


def _by_server(fabric: Fabric, whole: float) -> _Sent:
    """All send their values to a server at the top switch, and get the sums when it has all of them."""
    seconds = [_BITS * fabric.workers * whole / fabric.server]
    frame = _BITS * tcp_frames(fabric.mtu + 0.0, fabric)
    waits = 4 * fabric.delay_s + 2 * frame / fabric.rate_bit_s
    for level in range(1, len(fabric.levels)):
        below = min(fabric.unit(level), fabric.workers)
        seconds.append(_BITS * below * whole / fabric.trunk / fabric.ways(level))
        waits += 2 * (fabric.delay_s + frame / fabric.trunk)
    seconds.append(_BITS * whole / fabric.rate_bit_s)
    slowest = max(seconds)
    limit = ("server's link", *["trunk"] * (len(seconds) - 2), "uplink")[seconds.index(slowest)]
    return _Sent(2 * slowest, waits, 2, whole, limit)
