# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-see`: checks the tools that show packets against the golden model, the doctor in the lab, and a run's
report in a browser."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from sumwire.job.metrics import FIELDS

from sumwire_lab.experiments import observed_runs
from sumwire_lab.faults import wrong_setups
from sumwire_lab.faults.cases import FaultCase, FaultOutcome, carry_out
from sumwire_lab.faults.rows import measure_case
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.run_options import AGGREGATOR, RunOptions, TrainOptions
from sumwire_lab.options.verify_options import VerifyOptions, present
from sumwire_lab.run import training_run
from sumwire_lab.study.check import Check, absent, at_most, holds
from sumwire_lab.study.experiment import Say, new_folder
from sumwire_lab.verify.fault_injection import SETUP_S_MAX, words_of
from sumwire_lab.verify.plan import WHY_ABSENT, Experiments, Verification, run_module, run_tests, shown_by, tests_check

_RIGHT: Final = (wrong_setups.RIGHT, wrong_setups.RIGHT_TREE)
# By set-up: the line of the doctor's that must be the first one that is wrong.
_LINES: Final[Mapping[str, str]] = {
    "no-apply": "switch",
    "unknown-job": "admission",
    "wrong-port": "switch",
    "wrong-address": "address",
    "wrong-worker": "admission",
    "other-controller": "table",
    "firewall": "firewall",
    "aggregator-not-started": "switch",
    "small-mtu": "mtu",
    wrong_setups.SECOND_RUN: "port",
    "wrong-p4info": "entries",
    "other-version": "program",
}
# What names the cause here, where a worker's error names it in other words.
_CAUSES: Final[Mapping[str, str]] = {"wrong-port": "at another port|no program listens at this UDP port"}
# bmv2 takes no trains, so the lab switches its hosts' offloads off, and the doctor notes that rightly.
_TRUE_NOTES: Final[Mapping[str, tuple[str, ...]]] = {"bmv2": ("offloads",)}
_SHOWN: Final = 3


