# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What two scrapes say, with numbers worked out by hand."""

from __future__ import annotations

import contextlib
import time

import pytest
from sumwire.top.picture import Scrape, parsed, picture

JOB = 'sumwire_job="7",worker="{worker}"'


def host(worker: int, *, sent: int, operation_s: float, extra: str = "") -> str:
    own = JOB.format(worker=worker)
    return "\n".join(
        (
            f'sumwire_job_info{{{own},name="digits",workers="3"}} 1.0',
            f"sumwire_job_sent_bytes_total{{{own}}} {sent}",
            f"sumwire_job_operation_seconds_total{{{own}}} {operation_s}",
            f'sumwire_job_resent_packets_total{{{own},cause="quick"}} {worker}',
            f'sumwire_job_resent_packets_total{{{own},cause="timeout"}} {10 * worker}',
            extra,
            "",
        )
    )


def scrape(endpoint: str, at: float, text: str) -> Scrape:
    return Scrape(endpoint, at, parsed(text))


def test_rates_are_of_the_time_between() -> None:
    before = [scrape("a:1", 10.0, host(1, sent=1000, operation_s=1.0))]
    now = [scrape("a:1", 12.5, host(1, sent=6000, operation_s=2.0))]
    [worker] = picture(now, before).workers
    assert (worker.job, worker.name, worker.worker, worker.endpoint) == ("7", "digits", 1, "a:1")
    assert (worker.sent, worker.share, worker.resent) == (2000.0, 0.4, 0.0)
    assert worker.resent_total == 11
    assert (worker.received, worker.line_rate, worker.fallen_back) == (None, None, False)


def test_without_an_earlier_scrape_there_are_no_rates() -> None:
    [worker] = picture([scrape("a:1", 10.0, host(1, sent=1000, operation_s=1.0))]).workers
    assert (worker.sent, worker.share, worker.resent, worker.resent_total) == (None, None, None, 11)


def test_a_counter_that_began_again() -> None:
    before = [scrape("a:1", 10.0, host(1, sent=9000, operation_s=50.0))]
    [worker] = picture([scrape("a:1", 12.0, host(1, sent=500, operation_s=1.0))], before).workers
    assert (worker.sent, worker.share) == (250.0, 0.5)


def shares(*ends: float) -> list[bool]:
    before = [scrape(f"a:{w}", 0.0, host(w, sent=0, operation_s=0.0)) for w in range(len(ends))]
    now = [scrape(f"a:{w}", 10.0, host(w, sent=0, operation_s=end)) for w, end in enumerate(ends)]
    return [worker.straggler for worker in picture(now, before).workers]


def test_the_straggler_is_whom_the_others_wait_for() -> None:
    assert shares(8.0, 4.0, 8.5) == [False, True, False]
    assert shares(8.0, 7.5, 8.5) == [False, False, False]
    assert shares(4.0) == [False]


def waits(*, sent: int, probes: int = 4, flying: int = 21, operations: int = 5, resent: int = 0) -> bool:
    """Of worker 1, after a scrape with 100 packets sent, 4 questions, 5 operations."""

    def at(second: float, sent: int, probes: int, operations: int, resent: int) -> Scrape:
        own = JOB.format(worker=1)
        counts = {"sent_packets_total": sent, "probes_total": probes, "operations_total": operations,
                  "in_flight_chunks": flying}  # fmt: skip
        rows = [f"sumwire_job_{name}{{{own}}} {count}" for name, count in counts.items()]
        told = host(1, sent=0, operation_s=1.0, extra="\n".join(rows))
        again = f'sumwire_job_resent_packets_total{{{own},cause="timeout"}} '
        return scrape("a:1", second, told.replace(f"{again}10", f"{again}{10 + resent}"))

    [worker] = picture([at(13.0, sent, probes, operations, resent)], [at(10.0, 100, 4, 5, 0)]).workers
    return worker.waiting


def test_a_worker_that_only_asks_and_sends_again_waits() -> None:
    assert waits(sent=100) and waits(sent=107, probes=8, resent=3)
    assert not waits(sent=101)
    assert not waits(sent=100, flying=0)
    assert not waits(sent=100, operations=6)
    assert not picture([scrape("a:1", 10.0, host(1, sent=0, operation_s=1.0))]).workers[0].waiting


def test_endpoints_that_say_nothing() -> None:
    found = picture([Scrape("a:1", 1.0, error="refused"), scrape("a:2", 1.0, host(1, sent=0, operation_s=0.0))])
    assert (found.silent, found.endpoints, len(found.workers)) == ({"a:1": "refused"}, 2, 1)


