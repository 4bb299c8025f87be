# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of `make verify-see`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sumwire_lab.life.case import Outcome
from sumwire_lab.life.rows import doctor, setups
from sumwire_lab.options.run_options import AGGREGATOR
from sumwire_lab.study.check import Check, holds
from sumwire_lab.verify.rows.life import SETUP_S_MAX, words_of

_RIGHT: Final = (doctor.RIGHT, doctor.RIGHT_TREE)
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
    setups.SECOND_RUN: "port",
    "wrong-p4info": "entries",
    "other-version": "program",
}
# What names the cause here, where a worker's error names it in other words.
_CAUSES: Final[Mapping[str, str]] = {"wrong-port": "at another port|no program listens at this UDP port"}
# bmv2 takes no trains, so the lab switches its hosts' offloads off, and the doctor notes that rightly.
_TRUE_NOTES: Final[Mapping[str, tuple[str, ...]]] = {"bmv2": ("offloads",)}
_SHOWN: Final = 3


def examined(variant: str, switch: str, record: Mapping[str, Any]) -> list[str]:
    """What is wrong with what the doctor has found in a set-up; empty if nothing is."""
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
            problems += _named(variant, switch, wrong[0])
    if record.get("undisturbed") is False:
        problems.append("the run that was under way did not go on")
    return problems


def _named(variant: str, switch: str, finding: Mapping[str, str]) -> list[str]:
    cause, cure = words_of(variant, switch)
    wanted = {"cause": (_CAUSES.get(variant, cause), finding["text"]), "cure": (cure, finding["cure"])}
    return [
        f"{what} is not named ({pattern!r}): {text}"
        for what, (pattern, text) in wanted.items()
        if not re.search(pattern, text, re.IGNORECASE)
    ]


def doctors(switch: str, outcomes: Sequence[Outcome]) -> list[Check]:
    """Of one kind of switch: the wrong set-ups, and the right ones."""
    right = [outcome for outcome in outcomes if outcome.case.variant in _RIGHT]
    wrong = [outcome for outcome in outcomes if outcome not in right]
    trees = "" if switch == AGGREGATOR else ", and in a tree"
    return [
        _check(f"doctor on wrong set-ups; {switch}", f"each named within {SETUP_S_MAX:g} s", wrong),
        _check(f"doctor on a right set-up{trees}; {switch}", "nothing reported", right),
    ]


def _check(label: str, target: str, outcomes: Sequence[Outcome]) -> Check:
    found = {
        outcome.case.name: [outcome.error] if outcome.error else examined(outcome.case.variant, switch, outcome.record)
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
