# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Table entries of programs/tables.p4: one row per rule of the specification, with the twin that obeys it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from helpers.p4runtime.client import Controller, Program, delete, insert, modify

MAC = b"\x02\x00\x00\x00\x00\x01"
Change = Callable[[Any], None]


def exact(program: Program, dst: bytes = MAC, action: str = "forward", **params: bytes) -> Any:
    params = params or ({"port": b"\x05"} if action == "forward" else {})
    return program.entry("exact_t", action=program.action(action, **params), dst=("exact", dst))


def priority(entry: Any, value: int) -> Any:
    entry.priority = value
    return entry


def ternary(program: Program, vlan: Any = ("ternary", b"\x04", b"\x0f"), kind: bytes = b"\x08\x00") -> Any:
    match = {} if vlan is None else {"vlan": vlan}
    return priority(program.entry("ternary_t", action=program.action("drop"), **match, type=("exact", kind)), 7)


def ranged(program: Program, *bounds: bytes) -> Any:
    match = {"type": ("range", *bounds)} if bounds else {}
    return priority(program.entry("range_t", action=program.action("drop"), **match), 7)


def lpm(program: Program, *spec: Any) -> Any:
    match = {"src": ("lpm", *spec)} if spec else {}
    return program.entry("lpm_t", action=program.action("drop"), **match)


def optional(program: Program, dst: bytes | None) -> Any:
    match = {} if dst is None else {"dst": ("optional", dst)}
    action = program.action("drop")
    return priority(program.entry("optional_t", action=action, **match, type=("exact", b"\x01")), 1)


def mixed(program: Program, **match: Any) -> Any:
    return priority(program.entry("mixed_t", action=program.action("drop"), **match, vlan=("exact", b"\x01")), 3)


GOOD: dict[str, Callable[[Program], Any]] = {
    "exact": exact,
    "exact zero": lambda p: exact(p, b"\x00"),
    "exact widest": lambda p: exact(p, b"\xff" * 6),
    "action param widest": lambda p: exact(p, port=b"\x01\xff"),
    "action for entries only": lambda p: exact(p, action="mark", vlan=b"\x01", wide=b"\x02"),
    "lpm": lambda p: lpm(p, b"\x0a\x00\x00\x00\x00\x00", 8),
    "lpm whole": lambda p: lpm(p, b"\x0a\x00\x00\x00\x00\x01", 48),
    "lpm one bit": lambda p: lpm(p, b"\x80\x00\x00\x00\x00\x00", 1),
    "lpm left out": lpm,
    "ternary": ternary,
    "ternary zero value": lambda p: ternary(p, ("ternary", b"\x00", b"\x0f\xff")),
    "ternary left out": lambda p: ternary(p, None),
    "range": lambda p: ranged(p, b"\x01", b"\x02"),
    "range one value": lambda p: ranged(p, b"\x02", b"\x02"),
    "range from 0": lambda p: ranged(p, b"\x00", b"\xff\xfe"),
    "range to the end": lambda p: ranged(p, b"\x01", b"\xff\xff"),
    "range left out": ranged,
    "optional": lambda p: optional(p, b"\x07"),
    "optional zero": lambda p: optional(p, b"\x00"),
    "optional left out": lambda p: optional(p, None),
    "mixed": lambda p: mixed(
        p, type=("range", b"\x01", b"\x02"), dst=("lpm", b"\x02" + b"\x00" * 5, 8), src=("ternary", b"\x01", b"\x03")
    ),
    "mixed left out": mixed,
    "priority highest": lambda p: priority(ternary(p), 2**31 - 1),
}
NOT_CANONICAL: dict[str, tuple[Callable[[Program], Any], Callable[[Program], Any]]] = {
    "exact": (lambda p: exact(p, b"\x00\x00" + MAC), exact),
    "exact short": (lambda p: exact(p, b"\x00\x07"), lambda p: exact(p, b"\x07")),
    "action param": (lambda p: exact(p, port=b"\x00\x00\x05"), exact),
    "ternary": (
        lambda p: ternary(p, ("ternary", b"\x00\x04", b"\x00\x0f")),
        lambda p: ternary(p, ("ternary", b"\x04", b"\x0f")),
    ),
    "lpm": (lambda p: lpm(p, b"\x00\x0a\x00\x00\x00\x00\x00", 8), lambda p: lpm(p, b"\x0a\x00\x00\x00\x00\x00", 8)),
    "range": (lambda p: ranged(p, b"\x00\x01", b"\x00\x02"), lambda p: ranged(p, b"\x01", b"\x02")),
    "optional": (lambda p: optional(p, b"\x00\x07"), lambda p: optional(p, b"\x07")),
}


