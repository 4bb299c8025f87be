# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What workers compare of their calls: a text, and its tag in every packet of the operation.

A slot of the switch takes packets of one tag only, so calls that differ are never summed.

Example: operation 12 is "mean by thc of 2000 values, bucket 3" on all workers, and tagged with the CRC-16 of that.
"""

from __future__ import annotations

import binascii
from dataclasses import dataclass
from typing import Final

from sumwire_protocol import constants as p4

# Higher ones are the greeting's.
_TAGS: Final = p4.BUCKET_OPENS_RUN


@dataclass(frozen=True)
class Call:
    """``number``: of the operation in the job, from 0. ``given``: what else must be equal, as a text."""

    number: int
    what: str
    values: int
    bucket: int
    given: str = ""

    def __str__(self) -> str:
        given = f", {self.given}" if self.given else ""
        return f"{self.what} of {self.values} values, bucket {self.bucket}{given}"

    @property
    def tag(self) -> int:
        """16 bits for the packets' field ``bucket``."""
        return binascii.crc_hqx(f"{self.number}: {self}".encode(), 0) % _TAGS


def tag_in_one_trip(tag: int, carried: bytes) -> int:
    """The tag of the same call where it is encoded with carried scales: workers that carry others, or none, are refused
    instead of summed."""
    return binascii.crc_hqx(b"one trip" + carried, tag) % _TAGS
