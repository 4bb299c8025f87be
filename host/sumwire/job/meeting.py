# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a process group come together before a job has groups of its own.

Making a group waits until all ranks make it, also for those that have ended. The default group has its connections
already, and gloo notices at once when one of them ends. So every rank first tells all others, by one collective of the
default group, that it has come, or why it cannot take part.

The default group's store has the same words. They stay when a rank ends, and name those who have not come yet. A
default group without gloo, such as NCCL alone, has no such collective: there the ranks do not meet.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import time
from collections.abc import Iterator
from typing import Final

import torch
from sumwire_protocol.logs.events import Event

from sumwire.errors import GroupError, PeerLostError
from sumwire.job.gloo_group import MeetingGroup, Ranks, available, first_clause, looks

_LOG: Final = logging.getLogger("sumwire")
# Bytes of what a rank says.
_WORDS_BYTES: Final = 8192
# Seconds until the first warning about ranks that have not come, and from one to the next.
_WARN_AFTER_S: Final = 10.0
_WARN_EVERY_S: Final = 30.0
# Seconds that ranks have to come after one has ended, before they count as absent too.
_GRACE_S: Final = 3.0
# Numbers the meetings of this process. All ranks make the same jobs in the same order.
_NUMBERS: Final = itertools.count()


@contextlib.contextmanager
def taking_part(job: str, ranks: Ranks | None = None) -> Iterator[None]:
    """Within it a rank gets ready for a job, and at its end all ranks have. ``ranks``: the job's own, if it has them.

    If this rank raises within it, the others learn why, and it does not wait for them. Raises PeerLostError, which
    names the ranks that cannot take part.
    """
    if ranks is None and not (available() and MeetingGroup.has_gloo()):
        yield
        return
    meeting = _Meeting(job, MeetingGroup(ranks))
    try:
        yield
    except Exception as error:
        meeting.refuse(f"{type(error).__name__}: {error}")
        raise
    meeting.come()


class _Meeting:
    def __init__(self, job: str, group: MeetingGroup) -> None:
        self._job = job
        self._number = next(_NUMBERS)
        self._group = group
        self._store = group.store
        self._began = time.monotonic()
        self._warned = self._began + _WARN_AFTER_S - _WARN_EVERY_S

    def refuse(self, why: str) -> None:
        """This rank takes no part. Does not wait."""
        self._write(why)
        sent, received = self._buffers(why)
        with contextlib.suppress(GroupError):
            self._group.leave(lambda group: group.alltoall_base(received, sent, [], []))

    def come(self) -> None:
        """Wait for all ranks."""
        self._write("")
        sent, received = self._buffers("")
        try:
            self._group.run(lambda group: group.alltoall_base(received, sent, [], []), self._look)
        except GroupError as error:
            words = self._read_soon()
            for rank, why in words.items():
                if why:
                    raise PeerLostError(_refused(self._job, rank, why)) from error
            absent = self._absent(words)
            who = f"ranks {absent}" if absent else "another rank"
            raise PeerLostError(
                f"job {self._job}: {who} did not come to make the job ({first_clause(str(error))}); see the log there, "
                "then start the training on every worker again"
            ) from error
        for rank, row in enumerate(received.view(self._group.ranks, _WORDS_BYTES)):
            if why := json.loads(bytes(row.numpy())):
                raise PeerLostError(_refused(self._job, rank, why))

    def _buffers(self, words: str) -> tuple[torch.Tensor, torch.Tensor]:
        content = json.dumps(words[: _WORDS_BYTES // 8]).encode().ljust(_WORDS_BYTES)
        sent = torch.frombuffer(bytearray(content), dtype=torch.uint8).repeat(self._group.ranks)
        return sent, torch.empty_like(sent)

    def _absent(self, words: dict[int, str]) -> list[int]:
        return [rank for rank in range(self._group.ranks) if rank not in words]

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._warned >= _WARN_EVERY_S:
            self._warned = now
            absent = self._absent(self._read())
            # On a busy machine the collective itself takes long.
            if not absent:
                return
            _LOG.warning(
                "job %s: waits %.0f s for ranks %s to make it", self._job, now - self._began, absent,
                extra=Event.RANKS_AWAITED(name=self._job, waited_s=now - self._began, ranks=absent),
            )  # fmt: skip

    def _key(self, rank: int) -> str:
        return f"sumwire/{self._number}/{rank}"

    def _write(self, words: str) -> None:
        # Whoever has the store may have ended. Then the collective fails too.
        with contextlib.suppress(RuntimeError):
            self._store.set(self._key(self._group.rank), json.dumps(words))

    def _read(self) -> dict[int, str]:
        """What the ranks that have come say. If the store is gone with its owner, all count as come."""
        try:
            came = [rank for rank in range(self._group.ranks) if self._store.check([self._key(rank)])]
            return {rank: json.loads(self._store.get(self._key(rank))) for rank in came}
        except RuntimeError:
            return dict.fromkeys(range(self._group.ranks), "")

    def _read_soon(self) -> dict[int, str]:
        """As :meth:`_read`, after a while for those who come a little later than the rank that ended.

        With one rank absent, or with a reason, there is nothing to wait for.
        """
        give_up = time.monotonic() + _GRACE_S
        for _ in looks():
            words = self._read()
            if len(self._absent(words)) <= 1 or any(words.values()) or time.monotonic() > give_up:
                break
        return words


def _refused(job: str, rank: int, why: str) -> str:
    return f"job {job}: rank {rank} cannot take part: {why}; mend that, then start all workers again"
