# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the benchmarks, `sumwire-lab bench NAME`, checked once."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final

from sumwire_protocol import constants as p4
from sumwire_protocol.ops import JUMBO, SHORT_OPS
from sumwire_protocol.ops import THC as THC_OP
from sumwire_protocol.tables import AUTO, DEFAULT_BITS, DEFAULT_P, KINDS, P_LEAST, SUM_MAX, UNIFORM, can_clip

from sumwire_lab.errors import OptionError
from sumwire_lab.options.fields import Checked, Rule, at_least, between, from_arguments, one_of, option, share
from sumwire_lab.options.recipes import BASELINE, DEFAULT_TASK, SYSTEM_OPS, SYSTEMS, TASKS, TEXT, named, parse
from sumwire_lab.options.run_options import (
    AGGREGATOR,
    ENGINES,
    SWITCHES,
    UNLIMITED,
    LinkOptions,
    RunOptions,
    TrainOptions,
)

# -- values of several benchmarks ----------------------------------------------------------------------

_UNLIMITED_WORD: Final = "unlimited"
_SUFFIXES: Final = {"k": 1_000, "M": 1_000_000}
LOOPBACK: Final = "loopback"


def parse_names(option: str, known: Sequence[str], text: str) -> tuple[str, ...]:
    """Parse `soft,aggregator`: names, each once. Raises OptionError."""
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in known:
            raise OptionError(f"{option}={name}: known are {', '.join(known)}")
    return names


def parse_sizes(text: str) -> tuple[int, ...]:
    """Parse `100k,1M`: numbers of float32 values. Raises OptionError."""
    sizes = []
    for word in text.split(","):
        digits, factor = (word[:-1], _SUFFIXES[word[-1]]) if word[-1:] in _SUFFIXES else (word, 1)
        if not digits.isascii() or not digits.isdecimal() or len(digits) > 12 or int(digits) < 1:
            raise OptionError(f"sizes={word!r}: a number of values above 0, as 5000, 100k or 1M")
        sizes.append(int(digits) * factor)
    return tuple(sizes)


def parse_rates(text: str) -> tuple[float, ...]:
    """Parse `10,100,unlimited`: rates in Mbit/s. Raises OptionError."""
    try:
        rates = tuple(UNLIMITED if word == _UNLIMITED_WORD else float(word) for word in text.split(","))
    except ValueError as error:
        raise OptionError(f"bw={text!r}: numbers of Mbit/s, or unlimited, with commas between them") from error
    for rate in rates:
        LinkOptions(rate)
    return rates


def parse_links(text: str) -> tuple[float | None, ...]:
    """Parse `loopback,100` as Mbit/s, None for loopback. Raises OptionError."""
    return tuple(None if word == LOOPBACK else parse_rates(word)[0] for word in text.split(","))


def rate_text(mbit: float) -> str:
    """Return a link's rate in words."""
    return _UNLIMITED_WORD if mbit == UNLIMITED else f"{mbit:g} Mbit/s"


# -- the page of all systems ---------------------------------------------------------------------------

SUITES: Final = ("allreduce", "accuracy", "scaling", "codec-cost", "codec-error", "sizes")
"""In the page's order."""


def parse_suites(text: str) -> tuple[str, ...]:
    """Parse `sizes,codec-cost` as names, in the page's order; `all` for every one. Raises OptionError."""
    names = SUITES if text == "all" else tuple(text.split(","))
    unknown = tuple(name for name in names if name not in SUITES)
    return (*(name for name in SUITES if name in names), *unknown)


@dataclass(frozen=True)
class SwitchOptions(Checked):
    """The choice of the program that takes the switch's place."""

    switch: str = option(
        "soft",
        f"of {', '.join(SWITCHES)}; auto: bmv2 if on PATH, else soft; aggregator: a server's process instead",
        rule=one_of(SWITCHES),
    )
    engine: str = option("auto", "engine of the soft switch; auto: native if there is a compiler", rule=one_of(ENGINES))


