# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-see`: what shows packets, against the golden model, the doctor in the lab, and a
run's report in a browser."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from sumwire_lab.experiments import metrics_run, watched_steps
from sumwire_lab.life import scheduler
from sumwire_lab.life.case import Case, Outcome
from sumwire_lab.life.rows import doctor
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.life_options import LifeOptions, present
from sumwire_lab.options.run_options import RunOptions, TrainOptions
from sumwire_lab.options.see_options import SeeOptions
from sumwire_lab.run import training_run
from sumwire_lab.study.check import Check, absent, holds
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.verify.plan import Plan
from sumwire_lab.verify.processes import run_module, run_tests
from sumwire_lab.verify.rows import see as rows
from sumwire_lab.verify.rows import see_metrics
from sumwire_lab.verify.rows.shared import WHY_ABSENT
from sumwire_lab.verify.rows.trust import tests

# Chunks of a run whose packets, at both ends of all links of a tree, are more than 10,000.
CHUNKS: Final = 400
PACKETS: Final = 10_000
# Steps of a run of the lab with as many.
LAB_STEPS: Final = 5
_LAB_TREE: Final = ("tests/system/test_see_tree.py", "tests/integration/host/see/test_on_links.py")
# Of the run whose metrics are scraped.
METRICS_STEPS: Final = 200
# Steps of each run of a pair, pairs, and steps of the run beside which sumwire top works in turn.
ROUND_STEPS: Final = 40
WATCHED_ROUNDS: Final = 5
WATCHED_STEPS: Final = 600
_SCREEN: Final = "tests/unit/host/top/test_screen.py"
_DISSECTOR: Final = "tests/integration/protocol/test_dissector.py"
_WHOLE_RUN: Final = "test_a_whole_run_in_a_lossy_tree"
_DECODE: Final = "tests/integration/host/see"
_SCAPY: Final = "tests/unit/protocol/test_scapy_layer.py"
_LIVE: Final = "tests/integration/lab/run/test_live.py"
_SCRIPT: Final = "tests/system/test_own_lab.py"
_BROWSER: Final = "tests/integration/lab/run/page/test_browser.py"
BROWSER: Final = ("chromium", "chromedriver")
STEPS: Final = 60
"""Of the run whose report is shown."""
_TUTORIALS: Final = ("tests/system/test_tutorials.py", "tests/integration/docs/test_notebook.py")
_DOCS: Final = ("tests/unit/docs", "tests/integration/docs")
_SPELLED: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs", "examples")
_FOUND: Final = "fields equal to the golden model's; 0 malformed; lost and resent chunks found all"


def plan(results: Path, say: Say, options: SeeOptions) -> Plan:
    """Packets are shown as they are, and the doctor names what is wrong."""
    made: Mapping[str, Callable[[], list[Check]]] = {
        "tshark": partial(_tshark, options),
        "decode": partial(_decode, options),
        "scapy": partial(_scapy, options),
        "doctor": partial(_doctor, results, say, options),
        "report": partial(_report, results, say, options),
        "live": _live,
        "lab": _lab,
        "tutorials": _tutorials,
        "docs": partial(_docs, results),
        "metrics": partial(_metrics, results, say, options),
        "watched": partial(_watched, results, say, options),
    }
    return Plan("see", {row: made[row] for row in options.rows})


def _metrics(results: Path, say: Say, options: SeeOptions) -> list[Check]:
    label, target = "metrics of a lossy run, scraped by Prometheus", "equal to summary.json"
    screen = tests("sumwire top at 80 x 24 and 200 x 60", "readable", run_tests([_SCREEN]))
    if not metrics_run.there():
        return [screen, absent(label, target, "prometheus is not on PATH (Debian's package prometheus)")]
    require_tools()
    with tempfile.TemporaryDirectory() as folder:
        record = metrics_run.scraped(results, Path(folder), say, steps=options.amount(METRICS_STEPS))
    return [screen, see_metrics.against_summary(record), see_metrics.top_cost(record)]


def _watched(results: Path, say: Say, options: SeeOptions) -> list[Check]:
    require_tools()
    rounds, steps = options.amount(WATCHED_ROUNDS), options.amount(WATCHED_STEPS)
    with tempfile.TemporaryDirectory() as name:
        runs = watched_steps.with_metrics(results, Path(name), say, steps=ROUND_STEPS, rounds=rounds)
        windows = watched_steps.with_top(results, Path(name), say, steps=steps)
    return [
        see_metrics.step_ratio("with metrics that nobody reads", runs),
        see_metrics.step_ratio("while sumwire top works", windows),
    ]


def _run_of(options: SeeOptions) -> tuple[dict[str, str], str]:
    """What tells the tests how long their run is, and how a row puts it."""
    chunks = options.amount(CHUNKS)
    least = f"more than {PACKETS} packets" if chunks == CHUNKS else f"{chunks} chunks"
    return {"SUMWIRE_SEE_CHUNKS": str(chunks)}, f"{least} of a lossy run in a tree"


