# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Events in words, and for JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sumwire_protocol import layout

from sumwire.see.following import AGAIN, ASKED, INFORMED, LOST, REFUSED, RESENT, RESULT, SENT, STALE, Event

_BITMAP_BITS: Final = 32


def text_of(event: Event) -> str:
    """What has happened."""
    return _TEXTS[event.what](event)


def as_dict(event: Event) -> dict[str, Any]:
    """For JSON: times in seconds."""
    seen = event.seen
    found: dict[str, Any] = {
        "at_s": event.at_s,
        "point": event.point,
        "what": event.what,
        "worker": seen.worker,
        "host": event.host,
        "switch": event.switch,
        "kind": layout.KINDS[seen.kind],
        "count": seen.count,
        "round": seen.round,
        "contributors": seen.contributors,
        "flags": list(layout.flag_names(seen.flags)),
        "copy": event.copy,
        "answered": event.answered,
        "after_s": event.after_s,
        "text": text_of(event),
    }
    if event.what == REFUSED:
        found["reason"] = _reason(event)
    return found


def _who(event: Event) -> str:
    return f"worker {event.seen.worker} ({event.host})"


def _flags(event: Event) -> str:
    return "".join(f" [{name}]" for name in layout.flag_names(event.seen.flags))


def _since(event: Event) -> str:
    return "" if event.after_s is None else f", after {event.after_s * 1e3:.3f} ms"


def _why_again(event: Event) -> str:
    if event.copy == 1 or event.after_s is None:
        return ""
    return ", the one before was answered" if event.answered else f", no answer for {event.after_s * 1e3:.3f} ms"


def _reason(event: Event) -> str:
    return layout.REASONS.get(event.seen.count, f"code {event.seen.count}")


def _workers(event: Event) -> str:
    bits = event.seen.contributors
    named = [str(bit) for bit in range(_BITMAP_BITS) if bits >> bit & 1]
    if not named:
        return "nobody is in"
    return f"worker {named[0]} is in" if len(named) == 1 else f"workers {', '.join(named)} are in"


def _sent(event: Event) -> str:
    several = f" for {event.seen.count} hosts" if event.seen.count > 1 else ""
    return f"{_who(event)} sends to {event.switch}{several}{_flags(event)}"


def _resent(event: Event) -> str:
    return f"{_who(event)} sends copy {event.copy}{_why_again(event)}{_flags(event)}"


def _asked(event: Event) -> str:
    return f"{_who(event)} asks {event.switch}{_why_again(event)}"


def _result(event: Event) -> str:
    result = "the result again" if event.what == AGAIN else "the result"
    return f"{_who(event)} gets {result}: count {event.seen.count}, {_workers(event)}{_flags(event)}{_since(event)}"


def _informed(event: Event) -> str:
    where = f"round {event.seen.round}, " if event.seen.is_hello else ""
    return f"{_who(event)} is told: {where}{_workers(event)}{_flags(event)}{_since(event)}"


def _stale(event: Event) -> str:
    return f"{_who(event)} is too late: the slot is in round {event.seen.round}{_since(event)}"


def _refused(event: Event) -> str:
    means = layout.meaning(f"REJECT_{_reason(event)}")
    return f"{_who(event)} is refused: {_reason(event)}{': ' + means if means else ''}{_since(event)}"


def _lost(event: Event) -> str:
    seen, ends = event.seen, event.seen.ends
    name = f"{layout.KINDS[seen.kind]} of {ends.source} to {ends.target}, worker {seen.worker}"
    return f"lost behind this point: {name}{_flags(event)}"


_TEXTS: Final[Mapping[str, Callable[[Event], str]]] = {
    SENT: _sent,
    RESENT: _resent,
    ASKED: _asked,
    RESULT: _result,
    AGAIN: _result,
    INFORMED: _informed,
    STALE: _stale,
    REFUSED: _refused,
    LOST: _lost,
}
