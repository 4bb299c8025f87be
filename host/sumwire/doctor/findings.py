# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the doctor finds: a line each, good or with what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

GOOD, BAD, NOTE, UNKNOWN = "good", "bad", "note", "unknown"
"""BAD stands in a job's way. NOTE does not, and costs something. UNKNOWN was not looked at, and the text says why."""

_NAME_WIDTH: Final = 10
# A job's messages say the cause first, then what mends it.
_BETWEEN: Final = re.compile(r"; |(?<=\?) ")


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding, which is one line of output. ``name``: what was examined. ``cure``: how to mend it, "" if nothing is
    wrong."""

    name: str
    state: str
    text: str
    cure: str = ""


def good(name: str, text: str) -> Finding:
    """Return a finding that something is as it should be."""
    return Finding(name, GOOD, text)


def unknown(name: str, why: str) -> Finding:
    """Return a finding that something could not be examined, and why."""
    return Finding(name, UNKNOWN, why)


def bad(name: str, message: str | Exception, cure: str = "") -> Finding:
    """Return a finding that something is wrong. Without ``cure``, the message ends with the cure."""
    if cure:
        return Finding(name, BAD, str(message), cure)
    text, *said = _BETWEEN.split(str(message), maxsplit=1)
    return Finding(name, BAD, text, "".join(said))


def problems(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that would stop the job."""
    return [finding for finding in findings if finding.state == BAD]


def as_text(findings: Sequence[Finding]) -> Iterator[str]:
    """Return a line for each finding, and one more with what to do about it."""
    for finding in findings:
        yield f"{finding.state:<8} {finding.name:<{_NAME_WIDTH}} {finding.text}"
        if finding.cure:
            yield f"{'':<8} {'':<{_NAME_WIDTH}} -> {finding.cure}"
    count = len(problems(findings))
    yield "nothing to mend" if not count else f"{count} to mend"


def as_dict(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the contents as values that JSON can hold."""
    return {"good": not problems(findings), "findings": [asdict(finding) for finding in findings]}
