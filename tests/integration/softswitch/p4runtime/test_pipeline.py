# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Setting and getting the forwarding pipeline, the checks before any Write, batches, capabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from google.rpc import code_pb2
from helpers.p4runtime.client import DEVICE_ID, Controller, Program, code_of, delete, election, insert, items_of, modify
from helpers.p4runtime.messages import group
from helpers.p4runtime.served import primary_of
from p4.v1 import p4runtime_pb2 as p4rt
from softswitch.errors import UnsupportedProgramError
from softswitch.p4runtime import p4info, pipeline, write
from softswitch.p4runtime.errors import InvalidArgumentError
from softswitch.program import ir
from softswitch.program.load.program import load_program
from softswitch.switch import SoftSwitch

Connect = Callable[[], Controller]
Get = p4rt.GetForwardingPipelineConfigRequest


def get(controller: Controller, response_type: int = Get.ALL, device_id: int = DEVICE_ID) -> Any:
    request = Get(device_id=device_id, response_type=response_type)
    return controller.stub.GetForwardingPipelineConfig(request, timeout=60)


def test_get_returns_what_was_set(connect: Connect, program: Program) -> None:
    controller = connect()
    assert not get(controller).HasField("config")
    controller.become(1)
    config = program.config(cookie=2**63)
    controller.set_pipeline(config)
    assert get(controller).config == config
    cookie = p4rt.ForwardingPipelineConfig(cookie=config.cookie)
    assert get(controller, Get.COOKIE_ONLY).config == cookie
    with_info = p4rt.ForwardingPipelineConfig(cookie=config.cookie, p4info=config.p4info)
    assert get(controller, Get.P4INFO_AND_COOKIE).config == with_info
    with_json = p4rt.ForwardingPipelineConfig(cookie=config.cookie, p4_device_config=config.p4_device_config)
    assert get(controller, Get.DEVICE_CONFIG_AND_COOKIE).config == with_json
    controller.set_pipeline(program.config())
    assert not get(controller).config.HasField("cookie")
    assert code_of(lambda: get(controller, response_type=9)) == "INVALID_ARGUMENT"
    assert code_of(lambda: get(controller, device_id=DEVICE_ID + 1)) == "NOT_FOUND"


def test_json_in_the_message_of_older_controllers(connect: Connect, program: Program) -> None:
    """p4lang/tutorials' ``p4runtime_lib`` sends a ``p4.tmp.P4DeviceConfig``: reassign (1), device_data (3)."""
    controller = connect()
    controller.become(1)
    config = program.config()
    config.p4_device_config = b"\x08\x01\x1a" + BytesValue(value=program.json).SerializeToString()[1:]
    controller.set_pipeline(config)
    assert get(controller).config == config
    controller.write(insert(program.entry("exact_t", action=program.action("drop"), dst=("exact", b"\x01"))))


def test_a_new_pipeline_clears_the_state(primary: Controller, program: Program) -> None:
    entry = program.entry("exact_t", action=program.action("drop"), dst=("exact", b"\x01"))
    entry.metadata = b"old"
    primary.write(insert(entry))
    primary.set_pipeline(program.config())
    assert primary.read_entries(program.entry("exact_t")) == []
    entry.ClearField("metadata")
    primary.write(insert(entry))
    assert primary.read_entries(program.entry("exact_t")) == [entry]


def test_what_is_deleted_leaves_nothing_behind(program: Program) -> None:
    device = SoftSwitch(engine="python")
    parsed, bmv2_json = pipeline.parse_pipeline(program.config())
    device.load(bmv2_json)
    entry = program.entry("exact_t", action=program.action("drop"), dst=("exact", b"\x01"))
    entry.metadata = b"note"
    one_group = group(1, (1, 1), metadata=b"note")
    write.apply(device, parsed, [insert(entry), p4rt.Update(type=p4rt.Update.INSERT, entity=one_group)])
    assert (len(parsed.notes.entries), len(parsed.notes.groups)) == (1, 1)
    write.apply(device, parsed, [delete(entry), p4rt.Update(type=p4rt.Update.DELETE, entity=one_group)])
    assert parsed.notes == pipeline.Notes()


