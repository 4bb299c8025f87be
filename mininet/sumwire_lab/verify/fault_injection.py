# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-life`: checks runs that are killed, stopped, cut off and restarted, from the records of the cases.
`problems_of` describes what is wrong with one case; a check counts the cases without problems. So a row holds only if
every case of it does."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from sumwire_lab.experiments import signs_alone
from sumwire_lab.faults import disturbed, repeated_runs, resumed, wrong_setups
from sumwire_lab.faults.cases import FaultOutcome, carry_out
from sumwire_lab.faults.rows import ROWS, measure_case
from sumwire_lab.faults.testbed import WORKERS
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.verify_options import present
from sumwire_lab.study.check import Check, absent, holds, must_fail
from sumwire_lab.study.experiment import new_folder
from sumwire_lab.study.study import place_of
from sumwire_lab.verify.plan import ACCURACY_GAP_MAX, ROUNDING, WHY_ABSENT, Experiments, Verification

RETURN_S_MAX: Final = 10.0
SETUP_S_MAX: Final = 5.0
OLD_PACKETS_MIN: Final = 100
# Ranks look at their mode after a step, when a change may just be under way.
_CHANGE_STEPS: Final = 1
Record = Mapping[str, Any]
# What a check shows of the cases that fail.
_SHOWN: Final = 3

LABELS: Final[Mapping[str, str]] = {
    repeated_runs.RUNS_ROW: "ten runs of one job file in a row, two of them killed, one among an earlier one's packets",
    resumed.TORCHRUN_ROW: "torchrun --max-restarts 3, one rank killed at a random step",
    disturbed.STOPPED_ROW: "one rank stopped for 5, 15 and 60 s",
    disturbed.SWITCH_ROW: "switch killed in mid-step, applied again after 10 s or after a minute",
    disturbed.LINK_ROW: "one worker's link dead for 20 s",
    resumed.OVERFLOW_ROW: "GradScaler, fp16, overflows forced on one rank and on all",
    resumed.CHECKPOINT_ROW: "checkpoint, all processes ended, resumed",
    wrong_setups.SETUPS_ROW: "wrong set-ups",
}
TARGETS: Final[Mapping[str, str]] = {
    repeated_runs.RUNS_ROW: "all sums right, no command between the runs",
    resumed.TORCHRUN_ROW: "accuracy within 0.5 points of the undisturbed training's",
    disturbed.STOPPED_ROW: "no fall-back, no error, replicas bit-equal",
    disturbed.SWITCH_ROW: "no rank fails, agreed fall-back, return within 10 s, replicas bit-equal",
    disturbed.LINK_ROW: "no rank fails, agreed fall-back, return within 10 s, replicas bit-equal",
    resumed.OVERFLOW_ROW: "step skipped and scale halved on all ranks, accuracy within 0.5 points of gloo's",
    resumed.CHECKPOINT_ROW: (
        "parameters bit-equal to the uninterrupted training's for thc, dlcp, acp, marsit-ring, ef-sign@group; "
        "marsit and ef-sign, whose signs the switch draws: state restored bit for bit"
    ),
    wrong_setups.SETUPS_ROW: "within 5 s an error that names cause and cure",
}


def problems_of(outcome: FaultOutcome, others: Sequence[FaultOutcome]) -> list[str]:
    """Return the problems of a case in words; empty if there are none. `others`: the outcomes of its row with its
    switch."""
    if outcome.error is not None:
        return [outcome.error]
    return _JUDGES[outcome.case.row](outcome, others)


def row_check(row: str, switch: str, outcomes: Sequence[FaultOutcome]) -> Check:
    """Check one row with one switch: how many of its cases have no problem."""
    found = {one.case: problems_of(one, outcomes) for one in outcomes}
    bad = {case: problems for case, problems in found.items() if problems}
    value = f"{len(found) - len(bad)} of {len(found)}"
    told = [f"{case.name}: {'; '.join(problems)}" for case, problems in list(bad.items())[:_SHOWN]]
    more = len(bad) - len(told)
    why = "\n".join(told) + (f"\nand {more} more" if more > 0 else "")
    target = f"{len(found)} of {len(found)}: {TARGETS[row]}"
    return holds(f"{LABELS[row]}; {switch}", value, target, bool(found) and not bad, why)


