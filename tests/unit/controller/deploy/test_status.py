# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The status: counters and entries as text and JSON."""

from __future__ import annotations

import json

import pytest
from helpers.controller.config_texts import job, queue, star, text
from sumwire_controller.deploy.status import (
    CountedCell,
    JobStatus,
    QueueStatus,
    Status,
    WorkerStatus,
    queue_cells,
    summarize,
)
from sumwire_controller.derive.desired import desired_entries
from sumwire_controller.derive.entries import Entry, MulticastGroup, TableEntry
from sumwire_controller.model import Config
from sumwire_controller.parse.files import parse_config
from sumwire_protocol.metrics import VERDICT_NAMES

CONFIG = parse_config(text(star(2, jobs=[job("m", 6, 2, 128, 64)])))


def status(entries: frozenset[Entry], config: Config = CONFIG) -> Status:
    return summarize(
        config,
        entries,
        verdicts={0: (9, 900), 1: (5, 500), 8: (3, 30), 15: (1, 10), 14: (0, 0)},
        rejects={10: (2, 20), 15: (1, 10)},
        workers={(6, 1): (4, 400), (6, 0): (7, 700), (8, 3): (1, 1)},
    )


AS_CONFIGURED = desired_entries(CONFIG, {6: 77}, 78)


def test_what_is_as_configured_in_objects_json_and_text() -> None:
    found = status(AS_CONFIGURED)
    assert found.jobs == (JobStatus(6, "m", 77, 128, 64, 2),)
    assert found.workers == (
        WorkerStatus(6, 0, "h1", 7, 700),
        WorkerStatus(6, 1, "h2", 4, 400),
        WorkerStatus(8, 3, "", 1, 1),
    )
    # All names of the program, and numbers without one that have counted.
    assert [*found.verdicts] == [*VERDICT_NAMES.values(), "15"] and len(found.rejects) == 24
    counted = {name: count for name, count in found.verdicts.items() if count.packets}
    assert counted == {
        "none": CountedCell(9, 900), "first": CountedCell(5, 500), "reject": CountedCell(3, 30),
        "15": CountedCell(1, 10),
    }  # fmt: skip
    assert {name for name, count in found.rejects.items() if count.packets} == {"slot", "call"}
    data = json.loads(json.dumps(found.as_json()))
    assert data["in_sync"] is True
    assert data["rejects"]["slot"] == {"packets": 2, "bytes": 20}
    assert data["jobs"][0]["generation"] == 77
    assert len(data["entries"]) == len(AS_CONFIGURED)
    lines = str(found).splitlines()
    assert lines[0] == "s1: as configured"
    assert "job 6 m: slots 128..191, quorum 2, generation 77" in lines
    assert "  worker 0 h1: 7 packets, 700 bytes" in lines
    assert any(line.split() == ["slot", "2", "20"] for line in lines)
    # Whatever the generation.
    assert status(desired_entries(CONFIG, {6: 1}, 1)).in_sync


@pytest.mark.parametrize(
    ("program", "words"),
    [("", "runs no program"), ("sumwire 0.0.9", "runs another program (sumwire 0.0.9), maybe of another version")],
)
def test_without_our_program(program: str, words: str) -> None:
    found = Status("s1", program_runs=False, program=program)
    assert (found.in_sync, found.as_json()["program"]) == (False, program)
    assert str(found) == f"s1: {words}; load ours: sumwire-controller apply CONFIG"


def test_virtual_queues_show_what_they_counted() -> None:
    queued = parse_config(text({**star(2, jobs=[]), "queues": [queue(1), queue(2)]}))
    entries = desired_entries(queued, {}, 0)
    cells = queue_cells(entries)
    assert sorted(cells) == list(range(32, 96))
    found = summarize(
        queued,
        entries,
        verdicts={},
        rejects={},
        workers={},
        queues={32: (9, 900), 33: (0, 0), 62: (3, 300), 65: (2, 20), 95: (1, 298)},
    )
    assert found.in_sync
    assert found.queues == (
        QueueStatus(1, False, 0, "pass", 9, 900),
        QueueStatus(1, True, 3, "drop", 3, 300),
        QueueStatus(2, False, 0, "mark", 2, 20),
        QueueStatus(2, True, 3, "trim", 1, 298),
    )
    counted = {"port": 1, "tagged": True, "drop_class": 3, "decision": "drop", "packets": 3, "bytes": 300}
    assert found.as_json()["queues"][1] == counted
    lines = [line.split() for line in str(found).splitlines()]
    assert ["port", "1", "tagged", "class", "3", "drop", "3", "300"] in lines
    assert queue_cells(AS_CONFIGURED) == []


def test_differences_are_named() -> None:
    worker = next(entry for entry in AS_CONFIGURED if str(entry).startswith("worker[job=6, worker=1]"))
    group = next(entry for entry in AS_CONFIGURED if isinstance(entry, MulticastGroup))
    others: frozenset[Entry] = frozenset(
        {MulticastGroup(7, frozenset({(1, 1)})), TableEntry("forward", (0x0A000900, 24), (2,))}
    )
    found = status((AS_CONFIGURED - {worker, group}) | others)
    assert not found.in_sync
    assert found.differences == (
        "differs: group 7: 1#1, want group 7: 1#1, 2#2",
        "foreign: forward[dst=10.0.9.0, prefix=24] to_port(port=2)",
        "missing: worker[job=6, worker=1] admit_worker("
        "port=2, address=10.0.0.2, worker_bit=0x2, worker_weight=1, is_switch=0, "
        "mac=00:00:00:00:00:02, udp_port=21335, budget=0, budget_cell=0)",
    )


def test_a_job_that_is_not_there_and_one_that_is_not_configured() -> None:
    other = parse_config(text(star(2, jobs=[job("n", 3, 1, 0, 2)])))
    found = status(AS_CONFIGURED, other)
    assert found.jobs == (JobStatus(6, "", 77, 128, 64, 2),)
    assert sum(line.startswith("missing") for line in found.differences) == 4
    assert sum(line.startswith("foreign") for line in found.differences) == 6
