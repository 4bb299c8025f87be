# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A job's metrics, scraped from a lossy run with the golden switch on loopback."""

from __future__ import annotations

import dataclasses
import socket
import threading

import pytest
import sumwire
import torch
from helpers.scrape import Samples, scrape
from helpers.transport.udp_bridge import Bridge, Impairment, configs, golden_switch, job_mapping, run_workers
from sumwire.transport.stats import JobStats

WORKERS, OPERATIONS, VALUES = 2, 3, 30_000
# What some of a job's statistics are called where they are served.
NAMES = {
    "operations": "sumwire_job_operations_total",
    "values": "sumwire_job_values_total",
    "packets_sent": "sumwire_job_sent_packets_total",
    "bytes_received": "sumwire_job_received_bytes_total",
    "duplicates": "sumwire_job_duplicate_results_total",
    "decode_s": "sumwire_job_decode_seconds_total",
    "without_trains": "sumwire_job_directions_without_trains",
}


def run(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Samples, JobStats]]:
    """What each worker scraped at the end of its operations, and its statistics."""
    monkeypatch.setenv("SUMWIRE_LINK_MBIT", "100")
    mapping = job_mapping(WORKERS, 16)
    together = threading.Barrier(WORKERS)

    def work(worker: int) -> tuple[Samples, JobStats]:
        with sumwire.Job(configs(mapping)[worker], metrics="0") as job:
            for _ in range(OPERATIONS):
                sumwire.all_reduce(torch.ones(VALUES), job)
            together.wait()
            assert job.metrics is not None
            found = scrape(job.metrics)
            together.wait()
            return found, dataclasses.replace(job.stats)

    with Bridge(mapping, golden_switch(mapping), Impairment(drop=0.1)):
        outcomes: list[tuple[Samples, JobStats]] = run_workers(work, WORKERS)
    return outcomes


def test_what_is_served_is_what_the_job_has_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = run(monkeypatch)
    job = str(job_mapping(WORKERS, 16)["job"])
    for worker, (_, stats) in enumerate(outcomes):
        own = (("sumwire_job", job), ("worker", str(worker)))
        for found, _ in outcomes:
            # Both jobs share the server.
            assert {field: found[name][own] for field, name in NAMES.items()} == {
                field: getattr(stats, field) for field in NAMES
            }
            assert found["sumwire_job_operations_total"][own] == OPERATIONS
            assert found["sumwire_job_values_total"][own] == OPERATIONS * VALUES
            resent = found["sumwire_job_resent_packets_total"]
            assert resent[("cause", "quick"), *own] == stats.retransmissions_quick
            assert resent[("cause", "timeout"), *own] == stats.retransmissions_timeout
            assert found["sumwire_job_line_rate_bytes_per_second"][own] == 12.5e6
            assert found["sumwire_job_fallen_back"][own] == 0
            assert found["sumwire_job_in_flight_chunks"][own] == 0
            assert 0 < found["sumwire_job_retransmission_timeout_seconds"][own] <= 1
            assert len([one for one in found["sumwire_job_info"] if dict(one)["worker"] == str(worker)]) == 1
    assert sum(stats.retransmissions for _, stats in outcomes) > 0


def test_without_the_option_nothing_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUMWIRE_METRICS", raising=False)
    with sumwire.Job(configs(job_mapping(1, 16))[0]) as job:
        assert job.metrics is None
    assert not [thread for thread in threading.enumerate() if thread.name == "sumwire-metrics"]


def test_the_environment_turns_metrics_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMWIRE_METRICS", "0")
    with sumwire.Job(configs(job_mapping(1, 16))[0]) as job:
        assert job.metrics is not None
        assert "sumwire_job_operations_total" in scrape(job.metrics)
    with pytest.raises(OSError, match="refused"):
        scrape(job.metrics)


def test_a_place_that_cannot_be() -> None:
    config = configs(job_mapping(1, 16))[0]
    with pytest.raises(sumwire.ConfigError, match="give PORT or"):
        sumwire.Job(config, metrics="here")
    with socket.create_server(("127.0.0.1", 0)) as other:
        with pytest.raises(sumwire.ConfigError, match="name an address of this machine and a free port"):
            sumwire.Job(config, metrics=str(other.getsockname()[1]))
        # Nothing is left of it.
        sumwire.Job(config).close()


def test_a_job_that_is_interrupted_while_it_begins_leaves_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sumwire.job.job.open_session", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sumwire.Job(configs(job_mapping(1, 8))[0], metrics="0")
    assert not [thread for thread in threading.enumerate() if thread.name == "sumwire-metrics"]
