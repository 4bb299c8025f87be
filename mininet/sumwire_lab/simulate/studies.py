# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The studies of docs/simulate.md by name, for `sumwire-lab simulate NAME`. Each asks one question and draws one
figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sumwire_lab.options.fields import one_of
from sumwire_lab.options.simulate_options import FLOWS, PACKETS, SimulateOptions, with_values
from sumwire_lab.simulate import measure, slots
from sumwire_lab.study.figures import Figure
from sumwire_lab.study.study import Column, Context, Study, grid

Case = Mapping[str, Any]
SEEDS: Final = (1, 2, 3, 4, 5)
_LABEL: Final = "what"
"""Column of a case that is no option: the name of a line in a figure."""


def simulate(case: Case, context: Context) -> list[dict[str, Any]]:
    """Simulate a case: values of options by their names on the command line."""
    given = {name: one for name, one in case.items() if name != _LABEL}
    return measure.rows(with_values(SimulateOptions(), given), context.say)


def _study(name: str, what: str, cases: Sequence[Case], *figures: Figure) -> Study:
    return Study(f"simulate-{name}", what, cases, simulate, measure.COLUMNS, figures=figures)


# Sums of 8 bits have room for so many workers, with tables of fewer steps than four workers have.
_THC_MOST: Final = 255


def _thc_scale() -> Study:
    shapes = {4: "4", 16: "16", 32: "32", 128: "32,4", 1024: "32,32"}
    cases = [
        {"engine": FLOWS, "workers": workers, "levels": levels, "rate-bit-s": rate, "systems": systems, "costs": "gpu"}
        for workers, levels in shapes.items()
        for rate in (1e9, 1e10, 1e11)
        for systems in ("gloo", "halving-doubling", "thc", "thc-16")
        if systems != "thc" or workers <= _THC_MOST
    ]
    figure = Figure("workers", "exposed_s", by="system", panel="rate-bit-s", log_x=True, log_y=True,
                    y_label="exposed communication (s)")  # fmt: skip
    what = "BERT-Base on 4 to 1024 workers: THC with sums of 8 and of 16 bits, and all-reduces of hosts"
    return _study("thc-scale", what, cases, figure)


def _slots() -> Study:
    axes: dict[str, list[Any]] = {
        "engine": [FLOWS], "systems": ["thc"], "workers": [8], "levels": ["8"], "passes-s": [0.0],
        "slots": [8, 32, 128, 512, 2048, 8192, 32_768], "rate-bit-s": [1e9, 1e10, 1e11], "delay-s": [1e-6, 1e-5, 1e-4],
    }  # fmt: skip
    figure = Figure("slots", "comm_s_per_step", by="rate-bit-s", panel="delay-s", log_x=True, log_y=True,
                    y_label="BERT-Base's exchange (s)")  # fmt: skip
    return _study("slots", "How many slots a job needs: rates and delays of links", grid(**axes), figure)


def _where() -> Study:
    axes: dict[str, list[Any]] = {
        "engine": [FLOWS], "costs": ["gpu"], "workers": [8], "levels": ["8"], "slots": [4096],
        "model": ["resnet50", "bert-base", "gpt2", "decoder-7b"], "rate-bit-s": [1e9, 1e10, 2.5e10, 1e11, 4e11],
        "systems": ["gloo", "fp16", "thc", "thc@server", "marsit"],
    }  # fmt: skip
    figure = Figure("rate-bit-s", "step_s", by="system", panel="model", log_x=True, log_y=True, x_label="links (bit/s)",
                    y_label="step (s)")  # fmt: skip
    what = "Up to which rate aggregation in the network pays, with codecs as fast as a GPU's memory"
    return _study("where", what, grid(**axes), figure)


_RACKS: Final = {144: "12,12", 1024: "32,32"}


def _dlcp() -> Study:
    """Lines: what a switch or a transport does, one mechanism at a time."""
    # Small enough for every packet of a ring of 144: 1.5 million values, and links that take longer than the passes.
    usual = {"model": "text", "passes-s": 0.02, "rate-bit-s": 2.5e8, "steps": 4, "slow": 0.05, "engine": PACKETS,
             "slots": 2048, "buffer-mb": 1.0, "queue-bytes": 500_000}  # fmt: skip
    # As a job with a delivery option: without marks, lanes of large windows overflow the queues.
    marked = {"systems": "thc", "limited": True, "mark-bytes": 20_000}
    lines: dict[str, dict[str, Any]] = {
        "thc": {**marked},
        "thc, early forward": {**marked, "early-forward": True},
        "thc, lanes": {**marked, "lanes": 4, "early-forward": True},
        "thc, lanes and priorities": {**marked, "lanes": 4, "early-forward": True, "order": "levels"},
        "ring, CUBIC": {"systems": "gloo"},
        "ring, DCTCP": {"systems": "gloo", "control": "dctcp", "mark-bytes": 97_500},
        "ring, pFabric": {"systems": "gloo", "control": "pfabric", "order": "smallest", "queue-bytes": 36_000},
        "ring, NDP": {"systems": "gloo", "control": "ndp", "order": "levels", "trim": True, "queue-bytes": 12_000},
    }
    cases = [
        {_LABEL: label, "workers": workers, "levels": levels, **usual, **line, "seed": seed}
        for workers, levels in _RACKS.items()
        for label, line in lines.items()
        if workers <= 144 or line["systems"] == "thc"
        for seed in SEEDS
    ]
    figure = Figure("workers", "step_s", by=_LABEL, kind="bars", y_label="step (s)")
    return _study(
        "dlcp",
        "A transformer of 1.5 million values on racks: DLCP's mechanisms one by one, and other transports",
        cases,
        figure,
    )


