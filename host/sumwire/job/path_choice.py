# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which means of tensors go through the switch, and which by the process group, because that is faster for their size.

All ranks must choose alike. So they compare their options when the job is made, and rank 0's tuning table counts for
all of them: two machines may have measured at different times.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor

from sumwire.errors import ConfigError
from sumwire.job.tuning_file import BYTES_MOST
from sumwire.job.tuning_table import TuningTable

Through = Literal["auto", "switch", "group"]
CHOICES: Final = ("auto", "switch", "group")
# Codecs whose means the group gives more exactly. Signs are another thing than means.
CODECS: Final = ("thc", "sum32")


@dataclass(frozen=True)
class PathChoice:
    """``through``: the option. ``table``: what "auto" goes by; without one everything goes through the switch."""

    through: Through = "switch"
    table: TuningTable | None = None

    def by_group(self, codec: str, x: Tensor) -> bool:
        """Whether the mean of this tensor is the process group's to make."""
        # The group's mean is in float32.
        if codec not in CODECS or x.dtype == torch.float64 or self.through == "switch":
            return False
        return self.through == "group" or (self.table is not None and self.table.prefers_group(codec, x.numel()))


def agreed_choice(
    job: str, through: Through, table: TuningTable | None, gather: Callable[[Tensor], list[Tensor]], *, blind: bool
) -> PathChoice:
    """The choice of all ranks: a collective call. ``gather`` gives the tensors of all ranks. ``blind``: the job's.

    Raises ConfigError on all ranks if their options differ.
    """
    own = json.dumps([through, blind, None if table is None else table.content()]).encode().ljust(BYTES_MOST)
    rows = [json.loads(bytes(row.numpy())) for row in gather(torch.frombuffer(bytearray(own), dtype=torch.uint8))]
    for field, options in (("through", [row[0] for row in rows]), ("blind", [row[1] for row in rows])):
        if len({*options}) > 1:
            raise ConfigError(field, options, "must be equal on all ranks", where=f"job {job}")
    content = rows[0][2]
    return PathChoice(through, None if content is None else TuningTable.of(content))