def doctor_problems(variant: str, switch: str, record: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the doctor's findings for a set-up; empty if nothing is."""
    problems = []
    for one in record["examined"]:
        if one["seconds"] > SETUP_S_MAX:
            problems.append(f"only after {one['seconds']:.1f} s")
        wrong = [finding for finding in one["findings"] if finding["state"] == "bad"]
        said = "; ".join(f"{finding['name']}: {finding['text']}" for finding in wrong)
        if variant in _RIGHT:
            notes = [
                finding["text"]
                for finding in one["findings"]
                if finding["state"] == "note" and finding["name"] not in _TRUE_NOTES.get(switch, ())
            ]
            problems += [f"reported on a right set-up: {text}" for text in [*([said] if said else []), *notes]]
        elif not wrong or wrong[0]["name"] != _LINES[variant]:
            problems.append(f"{_LINES[variant]} is not what it finds: {said or 'nothing'}")
        else:
            problems += _unnamed(variant, switch, wrong[0])
    if record.get("undisturbed") is False:
        problems.append("the run that was under way did not go on")
    return problems


def _unnamed(variant: str, switch: str, finding: Mapping[str, str]) -> list[str]:
    cause, cure = words_of(variant, switch)
    wanted = {"cause": (_CAUSES.get(variant, cause), finding["text"]), "cure": (cure, finding["cure"])}
    return [
        f"{what} is not named ({pattern!r}): {text}"
        for what, (pattern, text) in wanted.items()
        if not re.search(pattern, text, re.IGNORECASE)
    ]


def doctors(switch: str, outcomes: Sequence[FaultOutcome]) -> list[Check]:
    """Return the checks of one kind of switch: one for the wrong set-ups, one for the right ones."""
    right = [outcome for outcome in outcomes if outcome.case.variant in _RIGHT]
    wrong = [outcome for outcome in outcomes if outcome not in right]
    trees = "" if switch == AGGREGATOR else ", and in a tree"
    return [
        _doctor_check(f"doctor on wrong set-ups; {switch}", f"each named within {SETUP_S_MAX:g} s", wrong),
        _doctor_check(f"doctor on a right set-up{trees}; {switch}", "nothing reported", right),
    ]


def _doctor_check(label: str, target: str, outcomes: Sequence[FaultOutcome]) -> Check:
    found = {
        outcome.case.name: [outcome.error]
        if outcome.error
        else doctor_problems(outcome.case.variant, switch, outcome.record)
        for outcome in outcomes
        for switch in [outcome.case.switch]
    }
    bad = {name: problems for name, problems in found.items() if problems}
    slowest = max((one["seconds"] for outcome in outcomes for one in outcome.record.get("examined", ())), default=0.0)
    twice = [outcome.case.name for outcome in outcomes if outcome.again]
    value: dict[str, Any] = {"right": f"{len(outcomes) - len(bad)} of {len(outcomes)}", "slowest, s": round(slowest, 2)}
    if twice:
        value["tried once more, since its limit had killed it"] = twice
    why = "; ".join(f"{name}: {', '.join(map(str, problems))}" for name, problems in list(bad.items())[:_SHOWN])
    return holds(label, value, target, bool(outcomes) and not bad, why)


TOP_CORES_MAX: Final = 0.02
STEP_RATIO_MAX: Final = 1.02
# Numbers of summary.json, and what they are sums of over the workers: a metric's name.
_SUMS: Final = {
    "retransmissions": "sumwire_job_resent_packets_total",
    "fallbacks": "sumwire_job_fallbacks_total",
    "missing": "sumwire_job_missing_contributions_total",
    "left_out": "sumwire_job_left_out_chunks_total",
    "flushed": "sumwire_job_flushed_packets_total",
    "probes": "sumwire_job_probes_total",
    "ahead": "sumwire_job_ahead_chunks_total",
}
_SHOWN_METRICS: Final = 3


def summary_check(record: Mapping[str, Any]) -> Check:
    """Check the sums in summary.json, and every number in every worker's own statistics."""
    values: Sequence[Mapping[str, Any]] = record["values"]
    different, compared = [], 0
    for name, metric in _SUMS.items():
        if name in record["summary"]:
            found = sum(one["value"] for one in values if one["__name__"] == metric)
            compared += 1
            if found != record["summary"][name]:
                different.append(f"{name}: {found:g} in Prometheus, {record['summary'][name]:g} in summary.json")
    for worker, stats in record["stats"].items():
        for field, (metric_of, labels) in FIELDS.items():
            wanted = {"__name__": metric_of.served, "worker": str(worker)}
            wanted |= dict(zip(metric_of.labels[2:], labels, strict=True))
            own = [one["value"] for one in values if wanted.items() <= one.items()]
            compared += 1
            if own != [stats[field]]:
                different.append(f"worker {worker}, {field}: {own} in Prometheus, {stats[field]} at its end")
    resent = record["summary"]["retransmissions"]
    value = {"equal": f"{compared - len(different)} of {compared}", "packets sent again": resent}
    why = "; ".join(different[:_SHOWN_METRICS])
    return holds(
        "metrics of a lossy run, scraped by Prometheus",
        value,
        "equal to summary.json",
        not different and resent > 0,
        why,
    )


def step_ratio_check(beside: str, pairs: Sequence[tuple[float, float]]) -> Check:
    """Compare the seconds of a step without and with an observer. ``pairs``: both times. The median ratio counts."""
    ratios = sorted(watched / plain for plain, watched in pairs)
    ratio = round(median(ratios), 4) if ratios else None
    value = {"ratio": ratio, "pairs": len(ratios), "from, to": [round(one, 3) for one in (*ratios[:1], *ratios[-1:])]}
    verdict = ratio is not None and ratio <= STEP_RATIO_MAX
    return holds(f"time of a step {beside}, against none, in turn", value, f"ratio <= {STEP_RATIO_MAX:g}", verdict)


def top_cost_check(record: Mapping[str, Any]) -> Check:
    """Check the share of a core that `sumwire top` uses, from the first step to the end of the run."""
    cores = record["top_cores"]
    if record["top_error"]:
        return holds("sumwire top beside the run", None, f"<= {TOP_CORES_MAX:g}", False, record["top_error"])
    return at_most("sumwire top beside the run, share of a core", round(cores, 4), TOP_CORES_MAX)


# Chunks of a run whose packets, at both ends of all links of a tree, are more than 10,000.
CHUNKS: Final = 400
PACKETS: Final = 10_000
# Steps of a run of the lab with as many.
LAB_STEPS: Final = 5
_LAB_TREE: Final = ("tests/system/test_see_tree.py", "tests/integration/host/see/test_decode.py")
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
"""Steps of the run whose report is shown."""
_TUTORIALS: Final = ("tests/system/test_tutorials.py", "tests/integration/docs/test_notebook.py")
_DOCS: Final = ("tests/unit/docs", "tests/integration/docs")
_SPELLED: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs", "examples")
_FOUND: Final = "fields equal to the golden model's; 0 malformed; lost and resent chunks found all"


def _metrics(v: Verification) -> list[Check]:
    label, target = "metrics of a lossy run, scraped by Prometheus", "equal to summary.json"
    screen = tests_check("sumwire top at 80 x 24 and 200 x 60", "readable", run_tests([_SCREEN]))
    if not observed_runs.there():
        return [screen, absent(label, target, "prometheus is not on PATH (Debian's package prometheus)")]
    require_tools()
    with tempfile.TemporaryDirectory() as folder:
        record = observed_runs.scraped(v.results, Path(folder), v.say, steps=v.options.amount(METRICS_STEPS))
    return [screen, summary_check(record), top_cost_check(record)]


def _watched(v: Verification) -> list[Check]:
    require_tools()
    rounds, steps = v.options.amount(WATCHED_ROUNDS), v.options.amount(WATCHED_STEPS)
    with tempfile.TemporaryDirectory() as name:
        runs = observed_runs.with_metrics(v.results, Path(name), v.say, steps=ROUND_STEPS, rounds=rounds)
        windows = observed_runs.with_top(v.results, Path(name), v.say, steps=steps)
    return [
        step_ratio_check("with metrics that nobody reads", runs),
        step_ratio_check("while sumwire top works", windows),
    ]


def _run_of(v: Verification) -> tuple[dict[str, str], str]:
    """What tells the tests how long their run is, and how a row puts it."""
    chunks = v.options.amount(CHUNKS)
    least = f"more than {PACKETS} packets" if chunks == CHUNKS else f"{chunks} chunks"
    return {"SUMWIRE_SEE_CHUNKS": str(chunks)}, f"{least} of a lossy run in a tree"


def _tshark(v: Verification) -> list[Check]:
    environment, run = _run_of(v)
    kinds = run_tests(["--require-tshark", _DISSECTOR, "-k", f"not {_WHOLE_RUN}"])
    whole = run_tests(["--require-tshark", _DISSECTOR, "-k", _WHOLE_RUN], environment)
    label = "tshark: every kind, flag and op, expert infos, values, request and answer"
    steps = v.options.amount(LAB_STEPS)
    lab = run_tests(["--require-tshark", *_LAB_TREE], {"SUMWIRE_SEE_STEPS": str(steps)})
    return [
        tests_check(label, "equal to the golden model's; 0 malformed", kinds),
        tests_check(f"tshark: {run}", _FOUND, whole),
        tests_check(f"tshark: {steps} steps of the lab in a tree of Mininet whose links lose 1 %", _FOUND, lab),
    ]


def _decode(v: Verification) -> list[Check]:
    environment, run = _run_of(v)
    return [tests_check(f"sumwire decode: {run}", "every loss and every copy", run_tests([_DECODE], environment))]


def _scapy(v: Verification) -> list[Check]:
    count = v.options.amount(PACKETS)
    outcomes = run_tests([_SCAPY], {"SUMWIRE_SCAPY_PACKETS": str(count)})
    return [
        tests_check(f"scapy: {count} random packets built and taken apart", "equal to the golden model's", outcomes)
    ]


def _live(_: Verification) -> list[Check]:
    label, target = "a page that follows a run, in Chromium", "follows it, tells its end, and ends with it"
    return _without_browser(label, target) or [tests_check(label, target, run_tests(["--require-chromium", _LIVE]))]


def _without_browser(label: str, target: str) -> list[Check]:
    """The row of a machine without a browser; empty where there is one."""
    missing = [name for name in BROWSER if shutil.which(name) is None]
    why = f"{' and '.join(missing)} not on PATH (Debian: chromium-driver)"
    return [absent(label, target, why)] if missing else []


def _report(v: Verification) -> list[Check]:
    label = "report of a run in Chromium: light, dark, 390 pixels wide, under the pointer"
    target = "no console error, no side-scrolling, headline numbers equal to summary.json"
    if without := _without_browser(label, target):
        return without
    train = TrainOptions(max_steps=v.options.amount(STEPS))
    _, folder = training_run.run(RunOptions(train=train), v.results, v.say)
    outcomes = run_tests(["--require-chromium", _BROWSER], {"SUMWIRE_RUN": str(folder.resolve())})
    return [tests_check(label, target, outcomes)]


def _docs(v: Verification) -> list[Check]:
    built = run_module(["mkdocs", "build", "--strict", "--site-dir", str((v.results / "site").resolve())])
    spelled = run_module(["codespell_lib", *_SPELLED])
    label = "docs: links, sentences of at most 40 words, a test or a reason for each fenced block, examples as printed"
    return [
        holds("docs: mkdocs in strict mode", built.last_line, "no warning", built.status == 0),
        holds("docs: codespell", spelled.last_line, "clean", spelled.status == 0),
        tests_check(label, "clean", run_tests(list(_DOCS))),
    ]


def _outcomes(cases: Sequence[FaultCase], folder: Path, say: Say) -> list[FaultOutcome]:
    """The outcome of each case. One that was killed after its limit says nothing of the doctor: the machine was too
    busy for all side by side. It has one more try, alone, and the row tells it."""
    parallel = VerifyOptions("life").parallel
    outcomes = {one.case.name: one for one in carry_out(cases, measure_case, folder, parallel, say)}
    killed = [case for case in cases if outcomes[case.name].killed]
    if killed:
        say(f"once more: {', '.join(case.name for case in killed)}")
        for one in carry_out(killed, measure_case, folder / "again", 1, say):
            outcomes[one.case.name] = replace(one, again=True)
    return list(outcomes.values())


def _doctor(v: Verification) -> list[Check]:
    require_tools()
    checks = []
    for switch in v.options.doctored:
        if switch not in present():
            checks.append(absent(f"doctor; {switch}", "each named", WHY_ABSENT[switch]))
            continue
        folder = new_folder(v.results, latest=False)
        found = doctors(switch, _outcomes(wrong_setups.doctor_cases(switch, 1), folder, v.say))
        checks += found
        if all(check.holds for check in found):
            shutil.rmtree(folder)
    return checks


EXPERIMENTS: Final[Experiments] = {
    "tshark": _tshark,
    "decode": _decode,
    "scapy": _scapy,
    "doctor": _doctor,
    "report": _report,
    "live": _live,
    "lab": shown_by(
        "a script on every host, sumwire.init() in it, Mininet's prompt, a lab left standing",
        "all of it; nothing is left",
        "--require-mininet",
        _SCRIPT,
    ),
    # Those that need what this machine lacks are skipped.
    "tutorials": shown_by("tutorials, gone through as they are printed", "end as printed", *_TUTORIALS),
    "docs": _docs,
    "metrics": _metrics,
    "watched": _watched,
}
