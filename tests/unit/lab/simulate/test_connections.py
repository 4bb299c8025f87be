# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Connections of the packet engine (simulate/native/flows.c and its neighbours): exact where arithmetic says what must
come out, and elsewhere as the papers have it."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pytest
from sumwire_lab.simulate.native import NONE, engine
from sumwire_lab.simulate.network import MESSAGE, PS, Tasks

CUBIC, BBR, DCTCP, PFABRIC, NDP = range(5)
CONTROLS = {"cubic": CUBIC, "bbr": BBR, "dctcp": DCTCP, "pfabric": PFABRIC, "ndp": NDP}
SPRAYS = 0x80
FIFO, LEVELS, SMALLEST = range(3)
HOST, SWITCH = 0, 1
SEGMENT, HEADER = 1460, 40
WHOLE = SEGMENT + HEADER
US, MS = PS // 1_000_000, PS // 1000


@dataclass(frozen=True)
class Wire:
    """One direction of a link. ``delay``, ``varies``: picoseconds; ``most_bytes``, ``most_packets``: of its queue."""

    rate: int
    delay: int = 0
    most_bytes: int = NONE
    most_packets: int = NONE
    mark: int = NONE
    trim: int = 0
    order: int = FIFO
    loss: float = 0.0
    varies: int = 0


class Net:
    """Hosts and switches with flows between them. To be closed."""

    def __init__(self, seed: int = 1) -> None:
        self.native = engine()
        self.sim = self.native.sim_new(seed)
        self.tasks = Tasks()

    def link(self, node: int, wire: Wire) -> int:
        number: int = self.native.sim_link(
            self.sim, wire.rate, wire.delay, 0, node, NONE, NONE, wire.most_bytes, wire.most_packets, wire.mark,
            wire.trim, wire.order, int(wire.loss * 2**32),
        )  # fmt: skip
        self.native.sim_vary(self.sim, number, wire.varies)
        return number

    def node(self, kind: int) -> int:
        return int(self.native.sim_node(self.sim, kind))

    def routes(self, switch: int, nodes: int, routes: dict[int, tuple[int, int]]) -> None:
        array = np.full((nodes, 2), NONE, np.uint32)
        for target, route in routes.items():
            array[target] = route
        self.native.sim_routes(self.sim, switch, array.ctypes.data)

    def flow(self, source: int, target: int, control: int, rate: int = 0) -> int:
        return int(self.native.sim_flow(self.sim, source, target, control, SEGMENT, HEADER, 0, rate))

    def message(self, flow: int, octets: int, *after: int) -> int:
        return self.tasks.add(MESSAGE, flow, octets, after)

    def run(self, until: int = 1 << 62) -> bool:
        tasks, following = self.tasks.arrays(np.dtype(self.native.task))
        self.native.sim_tasks(self.sim, len(tasks), tasks.ctypes.data, len(following), following.ctypes.data)
        self.native.sim_start(self.sim)
        return self.go_on(until)

    def go_on(self, until: int = 1 << 62) -> bool:
        return bool(self.native.sim_run(self.sim, until, 10**8))

    def ended(self, task: int) -> int:
        address = self.native.sim_task_array(self.sim) + task * ctypes.sizeof(self.native.task)
        return int(self.native.task.from_address(address).ended)

    def counts(self, flow: int) -> Counts:
        counts = (ctypes.c_uint64 * 5)()
        self.native.sim_flow_counts(self.sim, flow, ctypes.addressof(counts))
        return Counts(*counts)

    def packets(self, link: int) -> int:
        address = self.native.sim_link_array(self.sim) + link * ctypes.sizeof(self.native.link)
        return int(self.native.link.from_address(address).packets)

    def events(self) -> int:
        totals = self.native.totals()
        self.native.sim_totals(self.sim, totals)
        return int(totals.events)

    def close(self) -> None:
        self.native.sim_free(self.sim)


@dataclass(frozen=True)
class Counts:
    segments: int
    repeats: int
    timeouts: int
    probes: int
    received: int


