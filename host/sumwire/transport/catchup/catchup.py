# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a transport needs where slots may close without this worker: kept results, early results, and recovery."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sumwire.config import JobConfig
from sumwire.transport.catchup.early_results import EarlyResults
from sumwire.transport.catchup.kept_results import KeptResults
from sumwire.transport.catchup.recovery import Recovery


class CatchUp:
    """Belongs to one transport. ``kept_chunks``: how many results to keep at least. Raises what :class:`Recovery`
    raises."""

    def __init__(self, config: JobConfig, kept_chunks: int) -> None:
        self.kept = KeptResults(config.slots, least=kept_chunks)
        self.ahead = EarlyResults(config, self.kept)
        self.recovery = Recovery(config, self.kept)

    def enter_run(self, token: int) -> None:
        """From now on results are those of the run with this token."""
        self.ahead.token = self.recovery.token = token

    def close(self) -> None:
        """Stop asking and answering; closing twice is allowed."""
        self.recovery.close()

    def applied(self, sequences: NDArray[np.int64], rows: NDArray[np.uint8], sizes: NDArray[np.integer[Any]]) -> None:
        """This worker has applied these results (datagrams): keep them for other workers, and stop asking for them."""
        self.kept.put(sequences, rows, sizes)
        if self.recovery.missing:
            self.recovery.landed(sequences.tolist())
