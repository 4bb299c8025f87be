# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The scales that a job's operations hand on (:mod:`sumwire.codec.scales`), equal on all workers.

They are used where the scales before would have fitted the last operation. So a tensor whose norms jump about costs the
second payload at most once in each of its jumps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from sumwire.codec.scales import Scales
from sumwire.codec.values import not_finite

# Tensors whose scales are kept, those that were last heard of first.
_KEYS_MOST: Final = 1024


class ScalesKey(NamedTuple):
    """What tells one tensor of a job from others. ``blocks``: its scales."""

    codec: str
    bucket: int
    length: int
    blocks: int


@dataclass(frozen=True)
class _ScalesEntry:
    scales: NDArray[np.uint32]
    trusted: bool


class CarriedScales:
    """All changes follow from results that all workers have, so it is the same on all of them. A fall-back clears it,
    since workers may then differ by an operation."""

    def __init__(self) -> None:
        self._entries: dict[ScalesKey, _ScalesEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, key: ScalesKey) -> NDArray[np.uint32] | None:
        """The scales to encode the tensor with; None if its norms must be asked for."""
        entry = self._entries.get(key)
        return entry.scales if entry is not None and entry.trusted else None

    def learn(self, key: ScalesKey, form: Scales, agreed: NDArray[np.uint32]) -> None:
        """The tensor's operation has agreed on these scales."""
        before = self._entries.pop(key, None)
        if not_finite(agreed).any():
            return
        trusted = before is None or form.fit(before.scales, agreed)
        self._entries[key] = _ScalesEntry(form.carried(agreed), trusted)
        if len(self._entries) > _KEYS_MOST:
            del self._entries[next(iter(self._entries))]

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()

    def kept(self) -> list[Any]:
        """For a checkpoint: plain values and tensors."""
        return [
            [*key, entry.trusted, torch.from_numpy(entry.scales.view(np.int32).copy())]
            for key, entry in self._entries.items()
        ]

    def restore(self, kept: Iterable[Any]) -> None:
        """Go on from :meth:`kept`."""
        self._entries = {
            ScalesKey(codec, bucket, length, blocks): _ScalesEntry(scales.numpy().view(np.uint32).copy(), trusted)
            for codec, bucket, length, blocks, trusted, scales in kept
        }