@dataclass(frozen=True)
class BenchOptions(SwitchOptions):
    """Options of one run of the benchmark. `quick`: minutes instead of hours, with fewer sizes, rates, systems and
    steps."""

    quick: bool = option(False, "minutes: fewer sizes, rates, systems, steps")
    suites: tuple[str, ...] = option(SUITES, f"with commas, of {', '.join(SUITES)}", read=parse_suites, shown="all")
    seed: int = option(1, "of all random numbers", rule=at_least(0, "must not be negative"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.suites:
            raise OptionError("suites: name at least one")
        for name in self.suites:
            if name not in SUITES:
                raise OptionError(f"suites={name}: known are {', '.join(SUITES)}")
        if len(set(self.suites)) != len(self.suites):
            raise OptionError(f"suites={','.join(self.suites)}: each at most once")


@dataclass(frozen=True)
class RatesOptions(SwitchOptions):
    """Options of trainings at several link rates."""

    task: str = option(DEFAULT_TASK, f"what to train, of {', '.join(TASKS)}", rule=one_of(tuple(TASKS)))
    systems: tuple[str, ...] = option(
        (BASELINE, "fp16", "powersgd", "topk", "thc"), f"with commas, of {', '.join(SYSTEMS)}", read=named
    )
    seeds: tuple[int, ...] = option((1, 2, 3), "with commas")
    quick: bool = option(False, "fewer passes over the data")
    bw: tuple[float, ...] = option(
        (10.0, 25.0, 50.0, 100.0), "link rates in Mbit/s", read=parse_rates, shown="10,25,50,100"
    )


# -- one all-reduce ------------------------------------------------------------------------------------

PLAIN_SYSTEMS: Final = (BASELINE, "thc", "sign")
# To be named with `--systems`: SUM32, THC by whichever way is faster for a size, and THC that asks for all norms.
BY_CHOICE: Final = ("auto", "asking")
ALLREDUCE_SYSTEMS: Final = (*PLAIN_SYSTEMS, "sum32", *BY_CHOICE)
GRID_SYSTEMS: Final = ("thc", "sign", "sum32")
"""Systems that `bench where` compares with gloo, which is in every grid."""
GRID_SWITCHES: Final = ("soft", AGGREGATOR, "bmv2")
WORKERS: Final = RunOptions().workers


@dataclass(frozen=True)
class AllReduceOptions(SwitchOptions):
    """Options of `bench allreduce`, which measures every size with every system at every link rate."""

    sizes: tuple[int, ...] = option((100_000, 1_000_000), "float32 values", read=parse_sizes, shown="100k,1M")
    bw: tuple[float, ...] = option(
        (10.0, 100.0), "link rates in Mbit/s, or unlimited", read=parse_rates, shown="10,100"
    )
    systems: tuple[str, ...] = option(
        PLAIN_SYSTEMS,
        f"in this order, of {', '.join(ALLREDUCE_SYSTEMS)}",
        read=partial(parse_names, "systems", ALLREDUCE_SYSTEMS),
    )
    workers: int = option(WORKERS, "hosts")
    mtu: int = option(LinkOptions.mtu, "bytes of the links' packets, as for `run`")
    repeats: int = 3
    """Least number of timed repeats of each size."""


@dataclass(frozen=True)
class InterleavedOptions(Checked):
    """Options of `bench interleaved`, which measures each system in turn with gloo."""

    sizes: tuple[int, ...] = option((5_000_000,), "float32 values", read=parse_sizes, shown="5M")
    bw: tuple[float | None, ...] = option(
        (None,), "loopback, or link rates in Mbit/s, or unlimited", read=parse_links, shown=LOOPBACK
    )
    systems: tuple[str, ...] = option(
        ("thc", "auto"), "each in turn with gloo", read=partial(parse_names, "systems", ALLREDUCE_SYSTEMS[1:])
    )
    workers: int = option(WORKERS, "ranks")
    repeats: int = option(30, "of each size", rule=at_least(1))


@dataclass(frozen=True)
class WhereOptions(Checked):
    """Options of `bench where`: its grid, and where its record, picture and tables go."""

    quick: bool = option(False, "minutes: three sizes, three rates")
    sizes: tuple[int, ...] | None = option(
        None, "float32 values", read=parse_sizes, shown="default: 1k to 100M in steps of 10"
    )
    bw: tuple[float, ...] | None = option(
        None,
        "link rates in Mbit/s, or unlimited",
        read=parse_rates,
        shown="default: 10 to 10000 in steps of 10, unlimited",
    )
    systems: tuple[str, ...] = option(
        GRID_SYSTEMS, "beside gloo", read=partial(parse_names, "systems", (BASELINE, *GRID_SYSTEMS))
    )
    switches: tuple[str, ...] | None = option(
        None,
        f"{', '.join(GRID_SWITCHES)}, several with commas",
        read=partial(parse_names, "switches", GRID_SWITCHES),
        shown="default: those that are here",
    )
    workers: int = option(WORKERS, "hosts")
    budget: float = option(60.0, "seconds that a cell may take")
    record: Path | None = option(None, "the record", shown="default: RESULTS/bench-where.json")
    resume: bool = option(False, "measure only what the record does not have")
    draw: bool = option(False, "measure nothing; picture and tables from the record")
    page: Path | None = option(None, "put the tables into this page, and the picture into its images/")


# -- packets per second --------------------------------------------------------------------------------

PACKET_OPS: Final = {op.name: (op.code, op.up.words) for op in (*SYSTEM_OPS, JUMBO)}
"""Name -> op code and words of a contribution."""


def parse_ops(text: str) -> tuple[str, ...]:
    """Parse `thc,sign` or `all`. Raises OptionError."""
    return tuple(PACKET_OPS) if text == "all" else parse_names("ops", (*PACKET_OPS, "all"), text)


@dataclass(frozen=True)
class SwitchBenchOptions(Checked):
    """Options of `bench switch`, which measures each op on each contender (`sumwire_lab.bench.switch.CONTENDERS`)."""

    ops: tuple[str, ...] = option(("thc",), f"{', '.join(PACKET_OPS)}, several with commas, or all", read=parse_ops)
    switches: tuple[str, ...] | None = option(
        None,
        "native, native-trains, python, bmv2, several with commas",
        shown="default: those that are here",
    )


# -- one codec, one aggregator -------------------------------------------------------------------------

DEVICES: Final = ("cpu", "cuda")
CODECS: Final = ("thc", "thc-wide", "vote", "ef-sign", "ssdm", "sum32")
"""What `bench codec` can time."""
AGGREGATOR_SLOTS: Final = 512
"""Slots of the job of `bench aggregator`."""


@dataclass(frozen=True)
class CodecBenchOptions(Checked):
    """Options of `bench codec`: what it times."""

    codec: str = option("thc", f"of {', '.join(CODECS)}", rule=one_of(CODECS))
    values: int = option(1_000_000, "float32 values", rule=at_least(1))
    block: int | None = option(None, "THC: rotation length; 0 for the full tensor", shown="default: the library's own")
    rounds: int = option(30, "rounds that are timed", rule=at_least(1))
    warmup: int = option(5, "rounds before them", rule=at_least(0))
    device: str = option("cpu", "where the tensor is: cpu, or cuda", rule=one_of(DEVICES))


# Ops that an aggregator sums.
_SUMMED: Final = tuple(op.name for op in SHORT_OPS)


@dataclass(frozen=True)
class AggregatorOptions(Checked):
    """Options of `bench aggregator`: a job with one op, and its load."""

    op: str = option("thc", f"of {', '.join(_SUMMED)}", rule=one_of(_SUMMED))
    workers: int = option(4, "of the job", rule=at_least(1))
    processes: int = option(1, "of the aggregator", rule=at_least(1))
    rate: float = option(inf, "contributions per second, at most")
    piece: int = option(
        16,
        "slots that are summed before the next ones begin",
        rule=Rule(lambda piece: piece >= 1 and AGGREGATOR_SLOTS % piece == 0, f"must divide {AGGREGATOR_SLOTS}"),
    )
    priority: int = option(0, "of all packets", rule=between(0, p4.PRIORITIES - 1, f"0 to {p4.PRIORITIES - 1}"))
    seconds: float = option(1.0, "of a run")
    runs: int = option(3, "of which the median counts", rule=at_least(1))
    limit_us: float = option(inf, "fail above this CPU time of a contribution, in microseconds")


# -- ACP-SGD -------------------------------------------------------------------------------------------

ACP: Final = "acp@group"
POWERSGD: Final = "powersgd"
# The paper's baselines and ACP-SGD, all over the process group.
ACP_SYSTEMS: Final = (BASELINE, "vote@group", "topk", POWERSGD, ACP)
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
        """A few words that name the case; no two cases have the same."""
        train = self.options.train
        return f"{self.part}: {self.system}, {self.mode}, {train.buffer_mb:g} MB, rank {train.rank}"


@dataclass(frozen=True)
class AcpBenchOptions(Checked):
    """Options of `bench acp`. It varies buffer sizes and ranks of ACP-SGD, and leaves everything else unchanged."""

    parts: tuple[str, ...] = option(PARTS, f"with commas, of {', '.join(PARTS)}")
    systems: tuple[str, ...] = option(ACP_SYSTEMS, f"with commas, of {', '.join(SYSTEMS)}", read=named)
    buffers: tuple[float, ...] = option(
        (0.0, 0.25, BUFFER_MB, 2.5, 25.0), "swept buffer sizes in MB, 0 for a tensor in each"
    )
    ranks: tuple[int, ...] = option((4, 16, 64), "swept ranks")
    mbit: float = option(RATE, "link rate in Mbit/s", flag="bw")
    steps: int = option(STEPS, "of each training")
    batch: int = option(BATCH, "samples per worker and step")

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = set(self.parts) - set(PARTS)
        if unknown or not self.parts:
            raise OptionError(f"parts={','.join(self.parts)}: known are {', '.join(PARTS)}")
        for _ in self.cases():
            pass

    def cases(self) -> Iterator[AcpCase]:
        """Yield all trainings, in order. Raises OptionError for an impossible one."""
        if "systems" in self.parts:
            for system in self.systems:
                yield from (self.case(system, mode) for mode in MODES)
        if "buffers" in self.parts:
            yield from (self._swept("buffers", buffer_mb=size) for size in self.buffers)
        if "ranks" in self.parts:
            yield from (self._swept("ranks", system={"rank": rank}) for rank in self.ranks)

    def case(self, system: str, mode: str) -> AcpCase:
        """Return the case of a system in one of MODES."""
        given = dict(MODES[mode])
        if given["buffer_mb"] is None:
            given["buffer_mb"] = BUFFER_MB
        train = TrainOptions.of(TEXT.name, max_steps=self.steps, batch=self.batch, nmse_samples=0, **given)
        name = parse(system).name
        return AcpCase("systems", name, mode, RunOptions(systems=(name,), link=LinkOptions(self.mbit), train=train))

    def _swept(self, part: str, **given: Any) -> AcpCase:
        usual = self.case(ACP, FUSION)
        return replace(usual, part=part, options=replace(usual.options, train=replace(usual.options.train, **given)))


# -- parts of THC --------------------------------------------------------------------------------------

BLOCK: Final = "block"
GLOBAL: Final = "global"
NORM: Final = "norm"
MINMAX: Final = "minmax"


@dataclass(frozen=True)
class Variant(Checked):
    """THC with some of its parts changed. The defaults are Sumwire's THC."""

    bits: int = option(DEFAULT_BITS, "of an index", rule=between(1, DEFAULT_BITS, f"must be 1..{DEFAULT_BITS}"))
    granularity: int | None = option(
        None,
        "of the table",
        rule=between(1, SUM_MAX, f"must be 1..{SUM_MAX}"),
        shown="default: the best one for the workers",
    )
    p: float = option(
        DEFAULT_P,
        "share of values that is clipped",
        flag="clip",
        rule=Rule(can_clip, f"a share is above 0 and below 1, and no less than {P_LEAST:g}"),
    )
    table: str = option(AUTO, f"of {', '.join(KINDS)}", rule=one_of(KINDS))
    block: int = option(
        4096,
        "values rotated together, 0 for the full tensor",
        rule=Rule(
            lambda block: block == 0 or (block >= THC_OP.values and not block & (block - 1)),
            f"must be a power of two from {THC_OP.values} values on, a packet's, or 0 for the full tensor",
        ),
    )
    rotation: bool = option(True, "without rotation")
    norms: str = option(
        BLOCK, "whether each block has a range of its own, or all share one", rule=one_of((BLOCK, GLOBAL))
    )
    range: str = option(
        NORM,
        f"what the grid spans: +-threshold by the norm, or the least to the largest value, {MINMAX}",
        rule=one_of((NORM, MINMAX)),
    )
    feedback: bool = option(True, "without error feedback")

    def fits(self, workers: int) -> bool:
        """Return whether the sums of so many workers cannot overflow."""
        return self.granularity is None or self.granularity * workers <= SUM_MAX


THC: Final = Variant()
ABLATIONS: Final[Mapping[str, Variant]] = {
    "thc": THC,
    "no error feedback": replace(THC, feedback=False),
    "no rotation": replace(THC, rotation=False),
    "one norm for all blocks": replace(THC, norms=GLOBAL),
    "full rotation, one norm": replace(THC, block=0),
    "blocks of 1024": replace(THC, block=1024),
    "uniform table": replace(THC, table=UNIFORM),
    "uniform, min-max": replace(THC, table=UNIFORM, range=MINMAX),
    "uniform, min-max, no rotation": replace(THC, table=UNIFORM, range=MINMAX, rotation=False),
    "3 bits": replace(THC, bits=3),
    "2 bits": replace(THC, bits=2),
    "p = 1/8": replace(THC, p=1 / 8),
    "p = 1/512": replace(THC, p=1 / 512),
    "granularity 15": replace(THC, granularity=15),
}
"""One part changed at a time."""


@dataclass(frozen=True)
class Ablation(Checked):
    """Whether `bench thc` tries ABLATIONS instead of one variant."""

    ablation: bool = option(False, f"each of {', '.join(ABLATIONS)}")


@dataclass(frozen=True)
class ThcOptions(Checked):
    """Options of `bench thc`: variants by name, numbers of workers, and the contributions missing from the sums."""

    variants: Mapping[str, Variant]
    workers: tuple[int, ...] = option((4, 16, 32), "with commas")
    seeds: tuple[int, ...] = option((1, 2, 3), "with commas")
    left_out: int = option(0, "workers that come too late in each step")
    loss: float = option(0.0, "share of the chunks that do not get to the sum", rule=share())
    epochs: int = option(6, "passes over the digits", rule=at_least(1))
    hidden: int = option(64, "units of a hidden layer", rule=at_least(1))
    samples: int = 256
    """Samples of a step, all workers together."""
    baselines: bool = option(False, "TernGrad, Top-k 10 % and DGC as well")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.variants or not self.workers or not self.seeds:
            raise OptionError("variants, workers, seeds: name at least one of each")
        for workers in self.workers:
            if not 1 <= workers <= self.samples:
                raise OptionError(f"workers={workers}: must be 1..{self.samples}")
            self._check_sums(workers)
        if not 0 <= self.left_out < min(self.workers):
            raise OptionError(f"left-out={self.left_out}: fewer than the workers, {min(self.workers)}")
        if self.baselines and (self.left_out or self.loss):
            raise OptionError("baselines: have all contributions; leave out left-out and loss")

    def _check_sums(self, workers: int) -> None:
        """Raises OptionError if no variant can sum so many workers."""
        if any(variant.fits(workers) for variant in self.variants.values()):
            return
        granularity = min(variant.granularity or 0 for variant in self.variants.values())
        rule = f"{workers} workers reach sums of {granularity * workers}, above {SUM_MAX}"
        raise OptionError(f"granularity={granularity}: {rule}; take {SUM_MAX // workers} or less, or fewer workers")


# -- from the command line -----------------------------------------------------------------------------


def thc_options(arguments: Namespace) -> ThcOptions:
    """Return the options of `bench thc`. Raises OptionError."""
    given = from_arguments(Variant, arguments)
    if arguments.ablation and given != THC:
        raise OptionError("ablation: changes one part at a time; leave out the options of a part")
    variants = ABLATIONS if arguments.ablation else {"thc" if given == THC else "given": given}
    return from_arguments(ThcOptions, arguments, variants=variants)
