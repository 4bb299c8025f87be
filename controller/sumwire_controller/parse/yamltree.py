# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""YAML text as a tree in which every node knows its line.

PyYAML's loader forgets the lines, and of a repeated key it silently takes the last value. So the tree is built here,
from PyYAML's nodes.

The text may be a stranger's: size, depth, nodes (those of an alias count again wherever it is used) and the length of
numbers are bounded, and tags are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml
from sumwire_protocol.outside import DEPTH_MOST, DIGITS_MOST, OutsideError, bounded_text, escaped

from sumwire_controller.errors import ConfigError, Problem, join_path

BYTES_MOST: Final = 1 << 18
# 1024 workers, the most of a switch, need 15,000.
NODES_MOST: Final = 20_000
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_TEXT: Final = "tag:yaml.org,2002:str"
# What PyYAML raises for a scalar that looks like a number or a date and is none, or for an escape such as \UFFFFFFFF.
_NO_VALUE: Final = (ValueError, OverflowError)

Scalar = str | int | float | bool | None | object
"""A value of YAML's safe schema. Some, such as dates, are objects that no field accepts."""


@dataclass(frozen=True, slots=True)
class Node:
    """A scalar, mapping or list, and its line, counted from 1."""

    value: Scalar | dict[str, Node] | list[Node]
    line: int


def read_file(path: Path | str) -> str:
    """The text of a file.

    :raises ConfigError: it cannot be read.
    """
    try:
        return bounded_text(Path(path), BYTES_MOST)
    except (OSError, OutsideError) as error:
        rule = f"cannot be read ({error}): name a configuration, a YAML file"
        raise ConfigError(str(path), [Problem("", "file", str(path), rule)]) from error


def load_tree(text: str, source: str) -> tuple[Node, list[Problem]]:
    """The tree of a YAML document, and a problem for each key that occurs twice in a mapping or is no text.

    :raises ConfigError: the text is not YAML, or breaks a bound.
    """
    if len(text) > BYTES_MOST:
        raise ConfigError(source, [Problem("", "file", source, f"must have at most {BYTES_MOST} characters")])
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            builder = _Builder(loader)
            tree = Node({}, 1) if root is None else builder.convert(root, "", ())
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


@dataclass
class _Builder:
    """Builds the tree of one document."""

    loader: yaml.SafeLoader
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0

    def convert(self, node: yaml.Node, path: str, above: tuple[yaml.Node, ...]) -> Node:
        """The node as a tree; its aliases are copies."""
        line = node.start_mark.line + 1
        if any(node is parent for parent in above):
            self.problems.append(Problem("", path, "*alias", "must not contain itself", line))
            return Node(None, line)
        self.nodes += 1
        if self.nodes > NODES_MOST or len(above) >= DEPTH_MOST:
            rule = f"aliases must not lead to more than {NODES_MOST} keys and values or {DEPTH_MOST} levels"
            raise _refused(rule, node.start_mark)
        above = (*above, node)
        if isinstance(node, yaml.SequenceNode):
            return Node([self.convert(item, f"{path}[{i}]", above) for i, item in enumerate(node.value)], line)
        if isinstance(node, yaml.MappingNode):
            return Node(self._mapping(node, path, above), line)
        return Node(self._scalar(node), line)

    def _scalar(self, node: yaml.Node) -> Scalar:
        if node.tag in _NUMBERS and len(node.value) > DIGITS_MOST:
            rule = f"the number {escaped(node.value)} must have at most {DIGITS_MOST} characters"
            raise _refused(rule, node.start_mark)
        try:
            value: Scalar = self.loader.construct_object(node)
        except _NO_VALUE as error:  # such as the date 2026-99-99
            raise _refused(str(error), node.start_mark) from error
        return value

    def _mapping(self, node: yaml.MappingNode, path: str, above: tuple[yaml.Node, ...]) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != _TEXT or not key_node.value.isprintable():
                name = key_node.value if isinstance(key_node, yaml.ScalarNode) else "a list or mapping"
                rule = "a key must be a text without control characters: write a name"
                self.problems.append(Problem(path, "key", name, rule, line))
                continue
            key = str(key_node.value)
            if key in found:
                rule = f"key occurs twice, first in line {found[key].line}: remove one"
                value = value_node.value if isinstance(value_node, yaml.ScalarNode) else "..."
                self.problems.append(Problem(path, key, value, rule, line))
            found[key] = self.convert(value_node, join_path(path, key), above)
        return found
