# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A GPU's work, which goes on while Python does: when it is done, and on which GPU a thread's own work is."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

import torch


def queued(device: torch.device) -> torch.cuda.Event | None:
    """Return what ends with the work queued so far in this thread's stream of a GPU; None on other devices."""
    if device.type != "cuda":
        return None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return event


def on(device: torch.device | None) -> AbstractContextManager[object]:
    """Context in which a GPU is this thread's current one. A new thread's is the first, whatever the program has
    chosen, and what has no tensor to follow would make a context there: pinned memory, and collectives of NCCL."""
    return torch.cuda.device(device) if device is not None and device.type == "cuda" else contextlib.nullcontext()
