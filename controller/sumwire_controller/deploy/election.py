# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which election id to ask a switch for. Pure: arbitration updates in, ids out.

A switch keeps the highest election id that it has ever seen, and lets only that one or a higher one be the primary
(P4Runtime specification, "Client Arbitration and Controller Replication"). So an id is not made up here: the first
request has none and asks for the highest, the second takes the next above it. No clock is read, and an id that
somebody left behind locks nobody out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from google.rpc import code_pb2

HIGHEST_ID: Final = (1 << 128) - 1


@dataclass
class Election:
    """The election at one switch. bmv2 knows no request without an id: for it, the first has the id 0.

    `claimed` is the id asked for, `won` says that the switch granted it, `primary` is the id of another controller
    that is connected and the primary. `refused` says that no id is left that the switch would grant.

    :param take_over: become the primary even if another controller is.
    """

    take_over: bool = False
    claimed: int | None = None
    primary: int | None = None
    won: bool = False
    refused: bool = False

    def answer(self, code: int, highest: int) -> int | None:
        """Take a switch's arbitration update. Returns the id to ask for next; None if there is nothing to ask.

        :param code: the update's status: OK for the primary; for others ALREADY_EXISTS if there is a primary,
            NOT_FOUND if there is none.
        :param highest: the update's election id, the highest that the switch knows; 0 if it knows none.
        """
        self.primary = highest if code == code_pb2.ALREADY_EXISTS else None
        if code == code_pb2.OK and self.claimed is not None:
            self.won = highest == self.claimed  # else it is news from before the switch saw our claim
            return None
        return None if self.primary is not None and not self.take_over else self._claim(highest)

    def _claim(self, highest: int) -> int | None:
        """Ask for the id above `highest`. The highest of all may be had again once its controller has left."""
        last = highest == HIGHEST_ID
        self.refused = last and (self.primary is not None or self.claimed == HIGHEST_ID)
        wanted = HIGHEST_ID if last else highest + 1
        if self.refused or (self.claimed is not None and wanted <= self.claimed):
            return None
        self.claimed = wanted
        return wanted
