# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of the host library, grouped by what the caller should do.

* :class:`RetryError`: nothing was sent, or all workers got the same error. The call may be repeated with other data.
* :class:`RecreateError`: the job cannot continue. Close it and create a new one on every worker.
* :class:`UsageError`: the call or the configuration is wrong. Repeating the call does not help.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from commonlib.untrusted import escaped, shown


class SumwireError(Exception):
    """Base of every error this library raises on purpose."""


class RetryError(SumwireError):
    """Nothing was sent, or all workers got the same error. The call may be repeated with other data."""


class RecreateError(SumwireError):
    """The job cannot continue. Close it and create a new one on every worker: a new run needs nothing else."""


class UsageError(SumwireError):
    """The caller has made a mistake in a call or in the configuration."""


class ConfigError(UsageError, ValueError):
    """A job file or an option breaks a rule. The message reads ``where: field = value: rule; cure``."""

    def __init__(self, field: str, value: object, rule: str, *, where: str = "job", cure: str = "") -> None:
        super().__init__(f"{where}: {escaped(field)} = {shown(value)}: {rule}{'; ' if cure else ''}{cure}")
        self.field = field
        self.value = value
        self.rule = rule


class CaptureError(UsageError, ValueError):
    """A file of captured packets breaks a rule of its format. The message names the file, the byte and the rule."""


class ClosedError(UsageError):
    """The job was closed before this call."""


class NonFiniteError(RetryError, ValueError):
    """Some worker's tensor holds NaN or infinity, or its norm overflows.

    Raised on all workers, after the operation, where the job or the reduction was told to raise. The caller ends the
    run, or all workers call again with finite data.
    """


class SumOverflowError(RetryError, OverflowError):
    """A SUM32 sum left the range of int32. Raised on all workers."""


# An earlier name, for programs that catch it.
LaneOverflowError = SumOverflowError


_AGAIN: Final = "see the missing workers' logs, then start all workers again"


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
        cure: str = _AGAIN,
    ) -> None:
        who = "unknown" if missing is None else f"{sorted(missing)}"
        super().__init__(
            f"job {job}: no result for {waited_s:.2f} s; slot {slot}, round {round_}, chunk {chunk}, one of "
            f"{open_chunks} open chunks; missing workers: {who}{'; ' + detail if detail else ''}; {cure}"
        )
        self.job = job
        self.slot = slot
        self.round = round_
        self.chunk = chunk
        self.open_chunks = open_chunks
        self.waited_s = waited_s
        self.missing = None if missing is None else tuple(sorted(missing))
        self._cure = cure

    def with_detail(self, detail: str) -> DeadlineError:
        """Return a copy of this error whose message has ``detail`` before the cure."""
        return DeadlineError(
            job=self.job,
            slot=self.slot,
            round_=self.round,
            chunk=self.chunk,
            open_chunks=self.open_chunks,
            waited_s=self.waited_s,
            missing=self.missing,
            detail=detail,
            cure=self._cure,
        )


class SwitchLostError(DeadlineError):
    """The switch does not answer at all, or no longer serves this job in the middle of a run.

    ``text`` is the whole message: what was tried, and what mends it.
    """

    def __init__(
        self,
        text: str,
        *,
        job: int,
        slot: int = 0,
        round_: int = 0,
        chunk: int = 0,
        open_chunks: int = 0,
        waited_s: float = 0.0,
    ) -> None:
        super().__init__(
            job=job, slot=slot, round_=round_, chunk=chunk, open_chunks=open_chunks, waited_s=waited_s, detail=text
        )
        self.args = (text,)


class StaleRunError(RecreateError):
    """Another run of this job has begun, or the switch is too far ahead for this worker to catch up.

    ``slot``, ``round``: the switch's answer about one of its slots; None if it did not answer.
    """

    def __init__(self, text: str, *, slot: int | None = None, round_: int | None = None) -> None:
        super().__init__(text)
        self.slot = slot
        self.round = round_


class OrderError(RecreateError):
    """The workers of a job make different calls: in another order, or with other lengths or settings."""


class MaskReuseError(RecreateError):
    """Masks of a blind job would be used a second time. Nothing was sent."""


class TamperedError(RecreateError):
    """A party on the path, such as the switch, has changed values that the workers of a blind job sent each other."""


class PlaintextError(RecreateError):
    """A blind job would send values without masks. Nothing was sent."""


class TransportError(RecreateError):
    """This worker's socket failed, and a retransmission cannot help."""


class AddressError(TransportError):
    """An address or port of the job file cannot be used on this machine."""


class PeerLostError(RecreateError):
    """Another worker's process has ended or cannot be reached, according to the process group."""


class InterruptedJobError(RecreateError):
    """An exception, for example KeyboardInterrupt, ended an operation of the job half-way."""


class FallbackError(RecreateError):
    """The fall-back to the ordinary all-reduce failed: a worker lacks a result that no other worker still has."""


class GroupError(RecreateError):
    """A collective of a process group failed: a peer is gone, or the ranks made different calls."""


class RefusedError(UsageError):
    """The switch refused a packet of this worker and said why.

    ``reason``: the switch's code, one of REJECT_* of ``sumwire_protocol.constants``. ``name``: its name, such as "JOB".
    """

    def __init__(self, text: str, *, reason: int, name: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.name = name


class MismatchError(UsageError):
    """The switch and this worker disagree on the job's configuration, the table, the quorum, or the program itself."""


class JobBusyError(UsageError):
    """Another process on this machine takes part in the job as the same worker, or holds its UDP port."""


class ForkError(UsageError):
    """A job was used in a forked child of the process that created it."""
