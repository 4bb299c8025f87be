# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-trust`: attacks, hostile files and neighbours, schedules and models. Who tried what, and what must
have come of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from nativelib import programs

from sumwire_lab.errors import LabError
from sumwire_lab.experiments.authentication import run_keyed
from sumwire_lab.experiments.hostile_hosts import run_beside, run_forged
from sumwire_lab.experiments.secure_aggregation import run_blind
from sumwire_lab.options.trust_options import TrustOptions
from sumwire_lab.study.check import Check, at_least, at_most, equal, holds, reported
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Experiment, Plan
from sumwire_lab.verify.processes import ROOT, Ended, Outcomes, run_module, run_tests, run_words


def blind_checks(record: Mapping[str, Any]) -> list[Check]:
    """Of every codec: bits, noise for the switch, that the tests of noise can fail, and the price."""
    checks = []
    for codec, found in record["codecs"].items():
        label = f"blind {codec}, {record['workers']} workers"
        chi, correlation, most = found["chi_square"], found["correlation"], found["correlation_most"]
        cpu = found["cpu_s_per_million"]
        known = chi["open"] > record["chi_square_most"] and correlation["open"] > most
        checks += [
            equal(f"{label}: means have the bits of the open job's", found["bits_equal"], True),
            at_most(
                f"{label}: chi-square of one worker's bytes at the switch", chi["blind"], record["chi_square_most"]
            ),
            at_most(f"{label}: correlation of these with its gradient", correlation["blind"], most),
            holds(f"{label}: the same of the open job", [chi["open"], correlation["open"]], "both beyond", known),
            reported(f"{label}: processor time of a rank, against the open job's", cpu["blind"] / cpu["open"]),
        ]
    return checks


REFUSED: Final = "refused, counted, nothing split, nobody stopped"
STEP_RATIO_MAX: Final = 1.3
# Less would be no line rate. Python and the queue at the link take the rest.
LINK_SHARE_MIN: Final = 0.8
SCHEDULES_PER_S_MIN: Final = 30.0
MUTATIONS_MIN: Final = 20
ANSWER_S_MAX: Final = 1.0
GROWN_MIB_MAX: Final = 50.0
KEYED_RATIO_MAX: Final = 1.5
_SWITCH: Final = "tests/integration/softswitch"

KEYED: Final = (
    "tests/packet/test_authentication.py",
    "tests/integration/host/transport/test_keyed.py",
    "tests/integration/host/job/test_keyed_job.py",
)
BLIND: Final = ("tests/integration/host/job/test_blind.py", "tests/unit/host/blind")

# Each attack, and the tests that carry it out: paths of pytest.
ATTACKS: Final[Mapping[str, Sequence[str]]] = {
    "P4Runtime from another user; text of a P4 JSON in generated code; a program with root's rights": (
        f"{_SWITCH}/p4runtime/test_doors.py",
        f"{_SWITCH}/test_user.py",
        "tests/unit/softswitch/program/test_hostile.py",
        "tests/unit/softswitch/program/test_fuzz_programs.py",
    ),
    "frames with the aggregator's address from a host of another job": (
        "tests/packet/test_guard.py",
        "tests/packet/test_forged.py::test_from_a_neighbour_s_port",
    ),
    "a user without rights on a worker's host: contributions, far rounds, an earlier run's packets, made-up ICMP": (
        "tests/packet/test_forged.py::test_from_a_worker_s_host_without_rights",
        "tests/packet/test_guard.py::test_another_program_on_a_workers_host_counts_for_nothing",
        "tests/integration/host/transport/test_icmp.py",
    ),
    "a Read of 402 bytes, 30 of them, and idle streams": (
        f"{_SWITCH}/p4runtime/test_crowds.py",
        "tests/integration/controller/deploy/test_under_attack.py",
    ),
    "a counter of 2^32 + 8 cells, and cell 2^31": (
        "tests/unit/softswitch/program/test_hostile.py",
        f"{_SWITCH}/native/test_memory_bounds.py",
    ),
    "a compile cache that others may write, with a planted library": ("tests/integration/nativelib/test_trusted.py",),
    "modules and programs planted in the working directory, a script's folder, PATH and CC": (
        "tests/integration/host/start/test_planted.py",
        "tests/unit/test_children.py",
    ),
    "questions to the recovery port from any address": ("tests/integration/host/transport/test_recovery.py",),
    "YAML and JSON bombs, long numbers, NULs; flags kept for lower switches": (
        "tests/unit/controller/parse/test_hostile_yaml.py",
        "tests/unit/host/config/test_hostile_job_file.py",
        "tests/unit/protocol/test_outside.py",
        "tests/packet/test_guard.py",
    ),
}


