# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads a whole program.

A construct that the engines cannot run is refused, with its name and P4 source line. A value that breaks a rule of the
format, or a limit, is refused with its place in the JSON. The format is described in p4lang/behavioral-model,
docs/JSON_format.md.
"""

from __future__ import annotations

import functools

from softswitch.errors import MalformedProgramError
from softswitch.program import ir
from softswitch.program.limits import (
    CELLS,
    ENTRY_BYTES,
    KEY_FIELDS,
    PACKET_BYTES,
    PARAMETERS,
    PATTERNS,
    TABLE_BYTES,
    TABLE_ENTRIES,
    TABLE_STATEMENTS,
    full,
)
from softswitch.program.load.actions import ActionLoader, Externs, PassLoader, load_externs
from softswitch.program.load.expressions import ExprLoader
from softswitch.program.load.node import JsonNode, declared_once, flag_of, parse_program, shown, source_of, unsupported
from softswitch.program.load.parser import load_calculations, load_checksum, load_parser, load_selectors
from softswitch.program.load.references import Scope, chosen
from softswitch.program.load.storage import (
    check_memory,
    load_aggregates,
    load_counters,
    load_errors,
    load_headers,
    load_registers,
)
from softswitch.program.traverse import CycleError, flatten, successors, topological

_STRENGTH = [ir.MatchKind.EXACT, ir.MatchKind.LPM, ir.MatchKind.TERNARY, ir.MatchKind.RANGE]
_KINDS = {"exact": "exact", "lpm": "lpm", "ternary": "ternary", "optional": "ternary", "range": "range"}
_RANK_MAX = 2**31 - 1


def load_pipeline(
    node: JsonNode, expressions: ExprLoader, actions: dict[int, ir.Action], externs: Externs
) -> ir.Pipeline:
    for call in node.section("action_calls"):
        raise unsupported("an action call outside a table", source_of(call, source_of(node)))
    declared: dict[str, JsonNode] = {}
    for part in (*node["tables"].items(), *node["conditionals"].items()):
        declared_once(part["name"], part["name"].name(), declared)
        declared[part["name"].name()] = part
    nodes: dict[str, ir.Node] = {}
    for table in node["tables"].items():
        loaded = _TableLoader(table, declared, expressions, actions, externs).load()
        nodes[loaded.name] = loaded
    for part in node["conditionals"].items():
        conditional = _conditional(part, declared, expressions, source_of(node))
        nodes[conditional.name] = conditional
    pipeline = ir.Pipeline(node["name"].name(), _next(node["init_table"], declared), nodes)
    try:
        topological(pipeline.start, lambda name: successors(nodes[name]))
    except CycleError as error:
        raise unsupported("a loop in a control", nodes[error.args[0]].source) from error
    return pipeline


def _next(node: JsonNode | None, declared: dict[str, JsonNode]) -> str | None:
    """The next node of the pipeline; None ends it."""
    return None if node is None or node.value is None else node.choice(declared, "table or condition")


def _conditional(
    node: JsonNode, declared: dict[str, JsonNode], expressions: ExprLoader, outer: ir.Source
) -> ir.Conditional:
    source = source_of(node, outer)
    condition = expressions.expr(node["expression"], Scope(source))
    on_true, on_false = (_next(node[key], declared) for key in ("true_next", "false_next"))
    return ir.Conditional(node["name"].name(), condition, on_true, on_false, source)


class _TableLoader:
    def __init__(
        self,
        node: JsonNode,
        declared: dict[str, JsonNode],
        expressions: ExprLoader,
        actions: dict[int, ir.Action],
        externs: Externs,
    ) -> None:
        self._externs = externs
        self._node = node
        self._declared = declared
        self._expressions = expressions
        self._actions = actions
        self._name = node["name"].name()
        self._source = source_of(node)

    def load(self) -> ir.Table:
        node = self._node
        self._refuse()
        keys = tuple(self._key(key) for key in node["key"].items(KEY_FIELDS))
        if sum(key.kind is ir.MatchKind.LPM for key in keys) > 1:
            raise unsupported(f"table {self._name!r} with two lpm fields", self._source)
        kind = max((key.kind for key in keys), key=_STRENGTH.index, default=ir.MatchKind.EXACT)
        ids = self._action_ids()
        default = node.get("default_entry")
        if default is None:
            ids = (*ids, self._nothing())
            default = JsonNode({"action_id": ids[-1]}, node, "default_entry")
        following = node["next_tables"]
        targets = {str(part.key): _next(part, self._declared) for part in following.members()}
        by_hit = "__HIT__" in targets or "__MISS__" in targets
        base = _next(node.get("base_default_next"), self._declared)
        entries = node.get("entries")
        default_action = self._action(default["action_id"], ids)
        profile = self._profile()
        return ir.Table(
            name=self._name,
            kind=kind,
            keys=keys,
            size=node["max_size"].integer(0, TABLE_ENTRIES),
            actions=ids,
            default_action=default_action,
            default_args=self._arguments(default.get("action_data"), default_action, default),
            default_const=flag_of(default, "action_const", default=False),
            entries=None
            if entries is None
            else tuple(self._entry(entry, keys, ids) for entry in entries.items(PATTERNS)),
            next={} if by_hit else {i: targets.get(self._actions[i].name, base) for i in ids},
            by_hit=by_hit,
            on_hit=targets.get("__HIT__", base),
            on_miss=targets.get("__MISS__", base),
            has_counter=flag_of(node, "with_counters", default=False),
            source=self._source,
            meter_target=self._externs.targets.get(self._name) if self._metered() else None,
            selector=None if profile is None else self._externs.selectors[profile],
            profile=profile,
        )

    def _profile(self) -> str | None:
        profile = self._node.get("action_profile")
        return None if profile is None else profile.choice(self._externs.selectors, "action profile")

    def _metered(self) -> bool:
        name = self._node.get("direct_meters")
        if name is None:
            return False
        meter = self._externs.meters.get(name.name())
        if meter is None or meter.table != self._name:
            raise name.wrong("is no direct meter of this table")
        return True

    def _nothing(self) -> int:
        """An action that does nothing, for a table whose program names no default action."""
        index = max(self._actions, default=-1) + 1
        name = "NoAction (no default action)"
        known = next((i for i, action in self._actions.items() if action.name == name), None)
        if known is None:
            self._actions[index] = ir.Action(index, name, (), (), self._source)
        return index if known is None else known

    def _refuse(self) -> None:
        node, name = self._node, self._name
        kind = node.get("type")
        if kind is not None and kind.value not in ("simple", "indirect", "indirect_ws"):
            raise unsupported(f"table {name!r} of type {shown(kind.value)}", self._source)

    def _action_ids(self) -> tuple[int, ...]:
        ids: dict[int, None] = {}
        for part in self._node["action_ids"].items():
            index = self._action(part, self._actions)
            if index in ids:
                raise part.wrong("is the id of an action that the table has already")
            ids[index] = None
        return tuple(ids)

    def _action(self, node: JsonNode, known: object) -> int:
        index = node.integer(0, CELLS)
        if not isinstance(known, dict | tuple) or index not in known:
            raise node.wrong(
                "is the id of no action of the table" if known is not self._actions else "is no action's id"
            )
        return index

    def _arguments(self, node: JsonNode | None, action: int, place: JsonNode) -> tuple[int, ...]:
        """Action data for all parameters of an action."""
        parameters = self._actions[action].parameters
        parts = [] if node is None else node.items(PARAMETERS)
        if len(parts) != len(parameters):
            raise place.wrong(f"has {len(parts)} values for the {len(parameters)} parameters of its action")
        return tuple(part.hexadecimal(parameter.width) for part, parameter in zip(parts, parameters, strict=True))

    # -- keys and entries ------------------------------------------------

    def _key(self, node: JsonNode) -> ir.Key:
        kind = node["match_type"].value
        if kind == "valid":
            header = self._expressions.header(node["target"], self._source).name
            return ir.Key(_key_name(node, header), ir.MatchKind.EXACT, ir.Valid(header), 1)
        if not isinstance(kind, str) or kind not in _KINDS:
            raise unsupported(f"match kind {shown(kind)}", self._source)
        mask = node.get("mask")
        if isinstance(node["target"].value, dict):
            target, width = self._computed(node["target"])
            name = _key_name(node, "a computed key")
        else:
            target, width = self._field(node["target"])
            name = _key_name(node, ".".join(str(part.value) for part in node["target"].items()))
        return ir.Key(
            name, ir.MatchKind(_KINDS[kind]), target, width, None if mask is None else mask.hexadecimal(width)
        )

    def _field(self, node: JsonNode) -> tuple[ir.Expr, int]:
        target = self._expressions.readable(node, self._source)
        if not isinstance(target, ir.FieldRef):
            return target, 1
        # Signed fields are matched by their bits.
        return ir.Binary("&", target, ir.Const(full(target.width))) if target.signed else target, target.width

    def _computed(self, node: JsonNode) -> tuple[ir.Expr, int]:
        """A field of an element of a stack at an index known at run time."""
        fields = self._expressions.targets(node, Scope(self._source))
        width = fields[0][1].width
        bits = ir.Const(full(width))
        return ir.Binary("&", chosen(fields), bits) if fields[0][1].signed else chosen(fields), width

    def _entry(self, node: JsonNode, keys: tuple[ir.Key, ...], ids: tuple[int, ...]) -> ir.ConstEntry:
        matches = node["match_key"].items(KEY_FIELDS)
        if len(matches) != len(keys):
            raise node["match_key"].wrong(f"does not match the {len(keys)} fields of the key")
        patterns = tuple(_pattern(match, key) for match, key in zip(matches, keys, strict=True))
        call = node["action_entry"]
        action = self._action(call["action_id"], ids)
        priority = node.get("priority")
        rank = 0 if priority is None else priority.integer(0, _RANK_MAX)
        return ir.ConstEntry(patterns, action, self._arguments(call["action_data"], action, call), rank)


def _key_name(node: JsonNode, default: str) -> str:
    """Only for messages, so any printable text."""
    name = node.get("name")
    return default if name is None else name.text()


def _pattern(node: JsonNode, key: ir.Key) -> ir.Pattern:
    match key.kind:
        case ir.MatchKind.EXACT:
            exact = node["key"]
            value = int(exact.value) if isinstance(exact.value, bool) else exact.hexadecimal(key.width)
            return ir.Pattern(value, full(key.width))
        case ir.MatchKind.LPM:
            length = node["prefix_length"].integer(0, key.width)
            mask = full(key.width) ^ full(key.width - length)
            return ir.Pattern(node["key"].hexadecimal(key.width) & mask, mask, length)
        case ir.MatchKind.RANGE:
            low, high = (node[end].hexadecimal(key.width) for end in ("start", "end"))
            return ir.Pattern(low, high)
        case ir.MatchKind.TERNARY:
            given = node.get("mask")
            mask = full(key.width) if given is None else given.hexadecimal(key.width)
            return ir.Pattern(node["key"].hexadecimal(key.width) & mask, mask)


_REFUSED_SECTIONS = {
    "extern_instances": "extern instance",
}


@functools.lru_cache(maxsize=2)
def load_program(text: str) -> ir.Program:
    """Parse and check the JSON that p4c emits for bmv2. Several switches of a process share a program.

    Raises UnsupportedProgramError for constructs outside the subset, MalformedProgramError for other text, and
    ProgramTooLargeError.
    """
    root = parse_program(text)
    for section, what in _REFUSED_SECTIONS.items():
        for node in root.section(section):
            raise unsupported(f"{what} {node['name'].name()!r}", source_of(node))
    declared = load_headers(root)
    aggregates = load_aggregates(root, declared.headers, declared.hidden)
    expressions = ExprLoader(declared.headers, aggregates, declared.varbits, declared.hidden)
    registers, counters = load_registers(root), load_counters(root)
    check_memory(root, registers, counters)
    calculations = load_calculations(root, expressions)
    passes = PassLoader(root, expressions)
    externs = load_externs(root, expressions)
    loader = ActionLoader(
        expressions,
        registers=registers,
        counters=counters,
        calculations=calculations,
        passes=passes,
        externs=externs,
    )
    actions = loader.actions(root)
    for node in _pipelines(root).values():
        load_selectors(node, expressions, calculations, externs.selectors)
    pipelines = {name: load_pipeline(node, expressions, actions, externs) for name, node in _pipelines(root).items()}
    _check_tables(root, pipelines, actions)
    if _truncates(pipelines["ingress"], actions):
        passes.need()
    parser = load_parser(root["parsers"][0], expressions, loader, externs)
    deparser = _deparser(root["deparsers"][0], expressions)
    checksums = tuple(load_checksum(node, expressions, calculations) for node in root.section("checksums"))
    return ir.Program(
        headers=declared.headers | declared.hidden.headers(),
        errors=load_errors(root),
        parser=parser,
        ingress=pipelines["ingress"],
        egress=pipelines["egress"],
        deparser=deparser,
        actions=tuple(actions[i] for i in sorted(actions)),
        registers=registers,
        counters=counters,
        calculations=calculations,
        checksums=checksums,
        passes=passes.passes,
        value_sets=externs.value_sets,
        meters=externs.meters,
        digests=externs.digests,
        digest_request=externs.digest_request,
        varbits={name: varbit.varbit for name, varbit in declared.varbits.items()},
    )


def _pipelines(root: JsonNode) -> dict[str, JsonNode]:
    found = {node["name"].name(): node for node in root["pipelines"].items()}
    if len(found) != len(root["pipelines"].value) or set(found) != {"ingress", "egress"}:
        raise MalformedProgramError(
            "v1model has one pipeline 'ingress' and one 'egress'; compile the P4 program for v1model", "pipelines"
        )
    return found


def _check_tables(root: JsonNode, pipelines: dict[str, ir.Pipeline], actions: dict[int, ir.Action]) -> None:
    """What tables of both pipelines have to share: names, memory, statements."""
    lengths = {index: 1 + sum(1 for _ in flatten(action.body)) for index, action in actions.items()}
    names: set[str] = set()
    taken = statements = 0
    for part in root["pipelines"].items():
        nodes = pipelines[part["name"].name()].nodes
        for node in part["tables"].items():
            table = nodes[node["name"].name()]
            assert isinstance(table, ir.Table)
            if table.name in names:
                raise node["name"].wrong("is a table of both pipelines")
            names.add(table.name)
            statements += sum(lengths[index] for index in table.actions)
            if statements > TABLE_STATEMENTS:
                raise node["actions"].too_large("more statements that tables can run", TABLE_STATEMENTS)
            taken += table.size * _entry_bytes(table, actions) if table.keys else 0
            if taken > TABLE_BYTES:
                raise node["max_size"].too_large(f"tables of {taken} bytes up to here", TABLE_BYTES)


def _entry_bytes(table: ir.Table, actions: dict[int, ir.Action]) -> int:
    """What an entry can take: key and mask, and action data."""
    data = max((sum(each.width for each in actions[index].parameters) for index in table.actions), default=0)
    return ENTRY_BYTES + (2 * sum(key.width for key in table.keys) + data) // 8


def _truncates(ingress: ir.Pipeline, actions: dict[int, ir.Action]) -> bool:
    indices = {index for node in ingress.nodes.values() if isinstance(node, ir.Table) for index in node.actions}
    return any(isinstance(each, ir.Truncate) for index in indices for each in flatten(actions[index].body))


def _deparser(node: JsonNode, expressions: ExprLoader) -> tuple[str, ...]:
    source = source_of(node)
    for statement in node.section("primitives"):
        raise unsupported("a statement in the deparser", source_of(statement, source))
    names: list[str] = []
    for part in node["order"].items():
        whole = expressions.aggregates.all_of(part.value) if isinstance(part.value, str) else []
        names += whole if len(whole) > 1 else [expressions.header(part, source).name]
    size_bytes = sum(expressions.size_bytes(name) for name in names)
    if size_bytes > PACKET_BYTES:
        raise node["order"].too_large("more bytes of headers", PACKET_BYTES)
    varbits = expressions.varbits
    return tuple(each for name in names for each in (name, name in varbits and varbits[name].rest) if each)
