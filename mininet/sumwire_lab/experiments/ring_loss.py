# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""An all-reduce without any switch on links that lose packets: gloo, and rings of UDP with and without a loss bound.

The ranks are processes in a network namespace of their own, with one device for all, which has the rate of all ranks'
links together. Frames cross it one by one, as on a wire.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from sumwire_lab.errors import ProcessDiedError

GLOO: Final = "gloo"
RELIABLE: Final = "udp-ring"
BOUNDED: Final = "dlcp-ring"
WAYS: Final = (GLOO, RELIABLE, BOUNDED)


@dataclass(frozen=True)
class RingLoss:
    """``turns`` all-reduces of ``values`` float32 by each way, in turn, over links of ``mbit`` that lose ``loss`` of
    all packets. ``bound``: that of the bounded ring."""

    ranks: int = 4
    mbit: float = 20.0
    loss: float = 0.01
    bound: float = 0.03
    values: int = 300_000
    turns: int = 15
    seed: int = 1


@dataclass(frozen=True)
class RingOutcome:
    """``seconds``: of every all-reduce on the slowest rank, by way. ``equal``: whether all ranks had the same bits.
    ``missing``: the largest share of a tensor's contributions that was missing in the bounded ring. ``again``: packets
    that were sent again, by way. ``off``: the largest difference of the ring without a bound from the true mean."""

    seconds: Mapping[str, list[float]]
    equal: bool
    missing: float
    again: Mapping[str, int]
    off: float


def measured(options: RingLoss) -> RingOutcome:
    """Needs root, for the namespace. Raises ProcessDiedError if a rank fails."""
    command = ["unshare", "--net", sys.executable, "-m", "sumwire_lab.experiments.ring_loss_worker"]
    done = subprocess.run([*command, json.dumps(asdict(options))], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ProcessDiedError(f"the ranks of a ring ended with {done.returncode}; see what they wrote above")
    return RingOutcome(**json.loads(done.stdout.splitlines()[-1]))