def attack_check(number: int, what: str, outcomes: Mapping[str, str]) -> Check:
    """One of the attacks. `outcomes`: of its tests; a test that this machine skips shows nothing."""
    return tests_check(f"attack {number}, {what}", REFUSED, outcomes)


def tests_check(label: str, target: str, outcomes: Mapping[str, str]) -> Check:
    """A row that tests show: all of them passed, and at least one ran. Of those that failed it says why."""
    counted = Counter(outcomes.values())
    said = outcomes.said if isinstance(outcomes, Outcomes) else {}
    bad = [": ".join(filter(None, (name, said.get(name)))) for name, one in outcomes.items() if one == "failed"]
    return holds(label, dict(counted), target, bool(counted["passed"]) and not bad, "; ".join(bad[:3]))


def command_check(label: str, target: str, ended: Ended) -> Check:
    """A row that a command shows by its exit status."""
    return holds(label, ended.last_line, target, ended.status == 0)


def network_checks(record: Mapping[str, Any]) -> list[Check]:
    """Runs between real hosts while others forge. `record`: what `experiments.trust` returns."""
    label = f"{record['forged']} forged frames from a neighbour, a user without rights and an earlier run, on veth"
    return [
        at_least(f"{label}: frames sent", record["forged"], record["wanted"]),
        equal(f"{label}: wrong sums", record["wrong"], 0),
        equal(f"{label}: workers whose run was ended", record["ended"], 0),
    ]


def hostile_job_checks(record: Mapping[str, float]) -> list[Check]:
    """A job that sends as fast as its link bears. `record`: seconds of a step of the good job."""
    ratio = record["beside_s"] / record["alone_s"]
    label = "hostile job at line rate beside a good one"
    return [
        at_most(f"{label}: step time of the good one, with / without", ratio, STEP_RATIO_MAX),
        at_least(f"{label}: share of its link that the hostile host used", record["link_share"], LINK_SHARE_MIN),
    ]


def fuzzed_check(count: int, record: Mapping[str, Any]) -> Check:
    """`record`: what `fuzz.p4runtime` writes."""
    label = f"P4Runtime: {count} fuzzed updates of 4 clients, and reads"
    value = {name: record.get(name) for name in ("updates", "reads", "deviations", "crashes")}
    found = record["finding"]
    return holds(label, value, "state equals the oracle", found is None, found or "")


def siege_checks(record: Mapping[str, Any] | None) -> list[Check]:
    """Callers while a crowd holds 1,000 streams or asks 30 times for all that 402 bytes can ask for. `record`: what
    `fuzz.p4runtime --siege` writes; None if it did not come so far."""
    answers = {} if record is None else record["answers_s"]
    slowest = max((seconds for crowd, seconds in answers.items() if crowd != "nothing"), default=None)
    grown = None if record is None else record["grown_mib"]
    return [
        at_most("P4Runtime, besieged: slowest answer to other callers, s", slowest, ANSWER_S_MAX),
        at_most("P4Runtime, besieged: memory grown by, MiB", grown, GROWN_MIB_MAX),
    ]


def schedule_checks(record: Mapping[str, Any], wanted: int) -> list[Check]:
    """`record`: what `simulate --json` writes."""
    return [
        at_least("simulated schedules", record["seeds"], wanted),
        equal("simulated schedules: violations", len(record["violations"]), 0),
        at_least("simulated schedules a second", record["seeds"] / record["seconds"], SCHEDULES_PER_S_MIN),
    ]


def mutation_check(names: Sequence[str], found: Sequence[str]) -> Check:
    """Broken rules of the protocol, and those that a schedule showed."""
    missed = [name for name in names if name not in found]
    target = f"all, and at least {MUTATIONS_MIN}"
    label = "simulated schedules: broken rules of the protocol that they find"
    return holds(label, len(found), target, len(found) >= MUTATIONS_MIN and not missed, ", ".join(missed))


