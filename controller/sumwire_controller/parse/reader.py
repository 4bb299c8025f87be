# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a mapping of a YAML tree key by key. Problems are collected, so that one error can name all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address

from sumwire_controller.errors import MISSING, ConfigError, Problem, join_path
from sumwire_controller.model.config import MAC_PATTERN, MAC_RULE
from sumwire_controller.parse.yamltree import Node


@dataclass
class Log:
    """The problems found so far, and the line of every path that was read."""

    problems: list[Problem] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)

    def add(self, path: str, name: str, value: object, rule: str) -> None:
        line = self.lines.get(join_path(path, name), self.lines.get(path))
        self.problems.append(Problem(path, name, value, rule, line))

    def error(self, source: str) -> ConfigError:
        """An error with all problems, in the order of the text."""
        return ConfigError(source, sorted(self.problems, key=lambda problem: problem.line or 0))


def _shown(node: Node) -> object:
    """A node's value for a message; mappings and lists are abbreviated."""
    if isinstance(node.value, dict):
        return "{...}"
    return "[...]" if isinstance(node.value, list) else node.value


def _is_text(node: Node) -> bool:
    return isinstance(node.value, str) and bool(node.value) and node.value.isprintable()


class MappingReader:
    """Reads the keys of the mapping at `path`. A method that reads a key returns None after reporting a problem."""

    def __init__(self, node: Node, path: str, log: Log) -> None:
        self._path = path
        self._log = log
        self._left: dict[str, Node] = {}
        self.usable = isinstance(node.value, dict)
        log.lines[path] = node.line
        if isinstance(node.value, dict):
            self._left = dict(node.value)
            for key, child in self._left.items():
                log.lines[join_path(path, key)] = child.line
        else:
            parent, _, name = path.rpartition(".")
            log.add(parent, name or path, _shown(node), "must be a mapping")

    def has(self, name: str) -> bool:
        return name in self._left

    def node(self, name: str) -> Node | None:
        """The node of a key, which is required."""
        found = self._left.pop(name, None)
        if found is None and self.usable:
            self._log.add(self._path, name, MISSING, "is required: add it")
        return found

    def _wrong(self, name: str, node: Node, rule: str) -> None:
        self._log.add(self._path, name, _shown(node), rule)

    def integer(self, name: str) -> int | None:
        node = self.node(name)
        if node is None:
            return None
        if isinstance(node.value, int) and not isinstance(node.value, bool):
            return node.value
        self._wrong(name, node, "must be an integer")
        return None

    def number(self, name: str) -> float | None:
        node = self.node(name)
        if node is None:
            return None
        if isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return float(node.value)
        self._wrong(name, node, "must be a number, written like 0.03125")
        return None

    def boolean(self, name: str) -> bool | None:
        node = self.node(name)
        if node is None:
            return None
        if isinstance(node.value, bool):
            return node.value
        self._wrong(name, node, "must be true or false")
        return None

    def text(self, name: str) -> str | None:
        node = self.node(name)
        if node is None:
            return None
        if _is_text(node):
            return str(node.value)
        self._wrong(
            name,
            node,
            "must be a non-empty text without control characters (in quotes if YAML takes it for something else)",
        )
        return None

    def ipv4(self, name: str) -> IPv4Address | None:
        node = self.node(name)
        if node is None:
            return None
        if isinstance(node.value, str):
            try:
                return IPv4Address(node.value)
            except AddressValueError:
                pass  # reported below
        self._wrong(name, node, "must be an IPv4 address like 10.0.0.1")
        return None

    def mac(self, name: str) -> str | None:
        node = self.node(name)
        if node is None:
            return None
        if isinstance(node.value, str) and MAC_PATTERN.fullmatch(node.value.lower()):
            return node.value.lower()
        self._wrong(name, node, MAC_RULE)
        return None

    def word(self, name: str, known: tuple[str, ...]) -> str | None:
        """The word of a key that has one of these words, or None, and the key is still to be read."""
        node = self._left.get(name)
        return str(self._left.pop(name).value) if node is not None and node.value in known else None

    def items(self, name: str) -> list[Node] | None:
        """The elements of a list."""
        node = self.node(name)
        if node is None:
            return None
        if isinstance(node.value, list):
            for i, item in enumerate(node.value):
                self._log.lines[f"{join_path(self._path, name)}[{i}]"] = item.line
            return node.value
        self._wrong(name, node, "must be a list")
        return None

    def integers(self, name: str) -> tuple[int, ...] | None:
        nodes = self.items(name)
        if nodes is None:
            return None
        good = []
        for i, node in enumerate(nodes):
            if isinstance(node.value, int) and not isinstance(node.value, bool):
                good.append(node.value)
            else:
                self._wrong(f"{name}[{i}]", node, "must be an integer")
        return tuple(good) if len(good) == len(nodes) else None

    def texts(self, name: str) -> tuple[str, ...] | None:
        nodes = self.items(name)
        if nodes is None:
            return None
        good = []
        for i, node in enumerate(nodes):
            if _is_text(node):
                good.append(str(node.value))
            else:
                self._wrong(f"{name}[{i}]", node, "must be a non-empty text without control characters")
        return tuple(good) if len(good) == len(nodes) else None

    def finish(self, known: tuple[str, ...]) -> None:
        """Report every key that was not read. `known` are the keys that this mapping may have."""
        for key, node in self._left.items():
            self._wrong(key, node, f"unknown key; known are {', '.join(known)}")
