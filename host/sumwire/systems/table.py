# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every system in one table: what it is, runs over and needs. Errors and docs/systems.md come from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sumwire_protocol import constants as p4

from sumwire.errors import UsageError

SWITCH: Final = "switch"
GROUP: Final = "group"
AUTO: Final = "auto"
TRANSPORTS: Final = (SWITCH, GROUP)


@dataclass(frozen=True, slots=True)
class Option:
    """A keyword of `make`; `default` None: it must be given."""

    default: str | None
    meaning: str


@dataclass(frozen=True, slots=True)
class Route:
    """One system over one transport.

    `up` is what a worker sends a gradient value in the mean, `down` what it gets, in bits, headers aside. Over a group
    that is what it hands to collectives, and what it gets of them; an all-reduce in a ring moves 2 (n - 1)/n times as
    much.
    """

    ops: tuple[str, ...]
    up: str
    down: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SystemSpec:
    """One row. `acts`: in DDP's communication hook, or in the optimizer that `attach` returns."""

    what: str
    paper: str
    routes: Mapping[str, Route]
    acts: Literal["hook", "optimizer"] = "hook"
    keeps: str = "nothing"
    limits: str = ""

    @property
    def transports(self) -> tuple[str, ...]:
        """What it runs over, the preferred one first."""
        return tuple(self.routes)

    @property
    def ops(self) -> tuple[str, ...]:
        """What a job must have; empty for a system that does not run over a switch."""
        return self.routes[SWITCH].ops if SWITCH in self.routes else ()


OPTIONS: Final[Mapping[str, Option]] = {
    "error_feedback": Option("True", "add what was left out to the next gradients"),
    "scale": Option("1.0", "what a sign stands for"),
    "k": Option("0.01", "share of a bucket's values that is sent, above 0 and at most 1"),
    "rank": Option("4", "columns of the factors, at most the smaller side of some matrix"),
    "min_compression": Option("2.0", "a matrix is compressed if its factors are smaller by more than this"),
    "start_iter": Option("3", "steps with whole gradients before, 2 or more"),
    "seed": Option("1", "of shared random numbers; alike on all workers"),
    "accumulation": Option("1", "backward passes a step; None if not known beforehand"),
    "threshold_bytes": Option("25 MiB", "of uncompressed gradient that shares a buffer"),
    "bits": Option("4", "of an index, 1 to 4"),
    "granularity": Option("30", "largest table value; times n at most 255"),
    "p": Option("1/32", "share of values that is clipped"),
    "global_lr": Option(None, "step of a sign, or a function of the round"),
    "full_precision_every": Option("100", "rounds; None for never"),
    "rows": Option(None, "of the torus; divides n"),
    "stochastic": Option("False", "draw signs at random, without bias"),
}

_ACP_OPTIONS: Final = ("rank", "seed", "min_compression", "accumulation", "threshold_bytes")
_MARSIT_OPTIONS: Final = ("global_lr", "full_precision_every")
_ACP_SHARE: Final = "(rows + columns) rank / (2 rows columns)"
_ACP_PAPER: Final = "ACP-SGD, ICDCS 2023, arXiv 2306.08881"
_THC_PAPER: Final = "THC, NSDI 2024, arXiv 2302.08545"
_MARSIT_PAPER: Final = "Marsit, DAC 2022, arXiv 2204.06787"
_SIGNERS: Final = f"at most {p4.SIGN_WORKERS_MAX} workers in a switch"
_BYTE_SUMS: Final = "granularity n <= 255; float32 and half precision"