def _tshark(options: SeeOptions) -> list[Check]:
    environment, run = _run_of(options)
    kinds = run_tests(["--require-tshark", _DISSECTOR, "-k", f"not {_WHOLE_RUN}"])
    whole = run_tests(["--require-tshark", _DISSECTOR, "-k", _WHOLE_RUN], environment)
    label = "tshark: every kind, flag and op, expert infos, values, request and answer"
    steps = options.amount(LAB_STEPS)
    lab = run_tests(["--require-tshark", *_LAB_TREE], {"SUMWIRE_SEE_STEPS": str(steps)})
    return [
        tests(label, "equal to the golden model's; 0 malformed", kinds),
        tests(f"tshark: {run}", _FOUND, whole),
        tests(f"tshark: {steps} steps of the lab in a tree of Mininet whose links lose 1 %", _FOUND, lab),
    ]


def _decode(options: SeeOptions) -> list[Check]:
    environment, run = _run_of(options)
    return [tests(f"sumwire decode: {run}", "every loss and every copy", run_tests([_DECODE], environment))]


def _scapy(options: SeeOptions) -> list[Check]:
    count = options.amount(PACKETS)
    outcomes = run_tests([_SCAPY], {"SUMWIRE_SCAPY_PACKETS": str(count)})
    return [tests(f"scapy: {count} random packets built and taken apart", "equal to the golden model's", outcomes)]


def _live() -> list[Check]:
    label, target = "a page that follows a run, in Chromium", "follows it, tells its end, and ends with it"
    return _without_browser(label, target) or [tests(label, target, run_tests(["--require-chromium", _LIVE]))]


def _lab() -> list[Check]:
    label = "a script on every host, sumwire.init() in it, Mininet's prompt, a lab left standing"
    return [tests(label, "all of it; nothing is left", run_tests(["--require-mininet", _SCRIPT]))]


def _without_browser(label: str, target: str) -> list[Check]:
    """The row of a machine without a browser; empty where there is one."""
    missing = [name for name in BROWSER if shutil.which(name) is None]
    why = f"{' and '.join(missing)} not on PATH (Debian: chromium-driver)"
    return [absent(label, target, why)] if missing else []


def _report(results: Path, say: Say, options: SeeOptions) -> list[Check]:
    label = "report of a run in Chromium: light, dark, 390 pixels wide, under the pointer"
    target = "no console error, no side-scrolling, headline numbers equal to summary.json"
    if without := _without_browser(label, target):
        return without
    train = TrainOptions(max_steps=options.amount(STEPS))
    _, folder = training_run.run(RunOptions(train=train), results, say)
    outcomes = run_tests(["--require-chromium", _BROWSER], {"SUMWIRE_RUN": str(folder.resolve())})
    return [tests(label, target, outcomes)]


def _tutorials() -> list[Check]:
    """Those that need what this machine lacks are skipped."""
    return [tests("tutorials, gone through as they are printed", "end as printed", run_tests(list(_TUTORIALS)))]


def _docs(results: Path) -> list[Check]:
    built = run_module(["mkdocs", "build", "--strict", "--site-dir", str((results / "site").resolve())])
    spelled = run_module(["codespell_lib", *_SPELLED])
    label = "docs: links, sentences of at most 40 words, a test or a reason for each fenced block, examples as printed"
    return [
        holds("docs: mkdocs in strict mode", built.last_line, "no warning", built.status == 0),
        holds("docs: codespell", spelled.last_line, "clean", spelled.status == 0),
        tests(label, "clean", run_tests(list(_DOCS))),
    ]


def _examined(cases: Sequence[Case], folder: Path, say: Say) -> list[Outcome]:
    """The outcome of each case. One that was killed after its limit says nothing of the doctor: the machine was too
    busy for all side by side. It has one more try, alone, and the row tells it."""
    outcomes: dict[str, Outcome] = {}
    for again, parallel in ((False, LifeOptions().parallel), (True, 1)):
        left = [case for case in cases if not again or outcomes[case.name].killed]
        place = folder / "again" if again else folder
        place.mkdir(exist_ok=True)
        with interruptible(), closing(scheduler.carry_out(left, place, parallel)) as ended:
            for outcome in ended:
                outcomes[outcome.case.name] = replace(outcome, again=again)
                tried = ", once more" if again else ""
                say(f"{len(outcomes)}/{len(cases)}: {outcome.case.name} ({outcome.seconds:.0f} s{tried})")
    return list(outcomes.values())


def _doctor(results: Path, say: Say, options: SeeOptions) -> list[Check]:
    require_tools()
    checks = []
    for switch in options.doctored:
        if switch not in present():
            checks.append(absent(f"doctor; {switch}", "each named", WHY_ABSENT[switch]))
            continue
        folder = new_folder(results, latest=False)
        found = rows.doctors(switch, _examined(doctor.cases(switch, 1), folder, say))
        checks += found
        if all(check.holds for check in found):
            shutil.rmtree(folder)
    return checks
