# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rows `outside` of `make verify-faithful`: the soft switch where others use it: in the exercises of
p4lang/tutorials, in place of bmv2, from its own distribution, and under a program that includes the library of P4."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from statistics import median
from typing import Final

from softswitch.runtime.engine import Packet
from softswitch.switch import SoftSwitch

from sumwire_lab.errors import LabError
from sumwire_lab.study.check import Check, absent, equal, reported
from sumwire_lab.verify.plan import ROOT, Experiments, Verification, run_module, run_tests, shown_by, tests_check

CHECKOUT: Final = "TUTORIALS"  # the variable that names the folder of the checkout
_PACKAGES: Final = "tests/system/test_packages.py"
_TUTORIALS: Final = "tests/system/test_tutorials.py"
_EXAMPLE: Final = ROOT / "examples/p4/sum.json"
_PACKETS: Final = 4000
_REPEATS: Final = 5


def _tutorials(v: Verification) -> list[Check]:
    label, target = "exercises of p4lang/tutorials, with their own harness and controllers, that fail", "none"
    checkout = os.environ.get(CHECKOUT)
    if not checkout:
        why = f"no checkout of p4lang/tutorials: name its folder, {CHECKOUT}=FOLDER make verify-faithful"
        return [absent(label, target, why)]
    work = str(v.results.resolve() / "exercises")
    ended = run_module(
        ["fuzz.samples.exercises", str(Path(checkout).resolve()), "--work", work, *(["--only", "calc"] * v.quick)]
    )
    if ended.status:
        raise LabError(f"the exercises ended with {ended.status}: {ended.last_line}")
    found: dict[str, str] = json.loads(ended.last_line)
    if "absent" in found:
        return [absent(label, target, found["absent"])]
    return [equal(f"{label}, of {len(found)}", {name: how for name, how in found.items() if how != "ok"}, {}, target)]


def _installed(_: Verification) -> list[Check]:
    packages = [f"{_PACKAGES}::{name}" for name in ("test_the_soft_switch_alone", "test_a_ptf_test_as_the_page_has_it")]
    tutorial = [f"{_TUTORIALS}::{name}" for name in ("test_a_p4_program", "test_the_p4_program_on_bmv2")]
    return [
        tests_check(
            "the soft switch from its own wheel, in an empty environment; a PTF test", "run", run_tests(packages)
        ),
        tests_check("the tutorial from a P4 idea to packets, as printed", "ends as printed", run_tests(tutorial)),
    ]


def _traced(_: Verification) -> list[Check]:
    """Packets of a program without a trace are those of code that has nothing of it, as a test says."""
    plain, traced = ([_seconds(trace) for _ in range(_REPEATS)] for trace in (False, True))
    outcomes = run_tests(["tests/unit/softswitch/test_trace.py::test_the_code_without_a_trace_has_nothing_of_it"])
    ratio = round(median(traced) / median(plain), 2)
    return [
        tests_check("generated code without a trace", "has nothing of it", outcomes),
        reported("time of a packet with --trace / without, Python engine, in process", ratio),
    ]


def _seconds(trace: bool) -> float:
    """Of CPU, for packets through a small program."""

    def drop(_: Packet) -> None: ...

    switch = SoftSwitch(_EXAMPLE.read_text(), engine="python", trace=drop if trace else None)
    frame = bytes(12) + b"\x88\xb5" + bytes(46)
    begun = time.process_time()
    for _ in range(_PACKETS):
        switch.process(1, frame)
    return time.process_time() - begun


_LIBRARY: Final = ("tests/integration/softswitch/test_aggregation_library.py", f"{_TUTORIALS}::test_an_op")

GROUP: Final[Experiments] = {
    "tutorials": _tutorials,
    "options": shown_by(
        "options of simple_switch and simple_switch_grpc, and a harness's commands", "all are taken",
        "tests/unit/softswitch/test_options.py", "tests/integration/softswitch/test_drop_in.py",
    ),
    "installed": _installed,
    "library": shown_by("an outside program with the P4 library, both engines and bmv2; a new op", "pass", *_LIBRARY),
    "traced": _traced,
}  # fmt: skip
"""The experiments by row."""
