# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the soft switch tells of itself: ports, and the counters of Sumwire's program."""

from __future__ import annotations

from dataclasses import astuple, fields
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.paths import ROOT
from softswitch.metrics import PORT_FIELDS, SwitchMetrics
from softswitch.runtime.entries import ActionCall, CounterValue, Entry, Exact
from softswitch.runtime.interface import PortCounters
from softswitch.switch import SoftSwitch
from sumwire_protocol import constants as p4
from sumwire_protocol.metrics import switch_readings

PORT = PortCounters(*range(1, 1 + len(fields(PortCounters))))
PREFIX = "sumwire_switch_"


def told(switch: Any, interfaces: dict[int, str], **options: Any) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    runner: Any = SimpleNamespace(counters=dict.fromkeys(interfaces, PORT))
    for reading in SwitchMetrics("s1", switch, runner, interfaces, programs=[switch_readings], **options)():
        rows = found.setdefault(reading.metric.name.removeprefix(PREFIX), {})
        assert reading.labels not in rows
        assert len(reading.labels) == len(reading.metric.labels)
        rows[reading.labels] = reading.value
    return found


def test_every_counter_of_a_port_is_served_once() -> None:
    assert set(PORT_FIELDS) == {field.name for field in fields(PortCounters)}
    found = told(SoftSwitch(engine="python"), {4: "no-such-interface"})
    assert sorted(value for rows in found.values() for value in rows.values()) == sorted(astuple(PORT))
    assert found["port_sent_bytes"] == {("s1", "4"): PORT.tx_bytes}
    assert found["port_dropped_frames"][("s1", "4", "rx_dropped")] == PORT.rx_dropped


@pytest.mark.parametrize(("link_mbit", "rates"), [(80.0, {("s1", "4"): 1e7}), (None, None)])
def test_line_rate_where_it_is_known(link_mbit: float | None, rates: dict[tuple[str, str], float] | None) -> None:
    found = told(SoftSwitch(engine="python"), {4: "no-such-interface"}, link_mbit=link_mbit)
    assert found.get("port_line_rate_bytes_per_second") == rates


def test_counters_of_sumwire_s_program() -> None:
    switch = SoftSwitch((ROOT / "p4src" / "build" / "sumwire.json").read_text(), engine="python")
    switch.write_counter("ingress.accounting.verdicts", p4.VERDICT_LAST, CounterValue(41, 9))
    switch.write_counter("ingress.guard.rejects", p4.REJECT_TOKEN, CounterValue(5, 9))
    worker = Entry((Exact(7), Exact(2)), ActionCall("ingress.admission.admit_worker", (1, 2, 3, 4, 0, 5, 6, 7, 8)))
    switch.insert("ingress.admission.worker", worker)
    switch.write_direct_counter("ingress.admission.worker", worker.key, 0, CounterValue(123, 4560))
    # Of port 4: an untagged packet of class 0 that passed, and a tagged one of class 3 that was cut.
    cells = 2 * p4.DROP_CLASSES * 4
    switch.write_counter("egress.virtual_queue.queue_decisions", 4 * cells + p4.QUEUE_PASS, CounterValue(8, 9))
    last = 4 * cells + (p4.DROP_CLASSES + 3) * 4 + p4.QUEUE_TRIM
    switch.write_counter("egress.virtual_queue.queue_decisions", last, CounterValue(3, 9))

    found = told(switch, {4: "no-such-interface"})
    assert {key: value for key, value in found["verdicts"].items() if value} == {("s1", "last"): 41}
    assert {key: value for key, value in found["refused_packets"].items() if value} == {("s1", "token"): 5}
    assert found["worker_packets"] == {("s1", "7", "2"): 123}
    assert found["worker_bytes"] == {("s1", "7", "2"): 4560}
    assert found["queue_packets"] == {("s1", "4", "no", "0", "pass"): 8, ("s1", "4", "yes", "3", "trim"): 3}
