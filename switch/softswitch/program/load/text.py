# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""From a file or a text to JSON, within the limits of size and depth."""

from __future__ import annotations

import json
from pathlib import Path

from commonlib.untrusted import InputTooLongError, UntrustedInputError, bounded_text

from softswitch.errors import MalformedProgramError, ProgramTooLargeError
from softswitch.program.limits import FILE_BYTES, JSON_DEPTH
from softswitch.program.load.node import Json, Node

_CURE = "compile the P4 program with p4c --target bmv2"


def read_program(path: Path) -> str:
    """The text of a program's file. Raises OSError, MalformedProgramError and ProgramTooLargeError."""
    try:
        return bounded_text(path, FILE_BYTES)
    except InputTooLongError as error:
        raise _too_long(str(path)) from error
    except UntrustedInputError as error:
        raise MalformedProgramError(f"the program is not JSON: it {error}; {_CURE}", str(path)) from error


def parse_program(text: str) -> Node:
    """Raises MalformedProgramError and ProgramTooLargeError."""
    if len(text) > FILE_BYTES:
        raise _too_long("the program")
    try:
        root = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise MalformedProgramError(f"the program is not JSON: {error.msg}; {_CURE}", place) from error
    except ValueError as error:  # a number of thousands of digits
        raise MalformedProgramError(f"the program is not JSON: {error}; {_CURE}", "the program") from error
    except RecursionError as error:
        raise _too_deep("the program") from error
    if not isinstance(root, dict) or "pipelines" not in root:
        raise MalformedProgramError(f"the program is not a bmv2 JSON: it has no pipelines; {_CURE}", "the program")
    node = Node(root)
    if _is_deep(root):
        raise _too_deep(_deepest(node).place)
    return node


def _too_long(place: str) -> ProgramTooLargeError:
    return ProgramTooLargeError(f"the program has more than {FILE_BYTES} bytes; split it", place)


def _too_deep(place: str) -> ProgramTooLargeError:
    return ProgramTooLargeError(f"the JSON is nested more than {JSON_DEPTH} deep; split the expression in P4", place)


def _is_deep(root: Json) -> bool:
    level = [root]
    for _ in range(JSON_DEPTH):
        level = [child for value in level for child in _children(value)]
        if not level:
            return False
    return True


def _children(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _deepest(root: Node) -> Node:
    """A node at the limit of depth."""
    level = [root]
    for _ in range(JSON_DEPTH):
        below: list[Node] = []
        for node in level:
            if isinstance(node.value, dict):
                below += [Node(value, node, key) for key, value in node.value.items()]
            elif isinstance(node.value, list):
                below += [Node(value, node, index) for index, value in enumerate(node.value)]
        level = below
    return level[0]
