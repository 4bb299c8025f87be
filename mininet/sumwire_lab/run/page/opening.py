# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers as a reader sees them on a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sumwire_lab.options.recipes import BASELINE

NONE: Final = "–"
_UNITS: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def seconds(value: float | None) -> str:
    """Return seconds in words, or milliseconds below a tenth of a second."""
    if value is None:
        return NONE
    if value < 0.1:
        return f"{1000 * value:.1f} ms"
    # Three digits.
    return f"{value:.3f} s" if value < 1 else f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def times(value: float | None) -> str:
    """Return a ratio as text."""
    if value is None:
        return NONE
    return f"{value:.0f}×" if value >= 20 else f"{value:.1f}×" if value >= 10 else f"{value:.2f}×"


def share(value: float | None) -> str:
    """Return a share as a percentage."""
    return NONE if value is None else f"{100 * value:.1f} %" if value < 0.1 else f"{100 * value:.0f} %"


def accuracy(value: float | None) -> str:
    """Return a test accuracy as text."""
    return NONE if value is None else f"{100 * value:.2f} %"


def size(value: float | None) -> str:
    """Return a number of bytes as text."""
    if value is None:
        return NONE
    unit, name = next(((unit, name) for unit, name in _UNITS if value >= unit), (1.0, "B"))
    return f"{value / unit:.3g} {name}" if value < 1000 * unit else f"{value / unit:.0f} {name}"


def condition(name: str, value: Any) -> str:
    """Return a condition of the run in words, from its key and value in summary.json."""
    where, _, amount = str(value).partition(":")
    forms: dict[str, Callable[[], str]] = {
        "loss": lambda: f"{100 * value:g} % loss on every link",
        "gray": lambda: f"{100 * float(amount):g} % loss on the link of h{where}",
        "background": lambda: f"TCP flows ask for {100 * value:g} % of a link",
        "incast_kb": lambda: f"incast of {value} kB twice a second",
        "slow": lambda: f"h{where} computes {float(amount):g} times as long",
    }
    return forms[name]() if name in forms else f"{name}: {value}"


def points(value: float | None) -> str:
    """Return a difference in percentage points."""
    return NONE if value is None else f"{value:+.2f}"


@dataclass(frozen=True)
class Bar:
    """One system's bar: its length and, if there is one, a mark for the possible length; both between 0 and 1."""

    system: str
    colour: int
    text: str
    length: float
    mark: float | None = None
    tip: str = ""


@dataclass(frozen=True)
class Card:
    """One number of the answer. `path`: its place in summary.json. `value`: the value there."""

    path: str
    value: float | None
    shown: str
    label: str
    bars: tuple[Bar, ...]
    note: str = ""


def headline(summary: Mapping[str, Any], system: str) -> str:
    """Return the run's answer as a sentence."""
    found = summary["answer"].get(system)
    if found is None:
        return f"{', '.join(summary['systems'])}: there is no comparison without {BASELINE}."
    target = f"{summary['target_accuracy']:.0%} test accuracy"
    parts = []
    if found["communication"] is not None:
        parts.append(
            f"spends {_compared(found['communication'], 'less', 'more')} time on communication than {BASELINE}"
        )
    if found["time_to_accuracy"] is not None:
        parts.append(f"reaches {target} {_compared(found['time_to_accuracy'], 'sooner', 'later')}")
    if found["accuracy_points"] is not None:
        parts.append(f"ends {_beside(found['accuracy_points'])}")
    said = f"{system} {_listed(parts)}." if parts else f"{system}: nothing to compare yet."
    best, over = found["best_baseline"], found["over_best"]
    if best in (None, BASELINE, system) or over is None:
        return said
    return f"{said} It reaches {target} {_compared(over, 'sooner', 'later')} than {best}, the best baseline."


def cards(summary: Mapping[str, Any], system: str, colours: Mapping[str, int]) -> list[Card]:
    """Return the cards of one system against gloo; empty without gloo."""
    found = summary["answer"].get(system)
    if found is None:
        return []
    bound, target = found["bound"], summary["target_accuracy"]
    base = summary["systems"][BASELINE]
    reach = None if not bound or not base.get("comm_s_per_step") else base["comm_s_per_step"] / bound
    path = f"answer.{system}."
    return [
        Card(
            f"{path}communication", found["communication"], times(found["communication"]),
            _label(found["communication"], "less communication time per step", f"{BASELINE}'s communication speed"),
            _bars(summary, system, colours, "comm_s_per_step", seconds, reach=reach),
            _allowed(bound, found["communication"]),
        ),
        Card(
            f"{path}time_to_accuracy", found["time_to_accuracy"], times(found["time_to_accuracy"]),
            _label(found["time_to_accuracy"], f"sooner to {target:.0%} test accuracy", f"{BASELINE}'s speed to it"),
            _bars(summary, system, colours, "time_to_target_s", seconds),
            _over_best(found),
        ),
        Card(
            f"{path}accuracy_points", found["accuracy_points"], points(found["accuracy_points"]),
            f"points of test accuracy compared with {BASELINE}",
            _bars(summary, system, colours, "accuracy", accuracy),
        ),
        Card(
            f"{path}bytes", found["bytes"], times(found["bytes"]),
            _label(found["bytes"], "fewer bytes on a worker's link", f"{BASELINE}'s bytes over its own"),
            _bars(summary, system, colours, "wire_bytes_per_step", size),
            "Per step, both directions, headers included.",
        ),
    ]  # fmt: skip


