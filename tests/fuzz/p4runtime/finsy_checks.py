# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of a P4Runtime switch by finsy, a client that nobody of this project wrote.

``python finsy_checks.py ADDRESS PROGRAM...`` needs finsy and nothing of the project, and runs in finsy's own
environment. The programs are those of the tests, as P4Info files with the JSON beside them; a check without its program
is left out. It writes one JSON object: by check "ok", or what went wrong.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import finsy as fy
from finsy.proto.stratum1 import p4_role_config_pb2

_ADDRESS = sys.argv[1]
_PROGRAMS = {Path(name).name.partition(".")[0]: Path(name) for name in sys.argv[2:]}
_WAIT_S = 20.0
_DEVICE_ID = 7
_CPU_PORT = 255  # of tables.p4

Check = Callable[[], Awaitable[None]]
CHECKS: dict[str, Check] = {}


def check(*programs: str) -> Callable[[Check], Check]:
    """Add a check that needs these programs."""

    def add(function: Check) -> Check:
        if set(programs) <= _PROGRAMS.keys():
            CHECKS[function.__name__.replace("_", " ")] = function
        return function

    return add


def switch(program: str = "tables", name: str = "one", **options: Any) -> Any:
    info = _PROGRAMS[program]
    code = info.with_name(f"{program}.json")
    return fy.Switch(name, _ADDRESS, fy.SwitchOptions(p4info=info, p4blob=code, device_id=_DEVICE_ID, **options))


async def entities(one: Any, *wanted: Any) -> list[Any]:
    return [each async for each in one.read(wanted)]


def require(verdict: bool, what: object) -> None:
    if not verdict:
        raise AssertionError(what)


ROWS: dict[str, Callable[[], Any]] = {
    "exact": lambda: fy.P4TableEntry(
        "exact_t", match=fy.Match(dst="00:00:00:00:00:05"), action=fy.Action("forward", port=7)
    ),
    "lpm": lambda: fy.P4TableEntry(
        "lpm_t", match=fy.Match(src="0xAABB00000000/16"), action=fy.Action("forward", port=3)
    ),
    "ternary": lambda: fy.P4TableEntry(
        "ternary_t",
        match=fy.Match(vlan="0x120/&0xFF0", type=0x800),
        action=fy.Action("mark", vlan=1, wide=2),
        priority=9,
    ),
    "range": lambda: fy.P4TableEntry(
        "range_t", match=fy.Match(type="0x100...0x200"), action=fy.Action("mark", vlan=3, wide=4), priority=4
    ),
    "optional": lambda: fy.P4TableEntry(
        "optional_t", match=fy.Match(dst=0xFFFFFFFFFFFF, type=0x806), action=fy.Action("drop"), priority=2
    ),
    "initial": lambda: fy.P4TableEntry("initial_t", match=fy.Match(type=0x1234), action=fy.Action("drop")),
    "mixed": lambda: fy.P4TableEntry(
        "mixed_t",
        match=fy.Match(type="1...2", dst="0xAA0000000000/8", src="0x1/&0x1", vlan=5),
        action=fy.Action("forward", port=1),
        priority=1,
    ),
}


@check("tables")
async def connects_and_sets_the_pipeline() -> None:
    async with switch(p4force=True) as one:
        require(one.is_primary, "not the primary")
        require(str(one.p4runtime_version).startswith("1.4"), one.p4runtime_version)


@check("tables")
async def keeps_a_pipeline_that_is_there() -> None:
    async with switch() as one:
        require(one.is_primary, "not the primary")


@check("tables", "clone")
async def changes_to_another_pipeline_and_back() -> None:
    async with switch("clone", p4force=True) as one:
        require(len(await entities(one, fy.P4CounterEntry())) == 0, "its counters")
    async with switch(p4force=True) as one:
        require(len(await entities(one, fy.P4TableEntry("const_t"))) == 2, "the constant entries")


