# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Exchanges and steps: exact cases, a slow reference, what more of everything does, bytes, and wrong values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from sumwire.systems import TABLE
from sumwire_lab.errors import OptionError
from sumwire_lab.options.fabric import Fabric
from sumwire_lab.options.run_options import JUMBO_MTU
from sumwire_lab.simulate.costs import Costs
from sumwire_lab.simulate.flows import Pace, Step, Traffic, exchange, pace_of, shared_paces, step
from sumwire_lab.simulate.systems import SYSTEMS, exchanges_of, system_of
from sumwire_lab.simulate.workloads import WORKLOADS, Bucket, buckets
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import JUMBO, MAX32, ONE_TRIP_CHUNKS, SIGN, SUM32, THC

FREE = Costs()
THC_UP = (p4.BARE_BYTES + THC.up.words * p4.WORD_BYTES) * 8
THC_DOWN = (p4.BARE_BYTES + THC.down.words * p4.WORD_BYTES) * 8
ASKED = (p4.BARE_BYTES + MAX32.up.words * p4.WORD_BYTES) * 8
THC_SYSTEM, SIGNS = SYSTEMS["thc"], SYSTEMS["marsit"]


def seconds(fabric: Fabric, chunks: int, slots: int = 512, costs: Costs = FREE, name: str = "thc") -> float:
    """Of the values' exchange alone."""
    system = SYSTEMS[name]
    packets = exchanges_of(system, fabric, 1 << 24)[-1]
    return pace_of(fabric, system, packets, costs).seconds(chunks, slots)


# -- exact cases ----------------------------------------------------------------------------------------


def test_one_chunk_of_one_worker_crosses_two_links() -> None:
    fabric = Fabric(workers=1, rate_bit_s=1e9, delay_s=3e-6)
    assert seconds(fabric, 1) == pytest.approx((THC_UP + THC_DOWN) / 1e9 + 6e-6, rel=1e-12)


def test_a_saturated_link_carries_one_result_after_another() -> None:
    fabric = Fabric(workers=4, rate_bit_s=1e9)
    more = seconds(fabric, 2000) - seconds(fabric, 1000)
    assert more == pytest.approx(1000 * THC_DOWN / 1e9, rel=1e-9)


def test_one_chunk_under_way_is_one_slot_per_round_trip() -> None:
    fabric = Fabric(workers=4, rate_bit_s=1e9, delay_s=1e-3)
    assert seconds(fabric, 50, slots=2) == pytest.approx(50 * seconds(fabric, 1, slots=2), rel=1e-12)
    # An odd number of slots has one more that is never under way.
    assert seconds(fabric, 50, slots=3) == seconds(fabric, 50, slots=2)


