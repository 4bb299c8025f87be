# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of `make verify-ways` on sharded training over real links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import Any, Final

from sumwire_lab.experiments.sharded_steps import MBIT, NODES, RANKS, Sharded
from sumwire_lab.experiments.sharded_worker import GLOO, ROUNDED, SUMWIRE
from sumwire_lab.study.check import Check, equal, holds, reported

RATIO_MIN: Final = 3.0
LOSS_MOST: Final = 0.01
_WHERE: Final = f"{NODES} x {RANKS} ranks, {MBIT:g} Mbit/s between nodes"


def hybrid(record: Sharded) -> list[Check]:
    """Shards within the nodes, and replicas."""
    return [
        holds(_hybrid(record), _value(record), f">= {RATIO_MIN:g}", record.ratio() >= RATIO_MIN),
        equal("HSDP: all ranks end with the same parameters", record.equal, True),
    ]


def narrow(record: Sharded) -> Check:
    """A smaller model, with replicas too."""
    return reported(_hybrid(record), _value(record))


def whole(record: Sharded) -> list[Check]:
    """Shards on all ranks, with parameters gathered in full and with 8 bits. What gathers with 8 bits bring alone, by
    gloo, and what the network brings beside them, is reported."""
    full, rounded = (f"{_where(record)}, parameters gathered {how}" for how in ("in full", "with 8 bits"))
    fastest = record.ratio(GLOO, ROUNDED[SUMWIRE])
    value = {
        "ratio": round(fastest, 2),
        "gloo / gloo with 8 bits": round(record.ratio(GLOO, ROUNDED[GLOO]), 2),
        "gloo with 8 bits / sumwire with 8 bits": round(record.ratio(ROUNDED[GLOO], ROUNDED[SUMWIRE]), 2),
    }
    return [
        reported(f"{full}: seconds a step, gloo / sumwire", _value(record)),
        holds(
            f"{rounded}: seconds a step, gloo with full ones / sumwire",
            value,
            f">= {RATIO_MIN:g}",
            fastest >= RATIO_MIN,
        ),
        equal("FSDP2 over all ranks: all ranks end with the same parameters", record.equal, True),
    ]


def losses(found: Mapping[str, Sequence[float]]) -> Check:
    """`found`: what `experiments.sharded_loss` measures."""
    exact, rounded = (mean(found[name]) for name in ("4bit", "4bit, parameters 8bit"))
    more = rounded / exact - 1
    value = {**{name: [round(loss, 4) for loss in each] for name, each in found.items()}, "more": round(more, 4)}
    label = f"FSDP2 over all ranks, {len(found['4bit'])} seeds: final loss with parameters of 8 bits, over full ones"
    return holds(label, value, f"at most {LOSS_MOST:.0%} more", more <= LOSS_MOST)


def _where(record: Sharded) -> str:
    return f"FSDP2 over all ranks, {_model(record)}, {_WHERE}"


def _hybrid(record: Sharded) -> str:
    return f"HSDP character transformer, {_model(record)}, {_WHERE}: seconds a step, gloo / sumwire"


def _model(record: Sharded) -> str:
    return f"{record.parameters / 1e6:.1f} M parameters"


def _value(record: Sharded) -> dict[str, Any]:
    seconds = {name: round(median(each), 4) for name, each in record.seconds.items()}
    cpu_s = {f"CPU s {name}": round(median(each), 4) for name, each in record.cpu_s.items()}
    losses = {f"loss {name}": round(median(each), 4) for name, each in record.losses.items()}
    return {"ratio": round(record.ratio(), 2), **seconds, **cpu_s, **losses}
