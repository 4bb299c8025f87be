# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Gradient packets that get lost, without a network: what `sumwire profile-loss` does to a training script.

    loss = sumwire.dlcp.packet_loss.from_environment()
    for inputs, labels in batches:
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        loss.drop(model.parameters())                    # zeros the values of packets that are lost
        optimizer.step()

As the papers profile: a lost packet's values become zeros. That is harsher than a job with a loss bound, which divides
by the contributors and keeps what was left out for the next step.

Without SUMWIRE_LOSS in the environment nothing is lost, so the call may stay in the script.
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire.codec.layout import CHUNK_VALUES
from sumwire.errors import ConfigError

# Share of packets that are lost, their pattern, and a number that the draws start from.
SHARE: Final = "SUMWIRE_LOSS"
PATTERN: Final = "SUMWIRE_LOSS_PATTERN"
SEED: Final = "SUMWIRE_LOSS_SEED"
# A file to which every process that drops packets adds a line, when it ends.
REPORT: Final = "SUMWIRE_LOSS_REPORT"
IID: Final = "iid"
BURST: Final = "burst"
PATTERNS: Final = (IID, BURST)
# Packets that a burst loses in the mean.
BURST_PACKETS: Final = 8


class PacketLoss:
    """Loses a share of packets: ``iid`` each for itself, or in bursts of 8 in the mean (Gilbert's model: a state that
    loses and one that does not, left at random). ``seed`` and ``rank`` start the draws; equal ones repeat.

    Raises ConfigError for a share outside [0, 1) or an unknown pattern.
    """

    def __init__(self, share: float = 0.0, pattern: str = IID, seed: int = 0, rank: int = 0) -> None:
        if not 0 <= share < 1:
            raise ConfigError("share", share, "must be in [0, 1)", where="packet loss")
        if pattern not in PATTERNS:
            raise ConfigError("pattern", pattern, f"must be one of {', '.join(PATTERNS)}", where="packet loss")
        if pattern == BURST and share > BURST_PACKETS / (BURST_PACKETS + 1):
            rule = f"bursts of {BURST_PACKETS} packets cannot lose more than {BURST_PACKETS / (BURST_PACKETS + 1):.3f}"
            raise ConfigError("share", share, rule, where="packet loss")
        self.share = share
        self.pattern = pattern
        self.packets = 0
        self.lost = 0
        self._draws = np.random.default_rng((seed, rank))
        # Of the present state of a burst pattern: whether it loses, and packets left in it.
        self._losing = False
        self._left = 0

    @torch.no_grad()
    def drop(self, parameters: Iterable[Tensor]) -> None:
        """Zero the lost packets' values in the parameters' gradients, which travel as one flat tensor."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        if self.share == 0 or not gradients:
            return
        flat = self.drop_flat(torch.cat([gradient.reshape(-1) for gradient in gradients]))
        for gradient, piece in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
            gradient.copy_(piece.view(gradient.shape))

    @torch.no_grad()
    def drop_flat(self, x: Tensor) -> Tensor:
        """The same for a flat tensor, in place: for DDP hooks. A packet holds 1024 values. Returns x."""
        packets = -(-len(x) // CHUNK_VALUES)
        lost = self.draw(packets)
        for packet in np.flatnonzero(lost).tolist():
            x[packet * CHUNK_VALUES : (packet + 1) * CHUNK_VALUES] = 0.0
        return x

    def draw(self, packets: int) -> NDArray[np.bool_]:
        """Which of the next packets are lost."""
        lost = self._draws.random(packets) < self.share if self.pattern == IID else self._bursts(packets)
        self.packets += packets
        self.lost += int(np.count_nonzero(lost))
        return lost

    def _bursts(self, packets: int) -> NDArray[np.bool_]:
        """States last as long as geometric draws say: bursts 8 packets in the mean, what is between them so long that
        the share comes out."""
        lost = np.zeros(packets, np.bool_)
        if self.share == 0:
            return lost
        between = BURST_PACKETS * (1 - self.share) / self.share
        at = 0
        while at < packets:
            if self._left == 0:
                # The first state is one without loss.
                self._losing = not self._losing if self.packets + at else False
                self._left = int(self._draws.geometric(1 / (BURST_PACKETS if self._losing else between)))
            here = min(self._left, packets - at)
            lost[at : at + here] = self._losing
            self._left -= here
            at += here
        return lost


def from_environment(rank: int = 0, environment: Mapping[str, str] | None = None) -> PacketLoss:
    """The loss that SUMWIRE_LOSS (a share), SUMWIRE_LOSS_PATTERN (iid or burst) and SUMWIRE_LOSS_SEED ask for.

    ``rank``: this worker's, where the script is several processes, so that each loses packets of its own.
    Raises ConfigError.
    """
    given = os.environ if environment is None else environment
    share, seed = _number(given, SHARE, float), _number(given, SEED, int)
    loss = PacketLoss(share, given.get(PATTERN, IID), int(seed), rank)
    if REPORT in given:
        atexit.register(_report, loss, Path(given[REPORT]))
    return loss


def _number(given: Mapping[str, str], name: str, kind: type[float] | type[int]) -> float:
    text = given.get(name, "0")
    try:
        return kind(text)
    except ValueError as error:
        raise ConfigError(name, text, "must be a number", where="environment") from error


def _report(loss: PacketLoss, path: Path) -> None:
    with path.open("a") as file:
        file.write(json.dumps({"packets": loss.packets, "lost": loss.lost}) + "\n")
