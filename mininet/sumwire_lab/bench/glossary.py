# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Explanations on the page, for readers who know neither the code nor the papers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sumwire.systems import TABLE

INTRODUCTION: Final = (
    "When several machines (workers) train one neural network together, each computes a gradient from its own part of "
    "the data, and after every step all of them need the mean of these gradients. On slow links, sending them takes "
    "most of the time. Sumwire compresses gradients and has a switch in the network add the packets as they pass, so "
    "that every worker sends its gradient once and gets the sum once.",
    "This page compares that with the usual way, in which workers pass their gradients around in a ring without help "
    "of the network, and with other published ways to compress them. Workers, links and switches are software on one "
    "machine: links are limited to the stated rate, and the ring runs over bridges of the kernel, which cost nothing. "
    "What the numbers say about a hardware switch is what the bytes on the links say, not the processor times.",
)

# Names in the lab that are not those of the library's systems.
_OTHER_NAMES: Final[Mapping[str, str]] = {
    "gloo": "ssgd: PyTorch's own all-reduce, the baseline",
    "marsit100": "marsit with a round in full precision every 100 steps; marsit here has none",
    "thc-bounded": "thc with a quorum, and with a bound of what may be lost",
    "topk10": "topk with a tenth of the values",
    "udp-ring": "dlcp-ring without a loss bound",
    "sign": "the codec of marsit: merged signs",
    "top-k": "the codec of topk",
}
WAYS: Final = (
    "Over a switch, packets are summed by Sumwire's switch on their way (or by its software aggregator); over a group, "
    "workers talk to each other through PyTorch's process group, on bridges of the kernel. Systems that can do both "
    "take the switch, unless their name ends with @group. Bits are those a worker sends (up) and gets (down) for each "
    "value of the gradient, without headers; an all-reduce in a ring moves 2 (n - 1)/n times as many, for n workers."
)
HEAD: Final = ("name", "what travels", "over", "bits up", "bits down", "limits", "published as")


def systems() -> list[tuple[str, ...]]:
    """A row for every system and transport, from the library's table."""
    rows = [
        (name, spec.what, transport, route.cost.up, route.cost.down, spec.limits, spec.paper)
        for name, spec in TABLE.items()
        for transport, route in spec.routes.items()
    ]
    return [*rows, *((name, what, "", "", "", "", "") for name, what in _OTHER_NAMES.items())]
