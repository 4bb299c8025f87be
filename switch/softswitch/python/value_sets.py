# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Parser value sets of the Python engine."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch.runtime.value_members import Pattern


class ValueSet:
    """Generated code asks ``key in value_set``, with a number for each field."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        self._masks = tuple((1 << width) - 1 for width in widths)
        self._exact: set[tuple[int, ...]] = set()
        self._masked: list[Pattern] = []

    def replace(self, members: Sequence[Pattern]) -> None:
        self._exact.clear()
        self._masked.clear()
        for member in members:
            if tuple(mask for _, mask in member) == self._masks:
                self._exact.add(tuple(value for value, _ in member))
            else:
                self._masked.append(member)

    def __contains__(self, key: tuple[int, ...]) -> bool:
        return key in self._exact or any(
            all(part & mask == value for part, (value, mask) in zip(key, member, strict=True))
            for member in self._masked
        )
