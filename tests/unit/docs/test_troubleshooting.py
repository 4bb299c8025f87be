# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every error that a user can meet ends with a cure and has its entry in docs/troubleshooting.md; every entry has an
error.

An entry is a heading of the third level or a row of a table. Its keys are the quoted words in the heading or in the
row's first cell: constant words of the error's text. A class in code there stands for all errors of the class.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import Final

import pytest
from helpers.docs.error_sites import HOLE, Site, Sources
from helpers.paths import ROOT

PAGE: Final = ROOT / "docs" / "troubleshooting.md"
# The lab's errors are not here: it is for those who measure and change Sumwire, and its errors show the end of the log
# that says more.
FOLDERS: Final = (
    "host/sumwire", "controller/sumwire_controller", "native/nativelib", "switch/softswitch",
    "common/commonlib",
    "protocol/sumwire_protocol",
)  # fmt: skip
# Families that a user meets. Other classes are caught before they reach him, or are the soft switch's answers to a
# P4Runtime client: the controller shows those within a SwitchRefusedError.
FAMILIES: Final = {
    "SumwireError", "CodecError", "StageError", "WireError", "ControllerError", "NativeError",
    "UnsupportedProgramError", "PortError", "ImpairmentError", "BindError",
    "PrivilegeError", "MetricsError", "TraceError",
}  # fmt: skip
HIDDEN: Final = {
    "BrokenTableError",
    "SpoiledError", "UnlikeError", "_StuckError", "DeadlinePassedError", "HaltedError", "_StoppedError", "CycleError",
    "DeviceError", "P4RuntimeError", "FindingError", "TargetError", "UntrustedInputError", "StfError",
    "PacketTestError",
    "NoBmv2Error", "_NotPlainError", "TreeError", "CliCommandError", "_BadValueError",
}  # fmt: skip
# Their texts name the value and the rule that it breaks, so one entry for all of a class is enough.
WHOLE_CLASSES: Final = {
    "ConfigError",
    "CodecError",
    "StageError",
    "WireError",
    "CaptureError",
    "UnsupportedProgramError",
    "MalformedProgramError",
    "ProgramTooLargeError",
    "ImpairmentError",
}
# Words of such texts of other classes. They count only for wrong calls: all else needs an entry of its own.
RULES: Final = {"must be", "must have", "need", "known are"}
WRONG_CALLS: Final = {"UsageError"}
LETTERS_MIN: Final = 7
# A cure is in the last clause, or in the last but one where a command follows it: code, an order, or what a value
# must be.
_CLAUSES: Final = re.compile(r"(?:[;:?.]|, or)\s|\n")
_ORDER: Final = re.compile(
    r"(?:Do|Then|add|apply|attach|begin|bring|call|choose|close|compare|compile|correct|end|finish|give|install|leave|"
    r"let|load|look|lower|make|mend|name|pass|raise|remove|reset|restart|return|run|save|see|set|split|start|take|use|"
    r"write) ",
)
_RULE: Final = re.compile(r"\b(?:must|needs?|known are|its options are|at most)\b")
# Made by the controller's checks of the compiled program, whose caller adds the cure.
ADDED_LATER: Final = re.compile(r"in the compiled program(?:, want |$)")
_HEADING: Final = re.compile(r"### (.*)")
_ROW: Final = re.compile(r"\| ?(.*?) \|")
_WORDS: Final = re.compile(r'"([^"]+)"')
_CLASS: Final = re.compile(r"`(\w+Error)`")


def places() -> list[str]:
    """Headings, and first cells of rows."""
    lines = PAGE.read_text().splitlines()
    return [match[1] for line in lines if (match := _HEADING.match(line) or _ROW.match(line))]


def keys() -> list[str]:
    return [key for place in places() for key in _WORDS.findall(place)]


def classes() -> set[str]:
    return {name for place in places() for name in _CLASS.findall(place)}


@functools.cache
def packages() -> list[Sources]:
    return [Sources(folder) for folder in FOLDERS]


