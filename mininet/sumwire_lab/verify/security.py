# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-trust`: attacks, hostile files and neighbours, schedules and models, and the required outcome of
each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from nativelib import programs

from sumwire_lab.experiments import crowds
from sumwire_lab.experiments.authentication import run_keyed
from sumwire_lab.experiments.hostile_hosts import run_beside, run_forged
from sumwire_lab.experiments.secure_aggregation import run_blind
from sumwire_lab.study.check import Check, at_least, at_most, equal, holds, reported
from sumwire_lab.verify.plan import (
    Experiment,
    Experiments,
    Verification,
    command_check,
    fuzzed_programs,
    recorded,
    run_module,
    run_tests,
    run_words,
    shown_by,
    simulated,
    tests_check,
)


def blind_checks(record: Mapping[str, Any]) -> list[Check]:
    """Check each codec of blind jobs: equal bits, noise for the switch, tests of noise that can fail, and the cost."""
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


def listener_checks(sieges: Sequence[crowds.Siege]) -> list[Check]:
    """Check honest callers beside crowds. The server without a guard must serve none of them, because otherwise the
    crowd was too small."""
    checks = []
    for one in sieges:
        guarded = one.listener != crowds.UNGUARDED
        label = f"{one.listener}, {crowds.AMOUNTS[one.crowd]} {crowds.WORDS[one.crowd]}: slowest honest answer, s"
        value = {"s": round(one.slowest_s, 3), "crowd's connects/s": round(one.per_second)}
        target = f"{'<=' if guarded else '>'} {ANSWER_S_MAX:g} s"
        checks.append(holds(label, value, target, (one.slowest_s <= ANSWER_S_MAX) == guarded))
    return checks


REFUSED: Final = "refused, counted, nothing split, nobody stopped"
STEP_RATIO_MAX: Final = 1.3
# Less would be no line rate. Python and the queue at the link take the rest.
LINK_SHARE_MIN: Final = 0.8
SCHEDULES_PER_S_MIN: Final = 30.0
FLOW_P_MIN: Final = 1e-4
FLOW_R_MAX: Final = 0.01
MUTATIONS_MIN: Final = 20
BRANCHES_MIN: Final = 0.9
ANSWER_S_MAX: Final = 1.0
GROWN_MIB_MAX: Final = 50.0
KEYED_RATIO_MAX: Final = 1.5
_SWITCH: Final = "tests/integration/softswitch"

KEYED: Final = (
    "tests/packet/test_authentication.py",
    "tests/integration/host/transport/test_transport.py",
    "tests/integration/host/job/test_keyed_job.py",
)
BLIND: Final = ("tests/integration/host/job/test_blind.py", "tests/unit/host/blind")

