# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Common subexpression elimination in generated straight-line code.

p4c copies a variable's expression to every use of the variable, so an adder over 1024-bit words computes ``a ^ b``
twice. The pass works on lines of the form ``name = expression`` that follow each other at one depth.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

_ASSIGNMENT = re.compile(r"( *)([A-Za-z_]\w*) = ((?:(?! = ).)+)")

Key = tuple[str, tuple[int, ...]]


def eliminate_common_subexpressions(lines: list[str]) -> list[str]:
    """Equivalent statements in which a repeated subexpression is computed once, into ``w0``, ``w1``, ..."""
    result: list[str] = []
    run: list[str] = []
    for line in lines:
        if line.lstrip().startswith("#"):
            run.append(line)
            continue
        match = _ASSIGNMENT.fullmatch(line)
        depth = _depth(run)
        if match is None or (depth is not None and depth != match[1]):
            result += _Run(run).rewritten()
            run = []
        if match is None:
            result.append(line)
        else:
            run.append(line)
    return result + _Run(run).rewritten()


def _depth(run: list[str]) -> str | None:
    for line in run:
        match = _ASSIGNMENT.fullmatch(line)
        if match is not None and not line.lstrip().startswith("#"):
            return match[1]
    return None


def _is_pure(node: ast.expr) -> bool:
    """Return True for names, constants and operators only: such an expression can be computed earlier."""
    return all(
        isinstance(
            part, ast.BinOp | ast.UnaryOp | ast.Name | ast.Constant | ast.operator | ast.unaryop | ast.expr_context
        )
        for part in ast.walk(node)
    )


class _Run:
    """A run of assignments at one depth, with the comments between them."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._versions: Counter[str] = Counter()
        self._uses: Counter[Key] = Counter()
        self._bound: dict[Key, str] = {}
        self._text = ""
        self._before: list[str] = []

    def rewritten(self) -> list[str]:
        assignments = [_ASSIGNMENT.fullmatch(line) for line in self._lines if not line.lstrip().startswith("#")]
        if len(assignments) < 2:
            return self._lines
        for match in assignments:
            if match is not None:
                self._count(self._tree(match[3]))
                self._versions[match[2]] += 1
        self._uses = Counter({key: uses for key, uses in self._uses.items() if uses > 1})
        return self._rewrite() if self._uses else self._lines

    def _tree(self, text: str) -> ast.expr:
        self._text = text
        return ast.parse(text, mode="eval").body

    def _segment(self, node: ast.expr) -> str:
        return self._text[node.col_offset : node.end_col_offset]

    def _key(self, node: ast.expr) -> Key:
        names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
        return self._segment(node), tuple(self._versions[name] for name in names)

    def _children(self, node: ast.expr) -> Iterator[ast.expr]:
        if isinstance(node, ast.BinOp):
            yield node.left
            yield node.right
        elif isinstance(node, ast.UnaryOp):
            yield node.operand

    def _count(self, node: ast.expr) -> None:
        """Count uses. Parts of an expression seen before are not counted: it is replaced as a whole."""
        if isinstance(node, ast.BinOp) and _is_pure(node):
            key = self._key(node)
            self._uses[key] += 1
            if self._uses[key] > 1:
                return
        for child in self._children(node):
            self._count(child)

    def _rewrite(self) -> list[str]:
        self._versions.clear()
        result: list[str] = []
        for line in self._lines:
            match = _ASSIGNMENT.fullmatch(line)
            if match is None or line.lstrip().startswith("#"):
                result.append(line)
                continue
            indent, target, text = match.groups()
            self._before = []
            value = self._render(self._tree(text))
            result += [indent + before for before in self._before]
            result.append(f"{indent}{target} = {value}")
            self._versions[target] += 1
        return result

    def _render(self, node: ast.expr) -> str:
        key = self._key(node) if isinstance(node, ast.BinOp) and _is_pure(node) else None
        if key is not None and key in self._bound:
            return self._bound[key]
        pieces: list[str] = []
        position = node.col_offset
        for child in self._children(node):
            pieces += [self._text[position : child.col_offset], self._render(child)]
            position = child.end_col_offset or 0
        text = "".join(pieces) + self._text[position : node.end_col_offset]
        if key is None or key not in self._uses:
            return text
        name = f"w{len(self._bound)}"
        self._bound[key] = name
        self._before.append(f"{name} = {text}")
        return name