class Star(Net):
    """Hosts at one switch; the first one's link towards it is the bottleneck of all."""

    def __init__(self, hosts: int, up: Wire, down: Wire, seed: int = 1) -> None:
        super().__init__(seed)
        self.hosts = [self.node(HOST) for _ in range(hosts)]
        switch = self.node(SWITCH)
        self.ups = [self.link(switch, up) for _ in self.hosts]
        for host, link in enumerate(self.ups):
            self.native.sim_outbox(self.sim, host, link)
        self.downs = [self.link(host, down) for host in self.hosts]
        self.routes(switch, hosts + 1, {host: (down, 1) for host, down in enumerate(self.downs)})

    def backlog(self) -> float:
        """Whole segments that wait for the first host."""
        return float(self.native.sim_backlog(self.sim, self.downs[0])) / WHOLE


class Ways(Net):
    """Two hosts, and several ways between their switches."""

    def __init__(self, ways: list[Wire], seed: int) -> None:
        super().__init__(seed)
        self.hosts = [self.node(HOST), self.node(HOST)]
        switches = [self.node(SWITCH), self.node(SWITCH)]
        self.ways = []
        for here in (0, 1):
            self.native.sim_outbox(self.sim, here, self.link(switches[here], Wire(ways[0].rate, US)))
            down = self.link(here, Wire(ways[0].rate, US))
            self.ways.append([self.link(switches[1 - here], way) for way in ways])
            self.routes(switches[here], 4, {here: (down, 1), 1 - here: (self.ways[here][0], len(ways))})


def wires(control: int, rate: int, delay: int) -> tuple[Wire, Wire]:
    """Up and down: with the queues that a control is made for."""
    if control == PFABRIC:
        return Wire(rate, delay, order=SMALLEST), Wire(rate, delay, 24 * WHOLE, order=SMALLEST)
    if control == NDP:
        return Wire(rate, delay, order=LEVELS), Wire(rate, delay, most_packets=8, trim=64, order=LEVELS)
    return Wire(rate, delay), Wire(rate, delay, 100 * WHOLE, mark=20 * WHOLE)


def fairness(shares: list[int]) -> float:
    """Jain's index: 1 if all are equal."""
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))


@pytest.fixture(params=list(CONTROLS.values()), ids=list(CONTROLS))
def control(request: pytest.FixtureRequest) -> Iterator[int]:
    yield request.param


def test_one_flow_takes_the_time_of_its_bytes(control: int) -> None:
    rate, delay = 10_000_000_000, US
    wire = WHOLE * 8 * PS // rate
    with closing(Star(2, *wires(control, rate, delay))) as net:
        flow = net.flow(1, 0, control, rate)
        first = net.message(flow, 10 * SEGMENT)
        short = net.message(flow, 7 * SEGMENT + 1, first)
        warm = net.message(flow, 1000 * SEGMENT, short)
        long = net.message(flow, 1000 * SEGMENT, warm)
        assert net.run()
        # No handshake; a switch passes on whole packets, so one of them takes its time twice.
        assert net.ended(first) == 11 * wire + 2 * delay
        assert net.ended(short) - net.ended(first) == 8 * wire + (HEADER + 1) * 8 * PS // rate + 2 * delay
        assert net.ended(long) - net.ended(warm) == 1001 * wire + 2 * delay
        assert net.counts(flow) == Counts(2018, 0, 0, 0, 2017 * SEGMENT + 1)


def test_a_message_without_bytes_is_a_header() -> None:
    with closing(Star(2, *wires(CUBIC, 8_000_000, 0))) as net:
        message = net.message(net.flow(1, 0, CUBIC), 0)
        assert net.run()
        assert net.ended(message) == 2 * HEADER * US


@dataclass(frozen=True)
class Shared:
    """What eight flows got of a link of 100 Mbit/s with a queue of 100 segments, marked from 20 on, and by bits of it;
    and what waited: the 5th, 50th and 95th of 100."""

    fairness: float
    used: float
    waiting: list[float]