SWITCH = """
sumwire_switch_verdicts_total{{switch="s1",verdict="first"}} {first}
sumwire_switch_verdicts_total{{switch="s1",verdict="last"}} {last}
sumwire_switch_verdicts_total{{switch="s1",verdict="duplicate"}} 5.0
sumwire_switch_verdicts_total{{switch="s1",verdict="reject"}} {first}
sumwire_switch_refused_packets_total{{switch="s1",reason="token"}} {last}
sumwire_switch_refused_packets_total{{switch="s1",reason="words"}} 0.0
sumwire_switch_queue_packets_total{{switch="s1",port="1",tagged="yes",drop_class="3",decision="drop"}} 4.0
sumwire_switch_queue_packets_total{{switch="s1",port="2",tagged="yes",drop_class="3",decision="drop"}} 2.0
sumwire_switch_queue_packets_total{{switch="s1",port="2",tagged="no",drop_class="0",decision="pass"}} 99.0
sumwire_switch_port_sent_bytes_total{{switch="s1",port="2"}} {first}
sumwire_switch_port_received_bytes_total{{switch="s1",port="2"}} 7.0
sumwire_switch_port_line_rate_bytes_per_second{{switch="s1",port="2"}} 1000.0
sumwire_switch_port_dropped_frames_total{{switch="s1",port="2",cause="rx_cut"}} 6.0
sumwire_switch_port_dropped_frames_total{{switch="s1",port="2",cause="tx_dropped"}} 0.0
"""


def test_a_switch_and_its_ports() -> None:
    before = [scrape("b:1", 0.0, SWITCH.format(first=0, last=0))]
    found = picture([scrape("b:1", 4.0, SWITCH.format(first=40, last=20))], before)
    [switch], [port] = found.switches, found.ports
    assert (switch.switch, switch.up, switch.in_sync) == ("s1", True, None)
    # 40 first, 20 last; what was refused is not admitted.
    assert (switch.admitted, switch.results, switch.repeated, switch.refused_rate) == (15.0, 5.0, 0.0, 5.0)
    assert (switch.refused, switch.dropped) == ({"token": 20}, {"drop tagged class 3": 6})
    assert (port.port, port.sent, port.received, port.line_rate) == ("2", 10.0, 0.0, 1000.0)
    assert port.dropped == {"rx_cut": 6}


def test_a_switch_that_does_not_answer_its_controller() -> None:
    [switch] = picture([scrape("c:1", 0.0, 'sumwire_switch_up{switch="s9"} 0.0\n')]).switches
    assert (switch.switch, switch.up) == ("s9", False)


def test_names_from_outside_are_escaped() -> None:
    text = host(1, sent=0, operation_s=0.0).replace("digits", "\x1b[2J")
    [worker] = picture([scrape("a:1", 0.0, text)]).workers
    assert "\x1b" not in worker.name and "[2J" in worker.name


@pytest.mark.parametrize(
    "text",
    [
        'sumwire_job_info{a="1"} 1',
        'sumwire_job_info{sumwire_job="1",worker="²",name="x",workers="2"} 1',
        'sumwire_job_info{sumwire_job="1",worker="' + "9" * 4000 + '",name="x",workers="2"} 1',
        'sumwire_switch_verdicts_total{switch="a"} 1',
        'sumwire_switch_refused_packets_total{switch="a"} 1',
        'sumwire_switch_port_sent_bytes_total{x="a"} 1',
        host(1, sent=0, operation_s=0, extra='sumwire_job_in_flight_chunks{sumwire_job="7",worker="1"} NaN'),
        host(1, sent=0, operation_s=0, extra='sumwire_job_left_out_chunks_total{sumwire_job="7",worker="1"} +Inf'),
        host(1, sent=0, operation_s=0, extra='sumwire_job_line_rate_bytes_per_second{sumwire_job="7",worker="1"} NaN'),
    ],
)
def test_a_hostile_endpoint_s_values_are_left_out(text: str) -> None:
    found = picture([scrape("a:1", 1.0, text + "\n")])
    assert all((one.in_flight, one.left_out, one.line_rate) == (0, 0, None) for one in found.workers)


@pytest.mark.parametrize("text", ["# HELP x y\n" * 50_000, 'sumwire_job_info{a="' + "\\" * 800_000, "{" * 900_000])
def test_a_hostile_endpoint_s_text_takes_little_time(text: str) -> None:
    began = time.process_time()
    with contextlib.suppress(ValueError):
        parsed(text)
    assert time.process_time() - began < 2


def test_labels_without_a_name_are_no_text_of_prometheus() -> None:
    with pytest.raises(ValueError, match="is no text of Prometheus"):
        parsed('sumwire_job_info{a="1", ="2"} 1\n')
