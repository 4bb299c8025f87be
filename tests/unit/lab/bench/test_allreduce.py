# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The all-reduce benchmark's arithmetic, and the counters of what is lost inside switch and hosts."""

from __future__ import annotations

import gc
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from sumwire_lab.bench import allreduce, exchange_worker
from sumwire_lab.bench.allreduce import bench, size_row, text
from sumwire_lab.bench.exchange_worker import PlainAllReduce
from sumwire_lab.bench.timing import all_reduce_bytes
from sumwire_lab.errors import LabError, OptionError
from sumwire_lab.options.bench_options import AllReduceOptions
from sumwire_lab.options.run_options import UNLIMITED
from sumwire_lab.system import counters, processes
from sumwire_lab.system.counters import Counted
from sumwire_lab.training import worker as train


def test_bytes_on_the_wire_by_hand() -> None:
    # 1025 values are two chunks; a result is 14 + 20 + 8 + 32 + 8 * 128 bytes.
    assert all_reduce_bytes("thc", 1025, 4) == 2 * 1098
    assert all_reduce_bytes("thc", 1024, 4) == 1098
    # A packet has 8192 signs each way.
    assert all_reduce_bytes("sign", 8192, 4) == 1098
    assert all_reduce_bytes("sign", 8193, 4) == 2 * 1098
    # Ring of 4: 1.5 times 4 bytes a value; segments of 1448 in frames of 1514.
    assert all_reduce_bytes("gloo", 1_448_000, 4) == 1_514_000 * 6
    assert all_reduce_bytes("gloo", 1000, 1) == 0
    # 256 elements of 32 bits: 257 values are two packets.
    assert all_reduce_bytes("sum32", 257, 4) == 2 * 1098


def worker(*seconds: float, cpu: float = 0.0, switch: float = 0.0) -> dict[str, Any]:
    return {"seconds": list(seconds), "cpu_s": cpu, "switch_cpu_s": switch}


def test_a_row_takes_the_slowest_worker_and_the_median_repeat() -> None:
    # Slowest of each repeat: 3, 2, 7. CPU of three repeats of 2000 values each.
    one = size_row(10, 2000, "thc", [worker(1, 2, 7, cpu=0.6, switch=0.3), worker(3, 1, 5, cpu=0.3)])
    bound_s = 2 * 1098 * 8 / 1e7
    assert one == {
        "link_mbit": 10, "values": 2000, "system": "thc", "seconds": 3, "bound_s": pytest.approx(bound_s),
        "link_share": pytest.approx(bound_s / 3), "host_cpu_s": pytest.approx(0.45 / 0.006),
        "switch_cpu_s": pytest.approx(0.3 / 0.006),
    }  # fmt: skip
    assert size_row(10, 2000, "gloo", [worker(1), worker(2)], switched=False)["switch_cpu_s"] is None


def case_row(system: str, rate: float, one: dict[str, Any], switch: int | None) -> dict[str, Any]:
    lost = {"link_queues": 0, "backlog": 0, "host_sockets": 0, "switch": switch}
    found = {"rows": [one], "lost": lost, "retransmissions": 5, "offloads": system == "gloo"}
    return {"system": system, "link_mbit": rate, **found}


def test_the_table_compares_with_gloo() -> None:
    def row(system: str, seconds: float, switch: int | None) -> dict[str, Any]:
        one = size_row(10, 1024, system, [worker(seconds)] * 4, switched=switch is not None)
        return case_row(system, 10, one, switch)

    lines = text([row("gloo", 0.02, None), row("thc", 0.001, 3)]).splitlines()
    assert lines[1].split()[-1] == "-", "nothing to compare, and no process to charge"
    assert lines[2].split()[-1] == "20.00"
    assert lines[2].split()[5] == "87.8%"
    assert lines[3].startswith("10 Mbit/s, gloo: hosts' offloads on; sent again 5")
    assert lines[4].startswith("10 Mbit/s, thc: hosts' offloads off;")
    assert lines[3].endswith("sent again 5; lost: link_queues 0, backlog 0, host_sockets 0, switch unknown")
    assert lines[4].endswith("switch 3")


def test_the_record_has_the_promised_keys_and_null_for_links_without_a_limit() -> None:
    one = size_row(UNLIMITED, 1024, "sum32", [worker(0.001)] * 4)
    assert (one["bound_s"], one["link_share"]) == (0.0, 0.0)
    row, made = case_row("sum32", UNLIMITED, one, 3), bench(AllReduceOptions())
    record = json.loads(json.dumps(made.record([row]), allow_nan=False))
    assert list(record) == ["workers", "switch", "engine", "results"]
    (entry,) = record["results"]
    assert list(entry) == ["system", "link_mbit", "rows", "lost", "retransmissions", "offloads"]
    assert list(entry["rows"][0]) == [
        *("link_mbit", "values", "system", "seconds", "bound_s", "link_share", "host_cpu_s", "switch_cpu_s"),
    ]
    assert entry["link_mbit"] is None and entry["rows"][0]["link_mbit"] is None
    assert text([row]).splitlines()[-1].startswith("unlimited, sum32:")
    cases = [(case["system"], case["link_mbit"]) for case in made.study.cases]
    assert cases[:3] == [("gloo", 10.0), ("thc", 10.0), ("sign", 10.0)] and len(cases) == 6


