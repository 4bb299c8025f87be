# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of the protocol, each broken in one way: the simulator must find every one of them.

Those of the switch change rows of the P4 program's table of verdicts, or the controller's entries; those of hosts
replace a method.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final
from unittest import mock

import numpy as np
from softswitch.runtime.entries import ActionCall, Entry, Ternary
from softswitch.runtime.tables import RuntimeTable
from sumwire.blind.keys import Keys
from sumwire.blind.masks import Masks, Places
from sumwire.blind.sums import SumCheck
from sumwire.job import codec_operation, handshake
from sumwire.job.codec_operation import CodecOperation
from sumwire.job.control import Control
from sumwire.job.coordination import CoordinationPhase, Coordinator, Decision, FallBack, OwnRank, Return
from sumwire.job.gloo import Fallback
from sumwire.job.handshake import Greeting
from sumwire.job.heartbeat import RankStatus
from sumwire.job.job import Job
from sumwire.job.one_trip import CarriedScales, OneTrip
from sumwire.job.operations import ALL
from sumwire.transport import udp
from sumwire.transport.buffers import Buffers
from sumwire.transport.recovery import Recovery
from sumwire.transport.retransmission import Timers
from sumwire.transport.scheduling import SendSchedule
from sumwire.transport.waiting import Waiting
from sumwire.transport.window import NOTHING, Window
from sumwire.wire.authentication import Tags
from sumwire_controller.derive import desired
from torch import Tensor

from simulate import switches

Mutation = Callable[[], contextlib.AbstractContextManager[Any]]
Row = tuple[int, int]

# Rows of the table of verdicts by value and mask: see p4src/include/control/verdict.p4.
_ADD: Final = (0x0000, 0x01FD)
_DOWN_OLD: Final = (0x0180, 0x0180)
_DOWN: Final = (0x0080, 0x0080)
_RELAY: Final = (0x0081, 0x0081)
_STALE: Final = (0x0100, 0x0100)
_DUPLICATE: Final = (0x0020, 0x0030)
_ASK: Final = (0x0010, 0x0030)
_FLUSH: Final = (0x000A, 0x000A)
_REPEAT: Final = (0x0008, 0x0008)


def _verdicts(change: Callable[[Row, str], tuple[Row, str]]) -> contextlib.AbstractContextManager[Any]:
    """Rows and actions of the table of verdicts are others."""
    original = RuntimeTable._const_entries

    def changed(table: RuntimeTable[Any]) -> list[Entry]:
        entries = list(original(table))
        return [_changed(entry, change) for entry in entries] if table.table.name.endswith(".verdict") else entries

    return mock.patch.object(RuntimeTable, "_const_entries", changed)


def _changed(entry: Entry, change: Callable[[Row, str], tuple[Row, str]]) -> Entry:
    [key] = entry.key
    assert isinstance(key, Ternary)
    assert isinstance(entry.action, ActionCall)
    (value, mask), action = change((key.value, key.mask), entry.action.name.rpartition(".")[2])
    return entry._replace(key=(Ternary(value, mask),), action=ActionCall(f"ingress.slot.verdict.{action}"))


def _action(of: Row, instead: str) -> Mutation:
    return lambda: _verdicts(lambda row, action: (row, instead if row == of else action))


def _mask(of: Row, without: int) -> Mutation:
    """The row no longer looks at these traits."""
    return lambda: _verdicts(
        lambda row, action: ((row[0] & ~without, row[1] & ~without), action) if row == of else (row, action)
    )


def _method(owner: Any, name: str, instead: Callable[[Any], Any]) -> Mutation:
    """``instead`` makes the new one of the old one."""
    return lambda: mock.patch.object(owner, name, instead(getattr(owner, name)))


def _all_of(*mutations: Mutation) -> Mutation:
    def together() -> contextlib.AbstractContextManager[object]:
        stack = contextlib.ExitStack()
        for mutation in mutations:
            stack.enter_context(mutation())
        return stack

    return together


def _early_quorum(original: Callable[..., Any]) -> Callable[..., Any]:
    def admission(config: Any, job: Any, *rest: Any) -> Any:
        return original(config, replace(job, quorum=max(job.quorum - 1, 1)), *rest)

    return admission


def _whole_window(original: Callable[..., None]) -> Callable[..., None]:
    """S chunks in flight: the next chunk of a slot follows as soon as the last one has its result here."""

    def begin(turns: SendSchedule, chunks: int, slots: int, flight: Any) -> None:
        original(turns, chunks, 2 * slots, flight)

    return begin


def _any_round(original: Callable[..., Any]) -> Callable[..., Any]:
    def find(window: Window, slots: Any, rounds: Any) -> Any:
        flying = [window._flying_in(int(slot)) for slot in slots]
        own = [window.place(chunk)[1] if chunk != NOTHING else 0 for chunk in flying]
        return original(window, slots, np.array(own, np.int64))

    return find