@pytest.mark.parametrize("slots", [4, 32, 100])
def test_a_window_is_half_of_the_slots_per_round_trip(slots: int) -> None:
    fabric = Fabric(workers=4, rate_bit_s=1e9, delay_s=50e-3)
    trip = seconds(fabric, 1)
    chunks = 10 * (slots // 2)
    assert seconds(fabric, chunks, slots) == pytest.approx(10 * trip + (slots // 2 - 1) * THC_DOWN / 1e9, rel=1e-9)


def test_the_example_of_the_docstring() -> None:
    fabric = Fabric(workers=4, rate_bit_s=1e9, delay_s=1e-6)
    assert seconds(fabric, 1) == pytest.approx(15.472e-6, rel=1e-9)
    assert seconds(fabric, 1000, slots=2) == pytest.approx(15.472e-3, rel=1e-9)
    assert seconds(fabric, 1000, slots=4) == pytest.approx(15.472e-6 + 999 * 8.784e-6, rel=1e-9)


@pytest.mark.parametrize("workers", [2, 8, 1000])
def test_incast_at_a_server_takes_as_long_as_all_contributions(workers: int) -> None:
    fabric = Fabric(workers=workers, rate_bit_s=1e9, server_bit_s=1e9, delay_s=0.0)
    one = seconds(fabric, 1, name="thc@server")
    assert one == pytest.approx((1 + workers) * (THC_UP + THC_DOWN) / 1e9, rel=1e-9)
    more = seconds(fabric, 2000, 2 * 2000, name="thc@server") - seconds(fabric, 1000, 2 * 2000, name="thc@server")
    assert more == pytest.approx(1000 * workers * THC_DOWN / 1e9, rel=1e-9)


def test_a_switch_that_adds_slowly_is_the_limit() -> None:
    fabric, costs = Fabric(workers=4, rate_bit_s=1e10), Costs(add_s=43e-6)
    assert seconds(fabric, 1001, costs=costs) - seconds(fabric, 1, costs=costs) == pytest.approx(4 * 43e-3, rel=1e-9)
    packets = exchanges_of(THC_SYSTEM, fabric, 1 << 24)[-1]
    assert pace_of(fabric, THC_SYSTEM, packets, costs).limit == "switch 1"


def test_a_server_that_adds_slowly_is_the_limit() -> None:
    fabric, costs = Fabric(workers=4, rate_bit_s=1e10, server_bit_s=1e12), Costs(add_s=2e-6, copy_s=1e-6)
    more = seconds(fabric, 1001, costs=costs, name="thc@server") - seconds(fabric, 1, costs=costs, name="thc@server")
    assert more == pytest.approx(1000 * 4 * 3e-6, rel=1e-9)


def test_a_slow_host_is_the_limit_with_its_packets_and_its_codec() -> None:
    costs = Costs(send_s=1e-6, receive_s=2e-6, encode_s=3e-9, decode_s=4e-9)
    fabric = Fabric(workers=4, rate_bit_s=1e11, delay_s=0.0)
    host = 3e-6 + THC.values * 7e-9
    more = seconds(fabric, 2001, costs=costs) - seconds(fabric, 1001, costs=costs)
    assert more == pytest.approx(1000 * host, rel=1e-9)
    assert seconds(fabric, 1, costs=costs) == pytest.approx(host + (THC_UP + THC_DOWN) / 1e11, rel=1e-9)


def test_shared_cores_do_all_work_one_after_the_other() -> None:
    costs = Costs(send_s=1e-6, add_s=2e-6, cores=2)
    fabric = Fabric(workers=4, rate_bit_s=1e11, delay_s=0.0)
    per_chunk = (4 * 1e-6 + 4 * 2e-6) / 2
    assert seconds(fabric, 101, costs=costs) - seconds(fabric, 1, costs=costs) == pytest.approx(
        100 * max(per_chunk, 8e-6), rel=1e-9
    )
    one = replace(costs, cores=1)
    assert seconds(fabric, 101, costs=one) - seconds(fabric, 1, costs=one) == pytest.approx(100 * 12e-6, rel=1e-9)


def test_what_a_tensor_and_a_round_trip_cost_is_added_once() -> None:
    fabric = Fabric(workers=4, rate_bit_s=1e12, delay_s=0.0)
    slow = Costs(send_s=1e-6)

    def of(costs: Costs, values: int = 10**6) -> float:
        return exchange(fabric, THC_SYSTEM, values, costs, 4096).seconds

    assert of(replace(slow, operation_s=1e-3)) - of(slow) == pytest.approx(1e-3)
    # Of four workers on two cores, at half of their time: four times.
    shared = replace(slow, cores=2, busy=0.5)
    assert of(replace(shared, operation_s=1e-3)) - of(shared) == pytest.approx(4e-3)
    # Norms first are one more round trip.
    assert of(replace(slow, trip_s=1e-3)) - of(slow) == pytest.approx(2e-3)
    assert of(replace(slow, trip_s=1e-3), 1000) - of(slow, 1000) == pytest.approx(1e-3)
    # Where links take longer, it is hidden but for its share.
    narrow = Fabric(workers=4, rate_bit_s=1e7)
    bare, more, apart = (
        exchange(narrow, THC_SYSTEM, 10**6, costs, 4096).seconds
        for costs in (Costs(), Costs(operation_s=1e-3), Costs(operation_s=1e-3, apart=0.3))
    )
    assert (more - bare, apart - bare) == pytest.approx((0, 0.3e-3), abs=1e-9)


def test_values_of_a_packet_cost_besides_the_packet() -> None:
    fabric, costs = Fabric(workers=4, rate_bit_s=1e11, delay_s=0.0), Costs(add_s=1e-6, add_value_s=1e-9)
    gap = seconds(fabric, 101, costs=costs) - seconds(fabric, 1, costs=costs)
    assert gap == pytest.approx(100 * 4 * (1e-6 + THC.values * 1e-9), rel=1e-9)
    asked = pace_of(fabric, THC_SYSTEM, exchanges_of(THC_SYSTEM, fabric, 1 << 24)[0], costs)
    assert asked.gap_s == pytest.approx(4e-6)


def test_a_tree_adds_two_links_and_its_trunk_can_be_the_limit() -> None:
    fabric = Fabric(workers=16, levels=(4, 4), rate_bit_s=1e9, trunk_bit_s=0.5e9, delay_s=0.0)
    partial = (p4.BARE_BYTES + THC.partial.words * p4.WORD_BYTES) * 8
    assert seconds(fabric, 1) == pytest.approx((THC_UP + THC_DOWN) / 1e9 + (partial + THC_DOWN) / 0.5e9, rel=1e-12)
    assert seconds(fabric, 101) - seconds(fabric, 1) == pytest.approx(100 * THC_DOWN / 0.5e9, rel=1e-9)
    # Four spines carry a quarter each, so hosts' links are the limit again.
    wide = replace(fabric, spines=4)
    assert seconds(wide, 101) - seconds(wide, 1) == pytest.approx(100 * THC_DOWN / 1e9, rel=1e-9)


def test_spines_share_the_adding() -> None:
    """Each of four spines has every fourth slot. A leaf gets a result from above besides its hosts' packets."""
    one = Fabric(workers=64, levels=(2, 32), rate_bit_s=1e12, delay_s=0.0)
    costs = Costs(add_s=1e-6)
    for fabric, gap in ((one, 32e-6), (replace(one, spines=4), 8e-6)):
        assert seconds(fabric, 101, costs=costs) - seconds(fabric, 1, costs=costs) == pytest.approx(100 * gap)
    leaf = Fabric(workers=64, levels=(32, 2), rate_bit_s=1e12, delay_s=0.0)
    assert seconds(leaf, 2001, costs=costs) - seconds(leaf, 1001, costs=costs) == pytest.approx(1000 * 33e-6)


def test_seconds_hardly_depend_on_the_number_of_workers() -> None:
    few, many = Fabric(workers=32), Fabric(workers=100_000, levels=(100, 1000), rate_bit_s=1e9, trunk_bit_s=1e10)
    assert seconds(many, 1000) < 1.01 * seconds(few, 1000)


# -- a slow reference -----------------------------------------------------------------------------------


def conveyor(stages: Sequence[float], chunks: int, window: int) -> float:
    """Every chunk through every stage, first come, first served; a chunk begins when its window allows."""
    free, ended = [0.0] * len(stages), [0.0] * chunks
    for chunk in range(chunks):
        at = ended[chunk - window] if chunk >= window else 0.0
        for index, needs in enumerate(stages):
            at = free[index] = max(at, free[index]) + needs
        ended[chunk] = at
    return ended[-1]


@pytest.mark.parametrize("seed", range(60))
def test_a_pace_is_that_of_a_conveyor(seed: int) -> None:
    random = np.random.default_rng(seed)
    stages = random.uniform(0.1, 3, int(random.integers(1, 8))).tolist()
    chunks, slots = int(random.integers(1, 60)), int(random.integers(2, 30))
    pace = Pace(sum(stages), max(stages), "", 1)
    assert pace.seconds(chunks, slots) == pytest.approx(conveyor(stages, chunks, slots // 2), rel=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_without_a_loss_rounds_take_as_long_as_the_formula(seed: int) -> None:
    random = np.random.default_rng(seed)
    pace = Pace(float(random.uniform(1, 20)), float(random.uniform(0.1, 1)), "", 4)
    chunks, slots = int(random.integers(1, 200)), int(random.integers(2, 60))
    # A share so small that no draw can lose anything.
    assert pace.seconds_with_losses(chunks, slots, 1e-300, random) == pytest.approx(pace.seconds(chunks, slots))


def test_a_lost_packet_costs_a_round_trip_and_three_chunks() -> None:
    pace = Pace(10e-3, 1e-3, "", 1)

    class Fixed(np.random.Generator):
        def random(self, *_: object, **__: object) -> np.ndarray:
            # Chunk 3 is lost once: with probability 0.1, so a number above 0.9 and below 0.99.
            return np.array([0.5] * 3 + [0.95] + [0.5] * 6)

    random = Fixed(np.random.PCG64(0))
    # Of ten chunks chunk 9 is the last: at 9 + 10 ms. Chunk 3 is there at 3 + 10 + (10 + 3) = 26 ms.
    assert pace.seconds_with_losses(10, 40, 0.1, random) == pytest.approx(26e-3)
    # With windows of 5, chunk 8 waits for it, and is there 10 ms later, at 36 ms, chunk 9 at 37 ms.
    assert pace.seconds_with_losses(10, 10, 0.1, random) == pytest.approx(37e-3)


# -- more is never slower -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["thc", "thc-16", "thc-wide", "sum32", "marsit", "vote", "thc@server"])
@pytest.mark.parametrize("levels", [(), (8, 8), (4, 4, 4)])
def test_more_slots_more_rate_and_less_delay_are_never_slower(name: str, levels: tuple[int, ...]) -> None:
    fabric = Fabric(workers=64, levels=levels, rate_bit_s=1e10, delay_s=1e-5)
    system, costs = SYSTEMS[name], Costs(add_s=1e-8)

    def of(changed: Fabric, slots: int = 64) -> float:
        return exchange(changed, system, 3_000_000, costs, slots).seconds

    by_slots = [of(fabric, slots) for slots in (2, 3, 4, 7, 16, 100, 1000, 4096)]
    by_rate = [of(replace(fabric, rate_bit_s=rate), 4096) for rate in (1e8, 1e9, 5e9, 1e11)]
    by_delay = [of(replace(fabric, delay_s=delay)) for delay in (1e-3, 1e-4, 1e-6, 0.0)]
    for found in (by_slots, by_rate, by_delay):
        assert np.round(found, 12).tolist() == sorted(np.round(found, 12), reverse=True)
        assert found[0] > found[-1]


def test_more_loss_is_slower() -> None:
    found = [
        exchange(Fabric(workers=8, loss=loss), THC_SYSTEM, 5_000_000, FREE, 256).seconds
        for loss in (0.0, 1e-4, 1e-3, 1e-2, 5e-2)
    ]
    # A full window hides single losses, to the last bit of a float.
    assert np.round(found, 12).tolist() == sorted(np.round(found, 12))
    assert found[-1] > 2 * found[0]


def test_equal_seeds_lose_the_same_packets() -> None:
    fabric = Fabric(workers=8, loss=0.01)
    first, again, other = (exchange(fabric, THC_SYSTEM, 10**6, FREE, seed=seed).seconds for seed in (1, 1, 2))
    assert first == again != other


# -- what is sent ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["thc", "thc-wide", "sum32", "marsit", "vote"])
def test_bytes_are_those_of_the_librarys_table(name: str) -> None:
    values = 10_000_000
    found = exchange(Fabric(workers=4), SYSTEMS[name], values, FREE)
    both = TABLE[name].routes["switch"].cost.both_ways(values, 4)
    block = {"thc": 1024, "thc-wide": 1024, "sum32": 256}.get(name)
    asked = math.ceil(math.ceil(values / block) / MAX32.values) * ASKED / 8 if block else 0.0
    packet = p4.BARE_BYTES + p4.SLOT_WORDS * p4.WORD_BYTES
    assert found.up_bytes == pytest.approx(both[0] + asked, abs=packet)
    assert found.down_bytes == pytest.approx(both[1] + asked, abs=packet)


@pytest.mark.parametrize("name", ["gloo", "fp16"])
def test_bytes_of_a_ring_are_those_of_the_librarys_table(name: str) -> None:
    found = exchange(Fabric(workers=4), SYSTEMS[name], 10_000_000, FREE)
    known = TABLE["ssgd" if name == "gloo" else name].routes["group"].cost.both_ways(10_000_000, 4)
    assert (found.up_bytes, found.down_bytes) == pytest.approx(known)


def test_norms_go_first_where_a_tensor_is_too_long_for_one_round_trip() -> None:
    fabric = Fabric(workers=4)
    short = exchanges_of(THC_SYSTEM, fabric, ONE_TRIP_CHUNKS * THC.values)
    assert [one.count for one in short] == [ONE_TRIP_CHUNKS + 1]
    long = exchanges_of(THC_SYSTEM, fabric, ONE_TRIP_CHUNKS * THC.values + 1)
    assert [(one.values, one.count) for one in long] == [(MAX32.values, 2), (THC.values, ONE_TRIP_CHUNKS + 1)]
    # A scales' chunk has 128 places for norms: with 5 workers 25 each.
    assert len(exchanges_of(THC_SYSTEM, Fabric(workers=5), 26 * THC.values)) == 2
    assert len(exchanges_of(THC_SYSTEM, Fabric(workers=5), 25 * THC.values)) == 1
    # Signs have neither norms nor exponents.
    assert [one.count for one in exchanges_of(SIGNS, fabric, 10 * SIGN.values)] == [10]


def test_exponents_of_sum32_are_of_its_own_chunks() -> None:
    asked, summed = exchanges_of(SYSTEMS["sum32"], Fabric(workers=4), 100 * SUM32.values)
    assert (asked.count, summed.count) == (4, 100)


def test_jumbo_packets_need_jumbo_frames() -> None:
    values = 1 << 20
    short = exchanges_of(THC_SYSTEM, Fabric(mtu=JUMBO_MTU - 1), values)[-1]
    long = exchanges_of(THC_SYSTEM, Fabric(mtu=JUMBO_MTU), values)[-1]
    assert (short.values, long.values, long.count) == (THC.values, JUMBO.values, values // JUMBO.values)
    assert long.down - p4.ETHERNET_BYTES == JUMBO_MTU
    # Not over a software aggregator, and not for a tensor that would be mostly padding.
    assert exchanges_of(SYSTEMS["thc@server"], Fabric(mtu=9000), values)[-1].values == THC.values
    assert exchanges_of(THC_SYSTEM, Fabric(mtu=9000), 7 * THC.values)[-1].values == THC.values
    assert exchanges_of(THC_SYSTEM, Fabric(mtu=9000), 7 * THC.values + 1)[-1].values == JUMBO.values


def test_sums_of_16_bits_take_twice_the_results_for_a_value() -> None:
    wide, own = (exchanges_of(SYSTEMS[name], Fabric(), 1 << 24)[-1] for name in ("thc-16", "thc"))
    assert (wide.values, wide.down, wide.count) == (own.values // 2, own.down, own.count * 2)
    assert wide.up - p4.BARE_BYTES == (own.up - p4.BARE_BYTES) / 2
    assert exchanges_of(SYSTEMS["thc-16"], Fabric(mtu=9000), 1 << 24)[-1] == wide


def test_extra_bytes_are_on_every_frame() -> None:
    bare, whole = (exchange(Fabric(extra_bytes=extra), SIGNS, 100 * SIGN.values, FREE) for extra in (0, 24))
    assert whole.up_bytes - bare.up_bytes == 24 * 100


# -- other traffic --------------------------------------------------------------------------------------


def test_traffic_takes_its_share_of_the_links_that_it_crosses() -> None:
    fabric = Fabric(workers=4)
    alone = exchange(fabric, THC_SYSTEM, 10**7, FREE).seconds
    # A connection into host 2 has half of its downlink; two have two thirds.
    one = exchange(fabric, THC_SYSTEM, 10**7, FREE, traffic=[Traffic(0, 2)]).seconds
    two = exchange(fabric, THC_SYSTEM, 10**7, FREE, traffic=[Traffic(0, 2, connections=2)]).seconds
    assert (one / alone, two / alone) == pytest.approx((2, 3), rel=0.01)
    little = exchange(fabric, THC_SYSTEM, 10**7, FREE, traffic=[Traffic(0, 2, bit_s=1e8)]).seconds
    assert little / alone == pytest.approx(1 / 0.9, rel=0.01)
    ring = [exchange(fabric, SYSTEMS["gloo"], 10**7, FREE, traffic=[Traffic(0, 2)] * more).seconds for more in (0, 1)]
    assert ring[1] / ring[0] == pytest.approx(2, rel=0.01)


def test_jobs_share_trunks() -> None:
    """Each leaf has a host of both jobs, and a trunk as fast as a host: half for each."""
    fabric = Fabric(workers=8, levels=(4, 2), rate_bit_s=1e9, trunk_bit_s=1e9)
    found = shared_paces(fabric, [([0, 4], THC_SYSTEM), ([1, 5], THC_SYSTEM)])
    assert found == pytest.approx([0.5, 0.5])
    apart = shared_paces(fabric, [([0, 1], THC_SYSTEM), ([4, 5], THC_SYSTEM)])
    assert apart == pytest.approx([1, 1])


# -- steps ----------------------------------------------------------------------------------------------


def test_exchanges_overlap_with_the_backward_pass_bucket_by_bucket() -> None:
    fabric, workload = Fabric(workers=4, rate_bit_s=1e9), WORKLOADS["resnet50"]
    made = step(fabric, THC_SYSTEM, workload, FREE)
    at = 0.0
    for bucket in buckets(workload):
        at = max(at, workload.forward_s + bucket.ready_s) + exchange(fabric, THC_SYSTEM, bucket.values, FREE).seconds
    assert made.seconds == pytest.approx(max(at, workload.forward_s + workload.backward_s), rel=1e-12)
    assert 0 < made.exposed_s < made.exchange_s
    assert made.limit == "downlink"


def test_a_late_system_sends_all_after_the_backward_pass() -> None:
    workload = WORKLOADS["resnet50"]
    made = step(Fabric(), SIGNS, workload, FREE)
    assert made.exposed_s == pytest.approx(made.exchange_s)
    assert made.exchange_s == exchange(Fabric(), SIGNS, workload.values, FREE).seconds


def test_hidden_exchanges_cost_nothing() -> None:
    made = step(Fabric(rate_bit_s=1e13), THC_SYSTEM, WORKLOADS["resnet50"], FREE, sent=[Bucket(1000, 0.0)])
    assert made.exposed_s == pytest.approx(0, abs=1e-12)
    assert made.seconds == pytest.approx(made.forward_s + made.backward_s)


def test_a_slow_worker_delays_every_exchange() -> None:
    made = Step(1.0, 2.0, (1.0, 2.0), tuple(replace(exchange(Fabric(), SIGNS, 1, FREE), seconds=s) for s in (0.5, 3.0)))
    # 1 + 2, then 3 of the second one; twice as slow: 2 + 4 and 3.
    assert made.slowed(np.array([1.0, 2.0, 0.5])) == pytest.approx([6.0, 9.0, 4.5])
    # With exchanges at half the pace the second waits for the first as well: 1 + 2 + 6, or 1 + 1 + 1 + 6.
    assert made.at_pace(0.5).seconds == pytest.approx(9.0)


def test_bytes_of_a_step_are_those_of_its_buckets() -> None:
    made = step(Fabric(), THC_SYSTEM, WORKLOADS["bert-base"], FREE)
    assert made.up_bytes == sum(one.up_bytes for one in made.exchanged)
    whole = exchange(Fabric(), THC_SYSTEM, WORKLOADS["bert-base"].values, FREE)
    assert made.down_bytes == pytest.approx(whole.down_bytes, rel=0.001)


# -- wrong values ---------------------------------------------------------------------------------------


def test_wrong_values_are_refused() -> None:
    for wrong, told in [
        (lambda: exchange(Fabric(), THC_SYSTEM, 0, FREE), "values=0: must be at least 1"),
        (lambda: exchange(Fabric(), THC_SYSTEM, 1, FREE, 1), "slots=1: must be at least 2"),
        (lambda: system_of("nccl"), "systems=nccl: known are thc, thc-wide"),
        (lambda: step(Fabric(), THC_SYSTEM, WORKLOADS["gpt2"], FREE).at_pace(0.0), "pace=0.0: must be above 0"),
        (lambda: exchange(Fabric(), THC_SYSTEM, 1, FREE, traffic=[Traffic(0, 4)]), "host=4: must be 0 to 3"),
        (lambda: Costs(add_s=-1.0), "add-s=-1.0: must not be negative"),
    ]:
        with pytest.raises(OptionError, match=told):
            wrong()