def test_links_have_the_rate_of_the_case_and_the_mtu_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    links: list[tuple[float, int]] = []
    monkeypatch.setattr(allreduce, "_measured", lambda system, run, *_: links.append((run.link.mbit, run.link.mtu)))
    study = bench(AllReduceOptions(bw=(10.0, 100.0), systems=("thc",), mtu=9000)).study
    for case in study.cases:
        study.worker(case, None)
    assert links == [(10.0, 9000), (100.0, 9000)]
    with pytest.raises(OptionError, match="mtu=100: links carry packets of 1500 to 9000 bytes"):
        bench(AllReduceOptions(mtu=100))


def test_a_workers_cpu_time_is_measured_and_the_warm_up_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_worker.dist, "barrier", lambda: None)
    calls: list[float] = []

    def reduce(tensor: torch.Tensor) -> None:
        calls.append(float(tensor.sum()))
        tensor.zero_()
        spin = torch.zeros(1000)
        for _ in range(3000):
            spin += 1

    # This process stands for the switch: the clock of its CPU time is the same as its own.
    measured = exchange_worker.timed(PlainAllReduce(reduce, 0), 10, 2, [processes.cpu_clock(os.getpid())])
    assert len(calls) == 3 and len(set(calls)) == 1, "every repeat gets the tensor as it was"
    assert len(measured["seconds"]) == 2
    assert 0 < measured["cpu_s"] < 2 * sum(measured["seconds"]) + 0.1
    assert measured["switch_cpu_s"] == pytest.approx(measured["cpu_s"], rel=0.2)


def test_a_cpu_clock_counts_all_threads() -> None:
    clock = processes.cpu_clock(os.getpid())
    before = processes.cpu_seconds([clock])

    def work() -> None:
        for _ in range(200_000):
            pass

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert processes.cpu_seconds([clock]) - before > 0.001


def test_the_clock_of_a_process_that_is_gone() -> None:
    with pytest.raises(OSError, match="CPU clock of process 999999999"):
        processes.cpu_clock(999_999_999)


def test_lost_datagrams_of_a_namespace() -> None:
    text = "Ip: A B\nIp: 1 2\nUdp: InDatagrams NoPorts RcvbufErrors SndbufErrors\nUdp: 10 1 7 3\n"
    assert counters.udp_lost(text) == 7
    with pytest.raises(LabError, match="RcvbufErrors"):
        counters.udp_lost("Udp: InDatagrams\nUdp: 10\n")
    assert counters.host_sockets() >= 0


def test_packets_that_found_the_backlog_full() -> None:
    assert counters.backlog_lost("0000000a 0000000f 00000000\n00000001 00000010 00000000\n") == 15 + 16
    assert counters.backlog() >= 0


def test_drops_of_a_queue_are_counted_once() -> None:
    # HTB's own count has those of the queue below it in it.
    entries = [{"kind": "htb", "root": True, "drops": 12}, {"kind": "pfifo", "parent": "1:1", "drops": 12}]
    asked: list[list[str]] = []

    def run(command: list[str]) -> str:
        asked.append(command)
        return json.dumps(entries)

    assert counters.interface_drops("veth7", run) == 12
    assert asked[0][:4] == ["tc", "-s", "-j", "qdisc"] and asked[0][-1] == "veth7"


LOG = """2026-01-01 INFO softswitch: ready: device 1, P4Runtime port 5, ports 1@a
2026-01-01 INFO softswitch: port 1 on sw12-p1: rx_frames=10 rx_bytes=9 tx_frames=4 tx_dropped=2 tx_refused=1
2026-01-01 INFO softswitch: port 2 on sw12-p2: rx_frames=1 rx_bytes=5 rx_dropped=3 rx_cut=4 tx_frames=4 tx_dropped=0
"""


def in_json(text: str) -> str:
    """What `--log-format json` makes of the lines; a JSON value that is no object is a line of text."""
    return "\n".join([*(json.dumps({"event": "counted", "message": line}) for line in text.splitlines()), "{", "[1]"])


def test_a_switch_tells_what_its_ports_lost() -> None:
    assert counters.ports(LOG)[2] == {
        "rx_frames": 1, "rx_bytes": 5, "rx_dropped": 3, "rx_cut": 4, "tx_frames": 4, "tx_dropped": 0
    }  # fmt: skip
    assert counters.switch_lost(LOG) == 2 + 1 + 3 + 4
    assert counters.switch_lost("the switch was killed") is None
    assert counters.ports(in_json(LOG)) == counters.ports(LOG)


def test_losses_of_a_session_with_two_switches(tmp_path: Path) -> None:
    logs = [tmp_path / "one.log", tmp_path / "two.log"]
    for log in logs:
        log.write_text(LOG)
    found = counters.gather(Counted(3, logs), backlog_before=counters.backlog() - 2, sockets=5)
    assert (found.link_queues, found.host_sockets, found.switch) == (3, 5, 2 * 10)
    assert found.backlog >= 2
    logs[1].write_text("killed")
    assert counters.gather(Counted(0, logs), backlog_before=0, sockets=0).switch is None
    assert counters.gather(Counted(0, []), backlog_before=0, sockets=0).switch is None


def test_losses_of_a_software_aggregator(tmp_path: Path) -> None:
    log = tmp_path / "aggregator.log"
    log.write_text("ready: 10.0.0.100:21335\nverdicts: LAST 5\nreplies: 70 sent, 4 not; between processes: 0\n")
    assert counters.gather(Counted(1, [log], 6), backlog_before=0, sockets=0).switch == 10
    log.write_text(in_json(log.read_text()))
    assert counters.gather(Counted(1, [log], 6), backlog_before=0, sockets=0).switch == 10
    log.write_text("ready: killed\n")
    assert counters.gather(Counted(1, [log], 6), backlog_before=0, sockets=0).switch is None


def test_what_set_up_made_is_out_of_the_collectors_sight() -> None:
    train.settle()
    try:
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()
