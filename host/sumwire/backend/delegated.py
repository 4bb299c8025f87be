# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The calls that a group of the backend hands to the group beneath as they are.

torch would hand them on by itself, but it holds Python's lock while it does so. gloo's threads need that lock to let go
of tensors, and hold gloo's own lock then: the two would wait for each other. A method that is called from Python lets
Python's lock go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

# By torch's newer and older names, what torch has always called it.
CALLS: Final = {
    "all_gather_single": "_allgather_base",
    "_allgather_base": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "allgather_into_tensor_coalesced": "allgather_into_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
    "alltoall_base": "alltoall_base",
} | {name: name for name in ("allgather", "barrier", "broadcast", "send", "recv")}


def delegated(name: str) -> Callable[..., Any]:
    """The method of this name for a class with the group `_beneath` and the method `_note`."""

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return self._note(getattr(self._beneath.group, name)(*arguments, **named))

    return call


def delegating(kind: type) -> type:
    """Give a class all of these methods."""
    for name, beneath in CALLS.items():
        setattr(kind, name, delegated(beneath))
    return kind
