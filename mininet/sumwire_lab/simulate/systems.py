# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Systems of a simulation by name: what they send, and who sums it.

Packets of those that switches sum are the library's: op, fields and headers come from `sumwire.systems.TABLE`. A name
with `@server` has the same packets summed by a process at a host, to which all workers send theirs.

How many workers an op has room for is not checked: simulations ask what would be with more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from sumwire.systems import TABLE
from sumwire.systems.cost import EVERY_VALUE, TCP_FRAME, TCP_PAYLOAD, InFields, InPackets
from sumwire.systems.spec import SWITCH
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import JUMBO, MAX32, ONE_TRIP_CHUNKS, SUM32, THC, Op, Payload

from sumwire_lab.options.fabric import Fabric
from sumwire_lab.options.fields import one_of
from sumwire_lab.options.run_options import JUMBO_MTU

Way = Literal["switch", "server", "ring", "halving-doubling", "parameter server"]
LowRank = Literal["in turn", "both"]
"""Factors P and Q of a matrix: one a step, during the backward pass (ACP-SGD), or P and then Q after it (Power-SGD)."""
_SHORT_FRAME: Final = TCP_FRAME - TCP_PAYLOAD


@dataclass(frozen=True)
class System:
    """One system. ``way``: who sums. ``fields``: values in an element of SUM32. ``wide``: THC whose sums have 16 bits,
    with half the values a packet, so that a slot keeps its 8 words; there is no such op yet. ``parts``: a packet has so
    small a part of the op's values. ``late``: sends nothing before the backward pass has ended, as one exchange.
    ``value_bytes``: of a value in an all-reduce among hosts. ``low_rank``: which factors it sends instead.
    ``tagged``: with lanes and priorities, in the engine of packets."""

    name: str
    way: Way
    op: Op | None = None
    fields: int = 1
    wide: bool = False
    parts: int = 1
    late: bool = False
    value_bytes: float = 4.0
    low_rank: LowRank | None = None
    tagged: bool = False

    @property
    def asks(self) -> bool:
        """Whether workers first agree on norms (THC) or exponents (SUM32), by MAX32."""
        return self.op in (THC, SUM32)


@dataclass(frozen=True)
class Packets:
    """Of one exchange. ``values``: in a packet; ``up``, ``partial``, ``down``: bytes of a frame from a host, from a
    lower switch, and of a result. ``count``: how many each worker sends, and gets. ``coded``: whether hosts encode and
    decode values."""

    values: int
    up: int
    partial: int
    down: int
    count: int
    coded: bool


def op_of(system: System, fabric: Fabric) -> Op | None:
    """Return the op of a long tensor's packets: THC's are longer where switches sum and links take them."""
    jumbo = (
        system.op == THC
        and not system.wide
        and system.parts == 1
        and system.way == "switch"
        and fabric.mtu >= JUMBO_MTU
    )
    return JUMBO if jumbo else system.op


def exchanges_of(system: System, fabric: Fabric, values: int) -> tuple[Packets, ...]:
    """Return the exchanges of one tensor over switches or a server, which follow one another: its norms or exponents
    where it is too long for one round trip, then its values."""
    op = op_of(system, fabric)
    assert op is not None, system
    if op == JUMBO and values <= THC.values * _LEAST_JUMBO:
        op = THC
    packets = _packets(op, fabric)
    if system.wide:
        # Half the values: half the bytes up, and sums of twice the bits fill as many words as before.
        half = Payload(op.up.words // 2)
        packets = replace(packets, values=packets.values // 2, up=_frame(half, fabric))
    if system.parts > 1:
        up, partial, down = (
            _part(octets, system.parts, fabric) for octets in (packets.up, packets.partial, packets.down)
        )
        packets = replace(packets, values=packets.values // system.parts, up=up, partial=partial, down=down)
    packets = replace(packets, values=packets.values * system.fields)
    packets = replace(packets, count=-(-values // packets.values))
    if not system.asks:
        return (packets,)
    block = SUM32.values if op == SUM32 and system.fields == 1 else THC.values
    scales = -(-values // block)
    # In a scales' chunk every worker has places of its own: a byte of each plane for a norm, or an element.
    room = (SUM32.values if op == SUM32 else p4.WORD_BYTES) // fabric.workers
    if scales <= min(room, ONE_TRIP_CHUNKS):
        return (replace(packets, count=packets.count + 1),)
    asked = replace(_packets(MAX32, fabric), count=-(-scales // MAX32.values), coded=False)
    return asked, packets


def _packets(op: Op, fabric: Fabric) -> Packets:
    up, partial, down = (_frame(payload, fabric) for payload in (op.up, op.partial, op.down))
    return Packets(op.values, up, partial, down, count=0, coded=True)


# A shorter tensor would be mostly padding: it has fewer chunks than a packet of JUMBO.
_LEAST_JUMBO: Final = JUMBO.values // THC.values - 1


def _part(octets: int, parts: int, fabric: Fabric) -> int:
    bare = p4.BARE_BYTES + fabric.extra_bytes
    return bare + (octets - bare) // parts


def _frame(payload: Payload, fabric: Fabric) -> int:
    return p4.BARE_BYTES + payload.words * p4.WORD_BYTES + fabric.extra_bytes


def tcp_frames(payload: float, fabric: Fabric) -> float:
    """Return the bytes of full TCP frames with so many bytes of data."""
    room = fabric.mtu + p4.ETHERNET_BYTES - _SHORT_FRAME
    return payload * (room + _SHORT_FRAME + fabric.extra_bytes) / room


def _switched(name: str) -> System:
    spec = TABLE[name]
    cost = spec.routes[SWITCH].cost
    assert isinstance(cost, InPackets), name
    low_rank: LowRank | None = None if cost.carried is EVERY_VALUE else "in turn"
    return System(
        name,
        "switch",
        op=cost.op,
        fields=cost.fields if isinstance(cost, InFields) else 1,
        late=spec.acts == "optimizer" and low_rank is None,
        low_rank=low_rank,
    )


# A word has 64 bits there instead of 1024 (docs/tofino.md).
_TOFINO: Final = 16


def _all() -> dict[str, System]:
    switched = [_switched(name) for name in ("thc", "thc-wide", "sum32", "marsit", "vote", "acp", "acp-thc")]
    switched += [replace(switched[0], name="thc-16", wide=True), replace(switched[0], name="thc-tofino", parts=_TOFINO)]
    switched.append(replace(switched[0], name="dlcp", tagged=True))
    among_hosts = [
        System("gloo", "ring"),
        System("fp16", "ring", value_bytes=2.0),
        System("powersgd", "ring", low_rank="both"),
        System("acp@group", "ring", low_rank="in turn"),
        System("halving-doubling", "halving-doubling"),
        System("parameter-server", "parameter server"),
    ]
    at_server = [replace(one, name=f"{one.name}@server", way="server") for one in switched]
    return {one.name: one for one in (*switched, *at_server, *among_hosts)}


SYSTEMS: Final[Mapping[str, System]] = _all()


def system_of(name: str) -> System:
    """Return a known system. Raises OptionError for an unknown name."""
    one_of(tuple(SYSTEMS)).check("systems", name)
    return SYSTEMS[name]
