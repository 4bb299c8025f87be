# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-faithful`: runs P4 programs and P4Runtime clients of others: p4c's v1model samples from a checkout,
finsy, and the compiler for Tofino, which reports the resources of the chip. Other users' rows are in outside.py."""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from nativelib import programs

from sumwire_lab.errors import LabError
from sumwire_lab.network.switches import BMV2
from sumwire_lab.study.check import Check, absent, at_least, at_most, equal, holds, reported
from sumwire_lab.verify import outside
from sumwire_lab.verify.plan import (
    ROOT,
    Experiments,
    Verification,
    command_check,
    fuzzed_programs,
    has_bmv2,
    needs_bmv2,
    run_module,
    run_words,
)

CHECKOUT: Final = "P4C"  # the variable that names the folder of the checkout
COMPILER: Final = "p4c-bm2-ss"
# They use indices past the end of a stack, where bmv2 ends, and fields of invalid headers: docs/softswitch.md.
DOCUMENTED: Final = frozenset({"runtime-index-bmv2", "runtime-index-2-bmv2"})
TRACED_MIN: Final = 100
SHARE_MIN: Final = 97.0
MUTATIONS: Final = 20
_JSONS: Final = 10_000
_QUICK: Final = 20
_WHOLE: Final = 100.0


def _missing() -> str:
    """What this machine lacks, empty if nothing."""
    if not os.environ.get(CHECKOUT):
        return f"no checkout of p4c: name its folder, {CHECKOUT}=FOLDER make verify-faithful"
    return "" if shutil.which(COMPILER) else f"{COMPILER} is not on PATH"


@functools.cache
def _record(v: Verification) -> dict[str, Any] | str:
    """What `python -m fuzz.samples` found, or what this machine lacks: of one run of the samples, at which
    the first three rows look. Raises LabError."""
    missing = _missing()
    if missing:
        return missing
    file = v.results.resolve() / "v1model-samples.json"
    file.unlink(missing_ok=True)
    work = v.results.resolve() / "v1model-samples"
    words = programs.module("fuzz.samples", os.environ[CHECKOUT], "--work", str(work))
    every = ["--every", str(_QUICK)] if v.quick else []
    beside = ["--bmv2"] if has_bmv2() and not os.geteuid() else []
    alone = ["unshare", "--net"] if beside else []  # its ports are nobody else's
    ended = run_words([*alone, *words, "--json", str(file), "--mutations", str(MUTATIONS), *every, *beside])
    if not file.exists():
        raise LabError(f"the samples ended with {ended.status}: {ended.last_line}")
    record: dict[str, Any] = json.loads(file.read_text())
    return record


def _packets(v: Verification) -> list[Check]:
    label, target = "packet tests of p4c's v1model samples that pass", f">= {SHARE_MIN:g} %"
    found = _record(v)
    if isinstance(found, str):
        return [absent(label, target, found)]
    tested = len(found["tested"])
    checks = [
        at_least(
            f"{label} in {engine}, %, of {tested}", _share(len(found["passed"].get(engine, ())), tested), SHARE_MIN
        )
        for engine in found["engines"]
    ]
    wrong = sorted(found["wrong"])
    return [*checks, equal("packet tests with wrong frames", wrong, [], "none"), _crashes(found)]


def _load(v: Verification) -> list[Check]:
    label, target = "v1model programs of p4c's test data that load", f">= {SHARE_MIN:g} %"
    found = _record(v)
    if isinstance(found, str):
        return [absent(label, target, found)]
    served, unserved = len(found["served"]), sorted(found["unserved"])
    answered = f"of those with a P4Info, committed over P4Runtime and read whole, %, of {served + len(unserved)}"
    return [
        at_least(f"{label}, %, of {found['compiled']}", _share(len(found["loaded"]), found["compiled"]), SHARE_MIN),
        at_least(f"{answered}, not {', '.join(unserved)}", _share(served, served + len(unserved)), SHARE_MIN),
    ]


def _mutated(v: Verification) -> list[Check]:
    label, target = f"{MUTATIONS} mutated packets for each packet test: samples after which engines differ", "none"
    found = _record(v)
    beside = label.replace("engines", "an engine and bmv2") + ", of samples whose test writes no table"
    if isinstance(found, str):
        return [absent(label, target, found), absent(beside, target, found)]
    checks = [equal(f"{label}, {found['packets']} packets", sorted(found["differences"]), [], target)]
    if not found["bmv2_samples"]:
        return [*checks, absent(beside, target, f"{BMV2} is not on PATH, or this is not root")]
    others = sorted(set(found["bmv2_differences"]) - DOCUMENTED)
    count = f"{len(found['bmv2_samples'])} samples, {found['bmv2_packets']} packets"
    return [*checks, equal(f"{beside}: {count}", others, [], "none but documented ones")]


def _trace(v: Verification) -> list[Check]:
    """Of the same packets, with the same entries: the trace beside bmv2's log, and then the registers."""
    label, target = (
        "packet tests of p4c's samples and mutated packets: events in the trace and in bmv2's log differ",
        "none",
    )
    registers = "registers after them, by softswitch-cli and simple_switch_CLI, differ"
    absent_here = functools.partial(_absent_both, (label, registers), target)
    if missing := _missing():
        return absent_here(missing)
    file, work = v.results.resolve() / "v1model-trace.json", v.results.resolve() / "v1model-samples"
    file.unlink(missing_ok=True)
    words = programs.module("fuzz.samples.traced", os.environ[CHECKOUT], "--work", str(work), "--json", str(file))
    every = ["--every", str(_QUICK)] if v.quick else []
    alone = [] if os.geteuid() else ["unshare", "--net"]  # its ports are nobody else's
    ended = run_words([*alone, *words, *every])
    if not file.exists():
        raise LabError(f"the traces ended with {ended.status}: {ended.last_line}")
    found: dict[str, Any] = json.loads(file.read_text())
    if "absent" in found:
        return absent_here(found["absent"])
    others = {name: why for name, why in found["differences"].items() if name not in DOCUMENTED}
    counted = f"{found['packets']} packets, {sum(found['events'].values())} events"
    least = TRACED_MIN // _QUICK if v.quick else TRACED_MIN
    return [
        at_least("samples that are traced beside bmv2's log", len(found["samples"]), least),
        equal(f"{label}: {counted}", others, {}, target),
        equal(f"{sum(found['registers'].values())} {registers}", found["register_differences"], {}, target),
    ]


