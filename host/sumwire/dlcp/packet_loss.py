# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Simulated loss of gradient packets, by which `sumwire profile-loss` tests a training script.

    loss = sumwire.dlcp.packet_loss.from_environment()
    for inputs, labels in batches:
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        loss.drop(model.parameters())                    # zeros the values of lost packets
        optimizer.step()

A lost packet's values become zeros, as in the papers. A job with a loss bound loses less: it divides by the number of
contributors, and keeps missing contributions for the next step.

Without SUMWIRE_LOSS in the environment nothing is lost, so the call can stay in the script.
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

# Environment variables: the share of lost packets, their pattern, and the seed of the draws.
SHARE: Final = "SUMWIRE_LOSS"
PATTERN: Final = "SUMWIRE_LOSS_PATTERN"
SEED: Final = "SUMWIRE_LOSS_SEED"
# Which packets may be lost.
OF: Final = "SUMWIRE_LOSS_OF"
# A file to which every process that drops packets adds a line when it ends.
REPORT: Final = "SUMWIRE_LOSS_REPORT"
IID: Final = "iid"
BURST: Final = "burst"
PATTERNS: Final = (IID, BURST)
ALL: Final = "all"
# Thirds of the values, by their place in the model: those of the front layers are the first third.
THIRDS: Final = ("front", "middle", "back")
# Halves of a tensor's packets, by the L2 norm of their values.
SMALL: Final = "small"
LARGE: Final = "large"
PLACES: Final = (ALL, *THIRDS, SMALL, LARGE)
# Mean length of a burst in packets.
BURST_PACKETS: Final = 8


class PacketLoss:
    """Loses a share of packets: each independently (``iid``), or in bursts of 8 on average (``burst``).

    Bursts follow Gilbert's model: a state that loses and one that does not, each left at random. Equal ``seed`` and
    ``rank`` give equal draws. ``of``: only these packets may be lost, and the share is one of them.

    Raises ConfigError for a share outside [0, 1), an unknown pattern or unknown packets.
    """

    def __init__(self, share: float = 0.0, pattern: str = IID, seed: int = 0, rank: int = 0, of: str = ALL) -> None:
        if of not in PLACES:
            raise ConfigError("of", of, f"must be one of {', '.join(PLACES)}", where="packet loss")
        if not 0 <= share < 1:
            raise ConfigError("share", share, "must be in [0, 1)", where="packet loss")
        if pattern not in PATTERNS:
            raise ConfigError("pattern", pattern, f"must be one of {', '.join(PATTERNS)}", where="packet loss")
        if pattern == BURST and share > BURST_PACKETS / (BURST_PACKETS + 1):
            rule = f"bursts of {BURST_PACKETS} packets cannot lose more than {BURST_PACKETS / (BURST_PACKETS + 1):.3f}"
            raise ConfigError("share", share, rule, where="packet loss")
        self.share = share
        self.pattern = pattern
        self.of = of
        self.packets = 0
        self.lost = 0
        self._draws = np.random.default_rng((seed, rank))
        # Of the current state of a burst pattern: whether it loses, and how many packets are left in it.
        self._losing = False
        self._left = 0

    @torch.no_grad()
    def drop(self, parameters: Iterable[Tensor]) -> None:
        """Zero the values of lost packets in the parameters' gradients, taken as one flat tensor."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        if self.share == 0 or not gradients:
            return
        flat = self.drop_flat(torch.cat([gradient.reshape(-1) for gradient in gradients]))
        for gradient, piece in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
            gradient.copy_(piece.view(gradient.shape))

    @torch.no_grad()
    def drop_flat(self, x: Tensor) -> Tensor:
        """Zero lost packets' values in a flat tensor, in place, and return it. A packet has 1024 values."""
        chosen = np.flatnonzero(self._may_be_lost(x))
        lost = self.draw(len(chosen))
        for packet in chosen[lost].tolist():
            x[packet * CHUNK_VALUES : (packet + 1) * CHUNK_VALUES] = 0.0
        return x

    def _may_be_lost(self, x: Tensor) -> NDArray[np.bool_]:
        """By packet of a flat tensor."""
        packets = -(-len(x) // CHUNK_VALUES)
        if self.of in THIRDS:
            middles = (np.arange(packets) + 0.5) / max(packets, 1)
            third: NDArray[np.bool_] = np.floor(middles * len(THIRDS)) == THIRDS.index(self.of)
            return third
        if self.of == ALL:
            return np.ones(packets, np.bool_)
        padded = x.new_zeros(packets * CHUNK_VALUES, dtype=torch.float64)
        padded[: len(x)] = x
        # Of an odd number the one in the middle is large.
        ranks = padded.view(packets, CHUNK_VALUES).square().sum(dim=1).argsort(stable=True).argsort(stable=True)
        small: NDArray[np.bool_] = (ranks < packets // 2).cpu().numpy()
        return small if self.of == SMALL else ~small

    def draw(self, packets: int) -> NDArray[np.bool_]:
        """Return which of the next packets are lost, bool of shape (packets,)."""
        lost = self._draws.random(packets) < self.share if self.pattern == IID else self._bursts(packets)
        self.packets += packets
        self.lost += int(np.count_nonzero(lost))
        return lost

    def _bursts(self, packets: int) -> NDArray[np.bool_]:
        """Draw the lengths of states: bursts of 8 packets on average, and gaps that make the share right."""
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
    """Return the loss set by SUMWIRE_LOSS (a share), SUMWIRE_LOSS_PATTERN (iid or burst), SUMWIRE_LOSS_OF (which
    packets) and SUMWIRE_LOSS_SEED.

    ``rank`` is this worker's, if the script is several processes, so that each loses packets of its own. Raises
    ConfigError for values out of range.
    """
    given = os.environ if environment is None else environment
    share, seed = _number(given, SHARE, float), _number(given, SEED, int)
    loss = PacketLoss(share, given.get(PATTERN, IID), int(seed), rank, given.get(OF, ALL))
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
