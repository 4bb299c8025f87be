# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a transport needs where others may go on without this worker: all results kept, those that come too early, and
those that only other workers still have."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sumwire.config import JobConfig
from sumwire.transport.catchup.early_results import Ahead
from sumwire.transport.catchup.kept_results import Kept
from sumwire.transport.catchup.recovery import Recovery


class CatchUp:
    """One for a transport, from its making to :meth:`close`. ``kept_chunks``: results to keep at least.

    Raises what :class:`Recovery` does.
    """

    def __init__(self, config: JobConfig, kept_chunks: int) -> None:
        self.kept = Kept(config.slots, least=kept_chunks)
        self.ahead = Ahead(config, self.kept)
        self.recovery = Recovery(config, self.kept)

    def close(self) -> None:
        """End asking and answering; closing twice is allowed."""
        self.recovery.close()

    def applied(self, sequences: NDArray[np.int64], rows: NDArray[np.uint8], sizes: NDArray[np.integer[Any]]) -> None:
        """This worker has these results, as datagrams, from wherever they came: others may ask for them."""
        self.kept.put(sequences, rows, sizes)
        if self.recovery.missing:
            self.recovery.landed(sequences.tolist())