@functools.cache
def sites() -> list[Site]:
    """Of the errors that a user meets."""
    return [site for package in packages() for site in package.sites() if FAMILIES.intersection(site.families)]


def letters(text: str) -> int:
    return sum(character.isalpha() for character in text)


def is_key(key: str, site: Site, text: str) -> bool:
    return key in text and (key not in RULES or bool(WRONG_CALLS.intersection(site.families)))


def without_entry(site: Site) -> list[str]:
    """Texts of a site that no entry has words of. One of a few letters comes from elsewhere, with its entry there."""
    if WHOLE_CLASSES.intersection(site.families):
        return [] if classes().intersection(site.families) else [site.families[0]]
    return [
        text
        for text in site.texts
        if letters(text) >= LETTERS_MIN and not any(is_key(key, site, text) for key in keys())
    ]


def test_every_class_is_for_users_or_hidden() -> None:
    known = FAMILIES | HIDDEN
    found = {name for package in packages() for name in package.classes() if not known & {*package.families(name)}}
    assert found == set()


def test_every_error_has_an_entry() -> None:
    assert len(sites()) > 200
    assert [(site.where, texts) for site in sites() if (texts := without_entry(site))] == []


def has_cure(text: str) -> bool:
    clauses = [clause for clause in _CLAUSES.split(text.rstrip()) if letters(clause)][-2:]
    return any("`" in clause or _ORDER.match(clause) or _RULE.search(clause) for clause in clauses)


def test_every_error_ends_with_a_cure() -> None:
    ends = [
        (site.where, text)
        for site in sites()
        if not site.part and not WHOLE_CLASSES.intersection(site.families)
        for text in site.texts
        if letters(text) >= LETTERS_MIN and not ADDED_LATER.search(text)
    ]
    assert len(ends) > 200
    assert [(where, text) for where, text in ends if not has_cure(text)] == []


def rules_of(path: Path) -> list[tuple[int, str]]:
    """What a file of the controller says of broken rules of a configuration, with the lines."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        texts: list[ast.expr] = []
        if isinstance(node, ast.Call):
            name, given = ast.unparse(node.func).rpartition(".")[2], node.args
            position = {"Problem": 3, "add": 3, "_wrong": 2}.get(name, len(given))
            texts = given[position : position + 1]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "rule":
            texts = [node.value]
        found += [(node.lineno, text) for each in texts for text in constants_in(each)]
    return found


def constants_in(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return ["".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values)]
    return []


def test_every_rule_of_a_configuration_ends_with_a_cure() -> None:
    folder = ROOT / "controller" / "sumwire_controller"
    files = [path for part in ("parse", "rules") for path in sorted((folder / part).rglob("*.py"))]
    found = [(path.name, *rule) for path in files for rule in rules_of(path)]
    assert len(found) > 100
    # Parts of a rule: what is said with them mends it.
    parts = re.compile(rf"of {HOLE} \({HOLE}\)$")
    assert [rule for rule in found if not has_cure(rule[2]) and not parts.search(rule[2])] == []


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("job 7: the sum is wrong; start all workers again", True),
        ("k = 0: must be above 0", True),
        ("job 7: is gone; see `ip link`", True),
        ("switch s1: no answer; run it again: sumwire-controller apply CONFIG", True),
        ("job 7: the sum is wrong", False),
        ("start the job: failed: it was refused: no reason", False),
    ],
)
def test_a_cure_is_at_the_end(text: str, cure: bool) -> None:
    assert has_cure(text) is cure


@pytest.mark.parametrize("key", keys())
def test_every_entry_has_an_error(key: str) -> None:
    assert key in RULES or letters(key) >= LETTERS_MIN, "too short to find an error by"
    assert any(is_key(key, site, text) for site in sites() for text in site.texts)


def test_every_class_of_the_page_exists() -> None:
    assert classes() == WHOLE_CLASSES


def test_keys_are_there_once() -> None:
    assert len(keys()) == len(set(keys())) > 100