def _row_check(kind: str) -> None:
    async def inserts_modifies_reads_deletes() -> None:
        async with switch(p4force=True) as one:
            row = ROWS[kind]()
            await one.insert([row])
            table, key = fy.P4TableEntry(row.table_id), fy.P4TableEntry(row.table_id, match=row.match)
            before = len(await entities(one, table)) - 1
            found = await entities(one, key)
            require(len(found) == 1 and found[0].action == row.action, f"{found} instead of {row}")
            row.metadata = b"note"
            await one.modify([row])
            require((await entities(one, key))[0].metadata == b"note", "the metadata")
            await one.delete([found[0]])  # the message that was read, as it is
            require((await entities(one, key)) == [] and len(await entities(one, table)) == before, "it is still there")

    inserts_modifies_reads_deletes.__name__ = f"{kind} match"
    check("tables")(inserts_modifies_reads_deletes)


for _kind in ROWS:
    _row_check(_kind)


@check("tables")
async def a_full_table_is_resource_exhausted() -> None:
    async with switch(p4force=True) as one:
        row = "00:00:00:00:00:0{}"
        rows = [
            fy.P4TableEntry("exact_t", match=fy.Match(dst=row.format(n)), action=fy.Action("drop")) for n in range(5)
        ]
        try:
            await one.insert(rows)
        except fy.P4ClientError as error:
            codes = {number: detail.canonical_code.name for number, detail in error.details.items()}
            require(codes == {4: "RESOURCE_EXHAUSTED"}, codes)
            return
        raise AssertionError("no error")


@check("tables")
async def errors_of_300_updates() -> None:
    async with switch(p4force=True) as one:
        row = fy.P4TableEntry("exact_t", match=fy.Match(dst=1), action=fy.Action("drop"))
        try:
            await one.modify([row] * 300)
        except fy.P4ClientError as error:
            codes = {detail.canonical_code.name for detail in error.details.values()}
            require((len(error.details), codes) == (300, {"NOT_FOUND"}), (len(error.details), codes))
            return
        raise AssertionError("no error")


@check("tables")
async def default_entries() -> None:
    async with switch(p4force=True) as one:
        row = fy.P4TableEntry("exact_t", is_default_action=True, action=fy.Action("forward", port=5))
        await one.modify([row])
        asked = fy.P4TableEntry("exact_t", is_default_action=True)
        require((await entities(one, asked))[0].action == row.action, "the default action")
        await one.modify([asked])
        require((await entities(one, asked))[0].action == fy.Action("drop"), "the program's default action")


@check("tables")
async def counters() -> None:
    async with switch(p4force=True) as one:
        await one.write([fy.P4CounterEntry("seen", index=3, data=fy.P4CounterData(byte_count=5, packet_count=6))])
        found = await entities(one, fy.P4CounterEntry("seen"))
        require(len(found) == 8 and found[3].data.packet_count == 6, found)
        require(len(await entities(one, fy.P4CounterEntry())) == 8, "all counters")


@check("tables")
async def direct_counters() -> None:
    async with switch(p4force=True) as one:
        row = ROWS["exact"]()
        await one.insert([row])
        data = fy.P4CounterData(byte_count=5, packet_count=6)
        await one.write([fy.P4DirectCounterEntry("exact_t", table_entry=row, data=data)])
        found = await entities(one, fy.P4DirectCounterEntry("exact_t", table_entry=row))
        require(found[0].data == data, found)
        row = fy.P4TableEntry("exact_t", counter_data=fy.P4CounterData())
        require((await entities(one, row))[0].counter_data == data, "with the entry")


@check("tables")
async def multicast_groups() -> None:
    async with switch(p4force=True) as one:
        group = fy.P4MulticastGroupEntry(3, replicas=[1, 2, (3, 7)])
        await one.insert([group])
        found = await entities(one, fy.P4MulticastGroupEntry())
        require([each.multicast_group_id for each in found] == [3] and len(found[0].replicas) == 3, found)
        await one.delete([group])


@check("tables")
async def packet_out_and_packet_in() -> None:
    async with switch(p4force=True) as one:
        packet = await _packet_after(one, fy.P4PacketOut(b"\1" * 60, egress_port=_CPU_PORT, tag=9))
        require(packet.payload == b"\1" * 60, packet)
        require((packet["ingress_port"], packet["tag"]) == (_CPU_PORT, 9), packet)