TABLE: Final[Mapping[str, SystemSpec]] = {
    "ssgd": SystemSpec(
        "gradients, as they are", "PyTorch DDP, VLDB 2020, arXiv 2006.15704", {GROUP: Route((), "32", "32")}
    ),
    "fp16": SystemSpec(
        "gradients in float16 (torch's hook)",
        "PyTorch's fp16_compress_hook",
        {GROUP: Route((), "16", "16")},
        limits="values beyond float16 become infinite",
    ),
    "sum32": SystemSpec(
        "gradients in 32-bit fixed point, with an exponent agreed on so that no sum overflows",
        "after SwitchML, NSDI 2021, arXiv 1903.06701",
        {SWITCH: Route(("sum32", "max32"), "32.1", "32.1")},
    ),
    "thc": SystemSpec(
        "gradients as table indices; sums of table values come back",
        _THC_PAPER,
        {
            SWITCH: Route(("thc", "max32"), "4", "8", ("error_feedback",)),
            GROUP: Route((), "8", "8", ("error_feedback", "bits", "granularity", "p", "seed")),
        },
        keeps="residual",
        limits=_BYTE_SUMS,
    ),
    "thc-uniform": SystemSpec(
        "the same with evenly spaced levels: granularity 2^bits - 1",
        _THC_PAPER,
        {
            SWITCH: Route(("thc", "max32"), "4", "8", ("error_feedback",)),
            GROUP: Route((), "8", "8", ("error_feedback", "bits", "p", "seed")),
        },
        keeps="residual",
        limits=f"{_BYTE_SUMS}; over a switch, the job's table must be the uniform one",
    ),
    "dlcp": SystemSpec(
        "the same as `thc`, in lanes of a job (`sumwire.dlcp.Lanes`) whose packets have priorities and drop classes",
        "DLCP, arXiv 2008.08445; MLT, NSDI 2024",
        {SWITCH: Route(("thc", "max32"), "4", "8", ("error_feedback",))},
        keeps="residual",
        limits=f"{_BYTE_SUMS}; contributions up to the loss bound may be missing",
    ),
    "topk": SystemSpec(
        "the largest values and their positions",
        "Aji and Heafield, EMNLP 2017, arXiv 1704.05021",
        {GROUP: Route((), "64 k", "64 k n", ("k", "error_feedback"))},
        keeps="residual",
        limits="below 2^31 values a bucket",
    ),
    "vote": SystemSpec(
        "signs of gradients; the result is their majority, a tie is plus",
        "signSGD with majority vote, ICML 2018, arXiv 1802.04434",
        {
            SWITCH: Route(("vote", "max32"), "1", "1", ("scale",)),
            GROUP: Route((), "1", "n", ("scale",)),
        },
        limits=f"at most {p4.VOTE_WORKERS_MAX} workers in a switch",
    ),
    "ef-sign": SystemSpec(
        "signs of gradients and their mean magnitude",
        "EF-signSGD, ICML 2019, arXiv 1901.09847",
        {SWITCH: Route(("sign", "max32"), "1", "1"), GROUP: Route((), "1", "n")},
        keeps="residual",
        limits=_SIGNERS,
    ),
    "ssdm": SystemSpec(
        "stochastic signs of gradients, merged",
        "Safaryan and Richtarik, ICML 2021, arXiv 1905.12938",
        {SWITCH: Route(("sign", "max32"), "1", "1", ("scale",))},
        limits=_SIGNERS,
    ),
    "powersgd": SystemSpec(
        "low-rank factors P and Q, one after the other (torch's hook)",
        "Power-SGD, NeurIPS 2019, arXiv 1905.13727",
        {
            GROUP: Route(
                (), "32 (rows + columns) rank / (rows columns)", "the same", ("rank", "start_iter", "min_compression")
            )
        },
        keeps="errors, P, Q",
        limits="whole gradients in the first start_iter steps",
    ),
    "acp": SystemSpec(
        "one low-rank factor a step, P and Q by turns",
        _ACP_PAPER,
        {
            SWITCH: Route(("sum32", "max32"), f"32.1 {_ACP_SHARE}", "the same", _ACP_OPTIONS),
            GROUP: Route((), f"32 {_ACP_SHARE}", "the same", _ACP_OPTIONS),
        },
        acts="optimizer",
        keeps="errors, P, Q, the step",
        limits="parameters on one device",
    ),
    "acp-thc": SystemSpec(
        "the same, with THC for the factors",
        f"{_ACP_PAPER}; {_THC_PAPER}",
        {
            SWITCH: Route(("thc", "max32"), f"4 {_ACP_SHARE}", f"8 {_ACP_SHARE}", _ACP_OPTIONS),
            GROUP: Route((), f"8 {_ACP_SHARE}", "the same", (*_ACP_OPTIONS, "bits", "granularity", "p")),
        },
        acts="optimizer",
        keeps="errors, P, Q, the step",
        limits=f"{_BYTE_SUMS}; parameters on one device",
    ),
    "marsit": SystemSpec(
        "signs of updates, merged; every full_precision_every-th round K in full precision",
        _MARSIT_PAPER,
        {SWITCH: Route(("sign", "sum32", "max32"), "1 + 31/K", "the same", _MARSIT_OPTIONS)},
        acts="optimizer",
        keeps="compensation",
        limits=_SIGNERS,
    ),
    "marsit-ring": SystemSpec(
        "the same, merged hop by hop in a ring",
        _MARSIT_PAPER,
        {GROUP: Route((), "2 (n - 1)/n, and 32/K", "the same", (*_MARSIT_OPTIONS, "seed"))},
        acts="optimizer",
        keeps="compensation",
        limits="works on the processor",
    ),
    "marsit-torus": SystemSpec(
        "the same in a 2D torus",
        _MARSIT_PAPER,
        {GROUP: Route((), "about 2 (n - 1)/n, and 32/K", "the same", (*_MARSIT_OPTIONS, "rows", "seed"))},
        acts="optimizer",
        keeps="compensation",
        limits="works on the processor",
    ),
    "cascade": SystemSpec(
        "the baseline that Marsit avoids: signs compressed anew at every hop of a ring",
        _MARSIT_PAPER,
        {GROUP: Route((), "2 (n - 1)/n", "the same", ("seed", "stochastic"))},
        limits="works on the processor",
    ),
}


