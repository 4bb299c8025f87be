# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Collects indented lines of Python, and plans how the Python engine stores headers.

A header is cut into units. A unit is a field that the program uses, a run of whole bytes that it does not read (kept as
bytes), or a run that is not needed at all (skipped). Lines of the form ``name = expression`` that follow each other at
one depth share common subexpressions: p4c copies a variable's expression to every use of the variable, so an adder over
1024-bit words computes ``a ^ b`` twice.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from softswitch.errors import ProgramTooLargeError
from softswitch.program import ir
from softswitch.program.analysis import Usage
from softswitch.program.emitted_text import comment_text, identifier, literal
from softswitch.program.limits import CodeBudget
from softswitch.program.traverse import FieldKey

_ASSIGNMENT = re.compile(r"( *)([A-Za-z_]\w*) = ((?:(?! = ).)+)")

Key = tuple[str, tuple[int, ...]]


def eliminate_common_subexpressions(lines: list[str]) -> list[str]:
    """Return equivalent statements in which a repeated subexpression is computed once, into ``w0``, ``w1``, ..."""
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


def bare(text: str) -> str:
    """Return ``text`` without outer parentheses that enclose all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if position == len(text) - 1 else text
    return text


MAX_DEPTH = 90  # blocks inside each other; Python takes a hundred


class Writer:
    """Collects source lines. ``budget``: the limit of the whole program's code. ``traces``: whether the code tells what
    happens to a packet."""

    def __init__(self, budget: CodeBudget, *, traces: bool = False) -> None:
        self.lines: list[str] = []
        self.traces = traces
        self._budget = budget
        self._depth = 0

    def line(self, text: str) -> None:
        line = "    " * self._depth + text
        self._budget.write(line)
        self.lines.append(line)

    def extend(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.line(text)

    def comment(self, text: str) -> None:
        """Write a comment of one line, whatever ``text`` holds."""
        self.line(f"# {comment_text(text)}")

    def traced(self, call: str) -> list[str]:
        """The line that calls a method of the recorder; none without ``traces``."""
        return [f"trace.{call}"] if self.traces else []

    def trace(self, call: str) -> None:
        self.extend(self.traced(call))

    def watched(self, condition: str, name: str, source: ir.Source) -> str:
        """``condition``, told to the recorder where it is evaluated."""
        if not self.traces:
            return condition
        return f"trace.condition({literal(name)}, {literal(str(source))}, {literal(source.fragment)}, {condition})"

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write a block. ``head`` ends in a colon; an empty body becomes ``pass``."""
        self.line(head)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ProgramTooLargeError(
                f"branches nested too deeply for Python, more than {MAX_DEPTH}; use the native engine"
            )
        before = len(self.lines)
        yield
        if all(line.lstrip().startswith("#") for line in self.lines[before:]):
            self.line("pass")
        self._depth -= 1

    def zero(self, names: Iterable[str], value: str = "0") -> None:
        """Write one chained assignment; without names, write nothing."""
        chain = " = ".join(names)
        if chain:
            self.line(f"{chain} = {value}")

    def text(self) -> str:
        return "\n".join(eliminate_common_subexpressions(self.lines)) + "\n"


_CODES = {8: "B", 16: "H", 32: "I", 64: "Q"}


class UnitKind(Enum):
    INTEGER = 1
    BYTES = 2
    SKIP = 3


@dataclass(frozen=True)
class HeaderUnit:
    """``width`` bits from bit ``offset`` on, kept in local variable ``local`` (empty for SKIP)."""

    kind: UnitKind
    local: str
    offset: int
    width: int
    signed: bool = False


@dataclass(frozen=True)
class HeaderLayout:
    """Storage of one header.

    ``valid`` and ``position`` name local variables. ``position`` holds the offset of the header's unchanged bytes in
    the frame, or -1 if the header has changed.
    """

    header: ir.Header
    valid: str
    position: str
    units: tuple[HeaderUnit, ...]
    groups: tuple[tuple[HeaderUnit, ...], ...]

    @property
    def locals(self) -> list[str]:
        return [unit.local for unit in self.units if unit.kind is not UnitKind.SKIP]