@check("tables")
async def whole_state_in_one_read() -> None:
    async with switch(p4force=True) as one:
        kinds = (
            fy.P4TableEntry(),
            fy.P4ActionProfileMember(),
            fy.P4ActionProfileGroup(),
            fy.P4MeterEntry(),
            fy.P4DirectMeterEntry(),
            fy.P4CounterEntry(),
            fy.P4DirectCounterEntry(),
            fy.P4RegisterEntry(),
            fy.P4DigestEntry(),
            fy.P4MulticastGroupEntry(),
            fy.P4CloneSessionEntry(),
        )
        found = await entities(one, *kinds)
        require(len([each for each in found if isinstance(each, fy.P4TableEntry)]) == 4, found)


@check("tables")
async def delete_all_leaves_constant_entries_only() -> None:
    async with switch(p4force=True) as one:
        await one.insert([make() for make in ROWS.values()])
        await one.delete_all()
        left = await entities(one, fy.P4TableEntry())
        require(len(left) == 2 and all(each.is_const for each in left), left)


@check("clone")
async def delete_all_of_groups_and_clone_sessions() -> None:
    """Of a program without constant entries: beside them finsy deletes table entries only."""
    async with switch("clone", p4force=True) as one:
        await one.insert([fy.P4MulticastGroupEntry(3, replicas=[1, 2]), fy.P4CloneSessionEntry(5, replicas=[1])])
        await one.delete_all()
        left = await entities(one, fy.P4TableEntry(), fy.P4MulticastGroupEntry(), fy.P4CloneSessionEntry())
        require(left == [], left)


async def _packet_after(one: Any, out: Any) -> Any:
    """The packet-in that follows a packet-out."""
    coming = asyncio.create_task(anext(one.read_packets()))
    await asyncio.sleep(0)  # the task asks for packets
    await one.write([out])
    return await asyncio.wait_for(coming, _WAIT_S)


@check("clone")
async def clone_sessions() -> None:
    async with switch("clone", p4force=True) as one:
        session = fy.P4CloneSessionEntry(5, class_of_service=1, replicas=[(_CPU_PORT, 3)])
        await one.insert([session])
        found = await entities(one, fy.P4CloneSessionEntry())
        require([(each.session_id, each.class_of_service, len(each.replicas)) for each in found] == [(5, 1, 1)], found)
        packet = await _packet_after(one, fy.P4PacketOut(b"\1" * 60, egress_port=7, task=1))
        require((packet.payload, packet["reason"]) == (b"\1" * 60, 1), packet)
        await one.delete([session])
        require(await entities(one, fy.P4CloneSessionEntry()) == [], "it is still there")


@check("digest")
async def digests() -> None:
    async with switch("digest", p4force=True) as one:
        config = fy.P4DigestEntry("learned_t", max_list_size=1, ack_timeout_ns=60 * 10**9)
        await one.insert([config])
        require(await entities(one, fy.P4DigestEntry("learned_t")) == [config], "reads what was written")
        coming = asyncio.create_task(anext(one.read_digests("learned_t")))
        await asyncio.sleep(0)  # the task asks for digests
        await one.write([fy.P4PacketOut(b"\1" * 60, egress_port=7, task=2)])
        told = await asyncio.wait_for(coming, _WAIT_S)
        require(told.data == [{"source": 0x010101010101, "port": _CPU_PORT}], told)
        await one.write([told.ack()])
        await one.delete([config])


@check("meter")
async def meters() -> None:
    async with switch("meter", p4force=True) as one:
        config = fy.P4MeterConfig(cir=0, cburst=1, pir=0, pburst=2)
        await one.modify([fy.P4MeterEntry("rates", index=1, config=config)])
        found = await entities(one, fy.P4MeterEntry("rates"))
        require([each.config for each in found] == [None, config, None, None], found)
        colours = []
        for _ in range(3):
            packet = await _packet_after(one, fy.P4PacketOut(b"\1" * 60, egress_port=_CPU_PORT, task=3))
            colours.append(packet["reason"])
        require(colours == [0, 1, 2], colours)


