# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, sorted by what the caller should do about it.

* :class:`RetryError`: nothing left this worker, or all workers were told alike; the call may be made again with
  other data.
* :class:`RecreateError`: the job's sequence is lost; close it, renew its generation, make a new one.
* :class:`UsageError`: a mistake in the program or its configuration; repeating the call changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection


class SumwireError(Exception):
    """Base of every error this library raises on purpose."""


class RetryError(SumwireError):
    """Nothing was sent, or all workers were told the same. The same call, with good data, may follow."""


class RecreateError(SumwireError):
    """The job cannot go on. Renew its generation on the switch and make a new one on every worker."""


class UsageError(SumwireError):
    """The call or the configuration is wrong."""


class ConfigError(UsageError, ValueError):
    """A job file or option that breaks a rule.

    The message reads ``where: field = value: rule``.
    """

    def __init__(self, field: str, value: object, rule: str, *, where: str = "job") -> None:
        super().__init__(f"{where}: {field} = {value!r}: {rule}")
        self.field = field
        self.value = value
        self.rule = rule


class ClosedError(UsageError):
    """The job was closed before this call."""


class NonFiniteError(RetryError, ValueError):
    """The tensor holds NaN or infinity, or its norm overflows float32.

    Raised before anything is sent. The other workers of the job wait for this one and then meet their
    deadline: the caller ends the run, or calls again with finite data.
    """


class LaneOverflowError(RetryError, OverflowError):
    """A SUM32 sum left the range of int32. Raised on all workers alike."""


class DeadlineError(RecreateError, TimeoutError):
    """No result came for ``waited_s`` seconds; of this worker, or of another one that gave up first.

    ``missing`` are the workers not in the slot's sum, as far as this worker's switch knows. None when unknown, because
    the switch does not answer or they are behind other switches.
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
        """The same error with more to say."""
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
    """The switch holds state of another run under this job's generation, or is ahead of this worker."""


class OrderError(RecreateError):
    """The workers of a job do not make the same calls in the same order, with the same lengths and settings."""


class TransportError(RecreateError):
    """The worker's own socket failed in a way that sending again cannot mend."""


class FallbackError(RecreateError):
    """The workers could not agree on the ordinary all-reduce: a peer died, or closed the job."""


class GroupError(RecreateError):
    """A collective of a process group failed: a peer is gone, or the ranks make different calls."""