def changed(make: Callable[[Program], Any], change: Change) -> Callable[[Program], Any]:
    def made(program: Program) -> Any:
        entry = make(program)
        change(entry)
        return entry

    return made


def set_field(name: str, value: Any) -> Change:
    return lambda entry: setattr(entry, name, value)


def twice(entry: Any) -> None:
    entry.match.append(entry.match[0])


def param_twice(entry: Any) -> None:
    entry.action.action.params.append(entry.action.action.params[0])


def param_id(entry: Any) -> None:
    entry.action.action.params[0].param_id = 9


INVALID = "INVALID_ARGUMENT"
BAD: dict[str, tuple[Callable[[Program], Any], str, str]] = {
    "exact left out": (lambda p: p.entry("exact_t", action=p.action("drop")), INVALID, "'dst'"),
    "exact too wide": (lambda p: exact(p, b"\x01" + b"\x00" * 6), INVALID, "0x1000000000000 does not fit bit<48>"),
    "exact empty": (lambda p: exact(p, b""), INVALID, "empty"),
    "match of another kind": (
        lambda p: p.entry("exact_t", action=p.action("drop"), dst=("ternary", MAC, b"\xff" * 6)),
        INVALID,
        "exact",
    ),
    "match without a kind": (changed(exact, lambda e: e.match[0].ClearField("exact")), INVALID, "'dst'"),
    "unknown field": (changed(exact, lambda e: setattr(e.match[0], "field_id", 9)), INVALID, "9"),
    "field twice": (changed(exact, twice), INVALID, "twice"),
    "lpm don't care": (lambda p: lpm(p, b"\x00", 0), INVALID, "left out"),
    "lpm too long": (lambda p: lpm(p, b"\x00", 49), INVALID, "49"),
    "lpm negative": (lambda p: lpm(p, b"\x00", -1), INVALID, "-1"),
    "lpm bits below": (lambda p: lpm(p, b"\x0a\x00\x00\x00\x00\x01", 47), INVALID, "47"),
    "ternary don't care": (lambda p: ternary(p, ("ternary", b"\x00", b"\x00")), INVALID, "left out"),
    "ternary bits outside": (lambda p: ternary(p, ("ternary", b"\x05", b"\x04")), INVALID, "0x5"),
    "ternary mask too wide": (lambda p: ternary(p, ("ternary", b"\x05", b"\xff\xff")), INVALID, "bit<12>"),
    "ternary mask empty": (lambda p: ternary(p, ("ternary", b"\x05", b"")), INVALID, "mask"),
    "range don't care": (lambda p: ranged(p, b"\x00", b"\xff\xff"), INVALID, "left out"),
    "range reversed": (lambda p: ranged(p, b"\x03", b"\x02"), INVALID, "0x3"),
    "range too wide": (lambda p: ranged(p, b"\x00", b"\x01\x00\x00"), INVALID, "0x10000 does not fit bit<16>"),
    "optional too wide": (lambda p: optional(p, b"\x01" + b"\x00" * 6), INVALID, "bit<48>"),
    "priority missing": (lambda p: priority(ternary(p), 0), INVALID, "priority 0"),
    "priority missing, range": (lambda p: priority(ranged(p, b"\x01", b"\x02"), 0), INVALID, "priority 0"),
    "priority missing, optional": (lambda p: priority(optional(p, b"\x01"), 0), INVALID, "priority 0"),
    "priority negative": (lambda p: priority(ternary(p), -1), INVALID, "priority -1"),
    "priority not taken, exact": (changed(exact, set_field("priority", 1)), INVALID, "priority 1"),
    "priority not taken, lpm": (lambda p: priority(lpm(p), 1), INVALID, "priority 1"),
    "action missing": (changed(exact, lambda e: e.ClearField("action")), INVALID, "action"),
    "action empty": (changed(exact, lambda e: e.action.ClearField("action")), INVALID, "action"),
    "action of another table": (
        lambda p: priority(p.entry("range_t", action=p.action("forward", port=b"\x01")), 1),
        INVALID,
        "has no action",
    ),
    "action unknown": (changed(exact, lambda e: setattr(e.action.action, "action_id", 1)), INVALID, "has no action"),
    "action by member": (changed(exact, lambda e: setattr(e.action, "action_profile_member_id", 1)), INVALID, "member"),
    "action for default only": (lambda p: exact(p, action="NoAction"), "PERMISSION_DENIED", "NoAction"),
    "param missing": (changed(exact, lambda e: e.action.action.ClearField("params")), INVALID, "'port'"),
    "param unknown": (changed(exact, param_id), INVALID, "9"),
    "param twice": (changed(exact, param_twice), INVALID, "twice"),
    "param too wide": (lambda p: exact(p, port=b"\x02\x00"), INVALID, "'port': value 0x200 does not fit bit<9>"),
    "param empty": (lambda p: exact(p, port=b""), INVALID, "'port'"),
    "table id 0": (changed(exact, set_field("table_id", 0)), INVALID, "table"),
    "table id of an action": (changed(exact, set_field("table_id", 0x01000001)), INVALID, "table"),
    "table unknown": (changed(exact, set_field("table_id", 0x02000001)), INVALID, "0x02000001"),
    "is_const": (changed(exact, set_field("is_const", True)), INVALID, "is_const"),
    "keyless": (lambda p: p.entry("keyless_t", action=p.action("drop")), INVALID, "no key"),
    "const table": (
        lambda p: priority(p.entry("const_t", action=p.action("drop"), type=("ternary", b"\x01", b"\x01")), 1),
        "PERMISSION_DENIED",
        "const",
    ),
    "direct counter without one": (changed(lpm, lambda e: e.counter_data.SetInParent()), INVALID, "direct counter"),
    "direct counter negative": (
        changed(exact, lambda e: setattr(e.counter_data, "packet_count", -1)),
        INVALID,
        "negative",
    ),
    "idle timeout": (changed(exact, set_field("idle_timeout_ns", 1)), INVALID, "idle timeout"),
    "time since last hit": (changed(exact, lambda e: e.time_since_last_hit.SetInParent()), INVALID, "idle timeout"),
    "direct meter": (changed(exact, lambda e: e.meter_config.SetInParent()), INVALID, "meter"),
}