def _alone(original: Callable[..., None]) -> Callable[..., None]:
    """A rank that loses the switch goes over to the group by itself."""

    def await_fallback(control: Control, lost: str = "") -> None:
        control._member.leave_network()
        control._member.network = False

    return await_fallback


def _without_hand_outs(original: Callable[..., Any]) -> Callable[..., Any]:
    def halting(agreement: Coordinator, vector: Any) -> Any:
        decision = original(agreement, vector)
        return replace(decision, hand_outs=()) if isinstance(decision, FallBack) else decision

    return halting


def _without_holding(original: Callable[..., Any]) -> Callable[..., Any]:
    """All return at once, wherever each of them is."""

    def fallback(agreement: Coordinator, vector: Any) -> Any:
        if original(agreement, vector) is None:
            return None
        agreement.phase = CoordinationPhase.NETWORK
        return Return(max(rank.started for rank in vector))

    return fallback


def _without_greeting(original: Callable[..., None]) -> Callable[..., None]:
    def apply(member: OwnRank, decision: Decision) -> None:
        joined = member.joined
        original(member, decision)
        member.joined = joined

    return apply


def _halted_at_once(original: Callable[..., RankStatus]) -> Callable[..., RankStatus]:
    def status(member: OwnRank, kept_from: int) -> RankStatus:
        return replace(original(member, kept_from), halted=member.halting)

    return status


