# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What of a program the packets of a trace did not reach: parser states, tables, actions, outcomes of conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from commonlib.logs import printable
from commonlib.untrusted import UntrustedInputError, json_of

from softswitch.errors import DeviceError
from softswitch.program import ir

Part = tuple[str, ...]
_KINDS: Final = {
    "state": "parser states",
    "table": "tables",
    "action": "actions",
    "condition": "outcomes of conditions",
}


class TraceError(DeviceError):
    """A file that is no trace of the program."""


def _parts(program: ir.Program) -> dict[Part, str]:
    """All that packets can reach, and what is said of it if they do not."""
    parts: dict[Part, str] = {
        ("state", name): f"parser state '{name}' was never entered" for name in program.parser.states
    }
    actions = {action.index: action for action in program.actions}
    for pipeline in (program.ingress, program.egress):
        for node in pipeline.nodes.values():
            if isinstance(node, ir.Conditional):
                for value in (True, False):
                    said = f'{node.source} condition "{node.source.fragment}" ({node.name})'
                    parts["condition", node.name, str(value)] = f"{said} was never {str(value).lower()}"
                continue
            parts["table", node.name] = f"{node.source} table '{node.name}' was never applied"
            for index in node.actions:
                action = actions[index]
                place = action.source if action.source.line else node.source  # empty actions have no line
                said = f"{place} action '{action.name}' of table '{node.name}' never ran"
                parts["action", node.name, action.name] = said
    return parts


def _reached(events: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    for event in events:
        match event:
            case {"event": "parser_state", "state": state}:
                yield "state", state
            case {"event": "table", "table": table}:
                yield "table", table
            case {"event": "action", "table": table, "action": action}:
                yield "action", table, action
            case {"event": "condition", "name": name, "value": value} if name:
                yield "condition", name, str(value)
        yield from _reached(event.get("events", ()))


class Coverage:
    """Called with each packet of a trace."""

    def __init__(self, program: ir.Program) -> None:
        self._parts = _parts(program)
        self._left = dict(self._parts)

    def __call__(self, packet: Mapping[str, Any]) -> None:
        """Raises UntrustedInputError if the program has not what the packet reached."""
        for part in _reached(packet["events"]):
            if part not in self._parts:
                raise UntrustedInputError(f"it tells of {' '.join(part)}, which this program does not have")
            self._left.pop(part, None)

    def lines(self) -> Iterator[str]:
        """Return how much was reached, and then what was not. Of a table that was never applied, no action is told."""
        counts = []
        for kind, named in _KINDS.items():
            of_kind = [part for part in self._parts if part[0] == kind]
            counts.append(f"{sum(part not in self._left for part in of_kind)} of {len(of_kind)} {named}")
        yield ", ".join(counts)
        for part, said in self._left.items():
            if part[0] != "action" or ("table", part[1]) not in self._left:
                yield printable(said)


def coverage_lines(program: ir.Program, file: Path) -> Iterator[str]:
    """Return the lines of a trace ``FILE.jsonl``. Raises TraceError."""
    coverage = Coverage(program)
    try:
        opened = file.open(encoding="ascii", errors="backslashreplace")
    except OSError as error:
        raise TraceError(
            f"--coverage {file}: {error.strerror}; name a file that --trace FILE.jsonl has written of the same program"
        ) from error
    with opened:
        for number, line in enumerate(opened, 1):
            try:
                coverage(json_of(line))
            except (UntrustedInputError, TypeError, KeyError, AttributeError) as error:
                raise TraceError(
                    f"{file}:{number}: no packet of a trace: {error}; give what --trace FILE.jsonl has written of the "
                    "same program"
                ) from error
    yield from coverage.lines()