@pytest.mark.parametrize(
    "break_it",
    [
        lambda config: config.ClearField("p4info"),
        lambda config: setattr(config, "p4_device_config", b""),
        lambda config: setattr(config, "p4_device_config", b"\xff\xfe"),
        lambda config: setattr(config, "p4_device_config", b"{"),
        lambda config: setattr(config, "p4_device_config", b"\x08\x01\x1a\x7f{"),
        lambda config: setattr(config.p4info.tables[0].preamble, "id", config.p4info.tables[1].preamble.id),
    ],
    ids=["no P4Info", "no JSON", "no text", "bad JSON", "a message cut off", "an id twice"],
)
def test_a_refused_pipeline_changes_nothing(
    primary: Controller, program: Program, break_it: Callable[[Any], None]
) -> None:
    entry = program.entry("exact_t", action=program.action("drop"), dst=("exact", b"\x01"))
    primary.write(insert(entry))
    config = program.config()
    break_it(config)
    assert code_of(lambda: primary.set_pipeline(config)) == "INVALID_ARGUMENT"
    assert primary.read_entries(program.entry("exact_t")) == [entry]
    assert get(primary).config == program.config()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda m: setattr(m.tables[0].preamble, "id", 0), "id 0"),
        (lambda m: setattr(m.actions[0].preamble, "id", m.actions[1].preamble.id), "both"),
        (lambda m: setattr(m.tables[0].match_fields[0], "bitwidth", 0), "bit width"),
        (lambda m: setattr(m.actions[1].params[0], "bitwidth", 0), "bit width"),
        (lambda m: setattr(m.tables[0].match_fields[0], "other_match_type", "fuzzy"), "fuzzy"),
        (lambda m: setattr(m.tables[0].match_fields[0], "match_type", 0), "match type"),
        (lambda m: setattr(m.tables[0].match_fields[0], "bitwidth", 1 << 30), "4096 are the most"),
        (lambda m: setattr(m.tables[0].action_refs[0], "id", 1), "action id"),
        (lambda m: setattr(m.tables[0].action_refs[0], "scope", 9), "scope"),
        (lambda m: setattr(m.direct_counters[0], "direct_table_id", 1), "direct counter"),
        (lambda m: setattr(m.controller_packet_metadata[0].metadata[1], "id", 1), "packet metadata"),
    ],
)
def test_p4info_is_checked(program: Program, change: Callable[[Any], None], text: str) -> None:
    changed = type(program.p4info).FromString(program.p4info.SerializeToString())
    p4info.parse(changed)
    change(changed)
    with pytest.raises(InvalidArgumentError, match=text):
        p4info.parse(changed)


def _table(message: Any, alias: str) -> Any:
    return next(table for table in message.tables if table.preamble.alias == alias)


def _action(message: Any, alias: str) -> Any:
    return next(action for action in message.actions if action.preamble.alias == alias)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            lambda m: setattr(_table(m, "exact_t").preamble, "name", "ingress.other"),
            "table 'ingress.exact_t' is not in",
        ),
        (
            lambda m: setattr(_table(m, "lpm_t").match_fields[0], "match_type", 2),
            "'ingress.lpm_t', match field 'src' is",
        ),
        (lambda m: setattr(_table(m, "lpm_t").match_fields[0], "bitwidth", 47), "has 47 bits in the P4Info, 48 in the"),
        (lambda m: _table(m, "ternary_t").match_fields.pop(), "has 1 match fields in the P4Info, 2 in the JSON"),
        (lambda m: setattr(_action(m, "forward").preamble, "name", "ingress.other"), "no action 'ingress.other'"),
        (lambda m: setattr(_action(m, "forward").params[0], "bitwidth", 32), "'port' has 32 bits in the P4Info, 9 in"),
        (lambda m: _action(m, "mark").params.pop(), "'ingress.mark' has 1 parameters in the P4Info, 2 in"),
        (
            lambda m: setattr(m.counters[0], "size", 9),
            "counter 'ingress.seen' has 9 cells in the P4Info, 8 in the JSON",
        ),
        (lambda m: m.direct_counters.pop(), "'ingress.exact_t' has a direct counter in the JSON only"),
    ],
)
@pytest.mark.parametrize("action", ["VERIFY", "VERIFY_AND_COMMIT"])
def test_p4info_of_another_program_is_refused_by_name(
    program: Program, change: Callable[[Any], None], text: str, action: str
) -> None:
    """And the pipeline that runs stays."""
    with primary_of(SoftSwitch(engine="python"), program.config(cookie=5), verify=lambda _: None) as controller:
        config = program.config(cookie=6)
        change(config.p4info)
        with pytest.raises(grpc.RpcError, match="the P4Info does not fit the JSON") as refused:
            controller.set_pipeline(config, action)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert text in refused.value.details()
        assert refused.value.details().endswith("send P4Info and JSON of one compilation")
        assert get(controller).config.cookie.cookie == 5


