# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-trust`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from sumwire_lab.errors import LabError
from sumwire_lab.experiments.blind_run import run_blind
from sumwire_lab.experiments.keyed_run import run_keyed
from sumwire_lab.experiments.trust import run_beside, run_forged
from sumwire_lab.options.trust_options import TrustOptions
from sumwire_lab.study.check import Check
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Experiment, Plan
from sumwire_lab.verify.processes import ROOT, run_module, run_tests, run_words
from sumwire_lab.verify.rows import trust as rows
from sumwire_lab.verify.rows.blind import blind

FORGED: Final = 1_000_000
PROGRAMS: Final = 10_000
P4RUNTIME_WRITES: Final = 20_000
SCHEDULES: Final = 100_000
MUTATION_SEEDS: Final = 10_000
_NAMES: Final = "from simulate.mutations import MUTATIONS; print(*sorted(MUTATIONS))"
FORGED_IN_NETWORK: Final = 100_000
# Of each of the runs of the good job.
STEPS: Final = 200
QUICK_STEPS: Final = 20
NO_EFFECT: Final = "0 effects on sums, 0 runs ended"
_FORGED_TESTS: Final = "tests/packet/test_forged.py"
_DOORS: Final = "tests/integration/controller/deploy/test_doors.py"
_JSON: Final = "p4src/build/sumwire.json"
_P4RUNTIME: Final = "tests/helpers/p4runtime/programs/tables"


def plan(results: Path, say: Say, options: TrustOptions) -> Plan:
    """Attacks, hostile files and neighbours, schedules and models: nobody gets in, and every schedule ends right."""
    made: Mapping[str, Callable[[], list[Check]]] = {
        "forged": partial(_forged, options),
        "network": lambda: rows.network(run_forged(results, say, options.amount(FORGED_IN_NETWORK))),
        "hostile-job": lambda: rows.hostile_job(run_beside(results, say, QUICK_STEPS if options.quick else STEPS)),
        "programs": partial(_programs, options),
        "p4runtime": partial(_p4runtime, results, options),
        "tls": _tls,
        "schedules": partial(_schedules, results, options),
        "models": partial(_models, results),
        "keyed": partial(_keyed, say, options),
        "blind": _blind,
    }
    experiments: dict[str, Experiment] = {}
    for row in options.rows:
        if row == "attacks":
            experiments |= {
                f"attack {number}": partial(_attack, number, what) for number, what in enumerate(rows.ATTACKS, 1)
            }
        else:
            experiments[row] = made[row]
    return Plan("trust", experiments)


def _attack(number: int, what: str) -> list[Check]:
    return [rows.attack(number, what, run_tests(rows.ATTACKS[what]))]


def _forged(options: TrustOptions) -> list[Check]:
    """Each of the two attackers sends half of them."""
    count = options.amount(FORGED)
    label = f"{count} forged frames of 10 kinds x every header field, in process"
    return [rows.tests(label, NO_EFFECT, run_tests([_FORGED_TESTS], {"SUMWIRE_FORGED": str(count // 2)}))]


def _programs(options: TrustOptions) -> list[Check]:
    count = options.amount(PROGRAMS)
    words = ["softswitch.fuzz.programs", *_fuzzed_programs(), "--mutations", str(count)]
    target = "0 escapes, 0 crashes, each loaded or refused with its place"
    return [rows.command(f"{count} hostile programs, both engines", target, run_module(words))]


def _fuzzed_programs() -> list[str]:
    """As `make fuzz-programs` takes them."""
    small = (ROOT / "tests" / "helpers").glob("*/programs/*.json")
    return [_JSON, *sorted(str(path.relative_to(ROOT)) for path in small if path.name != "sources.json")]


def _p4runtime(results: Path, options: TrustOptions) -> list[Check]:
    """As `make fuzz-p4runtime` does it; bmv2 does some things otherwise, which its own command lists."""
    count, file = options.amount(P4RUNTIME_WRITES), results / "fuzz-p4runtime.json"
    file.unlink(missing_ok=True)
    words = ["softswitch.fuzz.p4runtime", f"{_P4RUNTIME}.p4info.txtpb", f"{_P4RUNTIME}.json", "--writes", str(count)]
    ended = run_module([*words, "--siege", "--json", str(file)])
    if not file.exists():
        raise LabError(f"the fuzzer ended with {ended.status}: {ended.last_line}")
    record = json.loads(file.read_text())
    return [rows.fuzzed(count, record), *rows.siege(record.get("siege"))]


def _tls() -> list[Check]:
    label = "mutual TLS: controller to soft switch and bmv2; wrong certificate, none, expired"
    return [rows.tests(label, "works; refused with the reason", run_tests([_DOORS]))]


def _schedules(results: Path, options: TrustOptions) -> list[Check]:
    count, file = options.amount(SCHEDULES), results / "simulate.json"
    file.unlink(missing_ok=True)
    ended = run_module(["simulate", "--seeds", str(count), "--keep-going", "--quiet", "--json", str(file)])
    if not file.exists():
        raise LabError(f"the simulator ended with {ended.status}: {ended.last_line}")
    return [*rows.schedules(json.loads(file.read_text()), count), _mutations(options)]


def _mutations(options: TrustOptions) -> Check:
    """Each rule of the protocol broken in turn: a schedule must show it."""
    names = run_words([sys.executable, "-c", _NAMES]).last_line.split()
    seeds = str(options.amount(MUTATION_SEEDS))
    words = ["simulate", "--seeds", seeds, "--quiet", "--mutation"]
    found = [name for name in names if run_module([*words, name]).status == 1]
    return rows.mutations(names, found)


def _models(results: Path) -> list[Check]:
    words = ["sumwire_lab", "models", "--only", "", "--json", str(results / "models.json")]
    target = "0 errors; every removed rule a counterexample"
    return [rows.command("Spin models, exhaustive", target, run_module(words))]


def _keyed(say: Say, options: TrustOptions) -> list[Check]:
    tested = rows.tests("authentication tags on every kind of switch, and jobs", NO_EFFECT, run_tests(rows.KEYED))
    return [*rows.keyed(run_keyed(say, options.amount(FORGED))), tested]


def _blind() -> list[Check]:
    target = "bit-equal; refused where a job cannot be blind"
    tested = rows.tests("blind aggregation over switches, trees and the aggregator", target, run_tests(rows.BLIND))
    return [*blind(run_blind()), tested]
