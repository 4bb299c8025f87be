# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Messages from bytes. It is done in worker threads: a long message must not hold up the event loop."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from softswitch.p4runtime.errors import InvalidArgumentError


def parse(kind: Any, raw: bytes) -> Any:
    """Raises InvalidArgumentError where ``raw`` is no message of this kind."""
    try:
        return kind.FromString(raw)
    except DecodeError as error:
        raise InvalidArgumentError(f"this is no {kind.DESCRIPTOR.name}: {error}") from error
