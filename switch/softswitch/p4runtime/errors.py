# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Errors with a canonical gRPC code, and the per-item details of a failed batch.

Specification: "Error Reporting Messages".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from google.protobuf import any_pb2
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2

from softswitch.errors import DeviceError, EntryExistsError, NotFoundError, TableFullError

#: A gRPC client refuses more than 8 KiB of trailing metadata by default, and then shows no detail at all.
MAX_DETAILS_BYTES = 6000


class P4RuntimeError(Exception):
    """A request this server refuses. The message names the value and the rule."""

    code: ClassVar[int] = code_pb2.UNKNOWN


class InvalidArgumentError(P4RuntimeError):
    code = code_pb2.INVALID_ARGUMENT


class NotThereError(P4RuntimeError):
    """NOT_FOUND."""

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


_DEVICE_ERRORS: tuple[tuple[type[DeviceError], type[P4RuntimeError]], ...] = (
    (NotFoundError, NotThereError),
    (EntryExistsError, AlreadyExistsError),
    (TableFullError, ResourceExhaustedError),
    (DeviceError, InvalidArgumentError),
)


def from_device(error: DeviceError) -> P4RuntimeError:
    """The device's refusal with the canonical code of its kind, the message unchanged."""
    for device_type, own_type in _DEVICE_ERRORS:
        if isinstance(error, device_type):
            return own_type(str(error))
    raise TypeError(f"{error!r} is not a DeviceError")


class BatchError(P4RuntimeError):
    """Some items of a batch failed: ``outcomes`` has one error or None (done) per item, in order."""

    def __init__(self, what: str, outcomes: Sequence[P4RuntimeError | None]) -> None:
        failed = sum(outcome is not None for outcome in outcomes)
        super().__init__(f"{failed} of {len(outcomes)} {what} failed")
        self.outcomes = tuple(outcomes)

    def details(self) -> bytes:
        """A serialised ``google.rpc.Status`` with one ``p4.v1.Error`` per item.

        Every item keeps its code; messages are kept from the first on, as far as ``MAX_DETAILS_BYTES`` lets them.
        """
        status = status_pb2.Status(code=self.code, message=str(self))
        for outcome in self.outcomes:
            status.details.append(_packed(code_pb2.OK if outcome is None else outcome.code, ""))
        size = status.ByteSize()
        for detail, outcome in zip(status.details, self.outcomes, strict=True):
            if outcome is None:
                continue
            full = _packed(outcome.code, str(outcome))
            size += full.ByteSize() - detail.ByteSize() + 4  # 4: longer length prefixes
            if size > MAX_DETAILS_BYTES:
                break
            detail.CopyFrom(full)
        serialised: bytes = status.SerializeToString()
        return serialised


def _packed(code: int, message: str) -> any_pb2.Any:
    detail = any_pb2.Any()
    detail.Pack(p4runtime_pb2.Error(canonical_code=code, message=message))
    return detail
