# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmark page: one HTML file, for readers who do not know the code."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sumwire_lab.bench import charts, glossary
from sumwire_lab.bench.suite import Chart, Outcome, Presentation, Table

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1f2937; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem; }
td, th { padding: .25rem .7rem; border-bottom: 1px solid #d1d5db; text-align: left; vertical-align: top; }
.numbers td:not(:first-child), .numbers th:not(:first-child) { text-align: right; font-variant-numeric: tabular-nums; }
svg { max-width: 100%; height: auto; } figure { margin: 1.5rem 0; } figcaption, .how { color: #4b5563; }
.behind { background: #fef3c7; padding: .5rem 1rem .5rem 2rem; } .bad { background: #fee2e2; padding: .5rem 1rem; }
.wide { overflow-x: auto; } h2 { margin-top: 3rem; border-top: 2px solid #d1d5db; padding-top: 1rem; }
"""


@dataclass(frozen=True)
class Shown:
    """An outcome and its presentation."""

    outcome: Outcome
    presentation: Presentation
    drawn: tuple[str, ...]
    """The presentation's charts, as SVG."""

    @classmethod
    def of(cls, outcome: Outcome) -> Shown:
        presentation = presented(outcome)
        return cls(outcome, presentation, tuple(map(charts.svg, presentation.charts)))


def presented(outcome: Outcome) -> Presentation:
    """Presentation of an outcome; empty without rows."""
    return outcome.suite.present(outcome.rows) if outcome.rows else Presentation()


def html_page(about: Mapping[str, Any], shown: Sequence[Shown]) -> str:
    """The whole page. `about`: the entries begun, options and machine of bench.json."""
    parts = [_opening(about, shown), _behind(shown), *(_suite(one) for one in shown), _words(), _machine(about)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Sumwire benchmark</title>'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _opening(about: Mapping[str, Any], shown: Sequence[Shown]) -> str:
    kind = "a quick run: fewer sizes and steps" if about["options"]["quick"] else "a full run"
    seconds = sum(one.outcome.seconds for one in shown)
    items = "".join(
        f'<li><a href="#{one.outcome.suite.name}">{_text(one.outcome.suite.title)}</a>: '
        f"{_text(one.outcome.suite.question)} {_text(_state(one.outcome))}</li>"
        for one in shown
    )
    return (
        f"<h1>Sumwire benchmark</h1>\n{_paragraphs(glossary.INTRODUCTION)}"
        f"<p>Begun {_text(about['begun'])}, {kind}, {seconds / 60:.0f} minutes of measuring. "
        "All numbers below come out of this one run on one machine; it is described at the end.</p>"
        f"<ul>{items}</ul>"
    )


def _state(outcome: Outcome) -> str:
    """A note for an outcome that is not complete; empty for one that is."""
    if outcome.failures or not outcome.finished:
        done = "interrupted" if not outcome.finished else "not complete"
        return f"({done}: {len(outcome.failures)} of {outcome.planned} cases failed)"
    return ""


def _behind(shown: Sequence[Shown]) -> str:
    """The section on where Sumwire loses, from all presentations."""
    items = [
        f"<li>{_text(sentence)} <a href='#{one.outcome.suite.name}'>{_text(one.outcome.suite.title)}</a></li>"
        for one in shown
        for sentence in one.presentation.behind
    ]
    words = "".join(items) or "<li>Nowhere, in what was measured in this run.</li>"
    return f'<h2 id="behind">Where Sumwire loses</h2>\n<ul class="behind">{words}</ul>'


def _suite(one: Shown) -> str:
    suite, outcome = one.outcome.suite, one.outcome
    parts = [
        f'<h2 id="{suite.name}">{_text(suite.title)}</h2>',
        f"<p><b>{_text(suite.question)}</b></p>",
        f'<p class="how">{_text(suite.how)}</p>',
        *(_figure(chart, drawn) for chart, drawn in zip(one.presentation.charts, one.drawn, strict=True)),
        *(_table(table) for table in one.presentation.tables),
        _sentences(one.presentation.behind, "behind", "Here Sumwire loses:"),
        _sentences([f"{failure.label}: {failure.why}" for failure in outcome.failures], "bad", "Failed:"),
        _sentences(outcome.left_out, "how", "Left out:"),
    ]
    if not outcome.rows and not outcome.failures:
        parts.append("<p>Nothing was measured.</p>")
    return "\n".join(part for part in parts if part)


def _figure(chart: Chart, drawn: str) -> str:
    note = f"<figcaption>{_text(chart.note)}</figcaption>" if chart.note else ""
    return f"<figure>{drawn}{note}</figure>"


def _sentences(sentences: Sequence[str], kind: str, opening: str) -> str:
    if not sentences:
        return ""
    items = "".join(f"<li>{_text(sentence)}</li>" for sentence in sentences)
    return f'<div class="{kind}">{opening}<ul>{items}</ul></div>'


def _table(table: Table) -> str:
    note = f"<p class='how'>{_text(table.note)}</p>" if table.note else ""
    return f'<h3>{_text(table.title)}</h3><div class="wide">{_cells(table.head, table.rows, "numbers")}</div>{note}'


def _cells(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str) -> str:
    top = "".join(f"<th>{_text(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f'<table class="{kind}"><tr>{top}</tr>\n{body}</table>'


def _words() -> str:
    table = _cells(glossary.HEAD, glossary.systems(), "words")
    return f'<h2 id="systems">The systems</h2>\n<p>{_text(glossary.WAYS)}</p><div class="wide">{table}</div>'


def _machine(about: Mapping[str, Any]) -> str:
    options = ", ".join(f"{name} {value}" for name, value in about["options"].items())
    return (
        "<h2 id='machine'>The machine</h2>\n"
        + _cells(("", ""), tuple(about["machine"].items()), "words")
        + f"<p>Options: {_text(options)}. All rows are in bench.json, beside this page.</p>"
    )


def _paragraphs(texts: Sequence[str]) -> str:
    return "".join(f"<p>{_text(text)}</p>\n" for text in texts)


def _text(value: object) -> str:
    return html.escape(str(value))
