# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The translation of entries to P4Runtime and back, with the compiled program."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from helpers.controller.config_texts import job, star, text
from hypothesis import given
from hypothesis import strategies as st
from p4.v1 import p4runtime_pb2
from sumwire_controller.deploy.p4info import Program, canonical, name_of, worker_counter_ids
from sumwire_controller.derive.desired import desired_entries
from sumwire_controller.derive.entries import MulticastGroup, TableEntry
from sumwire_controller.errors import ArtifactError
from sumwire_controller.parse.files import parse_config
from sumwire_protocol.program import JSON_NAME, P4INFO_NAME

PROGRAM = Program.load()


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, b"\0"), (1, b"\1"), (255, b"\xff"), (256, b"\1\0"), ((1 << 1024) - 1, b"\xff" * 128)],
)
def test_canonical(value: int, expected: bytes) -> None:
    assert canonical(value) == expected


def test_every_entry_survives_the_way_there_and_back() -> None:
    data = star(3, jobs=[job("a", 1, 3, 0, 2, "thc max32"), job("b", 2, 1, 2, 2, "thc")])
    data["jobs"][1]["thc"] = {"bits": 2, "p": 0.1, "table": [0, 3, 100, 255]}
    entries = desired_entries(parse_config(text(data)), {1: 5, 2: 1 << 31}, 1 << 31)
    above = {"ip": "10.0.1.1", "mac": "02:53:57:00:01:01", "worker": 31}
    tree = star(2, jobs=[job("a", 1, 1, 0, 2)])
    for parents in ([{**above, "port": 2}], [{**above, "port": 2}, {**above, "port": 2, "ip": "10.0.1.2"}]):
        tree["jobs"][0]["parents"] = parents
        entries |= desired_entries(parse_config(text(tree)), {1: 5}, 5)
    entries |= {TableEntry("uplink", (2, 5, 7, 1 << 30), (1, 2, 3, 4, 16))}
    entries |= {TableEntry("forward", (0, 0), (1,)), TableEntry("forward", (0x0A000000, 8), (1,))}
    assert {PROGRAM.from_entity(PROGRAM.to_entity(entry)) for entry in entries} == entries


@given(st.frozensets(st.tuples(st.integers(1, 510), st.integers(1, 32)), max_size=32))
def test_groups_survive(replicas: frozenset[tuple[int, int]]) -> None:
    group = MulticastGroup(7, replicas)
    assert PROGRAM.from_entity(PROGRAM.to_entity(group)) == group


def test_a_route_as_p4runtime_wants_it() -> None:
    entity = PROGRAM.to_entity(TableEntry("forward", (0x0A000001, 32), (300,)))
    (match,) = entity.table_entry.match
    assert (match.lpm.value, match.lpm.prefix_len) == (b"\x0a\0\0\1", 32)
    assert [param.value for param in entity.table_entry.action.action.params] == [b"\1\x2c"]
    assert not PROGRAM.to_entity(TableEntry("forward", (0, 0), (1,))).table_entry.match


def test_an_uplink_as_p4runtime_wants_it() -> None:
    row = PROGRAM.to_entity(TableEntry("uplink", (7, 1, 3, 1), (300, 2, 3, 4, 16))).table_entry
    job_match, slot = sorted(row.match, key=lambda match: int(match.field_id))
    assert (job_match.exact.value, slot.ternary.value, slot.ternary.mask, row.priority) == (b"\7", b"\1", b"\3", 1)
    all_slots = PROGRAM.to_entity(TableEntry("uplink", (7, 0, 0, 1), (300, 2, 3, 4, 16))).table_entry
    assert [match.field_id for match in all_slots.match] == [job_match.field_id]
    assert all_slots.priority == 1
    assert PROGRAM.to_entity(TableEntry("forward", (1, 32), (5,))).table_entry.priority == 0


def test_a_port_in_bytes_is_the_same_port() -> None:
    entity = p4runtime_pb2.Entity()
    group = entity.packet_replication_engine_entry.multicast_group_entry
    group.multicast_group_id = 3
    group.replicas.add(port=b"\1\x2c", instance=1)
    assert PROGRAM.from_entity(entity) == MulticastGroup(3, frozenset({(300, 1)}))


def test_rows_of_others_are_none_of_ours() -> None:
    verdict = next(table for table in PROGRAM.p4info.tables if table.preamble.alias == "verdict")
    entity = p4runtime_pb2.Entity()
    entity.table_entry.table_id = verdict.preamble.id
    assert PROGRAM.from_entity(entity) is None
    assert verdict.preamble.id not in PROGRAM.owned_tables()


def test_a_number_too_large_for_the_program_is_refused() -> None:
    with pytest.raises(ArtifactError, match="512 does not fit the 9 bits"):
        PROGRAM.to_entity(TableEntry("forward", (1, 32), (512,)))


def test_a_row_with_a_foreign_action_is_refused() -> None:
    entity = PROGRAM.to_entity(TableEntry("forward", (1, 32), (5,)))
    entity.table_entry.action.action.action_id = 1
    with pytest.raises(ArtifactError, match="row with action 0x1, not 'to_port'"):
        PROGRAM.from_entity(entity)


