# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of the host library, grouped by what the caller should do.

* :class:`RetryError`: nothing was sent, or all workers got the same error. The call may be repeated with other data.
* :class:`RecreateError`: the job cannot continue. Close it, renew its generation on the switch, and create a new one.
* :class:`UsageError`: the call or the configuration is wrong. Repeating the call does not help.
"""

from __future__ import annotations

from collections.abc import Collection


class SumwireError(Exception):
    """Base of every error this library raises on purpose."""


class RetryError(SumwireError):
    """Nothing was sent, or all workers got the same error. The call may be repeated with other data."""


class RecreateError(SumwireError):
    """The job cannot continue. Renew its generation on the switch and create a new job on every worker."""


class UsageError(SumwireError):
    """The call or the configuration is wrong."""


class ConfigError(UsageError, ValueError):
    """A job file or an option breaks a rule. The message reads ``where: field = value: rule``."""

    def __init__(self, field: str, value: object, rule: str, *, where: str = "job") -> None:
        super().__init__(f"{where}: {field} = {value!r}: {rule}")
        self.field = field
        self.value = value
        self.rule = rule


class ClosedError(UsageError):
    """The job was closed before this call."""


class NonFiniteError(RetryError, ValueError):
    """The tensor holds NaN or infinity, or its norm overflows float32.

    Raised before anything is sent. The other workers wait for this one until their deadline: the caller ends the run,
    or calls again with finite data.
    """


class SumOverflowError(RetryError, OverflowError):
    """A SUM32 sum left the range of int32. Raised on all workers."""


# An earlier name, for programs that catch it.
LaneOverflowError = SumOverflowError


class DeadlineError(RecreateError, TimeoutError):
    """No new result came for ``waited_s`` seconds, at this worker or at another one whose deadline passed first.

    ``missing``: workers that are not in the slot's sum, as far as this worker's switch knows. None if unknown: the
    switch does not answer, or the missing workers are behind other switches.
    """

    def __init__(
        self,
        *,
        job: int,
        slot: int,
        round_: int,
        chunk: int,
        open_chunks: int,
        waited_s: float,
        missing: Collection[int] | None = None,
        detail: str = "",
    ) -> None:
        who = "unknown" if missing is None else f"{sorted(missing)}"
        super().__init__(
            f"job {job}: no result for {waited_s:.2f} s; slot {slot}, round {round_}, chunk {chunk}, one of "
            f"{open_chunks} open chunks; missing workers: {who}{'; ' + detail if detail else ''}"
        )
        self.job = job
        self.slot = slot
        self.round = round_
        self.chunk = chunk
        self.open_chunks = open_chunks
        self.waited_s = waited_s
        self.missing = None if missing is None else tuple(sorted(missing))

    def with_detail(self, detail: str) -> DeadlineError:
        """A copy of this error whose message ends with ``detail``."""
        return DeadlineError(
            job=self.job,
            slot=self.slot,
            round_=self.round,
            chunk=self.chunk,
            open_chunks=self.open_chunks,
            waited_s=self.waited_s,
            missing=self.missing,
            detail=detail,
        )


class StaleRunError(RecreateError):
    """The switch holds state of an earlier run with this job's generation, or is already past this worker's rounds."""


class OrderError(RecreateError):
    """The workers of a job make different calls: in another order, or with other lengths or settings."""


class TransportError(RecreateError):
    """This worker's socket failed, and a retransmission cannot help."""


class FallbackError(RecreateError):
    """The workers could not agree on the fall-back to the ordinary all-reduce: a peer died or closed the job."""


class GroupError(RecreateError):
    """A collective of a process group failed: a peer is gone, or the ranks made different calls."""
