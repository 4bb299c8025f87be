# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""ACP-SGD's accuracy on the digits: by rank, and without error feedback or reuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from sumwire.job.job import Residual
from sumwire.lowrank import AcpSgd
from sumwire.training.collective import ThreadsEnd
from torch import Tensor
from torch.optim import Optimizer

from sumwire_lab.experiments.marsit_digits import INNER, accuracies, ssgd
from sumwire_lab.experiments.replicas import EPOCHS, Digits, Optimizing

RANK: Final = 4
SSGD: Final = "S-SGD"
ACP: Final = f"rank {RANK}"
NO_FEEDBACK: Final = f"rank {RANK}, no error feedback"
NO_REUSE: Final = f"rank {RANK}, no reuse"
VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "rank 1": {"rank": 1},
    "rank 2": {"rank": 2},
    ACP: {"rank": RANK},
    "rank 8": {"rank": 8},
    NO_FEEDBACK: {"rank": RANK, "error_feedback": False},
    NO_REUSE: {"rank": RANK, "reuse": False},
}
WARM_UP: Final = "rank 1, learning rate with warm-up"
_LOCAL: Final = "momentum"


def acp(given: Mapping[str, Any]) -> Optimizing:
    """ACP-SGD with these settings; every matrix is compressed."""

    def made(network: torch.nn.Module, end: ThreadsEnd) -> Optimizer:
        def mean(x: Tensor, number: int) -> tuple[Tensor, Residual]:
            return end.mean(x), lambda: torch.zeros_like(x)

        return AcpSgd(network, INNER[_LOCAL](network.parameters()), mean, min_compression=0.0, **given)

    return made


def by_variant(seeds: Sequence[int], epochs: int = EPOCHS) -> dict[str, list[float]]:
    """Test accuracies by variant, one for each seed; S-SGD is the first."""
    found = {SSGD: accuracies(ssgd(_LOCAL), seeds, epochs)}
    found |= {name: accuracies(acp(given), seeds, epochs) for name, given in VARIANTS.items()}
    found[WARM_UP] = [Digits(acp({"rank": 1}), seed, epochs=epochs, scheduled=True).accuracy() for seed in seeds]
    return found
