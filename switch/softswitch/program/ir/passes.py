# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""More passes of one packet: clones, resubmitted and recirculated packets."""

from __future__ import annotations

from dataclasses import dataclass, field

from softswitch.program.ir.expressions import FieldRef

CLONE_REQUESTED = 1 << 15  # beside the number of the session, so that session 0 is a request too


@dataclass(frozen=True)
class Passes:
    """Hidden fields in which statements leave a request until the end of the pipeline; 0 asks for nothing.

    ``clone`` holds a session and CLONE_REQUESTED, and ``clone_list`` a list of fields; ``resubmit`` and ``recirculate``
    hold the list itself. ``lists``: the fields that the new packet takes along, by the number of the list.
    """

    clone: FieldRef
    clone_list: FieldRef
    resubmit: FieldRef
    recirculate: FieldRef
    lists: dict[int, tuple[FieldRef, ...]] = field(default_factory=dict)

    @property
    def requests(self) -> tuple[FieldRef, ...]:
        return self.clone, self.clone_list, self.resubmit, self.recirculate
