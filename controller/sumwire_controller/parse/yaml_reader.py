# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reads YAML with line numbers and takes typed values out of it. A wrong value becomes a Problem with its line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import Final, TypeVar

import yaml
from commonlib.untrusted import DEPTH_MOST, DIGITS_MOST, UntrustedInputError, bounded_text, escaped

from sumwire_controller.errors import MISSING, ConfigError, Problem, join_path
from sumwire_controller.model import MAC_PATTERN, MAC_RULE

BYTES_MOST: Final = 1 << 18
# 1024 workers, the most of a switch, need 15,000.
NODES_MOST: Final = 20_000
_INT: Final = "tag:yaml.org,2002:int"
_NUMBERS: Final = (_INT, "tag:yaml.org,2002:float")
# PyYAML also reads 4:16 as 256, 2_56 as 256 and 010 as 8, which a file hardly means.
_DECIMAL: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_SIXTIETHS: Final = re.compile(r"[:_]")
_TEXT: Final = "tag:yaml.org,2002:str"
# What PyYAML raises for a scalar that looks like a number or a date and is none, or for an escape such as \UFFFFFFFF.
_NO_VALUE: Final = (ValueError, OverflowError)

T = TypeVar("T")
Scalar = str | int | float | bool | None | object
"""A value of YAML's safe schema. Some, such as dates, are objects that no field accepts."""


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A scalar, mapping or list, and its line, counted from 1."""

    value: Scalar | dict[str, YamlNode] | list[YamlNode]
    line: int


def read_file(path: Path | str) -> str:
    """Return the text of a file.

    :raises ConfigError: it cannot be read.
    """
    try:
        return bounded_text(Path(path), BYTES_MOST)
    except (OSError, UntrustedInputError) as error:
        rule = f"cannot be read ({error}): name a configuration, a YAML file"
        raise ConfigError(str(path), [Problem("", "file", str(path), rule)]) from error


def load_tree(text: str, source: str) -> tuple[YamlNode, list[Problem]]:
    """Return the tree of a YAML document, and a problem for each key that occurs twice in a mapping or is not a text.

    :raises ConfigError: the text is not YAML, or breaks a bound.
    """
    if len(text) > BYTES_MOST:
        raise ConfigError(source, [Problem("", "file", source, f"must have at most {BYTES_MOST} characters")])
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            builder = _Builder(loader)
            tree = YamlNode({}, 1) if root is None else builder.convert(root, (), ())
        finally:
            loader.dispose()
    except (yaml.YAMLError, *_NO_VALUE) as error:
        mark = getattr(error, "problem_mark", None)
        rule = f"not YAML: {escaped(str(getattr(error, 'problem', None) or error))}; correct this place"
        raise ConfigError(source, [Problem("", "file", source, rule, mark.line + 1 if mark else None)]) from error
    return tree, builder.problems


class _Loader(yaml.SafeLoader):
    """Refuses what is too deep or too large while it reads, and tags."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """See PyYAML's Composer."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self._depth += 1
        self._nodes += 1
        if self._depth > DEPTH_MOST:
            raise _refused(f"must have at most {DEPTH_MOST} levels", event.start_mark)
        if self._nodes > NODES_MOST:
            raise _refused(f"must have at most {NODES_MOST} keys and values", event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise _refused(f"the tag {escaped(str(event.tag))} is not taken: remove it", event.start_mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _refused(rule: str, mark: yaml.Mark | None) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=rule, problem_mark=mark)


def _is_decimal(node: yaml.Node) -> bool:
    if node.tag == _INT:
        return bool(_DECIMAL.fullmatch(node.value))
    return not _SIXTIETHS.search(node.value)


@dataclass
class _Builder:
    """Builds the tree of one document."""

    loader: yaml.SafeLoader
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0

    def convert(self, node: yaml.Node, path: tuple[str, ...], above: tuple[yaml.Node, ...]) -> YamlNode:
        """The node as a tree; its aliases are copies. ``path``: the keys that lead to it."""
        line = node.start_mark.line + 1
        if node in above:
            self.problems.append(Problem("", _joined(path), "*alias", "must not contain itself", line))
            return YamlNode(None, line)
        self.nodes += 1
        if self.nodes > NODES_MOST or len(above) >= DEPTH_MOST:
            rule = f"aliases must not lead to more than {NODES_MOST} keys and values or {DEPTH_MOST} levels"
            raise _refused(rule, node.start_mark)
        above = (*above, node)
        if isinstance(node, yaml.SequenceNode):
            return YamlNode([self.convert(item, (*path, f"[{i}]"), above) for i, item in enumerate(node.value)], line)
        if isinstance(node, yaml.MappingNode):
            return YamlNode(self._mapping(node, path, above), line)
        return YamlNode(self._scalar(node), line)

    def _scalar(self, node: yaml.Node) -> Scalar:
        if node.tag in _NUMBERS and len(node.value) > DIGITS_MOST:
            rule = f"the number {escaped(node.value)} must have at most {DIGITS_MOST} characters"
            raise _refused(rule, node.start_mark)
        if node.tag in _NUMBERS and not _is_decimal(node):
            rule = f"the number {escaped(node.value)} must be decimal digits without zeros in front: write it so, "
            raise _refused(f"{rule}or put a text into quotes", node.start_mark)
        try:
            value: Scalar = self.loader.construct_object(node)
        except _NO_VALUE as error:  # such as the date 2026-99-99
            raise _refused(str(error), node.start_mark) from error
        return value

    def _mapping(
        self, node: yaml.MappingNode, path: tuple[str, ...], above: tuple[yaml.Node, ...]
    ) -> dict[str, YamlNode]:
        found: dict[str, YamlNode] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != _TEXT or not key_node.value.isprintable():
                name = key_node.value if isinstance(key_node, yaml.ScalarNode) else "a list or mapping"
                rule = "a key must be a text without control characters: write a name"
                self.problems.append(Problem(_joined(path), "key", name, rule, line))
                continue
            key = str(key_node.value)
            if key in found:
                rule = f"key occurs twice, first in line {found[key].line}: remove one"
                value = value_node.value if isinstance(value_node, yaml.ScalarNode) else "..."
                self.problems.append(Problem(_joined(path), key, value, rule, line))
            found[key] = self.convert(value_node, (*path, key), above)
        return found


def _joined(path: tuple[str, ...]) -> str:
    return reduce(join_path, path, "")


@dataclass
class Log:
    """The problems found so far. ``places``: path, key and line of everything that was read; the key is None for the
    object at that path itself."""

    problems: list[Problem] = field(default_factory=list)
    places: list[tuple[str, str | None, int]] = field(default_factory=list)

    def add(self, path: str, name: str, value: object, rule: str) -> None:
        """Add a problem at a place of the file. :meth:`error` finds the line."""
        self.problems.append(Problem(path, name, value, rule))

    def error(self, source: str) -> ConfigError:
        """Return an error with all problems, in the order of the text."""
        lines = {path if key is None else join_path(path, key): line for path, key, line in self.places}

        def located(problem: Problem) -> Problem:
            line = lines.get(problem.full_path, lines.get(problem.path))
            return problem if problem.line is not None else replace(problem, line=line)

        return ConfigError(source, sorted(map(located, self.problems), key=lambda problem: problem.line or 0))


def _shown(node: YamlNode) -> object:
    """A node's value for a message; mappings and lists are abbreviated."""
    if isinstance(node.value, dict):
        return "{...}"
    return "[...]" if isinstance(node.value, list) else node.value


_TEXT_RULE: Final = "must be a non-empty text without control characters"


# What a value of YAML is taken for; None if it is something else.


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value and value.isprintable() else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _ipv4(value: object) -> IPv4Address | None:
    try:
        return IPv4Address(value) if isinstance(value, str) else None
    except AddressValueError:
        return None


def _mac(value: object) -> str | None:
    return value.lower() if isinstance(value, str) and MAC_PATTERN.fullmatch(value.lower()) else None


class MappingReader:
    """Reads the keys of the mapping at `path`. A method that reads a key reports a problem by returning None."""

    def __init__(self, node: YamlNode, path: str, log: Log) -> None:
        self._path = path
        self._log = log
        self._left: dict[str, YamlNode] = {}
        self.usable = isinstance(node.value, dict)
        log.places.append((path, None, node.line))
        if isinstance(node.value, dict):
            self._left = dict(node.value)
            log.places += [(path, key, child.line) for key, child in self._left.items()]
        else:
            parent, _, name = path.rpartition(".")
            log.add(parent, name or path, _shown(node), "must be a mapping")

    def has(self, name: str) -> bool:
        return name in self._left

    def keys(self, known: tuple[str, ...]) -> set[str]:
        """Return those known keys that the mapping has and that were not read yet."""
        return self._left.keys() & known

    def node(self, name: str) -> YamlNode | None:
        """Return the node of a required key."""
        found = self._left.pop(name, None)
        if found is None and self.usable:
            self._log.add(self._path, name, MISSING, "is required: add it")
        return found

    def _wrong(self, name: str, node: YamlNode, rule: str) -> None:
        self._log.add(self._path, name, _shown(node), rule)

    def _typed(self, name: str, accepted: Callable[[object], T | None], rule: str) -> T | None:
        node = self.node(name)
        if node is None:
            return None
        value = accepted(node.value)
        if value is None:
            self._wrong(name, node, rule)
        return value

    def _all_typed(self, name: str, accepted: Callable[[object], T | None], rule: str) -> tuple[T, ...] | None:
        nodes = self.items(name)
        if nodes is None:
            return None
        good = []
        for i, node in enumerate(nodes):
            if (value := accepted(node.value)) is None:
                self._wrong(f"{name}[{i}]", node, rule)
            else:
                good.append(value)
        return tuple(good) if len(good) == len(nodes) else None

    def integer(self, name: str) -> int | None:
        return self._typed(name, _integer, "must be an integer")

    def integers(self, name: str) -> tuple[int, ...] | None:
        return self._all_typed(name, _integer, "must be an integer")

    def number(self, name: str) -> float | None:
        return self._typed(name, _number, "must be a number, written like 0.03125")

    def boolean(self, name: str) -> bool | None:
        return self._typed(name, lambda value: value if isinstance(value, bool) else None, "must be true or false")

    def text(self, name: str) -> str | None:
        return self._typed(name, _text, f"{_TEXT_RULE} (in quotes if YAML takes it for something else)")

    def texts(self, name: str) -> tuple[str, ...] | None:
        return self._all_typed(name, _text, _TEXT_RULE)

    def ipv4(self, name: str) -> IPv4Address | None:
        return self._typed(name, _ipv4, "must be an IPv4 address like 10.0.0.1")

    def mac(self, name: str) -> str | None:
        return self._typed(name, _mac, MAC_RULE)

    def word(self, name: str, known: tuple[str, ...]) -> str | None:
        """Return the word of a key whose value is one of these words. Otherwise return None, and the key is still
        unread."""
        node = self._left.get(name)
        return str(self._left.pop(name).value) if node is not None and node.value in known else None

    def items(self, name: str) -> list[YamlNode] | None:
        """Return the elements of a list."""
        node = self.node(name)
        if node is None:
            return None
        if isinstance(node.value, list):
            self._log.places += [(self._path, f"{name}[{i}]", item.line) for i, item in enumerate(node.value)]
            return node.value
        self._wrong(name, node, "must be a list")
        return None

    def finish(self, known: tuple[str, ...]) -> None:
        """Report every key that was not read. `known`: the keys that this mapping may have."""
        for key, node in self._left.items():
            self._wrong(key, node, f"unknown key; known are {', '.join(known)}")
