# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Fills the templates. Jinja2 escapes everything except this package's own markup."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from sumwire_lab.options.recipes import BASELINE, BASELINES, TASKS
from sumwire_lab.run import report
from sumwire_lab.run.page import charts, network, opening
from sumwire_lab.run.report import Comparison, Line
from sumwire_lab.run.results import SystemResult

_TEMPLATES: Final = Path(__file__).with_name("templates")
COLOURS: Final = 13
"""Colours that the style sheet has for systems; the first is gloo's."""
_OPEN: Final = 2
"""Drawings of so many systems are open; those of others are folded."""


@cache
def environment() -> Environment:
    """Return the environment of the templates."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.globals["asset"] = lambda name: Markup(_asset(name))
    made.globals["digest"] = _digest
    made.globals["width"] = network.WIDTH
    return made


def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text()


def _digest(name: str) -> Markup:
    """The hash by which a page's policy lets this script run, and no other one."""
    digest = hashlib.sha256(_asset(name).encode()).digest()
    return Markup(f"'sha256-{base64.b64encode(digest).decode()}'")


def page(summary: dict[str, Any], results: Sequence[SystemResult]) -> str:
    """Return the whole report of a run."""
    return environment().get_template("report.html.j2").render(content(summary, results))


def body(summary: dict[str, Any], results: Sequence[SystemResult]) -> str:
    """Return the report without its frame, for a page that follows the run."""
    return environment().get_template("body.html.j2").render(content(summary, results))


def live() -> str:
    """Return the frame of a page that follows a run."""
    shown = {"title": "Sumwire: a run", "connect": "'self'"}
    return environment().get_template("live.html.j2").render(shown)


def comparison(found: Comparison) -> str:
    """Return the page that compares two runs."""
    systems: dict[str, list[Line]] = {}
    for line in found.lines:
        systems.setdefault(line.system, []).append(line)
    shown = {"title": "Two Sumwire runs", "found": found, "systems": list(systems.items())}
    return environment().get_template("compare.html.j2").render(shown)


def content(summary: dict[str, Any], results: Sequence[SystemResult]) -> dict[str, Any]:
    """Return the values that the template shows."""
    colours = colours_of(list(summary["systems"]))
    compared = list(summary["answer"])
    own = [name for name in compared if name not in BASELINES] or compared
    first = own[0] if own else next(iter(summary["systems"]), "")
    drawn = [charts.drawn(curve, colours) for curve in charts.curves(results, summary["target_accuracy"])]
    drawings = [network.drawing(name, entry.get("links", [])) for name, entry in summary["systems"].items()]
    lines = report.shown_rows(summary)
    return {
        "title": f"Sumwire: {', '.join(summary['systems'])}",
        "setting": setting(summary),
        "answer": opening.headline(summary, first),
        "cards": [(name, opening.cards(summary, name, colours)) for name in compared],
        "regressions": opening.regressions(summary),
        "unlike": [*report.uneven(summary), *report.unlike(summary)],
        "colours": colours,
        "plots": [(one, Markup(one.svg)) for one in drawn],
        "points": {one.key: one.points for one in drawn},
        "networks": [one for one in drawings if one is not None],
        "timelines": charts.timelines(results),
        "shares": charts.shares(summary, colours),
        "head": lines[0],
        "lines": lines[1:],
        "lanes": report.lane_rows(summary),
        "baseline": BASELINE,
        "measured": measured(summary),
        "open": _OPEN,
        "summary": json.dumps(summary, indent=1),
    }


def colours_of(systems: Sequence[str]) -> dict[str, int]:
    """Return the number of each system's colour. The first one is reserved for gloo."""
    others = [name for name in systems if name != BASELINE]
    return {BASELINE: 0, **{name: 1 + k % (COLOURS - 1) for k, name in enumerate(others)}}


def setting(summary: dict[str, Any]) -> list[str]:
    """Return what was measured, in a few words each."""
    switch = summary["switch"] + (f", {summary['engine']} engine" if summary["engine"] else "")
    parts = [
        f"{summary['workers']} workers",
        f"{summary['link_mbit']:g} Mbit/s links",
        summary["topology"],
        f"switch: {switch}",
        TASKS[summary["task"]].title,
        f"queues of {summary['queue_packets']} packets",
        *([f"TCP by {summary['control']}"] if "control" in summary else []),
        f"seed {summary['seed']}",
    ]
    if summary["impair"]:
        parts.append(f"impaired: {summary['impair']}")
    conditions = summary.get("conditions") or {}
    parts += [opening.condition(name, value) for name, value in conditions.items() if value]
    return parts


def measured(summary: dict[str, Any]) -> str:
    """Return when and where the run was measured; "" if it did not record that."""
    known = summary.get("machine")
    if known is None:
        return ""
    return (
        f"Measured at {known['measured_at']} on {known['cores']} cores of {known['processor']}, {known['kernel']}, "
        f"Python {known['python']}, PyTorch {known['torch']}, Sumwire {known['sumwire']}. All workers and switches "
        "share these cores."
    )


def write(folder: Path, summary: dict[str, Any], results: Sequence[SystemResult]) -> None:
    """Write summary.json and report.html into the folder."""
    (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    (folder / "report.html").write_text(page(summary, results))