def _tofino() -> Study:
    axes: dict[str, list[Any]] = {
        "engine": [FLOWS], "workers": [16], "levels": ["16"], "passes-s": [0.0], "slots": [4096], "extra-bytes": [24],
        "costs": ["none", "gpu"], "systems": ["gloo", "fp16", "thc", "thc-tofino"],
        "rate-bit-s": [1e10, 2.5e10, 1e11],
    }  # fmt: skip
    figure = Figure("rate-bit-s", "comm_s_per_step", by="system", panel="costs", log_x=True, log_y=True,
                    y_label="BERT-Base's exchange (s)")  # fmt: skip
    what = "What a Tofino's packets of 64 values would give, with hosts that cost nothing and with hosts that do"
    return _study("tofino", what, grid(**axes), figure)


# -- many jobs on one switch -------------------------------------------------------------------------------


def many_jobs(case: Case) -> dict[str, float]:
    """Play twenty jobs that come and go under a rule."""
    pool = slots.Pool(rate_bit_s=case["rate_bit_s"], delay_s=case["delay_s"])
    found = slots.play(slots.drawn_jobs(case["seed"], gap_s=case["gap_s"]), case["rule"], pool)
    return {"completion_s": found.mean_s, "slowdown": found.mean_slowdown, "fairness": found.fairness}


def _jobs() -> Study:
    cases = grid(rule=list(slots.RULES), rate_bit_s=[1e11], delay_s=[1e-6, 2e-5], gap_s=[0.0, 240.0], seed=list(SEEDS))
    columns = (
        Column("completion_s", "mean, from a job's arrival to its end", "s"),
        Column("slowdown", "mean, against a job alone on the switch"),
        Column("fairness", "Jain's index of the jobs' speeds"),
    )
    figure = Figure(
        "gap_s", "completion_s", by="rule", panel="delay_s", kind="bars", x_label="mean gap between arrivals (s)",
        y_label="mean completion (s)",
    )  # fmt: skip
    what = "Twenty jobs on one switch, by the rule that divides its slots"
    return Study("simulate-jobs", what, cases, many_jobs, columns, figures=(figure,))


# -- ACP-SGD: the same buckets over a ring, so no switch ---------------------------------------------------

# Ranks of the paper (arXiv 2306.08881), and its iterations of ACP-SGD on 32 GPUs at 10 Gbit/s, which are taken for the
# passes: what they have of communication is little.
_RANKS: Final = {"resnet50": 4, "resnet152": 4, "bert-base": 32, "bert-large": 32}
_PASSES_S: Final = {"resnet50": 0.248, "resnet152": 0.316, "bert-base": 0.193, "bert-large": 0.245}
_METHODS: Final = {"S-SGD": "gloo", "Power-SGD": "powersgd", "ACP-SGD": "acp@group"}
_GBIT: Final = 1e9


def _acp() -> Study:
    shapes = {8: "8", 16: "16", 32: "32", 64: "32,2"}
    cases = [
        {_LABEL: method, "engine": FLOWS, "systems": system, "model": model, "rank": rank,
         "passes-s": _PASSES_S[model], "workers": workers, "levels": levels, "rate-bit-s": rate * _GBIT}
        for model, rank in _RANKS.items()
        for workers, levels in shapes.items()
        for rate in (1, 10, 25, 100)
        for method, system in _METHODS.items()
    ]  # fmt: skip
    figure = Figure("rate-bit-s", "step_s", by=_LABEL, panel="model", log_x=True, log_y=True, x_label="links (bit/s)",
                    y_label="step (s)")  # fmt: skip
    return _study("acp", "S-SGD, Power-SGD and ACP-SGD by rings of 8 to 64 workers", cases, figure)


NAMED: Final[Mapping[str, Callable[[], Study]]] = {
    "acp": _acp, "dlcp": _dlcp, "jobs": _jobs, "slots": _slots, "thc-scale": _thc_scale, "tofino": _tofino,
    "where": _where,
}  # fmt: skip


def named(name: str) -> Study:
    """Return a study by its name. Raises OptionError for an unknown one."""
    one_of(tuple(NAMED), ", or a grid, NAME.yaml").check("study", name)
    return NAMED[name]()