# -- one row each --------------------------------------------------------------------------------------


def repeat_problems(outcome: FaultOutcome, others: Sequence[FaultOutcome]) -> list[str]:
    """Return problems unless every run that was not killed has ended on every worker, with right sums."""
    record, problems = outcome.record, []
    runs = repeated_runs.RUNS
    for number in (one for one in range(1, runs.count + 1) if one not in runs.killed):
        workers = record["runs"].get(str(number), [])
        if not workers:
            problems.append(f"run {number} has no result")
        wrong = {f"worker {rank}": worker["wrong"] for rank, worker in enumerate(workers) if worker["wrong"]}
        if wrong:
            problems.append(f"run {number}: wrong sums {wrong}")
    # A run without old packets receives next to none that it does not expect.
    for rank, worker in enumerate(record["runs"].get(str(runs.disturbed), [])):
        old = sum(worker["stats"][name] for name in ("duplicates", "stale", "ignored"))
        if old < OLD_PACKETS_MIN:
            problems.append(f"run {runs.disturbed}: worker {rank} met {old} packets of run {runs.recorded}")
    return problems


def restart_problems(outcome: FaultOutcome, others: Sequence[FaultOutcome]) -> list[str]:
    """Return problems unless the training was disturbed, and is as good as the undisturbed one."""
    record = outcome.record
    problems = _replicas(record, compare_steps=False)
    if outcome.case.variant == resumed.WHOLE:
        return problems
    if not record["killed"] or min(record["starts"]) < 2:
        problems.append(f"no restart: ranks were started {record['starts']} times")
    whole = [one for one in others if one.case.variant == resumed.WHOLE and one.error is None]
    if not whole:
        return [*problems, "the undisturbed training failed"]
    return problems + _accuracy(record, whole[0].record, "undisturbed")


def stop_problems(outcome: FaultOutcome, others: Sequence[FaultOutcome]) -> list[str]:
    """Return problems of a stopped worker, which should only make others wait."""
    record = outcome.record
    fallen = [f"rank {rank}: {changes}" for rank, changes in enumerate(record["changes"]) if changes]
    return [*_replicas(record), *(f"fell back: {one}" for one in fallen)]


def outage_problems(outcome: FaultOutcome, others: Sequence[FaultOutcome]) -> list[str]:
    """Problems unless all ranks fell back at one step, and returned at one step, soon after the network was back."""
    record, problems = outcome.record, _replicas(outcome.record)
    changes: list[list[dict[str, Any]]] = record["changes"]
    modes = [[change["fallen_back"] for change in rank] for rank in changes]
    if any(rank[:1] != [True] for rank in modes):
        return [*problems, f"not all ranks fell back: {modes}"]
    if any(rank[-1] for rank in modes):
        return [*problems, f"not all ranks returned to the network: {modes}"]
    if len({len(rank) for rank in modes}) > 1:
        problems.append(f"ranks changed a different number of times: {modes}")
    for at in zip(*([change["step"] for change in rank] for rank in changes), strict=False):
        if max(at) - min(at) > _CHANGE_STEPS:
            problems.append(f"ranks changed at different steps: {at}")
    late = max(rank[-1]["at"] for rank in changes) - record["back_at"]
    if late > RETURN_S_MAX:
        problems.append(f"returned {late:.1f} s after the network was there")
    return problems


def overflow_problems(outcome: FaultOutcome, others: Sequence[FaultOutcome]) -> list[str]:
    """Return problems unless every forced overflow was skipped on all ranks, and the training is as good as gloo's."""
    record, problems = outcome.record, []
    for system in (resumed.BASELINE, resumed.SYSTEM):
        problems += [f"{system}: {text}" for text in _replicas(record[system])]
        for one in record[system]["overflows"]:
            if not one["skipped"] or one["factor"] != 0.5:
                problems.append(f"{system}: not skipped as it must be: {one}")
    return problems + _accuracy(record[resumed.SYSTEM], record[resumed.BASELINE], "gloo's")