def known(name: str) -> SystemSpec:
    """The system of that name. Raises UsageError for another."""
    if name not in TABLE:
        raise UsageError(f"system {name!r}: known are {', '.join(TABLE)}")
    return TABLE[name]


def resolve(name: str, transport: str, *, has_job: bool) -> str:
    """ "switch" or "group" for a system; "auto" takes the switch where there is a job and the system runs there.

    Raises UsageError for an unknown name or transport, and for a system that does not run over it.
    """
    spec = known(name)
    if transport not in (AUTO, *TRANSPORTS):
        raise UsageError(f"transport {transport!r}: known are {', '.join((AUTO, *TRANSPORTS))}")
    chosen = transport
    if transport == AUTO:
        chosen = SWITCH if SWITCH in spec.routes and (has_job or GROUP not in spec.routes) else GROUP
    if chosen not in spec.routes:
        others = ", ".join(other for other, row in TABLE.items() if chosen in row.routes)
        only = " and ".join(spec.transports)
        raise UsageError(f"system {name}: transport {chosen!r}: it runs over {only}; over {chosen} run {others}")
    if chosen == SWITCH and not has_job:
        raise UsageError(f"system {name}: needs a job, with ops {', '.join(spec.ops)}")
    return chosen


def check_options(name: str, transport: str, options: Mapping[str, object]) -> None:
    """Raises UsageError for options that the system does not have over that transport, or lacks."""
    allowed = TABLE[name].routes[transport].options
    for option in options:
        if option not in allowed:
            rule = f"over {transport} it has {', '.join(allowed) or 'none'}"
            raise UsageError(f"system {name}: option {option!r}: {rule}")
    for option in allowed:
        if OPTIONS[option].default is None and option not in options:
            raise UsageError(f"system {name}: needs option {option}: {OPTIONS[option].meaning}")


def as_markdown() -> str:
    """The tables of docs/systems.md."""
    routes = [["name", "what travels", "transport", "bits up", "bits down", "ops of the job", "options"]]
    for name, spec in TABLE.items():
        for number, (transport, route) in enumerate(spec.routes.items()):
            first = [f"`{name}`", spec.what] if number == 0 else ["", ""]
            names = " ".join(f"`{option}`" for option in route.options)
            routes.append([*first, transport, route.up, route.down, " ".join(route.ops), names])
    more = [["name", "acts in", "keeps", "limits", "source"]]
    more += [[f"`{name}`", spec.acts, spec.keeps, spec.limits, spec.paper] for name, spec in TABLE.items()]
    options = [["option", "default", "meaning"]]
    options += [[f"`{name}`", option.default or "required", option.meaning] for name, option in OPTIONS.items()]
    return "\n".join(_rows(table) for table in (routes, more, options))


def _rows(table: list[list[str]]) -> str:
    lines = [table[0], ["---"] * len(table[0]), *table[1:]]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
