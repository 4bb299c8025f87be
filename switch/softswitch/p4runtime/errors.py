# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Errors with a canonical gRPC code, and the per-item details of a failed batch.

Specification: "Error Reporting Messages".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from google.protobuf import any_pb2
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2

from softswitch.errors import DeviceError, EntryExistsError, NotFoundError, TableFullError

#: A gRPC client refuses more than 8 KiB of trailing metadata by default, and then shows no detail at all.
MAX_DETAILS_BYTES = 7000
#: Items whose codes fit, with 200 bytes for the status's own message. A code with a short URL takes 20 bytes.
MAX_ITEMS = (MAX_DETAILS_BYTES - 200) // 20
_FIRST_CHARACTERS = 120
_LONG, _SHORT = "type.googleapis.com/p4.v1.Error", "/p4.v1.Error"


class P4RuntimeError(Exception):
    """A request that this server refuses. The message names the value and the rule."""

    code: ClassVar[int] = code_pb2.UNKNOWN


class InvalidArgumentError(P4RuntimeError):
    code = code_pb2.INVALID_ARGUMENT


class NotThereError(P4RuntimeError):
    """The error that P4Runtime calls NOT_FOUND."""

    code = code_pb2.NOT_FOUND


class AlreadyExistsError(P4RuntimeError):
    code = code_pb2.ALREADY_EXISTS


class PermissionDeniedError(P4RuntimeError):
    code = code_pb2.PERMISSION_DENIED


class ResourceExhaustedError(P4RuntimeError):
    code = code_pb2.RESOURCE_EXHAUSTED


class FailedPreconditionError(P4RuntimeError):
    code = code_pb2.FAILED_PRECONDITION


class OutOfRangeError(P4RuntimeError):
    code = code_pb2.OUT_OF_RANGE


class UnimplementedError(P4RuntimeError):
    code = code_pb2.UNIMPLEMENTED


class InternalError(P4RuntimeError):
    code = code_pb2.INTERNAL


class AbortedError(P4RuntimeError):
    code = code_pb2.ABORTED


class UnavailableError(P4RuntimeError):
    code = code_pb2.UNAVAILABLE


def check_presence(what: str, update_type: int, *, is_there: bool) -> None:
    """Raise AlreadyExistsError for an INSERT of an existing object, and NotThereError for other updates of a missing
    one."""
    inserts = update_type == p4runtime_pb2.Update.INSERT
    if inserts and is_there:
        raise AlreadyExistsError(f"{what} exists already")
    if not inserts and not is_there:
        raise NotThereError(f"{what} does not exist")


_DEVICE_ERRORS: tuple[tuple[type[DeviceError], type[P4RuntimeError]], ...] = (
    (NotFoundError, NotThereError),
    (EntryExistsError, AlreadyExistsError),
    (TableFullError, ResourceExhaustedError),
    (DeviceError, InvalidArgumentError),
)


def from_device(error: DeviceError) -> P4RuntimeError:
    """Return the device's refusal with the canonical code of its kind, the message unchanged."""
    for device_type, own_type in _DEVICE_ERRORS:
        if isinstance(error, device_type):
            return own_type(str(error))
    raise TypeError(f"{error!r} is not a DeviceError")


class BatchError(P4RuntimeError):
    """Some items of a batch failed: ``outcomes`` has one error or None (done) per item, in order."""

    def __init__(self, what: str, outcomes: Sequence[P4RuntimeError | None]) -> None:
        failed = sum(outcome is not None for outcome in outcomes)
        text = f"{failed} of {len(outcomes)} {what} failed"
        if len(outcomes) > MAX_ITEMS:
            first, error = next((number, error) for number, error in enumerate(outcomes) if error is not None)
            shown = str(error).encode("ascii", "replace").decode()[:_FIRST_CHARACTERS]
            text += f"; codes of the first {MAX_ITEMS} follow. Number {first}: {shown}"
        super().__init__(text)
        self.outcomes = tuple(outcomes[:MAX_ITEMS])

    def details(self) -> bytes:
        """Return a serialised ``google.rpc.Status`` with one ``p4.v1.Error`` per item, of at most
        ``MAX_DETAILS_BYTES``.

        Every item keeps its code; messages are kept from the first on, as far as they fit. If the codes alone do not
        fit, the type URL of each detail is shortened, since readers only use the part after its last slash. Beyond
        ``MAX_ITEMS`` items are left out; the status's message says so, and contains the first failed item.
        """
        status = status_pb2.Status(code=self.code, message=str(self))
        status.details.extend(self._codes(_LONG))
        if status.ByteSize() > MAX_DETAILS_BYTES:
            del status.details[:]
            status.details.extend(self._codes(_SHORT))
        self._add_messages(status)
        serialised: bytes = status.SerializeToString()
        return serialised

    def _codes(self, url: str) -> list[any_pb2.Any]:
        return [
            any_pb2.Any(type_url=url, value=_error(code_pb2.OK if outcome is None else outcome.code, ""))
            for outcome in self.outcomes
        ]

    def _add_messages(self, status: Any) -> None:
        size = status.ByteSize()
        for detail, outcome in zip(status.details, self.outcomes, strict=True):
            if outcome is None:
                continue
            full = any_pb2.Any(type_url=detail.type_url, value=_error(outcome.code, str(outcome)))
            size += full.ByteSize() - detail.ByteSize() + 4  # 4: longer length prefixes
            if size > MAX_DETAILS_BYTES:
                return
            detail.CopyFrom(full)


def _error(code: int, message: str) -> bytes:
    serialised: bytes = p4runtime_pb2.Error(canonical_code=code, message=message).SerializeToString()
    return serialised
