# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The matching rate: how often a one-bit all-reduce gives the sign of the workers' mean, for independent normal values.

Marsit's result is the sign of one worker. With n workers it is the mean's with probability
1/2 + arcsin(1/sqrt n) / pi. Cascading compression draws anew at every hop, from signs whose chance is hardly above 1/2.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire.multihop.draws import Draws
from sumwire.multihop.hops import CascadeHopper
from sumwire.multihop.schedule import ring
from sumwire.multihop.simulate import SimulatedSigns, lockstep

VALUES: Final = 1 << 17
EXPECTED: Final = {2: 0.75, 4: 0.67, 8: 0.62, 16: 0.58}
"""Of Marsit, by number of workers."""
CASCADING: Final = 0.50


def rates(workers: int, *, values: int = VALUES, seed: int = 1) -> dict[str, float]:
    """Matching rate of Marsit in a ring, in a torus of two rows, and of cascading compression with SSDM."""
    given = np.random.default_rng(seed).standard_normal((workers, values)).astype(np.float32)
    wanted = given.mean(axis=0) >= 0
    packed = np.packbits(given >= 0, axis=1)
    found = {
        "ring": np.unpackbits(SimulatedSigns(workers, seed=seed).sign_merge(packed)),
        "torus": np.unpackbits(SimulatedSigns(workers, 2, seed=seed).sign_merge(packed)),
        "cascading": _cascading(given, seed) >= 0,
    }
    return {name: float(np.mean(signs == wanted)) for name, signs in found.items()}


def _cascading(given: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    workers, values = given.shape
    hoppers = [
        CascadeHopper(own.copy(), Draws(seed, rank), stochastic=True, length=values) for rank, own in enumerate(given)
    ]
    lockstep(hoppers, [ring(workers, rank, values // 8) for rank in range(workers)])
    return hoppers[0].values
