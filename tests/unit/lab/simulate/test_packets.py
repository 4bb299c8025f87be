# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The packet engine: times that arithmetic knows to the nanosecond, what losses and queues do, and equal runs."""

from __future__ import annotations

import ctypes
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sumwire_lab.errors import LabError
from sumwire_lab.options.conditions import BACKGROUND_BUFFER
from sumwire_lab.options.fabric import Fabric
from sumwire_lab.options.simulate_options import CONTROLS, ORDERS
from sumwire_lab.simulate import flows, native
from sumwire_lab.simulate.costs import Costs
from sumwire_lab.simulate.native import engine
from sumwire_lab.simulate.network import EXCHANGE, MESSAGE, WORK, HostCosts, Network, Queues
from sumwire_lab.simulate.packets import Passes, Simulated, train
from sumwire_lab.simulate.systems import exchanges_of, system_of
from sumwire_lab.simulate.workloads import Bucket
from sumwire_protocol.ops import THC

NANOSECOND = 1e-9
GIGABIT = Fabric(workers=4, rate_bit_s=1e9, delay_s=1e-6)
TREES = [
    GIGABIT,
    replace(GIGABIT, workers=1, levels=()),
    Fabric(workers=6, levels=(2, 3), rate_bit_s=1e9, delay_s=1e-6),
    Fabric(workers=5, levels=(2, 3), rate_bit_s=1e9, delay_s=1e-6, spines=2),
    Fabric(workers=8, levels=(2, 2, 2), rate_bit_s=1e9, delay_s=1e-6),
]
NONE = Costs()


def one(values: int, **options: Any) -> Passes:
    return Passes(0.0, 0.0, [Bucket(values, 0.0)], **options)


def thc(fabric: Fabric, values: int, **options: Any) -> Simulated:
    return train(fabric, system_of("thc"), one(values), options.pop("costs", NONE), **options)


def wires(octets: int, fabric: Fabric) -> float:
    return 8 * octets / fabric.rate_bit_s


# -- times -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fabric", TREES, ids=str)
def test_an_exchange_takes_what_its_links_take(fabric: Fabric) -> None:
    packets = exchanges_of(system_of("thc"), fabric, THC.values)[-1]
    hops = len(fabric.levels) - 1
    one_way = (
        wires(packets.up, fabric) + hops * wires(packets.partial, fabric) + (hops + 1) * wires(packets.down, fabric)
    )
    first = one_way + 2 * (hops + 1) * fabric.delay_s
    # A chunk of norms and one of values, right behind it on the slowest link.
    assert packets.count == 2
    assert thc(fabric, THC.values).comm_s[0] == pytest.approx(first + wires(packets.down, fabric), abs=NANOSECOND)


@pytest.mark.parametrize("values", [40_000, 1_000_000])
def test_a_saturated_link_is_busy_without_a_gap(values: int) -> None:
    packets = exchanges_of(system_of("marsit"), GIGABIT, values)[0]
    slowest = max(packets.up, packets.down)
    first = wires(packets.up + packets.down, GIGABIT) + 2 * GIGABIT.delay_s
    found = train(GIGABIT, system_of("marsit"), one(values), NONE)
    assert found.comm_s[0] == pytest.approx(first + (packets.count - 1) * wires(slowest, GIGABIT), abs=NANOSECOND)


def test_two_slots_let_one_chunk_pass_in_a_round_trip() -> None:
    packets = exchanges_of(system_of("marsit"), GIGABIT, 100_000)[0]
    first = wires(packets.up + packets.down, GIGABIT) + 2 * GIGABIT.delay_s
    found = train(GIGABIT, system_of("marsit"), one(100_000), NONE, slots=2)
    assert found.comm_s[0] == pytest.approx(packets.count * first, abs=NANOSECOND)


def test_a_server_gets_all_contributions_over_one_link() -> None:
    fabric = replace(GIGABIT, workers=8, levels=())
    packets = exchanges_of(system_of("marsit@server"), fabric, 1_000)[0]
    assert packets.count == 1
    up, down = wires(packets.up, fabric), wires(packets.down, fabric)
    incast = train(fabric, system_of("marsit@server"), one(1_000), NONE)
    # All come to the server's link at once; results leave it one by one, and the mean worker waits for half of them.
    last = up + 8 * up + down * 8 + down + 4 * fabric.delay_s
    assert incast.step_s[0] == pytest.approx(last, abs=NANOSECOND)
    assert incast.comm_s[0] == pytest.approx(last - 3.5 * down, abs=NANOSECOND)


def test_processors_that_share_a_core_work_one_after_the_other() -> None:
    alone, shared = Costs(send_s=1e-3), Costs(send_s=1e-3, cores=1)
    assert thc(GIGABIT, 1_000, costs=shared).comm_s[0] > 3.5 * thc(GIGABIT, 1_000, costs=alone).comm_s[0]


def test_flows_and_packets_agree_where_one_part_is_slow() -> None:
    for fabric in TREES:
        for name in ("thc", "sum32", "marsit"):
            expected = flows.exchange(fabric, system_of(name), 300_000, NONE).seconds
            found = train(fabric, system_of(name), one(300_000), NONE).comm_s[0]
            assert found == pytest.approx(expected, rel=0.01), (fabric, name)


