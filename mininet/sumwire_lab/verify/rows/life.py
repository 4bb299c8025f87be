# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of `make verify-life`, computed from the records of its cases.

`problems_of` says what is wrong with one case, in words; a check counts the cases without problems. So a row holds only
if every case of it does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sumwire_lab.life.case import Outcome
from sumwire_lab.life.rows import checkpoint, outage, overflow, repeated, restarts, setups, stopped
from sumwire_lab.study.check import Check, holds
from sumwire_lab.verify.rows.shared import ACCURACY_GAP_MAX, ROUNDING

RETURN_S_MAX: Final = 10.0
SETUP_S_MAX: Final = 5.0
OLD_PACKETS_MIN: Final = 100
# Ranks look at their mode after a step, when a change may just be under way.
_CHANGE_STEPS: Final = 1
Record = Mapping[str, Any]
# What a check shows of the cases that fail.
_SHOWN: Final = 3

LABELS: Final[Mapping[str, str]] = {
    repeated.NAME: "ten runs of one job file in a row, two of them killed, one among an earlier one's packets",
    restarts.NAME: "torchrun --max-restarts 3, one rank killed at a random step",
    stopped.NAME: "one rank stopped for 5, 15 and 60 s",
    outage.SWITCH: "switch killed in mid-step, applied again after 10 s or after a minute",
    outage.LINK: "one worker's link dead for 20 s",
    overflow.NAME: "GradScaler, fp16, overflows forced on one rank and on all",
    checkpoint.NAME: "checkpoint, all processes ended, resumed",
    setups.NAME: "wrong set-ups",
}
TARGETS: Final[Mapping[str, str]] = {
    repeated.NAME: "all sums right, no command between the runs",
    restarts.NAME: "accuracy within 0.5 points of the undisturbed training's",
    stopped.NAME: "no fall-back, no error, replicas bit-equal",
    outage.SWITCH: "no rank fails, agreed fall-back, return within 10 s, replicas bit-equal",
    outage.LINK: "no rank fails, agreed fall-back, return within 10 s, replicas bit-equal",
    overflow.NAME: "step skipped and scale halved on all ranks, accuracy within 0.5 points of gloo's",
    checkpoint.NAME: (
        "parameters bit-equal to the uninterrupted training's for thc, dlcp, acp, marsit-ring, ef-sign@group; "
        "marsit and ef-sign, whose signs the switch draws: state restored bit for bit"
    ),
    setups.NAME: "within 5 s an error that names cause and cure",
}


def problems_of(outcome: Outcome, others: Sequence[Outcome]) -> list[str]:
    """What is wrong with a case; empty if nothing is. `others`: the outcomes of its row with its switch."""
    if outcome.error is not None:
        return [outcome.error]
    return _JUDGES[outcome.case.row](outcome, others)


def check(row: str, switch: str, outcomes: Sequence[Outcome]) -> Check:
    """One row with one switch: how many of its cases are as they must be."""
    found = {one.case: problems_of(one, outcomes) for one in outcomes}
    bad = {case: problems for case, problems in found.items() if problems}
    value = f"{len(found) - len(bad)} of {len(found)}"
    told = [f"{case.name}: {'; '.join(problems)}" for case, problems in list(bad.items())[:_SHOWN]]
    more = len(bad) - len(told)
    why = "\n".join(told) + (f"\nand {more} more" if more > 0 else "")
    target = f"{len(found)} of {len(found)}: {TARGETS[row]}"
    return holds(f"{LABELS[row]}; {switch}", value, target, bool(found) and not bad, why)


# -- one row each --------------------------------------------------------------------------------------


def repeated_runs(outcome: Outcome, others: Sequence[Outcome]) -> list[str]:
    """Every run that was not killed has come to its end on every worker, with right sums."""
    record, problems = outcome.record, []
    runs = repeated.RUNS
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


