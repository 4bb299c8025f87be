# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""YAML text as a tree in which every node knows its line.

PyYAML's loader forgets the lines, and of a repeated key it silently takes the last value. So the tree is built here,
from PyYAML's nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from sumwire_controller.errors import ConfigError, Problem, join_path

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
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        rule = f"cannot be read ({error}): name a configuration, a YAML file"
        raise ConfigError(str(path), [Problem("", "file", str(path), rule)]) from error


def load_tree(text: str, source: str) -> tuple[Node, list[Problem]]:
    """The tree of a YAML document, and a problem for each key that occurs twice in a mapping.

    :raises ConfigError: the text is not YAML.
    """
    loader = yaml.SafeLoader(text)
    problems: list[Problem] = []
    try:
        root = loader.get_single_node()
        tree = Node({}, 1) if root is None else _convert(root, loader, "", problems, ())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        rule = f"not YAML: {getattr(error, 'problem', None) or error}; correct this place"
        raise ConfigError(source, [Problem("", "file", source, rule, mark.line + 1 if mark else None)]) from error
    finally:
        loader.dispose()
    return tree, problems


def _convert(
    node: yaml.Node, loader: yaml.SafeLoader, path: str, problems: list[Problem], above: tuple[yaml.Node, ...]
) -> Node:
    line = node.start_mark.line + 1
    if any(node is parent for parent in above):
        problems.append(Problem("", path, "*alias", "must not contain itself", line))
        return Node(None, line)
    above = (*above, node)
    if isinstance(node, yaml.SequenceNode):
        items = [_convert(item, loader, f"{path}[{i}]", problems, above) for i, item in enumerate(node.value)]
        return Node(items, line)
    if isinstance(node, yaml.MappingNode):
        return Node(_mapping(node, loader, path, problems, above), line)
    return Node(_scalar(node, loader), line)


def _scalar(node: yaml.Node, loader: yaml.SafeLoader) -> Scalar:
    try:
        value: Scalar = loader.construct_object(node)
    except ValueError as error:  # such as the date 2026-99-99
        raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from error
    return value


def _mapping(
    node: yaml.MappingNode,
    loader: yaml.SafeLoader,
    path: str,
    problems: list[Problem],
    above: tuple[yaml.Node, ...],
) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for key_node, value_node in node.value:
        key = str(key_node.value)
        if key in found:
            rule = f"key occurs twice, first in line {found[key].line}: remove one"
            problems.append(Problem(path, key, str(value_node.value), rule, key_node.start_mark.line + 1))
        found[key] = _convert(value_node, loader, join_path(path, key), problems, above)
    return found