# -- steps -------------------------------------------------------------------------------------------------

BUCKETS = [Bucket(300_000, 0.002, 0.001), Bucket(300_000, 0.004, 0.003)]


def test_a_step_is_its_passes_and_what_they_do_not_hide() -> None:
    passes = Passes(0.004, 0.004, BUCKETS)
    lone = [train(GIGABIT, system_of("thc"), one(300_000), NONE).comm_s[0]]
    found = train(GIGABIT, system_of("thc"), passes, NONE, steps=2)
    for step_s in found.step_s:
        # The second bucket is ready before the first exchange has ended.
        assert step_s == pytest.approx(0.004 + 0.002 + 2 * lone[0], rel=0.01)


def test_a_slow_worker_holds_up_all() -> None:
    slow = np.ones((1, 4))
    slow[0, 2] = 3.0
    usual = train(GIGABIT, system_of("thc"), Passes(0.004, 0.004, BUCKETS), NONE)
    found = train(GIGABIT, system_of("thc"), Passes(0.004, 0.004, BUCKETS, slow), NONE)
    assert found.step_s[0] >= usual.step_s[0] + 2 * 0.006 - NANOSECOND


def test_passes_share_cores_and_give_way_to_packets() -> None:
    passes = Passes(0.02, 0.02, [Bucket(300_000, 0.02)])
    shared = train(GIGABIT, system_of("thc"), passes, Costs(send_s=1e-6, cores=2), steps=2)
    assert shared.step_s[0] >= 4 * 0.04 / 2
    assert 0.5 < shared.busy / 2 <= 1
    # Without slices the packets of a worker that is ready would wait for the whole passes of another.
    lone = train(GIGABIT, system_of("thc"), passes, Costs(send_s=1e-6), steps=2)
    assert shared.step_s[0] <= 2 * lone.step_s[0] + 4 * 0.003


def test_an_early_forward_pass_waits_for_its_own_bucket() -> None:
    whole = train(GIGABIT, system_of("thc"), Passes(0.004, 0.004, BUCKETS), NONE, steps=6)
    queues = Queues("levels")
    early = Passes(0.004, 0.004, BUCKETS, lanes=2, early=True)
    found = train(GIGABIT, system_of("thc"), early, NONE, steps=6, queues=queues)
    assert sum(found.step_s) < 0.96 * sum(whole.step_s)


# -- losses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fabric", [replace(one, loss=0.02) for one in TREES], ids=str)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_lost_is_sent_again(fabric: Fabric, seed: int) -> None:
    whole = thc(replace(fabric, loss=0.0), 200_000)
    lossy = thc(fabric, 200_000, seed=seed)
    assert whole.resent == 0
    assert lossy.resent > 0
    assert lossy.comm_s[0] >= whole.comm_s[0]


def test_marks_shorten_queues_only_where_windows_are_limited() -> None:
    fabric, server = replace(GIGABIT, workers=8, levels=()), system_of("thc@server")
    free, limited = (
        train(fabric, server, one(2_000_000), NONE, queues=Queues(mark_bytes=20_000), limited=limits)
        for limits in (False, True)
    )
    assert limited.packets < free.packets


def test_a_host_does_not_lose_what_it_sends() -> None:
    """Half of the slots are 2 MB of long packets, twice what a queue holds."""
    fabric = replace(GIGABIT, mtu=9000)
    assert thc(fabric, 20_000_000).resent == 0
    # Results as long as contributions do not wait at the switch's ports; those that are twice as long do.
    shallow = replace(fabric, queue_bytes=20_000)
    assert thc(shallow, 5_000_000).resent == 0
    assert thc(replace(shallow, mtu=1500), 5_000_000).resent > 0


def test_a_header_without_its_payload_adds_nothing() -> None:
    """What is trimmed is sent again, as what is lost."""
    fabric, server = replace(GIGABIT, workers=8, levels=(), queue_bytes=30_000), system_of("thc@server")
    lost = train(fabric, server, one(200_000), NONE, queues=Queues("levels"))
    trimmed = train(fabric, server, one(200_000), NONE, queues=Queues("levels", trim_bytes=64))
    assert lost.resent > 1000
    assert trimmed.resent > 0.9 * lost.resent


def test_one_exchange_has_no_front_layers() -> None:
    """Marsit sends the whole model at once, so it has the whole of its slots."""
    sent = [Bucket(100_000, 0.0), Bucket(100_000, 0.01)]
    far = replace(GIGABIT, delay_s=1e-3)
    found = [
        train(far, system_of("marsit"), Passes(0.01, 0.01, sent, lanes=lanes, early=early), NONE, slots=8, steps=2)
        for lanes, early in ((1, False), (4, True))
    ]
    assert found[0] == found[1]


def test_what_takes_too_long_is_no_deadlock() -> None:
    fabric = replace(GIGABIT, rate_bit_s=1e3)
    with pytest.raises(
        LabError, match=r"system=thc: the training takes more than 1e\+06 simulated s; give fewer steps"
    ):
        thc(fabric, 200_000_000, slots=1 << 20)


