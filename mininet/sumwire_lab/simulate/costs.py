# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What processors need in a simulation: seconds of hosts and switches for packets, values, tensors and round trips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from sumwire.systems import formula
from sumwire_protocol.ops import JUMBO, SIGN, THC, VOTE, Op

from sumwire_lab.options.fabric import Fabric
from sumwire_lab.options.fields import Checked, Rule, at_least, one_of, option
from sumwire_lab.simulate.systems import System, op_of

_SECONDS: Final = at_least(0, "must not be negative")
_SHARE: Final = Rule(lambda share: 0 <= share <= 1, "must be 0 to 1")


@dataclass(frozen=True)
class Costs(Checked):
    """Seconds of processors. A host and a switch have one thread each. With ``cores`` all of them share so many, as in
    the lab; 0 gives each its own. Without values they cost nothing.

    ``busy`` and ``apart`` are those of docs/where-it-pays.md: the share of a processor's time that is used where it is
    the limit (above 1 where a switch uses several cores), and the share of the shorter of links' and processors' time
    that is not hidden behind the longer.
    """

    send_s: float = option(0.0, "seconds of a host for a packet that it sends", rule=_SECONDS)
    receive_s: float = option(0.0, "seconds of a host for a packet that it receives", rule=_SECONDS)
    encode_s: float = option(0.0, "seconds of a host to encode a value", rule=_SECONDS)
    decode_s: float = option(0.0, "seconds of a host to decode a value", rule=_SECONDS)
    add_s: float = option(0.0, "seconds of a switch or server for a packet that it adds", rule=_SECONDS)
    add_value_s: float = option(0.0, "seconds of it for each value of the packet besides", rule=_SECONDS)
    copy_s: float = option(0.0, "seconds of a switch or server for a copy of a result", rule=_SECONDS)
    plain_s: float = option(0.0, "seconds of a host for a value of an all-reduce among hosts", rule=_SECONDS)
    operation_s: float = option(0.0, "seconds of a host for a tensor, however small", rule=_SECONDS)
    trip_s: float = option(0.0, "seconds of a round trip or message that nothing else explains", rule=_SECONDS)
    busy: float = option(1.0, "share of a processor's time that is used", rule=Rule(lambda x: x > 0, "must be above 0"))
    apart: float = option(0.0, "share of the shorter of links and processors that is not hidden", rule=_SHARE)
    cores: int = option(0, "cores that all hosts and switches share, 0 for one each", rule=at_least(0))

    def coding_s(self, values: int) -> float:
        """Return the seconds of a host to encode and decode so many values."""
        return values * (self.encode_s + self.decode_s)

    def adding_s(self, values: int) -> float:
        """Return the seconds of a switch or server to add a packet of so many values."""
        return self.add_s + values * self.add_value_s

    def whole_s(self, links: float, processors: float) -> float:
        """Return the seconds that take so long on links and, besides, on processors."""
        shorter, longer = sorted((links, processors / self.busy))
        return longer + self.apart * shorter


