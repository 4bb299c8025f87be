# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Random controls: tables and conditions that branch and join again, and sometimes end the control early."""

from __future__ import annotations

from differential.draws import Draws, full, make_pattern
from differential.expressions import Expressions, Scope
from differential.statements import Declared, make_action, make_probe
from softswitch.program import ir

_STRENGTH = [ir.MatchKind.EXACT, ir.MatchKind.LPM, ir.MatchKind.TERNARY, ir.MatchKind.RANGE]
MOST_BRANCHES = 2  # nested


class PipelineMaker:
    """Makes both controls; they share ``actions`` and the numbers of what they declare."""

    def __init__(self, draws: Draws, declared: Declared) -> None:
        self._draws = draws
        self._declared = declared
        self.actions: list[ir.Action] = []
        self._nodes: dict[str, ir.Node] = {}
        self._budget = 0

    def make(self, name: str, nodes: int, probe: str | None, shown: list[ir.FieldRef]) -> ir.Pipeline:
        """``probe``: a register into which the fields ``shown`` are written at the end, to be compared."""
        self._nodes, self._name, self._budget = {}, name, nodes
        last = None if probe is None else self._probe(probe, shown)
        start = self._block(last, 0)
        return ir.Pipeline(name, start, self._nodes)

    def _probe(self, register: str, shown: list[ir.FieldRef]) -> str:
        action = make_probe(len(self.actions), register, shown)
        self.actions.append(action)
        name, index = f"{self._name}.probe", action.index
        self._nodes[name] = ir.Table(
            name, ir.MatchKind.EXACT, (), 1, (index,), index, (), True, None, {index: None}
        )  # fmt: skip
        return name

    def _block(self, join: str | None, depth: int) -> str | None:
        """Make nodes that run one after the other and then go on with ``join``; return the first."""
        draws = self._draws
        following = None if depth and draws.chance(0.08) else join
        for _ in range(draws.count(1, 2) if depth else max(self._budget, 0)):
            if self._budget <= 0:
                break
            self._budget -= 1
            following = self._conditional(following, depth) if draws.chance(0.25) else self._table(following, depth)
        return following

    def _branch(self, join: str | None, depth: int) -> str | None:
        return self._block(join, depth + 1) if depth < MOST_BRANCHES and self._draws.chance(0.6) else join

    def _conditional(self, join: str | None, depth: int) -> str:
        name = f"{self._name}_if{len(self._nodes)}_{depth}"
        scope = Scope(self._declared.fields, self._declared.names)
        condition = Expressions(self._draws, scope).boolean(3)
        on_true, on_false = self._branch(join, depth), self._branch(join, depth)
        self._nodes[name] = ir.Conditional(name, condition, on_true, on_false)
        return name

    # -- tables ----------------------------------------------------------

    def _table(self, join: str | None, depth: int) -> str:
        draws = self._draws
        name = f"{self._name}.t{len(self._nodes)}_{depth}"
        self._nodes[name] = ir.Conditional(name, ir.Const(1), None, None)  # the name is taken
        keys = self._keys()
        kind = max((key.kind for key in keys), key=_STRENGTH.index, default=ir.MatchKind.EXACT)
        actions = self._actions(1 if not keys and draws.chance(0.6) else draws.count(1, 4))
        default = draws.one(actions)
        by_hit = bool(keys) and draws.chance(0.25)
        follow = {} if by_hit else self._follow(actions, join, depth)
        on_hit, on_miss = (self._branch(join, depth), self._branch(join, depth)) if by_hit else (join, join)
        table = ir.Table(
            name=name,
            kind=kind,
            keys=keys,
            size=draws.one([2, 8, 64, 1024]),
            actions=tuple(action.index for action in actions),
            default_action=default.index,
            default_args=self._args(default),
            default_const=draws.chance(0.7 if not keys else 0.2),
            entries=self._entries(keys, kind, actions) if keys and draws.chance(0.3) else None,
            next=follow,
            by_hit=by_hit,
            on_hit=on_hit,
            on_miss=on_miss,
            has_counter=bool(keys) and draws.chance(0.4),
            selector=draws.one(list(self._declared.calculations)) if keys and draws.chance(0.3) else None,
        )
        self._nodes[name] = table
        return name

    def _keys(self) -> tuple[ir.Key, ...]:
        draws = self._draws
        style = draws.one([None, "exact", "exact", "exact", "lpm", "ternary", "ternary", "range"])
        if draws.focus == "keys":
            style = draws.one(["exact", "lpm", "ternary", "range", "range"])
        if style is None:
            return ()
        kinds = [ir.MatchKind(style)]
        weaker = _STRENGTH[: _STRENGTH.index(kinds[0]) + 1]
        for _ in range(draws.one([0, 0, 1, 2, 3])):
            kind = draws.one(weaker)
            if kind is not ir.MatchKind.LPM or kind not in kinds:
                kinds.append(kind)
        draws.random.shuffle(kinds)
        return tuple(self._key(f"k{number}", kind) for number, kind in enumerate(kinds))

    def _key(self, name: str, kind: ir.MatchKind) -> ir.Key:
        draws = self._draws
        if kind in (ir.MatchKind.EXACT, ir.MatchKind.TERNARY) and draws.chance(0.15):
            return ir.Key(name, kind, ir.Valid(draws.one(self._declared.names)), 1)
        choices = [member for member in self._declared.fields if not member.signed]
        if draws.focus == "keys" and draws.chance(0.5):
            choices = sorted(choices, key=lambda member: -member.width)[:6]
        target = draws.one(choices)
        mask = draws.one([None, None, None, full(target.width), draws.number(target.width)])
        return ir.Key(name, kind, target, target.width, mask)

    def _actions(self, count: int) -> list[ir.Action]:
        """Actions for a table, some of them used by earlier tables."""
        draws = self._draws
        chosen: list[ir.Action] = []
        for _ in range(count):
            old = [action for action in self.actions if action not in chosen]
            if old and draws.chance(0.2):
                chosen.append(draws.one(old))
            else:
                made = make_action(len(self.actions), draws, self._declared)
                self.actions.append(made)
                chosen.append(made)
        return chosen

    def _follow(self, actions: list[ir.Action], join: str | None, depth: int) -> dict[int, str | None]:
        if self._draws.chance(0.7):
            return {action.index: join for action in actions}
        branches: list[str | None] = [self._branch(join, depth) for _ in actions]
        return {action.index: self._draws.one([branches[i], branches[0], join]) for i, action in enumerate(actions)}

    def _args(self, action: ir.Action) -> tuple[int, ...]:
        return tuple(self._draws.number(parameter.width) for parameter in action.parameters)

    def _entries(
        self, keys: tuple[ir.Key, ...], kind: ir.MatchKind, actions: list[ir.Action]
    ) -> tuple[ir.ConstEntry, ...]:
        made: dict[tuple[ir.Pattern, ...], ir.ConstEntry] = {}
        for rank in range(self._draws.count(1, 6)):
            patterns = tuple(make_pattern(self._draws, key) for key in keys)
            action = self._draws.one(actions)
            made.setdefault(patterns, ir.ConstEntry(patterns, action.index, self._args(action), rank + 1))
        return tuple(made.values())
