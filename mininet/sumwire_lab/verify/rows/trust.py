# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of `make verify-trust`: who tried what, and what must have come of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sumwire_lab.study.check import Check, at_least, at_most, equal, holds
from sumwire_lab.verify.processes import Ended, Outcomes

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
    "questions to the recovery port from any address": ("tests/integration/host/transport/test_recovery.py",),
    "YAML and JSON bombs, long numbers, NULs; flags kept for lower switches": (
        "tests/unit/controller/parse/test_hostile_yaml.py",
        "tests/unit/host/config/test_hostile_job_file.py",
        "tests/unit/protocol/test_outside.py",
        "tests/packet/test_guard.py",
    ),
}


def attack(number: int, what: str, outcomes: Mapping[str, str]) -> Check:
    """One of the attacks. `outcomes`: of its tests; a test that this machine skips shows nothing."""
    return tests(f"attack {number}, {what}", REFUSED, outcomes)


def tests(label: str, target: str, outcomes: Mapping[str, str]) -> Check:
    """A row that tests show: all of them passed, and at least one ran. Of those that failed it says why."""
    counted = Counter(outcomes.values())
    said = outcomes.said if isinstance(outcomes, Outcomes) else {}
    bad = [": ".join(filter(None, (name, said.get(name)))) for name, one in outcomes.items() if one == "failed"]
    return holds(label, dict(counted), target, bool(counted["passed"]) and not bad, "; ".join(bad[:3]))


def command(label: str, target: str, ended: Ended) -> Check:
    """A row that a command shows by its exit status."""
    return holds(label, ended.last_line, target, ended.status == 0)


def network(record: Mapping[str, Any]) -> list[Check]:
    """Runs between real hosts while others forge. `record`: what `experiments.trust` returns."""
    label = f"{record['forged']} forged frames from a neighbour, a user without rights and an earlier run, on veth"
    return [
        at_least(f"{label}: frames sent", record["forged"], record["wanted"]),
        equal(f"{label}: wrong sums", record["wrong"], 0),
        equal(f"{label}: workers whose run was ended", record["ended"], 0),
    ]


def hostile_job(record: Mapping[str, float]) -> list[Check]:
    """A job that sends as fast as its link bears. `record`: seconds of a step of the good job."""
    ratio = record["beside_s"] / record["alone_s"]
    label = "hostile job at line rate beside a good one"
    return [
        at_most(f"{label}: step time of the good one, with / without", ratio, STEP_RATIO_MAX),
        at_least(f"{label}: share of its link that the hostile host used", record["link_share"], LINK_SHARE_MIN),
    ]


def fuzzed(count: int, record: Mapping[str, Any]) -> Check:
    """`record`: what `fuzz.p4runtime` writes."""
    label = f"P4Runtime: {count} fuzzed updates of 4 clients, and reads"
    value = {name: record.get(name) for name in ("updates", "reads", "deviations", "crashes")}
    found = record["finding"]
    return holds(label, value, "state equals the oracle", found is None, found or "")


def siege(record: Mapping[str, Any] | None) -> list[Check]:
    """Callers while a crowd holds 1,000 streams or asks 30 times for all that 402 bytes can ask for. `record`: what
    `fuzz.p4runtime --siege` writes; None if it did not come so far."""
    answers = {} if record is None else record["answers_s"]
    slowest = max((seconds for crowd, seconds in answers.items() if crowd != "nothing"), default=None)
    grown = None if record is None else record["grown_mib"]
    return [
        at_most("P4Runtime, besieged: slowest answer to other callers, s", slowest, ANSWER_S_MAX),
        at_most("P4Runtime, besieged: memory grown by, MiB", grown, GROWN_MIB_MAX),
    ]


def schedules(record: Mapping[str, Any], wanted: int) -> list[Check]:
    """`record`: what `simulate --json` writes."""
    return [
        at_least("simulated schedules", record["seeds"], wanted),
        equal("simulated schedules: violations", len(record["violations"]), 0),
        at_least("simulated schedules a second", record["seeds"] / record["seconds"], SCHEDULES_PER_S_MIN),
    ]


def mutations(names: Sequence[str], found: Sequence[str]) -> Check:
    """Broken rules of the protocol, and those that a schedule showed."""
    missed = [name for name in names if name not in found]
    target = f"all, and at least {MUTATIONS_MIN}"
    label = "simulated schedules: broken rules of the protocol that they find"
    return holds(label, len(found), target, len(found) >= MUTATIONS_MIN and not missed, ", ".join(missed))


def keyed(record: Mapping[str, Any]) -> list[Check]:
    """Authentication tags: what they cost, and what gets through. See `sumwire_lab.experiments.keyed_run`."""
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