def resume_problems(outcome: FaultOutcome, others: Sequence[FaultOutcome]) -> list[str]:
    """Return problems if the second half does not go on where the first ended."""
    record = outcome.record
    problems = [text for part in ("whole", "first", "second") for text in _replicas(record[part])]
    saved = [end and end["state"] for end in record["first"]["ends"]]
    restored = [start["state"] for start in record["second"]["starts"]]
    if saved != restored or None in saved:
        problems.append(f"states are not restored bit for bit: saved {saved}, restored {restored}")
    if [start["first"] for start in record["second"]["starts"]] != [record["half"]] * len(restored):
        problems.append("the second half did not begin where the first ended")
    if outcome.case.variant in resumed.SAVED_SYSTEMS:
        digests = [[end and end["digest"] for end in record[part]["ends"]] for part in ("whole", "second")]
        if digests[0] != digests[1]:
            problems.append("parameters differ from those of the uninterrupted training")
    return problems


def setup_problems(outcome: FaultOutcome, others: Sequence[FaultOutcome]) -> list[str]:
    """Return problems of an error that is late, or lacks cause or cure."""
    record, setup = outcome.record, outcome.case.variant
    if record["error"] is None:
        return ["no error at all"]
    problems = []
    if record["seconds"] > SETUP_S_MAX:
        problems.append(f"only after {record['seconds']:.1f} s")
    for what, wanted in zip(("cause", "cure"), words_of(setup, outcome.case.switch), strict=True):
        if not re.search(wanted, record["text"], re.IGNORECASE):
            problems.append(f"{what} is not named ({wanted!r}): {record['error']}: {record['text']}")
    return problems


_APPLY: Final = r"sumwire-controller apply"
_SERVE: Final = r"sumwire-aggregator"
_JOB_FILE: Final = r"sumwire-controller job-file"
# By set-up: what must be in the text of the cause, and of the cure. With a software aggregator the cure is another.
_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "no-apply": (r"does not answer|no answer", _APPLY),
    "unknown-job": (rf"job {wrong_setups.UNKNOWN_JOB}\b.* not (on|known|served)", _APPLY),
    "wrong-port": (r"(switch|another|this|that) port|port of the switch|switch's port", _APPLY),
    "wrong-address": (re.escape(wrong_setups.OTHER_ADDRESS), r"address|job-file"),
    "wrong-worker": (r"worker number|another address for this worker", rf"{_JOB_FILE}|{_APPLY}"),
    "other-controller": (r"table|configuration|digest", rf"{_JOB_FILE}|{_APPLY}"),
    "firewall": (r"(does not answer|no answer).*firewall|firewall.*", r"udp|port"),
    "aggregator-not-started": (r"does not answer|no answer|refused", _SERVE),
    "small-mtu": (rf"mtu|{wrong_setups.SMALL_MTU}", r"mtu \d+|ip link"),
    "second-run": (r"job .* worker 0|in use|busy", r"end|kill|other process|one process"),
    "wrong-p4info": (r"p4info|compiled program", r"--p4|make p4|apply"),
    "other-version": (r"revision|version", r"install|upgrade|update|apply"),
}
_AT_AGGREGATOR: Final[Mapping[str, tuple[str, str]]] = {
    "unknown-job": (_WORDS["unknown-job"][0], _SERVE),
    "wrong-port": (r"refused", _SERVE),
    "wrong-worker": (_WORDS["wrong-worker"][0], rf"{_JOB_FILE}|{_SERVE}"),
    "other-controller": (_WORDS["other-controller"][0], rf"{_JOB_FILE}|{_SERVE}"),
}


def words_of(setup: str, switch: str) -> tuple[str, str]:
    if switch == "aggregator" and setup in _AT_AGGREGATOR:
        return _AT_AGGREGATOR[setup]
    return _WORDS[setup]