def _over_best(found: Mapping[str, Any]) -> str:
    if found["time_to_accuracy"] is None:
        return "At least one of them did not reach it."
    best = found["best_baseline"]
    return "" if best in (None, BASELINE) else f"{times(found['over_best'])} with {best}, the best baseline."


def _bars(
    summary: Mapping[str, Any],
    system: str,
    colours: Mapping[str, int],
    key: str,
    show: Callable[[float | None], str],
    *,
    reach: float | None = None,
) -> tuple[Bar, ...]:
    values = {name: summary["systems"][name].get(key) for name in (BASELINE, system)}
    most = max((value for value in values.values() if value), default=1.0)
    made = []
    for name, value in values.items():
        mark = reach if name == system else None
        tip = f"{name}: {show(value)}" + ("" if mark is None else f"; by the bytes at line rate: {show(mark)}")
        place = None if mark is None else min(1.0, mark / most)
        made.append(Bar(name, colours[name], show(value), (value or 0.0) / most, place, tip))
    return tuple(made)


def _allowed(bound: float | None, reached: float | None) -> str:
    if bound is None:
        return ""
    beyond = f" Beyond it, {BASELINE} leaves its links idle." if reached is not None and reached > bound else ""
    return f"The bytes on a link allow {times(bound)}: the mark.{beyond}"


def _label(ratio: float | None, better: str, worse: str) -> str:
    return better if ratio is None or ratio >= 1 else worse


def _compared(ratio: float, better: str, worse: str) -> str:
    return f"{_plain(ratio)} times {better}" if ratio >= 1 else f"{_plain(1 / ratio)} times {worse}"


def _plain(ratio: float) -> str:
    return times(ratio).removesuffix("×")


def _beside(points: float) -> str:
    if abs(points) < 0.005:
        return "at the same accuracy"
    return f"{abs(points):.2f} points {'above' if points > 0 else 'below'}"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


# Differences below this share are within what two runs of the same system differ by.
_NOTABLE: Final = 0.05
_POINTS: Final = 0.2
# A system that stays further below the bound of its bytes says why.
_OF_BOUND: Final = 0.8
_WORSE: Final = {
    "comm_s_per_step": "communication takes {mine} a step; gloo's takes {base}",
    "compute_s_per_step": "the rest of a step takes {mine}; gloo's takes {base}",
    "time_to_target_s": "the target accuracy comes after {mine}; gloo's after {base}",
    "comm_s_per_step_p99": "one step in a hundred communicates for {mine} or longer; gloo's for {base}",
}


def regressions(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each measure in which a system is slower than gloo, or than its bytes allow."""
    systems = summary["systems"]
    return [
        f"{name}: {text}."
        for name, entry in systems.items()
        if name != BASELINE
        for text in _of(summary, name, entry, systems.get(BASELINE))
    ]


def _of(
    summary: Mapping[str, Any], name: str, entry: Mapping[str, Any], base: Mapping[str, Any] | None
) -> Iterator[str]:
    if base is not None:
        yield from _against(entry, base)
        found = summary["answer"][name]
        if found["communication"] and found["bound"] and found["communication"] < _OF_BOUND * found["bound"]:
            reached = found["communication"] / found["bound"]
            codec = entry.get("codec_s_per_step")
            why = "" if codec is None else f"; encoding and decoding take {seconds(codec)} of a step"
            yield f"communication reaches {reached:.0%} of the speed-up that its bytes allow{why}"
    if entry.get("nmse"):
        yield f"a mean gradient is not exact: its squared error is {entry['nmse']:.2%} of its squared norm (NMSE)"
    for key, what in (
        ("retransmissions", "packets were sent again"),
        ("fallbacks", "fall-backs to gloo, counted at each worker"),
    ):
        if entry.get(key):
            yield f"{entry[key]} {what}"
    if entry.get("replicas_equal") is False:
        yield "the workers' models differ at the end"


def _against(entry: Mapping[str, Any], base: Mapping[str, Any]) -> Iterator[str]:
    for key, form in _WORSE.items():
        mine, theirs = entry.get(key), base.get(key)
        if mine is not None and theirs is not None and mine > (1 + _NOTABLE) * theirs:
            yield form.format(mine=seconds(mine), base=seconds(theirs))
    if entry.get("time_to_target_s") is None and base.get("time_to_target_s") is not None:
        yield "it does not reach the target accuracy, and gloo does"
    mine, theirs = entry.get("accuracy"), base.get("accuracy")
    if mine is not None and theirs is not None and 100 * (theirs - mine) > _POINTS:
        yield f"it ends at {accuracy(mine)} test accuracy, gloo at {accuracy(theirs)}"
    steps, others = entry.get("steps_to_target"), base.get("steps_to_target")
    if steps and others and steps > (1 + _NOTABLE) * others:
        yield f"it needs {steps} steps to the target accuracy, gloo {others}"