@dataclass
class PyStorage:
    """The names of local variables. Fields that the program never reads have none."""

    fields: dict[FieldKey, str] = field(default_factory=dict)
    layouts: dict[str, HeaderLayout] = field(default_factory=dict)

    def valid(self, header: str) -> str:
        return self.layouts[header].valid


def plan_storage(program: ir.Program, usage: Usage, intrinsic: set[FieldKey]) -> PyStorage:
    """Choose the local variables. ``intrinsic``: fields that the engine itself reads."""
    storage = PyStorage()
    copied = {name for pair in usage.copies for name in pair}
    taken: set[str] = set()
    for header in program.headers.values():
        rebuilt = header.name in usage.changed and header.name in program.deparser
        whole = header.name in copied
        units: list[HeaderUnit] = []
        offset = 0
        for member in header.fields:
            key = (header.name, member.name)
            used = key in usage.read or key in intrinsic or whole or (rebuilt and key in usage.written)
            if used:
                local = identifier("f_" + header.name + "_" + member.name, taken)
                storage.fields[key] = local
                units.append(HeaderUnit(UnitKind.INTEGER, local, offset, member.width, member.signed))
            else:
                kind = UnitKind.BYTES if rebuilt else UnitKind.SKIP
                units.append(HeaderUnit(kind, "", offset, member.width, member.signed))
            offset += member.width
        if not header.metadata:
            merged = _name_bytes(header, _merge(units), taken)
            storage.layouts[header.name] = HeaderLayout(
                header,
                identifier("v_" + header.name, taken),
                identifier("o_" + header.name, taken),
                tuple(merged),
                tuple(_groups(merged)),
            )
    return storage


def _merge(units: list[HeaderUnit]) -> list[HeaderUnit]:
    """Join neighbouring unread units where they are whole bytes; what is left over becomes integers."""
    result: list[HeaderUnit] = []
    for unit in units:
        last = result[-1] if result else None
        if last is not None and last.kind is unit.kind and unit.kind is not UnitKind.INTEGER:
            result[-1] = HeaderUnit(unit.kind, "", last.offset, last.width + unit.width)
        else:
            result.append(unit)
    return [piece for unit in result for piece in _split(unit)]


def _split(unit: HeaderUnit) -> list[HeaderUnit]:
    """Cut a run at byte boundaries. Incomplete bytes at its ends stay integers (or skipped bits)."""
    if unit.kind is UnitKind.INTEGER:
        return [unit]
    start, end = unit.offset, unit.offset + unit.width
    inner_start, inner_end = (start + 7) // 8 * 8, end // 8 * 8
    edge = UnitKind.INTEGER if unit.kind is UnitKind.BYTES else UnitKind.SKIP
    if inner_start >= inner_end:
        return [HeaderUnit(edge, "", start, end - start)]
    pieces = [
        HeaderUnit(edge, "", start, inner_start - start),
        HeaderUnit(unit.kind, "", inner_start, inner_end - inner_start),
        HeaderUnit(edge, "", inner_end, end - inner_end),
    ]
    return [piece for piece in pieces if piece.width]


def _name_bytes(header: ir.Header, units: list[HeaderUnit], taken: set[str]) -> list[HeaderUnit]:
    named = []
    for unit in units:
        if unit.kind is UnitKind.SKIP or unit.local:
            named.append(unit)
        else:
            local = identifier(f"x_{header.name}_{unit.offset}", taken)
            named.append(HeaderUnit(unit.kind, local, unit.offset, unit.width))
    return named


def _groups(units: list[HeaderUnit]) -> list[tuple[HeaderUnit, ...]]:
    groups: list[tuple[HeaderUnit, ...]] = []
    current: list[HeaderUnit] = []
    for unit in units:
        current.append(unit)
        if (unit.offset + unit.width) % 8 == 0:
            groups.append(tuple(current))
            current = []
    return groups


# ---------------------------------------------------------------- bytes to fields


def group_width(group: tuple[HeaderUnit, ...]) -> int:
    return sum(unit.width for unit in group)


