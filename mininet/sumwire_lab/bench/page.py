# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The page of `make bench`: one HTML file with charts as SVG, for readers who know neither the code nor the papers."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sumwire.systems import TABLE

from sumwire_lab.bench.benchmark import Chart, PageTable, Presentation, Row, Series, Suite
from sumwire_lab.study.records import label_of
from sumwire_lab.study.study import StudyResults

INTRODUCTION: Final = (
    "When several machines (workers) train one neural network together, each computes a gradient from its own part of "
    "the data, and after every step all of them need the mean of these gradients. On slow links, sending them takes "
    "most of the time. Sumwire compresses gradients and has a switch in the network add the packets as they pass, so "
    "that every worker sends its gradient once and gets the sum once.",
    "This page compares that with the usual way, in which workers pass their gradients around in a ring without help "
    "of the network, and with other published ways to compress them. Workers, links and switches are software on one "
    "machine: links are limited to the stated rate, and the ring runs over bridges of the kernel, which cost nothing. "
    "What the numbers say about a hardware switch is what the bytes on the links say, not the processor times.",
)

# Names in the lab that are not those of the library's systems.
_OTHER_NAMES: Final[Mapping[str, str]] = {
    "gloo": "ssgd: PyTorch's own all-reduce, the baseline",
    "marsit-adaptive": "marsit as the library has it; marsit here has the published rule, and no full precision",
    "marsit100": "marsit with the published rule and a round in full precision every 100 steps",
    **{f"powersgd{rank}": f"powersgd with rank {rank} and whole gradients in the first 10 steps" for rank in (1, 4)},
    "thc-bounded": "thc with a quorum, and with a bound of what may be lost",
    "topk10": "topk with a tenth of the values",
    "udp-ring": "dlcp-ring without a loss bound",
    "sign": "the codec of marsit: merged signs",
    "top-k": "the codec of topk",
}
_WAYS: Final = (
    "Over a switch, packets are summed by Sumwire's switch on their way (or by its software aggregator); over a group, "
    "workers talk to each other through PyTorch's process group, on bridges of the kernel. Systems that can do both "
    "take the switch, unless their name ends with @group. Bits are those a worker sends (up) and gets (down) for each "
    "value of the gradient, without headers; an all-reduce in a ring moves 2 (n - 1)/n times as many, for n workers."
)
_HEAD: Final = ("name", "what travels", "over", "bits up", "bits down", "limits", "published as")


def system_rows() -> list[tuple[str, ...]]:
    """Return a row for every system and transport, from the library's table."""
    rows = [
        (name, spec.what, transport, route.cost.up, route.cost.down, spec.limits, spec.paper)
        for name, spec in TABLE.items()
        for transport, route in spec.routes.items()
    ]
    return [*rows, *((name, what, "", "", "", "", "") for name, what in _OTHER_NAMES.items())]


_COLOURS: Final = (
    *("#4c566a", "#c2410c", "#0f766e", "#7c3aed", "#b91c1c", "#1d4ed8", "#a16207", "#be185d"),
    *("#4d7c0f", "#0891b2", "#78350f", "#6b7280"),
)
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
_WIDTH: Final = 8.4
_HEIGHT: Final = 4.2
# A line with more points than this is a curve without marks.
_MARKED: Final = 20


def svg(chart: Chart) -> str:
    """Return the chart as an SVG element."""
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    _draw(figure.add_subplot(), chart)
    buffer = io.StringIO()
    # Equal charts give equal text; different charts on one page need different ids.
    with matplotlib.rc_context({"svg.hashsalt": chart.title}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _draw(axes: Any, chart: Chart) -> None:
    colours: dict[str, int] = {}
    for series in chart.series:
        # A system and its bound have the same colour.
        number = colours.setdefault(owner(series), len(colours))
        _line(axes, series, number)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label, title=chart.title)
    if chart.log_x:
        axes.set_xscale("log")
    elif counts := whole_numbers(chart):
        axes.set_xticks(counts)
    if chart.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))


def whole_numbers(chart: Chart) -> list[float]:
    """Tick positions of an axis with a few whole numbers, such as workers; empty for any other axis."""
    found = sorted({x for series in chart.series for x, _ in series.points})
    return found if len(found) <= _MARKED and all(x.is_integer() for x in found) else []