def restarted(outcome: Outcome, others: Sequence[Outcome]) -> list[str]:
    """The training was disturbed, and is as good as the undisturbed one."""
    record = outcome.record
    problems = _replicas(record, compare_steps=False)
    if outcome.case.variant == restarts.WHOLE:
        return problems
    if not record["killed"] or min(record["starts"]) < 2:
        problems.append(f"no restart: ranks were started {record['starts']} times")
    whole = [one for one in others if one.case.variant == restarts.WHOLE and one.error is None]
    if not whole:
        return [*problems, "the undisturbed training failed"]
    return problems + _accuracy(record, whole[0].record, "undisturbed")


def was_stopped(outcome: Outcome, others: Sequence[Outcome]) -> list[str]:
    """Nothing happened but a wait."""
    record = outcome.record
    fallen = [f"rank {rank}: {changes}" for rank, changes in enumerate(record["changes"]) if changes]
    return [*_replicas(record), *(f"fell back: {one}" for one in fallen)]


def lost_and_back(outcome: Outcome, others: Sequence[Outcome]) -> list[str]:
    """All ranks fell back at one step, and returned at one step, soon after the network was there."""
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


def overflowed(outcome: Outcome, others: Sequence[Outcome]) -> list[str]:
    """Every forced overflow was skipped on all ranks, and the training is as good as gloo's."""
    record, problems = outcome.record, []
    for system in (overflow.BASELINE, overflow.SYSTEM):
        problems += [f"{system}: {text}" for text in _replicas(record[system])]
        for one in record[system]["overflows"]:
            if not one["skipped"] or one["factor"] != 0.5:
                problems.append(f"{system}: not skipped as it must be: {one}")
    return problems + _accuracy(record[overflow.SYSTEM], record[overflow.BASELINE], "gloo's")


def resumed(outcome: Outcome, others: Sequence[Outcome]) -> list[str]:
    """The second half goes on where the first one ended."""
    record = outcome.record
    problems = [text for part in ("whole", "first", "second") for text in _replicas(record[part])]
    saved = [end and end["state"] for end in record["first"]["ends"]]
    restored = [start["state"] for start in record["second"]["starts"]]
    if saved != restored or None in saved:
        problems.append(f"states are not restored bit for bit: saved {saved}, restored {restored}")
    if [start["first"] for start in record["second"]["starts"]] != [record["half"]] * len(restored):
        problems.append("the second half did not begin where the first ended")
    if outcome.case.variant in checkpoint.SYSTEMS:
        digests = [[end and end["digest"] for end in record[part]["ends"]] for part in ("whole", "second")]
        if digests[0] != digests[1]:
            problems.append("parameters differ from those of the uninterrupted training")
    return problems


def said(outcome: Outcome, others: Sequence[Outcome]) -> list[str]:
    """The error came in time, and its text has cause and cure."""
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
    "unknown-job": (rf"job {setups.UNKNOWN_JOB}\b.* not (on|known|served)", _APPLY),
    "wrong-port": (r"(switch|another|this|that) port|port of the switch|switch's port", _APPLY),
    "wrong-address": (re.escape(setups.OTHER_ADDRESS), r"address|job-file"),
    "wrong-worker": (r"worker number|another address for this worker", rf"{_JOB_FILE}|{_APPLY}"),
    "other-controller": (r"table|configuration|digest", rf"{_JOB_FILE}|{_APPLY}"),
    "firewall": (r"(does not answer|no answer).*firewall|firewall.*", r"udp|port"),
    "aggregator-not-started": (r"does not answer|no answer|refused", _SERVE),
    "small-mtu": (rf"mtu|{setups.SMALL_MTU}", r"mtu \d+|ip link"),
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


_JUDGES: Final[Mapping[str, Callable[[Outcome, Sequence[Outcome]], list[str]]]] = {
    repeated.NAME: repeated_runs,
    restarts.NAME: restarted,
    stopped.NAME: was_stopped,
    outage.SWITCH: lost_and_back,
    outage.LINK: lost_and_back,
    overflow.NAME: overflowed,
    checkpoint.NAME: resumed,
    setups.NAME: said,
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


def _final(account: Record) -> float | None:
    end = account["ends"][0]
    return None if end is None else float(end["accuracy"])