def struct_codes(group: tuple[HeaderUnit, ...]) -> str:
    """Return the ``struct`` items of one group."""
    width = group_width(group)
    if all(unit.kind is UnitKind.SKIP for unit in group):
        return f"{width // 8}x"
    if group[0].kind is UnitKind.BYTES:
        return f"{width // 8}s"
    if width == 48:
        return "HI"
    return _CODES.get(width, f"{width // 8}s")


def unpack_targets(group: tuple[HeaderUnit, ...], index: int) -> tuple[list[str], list[str]]:
    """Return names for a group's ``struct`` items, and the statements that compute fields from them."""
    if all(unit.kind is UnitKind.SKIP for unit in group):
        return [], []
    width = group_width(group)
    temporary = f"t{index}"
    names, statements = [temporary], []
    if group[0].kind is UnitKind.BYTES:
        return [group[0].local], []
    if width == 48:
        names = [temporary, f"{temporary}b"]
        source = f"{temporary} << 32 | {temporary}b"
    elif width in _CODES:
        source = temporary
        if len(group) == 1 and not group[0].signed:
            return [group[0].local], []
    else:
        source = f"from_bytes({temporary})"
    if len(group) == 1:
        return names, [f"{group[0].local} = {_signed(group[0], source)}"]
    if source != temporary:
        statements.append(f"{temporary} = {source}")
    end = group[-1].offset + group[-1].width
    for unit in group:
        if unit.kind is UnitKind.SKIP:
            continue
        shift = end - unit.offset - unit.width
        value = f"{temporary} >> {shift}" if shift else temporary
        if unit is not group[0]:
            value = f"{value} & {(1 << unit.width) - 1:#x}"
        statements.append(f"{unit.local} = {_signed(unit, value)}")
    return names, statements


def _signed(unit: HeaderUnit, value: str) -> str:
    if not unit.signed:
        return value
    half = 1 << (unit.width - 1)
    return f"(({value}) ^ {half:#x}) - {half:#x}"


# ---------------------------------------------------------------- fields to bytes


def pack_arguments(group: tuple[HeaderUnit, ...]) -> list[str]:
    """Return the expressions that pack a group's ``struct`` items."""
    width = group_width(group)
    if group[0].kind is UnitKind.BYTES:
        return [group[0].local]
    end = group[-1].offset + group[-1].width
    parts = []
    for unit in group:
        shift = end - unit.offset - unit.width
        value = f"({unit.local} & {(1 << unit.width) - 1:#x})" if unit.signed else unit.local
        parts.append(f"{value} << {shift}" if shift else value)
    value = " | ".join(parts)
    if width == 48:
        whole = value if len(group) == 1 else f"({value})"
        return [f"{whole} >> 32", f"{whole} & 0xffffffff"]
    if width in _CODES:
        return [value]
    return [f"({value}).to_bytes({width // 8})"]


@dataclass
class Names:
    """Names of run-time objects in the generated code, by their names in the program."""

    registers: dict[str, str] = field(default_factory=dict)
    counters: dict[str, str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    meters: dict[str, str] = field(default_factory=dict)
    value_sets: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, program: ir.Program) -> Names:
        taken: set[str] = set()
        return cls(
            {name: identifier(f"R_{name}", taken) for name in program.registers},
            {name: identifier(f"C_{name}", taken) for name in program.counters},
            {name: identifier(name, taken) for name in program.tables},
            {name: identifier(f"M_{name}", taken) for name in program.meters},
            {name: identifier(f"S_{name}", taken) for name in program.value_sets},
        )


@dataclass(frozen=True)
class PyContext:
    """The context of emission: the program, the storage of its fields, and names.

    ``track_length``: egress reads packet_length, so the code keeps it up to date. ``budget``: the limit of the code.
    """

    program: ir.Program
    usage: Usage
    storage: PyStorage
    names: Names
    track_length: bool
    budget: CodeBudget = field(default_factory=CodeBudget)

    def keeps_position(self, header: str) -> bool:
        """Return True if the header may be sent with the bytes that it arrived with."""
        return header in self.usage.extracted and header in self.program.deparser