def _absent_both(labels: Sequence[str], target: str, why: str) -> list[Check]:
    return [absent(label, target, why) for label in labels]


def _programs(v: Verification) -> list[Check]:
    count = _JSONS // _QUICK if v.quick else _JSONS
    return [command_check(f"{count} mutated JSONs", "each is refused by name, or runs", fuzzed_programs(count))]


def _crashes(found: Mapping[str, Any]) -> Check:
    return equal("samples that crash", sorted(found["crashes"]), [], "none")


def _share(part: int, whole: int) -> float:
    return round(_WHOLE * part / whole, 1) if whole else 0.0


PROGRAMS: Final = ROOT / "tests/helpers/p4runtime/programs"
_FINSY: Final = "0.30.0"
_INSERTS: Final = 100_000
_BATCH: Final = 1000
_ENGINES: Final = ("native", "python")
_SET_JSONS: Final = 10_000
_RATIO_MOST: Final = 3.0


def _finsy(v: Verification) -> list[Check]:
    label, target = f"finsy {_FINSY}: checks that fail", "none"
    done = _fuzzed("finsy_run", _FINSY, v.results.resolve() / "finsy.log", *_p4infos())
    if "absent" in done:
        return [absent(label, target, done["absent"])]
    failures = {name: how for name, how in done.items() if how != "ok"}
    return [equal(f"{label}, of {len(done)}", failures, {}, target)]


def _inserts(v: Verification) -> list[Check]:
    count = _INSERTS // _QUICK if v.quick else _INSERTS
    label = f"{count} LPM inserts in batches of {_BATCH}: soft / bmv2 time"

    @needs_bmv2(label, f"<= {_RATIO_MOST:g}")
    def measure(v: Verification) -> list[Check]:
        seconds = _fuzzed("inserts", PROGRAMS / "tables.p4info.txtpb", count, _BATCH)
        bmv2 = seconds["bmv2"]
        labels = {name: f"{label}, {name} engine" for name in _ENGINES}
        return [
            at_most(f"{named} ({seconds[name]:.2f} s, bmv2 {bmv2:.2f} s)", seconds[name] / bmv2, _RATIO_MOST)
            for name, named in labels.items()
        ]

    return measure(v)


def _json(v: Verification) -> list[Check]:
    count = _SET_JSONS // _QUICK if v.quick else _SET_JSONS
    done = _fuzzed("pipelines", count, *_p4infos())
    ended = f"{done['ran']} run, {done['refused']} refused"
    label = f"{count} mutated JSONs over SetForwardingPipelineConfig ({ended}): others"
    return [equal(label, done["others"], [], "none")]


def _p4infos() -> list[Path]:
    return sorted(PROGRAMS.glob("*.p4info.txtpb"))


def _fuzzed(module: str, *words: object) -> Any:
    """Return what a program of tests/fuzz/p4runtime prints as JSON in its last line. Raises LabError if it fails."""
    ended = run_module([f"fuzz.p4runtime.{module}", *map(str, words)])
    if ended.status:
        raise LabError(f"{module} ended with {ended.status}: {ended.last_line}")
    return json.loads(ended.last_line)


COMPILERS: Final = ("p4c-barefoot", "bf-p4c")
_SCRIPT: Final = "p4src/tools/tna.py"
_COMMITTED: Final = ROOT / "p4src/tna/build/report.json"
_STAGES: Final = 12


def _compile(v: Verification) -> list[Check]:
    label = "TNA program: stages of Tofino 1"
    if not any(map(shutil.which, COMPILERS)):
        return [absent(label, f"<= {_STAGES}", f"none of {', '.join(COMPILERS)} is on PATH")]
    file = v.results.resolve() / "tofino.json"
    file.unlink(missing_ok=True)
    ended = run_words(programs.script(Path(_SCRIPT), "--report", str(file)))
    if not file.exists():
        return [holds(label, ended.last_line, f"<= {_STAGES}", verdict=False)]
    found: dict[str, Any] = json.loads(file.read_text())
    same = _COMMITTED.exists() and found == json.loads(_COMMITTED.read_text())
    return [
        at_most(label, found["stages"]["used"], _STAGES),
        holds("TNA program: the committed report", "the same" if same else "none, or another", "the same", same),
        reported("TNA program: PHV bits, SRAMs and stateful ALUs", _taken(found)),
    ]


def _taken(found: Mapping[str, Any]) -> dict[str, int]:
    everywhere = found["of_all_stages"]
    phv = sum(kind["used"] for kind in found["phv_bits"].values())
    return {"phv_bits": phv, "srams": everywhere["srams"], "stateful_alus": everywhere["stateful_alus"]}


GROUPS: Final[Mapping[str, Experiments]] = {
    "v1model": {"packets": _packets, "load": _load, "mutated": _mutated, "trace": _trace, "programs": _programs},
    "p4runtime": {"finsy": _finsy, "inserts": _inserts, "json": _json},
    "tofino": {"compile": _compile},
    "outside": outside.GROUP,
}
"""The experiments by group and row."""