PACKET_S: Final = 0.4e-6
"""Seconds of a host for a packet and its result: what its time leaves beside the codec."""
_Fitted = formula.Costs
MEASURED: Final[Mapping[tuple[str, str], _Fitted]] = {
    ("gloo", "bridge"): _Fitted(2.96e-9, 0.0, 0.000815, 0.000647, 0.783, 0.001),
    ("thc", "soft"): _Fitted(1.33e-9, 4.39e-10, 0.00102, 0.000267, 0.833, 0.309),
    ("sign", "soft"): _Fitted(5.2e-10, 1.48e-10, 0.000719, 1e-6, 0.752, 0.164),
    ("sum32", "soft"): _Fitted(5.82e-9, 1.82e-9, 0.000663, 0.000265, 0.856, 0.656),
    ("thc", "aggregator"): _Fitted(1.39e-9, 3.71e-10, 0.000742, 0.000424, 0.726, 0.441),
    ("sign", "aggregator"): _Fitted(6.16e-10, 7.32e-11, 0.00099, 1e-6, 0.807, 0.368),
    ("sum32", "aggregator"): _Fitted(5.99e-9, 1.72e-9, 0.000876, 0.000448, 0.845, 0.279),
    ("thc", "bmv2"): _Fitted(8.46e-9, 5.25e-8, 0.000967, 0.0012, 1.5, 0.001),
    ("sign", "bmv2"): _Fitted(3.03e-9, 1.5e-8, 0.000578, 0.001, 1.32, 0.001),
    ("sum32", "bmv2"): _Fitted(3.85e-8, 2.12e-7, 0.000957, 0.00185, 1.64, 0.001),
}
"""Constants of docs/where-it-pays.md by system and switch: host's and switch's seconds of a value, and so on."""
# What was measured, and what is taken for it.
_LIKE: Final[Mapping[Op, Op]] = {JUMBO: THC, VOTE: SIGN}
SWITCHES: Final = ("soft", "aggregator", "bmv2")
JUMBO_VALUE: Final[Mapping[str, float]] = {"soft": 0.66, "aggregator": 1.0, "bmv2": 1 / 3.27}
"""Seconds of a switch for a value in a packet of 8192, over those in a packet of 1024 (records/speed.json: of the
first run, with which the studies were made)."""
WIDE_CODEC: Final = 8.53 / 7.62
"""Seconds of a codec for a value: thc-wide's over THC's, in one run (records/switch.json)."""
GPU_BYTE_S: Final = 1 / 3.35e12
"""Of a GPU's memory: 3.35 TB/s of an NVIDIA H100 SXM, by its data sheet."""
# THC's codec at least reads gradient and residual and writes residual and indices, then reads sums and writes means.
_ENCODED_BYTES: Final = 4 + 4 + 4 + 0.5
_DECODED_BYTES: Final = 1 + 4
# Bounds of memory, which no kernel can beat; packets as from a processor, and a switch as fast as its ports.
_GPU: Final = Costs(
    send_s=PACKET_S / 2,
    receive_s=PACKET_S / 2,
    encode_s=_ENCODED_BYTES * GPU_BYTE_S,
    decode_s=_DECODED_BYTES * GPU_BYTE_S,
)
COSTS: Final = ("none", *SWITCHES, "gpu")


Measured = Mapping[tuple[str, str], formula.Costs]


def costs_of(
    name: str, system: System | None = None, fabric: Fabric | None = None, more: Measured = MappingProxyType({})
) -> Costs:
    """Return known costs: "none"; "soft", "aggregator" and "bmv2", as measured on the lab's machine, whose cores are
    for the caller to say; "gpu", bounds of THC's codec on a GPU. Raises OptionError for an unknown name.

    ``system``: whose packets and codec, by default THC's, and on a fabric with long packets those of long packets. What
    was not measured is taken for what is nearest: votes for signs, thc-wide's packets for those of SUM32. ``busy`` and
    ``apart`` are fitted to measurements; simulations by packets do without them. ``more``: measurements that replace
    known ones.
    """
    one_of(COSTS).check("costs", name)
    if name not in SWITCHES:
        return _GPU if name == "gpu" else Costs()
    measured = {**MEASURED, **more}
    gloo, thc = measured["gloo", "bridge"], measured[THC.name, name]
    op = THC if system is None else op_of(system, fabric or Fabric())
    base = THC if op is None else _LIKE.get(op, op)
    found = measured[base.name, name]
    coded = found.host_s - PACKET_S / base.values
    if system is not None and system.fields > 1:
        coded = WIDE_CODEC * (thc.host_s - PACKET_S / THC.values)
    add_s = found.switch_s * base.values
    # A longer packet costs as much as a short one, and the rest by its values.
    long = op == JUMBO
    more_s = max(0.0, found.switch_s * JUMBO_VALUE[name] * JUMBO.values - add_s) if long else 0.0
    of = gloo if op is None else found
    return Costs(
        send_s=PACKET_S / 2,
        receive_s=PACKET_S / 2,
        encode_s=coded / 2,
        decode_s=coded / 2,
        add_s=add_s,
        add_value_s=more_s / JUMBO.values,
        plain_s=gloo.host_s,
        operation_s=of.operation_s,
        trip_s=of.step_s,
        busy=of.busy,
        apart=of.apart,
    )
