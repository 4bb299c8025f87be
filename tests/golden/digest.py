# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The digest of a job's configuration, from docs/wire-format.md: nothing of the project's code."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def digest_of(
    number: int, ops: Sequence[str], workers: int, *, quorum: int, least: int, slots: int, table: Sequence[int]
) -> int:
    names = ",".join(f'"{name}"' for name in sorted(ops))
    values = f"[{','.join(map(str, table))}]" if table else "null"
    text = f'{{"job":{number},"ops":[{names}],"quorum":{quorum},"quorum_least":{least},"slots":{slots},'
    text += f'"table":{values},"workers":{workers}}}'
    return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:4]) or 1
