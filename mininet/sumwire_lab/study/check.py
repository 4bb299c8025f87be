# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A check: a measured value, its target, and whether it holds. All verify commands report their results as checks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Check:
    """One row. `holds` is None if this machine lacks what the check needs; `why` then says what is missing."""

    check: str
    value: Any
    target: str
    holds: bool | None
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the check for the JSON file, without the key `why` if there is no reason."""
        record = asdict(self)
        if not self.why:
            del record["why"]
        return record


def at_least(label: str, value: float | None, least: float) -> Check:
    """Return a check that holds for a value of `least` or more. It does not hold for None, a value that could not be
    measured."""
    return Check(label, value, f">= {least:g}", value is not None and value >= least)


def at_most(label: str, value: float | None, most: float) -> Check:
    """Return a check that holds for a value of `most` or less. It does not hold for None, a value that could not be
    measured."""
    return Check(label, value, f"<= {most:g}", value is not None and value <= most)


def equal(label: str, value: Any, wanted: Any, target: str | None = None) -> Check:
    """Return a check that holds for a value equal to `wanted`. `target`: its text in the row; by default `wanted` as
    JSON."""
    return Check(label, value, json.dumps(wanted) if target is None else target, bool(value == wanted))


def holds(label: str, value: Any, target: str, verdict: bool, why: str = "") -> Check:
    """Return a check with a target in words. The caller has compared, and `verdict` tells whether the value meets
    it."""
    return Check(label, value, target, verdict, why)


def must_fail(variant: str, check: Check) -> Check:
    """Return the check of a variant that is known to be bad. ``check``: the row's own, of the variant's value. It holds
    if that one does not, so that the row can tell."""
    verdict = None if check.holds is None else not check.holds
    return Check(f"{check.check}; {variant}, known to be bad", check.value, f"not: {check.target}", verdict, check.why)


def reported(label: str, value: Any, measured: bool | None = None) -> Check:
    """Return a check of a value without a target. It holds if the value was measured; by default, if it is not None."""
    return Check(label, value, "reported", value is not None if measured is None else measured)


def absent(label: str, target: str, why: str, value: Any = None) -> Check:
    """Return a check that this machine cannot make; `why` says what it lacks."""
    return Check(label, value, target, None, why)


def failed(label: str, target: str, error: Exception) -> Check:
    """Return a check whose experiment raised an error."""
    return Check(label, None, target, False, str(error))


def table(checks: Sequence[Check]) -> str:
    """Return one line per check: verdict, what was checked, value, target."""
    words = {True: "holds", False: "FAILS", None: "-"}
    lines = []
    for check in checks:
        lines.append(f"{words[check.holds]:<6} {check.check}: {_short(check.value)} (target {check.target})")
        if check.why:
            lines.append(f"       {check.why}")
    return "\n".join(lines)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(_short(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {_short(item)}" for name, item in value.items())
    return str(value)