_JUDGES: Final[Mapping[str, Callable[[FaultOutcome, Sequence[FaultOutcome]], list[str]]]] = {
    repeated_runs.RUNS_ROW: repeat_problems,
    resumed.TORCHRUN_ROW: restart_problems,
    disturbed.STOPPED_ROW: stop_problems,
    disturbed.SWITCH_ROW: outage_problems,
    disturbed.LINK_ROW: outage_problems,
    resumed.OVERFLOW_ROW: overflow_problems,
    resumed.CHECKPOINT_ROW: resume_problems,
    wrong_setups.SETUPS_ROW: setup_problems,
}


# -- what several rows share ---------------------------------------------------------------------------


def _replicas(account: Record, *, compare_steps: bool = True) -> list[str]:
    """All ranks came to the end of the training, with equal parameters; and after every step, unless steps were done
    more than once."""
    problems = []
    missing = [rank for rank, end in enumerate(account["ends"]) if end is None]
    if missing:
        return [f"ranks {missing} did not come to the end"]
    if len({end["digest"] for end in account["ends"]}) > 1:
        problems.append("replicas differ at the end")
    if compare_steps and account["unequal"]:
        problems.append(f"replicas differ after steps {account['unequal'][:5]}")
    if not account["compared"]:
        problems.append("no step was done")
    return problems


def _accuracy(account: Record, other: Record, whose: str) -> list[str]:
    mine, theirs = (_final(one) for one in (account, other))
    if mine is None or theirs is None:
        return ["there is no accuracy to compare"]
    if abs(mine - theirs) > ACCURACY_GAP_MAX + ROUNDING:
        return [f"accuracy {mine:.4f}, {whose} {theirs:.4f}"]
    return []


def known_bad_check(row: str, outcomes: Sequence[FaultOutcome], known_bad: float) -> Check:
    """Check that a row about accuracy can tell. ``known_bad``: the accuracy of `signs_alone`."""
    good = [
        one.record[resumed.BASELINE] if row == resumed.OVERFLOW_ROW else one.record
        for one in outcomes
        if one.error is None and one.case.variant in (resumed.WHOLE, resumed.ONE, resumed.ALL)
    ]
    said = _accuracy({"ends": [{"accuracy": known_bad}]}, good[0], "the good one's") if good else []
    return must_fail(signs_alone.NAME, holds(LABELS[row], said, "accuracy within 0.5 points", not said))


def _final(account: Record) -> float | None:
    end = account["ends"][0]
    return None if end is None else float(end["accuracy"])


def _row(row: str, v: Verification) -> list[Check]:
    require_tools()
    options = v.options
    there = [switch for switch in options.switches if switch in present()]
    cases = [case for switch in there for case in ROWS[row].cases(switch, options.seeds_of(switch))]
    folder = new_folder(v.results, latest=False)
    outcomes = carry_out(cases, measure_case, folder, options.parallel, v.say) if cases else []
    checks = [
        _judged(row, switch, [one for one in outcomes if one.case.switch == switch], folder, there)
        for switch in options.switches
    ]
    if all(check.holds is not False for check in checks):
        shutil.rmtree(folder)
    if row in _TRAINED and outcomes:
        train, steps = _TRAINED[row]
        whole = replace(train, epochs=steps, max_steps=steps)
        checks.append(known_bad_check(row, outcomes, signs_alone.accuracy(whole, WORKERS)))
    return checks


def _judged(row: str, switch: str, outcomes: list[FaultOutcome], folder: Path, there: list[str]) -> Check:
    """The row's check with one switch. Folders of cases that are as they must be are removed."""
    if switch not in there:
        return absent(f"{LABELS[row]}; {switch}", TARGETS[row], WHY_ABSENT[switch])
    for outcome in outcomes:
        if not problems_of(outcome, outcomes):
            shutil.rmtree(place_of(folder, outcome.case))
    return row_check(row, switch, outcomes)


# What the rows about accuracy train, and for how many steps.
_TRAINED: Final = {
    resumed.TORCHRUN_ROW: (resumed.RESTARTED, resumed.RESTARTED_STEPS),
    resumed.OVERFLOW_ROW: (resumed.OVERFLOWING, resumed.OVERFLOW_STEPS),
}
EXPERIMENTS: Final[Experiments] = {row: partial(_row, row) for row in ROWS}
"""Experiments by row. Each runs all switches and seeds of its row side by side."""