def keyed_checks(record: Mapping[str, Any]) -> list[Check]:
    """Authentication tags: what they cost, and what gets through. See `sumwire_lab.experiments.authentication`."""
    switch, host = (record[f"{where}_us"] for where in ("switch", "host"))
    label = f"authentication tags: of {record['forged']} packets with flipped bits or drawn tags, taken by"
    return [
        at_most(
            "authentication tags: CPU of a packet, native switch", switch["keyed"] / switch["plain"], KEYED_RATIO_MAX
        ),
        at_most("authentication tags: CPU of a packet, worker", host["keyed"] / host["plain"], KEYED_RATIO_MAX),
        equal(f"{label} the switch", record["switch_taken"], 0),
        equal(f"{label} a worker", record["host_taken"], 0),
    ]


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
        "network": lambda: network_checks(run_forged(results, say, options.amount(FORGED_IN_NETWORK))),
        "hostile-job": lambda: hostile_job_checks(run_beside(results, say, QUICK_STEPS if options.quick else STEPS)),
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
                f"attack {number}": partial(_attack, number, what) for number, what in enumerate(ATTACKS, 1)
            }
        else:
            experiments[row] = made[row]
    return Plan("trust", experiments)


def _attack(number: int, what: str) -> list[Check]:
    return [attack_check(number, what, run_tests(ATTACKS[what]))]


def _forged(options: TrustOptions) -> list[Check]:
    """Each of the two attackers sends half of them."""
    count = options.amount(FORGED)
    label = f"{count} forged frames of 10 kinds x every header field, in process"
    return [tests_check(label, NO_EFFECT, run_tests([_FORGED_TESTS], {"SUMWIRE_FORGED": str(count // 2)}))]


def _programs(options: TrustOptions) -> list[Check]:
    count = options.amount(PROGRAMS)
    words = ["softswitch.fuzz.programs", *_fuzzed_programs(), "--mutations", str(count)]
    target = "0 escapes, 0 crashes, each loaded or refused with its place"
    return [command_check(f"{count} hostile programs, both engines", target, run_module(words))]


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
    return [fuzzed_check(count, record), *siege_checks(record.get("siege"))]


def _tls() -> list[Check]:
    label = "mutual TLS: controller to soft switch and bmv2; wrong certificate, none, expired"
    return [tests_check(label, "works; refused with the reason", run_tests([_DOORS]))]


def _schedules(results: Path, options: TrustOptions) -> list[Check]:
    count, file = options.amount(SCHEDULES), results / "simulate.json"
    file.unlink(missing_ok=True)
    ended = run_module(["simulate", "--seeds", str(count), "--keep-going", "--quiet", "--json", str(file)])
    if not file.exists():
        raise LabError(f"the simulator ended with {ended.status}: {ended.last_line}")
    return [*schedule_checks(json.loads(file.read_text()), count), _mutations(options)]


def _mutations(options: TrustOptions) -> Check:
    """Each rule of the protocol broken in turn: a schedule must show it."""
    names = run_words(programs.python("-c", _NAMES)).last_line.split()
    seeds = str(options.amount(MUTATION_SEEDS))
    words = ["simulate", "--seeds", seeds, "--quiet", "--mutation"]
    found = [name for name in names if run_module([*words, name]).status == 1]
    return mutation_check(names, found)


def _models(results: Path) -> list[Check]:
    words = ["sumwire_lab", "models", "--only", "", "--json", str(results / "models.json")]
    target = "0 errors; every removed rule a counterexample"
    return [command_check("Spin models, exhaustive", target, run_module(words))]


def _keyed(say: Say, options: TrustOptions) -> list[Check]:
    tested = tests_check("authentication tags on every kind of switch, and jobs", NO_EFFECT, run_tests(KEYED))
    return [*keyed_checks(run_keyed(say, options.amount(FORGED))), tested]


def _blind() -> list[Check]:
    target = "bit-equal; refused where a job cannot be blind"
    tested = tests_check("blind aggregation over switches, trees and the aggregator", target, run_tests(BLIND))
    return [*blind_checks(run_blind()), tested]
