# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The list of events against the code that tells them, the tests that see them, and the page that shows them."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from commonlib.events import AGGREGATOR, ALL, CONTROLLER, HOST, LAB, SOFT, UP, LogEvent, ProgramEvent, as_markdown
from helpers.logs import EVENTS
from helpers.paths import ROOT
from softswitch.events import SwitchEvent
from sumwire_protocol.events import Event

VOCABULARIES: dict[str, type[LogEvent]] = {
    "ProgramEvent": ProgramEvent, "SwitchEvent": SwitchEvent, "Event": Event, "Logged": Event, "Events": Event,
}  # fmt: skip
PACKAGES = {
    "protocol/sumwire_protocol": (), "common/commonlib": (),
    "host/sumwire": (HOST, AGGREGATOR, UP), "host/sumwire/aggregator": (AGGREGATOR,),
    "controller/sumwire_controller": (CONTROLLER,), "switch/softswitch": (SOFT,), "mininet/sumwire_lab": (LAB,),
}  # fmt: skip
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
LOGGERS = {"_LOG", "_log", "log", "logger"}
# Fields that any event may have.
PLACES = {"job", "worker", "switch"}


@functools.cache
def sources() -> dict[str, ast.Module]:
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    # Most files log nothing.
    return {name: ast.parse(text) for name, text in texts.items() if re.search(r"getLogger|events", text)}


def event_in(node: ast.AST) -> LogEvent | None:
    """The event that ``VOCABULARY.NAME`` stands for."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in VOCABULARIES:
        return VOCABULARIES[node.value.id].__members__.get(node.attr)
    return None


@functools.cache
def uses() -> list[tuple[str, LogEvent, ast.Call | None]]:
    """Each place where an event is named, with the call that tells it."""
    return list(_uses())


def _uses() -> Iterator[tuple[str, LogEvent, ast.Call | None]]:
    for path, tree in sources().items():
        calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            if event := event_in(node):
                yield path, event, calls.get(id(node))


def test_names_are_words_and_differ() -> None:
    words = [event.word for event in EVENTS]
    assert len(set(words)) == len(words)
    assert all(event.word == event.name.lower() and re.fullmatch(r"[a-z]+(_[a-z]+)*", event.word) for event in EVENTS)
    taken = PLACES | {"time", "level", "event", "message", "traceback"}
    assert not [event for event in EVENTS if taken & set(event.fields)]


def test_the_page_has_the_table() -> None:
    page = (ROOT / "docs" / "watch.md").read_text()
    assert "\n".join(as_markdown((*ProgramEvent, *Event))) in page, "python -m sumwire_protocol.events prints it"
    assert "\n".join(as_markdown(SwitchEvent)) in page, "python -m softswitch.events prints it"


def test_every_call_gives_the_fields_of_its_event() -> None:
    wrong = []
    for path, event, call in uses():
        if call is None:
            continue
        given = {keyword.arg for keyword in call.keywords}
        # `**place` has job, worker and name.
        starred = {"name"} & set(event.fields) if None in given else set()
        if (given | starred) - {None} - PLACES != set(event.fields):
            wrong.append(f"{path}:{call.lineno}: {event.name} has {event.fields}")
    assert wrong == []


def test_who_tells_an_event_is_who_the_table_says() -> None:
    for event in EVENTS:
        if event.told_by == ALL:
            continue
        paths = {path for path, found, _ in uses() if found is event}
        for teller in event.told_by:
            folders = [folder for folder, tellers in PACKAGES.items() if teller in tellers]
            assert any(path.startswith(tuple(folders)) for path in paths), (event, teller, paths)


def test_every_line_that_is_logged_has_an_event() -> None:
    bare = [
        f"{path}:{node.lineno}"
        for path, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in LEVELS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in LOGGERS
        and "extra" not in {keyword.arg for keyword in node.keywords}
        and not path.startswith("controller/sumwire_controller/parse/")  # its log is a list of errors
    ]
    assert bare == []


def all_tests() -> str:
    own = Path(__file__)
    return "\n".join(path.read_text() for path in sorted((ROOT / "tests").rglob("*.py")) if path != own)


def test_every_event_is_seen_in_a_test() -> None:
    """Tests name an event where they have seen its line."""
    seen = set(re.findall(r"\b(?:Program|Switch)?Event\.([A-Z_]+)", all_tests()))
    assert {event.name for event in EVENTS} - seen == set()


def test_every_event_is_told() -> None:
    assert {event for _, event, _ in uses()} == set(EVENTS)
