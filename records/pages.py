# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/measurements.md, pictures, and the numbers in pages from records: `make pages`.

    python records/pages.py [--take results]

A record is a JSON file beside this one: a command, when, where and on which commit it ran, and its rows, one for each
promise with the latest value. ``--take`` puts what the verify commands have written to ``results`` into the records
first. A number in a page stands between ``<!--= speed: codec -->``, which names its record and row, and ``<!--/-->``.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from sumwire_lab.study.figures import Figure, draw

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "records"
PAGE = ROOT / "docs" / "measurements.md"
IMAGES = ROOT / "docs" / "images"
# The fastest systems of a kind: the headline's pictures have these.
DRAWN = ("gloo", "fp16", "powersgd", "naive4", "thc", "acp", "ef-sign", "marsit-adaptive")
# With numbers that are from records.
FILLED = ("README.md",)
VALUES_KEPT = 5
HELD = "rows that hold"
_MARK = re.compile(r"<!--= ([\w-]+): ([^>]+?) -->(.*?)<!--/-->", re.DOTALL)
_HEAD = """\
# Measurements

`make pages` makes this page from the records in `records/`. It has each promise's latest value, with the command that
measures it again. Other pages explain; [where it pays](where-it-pays.md) has the grid of sizes and link rates, and
[the benchmark](benchmark.md) makes a page of your own.

Unless a section says otherwise, workers, switches and codecs all ran on two cores of one virtual machine, four workers
in network namespaces, on links that HTB limits to the rate given, with gloo's offloads on. **TCP is CUBIC in rows of 30
November 2026 and later, and was BBR before**: with that gloo takes 12 to 28 % longer at 10 and 100 Mbit/s. "gloo / THC"
is gloo's time over THC's, in one run. *Earlier* has values of other days and machines, oldest first. A row in bold does
not hold. The commit is the one that a command ran on, or the one that first printed its values.
"""

Record = dict[str, Any]


class Picture(NamedTuple):
    """A picture of a record's row: a panel for each name in the row's value, in it a line for each name, over the
    numbers that the row's check lists in brackets. ``lines``: of which names; all by default."""

    name: str
    row: tuple[str, str]
    figure: Figure
    lines: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return IMAGES / self.name

    def points(self, known: list[Record]) -> list[Record]:
        """Return the figure's rows. A value that is no number, as "never", has none."""
        record, check = self.row
        [row] = [row for one in known if one["id"] == record for row in one["rows"] if row["check"] == check]
        places = [float(place) for place in check[check.index("[") + 1 : check.index("]")].split(",")]
        return [
            {self.figure.panel: panel, self.figure.by: line, "at": at, "value": value}
            for panel, values in row["value"].items()
            for line in self.lines or values
            for at, value in zip(places, values[line], strict=True)
            if not isinstance(value, str)
        ]


