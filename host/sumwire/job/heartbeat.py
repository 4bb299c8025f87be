# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Heartbeats: in every round each rank sends its status to all others.

The control thread (:mod:`sumwire.job.control`) sends them. A status is a JSON object of the fields that differ from
their defaults.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any, Final

import torch
from torch import Tensor

from sumwire import errors
from sumwire.errors import RecreateError, SumwireError, UsageError
from sumwire.job.gloo import GlooGroup, Ranks

#: The most that a status takes on the wire.
STATUS_BYTES: Final = 4096


@dataclass(frozen=True)
class Failure:
    """An error in a form that can be sent to the other ranks. ``kind``: the name of its class in sumwire.errors."""

    kind: str
    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, error: SumwireError) -> Failure:
        """Describe an error. Attributes beyond its text are kept if JSON can hold them."""
        known = {name: value for name, value in vars(error).items() if _plain(value)}
        return cls(type(error).__name__, str(error), known)

    def error(self) -> RecreateError | UsageError:
        """Return the error, of the same class and with the same text on every rank."""
        kind = getattr(errors, self.kind, RecreateError)
        found: RecreateError | UsageError = kind.__new__(kind, self.text)
        # Their own constructors would write the text anew.
        BaseException.__init__(found, self.text)
        vars(found).update({name: tuple(v) if isinstance(v, list) else v for name, v in self.fields.items()})
        return found


@dataclass(frozen=True)
class RankStatus:
    """The status of one rank in one round.

    ``completed``, ``started``: operations of the job. The one under way, if any, has the number ``completed``, and
    ``call`` describes it. Of its results by the network the rank still has those from ``kept_from`` on.

    ``greeted``: it has completed a handshake, or returned to the switch with all others. ``joined``: it has completed
    the handshake of the present run. ``halted``: it does not use the network until the next decision. ``lost``: why it
    wants the fall-back. ``stalled``: its exchange has waited long without any new result. ``sees_switch``: during the
    fall-back, the switch answers and serves this job.

    ``paused``: it is silent on purpose. ``closing``: it makes no more operations. ``left``: it takes part in no further
    round, and why. ``failure``: an error that ends the job on every rank.
    """

    worker: int
    completed: int = 0
    started: int = 0
    kept_from: int = 0
    call: str = ""
    greeted: bool = False
    joined: bool = False
    halted: bool = False
    lost: str = ""
    stalled: bool = False
    sees_switch: bool = False
    paused: bool = False
    closing: bool = False
    left: str = ""
    failure: Failure | None = None

    @property
    def working(self) -> bool:
        """Whether an operation is under way."""
        return self.started > self.completed

    def encode(self) -> bytes:
        """Return the status as at most STATUS_BYTES bytes. Texts that are too long are cut."""
        content, most = self._json(), STATUS_BYTES
        while len(content) > STATUS_BYTES:
            most //= 2
            content = self._cut(most)._json()
        return content

    @classmethod
    def decode(cls, content: bytes) -> RankStatus:
        """Return the status encoded in ``content``, the inverse of :meth:`encode`. Trailing spaces are ignored."""
        data = json.loads(content)
        failure = data.pop("failure", None)
        return cls(**data, failure=None if failure is None else Failure(**failure))

    def _json(self) -> bytes:
        unusual = {name: value for name, value in asdict(self).items() if value != _USUAL.get(name)}
        return json.dumps(unusual, ensure_ascii=False, separators=(",", ":")).encode()

    def _cut(self, most: int) -> RankStatus:
        failure = self.failure and replace(self.failure, text=self.failure.text[:most])
        return replace(self, call=self.call[:most], lost=self.lost[:most], left=self.left[:most], failure=failure)


_USUAL: Final = {each.name: each.default for each in fields(RankStatus) if each.default is not MISSING}

# One round: the statuses of all ranks.
Vector = Sequence[RankStatus]


def _plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(_plain(each) for each in value)
    return value is None or isinstance(value, bool | int | float | str)


#: What each rank sends each other one in a round, about once a second: room for a status without an error.
_ROUND_BYTES: Final = 256
# Of the description of a result that follows: dtype and shape as JSON.
_HEAD_BYTES: Final = 256


class Rounds:
    """Exchanges the statuses of all ranks. Every method raises GroupError if a rank is gone. ``check`` is called while
    a method waits, and may raise. ``ranks``: see :class:`sumwire.job.gloo.GlooGroup`.

    Creating one is a collective call.
    """

    def __init__(self, check: Callable[[], None], ranks: Ranks | None = None) -> None:
        self._group = GlooGroup(ranks)
        self.rank = self._group.rank
        self.ranks = self._group.ranks
        self._check = check

    def close(self) -> None:
        """End the group. No other method may be called afterwards."""
        self._group.close()

    def exchange(self, own: RankStatus) -> list[RankStatus]:
        """Exchange statuses, and return those of all ranks in this round, by rank.

        A rank whose status needs more than _ROUND_BYTES sends spaces. All ranks see these, and exchange once more, with
        room for the longest status.
        """
        content = own.encode()
        rows = self._to_all(content if len(content) <= _ROUND_BYTES else b"", _ROUND_BYTES)
        if any(row.isspace() for row in rows):
            rows = self._to_all(content, STATUS_BYTES)
        return [RankStatus.decode(row) for row in rows]

    def _to_all(self, content: bytes, room: int) -> list[bytes]:
        """What every rank sends, by rank. Each rank sends directly to every other one, so each finds out by itself if
        one is gone."""
        sent = _bytes(content.ljust(room)).repeat(self.ranks)
        received = torch.empty_like(sent)
        self._group.run(lambda group: group.alltoall_base(received, sent, [], []), self._check)
        return [bytes(row.numpy()) for row in received.view(self.ranks, room)]

    def hand_out(self, giver: int, own: Tensor | None) -> Tensor:
        """Return the tensor of rank ``giver``, on every rank. ``own``: that tensor on the giver, None elsewhere."""
        head = torch.zeros(_HEAD_BYTES, dtype=torch.uint8, device="cpu")
        if own is not None:
            text = json.dumps([str(own.dtype).removeprefix("torch."), list(own.shape)]).encode()
            head = _bytes(text.ljust(_HEAD_BYTES))
        self._broadcast(head, giver)
        if own is None:
            dtype, shape = json.loads(bytes(head.numpy()))
            content = torch.empty(shape, dtype=getattr(torch, dtype), device="cpu")
        else:
            content = own.detach().cpu().contiguous()
        if content.numel():
            self._broadcast(content.view(-1).view(torch.uint8), giver)
        return content

    def _broadcast(self, content: Tensor, giver: int) -> None:
        options = torch.distributed.BroadcastOptions()
        options.rootRank = giver
        self._group.run(lambda group: group.broadcast([content], options), self._check)


def _bytes(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)