def default(program: Program, table: str, action: Any = None) -> Any:
    entry = program.entry(table, action=action)
    entry.is_default_action = True
    return entry


BAD_DEFAULTS: dict[str, tuple[Callable[[Program], Any], Callable[[Any], Any], str]] = {
    "insert": (lambda p: default(p, "exact_t", p.action("drop")), insert, INVALID),
    "delete": (lambda p: default(p, "exact_t", p.action("drop")), delete, INVALID),
    "match": (changed(exact, set_field("is_default_action", True)), modify, INVALID),
    "priority": (lambda p: priority(default(p, "ternary_t", p.action("drop")), 1), modify, INVALID),
    "const": (lambda p: default(p, "const_t", p.action("drop")), modify, "PERMISSION_DENIED"),
    "action for entries only": (
        lambda p: default(p, "exact_t", p.action("mark", vlan=b"\x01", wide=b"\x01")),
        modify,
        "PERMISSION_DENIED",
    ),
    "action of another table": (lambda p: default(p, "range_t", p.action("forward", port=b"\x01")), modify, INVALID),
    "counter": (
        changed(lambda p: default(p, "exact_t", p.action("drop")), lambda e: e.counter_data.SetInParent()),
        modify,
        "UNIMPLEMENTED",
    ),
}


def check_default_entry(primary: Controller, program: Program) -> None:
    """A default entry is modified, and reset to the program's own."""
    programs_own = default(program, "keyless_t", program.action("forward", port=b"\x07"))
    assert primary.read_entries(default(program, "keyless_t")) == [programs_own]
    changed_one = default(program, "keyless_t", program.action("forward", port=b"\x01\x00"))
    changed_one.metadata = b"mine"
    primary.write(modify(changed_one))
    assert primary.read_entries(default(program, "keyless_t")) == [changed_one]
    primary.write(modify(default(program, "keyless_t")))
    assert primary.read_entries(default(program, "keyless_t")) == [programs_own]
