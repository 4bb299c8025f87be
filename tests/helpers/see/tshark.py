# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What tshark says of a capture, with the dissector."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from golden.packets import Packet
from sumwire_protocol.wireshark.table import DISSECTOR

FIELDS = tuple(name for name in Packet._fields if name not in ("payload", "tag"))
EXPERTS = ("stale", "resent", "lost", "duplicate", "flush", "incomplete", "refused", "bad_version", "bad_length",
           "bad_words", "bad_code")  # fmt: skip
LINKS = ("answer_in", "answers", "time", "time_first", "copy_of", "copy")
_BETWEEN = "|"
# Of a whole run on a busy machine.
_LIMIT_S = 600.0
Row = dict[str, str]


def rows(path: Path, names: Sequence[str], *options: str, dissector: Path = DISSECTOR) -> list[Row]:
    """Fields of every frame as tshark writes them; several of one name with commas between."""
    command = ["tshark", "-n", "-2", "-X", f"lua_script:{dissector}", *options, "-r", str(path), "-T", "fields"]
    command += ["-E", f"separator={_BETWEEN}", "-E", "occurrence=a"]
    for name in names:
        command += ["-e", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=True)
    assert "Lua" not in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    return [dict(zip(names, line.split(_BETWEEN), strict=True)) for line in lines]


def number(text: str) -> int:
    """A number as tshark writes it."""
    return int(text, 0)


def packets(path: Path, *more: str) -> list[tuple[dict[str, int], Row]]:
    """The header's fields of every Sumwire packet, and other fields (``sumwire.`` is put before their names)."""
    names = [f"sumwire.{name}" for name in (*FIELDS, *more)]
    found = []
    for row in rows(path, ["frame.number", "frame.protocols", *names]):
        if row["sumwire.kind"]:
            fields = {name: number(row[f"sumwire.{name}"]) for name in FIELDS}
            found.append((fields, {name.removeprefix("sumwire."): text for name, text in row.items()}))
    return found
