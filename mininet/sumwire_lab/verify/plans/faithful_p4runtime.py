# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-faithful` with P4Runtime clients."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sumwire_lab.experiments import finsy_run, p4runtime_inserts, p4runtime_programs
from sumwire_lab.options.faithful_options import FaithfulOptions
from sumwire_lab.study.check import Check, absent, at_most, equal
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Experiment
from sumwire_lab.verify.processes import ROOT, without_bmv2

PROGRAMS: Final = ROOT / "tests/helpers/p4runtime/programs"
_INSERTS: Final = 100_000
_JSONS: Final = 10_000
_RATIO_MOST: Final = 3.0


def experiments(results: Path, say: Say, options: FaithfulOptions) -> Mapping[str, Experiment]:
    """By row."""
    part = 20 if options.quick else 1
    return {
        "finsy": lambda: _finsy(results, say),
        "inserts": lambda: _inserts(_INSERTS // part, say),
        "json": lambda: _json(_JSONS // part, say),
    }


def _finsy(results: Path, say: Say) -> list[Check]:
    label, target = f"finsy {finsy_run.VERSION}: checks that fail", "none"
    try:
        python = finsy_run.environment(say)
    except finsy_run.NoFinsyError as error:
        return [absent(label, target, str(error))]
    done = finsy_run.checks(python, sorted(PROGRAMS.glob("*.p4info.txtpb")), results)
    failures = {name: how for name, how in done.items() if how != "ok"}
    return [equal(f"{label}, of {len(done)}", failures, {}, target)]


def _inserts(count: int, say: Say) -> list[Check]:
    label = f"{count} LPM inserts in batches of {p4runtime_inserts.BATCH}: soft / bmv2 time"
    without = without_bmv2(label, f"<= {_RATIO_MOST:g}")
    if without:
        return without
    seconds = p4runtime_inserts.by_turns(PROGRAMS / "tables.p4info.txtpb", count, say)
    bmv2 = seconds["bmv2"]
    labels = {name: f"{label}, {name} engine" for name in p4runtime_inserts.ENGINES}
    return [
        at_most(f"{named} ({seconds[name]:.2f} s, bmv2 {bmv2:.2f} s)", seconds[name] / bmv2, _RATIO_MOST)
        for name, named in labels.items()
    ]


def _json(count: int, say: Say) -> list[Check]:
    done = p4runtime_programs.set_mutated(sorted(PROGRAMS.glob("*.p4info.txtpb")), count, say)
    label = f"{count} mutated JSONs over SetForwardingPipelineConfig ({done.ran} run, {done.refused} refused): others"
    return [equal(label, done.others, [], "none")]