def _lossy_residual(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """After a fall-back the residual is the codec's, as if the values had gone through the switch."""

    def ordinary(operation: CodecOperation, fallback: Fallback) -> Tensor:
        result = original(operation, fallback)
        operation._ordinary, operation._left_out = False, True
        return result

    return ordinary


def _all_included(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def take(operation: CodecOperation, handed_out: Any, *, begun: bool) -> Tensor:
        return original(operation, replace(handed_out, contributors=ALL), begun=begun)

    return take


def _whole_budget(original: Callable[..., int]) -> Callable[..., int]:
    def allowance(loss_bound: float, chunks: int, workers: int, *, worker: int, sequence: int) -> int:
        return math.ceil(loss_bound * chunks * workers) + 1

    return allowance


def _flush_all(original: Callable[..., None]) -> Callable[..., None]:
    def prepare(buffers: Buffers, chunks: Any, kind: Any, least: int) -> None:
        original(buffers, chunks, kind, min(least, 1))

    return prepare


def _from_the_least(original: Callable[..., Any]) -> Callable[..., Any]:
    """The group makes anew what some ranks have from the switch."""

    def halting(agreement: Coordinator, vector: Any) -> Any:
        decision = original(agreement, vector)
        least = min(rank.completed for rank in vector)
        return replace(decision, operation=least, hand_outs=()) if isinstance(decision, FallBack) else decision

    return halting


def _keeps_nothing(original: Callable[..., RankStatus]) -> Callable[..., RankStatus]:
    def status(member: OwnRank, kept_from: int) -> RankStatus:
        found = original(member, kept_from)
        return replace(found, kept_from=found.completed)

    return status


def _nothing(original: Callable[..., Any]) -> Callable[..., None]:
    return lambda *_, **__: None


def _zero(original: Callable[..., Any]) -> Callable[..., int]:
    return lambda *_, **__: 0


def _masks_again(original: Callable[..., None]) -> Callable[..., None]:
    """Every chunk has the first one's masks."""

    def hide(masks: Masks, sequence: int, payload: Any) -> None:
        for k in range(len(payload)):
            masks._unused = 0
            original(masks, 0, payload[k : k + 1])

    return hide


def _any_run(original: Callable[..., Masks]) -> Callable[..., Masks]:
    """All runs of all processes have the same keys."""

    def for_run(keys: Keys, first_round: int, nonces: Any) -> Masks:
        pairs = {other: hashlib.sha256(bytes(sorted((keys._worker, other)))).digest() for other in keys._pairs}
        return Masks(keys._worker, pairs, common=bytes(32), tags=bytes(32), sums=bytes(32))

    return for_run


def _zeros(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: np.zeros_like(original(*arguments))


def _all_flags(original: Callable[..., None]) -> Callable[..., None]:
    return lambda *arguments, **options: original(*arguments, **{**options, "ignored": 0})


def _carries(original: Callable[..., None]) -> Callable[..., None]:
    """A blind job sends tensors in one trip, and once more if the carried scales do not fit."""

    def init(job: Job, *arguments: Any, **options: Any) -> None:
        original(job, *arguments, **options)
        job._carried = CarriedScales()

    return init


class _Unguarded:
    """A condition whose lock keeps nobody out."""

    def __init__(self, condition: Any) -> None:
        self._condition = condition

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def notify_all(self) -> None:
        self._condition.notify_all()

    def wait(self, timeout: float | None = None) -> None:
        with self._condition:
            self._condition.wait(timeout)

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        with self._condition:
            found: bool = self._condition.wait_for(predicate, timeout)
            return found


def _without_lock(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def change(original: Callable[..., None]) -> Callable[..., None]:
        def init(owner: Any, *arguments: Any, **options: Any) -> None:
            original(owner, *arguments, **options)
            setattr(owner, name, _Unguarded(getattr(owner, name)))

        return init

    return change


MUTATIONS: Final[dict[str, Mutation]] = {
    "switch-counts-duplicates": _mask(_ADD, 0x0008),
    "switch-adds-to-older-rounds": _mask(_ADD, 0x0100),
    "switch-keeps-results-to-itself": _action(_DUPLICATE, "repeat"),
    "switch-says-nothing-of-newer-rounds": _action(_STALE, "repeat"),
    "switch-never-asks-above-again": _action(_ASK, "repeat"),
    "switch-takes-old-results-from-above": _action(_DOWN_OLD, "down"),
    "switch-closes-at-any-second-copy": _mask(_FLUSH, 0x0002),
    "switch-opens-anew-at-any-second-copy": _action(_REPEAT, "first"),
    "switch-hands-no-results-down": _action(_DOWN, "known"),
    "switch-relays-nothing": _action(_RELAY, "known"),
    "questions-count-as-contributions": _mask(_ADD, 0x0001),
    "controller-writes-one-worker-less": _method(desired, "_admission", _early_quorum),
    "window-of-all-slots": _method(SendSchedule, "__init__", _whole_window),
    "results-of-any-round": _method(Window, "find", _any_round),
    "newer-rounds-are-ignored": _all_of(_method(Window, "on_stale", _nothing), _method(Waiting, "stale", _nothing)),
    "nothing-is-sent-again": _method(Timers, "expiry", lambda _: lambda *_, **__: math.inf),
    "runs-have-no-token": _method(Greeting, "token", lambda _: lambda *_: 0),
    "runs-are-not-told-apart": _method(Greeting, "token", lambda _: lambda *_: 1 << 32),
    "runs-begin-in-the-same-round": lambda: mock.patch.object(handshake, "_later", lambda round_: round_),
    "handed-out-counts-as-sent": _method(CodecOperation, "take", _all_included),
    "left-out-counts-as-sent": _method(codec_operation, "_included", _nothing),
    "budget-for-every-worker": _method(udp, "allowance", _whole_budget),
    "flush-closes-with-any-number": _method(Buffers, "prepare", _flush_all),
    "lost-results-are-not-asked-for": _method(Recovery, "send", _nothing),
    "fall-back-is-not-agreed": _method(Control, "await_fallback", _alone),
    "fall-back-hands-nothing-out": _method(Coordinator, "_halting", _without_hand_outs),
    "fall-back-keeps-a-residual": _method(CodecOperation, "ordinary", _lossy_residual),
    "halt-does-not-wait": _method(OwnRank, "status", _halted_at_once),
    "return-does-not-hold": _method(Coordinator, "_fallback", _without_holding),
    "fall-back-from-the-least": _method(Coordinator, "_halting", _from_the_least),
    "ranks-keep-no-results": _method(OwnRank, "status", _keeps_nothing),
    "return-without-greeting": _method(OwnRank, "apply", _without_greeting),
    "control-has-no-lock": _method(Control, "__init__", _without_lock("_changed")),
    "workers-check-no-tags": _all_of(_method(Tags, "check", _zero), _method(Tags, "check_messages", _zero)),
    "blind-sends-in-the-clear": _method(Masks, "hide", _nothing),
    "blind-masks-come-twice": _method(Masks, "hide", _masks_again),
    "blind-runs-share-keys": _method(Keys, "for_run", _any_run),
    "blind-norms-in-the-clear": _method(Masks, "places", _zeros),
    "blind-sums-some-and-then-all": _all_of(
        _method(Job, "__init__", _carries), _method(OneTrip, "__post_init__", _nothing)
    ),
    "blind-norms-have-no-tags": _method(Places, "_tag", _zeros),
    "blind-sums-are-not-checked": _method(SumCheck, "finish", _nothing),
    "blind-believes-overflows": _method(Buffers, "__init__", _all_flags),
}
# Only jobs with a key show these.
OF_KEYS: Final = frozenset({"workers-check-no-tags"})
# Only threads that are preempted show these, in these modules soonest.
OF_PREEMPTION: Final[Mapping[str | None, tuple[str, ...]]] = {
    "control-has-no-lock": ("sumwire.job.control", "sumwire.job.coordination")
}
# Only blind jobs in two worlds show these, and the second ones only where switches do what they like.
OF_BLIND: Final = frozenset(name for name in MUTATIONS if name.startswith("blind-"))
OF_BYZANTINE: Final = frozenset({"blind-norms-have-no-tags", "blind-sums-are-not-checked"})


@contextlib.contextmanager
def mutated(name: str | None) -> Iterator[None]:
    """Within it this rule is broken; None breaks none."""
    if name is None:
        yield
        return
    switches.forget()
    try:
        with MUTATIONS[name]():
            yield
    finally:
        switches.forget()