def test_what_the_compiler_dropped_and_what_is_translated_fits(program: Program) -> None:
    config = program.config()
    dropped = config.p4info.tables.add()
    dropped.CopyFrom(_table(config.p4info, "lpm_t"))
    dropped.preamble.id, dropped.preamble.name, dropped.preamble.alias = 0x02FFFFFF, "ingress.dropped", "dropped"
    lost = config.p4info.counters.add(size=3)
    lost.preamble.id, lost.preamble.name = 0x12FFFFFF, "ingress.lost"
    port = _action(config.p4info, "forward").params[0]
    port.bitwidth = 32
    port.type_name.name = "port_id_t"
    with primary_of(SoftSwitch(engine="python"), config) as controller:
        everything = [p4rt.Entity(table_entry=p4rt.TableEntry()), p4rt.Entity(counter_entry=p4rt.CounterEntry())]
        assert len(controller.read(*everything)) == 4 + 8


def test_what_the_program_keeps_to_itself_fits(program: Program) -> None:
    """Tables with entries of their own: those of switch statements, and what P4 annotates with @hidden."""
    config = program.config()
    config.p4info.tables.remove(_table(config.p4info, "const_t"))
    named = config.p4_device_config.replace(b'"ingress.lpm_t"', b'"switch_0_table"')
    config.p4_device_config = named
    config.p4info.tables.remove(_table(config.p4info, "lpm_t"))
    with primary_of(SoftSwitch(engine="python"), config) as controller:
        known = {table.preamble.id for table in config.p4info.tables}
        read = controller.read(p4rt.Entity(table_entry=p4rt.TableEntry()))
        assert {entity.table_entry.table_id for entity in read} <= known


@pytest.mark.parametrize(
    ("action", "code"),
    [
        ("UNSPECIFIED", "INVALID_ARGUMENT"),
        ("VERIFY", "UNIMPLEMENTED"),
        ("VERIFY_AND_SAVE", "UNIMPLEMENTED"),
        ("COMMIT", "UNIMPLEMENTED"),
        ("RECONCILE_AND_COMMIT", "UNIMPLEMENTED"),
        ("VERIFY_AND_COMMIT", "OK"),
    ],
)
def test_actions(connect: Connect, program: Program, action: str, code: str) -> None:
    controller = connect()
    controller.become(1)
    assert code_of(lambda: controller.set_pipeline(program.config(), action)) == code
    assert get(controller).HasField("config") is (code == "OK")


def test_verify_with_the_engine(program: Program) -> None:
    with primary_of(SoftSwitch(), verify=SoftSwitch) as controller:
        controller.set_pipeline(program.config(), "VERIFY")
        config = program.config()
        config.p4_device_config = b"{"
        assert code_of(lambda: controller.set_pipeline(config, "VERIFY")) == "INVALID_ARGUMENT"
        assert not get(controller).HasField("config")


def test_verify_with_a_verifier(program: Program) -> None:
    asked: list[ir.Program] = []

    def verify(loaded: ir.Program) -> None:
        asked.append(loaded)
        if len(asked) > 1:
            raise UnsupportedProgramError("not this one")

    with primary_of(SoftSwitch(engine="python"), verify=verify) as controller:
        controller.set_pipeline(program.config(), "VERIFY")
        assert list(asked[0].tables) == list(load_program(program.json.decode()).tables)
        assert code_of(lambda: controller.set_pipeline(program.config(), "VERIFY")) == "INVALID_ARGUMENT"
        assert not get(controller).HasField("config")


