# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How the control threads of a job's ranks talk: rounds in which each tells its standing, and results handed out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from sumwire.job.gloo_group import GlooGroup, Ranks
from sumwire.job.standing import STANDING_BYTES, Standing

#: What each rank sends each other one in a round, about once a second: room for a standing without an error.
_ROUND_BYTES: Final = 256
# Of the description of a result that follows: dtype and shape as JSON.
_HEAD_BYTES: Final = 256


class Rounds:
    """Every method raises GroupError if a rank is gone. ``check`` is called while one waits, and may raise. ``ranks``:
    see :class:`sumwire.job.gloo_group.GlooGroup`.

    Creating one is a collective call.
    """

    def __init__(self, check: Callable[[], None], ranks: Ranks | None = None) -> None:
        self._group = GlooGroup(ranks)
        self.rank = self._group.rank
        self.ranks = self._group.ranks
        self._check = check

    def close(self) -> None:
        """End the group. No further round."""
        self._group.close()

    def exchange(self, own: Standing) -> list[Standing]:
        """The standings of all ranks in this round, by rank.

        A rank whose standing needs more than _ROUND_BYTES sends spaces. All ranks see that, and exchange once more,
        with room for the longest.
        """
        content = own.encode()
        rows = self._to_all(content if len(content) <= _ROUND_BYTES else b"", _ROUND_BYTES)
        if any(row.isspace() for row in rows):
            rows = self._to_all(content, STANDING_BYTES)
        return [Standing.decode(row) for row in rows]

    def _to_all(self, content: bytes, room: int) -> list[bytes]:
        """What every rank sends, by rank. Each rank sends directly to every other one, so each finds out by itself if
        one is gone."""
        sent = _bytes(content.ljust(room)).repeat(self.ranks)
        received = torch.empty_like(sent)
        self._group.run(lambda group: group.alltoall_base(received, sent, [], []), self._check)
        return [bytes(row.numpy()) for row in received.view(self.ranks, room)]

    def hand_out(self, giver: int, own: Tensor | None) -> Tensor:
        """The giver's tensor, on every rank; on others than the giver a new CPU tensor. ``own``: it, on the giver."""
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
