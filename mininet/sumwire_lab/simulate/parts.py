# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The links and processors that a chunk passes between hosts, with their seconds for a chunk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sumwire_lab.options.fabric import Fabric
from sumwire_lab.simulate.conveyor import Visit
from sumwire_lab.simulate.costs import Costs
from sumwire_lab.simulate.systems import Packets

_BYTE: Final = 8


@dataclass(frozen=True)
class Passed:
    """Seconds of a chunk by part, on links and in what adds, of all that add together, and from end to end without
    hosts. ``between``: the parts in order, without hosts; none where they overlap."""

    links: Mapping[str, float]
    adders: Mapping[str, float]
    all_adders_s: float
    first_s: float
    between: tuple[Visit, ...] = ()

    def visits(self, packets: Packets, costs: Costs) -> tuple[Visit, ...]:
        """Return all parts in order."""
        if not self.between:
            return ()
        values = packets.values if packets.coded else 0
        out = Visit("host", costs.send_s + values * costs.encode_s)
        return (out, *self.between, Visit("host", costs.receive_s + values * costs.decode_s))


def _wire(octets: float, rate: float) -> float:
    return _BYTE * octets / rate


def _adding_s(packets: Packets, costs: Costs) -> float:
    return costs.adding_s(packets.values if packets.coded else 0)


def at_switches(fabric: Fabric, packets: Packets, costs: Costs) -> Passed:
    """Return the parts where the switches of a tree sum."""
    host, delay_s, each = fabric.rate_bit_s, fabric.delay_s, _adding_s(packets, costs) + costs.copy_s
    links = {"uplink": _wire(packets.up, host), "downlink": _wire(packets.down, host)}
    up, down = [Visit("uplink", links["uplink"], delay_s)], [Visit("downlink", links["downlink"], delay_s)]
    top = len(fabric.levels)
    adders, every = {}, 0.0
    for level in range(1, top):
        there, back, ways = _wire(packets.partial, fabric.trunk), _wire(packets.down, fabric.trunk), fabric.ways(level)
        name = f"switch {level}"
        links[f"trunk {level}"] = max(there, back) / ways
        # The partial result is a copy too, and so are results below; the result from above is one more packet.
        below = fabric.children(level) * _adding_s(packets, costs) + costs.copy_s
        above = _adding_s(packets, costs) + fabric.children(level) * costs.copy_s
        adders[name] = below + above
        every += (fabric.nodes(level - 1) + fabric.nodes(level)) * each
        up += [Visit(name, below), Visit(f"trunk {level} up", there, delay_s, ways)]
        down += [Visit(name, above), Visit(f"trunk {level} down", back, delay_s, ways)]
    worked = fabric.children(top) * each
    adders[f"switch {top}"] = worked / fabric.spines
    every += fabric.nodes(top - 1) * each
    between = (*up, Visit(f"switch {top}", worked, ways=fabric.spines), *reversed(down))
    return Passed(links, adders, every, sum(one.seconds + one.then_s for one in between), between)


def at_server(fabric: Fabric, packets: Packets, costs: Costs) -> Passed:
    """Return the parts where a server sums: all contributions come to one link, and a copy of each result leaves by it
    for every worker."""
    workers, host, server, add_s = fabric.workers, fabric.rate_bit_s, fabric.server, _adding_s(packets, costs)
    there, back = _wire(packets.up, server), _wire(packets.down, server)
    links = {
        "uplink": _wire(packets.up, host),
        "downlink": _wire(packets.down, host),
        "server's link": workers * max(there, back),
    }
    first_s = links["uplink"] + links["downlink"] + 4 * fabric.delay_s
    # The last of many packets that come together waits for all others at the slowest place.
    waits_there, waits_back = [(workers - 1) * max(there, add_s)], [(workers - 1) * max(back, costs.copy_s)]
    for level in range(1, len(fabric.levels)):
        trunk, ways = fabric.trunk, fabric.ways(level)
        below = min(fabric.unit(level), workers)
        one_there, one_back = _wire(packets.up, trunk), _wire(packets.down, trunk)
        links[f"trunk {level}"] = below * max(one_there, one_back) / ways
        waits_there.append((below - 1) * one_there / ways)
        waits_back.append((below - 1) * one_back / ways)
        first_s += one_there + one_back + 2 * fabric.delay_s
    first_s += there + add_s + max(waits_there) + back + costs.copy_s + max(waits_back)
    worked = workers * (add_s + costs.copy_s)
    return Passed(links, {"server": worked}, worked, first_s)
