# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of `make verify-ways` on sharded training over real links."""

from __future__ import annotations

from statistics import median
from typing import Any, Final

from sumwire_lab.experiments.sharded_steps import MBIT, NODES, RANKS, Sharded
from sumwire_lab.verify.check import Check, equal, holds, reported

RATIO_MIN: Final = 3.0
_WHERE: Final = f"{NODES} x {RANKS} ranks, {MBIT:g} Mbit/s between nodes"


def hybrid(record: Sharded) -> list[Check]:
    """Shards within the nodes, and replicas."""
    return [
        holds(_hybrid(record), _value(record), f">= {RATIO_MIN:g}", record.ratio >= RATIO_MIN),
        equal("HSDP: all ranks end with the same parameters", record.equal, True),
    ]


def narrow(record: Sharded) -> Check:
    """A smaller model, with replicas too."""
    return reported(_hybrid(record), _value(record))


def whole(record: Sharded) -> Check:
    """Shards on all ranks."""
    label = (
        f"FSDP2 over all ranks, parameters gathered in full, {_model(record)}, {_WHERE}: seconds a step, gloo / sumwire"
    )
    return reported(label, _value(record))


def _hybrid(record: Sharded) -> str:
    return f"HSDP character transformer, {_model(record)}, {_WHERE}: seconds a step, gloo / sumwire"


def _model(record: Sharded) -> str:
    return f"{record.parameters / 1e6:.1f} M parameters"


def _value(record: Sharded) -> dict[str, Any]:
    seconds = {name: round(median(each), 4) for name, each in record.seconds.items()}
    cpu_s = {f"CPU s {name}": round(median(each), 4) for name, each in record.cpu_s.items()}
    losses = {f"loss {name}": round(median(each), 4) for name, each in record.losses.items()}
    return {"ratio": round(record.ratio, 2), **seconds, **cpu_s, **losses}
