# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of a transport and of one exchange, each as one frozen object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sumwire.transport.catchup.kept_results import KEPT_CHUNKS
from sumwire.transport.delivery import Delivery
from sumwire.transport.patience import Patience

# Default of ``silence_s``.
SILENCE_S: Final = 3.0


@dataclass(frozen=True)
class TransportOptions:
    """``deadline_s``: seconds without any new result after which an exchange ends with DeadlineError.

    ``patience``: decides about exchanges that wait, instead of ``deadline_s`` (:mod:`sumwire.transport.patience`).
    ``delivery``: loss bound, congestion control and probes; None for a complete transfer without the latter two.
    ``kept_chunks``: where slots may close without some worker, each worker keeps at least so many results for others.
    ``silence_s``: seconds without any answer after which the switch counts as lost; meanwhile it is asked six times.
    """

    deadline_s: float = 10.0
    delivery: Delivery | None = None
    kept_chunks: int = KEPT_CHUNKS
    patience: Patience | None = None
    silence_s: float = SILENCE_S


@dataclass(frozen=True, eq=False)
class ExchangeOptions:
    """``waits_for_workers``: this exchange opens an operation. Its round trips include the wait for slow workers, so
    they say nothing about the path.

    ``patience``: another one than the transport's. ``bounded``: contributions may be missing from the sums, as
    many as the delivery's loss bound allows. ``tos``: the IPv4 TOS byte of every chunk's packets, uint8 (chunks,);
    retransmissions have the same priority and are never dropped on purpose. ``contribute=False``: nothing is sent; the
    results of the other workers' contributions are waited for. ``next_run``: the exchange belongs to a greeting, and a
    slot in this round or a later one shows that another run has begun.
    """

    waits_for_workers: bool = False
    patience: Patience | None = None
    bounded: bool = False
    tos: NDArray[np.uint8] | None = None
    contribute: bool = True
    next_run: int | None = None


PLAIN: Final = ExchangeOptions()
