# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where the packages make their errors, and the constant words of each error's text, read from the source.

A site's text is a template: what is known only at run time is a hole. Names are followed to the constants and local
variables that they stand for, and calls to what the function returns.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from helpers.paths import ROOT

HOLE: Final = "\N{HORIZONTAL ELLIPSIS}"
_READINGS_MAX: Final = 60
_Function = ast.FunctionDef | ast.AsyncFunctionDef
Nodes = tuple[ast.AST, ...]


@dataclass(frozen=True)
class Site:
    """A place that makes an error. ``families``: its class and all classes above it. ``texts``: each way it can read.

    ``part``: only words in the middle of the text are made here, such as the details of a DeadlineError.
    An error whose class has its own text is a site where the class is; where it is made it adds nothing.
    """

    path: str
    line: int
    families: tuple[str, ...]
    texts: tuple[str, ...]
    part: bool = False

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}: {self.families[0]}"


class _Module:
    """One file: its functions, its constants, and which function each expression is in."""

    def __init__(self, path: Path) -> None:
        self.path = path.relative_to(ROOT).as_posix()
        self.tree = ast.parse(path.read_text())
        self.functions: dict[str, list[_Function]] = {}
        self.around: dict[ast.AST, _Function] = {}
        self.constants: dict[str, list[ast.expr]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, _Function):
                self.functions.setdefault(node.name, []).append(node)
                self.around.update((inner, node) for inner in ast.walk(node))  # the innermost comes last
        for target, value in _assignments(self.tree.body):
            self.constants.setdefault(target, []).append(value)

    @cached_property
    def imported(self) -> dict[str, str]:
        """Module by the name that it is imported under."""
        return {
            alias.asname or alias.name: node.module or ""
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }


def _assignments(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Of a block and the blocks in it, without inner functions: also each part of `a, b = x, y`."""
    for statement in body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            yield statement.target.id, statement.value
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from _named(target, statement.value)
        elif not isinstance(statement, _Function | ast.ClassDef):
            for field in ("body", "orelse", "finalbody", "handlers"):
                for inner in getattr(statement, field, []):
                    yield from _assignments(inner.body if isinstance(inner, ast.ExceptHandler) else [inner])


def _named(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for part, inner in zip(target.elts, value.elts, strict=True):
            yield from _named(part, inner)
    elif isinstance(target, ast.Tuple):
        # A row of a table of texts: the k-th name has the k-th text of some row.
        for number, part in enumerate(target.elts):
            if isinstance(part, ast.Name):
                yield part.id, ast.Subscript(value=value, slice=ast.Constant(number), ctx=ast.Load())


class Sources:
    """All files of a package, and the error classes in them."""

    def __init__(self, folder: str) -> None:
        files = sorted((ROOT / folder).rglob("*.py"))
        self._modules = [_Module(path) for path in files]
        self._classes = {
            node.name: node
            for module in self._modules
            for node in ast.walk(module.tree)
            if isinstance(node, ast.ClassDef) and node.name.endswith("Error")
        }

    def classes(self) -> set[str]:
        """The names of all error classes."""
        return set(self._classes)

    def families(self, name: str) -> tuple[str, ...]:
        """A class and all classes above it, by name; classes of other packages end the way up."""
        node = self._classes.get(name)
        bases = [base.id for base in node.bases if isinstance(base, ast.Name)] if node else []
        return (name, *(family for base in bases for family in self.families(base)))

    def sites(self) -> list[Site]:
        return [site for module in self._modules for site in self._sites_of(module)]

    def _sites_of(self, module: _Module) -> Iterator[Site]:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and node.name in self._classes:
                yield from self._own_text(module, node)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._classes:
                if node.func.id not in self._with_own_text:
                    texts = self._texts_of_call(module, node)
                    yield Site(module.path, node.lineno, self.families(node.func.id), texts)
                elif detail := [keyword.value for keyword in node.keywords if keyword.arg == "detail"]:
                    yield from self._detail(module, node, detail)
            elif (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "with_detail"
            ):
                yield from self._detail(module, node, node.args)

    def _detail(self, module: _Module, node: ast.Call, values: list[ast.expr]) -> Iterator[Site]:
        """What is added to the end of a DeadlineError."""
        texts = tuple(text for value in values for text in self._texts(module, value, ()) if _worded(text))
        if texts:
            yield Site(module.path, node.lineno, self.families("DeadlineError"), texts, part=True)

    @cached_property
    def _with_own_text(self) -> set[str]:
        return {
            node.name
            for module in self._modules
            for node in ast.walk(module.tree)
            if isinstance(node, ast.ClassDef) and node.name in self._classes and any(self._own_text(module, node))
        }

    def _own_text(self, module: _Module, node: ast.ClassDef) -> Iterator[Site]:
        """What a class passes to the class above it as the text, or returns as its text."""
        for function in node.body:
            if isinstance(function, _Function) and function.name in ("__init__", "__str__"):
                found = [*_super_calls(function)] if function.name == "__init__" else [*_returned(function)]
                texts = tuple(text for value in found for text in self._texts(module, value, ()))
                if any(_worded(text) for text in texts):
                    yield Site(module.path, function.lineno, self.families(node.name), texts)

    def _texts_of_call(self, module: _Module, node: ast.Call) -> tuple[str, ...]:
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
        texts = [text for value in values for text in self._texts(module, value, ())]
        return tuple(text for text in texts if _worded(text)) or tuple(texts[:1]) or ("",)

    def _texts(self, module: _Module, node: ast.expr, above: Nodes) -> list[str]:
        """Each way that an expression can read."""
        if node in above:
            return [HOLE]  # a name that stands for something with itself in it
        below = (*above, node)
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.JoinedStr(values=parts):
                return self._joined(module, parts, below)
            case ast.FormattedValue(value=value):
                return self._texts(module, value, below) if _may_be_text(value) else [HOLE]
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return self._joined(module, [left, right], below)
            case ast.IfExp(body=yes, orelse=no):
                return [*self._texts(module, yes, below), *self._texts(module, no, below)]
            case ast.Dict(values=values) | ast.List(elts=values):
                return [text for value in values for text in self._texts(module, value, below)]
            case ast.GeneratorExp(elt=value) | ast.ListComp(elt=value):
                return self._texts(module, value, below)
        return self._looked_up(module, node, below)

    def _looked_up(self, module: _Module, node: ast.expr, below: Nodes) -> list[str]:
        """The ways that a name, a call or a part of a table can read."""
        match node:
            case ast.Name(id=name):
                return self._of_name(module, node, name, below)
            case ast.Call(func=ast.Attribute(attr="get", value=ast.Name() as table), args=[_, default]):
                return [*self._texts(module, table, below), *self._texts(module, default, below)]
            case ast.Call(func=ast.Attribute(attr="format", value=value)):
                return self._texts(module, value, below)
            case ast.Call(func=ast.Attribute(attr="join", value=ast.Constant()), args=[value]):
                return self._texts(module, value, below)
            case ast.Call(func=ast.Name(id=name)):
                return self._of_function(module, name, below)
            case ast.Subscript(value=value, slice=ast.Constant(value=int(number))):
                return self._of_rows(module, value, number, below)
            case ast.Subscript(value=ast.Name() as table):
                return self._texts(module, table, below)
        return [HOLE]

    def _joined(self, module: _Module, parts: list[ast.expr], above: Nodes) -> list[str]:
        texts = [""]
        for part in parts:
            ends = self._texts(module, part, above)
            texts = list(dict.fromkeys(text + end for text in texts for end in ends))[:_READINGS_MAX]
        return texts

    def _of_name(self, module: _Module, node: ast.AST, name: str, above: Nodes) -> list[str]:
        function = module.around.get(node)
        local = [value for target, value in _local(function) if target == name] if function else []
        found = [(module, value) for value in local or module.constants.get(name, [])]
        if not found and name in module.imported:
            found = [
                (there, value)
                for there in self._named(module.imported[name])
                for value in there.constants.get(name, [])
            ]
        texts = [text for where, value in found for text in self._texts(where, value, above)]
        return texts or [HOLE]

    def _of_function(self, module: _Module, name: str, above: Nodes) -> list[str]:
        there = self._named(module.imported[name]) if name in module.imported else [module]
        values = [
            (where, value) for where in there for each in where.functions.get(name, []) for value in _returned(each)
        ]
        return [text for where, value in values for text in self._texts(where, value, above)] or [HOLE]

    def _of_rows(self, module: _Module, value: ast.expr, number: int, above: Nodes) -> list[str]:
        """The texts at place ``number`` of the tuples in a table, or of those that a function returns."""
        texts = []
        for row in self._rows(module, value):
            if number < len(row):
                texts += self._texts(module, row[number], above)
        return texts or [HOLE]

    def _rows(self, module: _Module, value: ast.expr) -> Iterator[list[ast.expr]]:
        match value:
            case ast.Tuple(elts=parts):
                yield parts
            case ast.Dict(values=values):
                for each in values:
                    yield from self._rows(module, each)
            case ast.Name(id=name):
                for each in module.constants.get(name, []):
                    yield from self._rows(module, each)
            case ast.Call(func=ast.Attribute(attr="get", value=table), args=[_, default]):
                yield from self._rows(module, table)
                yield from self._rows(module, default)
            case ast.Subscript(value=table):
                yield from self._rows(module, table)

    def _named(self, dotted: str) -> list[_Module]:
        ends = (f"{dotted.replace('.', '/')}.py", f"{dotted.replace('.', '/')}/__init__.py")
        return [module for module in self._modules if f"/{module.path}".endswith(tuple(f"/{end}" for end in ends))]


def _local(function: _Function) -> Iterator[tuple[str, ast.expr]]:
    """What a function assigns, and the defaults of its keyword arguments."""
    yield from _assignments(function.body)
    for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if default is not None:
            yield argument.arg, default


def _may_be_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Name | ast.IfExp | ast.Call | ast.Subscript | ast.Constant)


def _worded(text: str) -> bool:
    return sum(character.isalpha() for character in text) >= 8


def _returned(function: _Function) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value


def _super_calls(function: _Function) -> Iterator[ast.expr]:
    """What is given to `super().__init__`, as far as it can be a text."""
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(attr="__init__", value=ast.Call(func=ast.Name(id="super")))):
                yield from node.args