def _line(axes: Any, series: Series, number: int) -> None:
    x, y = [point[0] for point in series.points], [point[1] for point in series.points]
    colour = _COLOURS[number % len(_COLOURS)]
    if series.bound:
        axes.plot(x, y, label=series.name, color=colour, linewidth=0.9, linestyle="--")
        return
    marker = _MARKERS[number % len(_MARKERS)] if len(x) <= _MARKED else None
    axes.plot(x, y, label=series.name, color=colour, linewidth=1.6, marker=marker, markersize=4)


def owner(series: Series) -> str:
    """Return the system of a line. A bound's name begins with that of its system."""
    return series.name.partition(",")[0]


_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1f2937; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem; }
td, th { padding: .25rem .7rem; border-bottom: 1px solid #d1d5db; text-align: left; vertical-align: top; }
.numbers td:not(:first-child), .numbers th:not(:first-child) { text-align: right; font-variant-numeric: tabular-nums; }
svg { max-width: 100%; height: auto; } figure { margin: 1.5rem 0; } figcaption, .how { color: #4b5563; }
.behind { background: #fef3c7; padding: .5rem 1rem .5rem 2rem; } .bad { background: #fee2e2; padding: .5rem 1rem; }
.wide { overflow-x: auto; } h2 { margin-top: 3rem; border-top: 2px solid #d1d5db; padding-top: 1rem; }
"""


@dataclass
class SuiteOutcome:
    """The result of one suite. ``failures``: a label and the reason for each case that raised an error. ``finished``:
    whether every case was tried."""

    suite: Suite
    planned: int = 0
    rows: list[Row] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    seconds: float = 0.0
    finished: bool = False

    def take(self, done: StudyResults, seconds: float) -> None:
        """Take in what the suite's study has by now."""
        self.rows = [row for record in done.records for row in record.rows]
        self.failures = [(label_of(one.case), (one.error or "").splitlines()[-1]) for one in done.failed]
        self.seconds = seconds

    def as_dict(self) -> dict[str, Any]:
        """Return the contents as values that JSON can hold."""
        failures = [{"label": label, "why": why} for label, why in self.failures]
        whole = {"planned": self.planned, "finished": self.finished, "seconds": self.seconds}
        return {**whole, "left_out": self.left_out, "failures": failures, "rows": self.rows}


@dataclass(frozen=True)
class Shown:
    """An outcome and its presentation."""

    outcome: SuiteOutcome
    presentation: Presentation
    drawn: tuple[str, ...]
    """The presentation's charts, as SVG."""

    @classmethod
    def of(cls, outcome: SuiteOutcome) -> Shown:
        presentation = presented(outcome)
        return cls(outcome, presentation, tuple(map(svg, presentation.charts)))


def presented(outcome: SuiteOutcome) -> Presentation:
    """Return the presentation of an outcome; empty without rows."""
    return outcome.suite.present(outcome.rows) if outcome.rows else Presentation()


def html_page(about: Mapping[str, Any], shown: Sequence[Shown]) -> str:
    """Return the whole page. `about`: the entries begun, options and machine of bench.json."""
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
        f"<h1>Sumwire benchmark</h1>\n{_paragraphs(INTRODUCTION)}"
        f"<p>Begun {_text(about['begun'])}, {kind}, {seconds / 60:.0f} minutes of measuring. "
        "All numbers below come out of this one run on one machine; it is described at the end.</p>"
        f"<ul>{items}</ul>"
    )


def _state(outcome: SuiteOutcome) -> str:
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
        _sentences([f"{label}: {why}" for label, why in outcome.failures], "bad", "Failed:"),
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


def _table(table: PageTable) -> str:
    note = f"<p class='how'>{_text(table.note)}</p>" if table.note else ""
    return f'<h3>{_text(table.title)}</h3><div class="wide">{_cells(table.head, table.rows, "numbers")}</div>{note}'


def _cells(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str) -> str:
    top = "".join(f"<th>{_text(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f'<table class="{kind}"><tr>{top}</tr>\n{body}</table>'


def _words() -> str:
    table = _cells(_HEAD, system_rows(), "words")
    return f'<h2 id="systems">The systems</h2>\n<p>{_text(_WAYS)}</p><div class="wide">{table}</div>'


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
