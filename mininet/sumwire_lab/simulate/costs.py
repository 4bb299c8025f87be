# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What processors need in a simulation: seconds of hosts and switches for packets and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from sumwire.systems.pays import AGGREGATOR_PACKET_S, PACKET_S
from sumwire_protocol.ops import SIGN, SUM32, THC, VOTE, Op

from sumwire_lab.options.fields import Checked, at_least, one_of, option

_SECONDS: Final = at_least(0, "must not be negative")

BMV2_PACKETS_S: Final = 23_064.0
"""THC contributions that bmv2 takes in a second, each with its share of the results (records/speed.json)."""
SOFT_PACKET_S: Final = 0.59e-6
"""Of the soft switch's native engine for one, in trains (records/switch.json)."""
CODEC_VALUE_S: Final = 1.47e-9
"""Of THC's codec with error feedback, there and back, on one core (records/speed.json)."""
_HOST_VALUE_S: Final[Mapping[Op, float]] = {THC: 1.41e-9, SUM32: 6.38e-9, SIGN: 0.444e-9, VOTE: 0.444e-9}
"""Of a host in all, by what it sends: 100 million values at 10 Gbit/s over the soft switch (docs/where-it-pays.json).
Votes were not measured; they are taken for signs."""
GLOO_VALUE_S: Final = 3.33e-9
"""Of a host in gloo's ring: 100 million values at 10 Gbit/s (docs/where-it-pays.json)."""
GPU_BYTE_S: Final = 1 / 3.35e12
"""Of a GPU's memory: 3.35 TB/s of an NVIDIA H100 SXM, by its data sheet."""
# THC's codec at least reads gradient and residual and writes residual and indices, then reads sums and writes means.
_ENCODED_BYTES: Final = 4 + 4 + 4 + 0.5
_DECODED_BYTES: Final = 1 + 4


@dataclass(frozen=True)
class Costs(Checked):
    """Seconds of processors. A host and a switch have one thread each. With ``cores`` all of them share so many, as in
    the lab; 0 gives each its own."""

    send_s: float = option(0.0, "seconds of a host for a packet that it sends", rule=_SECONDS)
    receive_s: float = option(0.0, "seconds of a host for a packet that it receives", rule=_SECONDS)
    encode_s: float = option(0.0, "seconds of a host to encode a value", rule=_SECONDS)
    decode_s: float = option(0.0, "seconds of a host to decode a value", rule=_SECONDS)
    add_s: float = option(0.0, "seconds of a switch or server for a packet that it adds", rule=_SECONDS)
    copy_s: float = option(0.0, "seconds of a switch or server for a copy of a result", rule=_SECONDS)
    plain_s: float = option(0.0, "seconds of a host for a value of an all-reduce among hosts", rule=_SECONDS)
    cores: int = option(0, "cores that all hosts and switches share, 0 for one each", rule=at_least(0))


# The record has the codec's both directions in one number.
_HOST: Final = Costs(
    send_s=PACKET_S / 2, receive_s=PACKET_S / 2, encode_s=CODEC_VALUE_S / 2, decode_s=CODEC_VALUE_S / 2,
    plain_s=GLOO_VALUE_S,
)  # fmt: skip

COSTS: Final[Mapping[str, Costs]] = {
    "none": Costs(),
    "bmv2": replace(_HOST, add_s=1 / BMV2_PACKETS_S),
    "soft": replace(_HOST, add_s=SOFT_PACKET_S),
    "aggregator": replace(_HOST, add_s=AGGREGATOR_PACKET_S),
    # Bounds of memory, which no kernel can beat; packets as from a processor, and a switch as fast as its ports.
    "gpu": Costs(
        send_s=PACKET_S / 2, receive_s=PACKET_S / 2,
        encode_s=_ENCODED_BYTES * GPU_BYTE_S, decode_s=_DECODED_BYTES * GPU_BYTE_S,
    ),
}  # fmt: skip
"""Costs by name. `bmv2`, `soft` and `aggregator` were measured on the lab's machine. Where several parts of a packet's
cost were measured together, they are in one field: a switch's copies in ``add_s``."""


def costs_of(name: str, op: Op = THC) -> Costs:
    """Return known costs of what an op's hosts do; named costs are THC's. Raises OptionError for an unknown name.

    Of an op that the record of the codec lacks, encoding and decoding take THC's time, times the host's seconds for a
    value of that op over those of THC, each without its packets.
    """
    one_of(tuple(COSTS)).check("costs", name)
    factor = _coding_s(op) / _coding_s(THC)
    return replace(COSTS[name], encode_s=COSTS[name].encode_s * factor, decode_s=COSTS[name].decode_s * factor)


def _coding_s(op: Op) -> float:
    return max(0.0, _HOST_VALUE_S.get(op, _HOST_VALUE_S[THC]) - PACKET_S / op.values)
