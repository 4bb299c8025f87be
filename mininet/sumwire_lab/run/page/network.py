# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The network drawn from the side: the top switch at the left, hosts at the right, load and loss on every link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sumwire_lab.run.page import opening

WIDTH: Final = 480
_LEFT, _RIGHT = 40, 290
_TOP: Final = 30
_SWITCH: Final = 56
"""Width of a switch's box."""
_WORDS: Final = 19
"""From the middle of a switch to the words of its uplink."""
_ROWS: Final = ((8, 34), (16, 26), (32, 20))
"""Up to so many hosts, a row is so high."""


@dataclass(frozen=True)
class DrawnNode:
    """A switch or a host, at its middle."""

    name: str
    x: float
    y: float
    switch: bool


@dataclass(frozen=True)
class Way:
    """One direction of a link: the drawn curve, its thickness, and its description."""

    path: str
    up: bool
    width: float
    lossy: bool


@dataclass(frozen=True)
class DrawnLink:
    """A link with both directions, and the words beside it."""

    ways: tuple[Way, ...]
    words: str
    lost: str
    x: float
    y: float
    outer: bool
    """Whether the words begin at their place, to the right of a host; else they end there."""
    tip: str


@dataclass(frozen=True)
class Drawing:
    """All data that the template draws, in a box of WIDTH by `height`."""

    system: str
    height: float
    nodes: tuple[DrawnNode, ...]
    links: tuple[DrawnLink, ...]


def drawing(system: str, links: Sequence[Mapping[str, Any]]) -> Drawing | None:
    """Return the network of a system's run, from its `links` in summary.json; None without any."""
    if not links:
        return None
    above: dict[str, list[str]] = {}
    for link in links:
        above.setdefault(link["lower"], []).append(link["upper"])
    leaves = [name for name in above if name not in {upper for uppers in above.values() for upper in uppers}]
    row = next((height for most, height in _ROWS if len(leaves) <= most), _ROWS[-1][1])
    places = _places(above, leaves, row)
    nodes = tuple(DrawnNode(name, x, y, switch=name not in leaves) for name, (x, y) in places.items())
    height = max(y for _, y in places.values()) + _TOP
    drawn = []
    for link in links:
        order = above[link["lower"]].index(link["upper"])
        drawn.append(_link(link, places, None if link["lower"] in leaves else order))
    return Drawing(system, height, nodes, tuple(drawn))


def _places(above: Mapping[str, Sequence[str]], leaves: Sequence[str], row: float) -> dict[str, tuple[float, float]]:
    """Each node's place: hosts in rows, a switch in the middle of what is below it, columns by the way up."""
    depth: dict[str, int] = {}

    def deep(name: str) -> int:
        if name not in depth:
            depth[name] = 1 + max((deep(upper) for upper in above.get(name, ())), default=-1)
        return depth[name]

    levels = max(deep(name) for name in above)
    found = {name: (float(_RIGHT), _TOP + row * k) for k, name in enumerate(leaves)}
    switches = sorted((name for name in depth if name not in found), key=lambda name: -depth[name])
    for name in switches:
        below = [found[lower][1] for lower, uppers in above.items() if name in uppers and lower in found]
        x = _LEFT + (_RIGHT - _LEFT) * depth[name] / levels
        found[name] = (x, sum(below) / len(below))
    return _apart(found, switches, row)


def _apart(
    found: dict[str, tuple[float, float]], switches: Sequence[str], row: float
) -> dict[str, tuple[float, float]]:
    """Nodes of one column that share a place, as two spines over the same leaves, are moved apart."""
    columns: dict[tuple[float, float], list[str]] = {}
    for name in switches:
        columns.setdefault(found[name], []).append(name)
    for (x, y), names in columns.items():
        for k, name in enumerate(names):
            found[name] = (x, y + (k - (len(names) - 1) / 2) * 1.6 * row)
    return found


def _link(link: Mapping[str, Any], places: Mapping[str, tuple[float, float]], order: int | None) -> DrawnLink:
    """`order`: which uplink of its switch it is; None for a host's link."""
    (x2, y2), (x1, y1) = places[link["lower"]], places[link["upper"]]
    ways = tuple(
        Way(
            _curve(x1, y1 + shift, x2, y2 + shift),
            up=way == "up",
            width=1.5 + 4.5 * min(1.0, link[f"{way}_load"] or 0.0),
            lossy=link[f"{way}_lost"] > 0,
        )
        for way, shift in (("up", -3.5), ("down", 3.5))
    )
    lost = link["up_lost"] + link["down_lost"]
    words = f"↑ {opening.share(link['up_load'])}  ↓ {opening.share(link['down_load'])}"
    # A switch's words are on the side where its uplink does not come from; a second uplink's on the other one.
    below = (y2 > y1) == ((order or 0) % 2 == 0)
    x, y = (x2 + 24, y2) if order is None else (x2 + _SWITCH / 2, y2 + (_WORDS if below else -_WORDS))
    return DrawnLink(ways, words, f"{lost} lost" if lost else "", x, y, order is None, _tip(link))


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    middle = (x1 + x2) / 2
    return f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"


def _tip(link: Mapping[str, Any]) -> str:
    told = [f"{link['lower']} – {link['upper']}, {link['mbit']:g} Mbit/s"]
    for way, arrow in (("up", "↑"), ("down", "↓")):
        load, lost = opening.share(link[f"{way}_load"]), link[f"{way}_lost"]
        told.append(f"{arrow} {opening.size(link[f'{way}_bytes'])}, {load} of its rate, {lost} packets lost")
    return "\n".join(told)