def test_tasks_that_wait_for_each_other_never_end() -> None:
    network = Network(GIGABIT, NONE, HostCosts())
    network.tasks.work(1.0, (1,))
    network.tasks.work(1.0, (0,))
    assert not network.run()
    network.close()


# -- runs --------------------------------------------------------------------------------------------------


def test_equal_seeds_give_equal_runs() -> None:
    fabric = replace(GIGABIT, loss=0.05)
    assert thc(fabric, 100_000, seed=3) == thc(fabric, 100_000, seed=3)
    assert thc(fabric, 100_000, seed=3) != thc(fabric, 100_000, seed=4)


def test_wire_bytes_are_those_of_the_packets() -> None:
    packets = exchanges_of(system_of("thc"), GIGABIT, 300_000)
    expected = sum(one.count * (one.up + one.down) for one in packets)
    assert thc(GIGABIT, 300_000, steps=3).wire_bytes == expected


@pytest.mark.parametrize(
    ("header", "enum", "names"),
    [
        ("core.h", "link_order", ORDERS),
        ("flows.h", "flow_control", (*CONTROLS, "controls")),
        ("tasks.h", "task_kind", ("work", "message", "exchange")),
    ],
)
def test_numbers_are_those_of_c(header: str, enum: str, names: tuple[str, ...]) -> None:
    text = re.sub(r"//.*", "", (Path(native.__file__).parent / "native" / header).read_text())
    listed = re.search(rf"enum {enum} \{{([^}}]*)\}}", text)
    assert listed is not None
    assert tuple(re.findall(r"\w+", listed[1].lower())) == names
    assert (WORK, MESSAGE, EXCHANGE) == (0, 1, 2)


def test_a_flow_finds_the_end_of_its_host_s_queue() -> None:
    """A job's packets wait in sockets; a window of TCP grows until its host's queue, the slowest, is full."""
    fabric = replace(GIGABIT, workers=2, levels=(), queue_bytes=30_000)
    assert train(fabric, system_of("gloo"), one(3_000_000), NONE).resent > 0
    with closing(Network(fabric, NONE, HostCosts())) as network:
        flow = network.flow((0, 1), 0, 1448, 66)
        network.tasks.add(MESSAGE, flow, 5_000_000)
        assert network.run()
        assert network.flow_counts(flow)[1] > 0


# -- cross traffic -----------------------------------------------------------------------------------------


def test_cross_traffic_takes_its_share_of_each_link() -> None:
    """For a second without a job's packets. ACKs of the next host's flows come on top."""
    passes = Passes(1.0, 0.0, [Bucket(1, 0.0)])
    for share in (0.25, 0.5):
        found = train(GIGABIT, system_of("thc"), passes, NONE, background=share)
        each_way = found.wire_bytes * found.step_s[0] ** -1 / 2 * 8 / GIGABIT.rate_bit_s
        assert share * 0.99 < each_way < share * 1.06


def test_a_stream_that_is_held_up_does_not_make_up_for_it() -> None:
    """One of three times the link's rate has no more under way than its buffer, in a queue without an end."""
    with closing(Network(replace(GIGABIT, workers=2, levels=()), NONE, HostCosts(), waits=True)) as network:
        flow = network.flow((0, 1), 0, 1448, 66)
        network.stream(flow, 3 * GIGABIT.rate_bit_s / 8, 1448, BACKGROUND_BUFFER)
        network.tasks.work(0.1)
        assert network.run()
        assert network.flow_counts(flow)[4] == pytest.approx(0.1 * GIGABIT.rate_bit_s / 8 * 1448 / 1514, rel=0.05)
        assert BACKGROUND_BUFFER / 2 < network.uplink(0).queued < 1.1 * BACKGROUND_BUFFER


def test_cross_traffic_holds_up_what_does_not_come_first() -> None:
    slow = replace(GIGABIT, rate_bit_s=1e8)
    seconds = {
        (name, order, share): train(
            slow, system_of(name), one(200_000), NONE, background=share, slots=32, queues=Queues(order)
        ).comm_s[0]
        for name in ("gloo", "thc") for order in ("fifo", "levels") for share in (0.0, 0.5)
    }  # fmt: skip
    slower = {key: found / seconds[key[0], key[1], 0.0] for key, found in seconds.items() if key[2]}
    assert slower["gloo", "levels", 0.5] > 1.5, "both are untagged"
    assert slower["thc", "fifo", 0.5] > 1.5
    assert slower["thc", "levels", 0.5] < 1.03


def test_a_seed_repeats_cross_traffic() -> None:
    assert thc(GIGABIT, 100_000, background=0.5, seed=3) == thc(GIGABIT, 100_000, background=0.5, seed=3)
    assert thc(GIGABIT, 100_000, background=0.5, seed=3) != thc(GIGABIT, 100_000, background=0.5, seed=4)


def test_a_packet_under_way_takes_few_bytes() -> None:
    # A ring doubles, so at worst it has room for twice as many.
    assert 2 * ctypes.sizeof(engine().packet) <= 200
