# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What bench-acp measures, checked once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sumwire_lab.errors import OptionError
from sumwire_lab.options.recipes import BASELINE, TEXT, parse
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions

ACP: Final = "acp@group"
POWERSGD: Final = "powersgd"
# The paper's baselines and ACP-SGD, all over the process group.
SYSTEMS: Final = (BASELINE, "vote@group", "topk", POWERSGD, ACP)
NAIVE: Final = "naive"
WFBP: Final = "+ WFBP"
FUSION: Final = "+ fusion"
NO_WFBP: Final = "fusion, no WFBP"
# Wait-free back-propagation sends while the backward pass goes on. None: the buffer size of the options.
MODES: Final[Mapping[str, Mapping[str, Any]]] = {
    NAIVE: {"late": True, "buffer_mb": 0.0},
    WFBP: {"late": False, "buffer_mb": 0.0},
    FUSION: {"late": False, "buffer_mb": None},
    NO_WFBP: {"late": True, "buffer_mb": None},
}
PARTS: Final = ("systems", "buffers", "ranks")
# Enough for a median over P and Q steps after the warm-up ones.
STEPS: Final = 14
# At this batch and rate, two cores compute about as long as ACP-SGD's transfers take.
BATCH: Final = 16
RATE: Final = 20.0
# The transformer of the task text then has nine buffers.
BUFFER_MB: Final = 0.9


@dataclass(frozen=True)
class AcpCase:
    """One training of a few steps, whose time per step counts."""

    part: str
    system: str
    mode: str
    options: RunOptions

    @property
    def label(self) -> str:
        """A few words, different from those of the other cases."""
        train = self.options.train
        return f"{self.part}: {self.system}, {self.mode}, {train.buffer_mb:g} MB, rank {train.rank}"


@dataclass(frozen=True)
class AcpOptions:
    """`parts`: of PARTS. `buffers` in MB and `ranks` are swept with ACP-SGD, everything else left as it is."""

    parts: tuple[str, ...] = PARTS
    systems: tuple[str, ...] = SYSTEMS
    buffers: tuple[float, ...] = (0.0, 0.25, BUFFER_MB, 2.5, 25.0)
    ranks: tuple[int, ...] = (4, 16, 64)
    mbit: float = RATE
    steps: int = STEPS
    batch: int = BATCH

    def __post_init__(self) -> None:
        unknown = set(self.parts) - set(PARTS)
        if unknown or not self.parts:
            raise OptionError(f"parts={','.join(self.parts)}: known are {', '.join(PARTS)}")
        for _ in self.cases():
            pass

    def cases(self) -> Iterator[AcpCase]:
        """All trainings, in order. Raises OptionError for one that cannot be."""
        if "systems" in self.parts:
            for system in self.systems:
                yield from (self.case(system, mode) for mode in MODES)
        if "buffers" in self.parts:
            yield from (self._swept("buffers", buffer_mb=size) for size in self.buffers)
        if "ranks" in self.parts:
            yield from (self._swept("ranks", system={"rank": rank}) for rank in self.ranks)

    def case(self, system: str, mode: str) -> AcpCase:
        """A system in one of MODES."""
        given = dict(MODES[mode])
        if given["buffer_mb"] is None:
            given["buffer_mb"] = BUFFER_MB
        train = TrainOptions.of(TEXT.name, max_steps=self.steps, batch=self.batch, nmse_samples=0, **given)
        name = parse(system).name
        return AcpCase("systems", name, mode, RunOptions(systems=(name,), link=LinkOptions(self.mbit), train=train))

    def _swept(self, part: str, **given: Any) -> AcpCase:
        usual = self.case(ACP, FUSION)
        return replace(usual, part=part, options=replace(usual.options, train=replace(usual.options.train, **given)))