def _changed(change: str) -> Any:
    """The compiled program's P4Info with one thing renamed or removed."""
    p4info = type(PROGRAM.p4info)()
    p4info.CopyFrom(PROGRAM.p4info)
    job_table = next(table for table in p4info.tables if table.preamble.alias == "job")
    match change:
        case "table":
            job_table.preamble.alias = "jobs"
        case "key":
            job_table.match_fields[0].name = "run"
        case "action of the table":
            job_table.action_refs[0].id += 1000
        case "parameter":
            action = next(action for action in p4info.actions if action.preamble.alias == "admit_job")
            action.params[0].name = "age"
        case "counter":
            del p4info.counters[:]
        case "direct counter":
            del p4info.direct_counters[:]
    return p4info


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("table", "table 'job': not in the compiled program"),
        ("key", "table 'job': keys"),
        ("action of the table", "table 'job': has no action 'admit_job'"),
        ("parameter", "table 'job': parameters"),
        ("counter", "counter 'verdicts'"),
        ("direct counter", "direct counter 'worker_packets'"),
    ],
)
def test_another_program_is_refused(change: str, words: str) -> None:
    with pytest.raises(ArtifactError, match=words):
        Program(_changed(change), b"{}")
    Program(_changed("nothing"), b"{}")


def test_the_cookie_follows_the_json() -> None:
    assert Program(PROGRAM.p4info, b"{}").cookie == 0x44136FA355B3678A  # sha256sum of "{}"
    assert Program(PROGRAM.p4info, b"{ }").cookie != Program(PROGRAM.p4info, b"{}").cookie


CURE = r"; compile the program: make p4, or name the folder of another: --p4 DIR$"


def test_missing_or_broken_artifacts(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=f"{P4INFO_NAME}: No such file or directory{CURE}"):
        Program.load(tmp_path)
    (tmp_path / P4INFO_NAME).write_text("tables {")
    with pytest.raises(ArtifactError, match=f"(?s)not P4Info.*{CURE}"):
        Program.load(tmp_path)
    (tmp_path / P4INFO_NAME).write_text(text_format.MessageToString(PROGRAM.p4info))
    with pytest.raises(ArtifactError, match=f"{JSON_NAME}: No such file or directory{CURE}"):
        Program.load(tmp_path)
    for broken in (b"{", b"\xff"):
        (tmp_path / JSON_NAME).write_bytes(broken)
        with pytest.raises(ArtifactError, match=f"{JSON_NAME}: not readable: .*{CURE}"):
            Program.load(tmp_path)
    (tmp_path / JSON_NAME).write_bytes(PROGRAM.device_config)
    assert Program.load(str(tmp_path)).p4info == PROGRAM.p4info


def _rename_key(compiled: Any) -> None:
    tables = [table for pipeline in compiled["pipelines"] for table in pipeline["tables"]]
    next(table for table in tables if table["name"].endswith(".job"))["key"][0]["name"] = "run"


def _drop_table(compiled: Any) -> None:
    for pipeline in compiled["pipelines"]:
        pipeline["tables"] = [table for table in pipeline["tables"] if not table["name"].endswith(".source")]


def _widen(compiled: Any) -> None:
    action = next(action for action in compiled["actions"] if action["name"].endswith(".admit_job"))
    action["runtime_data"][0]["bitwidth"] = 64


def _drop_action(compiled: Any) -> None:
    compiled["actions"] = [action for action in compiled["actions"] if not action["name"].endswith(".admit_worker")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_rename_key, r"table \S+\.job"),
        (_drop_table, r"table \S+\.source"),
        (_widen, r"action \S+\.admit_job"),
        (_drop_action, r"action \S+\.admit_worker"),
        (lambda compiled: compiled.clear(), "the JSON is not what p4c makes for bmv2"),
    ],
)
def test_files_of_two_builds_are_told_apart(tmp_path: Path, change: Callable[[Any], None], words: str) -> None:
    compiled = json.loads(PROGRAM.device_config)
    change(compiled)
    (tmp_path / P4INFO_NAME).write_text(text_format.MessageToString(PROGRAM.p4info))
    (tmp_path / JSON_NAME).write_text(json.dumps(compiled))
    with pytest.raises(ArtifactError, match=f"{P4INFO_NAME} and {JSON_NAME} are not of one build: {words}{CURE}"):
        Program.load(tmp_path)


def test_a_program_of_another_version_names_its_file_and_the_cure(tmp_path: Path) -> None:
    """Both files fit each other, but not this controller."""
    p4info, compiled = _changed("nothing"), json.loads(PROGRAM.device_config)
    table = next(table for table in p4info.tables if table.preamble.alias == "source")
    p4info.tables.remove(table)
    (tmp_path / P4INFO_NAME).write_text(text_format.MessageToString(p4info))
    (tmp_path / JSON_NAME).write_text(json.dumps(compiled))
    with pytest.raises(ArtifactError, match=f"{P4INFO_NAME}: table 'source': not in the compiled program{CURE}"):
        Program.load(tmp_path)


def test_the_name_of_a_program() -> None:
    assert name_of(PROGRAM.p4info).startswith("sumwire ")
    assert name_of(type(PROGRAM.p4info)()) == "without a name"


def test_the_counters_of_workers_are_found_in_any_build_of_sumwire() -> None:
    found = worker_counter_ids(PROGRAM.p4info)
    assert found == (PROGRAM.table_id("worker"), 1)
    assert worker_counter_ids(_changed("direct counter")) is None