# Each attack, and the tests that carry it out: paths of pytest.
ATTACKS: Final[Mapping[str, Sequence[str]]] = {
    "P4Runtime from another user; text of a P4 JSON in generated code; a program with root's rights": (
        f"{_SWITCH}/p4runtime/test_doors.py",
        f"{_SWITCH}/test_ports.py",
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
    "a switch that watches a blind job in which a norm jumps, or changes norms or sums": (
        "tests/integration/host/job/test_blind.py::test_a_norm_that_jumps_is_not_seen",
        "tests/integration/host/job/test_blind.py::test_a_switch_that_changes_something_is_noticed",
    ),
    "files planted by another user: working directory, script's folder, cache, tmp, HOME, PATH, PYTHONPATH, CC, LD_*, "
    "ssh config, tuning table, checkpoint": (
        "tests/integration/host/start/test_planted.py",
        "tests/unit/test_children.py",
    ),
    "questions to the recovery port from any address": ("tests/integration/host/transport/test_recovery.py",),
    "YAML and JSON bombs, long numbers, NULs; flags kept for lower switches": (
        "tests/unit/controller/parse/test_hostile_yaml.py",
        "tests/unit/host/config/test_hostile_job_file.py",
        "tests/unit/commonlib/test_untrusted.py",
        "tests/packet/test_guard.py",
    ),
}


def network_checks(record: Mapping[str, Any]) -> list[Check]:
    """Check runs between real hosts while others forge packets. `record`: the result of `experiments.trust`."""
    label = f"{record['forged']} forged frames from a neighbour, a user without rights and an earlier run, on veth"
    return [
        at_least(f"{label}: frames sent", record["forged"], record["wanted"]),
        equal(f"{label}: wrong sums", record["wrong"], 0),
        equal(f"{label}: workers whose run was ended", record["ended"], 0),
    ]


def hostile_job_checks(record: Mapping[str, float]) -> list[Check]:
    """Check a job whose host sends at the full rate of its link. `record`: seconds of a step of the honest job."""
    ratio = record["beside_s"] / record["alone_s"]
    label = "hostile job at line rate beside a good one"
    return [
        at_most(f"{label}: step time of the good one, with / without", ratio, STEP_RATIO_MAX),
        at_least(f"{label}: share of its link that the hostile host used", record["link_share"], LINK_SHARE_MIN),
    ]


def fuzzed_check(count: int, record: Mapping[str, Any]) -> Check:
    """Check a fuzz run. `record`: what `fuzz.p4runtime` writes."""
    label = f"P4Runtime: {count} fuzzed updates of 4 clients, and reads"
    value = {name: record.get(name) for name in ("updates", "reads", "deviations", "crashes")}
    found = record["finding"]
    return holds(label, value, "state equals the oracle", found is None, found or "")


def load_test_checks(record: Mapping[str, Any] | None) -> list[Check]:
    """Check callers while a crowd holds 1,000 streams, or asks 30 times for the most that 402 bytes can ask for.
    `record`: written by `fuzz.p4runtime --load-test`; None if it ended before."""
    answers = {} if record is None else record["answers_s"]
    slowest = max((seconds for crowd, seconds in answers.items() if crowd != "nothing"), default=None)
    grown = None if record is None else record["grown_mib"]
    return [
        at_most("P4Runtime, besieged: slowest answer to other callers, s", slowest, ANSWER_S_MAX),
        at_most("P4Runtime, besieged: memory grown by, MiB", grown, GROWN_MIB_MAX),
    ]


def schedule_checks(record: Mapping[str, Any], wanted: int) -> list[Check]:
    """Check the schedules. `record`: what `simulate --json` writes."""
    return [
        *mode_checks(record, wanted, "simulated schedules"),
        at_least("simulated schedules a second", record["seeds"] / record["seconds"], SCHEDULES_PER_S_MIN),
    ]


def mode_checks(record: Mapping[str, Any], wanted: int, label: str) -> list[Check]:
    """Schedules of one kind. `record`: what `simulate --json` writes."""
    violations = equal(f"{label}: violations", len(record["violations"]), 0)
    return [at_least(label, record["seeds"], wanted), violations]


def flow_checks(record: Mapping[str, Any], wanted: int, switch: str) -> list[Check]:
    """Check blind jobs, each in two worlds with the same sums. `record`: written by `simulate --flow --json`."""
    least = min(record["p_values"].values())
    label = f"blind jobs in two worlds, {switch} switch"
    return [
        at_least(f"{label}: schedules", record["seeds"], wanted),
        equal(f"{label}: told apart by shape, sums or masks", len(record["violations"]), 0),
        at_least(f"{label}: least p of a distribution", least, FLOW_P_MIN),
        at_most(f"{label}: correlation of payloads with what they hide", abs(record["correlation"]), FLOW_R_MAX),
    ]


def byzantine_check(record: Mapping[str, Any], wanted: int) -> Check:
    """Check jobs with a key behind switches that behave arbitrarily."""
    wrong = len(record["violations"])
    label = "jobs with a key, Byzantine switches on the way: runs with a wrong sum, or without an end"
    return holds(label, wrong, f"0 of {wanted}", wrong == 0 and record["seeds"] >= wanted)


def mutation_check(names: Sequence[str], found: Sequence[str]) -> Check:
    """Check broken rules of the protocol: how many of them a schedule exposed."""
    missed = [name for name in names if name not in found]
    target = f"all, and at least {MUTATIONS_MIN}"
    label = "simulated schedules: broken rules of the protocol that they find"
    return holds(label, len(found), target, len(found) >= MUTATIONS_MIN and not missed, ", ".join(missed))


def keyed_checks(record: Mapping[str, Any]) -> list[Check]:
    """Check authentication tags: their cost, and how many forged packets pass. See
    `sumwire_lab.experiments.authentication`."""
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


def fuzzers_checks(record: Mapping[str, Any], seconds: int) -> list[Check]:
    """`record`: what `fuzz.libfuzzer` writes of each target."""
    checks = []
    for name, found in record.items():
        label = f"libFuzzer, C of the {name}, {seconds} s of a core"
        value, why = {"inputs": found["executions"]}, found["finding"]
        checks.append(
            holds(f"{label}: findings", value, "0 in at least 1 input", bool(found["executions"]) and not why, why)
        )
        parts = {file: covered["taken"] / covered["branches"] for file, covered in found["coverage"].items()}
        least = min(parts.values(), default=None)
        checks.append(at_least(f"{label}: branches taken, least of {len(parts)} files", least, BRANCHES_MIN))
    return checks


def races_checks(record: Mapping[str, Any]) -> list[Check]:
    """`record`: what `fuzz.races` writes."""
    planted, label = record["planted"], "threaded tests under ThreadSanitizer"
    missed = [name for name, found in planted.items() if not found]
    tested = {"passed": record["passed"], "failed": record["failed"]}
    return [
        holds(f"{label}", tested, "all passed", bool(record["passed"]) and not record["failed"]),
        holds(f"{label}: races", len(record["races"]), "0", not record["races"], "; ".join(record["races"][:3])),
        holds(f"{label}: planted races that they find", len(planted) - len(missed), f"all {len(planted)}",
              bool(planted) and not missed, ", ".join(missed)),
    ]  # fmt: skip


FORGED: Final = 1_000_000
PROGRAMS: Final = 10_000
P4RUNTIME_WRITES: Final = 20_000
SCHEDULES: Final = 200_000
# Flags of `make simulate`, and what share of the schedules has them. The rest has none.
MODES: Final[Mapping[tuple[str, ...], float]] = {
    ("--keys",): 0.1,
    ("--keys", "--restarts"): 0.1,
    ("--blind",): 0.05,
    ("--lanes",): 0.1,
    ("--keys", "--lanes"): 0.05,
    ("--queues",): 0.05,
    ("--queues", "--lanes"): 0.05,
    ("--aggregators",): 0.05,
    ("--keys", "--aggregators"): 0.1,
    ("--fast",): 0.05,
}
PREEMPTED: Final = 5_000
MUTATION_SEEDS: Final = 10_000
FLOW_SEEDS: Final = 10_000
_NAMES: Final = "from simulate.mutations import MUTATIONS; print(*sorted(MUTATIONS))"
FORGED_IN_NETWORK: Final = 100_000
# Of each target of libFuzzer.
FUZZED_S: Final = 1800
# Of each of the runs of the good job.
STEPS: Final = 200
QUICK_STEPS: Final = 20
NO_EFFECT: Final = "0 effects on sums, 0 runs ended"
_FORGED_TESTS: Final = "tests/packet/test_forged.py"
_DOORS: Final = "tests/integration/controller/deploy/test_doors.py"
_P4RUNTIME: Final = "tests/helpers/p4runtime/programs/tables"


def _forged(v: Verification) -> list[Check]:
    """Each of the two attackers sends half of them."""
    count = v.options.amount(FORGED)
    label = f"{count} forged frames of 10 kinds x every header field, in process"
    return [tests_check(label, NO_EFFECT, run_tests([_FORGED_TESTS], {"SUMWIRE_FORGED": str(count // 2)}))]


def _programs(v: Verification) -> list[Check]:
    count = v.options.amount(PROGRAMS)
    target = "0 escapes, 0 crashes, each loaded or refused with its place"
    return [command_check(f"{count} hostile programs, both engines", target, fuzzed_programs(count))]


def _p4runtime(v: Verification) -> list[Check]:
    """Fuzz the soft switch as `make fuzz-p4runtime` does. bmv2 differs in ways that its own command lists."""
    count = v.options.amount(P4RUNTIME_WRITES)
    words = ["fuzz.p4runtime", f"{_P4RUNTIME}.p4info.txtpb", f"{_P4RUNTIME}.json", "--writes", str(count)]
    record = recorded([*words, "--load-test"], v.results / "fuzz-p4runtime.json")
    return [fuzzed_check(count, record), *load_test_checks(record.get("load_test"))]


def _schedules(v: Verification) -> list[Check]:
    """Schedules, and each rule of the protocol broken in turn, which some schedule must expose."""
    seeds = v.options.amount(FLOW_SEEDS)
    checks = [*_modes(v), *_preempted(v)]
    for switch, flags in (("honest", ("--flow",)), ("Byzantine", ("--flow", "--byzantine"))):
        checks += flow_checks(simulated(v.results, seeds, *flags), seeds, switch)
    checks.append(byzantine_check(simulated(v.results, seeds, "--keys", "--byzantine"), seeds))
    names = run_words(programs.python("-c", _NAMES)).last_line.split()
    words = ["simulate", "--seeds", str(v.options.amount(MUTATION_SEEDS)), "--quiet", "--mutation"]
    found = [name for name in names if run_module([*words, name]).status == 1]
    return [*checks, mutation_check(names, found)]


def _fuzzers(v: Verification) -> list[Check]:
    seconds = v.options.amount(FUZZED_S)
    words = ["fuzz.libfuzzer", "--seconds", str(seconds), "--folder", str(v.results / "fuzz-c")]
    return fuzzers_checks(recorded(words, v.results / "fuzz-c.json"), seconds)


def _modes(v: Verification) -> list[Check]:
    """Schedules without flags, and those of each kind."""
    plain = v.options.amount(round(SCHEDULES * (1 - sum(MODES.values()))))
    checks = schedule_checks(simulated(v.results, plain), plain)
    for flags, share in MODES.items():
        count = v.options.amount(round(SCHEDULES * share))
        checks += mode_checks(simulated(v.results, count, *flags), count, f"simulated schedules, {' '.join(flags)}")
    return checks


def _preempted(v: Verification) -> list[Check]:
    """Threads that change places at any line, not only where they sleep; half of them of lanes."""
    count = v.options.amount(PREEMPTED // 2)
    checks = []
    for flags in (("--preempt",), ("--preempt", "--lanes")):
        label = f"preemptive scheduler, {' '.join(flags)}"
        checks += mode_checks(simulated(v.results, count, *flags), count, label)
    return checks


def _models(v: Verification) -> list[Check]:
    words = ["sumwire_lab", "models", "--only", "", "--json", str(v.results / "models.json")]
    target = "0 errors; every removed rule a counterexample"
    return [command_check("Spin models, exhaustive", target, run_module(words))]


def _keyed(v: Verification) -> list[Check]:
    tested = tests_check("authentication tags on every kind of switch, and jobs", NO_EFFECT, run_tests(KEYED))
    return [*keyed_checks(run_keyed(v.say, v.options.amount(FORGED))), tested]


def _blind(_: Verification) -> list[Check]:
    target = "bit-equal; refused where a job cannot be blind"
    tested = tests_check("blind aggregation over switches, trees and the aggregator", target, run_tests(BLIND))
    return [*blind_checks(run_blind()), tested]


EXPERIMENTS: Final[Mapping[str, Experiment | Experiments]] = {
    "attacks": {
        f"attack {number}": shown_by(f"attack {number}, {what}", REFUSED, *paths)
        for number, (what, paths) in enumerate(ATTACKS.items(), 1)
    },
    "forged": _forged,
    "network": lambda v: network_checks(run_forged(v.results, v.say, v.options.amount(FORGED_IN_NETWORK))),
    "hostile-job": lambda v: hostile_job_checks(run_beside(v.results, v.say, QUICK_STEPS if v.quick else STEPS)),
    "programs": _programs,
    "p4runtime": _p4runtime,
    "tls": shown_by(
        "mutual TLS: controller to soft switch and bmv2; wrong certificate, none, expired",
        "works; refused with the reason",
        _DOORS,
    ),
    "schedules": _schedules,
    "fuzzers": _fuzzers,
    "races": lambda v: races_checks(recorded(["fuzz.races"], v.results / "races.json")),
    "models": _models,
    "keyed": _keyed,
    "blind": _blind,
    "listeners": lambda v: listener_checks(crowds.besieged()),
}
"""Experiments by row of the command line."""