def share(control: int) -> Shared:
    rate, seconds = 100_000_000, 10 * PS
    up = Wire(10 * rate, MS, varies=3 * WHOLE * 8 * PS // rate)
    with closing(Star(9, up, wires(control, rate, MS)[1])) as net:
        flows = [net.flow(host, 0, control) for host in net.hosts[1:]]
        for flow in flows:
            net.message(flow, 1 << 40)
        net.run(seconds)
        before = [net.counts(flow).received for flow in flows]
        waiting = []
        for step in range(1000):
            net.go_on(seconds + (step + 1) * 2 * seconds // 1000)
            waiting.append(net.backlog())
        got = [net.counts(flow).received - then for flow, then in zip(flows, before, strict=True)]
    used = sum(got) * 8 / (2 * seconds / PS) / rate * WHOLE / SEGMENT
    return Shared(fairness(got), used, [float(one) for one in np.quantile(waiting, [0.05, 0.5, 0.95])])


def test_flows_share_a_bottleneck() -> None:
    shared = {control: share(control) for control in (CUBIC, BBR, DCTCP)}
    for control, one in shared.items():
        assert one.fairness > 0.98, control
        assert one.used > 0.99, control
    least, usual, most = shared[CUBIC].waiting
    assert least > 60 and usual > 80 and most > 95, "CUBIC fills the queue"
    least, usual, most = shared[DCTCP].waiting
    assert least > 5 and 15 < usual < 35 and most < 45, "DCTCP stays near the mark"
    assert shared[BBR].waiting[2] < 90, "BBR does not fill it"


def throughput(control: int, loss: float, round_trip: int, seconds: int) -> float:
    """Bits a second of one flow with losses on both of its links, of 100 Mbit/s."""
    wire = Wire(100_000_000, round_trip // 4, loss=loss / 2)
    with closing(Star(2, wire, wire)) as net:
        flow = net.flow(1, 0, control)
        net.message(flow, 1 << 40)
        net.run(seconds * PS)
        return net.counts(flow).received * 8 / seconds


def test_losses_slow_cubic_down_as_its_formula_says() -> None:
    for loss, milliseconds in itertools.product((0.001, 0.01), (20, 100)):
        seconds = milliseconds / 1000
        # RFC 9438, sections 4.3 and 5.1: segments in flight as Reno would have them, and as CUBIC has them.
        expected = max(1.22 / loss**0.5, 1.054 * (seconds / loss) ** 0.75) * SEGMENT * 8 / seconds
        measured = throughput(CUBIC, loss, milliseconds * MS, 300)
        assert expected / 1.5 < measured < expected * 1.5, (loss, milliseconds)


def test_losses_do_not_slow_bbr_down() -> None:
    assert throughput(BBR, 0.01, 20 * MS, 60) > 0.85 * 100_000_000


def incast(control: int, size: int, senders: int = 32) -> tuple[float, int, int]:
    """Hosts send at once to one at 10 Gbit/s. Returns the time by the least possible, the time-outs, and what was sent
    again."""
    rate = 10_000_000_000
    with closing(Star(senders + 1, *wires(control, rate, 5 * US))) as net:
        flows = [net.flow(host, 0, control, rate) for host in net.hosts[1:]]
        messages = [net.message(flow, size * SEGMENT) for flow in flows]
        assert net.run()
        least = senders * size * WHOLE * 8 * PS // rate
        counts = [net.counts(flow) for flow in flows]
        return (
            max(net.ended(message) for message in messages) / least,
            sum(one.timeouts for one in counts),
            sum(one.repeats for one in counts),
        )


def test_ndp_takes_an_incast_at_the_links_rate() -> None:
    for size in (40, 300):
        time, timeouts, repeats = incast(NDP, size)
        assert time < 1.05 and timeouts == 0
        assert repeats > 100, "queues of 8 trimmed the first windows"


def test_tcp_waits_for_time_outs_in_an_incast() -> None:
    time, timeouts, _ = incast(CUBIC, 40)
    assert time > 50 and timeouts > 0
    time, timeouts, _ = incast(PFABRIC, 40)
    assert time < 1.2 and timeouts > 0, "those of pFabric are short"


def test_a_flows_own_packets_keep_their_order_with_pfabric() -> None:
    """Later segments are more urgent. If they passed earlier ones, these would time out."""
    time, timeouts, _ = incast(PFABRIC, 40, 8)
    assert time < 1.2 and timeouts < 26


def test_pulls_come_at_the_receivers_pace() -> None:
    """Of two flows to one receiver each gets half of its link, without more trimming than by their first windows."""
    rate = 10_000_000_000
    with closing(Star(3, *wires(NDP, rate, 5 * US))) as net:
        flows = [net.flow(host, 0, NDP, rate) for host in (1, 2)]
        messages = [net.message(flow, 5000 * SEGMENT) for flow in flows]
        assert net.run()
        first, last = sorted(net.ended(message) for message in messages)
        assert last < 1.01 * 2 * 5000 * WHOLE * 8 * PS / rate
        assert last - first < 0.01 * last
        assert sum(net.counts(flow).repeats for flow in flows) < 40


def test_a_pull_is_sent_for_each_segment_behind_the_first_window() -> None:
    rate = 10_000_000_000
    for size, pulls in ((3, 0), (100, 100 - 6)):
        with closing(Star(2, *wires(NDP, rate, US))) as net:
            net.message(net.flow(1, 0, NDP, rate), size * SEGMENT)
            assert net.run()
            # A round trip is two wires of a segment, two of an ACK, and four delays: 6.464 us, less than 6 segments.
            assert net.packets(net.ups[0]) == size + pulls, size


def test_headers_and_segments_have_queues_of_their_own() -> None:
    """Where packets are trimmed: a burst of 10 headers does not need the places of 2 segments."""
    rate = 1_000_000_000
    down = Wire(rate, US, 2 * WHOLE, 2, trim=64, order=LEVELS)
    with closing(Star(3, Wire(10 * rate, US), down)) as net:
        flow = net.flow(1, 0, CUBIC)
        for _ in range(10):
            net.message(flow, 0)
        full = net.flow(2, 0, NDP, rate)
        net.message(full, 3 * SEGMENT)
        assert net.run()
        assert net.counts(flow).repeats == 0
        assert net.counts(full).repeats == 0


def test_time_outs_back_off() -> None:
    """A second at first, then twice as long each time, and two minutes at most."""
    with closing(Star(2, Wire(1_000_000, loss=1 - 2**-31), Wire(1_000_000))) as net:
        flow = net.flow(1, 0, CUBIC)
        net.message(flow, SEGMENT)
        net.run(0)
        for timeouts, seconds in enumerate((1, 3, 7, 15, 31, 63, 127, 247, 367)):
            net.go_on(seconds * PS - 1)
            assert net.counts(flow).timeouts == timeouts
            net.go_on(seconds * PS)
            assert net.counts(flow).timeouts == timeouts + 1


def short_beside_long(control: int) -> float:
    """The time of a short message that finds the link taken by two long ones, by the least possible."""
    rate, delay = 10_000_000_000, 5 * US
    with closing(Star(4, *wires(control, rate, delay))) as net:
        for host in (1, 3):
            net.message(net.flow(host, 0, control, rate), 10_000 * SEGMENT)
        begin = net.tasks.work(0.005)
        short = net.message(net.flow(2, 0, control, rate), 20 * SEGMENT, begin)
        assert net.run()
        return (net.ended(short) - 5 * MS) / (21 * WHOLE * 8 * PS // rate + 2 * delay)


def test_pfabric_lets_short_messages_pass() -> None:
    assert short_beside_long(PFABRIC) < 1.2
    assert short_beside_long(CUBIC) > 2


def test_a_window_is_kept_and_decays_in_a_pause() -> None:
    rate, size = 1_000_000_000, 400 * SEGMENT
    with closing(Star(2, Wire(rate, 2 * MS), Wire(rate, 2 * MS))) as net:
        flow = net.flow(1, 0, CUBIC)
        first = net.message(flow, size)
        kept = net.message(flow, size, first)
        paused = net.tasks.work(10.0, (kept,))
        late = net.message(flow, size, paused)
        assert net.run()
        times = net.ended(first), net.ended(kept) - net.ended(first), net.ended(late) - net.ended(kept) - 10 * PS
    assert times[1] < times[0] / 2
    assert times[2] == times[0]


def test_a_probe_finds_lost_ends() -> None:
    """Of a burst the last two do not find room. Nothing comes after them, but a time-out would take 200 ms."""
    rate = 100_000_000
    with closing(Star(2, Wire(100 * rate, US), Wire(rate, US, most_packets=8))) as net:
        flow = net.flow(1, 0, CUBIC)
        known = net.message(flow, SEGMENT)
        burst = net.message(flow, 10 * SEGMENT, known)
        assert net.run()
        assert net.ended(burst) < 10 * MS
        counts = net.counts(flow)
        assert counts.probes == 1 and counts.timeouts == 0 and counts.repeats == 2


def test_three_later_acks_show_a_loss() -> None:
    """Within a round trip or two, without any timer."""
    rate = 100_000_000
    with closing(Star(2, Wire(100 * rate, US), Wire(rate, US, most_packets=15))) as net:
        flow = net.flow(1, 0, CUBIC)
        message = net.message(flow, 200 * SEGMENT)
        assert net.run()
        counts = net.counts(flow)
        assert counts.repeats > 0 and counts.probes == 0 and counts.timeouts == 0
        assert net.ended(message) < 1.1 * 200 * WHOLE * 8 * PS / rate


def test_sprayed_packets_take_all_ways_and_others_one() -> None:
    ways = [Wire(1_000_000_000, US)] * 4
    for control, used in ((CUBIC, 1), (CUBIC | SPRAYS, 4), (NDP, 4), (PFABRIC, 4)):
        with closing(Ways(ways, 1)) as net:
            net.message(net.flow(0, 1, control, ways[0].rate), 100 * SEGMENT)
            assert net.run()
            assert sum(net.packets(way) > 0 for way in net.ways[0]) == used


SIZES = (1, 0, 100_000, SEGMENT, 200_000, 5)


def disturbed(control: int, seed: int) -> tuple[Net, int, list[int]]:
    """Messages over four ways of different lengths that lose much, and as many back."""
    up, down = wires(control, 1_000_000_000, 0)
    loss = (0.02, 0.2)[seed % 2]
    delays = (1, 5, 30, 300)
    ways = [
        Wire(up.rate, delay * US, 14 * WHOLE, trim=down.trim, order=down.order, mark=3 * WHOLE, loss=loss)
        for delay in delays
    ]
    net = Ways(ways, seed)
    there, back = net.flow(0, 1, control | SPRAYS, up.rate), net.flow(1, 0, control | SPRAYS, up.rate)
    messages = [net.message(there, size) for size in SIZES]
    net.message(back, 300_000, messages[2])
    assert net.run(), (control, seed)
    return net, there, messages


def test_every_byte_arrives_once_and_in_order(control: int) -> None:
    for seed in range(200):
        net, flow, messages = disturbed(control, seed)
        with closing(net):
            counts = net.counts(flow)
            assert counts.received == sum(SIZES), seed
            assert counts.segments - counts.repeats == sum(max(1, -(-size // SEGMENT)) for size in SIZES), seed
            ends = [net.ended(message) for message in messages]
            assert ends == sorted(ends), seed


def test_a_seed_replays_a_run(control: int) -> None:
    runs = []
    for seed in (3, 3, 5):
        net, flow, messages = disturbed(control, seed)
        with closing(net):
            runs.append((net.events(), net.counts(flow), [net.ended(message) for message in messages]))
    assert runs[0] == runs[1] != runs[2]
