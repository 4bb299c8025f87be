# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The digest of a job's configuration. Hosts compare their own with the digest in a switch's answer to a HELLO."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from typing import Final

NO_DIGEST: Final = 0
"""On the wire: the switch knows no digest, so there is nothing to compare."""

_BYTES: Final = 4


def job_digest(  # noqa: PLR0917 - one number per setting
    job: int,
    ops: Collection[str],
    workers: int,
    quorum: int,
    slots: int,
    table: Sequence[int] | None,
    quorum_least: int = 0,
) -> int:
    """Return a 32-bit digest, never ``NO_DIGEST``, that is equal for configurations which give the same sums. Each lane
    has its own: ``job`` and ``slots`` are the lane's. ``workers`` and ``quorum`` are those of the whole job, not of one
    switch of a tree. ``ops`` are names in any order; ``table`` is THC's, None for a job without THC."""
    described = {
        "job": job,
        "ops": sorted(set(ops)),
        "quorum": quorum,
        "quorum_least": quorum_least,
        "slots": slots,
        "table": None if table is None else list(table),
        "workers": workers,
    }
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:_BYTES], "big") or 1
