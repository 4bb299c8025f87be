# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""An interpreter of the intermediate form, as plain as possible: what a program means.

It shares no code with the engines except that form, and has none of their optimisations. Numbers are unbounded until
they are stored, as in bmv2.
"""

from __future__ import annotations

import binascii
import operator
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from softswitch.program import ir
from softswitch.runtime.entries import (
    ActionCall,
    ActionSet,
    CounterValue,
    Entry,
    Exact,
    KeyMatch,
    Lpm,
    Range,
    Replica,
    Ternary,
)

STANDARD = "standard_metadata"
DROP_PORT = 511
REPLICATED = 5
GREEN = 0
MOST_PASSES = 256  # clones, resubmits and recirculations that come from one frame
MOST_BLOCKS = 65536  # that one run of a loop passes
MOST_STATES = 16384  # that a packet passes in the parser
FAR_SHIFT = 1 << 14  # a number shifted left this far is 0 in any field

Frames = list[tuple[int, bytes]]


def wrapped(value: int, width: int, signed: bool) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if signed and value >> (width - 1) else value


class SplitMix64:
    """Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014."""

    def __init__(self, seed: int) -> None:
        self._state = seed % 2**64

    def next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) % 2**64
        mixed = self._state
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ mixed >> shift) * factor % 2**64
        return mixed ^ mixed >> 31

    def integer(self, low: int, high: int, width: int) -> int:
        limbs = max(1, -(-width // 64))
        drawn = sum(self.next() << (64 * limb) for limb in range(limbs))
        return low + (drawn * (high - low + 1) >> (64 * limbs))


@dataclass
class Packet:
    """The state of one packet. ``position``: how many bits of the frame the parser has consumed."""

    frame: bytes
    values: dict[tuple[str, str], int]
    valid: set[str]
    position: int = 0
    length: int = 0
    limit: int | None = None


class ParserEndsError(Exception):
    """The parser stops with error number ``args[0]``."""


class ExitReachedError(Exception):
    """The pipeline ends by ``exit``."""


@dataclass
class TableState:
    """``rows`` in the order they were added."""

    default: ActionCall | None = None
    rows: dict[tuple[tuple[KeyMatch, ...], int], Entry] = field(default_factory=dict)


class Reference:
    """Runs one program."""

    def __init__(self, program: ir.Program, seed: int, now_us: int) -> None:
        self.program = program
        self.registers = {name: [0] * register.size for name, register in program.registers.items()}
        self.counters = {
            name: [[0, 0] for _ in range(array.size)] for name, array in program.counters.items() if array.table is None
        }
        self.sessions: dict[int, tuple[tuple[tuple[int, int], ...], int]] = {}
        self.lost_passes = 0
        self.value_sets: dict[str, tuple[tuple[KeyMatch, ...], ...]] = dict.fromkeys(program.value_sets, ())
        self.groups: dict[int, tuple[tuple[int, int], ...]] = {}
        self.tables = {name: self._table(table) for name, table in program.tables.items()}
        self.messages: list[str] = []
        self.looked_up: dict[str, list[tuple[int, ...]]] = {name: [] for name in program.tables}
        self._actions = {action.index: action for action in program.actions}
        self._random = SplitMix64(seed)
        self._now_us = now_us

    def _table(self, table: ir.Table) -> TableState:
        state = TableState()
        ordered = table.kind in (ir.MatchKind.TERNARY, ir.MatchKind.RANGE)
        last = max((entry.rank for entry in table.entries or ()), default=0)
        for entry in table.entries or ():
            matches = tuple(match_of(pattern, key) for pattern, key in zip(entry.patterns, table.keys, strict=True))
            priority = last + 1 - entry.rank if ordered else 0
            counter = CounterValue() if table.has_counter else None
            call = ActionCall(str(entry.action), entry.args)
            state.rows[matches, priority] = Entry(matches, call, priority, counter=counter)
        return state

    # -- the control plane -----------------------------------------------

    # Accepts every write: it only gets writes that the engines have accepted.

    def insert(self, table: str, entry: Entry) -> None:
        self._put(table, entry, CounterValue())

    def modify(self, table: str, entry: Entry) -> None:
        self._put(table, entry, self.tables[table].rows[entry.key, entry.priority].counter)

    def _put(self, table: str, entry: Entry, before: CounterValue | None) -> None:
        counter = (entry.counter or before) if self.program.tables[table].has_counter else None
        self.tables[table].rows[entry.key, entry.priority] = entry._replace(counter=counter)

    def delete(self, table: str, key: tuple[KeyMatch, ...], priority: int) -> None:
        del self.tables[table].rows[key, priority]

    def set_default_action(self, table: str, action: ActionCall | None) -> None:
        self.tables[table].default = action

    def set_group(self, group: int, replicas: tuple[Replica, ...]) -> None:
        self.groups[group] = _pairs(replicas)

    def delete_group(self, group: int) -> None:
        del self.groups[group]

    def set_session(self, session: int, replicas: tuple[Replica, ...], group: int) -> None:
        self.sessions[session] = _pairs(replicas), group

    def delete_session(self, session: int) -> None:
        del self.sessions[session]

    def set_value_set(self, name: str, members: tuple[tuple[KeyMatch, ...], ...]) -> None:
        self.value_sets[name] = members

    def write_counter(self, counter: str, index: int, value: CounterValue) -> None:
        self.counters[counter][index][:] = value.packets, value.bytes

    def write_direct_counter(self, table: str, key: tuple[KeyMatch, ...], priority: int, value: CounterValue) -> None:
        rows = self.tables[table].rows
        rows[key, priority] = rows[key, priority]._replace(counter=value)

    def write_register(self, register: str, index: int, value: int) -> None:
        self.registers[register][index] = value

    # -- a packet's way --------------------------------------------------

    def process(self, port: int, frame: bytes) -> Frames:
        if self.program.passes is not None:
            return _Passes(self, self.program.passes, port).run(frame)
        packet = self._arrive(port, frame)
        self._parse(packet)
        self._verify(packet)
        self._pipeline(self.program.ingress, packet)
        out: Frames = []
        for out_port, instance in self._replicas(packet):
            replica = Packet(frame, dict(packet.values), set(packet.valid), packet.position, packet.length)
            self._set(replica, egress_spec=0, egress_port=out_port, egress_rid=instance, packet_length=packet.length)
            self._set(replica, egress_global_timestamp=self._now_us)
            self._pipeline(self.program.egress, replica)
            if replica.values[STANDARD, "egress_spec"] != DROP_PORT:
                self._update(replica)
                out.append((out_port, self._deparse(replica)))
        return out

    def _set(self, packet: Packet, **fields: int) -> None:
        for name, value in fields.items():
            packet.values[STANDARD, name] = value

    def _arrive(self, port: int, frame: bytes) -> Packet:
        headers = self.program.headers.values()
        values = {(header.name, member.name): 0 for header in headers for member in header.fields}
        packet = Packet(frame, values, {header.name for header in headers if header.metadata}, length=len(frame))
        error = self.program.errors["NoError"]
        self._set(packet, ingress_port=port, packet_length=len(frame), parser_error=error)
        self._set(packet, ingress_global_timestamp=self._now_us)
        return packet

    def _replicas(self, packet: Packet) -> tuple[tuple[int, int], ...]:
        group = packet.values[STANDARD, "mcast_grp"]
        if group:
            self._set(packet, instance_type=REPLICATED)
            return self.groups.get(group, ())
        spec = packet.values[STANDARD, "egress_spec"]
        return () if spec == DROP_PORT else ((spec, packet.values[STANDARD, "egress_rid"]),)

    def _deparse(self, packet: Packet) -> bytes:
        out = b""
        for name in self.program.deparser:
            if name in packet.valid:
                header = self.program.headers[name]
                bits = 0
                for member in header.fields:
                    bits = bits << member.width | packet.values[name, member.name] % (1 << member.width)
                out += bits.to_bytes(header.size_bytes)
                varbit = self.program.varbits.get(name)
                if varbit is not None:
                    size = packet.values[varbit.length.header, varbit.length.field] // 8
                    out += packet.values[varbit.value.header, varbit.value.field].to_bytes(size)
        return (out + packet.frame[packet.position // 8 :])[: packet.limit]

    # -- parser ----------------------------------------------------------

    def _parse(self, packet: Packet) -> None:
        state: str | None = self.program.parser.start
        steps = 0
        try:
            while state is not None:
                steps += 1
                if steps > MOST_STATES:
                    raise ParserEndsError(self.program.errors["ParserTimeout"])
                described = self.program.parser.states[state]
                for op in described.ops:
                    self._parser_op(op, packet)
                state = self._next_state(described, packet)
        except ParserEndsError as end:
            self._set(packet, parser_error=end.args[0])

    def _take(self, packet: Packet, bits: int) -> None:
        if packet.position + bits > 8 * len(packet.frame):
            raise ParserEndsError(self.program.errors["PacketTooShort"])

    def _bits(self, packet: Packet, start: int, width: int) -> int:
        whole = int.from_bytes(packet.frame)
        return (whole >> (8 * len(packet.frame) - start - width)) % (1 << width)

    def _parser_op(self, op: ir.ParserOp, packet: Packet) -> None:
        match op:
            case ir.Extract(name):
                header = self.program.headers[name]
                self._take(packet, header.width)
                for member in header.fields:
                    bits = self._bits(packet, packet.position, member.width)
                    packet.values[name, member.name] = wrapped(bits, member.width, member.signed)
                    packet.position += member.width
                packet.valid.add(name)
            case ir.ExtractVarbit():
                self._extract_varbit(op, packet)
            case ir.Choose(index, branches):
                number = self.value(index, packet, ())
                if number >= len(branches):
                    raise ParserEndsError(self.program.errors["StackOutOfBounds"])
                for inner in branches[number]:
                    self._parser_op(inner, packet)
            case ir.Advance(distance):
                bits = self.value(distance, packet, ())
                if bits % 8:
                    raise ParserEndsError(self.program.errors["ParserInvalidArgument"])
                self._take(packet, bits)
                packet.position += bits
            case ir.Verify(condition, error):
                if not self.value(condition, packet, ()):
                    raise ParserEndsError(self.value(error, packet, ()))
            case _:
                self._statement(op, packet, ())

    def _extract_varbit(self, op: ir.ExtractVarbit, packet: Packet) -> None:
        errors, headers = self.program.errors, self.program.headers
        bits = self.value(op.bits, packet, ())
        if bits % 8:
            raise ParserEndsError(errors["ParserInvalidArgument"])
        whole = headers[op.header].width + bits + (headers[op.rest].width if op.rest else 0)
        self._take(packet, whole)
        if whole > 8 * op.most_bytes:
            raise ParserEndsError(errors["HeaderTooShort"])
        self._parser_op(ir.Extract(op.header), packet)
        self._store(packet, op.value, self._bits(packet, packet.position, bits) if bits else 0)
        self._store(packet, op.length, bits)
        packet.position += bits
        if op.rest:
            self._parser_op(ir.Extract(op.rest), packet)

    def _next_state(self, state: ir.ParserState, packet: Packet) -> str | None:
        key = [(self.value(part, packet, ()), part) for part in state.key]
        for case in state.cases:
            if case.value_set is not None:
                bits = [(value % (1 << _width(part)), _width(part)) for value, part in key]
                if any(
                    all(matches(match, *pair) for match, pair in zip(member, bits, strict=True))
                    for member in self.value_sets[case.value_set]
                ):
                    return case.next_state
                continue
            # The key is compared as bits, signed or not.
            if all(
                value % (1 << _width(part)) & mask == wanted
                for (value, part), wanted, mask in zip(key, case.values, case.masks, strict=True)
            ):
                return case.next_state
        return state.default

    # -- controls --------------------------------------------------------

    def _pipeline(self, pipeline: ir.Pipeline, packet: Packet) -> None:
        name = pipeline.start
        try:
            while name is not None:
                node = pipeline.nodes[name]
                if isinstance(node, ir.Conditional):
                    name = node.on_true if self.value(node.condition, packet, ()) else node.on_false
                else:
                    name = self._apply(node, packet)
        except ExitReachedError:
            return

    def _apply(self, table: ir.Table, packet: Packet) -> str | None:
        state = self.tables[table.name]
        identity = self._look_up(table, packet)
        if identity is None:
            call = state.default or ActionCall(str(table.default_action), table.default_args)
        else:
            entry = state.rows[identity]
            call = self._chosen(table, entry.action, packet)
            if table.meter_target is not None:
                self._store(packet, table.meter_target, GREEN)
            if entry.counter is not None:
                counted = CounterValue(entry.counter.packets + 1, entry.counter.bytes + len(packet.frame))
                state.rows[identity] = entry._replace(counter=counted)
        index = self.action_index(table, call.name)
        for statement in self._actions[index].body:
            self._statement(statement, packet, call.args)
        if not table.by_hit:
            return table.next[index]
        return table.on_miss if identity is None else table.on_hit

    def _chosen(self, table: ir.Table, action: ActionCall | ActionSet, packet: Packet) -> ActionCall:
        if isinstance(action, ActionCall):
            return action
        assert table.selector is not None
        return action.calls[self._digest(table.selector, packet) % 2**32 % len(action.calls)]

    def action_index(self, table: ir.Table, name: str) -> int:
        return next(i for i in table.actions if name in (self._actions[i].name, str(i)))

    def _look_up(self, table: ir.Table, packet: Packet) -> tuple[tuple[KeyMatch, ...], int] | None:
        """The matching row with the longest prefix or the highest priority; of equal rows the oldest."""
        values = []
        for key in table.keys:
            value = self.value(key.target, packet, ())
            values.append(value if key.mask is None else value & key.mask)
        self.looked_up[table.name].append(tuple(values))
        widths = [key.width for key in table.keys]
        best = None
        for identity, entry in self.tables[table.name].rows.items():
            if all(matches(*triple) for triple in zip(entry.key, values, widths, strict=True)):
                prefix = sum(match.prefix_len for match in entry.key if isinstance(match, Lpm))
                rank = prefix if table.kind is ir.MatchKind.LPM else entry.priority
                if best is None or rank > best[0]:
                    best = (rank, identity)
        return None if best is None else best[1]

    # -- statements ------------------------------------------------------

    def _store(self, packet: Packet, target: ir.FieldRef, value: int) -> None:
        packet.values[target.header, target.field] = wrapped(value, target.width, target.signed)

    def _statement(self, statement: ir.Statement, packet: Packet, args: tuple[int, ...]) -> None:  # noqa: PLR0912
        match statement:
            case ir.Assign(target, value):
                self._store(packet, target, self.value(value, packet, args))
            case ir.AssignHeader(to, source):
                self._copy(packet, to, source)
            case ir.SetValid(header):
                if header not in packet.valid:
                    packet.valid.add(header)
                    packet.length += self.program.headers[header].size_bytes
                    for member in self.program.headers[header].fields:
                        packet.values[header, member.name] = 0
            case ir.SetInvalid(header, counted):
                if header in packet.valid:
                    packet.valid.remove(header)
                    packet.length -= self.program.headers[header].size_bytes if counted else 0
            case ir.RegisterRead(target, register, index):
                at = self.value(index, packet, args)
                if 0 <= at < len(self.registers[register]):
                    self._store(packet, target, self.registers[register][at])
            case ir.RegisterWrite(register, index, value):
                at = self.value(index, packet, args)
                declared = self.program.registers[register]
                if 0 <= at < declared.size:
                    stored = wrapped(self.value(value, packet, args), declared.width, declared.signed)
                    self.registers[register][at] = stored
            case ir.Count(counter, index):
                at = self.value(index, packet, args)
                if 0 <= at < len(self.counters[counter]):
                    self.counters[counter][at][0] += 1
                    self.counters[counter][at][1] += len(packet.frame)
            case ir.ExecuteMeter(target, meter, index):
                # No meter is configured here: tests/unit/softswitch/test_externs.py has those.
                if 0 <= self.value(index, packet, args) < self.program.meters[meter].size:
                    self._store(packet, target, GREEN)
            case ir.MarkToDrop():
                self._set(packet, egress_spec=DROP_PORT, mcast_grp=0)
            case ir.Truncate(wanted):
                length = self.value(wanted, packet, args)
                packet.limit = length if packet.limit is None else min(packet.limit, length)
            case ir.Random(target, low, high):
                bottom, top = self.value(low, packet, args), self.value(high, packet, args)
                if bottom <= top:
                    self._store(packet, target, self._random.integer(bottom, top, target.width))
            case ir.Hash(target, base, calculation, modulus):
                digest = self._digest(calculation, packet) % max(1, self.value(modulus, packet, args))
                self._store(packet, target, self.value(base, packet, args) + digest)
            case ir.LogMessage(text, values):
                for value in values:
                    text = text.replace("{}", str(self.value(value, packet, args)), 1)
                self.messages.append(text)
            case ir.Loop(blocks):
                self._loop(blocks, packet, args)
            case ir.Exit():
                raise ExitReachedError
            case ir.If(condition, then, otherwise):
                for inner in then if self.value(condition, packet, args) else otherwise:
                    self._statement(inner, packet, args)

    def _loop(self, blocks: tuple[ir.Block, ...], packet: Packet, args: tuple[int, ...]) -> None:
        at: int | None = 0
        for _ in range(MOST_BLOCKS):
            if at is None:
                return
            block = blocks[at]
            for inner in block.statements:
                self._statement(inner, packet, args)
            at = block.then if block.condition is None or self.value(block.condition, packet, args) else block.otherwise

    def _copy(self, packet: Packet, to: str, source: str) -> None:
        if source not in packet.valid:
            packet.valid.discard(to)
            return
        packet.valid.add(to)
        for member in self.program.headers[to].fields:
            packet.values[to, member.name] = packet.values[source, member.name]

    # -- checksums -------------------------------------------------------

    def _digest(self, name: str, packet: Packet) -> int:
        calculation = self.program.calculations[name]
        bits = ""
        for chunk in calculation.chunks:
            if isinstance(chunk.value, ir.FieldRef):
                if (chunk.owner or chunk.value.header) not in packet.valid:
                    continue
                value = packet.values[chunk.value.header, chunk.value.field]
            else:
                value = chunk.value.value
            width = chunk.width
            if chunk.length is not None:
                width = packet.values[chunk.length.header, chunk.length.field]
            bits += f"{value % (1 << width):0{width}b}" if width else ""
        bits += "0" * (-len(bits) % 8)
        data = bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))
        payload = packet.frame[packet.position // 8 :] if calculation.payload else b""
        return DIGESTS[calculation.algorithm](data + payload)

    def _verify(self, packet: Packet) -> None:
        for checksum in self.program.checksums:
            target = (checksum.target.header, checksum.target.field)
            asked = checksum.verify and target[0] in packet.valid and self.value(checksum.condition, packet, ())
            if asked and self._digest(checksum.calculation, packet) != packet.values[target]:
                self._set(packet, checksum_error=1)

    def _update(self, packet: Packet) -> None:
        for checksum in self.program.checksums:
            if checksum.update and self.value(checksum.condition, packet, ()):
                self._store(packet, checksum.target, self._digest(checksum.calculation, packet))

    # -- expressions -----------------------------------------------------

    def value(self, expr: ir.Expr, packet: Packet, args: tuple[int, ...]) -> int:
        """Booleans are 1 and 0."""
        match expr:
            case ir.Const(value):
                return value
            case ir.FieldRef(header, name, _, _):
                return packet.values[header, name]
            case ir.Valid(header):
                return int(header in packet.valid)
            case ir.Param(index, _):
                return args[index]
            case ir.Lookahead(offset, width):
                self._take(packet, offset + width)
                return self._bits(packet, packet.position + offset, width)
            case ir.Cast(op, operand, width):
                return _cast(op, self.value(operand, packet, args), width)
            case ir.Mux(condition, then, otherwise):
                chosen, other = (then, otherwise) if self.value(condition, packet, args) else (otherwise, then)
                self._reach(other, packet)
                return self.value(chosen, packet, args)
            case ir.Unary("~", operand):
                return ~self.value(operand, packet, args)
            case ir.Unary("-", operand):
                return -self.value(operand, packet, args)
            case ir.Unary("not", operand):
                return int(not self.value(operand, packet, args))
            case ir.Unary("d2b" | "b2d", operand):
                return int(bool(self.value(operand, packet, args)))
            case ir.Binary(op, left, right):
                return int(_OPERATIONS[op](self.value(left, packet, args), self.value(right, packet, args)))
        raise AssertionError(expr)

    def _reach(self, expr: ir.Expr, packet: Packet) -> None:
        """End the parser if the packet is too short for a lookahead, even if its value is not used."""
        match expr:
            case ir.Lookahead(offset, width):
                self._take(packet, offset + width)
            case ir.Unary(_, operand) | ir.Cast(_, operand, _):
                self._reach(operand, packet)
            case ir.Binary(_, left, right):
                self._reach(left, packet)
                self._reach(right, packet)
            case ir.Mux(condition, then, otherwise):
                for part in (condition, then, otherwise):
                    self._reach(part, packet)


def _pairs(replicas: tuple[Replica, ...]) -> tuple[tuple[int, int], ...]:
    return tuple((replica.port, replica.instance) for replica in replicas)


def _width(part: ir.Expr) -> int:
    return part.width if isinstance(part, ir.FieldRef | ir.Lookahead) else 1


def match_of(pattern: ir.Pattern, key: ir.Key) -> KeyMatch:
    match key.kind:
        case ir.MatchKind.EXACT:
            return Exact(pattern.value)
        case ir.MatchKind.LPM:
            return Lpm(pattern.value, pattern.prefix_len or 0)
        case ir.MatchKind.TERNARY:
            return Ternary(pattern.value, pattern.mask)
        case ir.MatchKind.RANGE:
            return Range(pattern.value, pattern.mask)


def matches(match: KeyMatch, value: int, width: int) -> bool:
    match match:
        case Exact(wanted):
            return value == wanted
        case Lpm(wanted, length):
            return value >> (width - length) == wanted >> (width - length)
        case Ternary(wanted, mask):
            return value & mask == wanted
        case Range(low, high):
            return low <= value <= high


def _cast(op: str, value: int, width: int) -> int:
    half = 1 << (width - 1)
    match op:
        case "two_comp_mod":
            return wrapped(value, width, signed=True)
        case "usat_cast":
            return max(0, min(value, 2 * half - 1))
        case "sat_cast":
            return max(-half, min(value, half - 1))
    raise AssertionError(op)


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, ">>": operator.rshift, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
    "/": lambda left, right: left // right if right else 0,
    "%": lambda left, right: left % right if right else 0,
    "<<": lambda left, right: left << right if right < FAR_SHIFT else 0,
    "and": lambda left, right: bool(left) and bool(right),
    "or": lambda left, right: bool(left) or bool(right),
}  # fmt: skip


class _Passes:
    """The passes that come from one frame, in the order in which they were asked for."""

    def __init__(self, reference: Reference, passes: ir.Passes, port: int) -> None:
        self._reference = reference
        self._passes = passes
        self._port = port
        self._left = MOST_PASSES
        self._queue: list[Callable[[], None]] = []
        self._out: Frames = []

    def run(self, frame: bytes) -> Frames:
        self._ingress(self._reference._arrive(self._port, frame))
        while self._queue:
            self._queue.pop(0)()
        return self._out

    def _allowed(self) -> bool:
        if self._left == 0:
            self._reference.lost_passes += 1
            return False
        self._left -= 1
        return True

    def _take(self, packet: Packet, request: ir.FieldRef) -> int:
        """The request's value, which is 0 afterwards."""
        key = request.header, request.field
        value, packet.values[key] = packet.values[key], 0
        return value

    def _without_metadata(self, packet: Packet, number: int, origin: Packet, kind: int) -> None:
        for header in self._reference.program.headers.values():
            if header.metadata and header.name != self._passes.clone.header:
                for member in header.fields:
                    packet.values[header.name, member.name] = 0
        for request in self._passes.requests:
            self._take(packet, request)
        for kept in self._passes.lists[number]:
            packet.values[kept.header, kept.field] = origin.values[kept.header, kept.field]
        self._reference._set(packet, instance_type=kind)

    def _ingress(self, packet: Packet) -> None:
        reference = self._reference
        frame, length = packet.frame, packet.length
        reference._parse(packet)
        reference._verify(packet)
        reference._pipeline(reference.program.ingress, packet)
        asked, number = self._take(packet, self._passes.clone), self._take(packet, self._passes.clone_list)
        if asked and asked % 2**15 in reference.sessions and self._allowed():
            clone = reference._arrive(self._port, frame)
            reference._set(clone, ingress_global_timestamp=0, packet_length=0, parser_error=0)
            reference._parse(clone)
            clone.length = length
            self._without_metadata(clone, number, packet, 1)
            self._copies(clone, asked % 2**15)
        number = self._take(packet, self._passes.resubmit)
        if number:
            self._again(packet, frame, number, 6)
            return
        group = packet.values[STANDARD, "mcast_grp"]
        if group:
            self._take(packet, self._passes.recirculate)
            packet.limit = None
        for port, instance in reference._replicas(packet):
            if not group:
                reference._set(packet, instance_type=0)
            self._later(packet, port, instance)

    def _again(self, packet: Packet, frame: bytes, number: int, kind: int) -> None:
        if not self._allowed():
            return
        again = self._reference._arrive(self._port, frame)
        self._without_metadata(again, number, packet, kind)
        error = self._reference.program.errors["NoError"]
        self._reference._set(again, packet_length=len(frame), parser_error=error, checksum_error=0)
        self._queue.append(lambda: self._ingress(again))

    def _copies(self, packet: Packet, session: int) -> None:
        replicas, group = self._reference.sessions[session]
        for port, instance in (*self._reference.groups.get(group, ()), *replicas):
            self._later(packet, port, instance)

    def _later(self, packet: Packet, port: int, instance: int) -> None:
        copied = replace(packet, values=dict(packet.values), valid=set(packet.valid))
        self._queue.append(lambda: self._egress(copied, port, instance))

    def _egress(self, packet: Packet, port: int, instance: int) -> None:
        reference = self._reference
        reference._set(packet, egress_spec=0, egress_port=port, egress_rid=instance, packet_length=packet.length)
        reference._set(packet, egress_global_timestamp=reference._now_us)
        reference._pipeline(reference.program.egress, packet)
        asked, number = self._take(packet, self._passes.clone), self._take(packet, self._passes.clone_list)
        if asked and asked % 2**15 in reference.sessions and self._allowed():
            clone = replace(packet, values=dict(packet.values), valid=set(packet.valid), limit=None)
            self._without_metadata(clone, number, packet, 2)
            self._copies(clone, asked % 2**15)
        if packet.values[STANDARD, "egress_spec"] == DROP_PORT:
            return
        reference._update(packet)
        number = packet.values[self._passes.recirculate.header, self._passes.recirculate.field]
        if number:
            self._again(packet, reference._deparse(replace(packet, limit=None)), number, 4)
        else:
            self._out.append((port, reference._deparse(packet)))


# -- the hashes of v1model over bytes, written from their definitions --------------------------------------


def _words(data: bytes) -> list[int]:
    data += bytes(len(data) % 2)
    return [int.from_bytes(data[i : i + 2]) for i in range(0, len(data), 2)]


def csum16(data: bytes) -> int:
    """RFC 1071: add the carries back in, then complement."""
    total = 0
    for word in _words(data):
        total += word
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def xor16(data: bytes) -> int:
    result = 0
    for word in _words(data):
        result ^= word
    return result


def crc16(data: bytes) -> int:
    """CRC-16/ARC: 0x8005 reflected, from 0, nothing inverted. Check value 0xBB3D for b'123456789'."""
    remainder = 0
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0xA001 if remainder & 1 else 0)
    return remainder


DIGESTS: dict[str, Callable[[bytes], int]] = {
    "csum16": csum16,
    "xor16": xor16,
    "crc16": crc16,
    "crc32": binascii.crc32,
    "identity": lambda data: int.from_bytes(data[:8]),
}
