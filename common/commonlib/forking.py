# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Closes sockets in forked children.

A port is in use until the last process with its socket ends. A DataLoader's workers are forked, and outlive a killed
rank by some seconds. Without this module the rank could not start again until they end.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
from typing import Final
from weakref import WeakSet

_OWN: Final[WeakSet[socket.socket]] = WeakSet()


def close_in_children(own: socket.socket) -> None:
    """Close ``own`` in children that this process forks from now on; here it stays open."""
    _register()
    _OWN.add(own)


@functools.cache
def _register() -> None:
    os.register_at_fork(after_in_child=_close_all)


def _close_all() -> None:
    for own in tuple(_OWN):
        with contextlib.suppress(OSError):
            own.close()
