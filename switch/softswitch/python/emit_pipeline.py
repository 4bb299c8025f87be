# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Emits a pipeline as nested Python: tables are dict look-ups, actions are inlined.

An entry of a table is the tuple ``(position of the action in the table, counter cell or None, *action data)``. For
specialised actions it has a function in place of the action data, see :mod:`softswitch.python.emit_stmt`. An entry with
several actions has -1 for the position, and a tuple of entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from softswitch.errors import ProgramTooLargeError, placed
from softswitch.program import ir
from softswitch.program.emitted_text import literal
from softswitch.program.limits import full
from softswitch.program.traverse import flatten, joins, successors
from softswitch.python.emit_code import MAX_DEPTH, PyContext, Writer, bare
from softswitch.python.emit_expr import PyExprEmitter
from softswitch.python.emit_stmt import PyStatementEmitter, call_specialised, hash_value, is_specialised
from softswitch.python.values import PyValue, constant

MAX_NODES = 20000
_HASH_MASK = full(32)  # bmv2 chooses by so many bits


class PipelineEmitter:
    def __init__(self, context: PyContext, out: Writer, pipeline: ir.Pipeline) -> None:
        self._context = context
        self._out = out
        self._pipeline = pipeline
        self._joins = joins(pipeline.start, lambda name: successors(pipeline.nodes[name]))
        self._actions = {action.index: action for action in context.program.actions}
        self._expressions = PyExprEmitter(context)
        self._statements = PyStatementEmitter(context, out, self._expressions)
        self._written = 0
        self._nesting = 0

    def emit(self) -> None:
        """Write the pipeline. If it uses ``exit``, it is a loop that runs once, and ``exit`` is ``break``."""
        self._out.trace(f"pipeline({literal(self._pipeline.name)})")
        indices = {i for node in self._pipeline.nodes.values() if isinstance(node, ir.Table) for i in node.actions}
        exits = any(isinstance(s, ir.Exit) for index in indices for s in flatten(self._actions[index].body))
        if not exits:
            self._block(self._pipeline.start, None)
            return
        with self._out.block("while True:"):
            self._block(self._pipeline.start, None)
            self._out.line("break")

    def _block(self, name: str | None, stop: str | None) -> None:
        while name is not None and name != stop:
            self._written += 1
            node = self._pipeline.nodes[name]
            if self._written > MAX_NODES:
                raise ProgramTooLargeError(
                    f"control {self._pipeline.name!r} branches too much for Python; use the native engine",
                    str(node.source),
                )
            join = self._joins[name]
            with placed(node.source), self._nested():
                if isinstance(node, ir.Conditional):
                    self._conditional(node, join)
                else:
                    self._table(node, join)
            name = join

    @contextmanager
    def _nested(self) -> Iterator[None]:
        """A node inside the node before, with or without a block of its own."""
        self._nesting += 1
        if self._nesting > MAX_DEPTH:
            raise ProgramTooLargeError(
                f"control {self._pipeline.name!r} is nested more than {MAX_DEPTH} deep; use the native engine"
            )
        yield
        self._nesting -= 1

    def _conditional(self, node: ir.Conditional, join: str | None) -> None:
        condition = self._condition(node)
        if node.on_true == node.on_false:
            if self._out.traces:
                self._out.line(condition)
            return
        if node.on_true == join:
            with self._out.block(f"if not {condition}:"):
                self._block(node.on_false, join)
            return
        with self._out.block(f"if {bare(condition)}:"):
            self._block(node.on_true, join)
        node = self._else_if(node, join)
        if node.on_false != join:
            with self._out.block("else:"):
                self._block(node.on_false, join)

    def _condition(self, node: ir.Conditional) -> str:
        if node.on_true == node.on_false and not self._out.traces:
            return ""
        return self._out.watched(self._expressions.boolean(node.condition), node.name, node.source)

    def _else_if(self, node: ir.Conditional, join: str | None) -> ir.Conditional:
        """Write a chain of conditions in the false branch as ``elif``; return the last condition of the chain.

        Python allows no more than a hundred nested blocks.
        """
        while node.on_false is not None and node.on_false != join:
            following = self._pipeline.nodes[node.on_false]
            chained = isinstance(following, ir.Conditional) and self._joins[following.name] == join
            if not isinstance(following, ir.Conditional) or not chained or following.on_true == join:
                break
            self._written += 1
            with self._out.block(f"elif {bare(self._condition(following))}:"):
                self._block(following.on_true, join)
            node = following
        return node

    # -- tables ----------------------------------------------------------

    def _table(self, table: ir.Table, join: str | None) -> None:
        if not table.keys and table.default_const:
            self._keyless(table, join)
            return
        name = self._context.names.tables[table.name]
        self._out.comment(f"table {table.name}")
        self._look_up(table, name)
        self._trace_look_up(table, f"entry, entry is not default_{name}")
        if table.meter_target is not None:
            with self._out.block(f"if entry is not default_{name}:"):
                self._out.line("meter = entry[1][2]")
                self._out.line("colour = meter(size, now()) if meter else 0")
                self._statements.store(table.meter_target, PyValue("colour", 0, 2), set())
        if table.has_counter:
            self._out.line("cell = entry[1]")
            with self._out.block("if cell:"):
                self._out.line("cell[0] += 1")
                self._out.line("cell[1] += size")
        if table.selector is not None:
            self._choose(table.selector)
        self._out.trace(f"call({literal(table.name)}, entry)")
        branches = table.by_hit and table.on_hit != table.on_miss
        if branches:
            self._out.line(f"hit_{name} = entry is not default_{name}")
        follow = {index: join if table.by_hit else table.next[index] for index in table.actions}
        separate = self._has_common_successor(follow, join)
        if separate:
            self._out.line(f"ran_{name} = entry[0]")
        self._dispatch(table, follow, None if separate else join, nested=not separate and not table.by_hit)
        if separate:
            self._follow(name, table, follow, join)
        if branches:
            self._by_hit(table, name, join)
        elif table.by_hit:
            self._block(table.on_hit, join)

    def _choose(self, selector: str) -> None:
        """Of an entry with several actions take the one that the hash names."""
        program, storage = self._context.program, self._context.storage
        with self._out.block("if entry[0] < 0:"):
            number = hash_value(program.calculations[selector], storage, program, self._out)
            self._out.line(f"entry = entry[2][({number.text} & {_HASH_MASK:#x}) % len(entry[2])]")

    def _keyless(self, table: ir.Table, join: str | None) -> None:
        """A table without keys and with a constant default action: how p4c writes a call of one action."""
        action = self._actions[table.default_action]
        args = [constant(value) for value in table.default_args]
        self._trace_look_up(table, "None, False")
        self._out.trace(f"call({literal(table.name)}, None)")
        if action.body:
            self._out.comment(f"action {action.name}")
        self._statements.action(action, args)
        self._block(table.on_miss if table.by_hit else table.next[table.default_action], join)

    def _look_up(self, table: ir.Table, name: str) -> None:
        if not table.keys:
            self._out.line(f"entry = default_{name}")
            return
        parts = self._key_parts(table)
        key_text = parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
        if table.kind is ir.MatchKind.EXACT:
            self._out.line(f"entry = get_{name}({key_text}, default_{name})")
            return
        self._out.line(f"key = {key_text}")
        self._out.line(f"entry = get_{name}(key) or find_{name}(key)")

    def _key_parts(self, table: ir.Table) -> list[str]:
        parts = []
        for key in table.keys:
            text = self._expressions.data(key.target).text
            parts.append(text if key.mask in (None, full(key.width)) else f"{text} & {key.mask:#x}")
        return parts

    def _trace_look_up(self, table: ir.Table, found: str) -> None:
        if self._out.traces:
            key = "".join(f"{part}, " for part in self._key_parts(table))
            self._out.trace(f"table({literal(table.name)}, ({key}), {found})")

    def _has_common_successor(self, follow: dict[int, str | None], join: str | None) -> bool:
        """Return True if two actions continue with the same node before the join. It is then written only once."""
        nodes = [node for node in follow.values() if node != join]
        return len(nodes) != len(set(nodes))

    def _dispatch(self, table: ir.Table, follow: dict[int, str | None], join: str | None, *, nested: bool) -> None:
        busy = [
            (position, self._actions[index])
            for position, index in enumerate(table.actions)
            if self._actions[index].body or (nested and follow[index] != join)
        ]
        if not busy:
            return
        if len(table.actions) == 1:
            self._run(table, 0, nested, follow, join)
            return
        if len(busy) > 1:
            self._out.line("ran = entry[0]")
        for number, (position, _) in enumerate(busy):
            test = "ran" if len(busy) > 1 else "entry[0]"
            with self._out.block(f"{'elif' if number else 'if'} {test} == {position}:"):
                self._run(table, position, nested, follow, join)

    def _run(
        self, table: ir.Table, position: int, nested: bool, follow: dict[int, str | None], join: str | None
    ) -> None:
        action = self._actions[table.actions[position]]
        if action.body:
            self._out.comment(f"action {action.name}")
            if is_specialised(action) and not self._out.traces:
                call_specialised(self._context, action, self._out)
            else:
                self._statements.action(action, self._arguments(action))
        if nested:
            self._block(follow[action.index], join)

    def _arguments(self, action: ir.Action) -> list[PyValue]:
        names = [f"p{i}" for i in range(len(action.parameters))]
        if len(names) == 1:
            self._out.line("p0 = entry[2]")
        elif names:
            self._out.line(f"_, _, {', '.join(names)} = entry")
        return [PyValue(name, 0, full(p.width)) for name, p in zip(names, action.parameters, strict=True)]

    def _follow(self, name: str, table: ir.Table, follow: dict[int, str | None], join: str | None) -> None:
        targets: dict[str | None, list[int]] = {}
        for position, index in enumerate(table.actions):
            if follow[index] != join:
                targets.setdefault(follow[index], []).append(position)
        for number, (target, positions) in enumerate(targets.items()):
            listed = ", ".join(map(str, positions))
            test = f"== {listed}" if len(positions) == 1 else f"in ({listed})"
            with self._out.block(f"{'elif' if number else 'if'} ran_{name} {test}:"):
                self._block(target, join)

    def _by_hit(self, table: ir.Table, name: str, join: str | None) -> None:
        if table.on_hit == join:
            with self._out.block(f"if not hit_{name}:"):
                self._block(table.on_miss, join)
            return
        with self._out.block(f"if hit_{name}:"):
            self._block(table.on_hit, join)
        if table.on_miss != join:
            with self._out.block("else:"):
                self._block(table.on_miss, join)