# --- checks before the batch, in the specification's order


def test_before_a_pipeline(connect: Connect) -> None:
    controller = connect()
    assert code_of(controller.write) == "PERMISSION_DENIED"
    controller.become(1)
    assert code_of(controller.write) == "FAILED_PRECONDITION"
    assert code_of(controller.read) == "FAILED_PRECONDITION"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda r: None, "OK"),
        (lambda r: setattr(r, "device_id", DEVICE_ID + 1), "NOT_FOUND"),
        (lambda r: setattr(r, "role", "lab"), "NOT_FOUND"),
        (lambda r: setattr(r, "role_id", 1), "NOT_FOUND"),
        (lambda r: election(r, 2), "PERMISSION_DENIED"),
        (lambda r: r.ClearField("election_id"), "PERMISSION_DENIED"),
    ],
)
def test_who_asks_whom(primary: Controller, program: Program, change: Callable[[Any], None], code: str) -> None:
    write, config = primary.write_request(), primary.pipeline_request(program.config())
    change(write)
    change(config)
    assert code_of(lambda: primary.stub.Write(write, timeout=60)) == code
    assert code_of(lambda: primary.stub.SetForwardingPipelineConfig(config, timeout=60)) == code


@pytest.mark.parametrize("asked", [{"device_id": DEVICE_ID, "role": "lab"}, {"device_id": 99}])
def test_who_reads_from_whom(primary: Controller, asked: dict[str, Any]) -> None:
    assert code_of(lambda: list(primary.stub.Read(p4rt.ReadRequest(**asked), timeout=60))) == "NOT_FOUND"


@pytest.mark.parametrize(
    ("atomicity", "code"), [(0, "OK"), (1, "UNIMPLEMENTED"), (2, "UNIMPLEMENTED"), (3, "INVALID_ARGUMENT")]
)
def test_atomicity(primary: Controller, program: Program, atomicity: int, code: str) -> None:
    entry = program.entry("exact_t", action=program.action("drop"), dst=("exact", b"\x01"))
    request = primary.write_request(insert(entry))
    request.atomicity = atomicity
    assert code_of(lambda: primary.stub.Write(request, timeout=60)) == code
    assert len(primary.read_entries(program.entry("exact_t"))) == (code == "OK")


def test_codes_survive_a_batch_too_long_for_its_messages(primary: Controller, program: Program) -> None:
    """gRPC's metadata have 8 KiB by default: a client sees nothing at all of more."""
    absent = program.entry("exact_t", action=program.action("drop"), dst=("exact", b"\x01"))
    bad = program.entry("exact_t", dst=("exact", b"\x01" * 300))
    call = primary.stub.Write.with_call
    request = primary.write_request(*[insert(bad)] * 60, *[modify(absent)] * 240)
    with pytest.raises(Exception, match="300 of 300 updates failed") as caught:
        call(request, timeout=60)
    errors: list[Any] = items_of(caught.value)
    expected = [code_pb2.INVALID_ARGUMENT] * 60 + [code_pb2.NOT_FOUND] * 240
    assert [e.canonical_code for e in errors] == expected
    assert errors[0].message
    assert not errors[-1].message


def test_a_batch_of_which_not_even_the_codes_fit_says_where_it_failed(primary: Controller, program: Program) -> None:
    cells = [p4rt.Entity(counter_entry=p4rt.CounterEntry(counter_id=program.id("counters", "seen")))] * 2000
    updates = [p4rt.Update(type=p4rt.Update.MODIFY, entity=each) for each in cells]
    updates[1500] = p4rt.Update(type=p4rt.Update.INSERT, entity=cells[0])
    with pytest.raises(grpc.RpcError) as caught:
        primary.write(*updates)
    errors = items_of(caught.value)
    assert [e.canonical_code for e in errors] == [code_pb2.OK] * 340
    assert caught.value.details() == (
        "1 of 2000 updates failed; codes of the first 340 follow. Number 1500: INSERT: counter entries take MODIFY only"
    )


def test_capabilities(connect: Connect) -> None:
    response = connect().stub.Capabilities(p4rt.CapabilitiesRequest(), timeout=60)
    assert response.p4runtime_api_version == "1.4.1"