PICTURES = (
    Picture(
        "time-to-accuracy.svg",
        ("evidence", "seconds to an accuracy at [10, 100, 1000] Mbit/s"),
        Figure(
            "at",
            "value",
            by="system",
            panel="to",
            log_x=True,
            log_y=True,
            x_label="link, Mbit/s",
            y_label="training, s",
        ),
        DRAWN,
    ),
    Picture(
        "bytes-to-accuracy.svg",
        ("evidence", "MB that a worker sends until [50, 75, 90, 100] % of the accuracy"),
        Figure(
            "value", "at", by="system", panel="to", log_x=True, x_label="a worker sent, MB", y_label="accuracy, % of it"
        ),
        DRAWN,
    ),
    Picture(
        "loss-bound.svg",
        (
            "dlcp-server",
            "jobs in virtual time, p = 0 / p = 5 %, mean of a step: round trip, loss, [5, 20, 100, 500] chunks",
        ),
        Figure("at", "value", by="lost", panel="over", log_x=True, x_label="chunks", y_label="without / with a bound"),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make pages from records.")
    parser.add_argument("--take", type=Path, metavar="RESULTS", help="take verify-TOPIC.json of this folder first")
    arguments = parser.parse_args()
    if arguments.take is not None:
        for path in sorted(arguments.take.glob("verify-*.json")):
            record = RECORDS / f"{path.stem.removeprefix('verify-')}.json"
            new = taken(json.loads(path.read_text()), json.loads(record.read_text()))
            new |= {"date": date.today().isoformat(), "commit": _commit()}
            record.write_text(json.dumps(new, indent=1, ensure_ascii=False) + "\n")
    known = records()
    PAGE.write_text(page(known))
    for picture in PICTURES:
        draw(picture.figure, picture.points(known), picture.path)
    for name in FILLED:
        (ROOT / name).write_text(filled((ROOT / name).read_text(), known))


def records(folder: Path = RECORDS) -> list[Record]:
    """All records, in the order of their numbers ``place``, then of their names."""
    found = [{"id": path.stem, **json.loads(path.read_text())} for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda record: record.get("place", len(found)))


def taken(found: list[Record], record: Record) -> Record:
    """A record with what a verify command found: its own rows, those that do not hold, and how many hold.

    A value that is replaced becomes an earlier one of its row. A row that was not measured stays as it is.
    """
    judged = [row for row in found if row["holds"] is not None]
    whole = {"check": HELD, "value": f"{sum(row['holds'] for row in judged)} of {len(judged)}", "target": "all"}
    fresh = {row["check"]: row for row in [whole, *found]}
    named = {row["check"] for row in record["rows"]} | {HELD}
    rows = [_later(row, fresh.get(row["check"])) for row in record["rows"]]
    rows += [row for check, row in fresh.items() if check not in named and row.get("holds") is False]
    return {**record, "rows": rows}


def _commit() -> str:
    words = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _later(row: Record, fresh: Record | None) -> Record:
    """A row with its new value, if it has one."""
    if fresh is None or fresh["value"] is None:
        return row
    return {**fresh, "earlier": [*row.get("earlier", []), row["value"]][-VALUES_KEPT:]}


def page(known: list[Record]) -> str:
    """The whole page."""
    return "\n".join([_HEAD, *map(_section, known)])


def _section(record: Record) -> str:
    head = f'## <a id="{record["id"]}"></a>{record["title"]}\n\n'
    where = f"`{record['command']}`, {record['date']}, commit {record['commit']}. {record['conditions']}"
    spread = any("earlier" in row for row in record["rows"])
    columns = ["check", "value", "target", *(["earlier"] if spread else [])]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for row in record["rows"]:
        value = f"**{_cell(row['value'])}**" if row.get("holds") is False else _cell(row["value"])
        earlier = [", ".join(_cell(one) for one in row.get("earlier", []))] if spread else []
        lines.append(f"| {' | '.join([_escaped(row['check']), value, _escaped(row.get('target', '')), *earlier])} |")
    return head + where + "\n\n" + "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return "not measured"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    if isinstance(value, dict):
        return "; ".join(f"{name}{':' if isinstance(one, dict) else ''} {_cell(one)}" for name, one in value.items())
    return _escaped(str(value))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def filled(text: str, known: list[Record]) -> str:
    """A page with its marked numbers. Raises SystemExit for a mark that no record has."""
    by_name = {record["id"]: {row["check"]: row["value"] for row in record["rows"]} for record in known}

    def number(mark: re.Match[str]) -> str:
        record, check = mark.group(1), mark.group(2)
        if check not in by_name.get(record, {}):
            raise SystemExit(
                f"{mark.group(0)}: no row {check!r} in records/{record}.json; measure it, or correct the mark"
            )
        return f"<!--= {record}: {check} -->{_cell(by_name[record][check])}<!--/-->"

    return _MARK.sub(number, text)


if __name__ == "__main__":
    sys.exit(main())