@check("selector")
async def members_of_an_action_profile_and_delete_all_of_them() -> None:
    async with switch("selector", p4force=True) as one:
        await one.insert(
            [
                fy.P4ActionProfileMember("members", member_id=1, action=fy.Action("mark", reason=5)),
                fy.P4TableEntry("profiled", match=fy.Match(type=0x101), action=fy.P4IndirectAction(member_id=1)),
                fy.P4TableEntry("selected", match=fy.Match(dst=0x010101010101), action=fy.Action("mark", reason=6)),
            ]
        )
        require(len(await entities(one, fy.P4TableEntry(), fy.P4ActionProfileMember())) == 3, "reads what was written")
        packet = await _packet_after(one, fy.P4PacketOut(b"\1" * 60, egress_port=_CPU_PORT, task=1))
        require(packet["reason"] == 6, packet)
        await one.delete_all()
        require(await entities(one, fy.P4TableEntry(), fy.P4ActionProfileMember()) == [], "something is left")


@check("idle")
async def idle_timeouts() -> None:
    async with switch("idle", p4force=True) as one:
        coming = asyncio.create_task(anext(one.read_idle_timeouts()))
        await asyncio.sleep(0)  # the task asks for notifications
        row = fy.P4TableEntry("hosts", match=fy.Match(src=5), action=fy.Action("seen"), idle_timeout_ns=50_000_000)
        await one.insert([row])
        told = await asyncio.wait_for(coming, _WAIT_S)
        require([each.match for each in told.table_entry] == [{"src": 5}], told)
        [found] = await entities(one, fy.P4TableEntry("hosts", time_since_last_hit=0))
        require((found.idle_timeout_ns, found.time_since_last_hit is not None) == (50_000_000, True), found)


async def _until(condition: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(_WAIT_S):
            while not condition():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{what}: not after {_WAIT_S:g} s") from None


@check("tables")
async def three_clients_with_one_default_id_and_failover() -> None:
    """Clients begin with the same election id; each finds another. When the primary goes, a backup takes its place."""
    clients = [switch(name=f"client {number}") for number in range(3)]
    tasks = [asyncio.create_task(each.run()) for each in clients]
    try:
        await _until(lambda: all(each.is_up for each in clients), "all are connected")
        await _until(lambda: sum(each.is_primary for each in clients) == 1, "one is the primary")
        require(len({each.election_id for each in clients}) == 3, "their election ids differ")
        for left in (2, 1):
            first = next(number for number, each in enumerate(clients) if each.is_primary)
            tasks.pop(first).cancel()
            clients.pop(first)
            await _until(lambda: sum(each.is_primary for each in clients) == 1, f"one of {left} is the primary")
        await clients[0].insert([ROWS["exact"]()])
        await clients[0].delete([ROWS["exact"]()])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@check("tables")
async def a_role_with_config() -> None:
    async with switch(p4force=True) as one:
        table = one.p4info.tables["exact_t"].id
        config = p4_role_config_pb2.P4RoleConfig(exclusive_p4_ids=[table])
        options = {"device_id": _DEVICE_ID, "role_name": "lab", "role_config": config}
        async with fy.Switch("two", _ADDRESS, fy.SwitchOptions(**options)) as two:
            require(one.is_primary and two.is_primary, "both are primaries")
            await two.insert([ROWS["exact"]()])
            require(len(await entities(two, fy.P4TableEntry())) == 1, "reads its own table")
            try:
                await two.insert([ROWS["lpm"]()])
            except fy.P4ClientError as error:
                require([each.canonical_code.name for each in error.details.values()] == ["PERMISSION_DENIED"], error)
                return
            raise AssertionError("writes a table that is not its own")


async def _run() -> dict[str, str]:
    results = {}
    for name, function in CHECKS.items():
        try:
            async with asyncio.timeout(3 * _WAIT_S):
                await function()
            results[name] = "ok"
        except BaseException as error:  # noqa: BLE001 - finsy ends tasks with errors of every base
            lines = traceback.format_exception_only(error)
            results[name] = "".join(lines).strip()[:600] or repr(error)
    return results


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(_run()), indent=1) + "\n")
