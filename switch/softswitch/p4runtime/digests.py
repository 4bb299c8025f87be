# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Digests: messages of the program to the control plane, with data encoded by the P4Info's types.

Specification: "DigestEntry".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from p4.v1 import p4data_pb2, p4runtime_pb2

from softswitch.p4runtime import entries
from softswitch.p4runtime.errors import AlreadyExistsError, InvalidArgumentError, NotThereError, UnimplementedError
from softswitch.p4runtime.p4info import P4Info

#: Writes the next numbers into a ``P4Data``.
Encoder = Callable[[Any, Iterator[int]], None]
_DEEPEST = 16


def encoder_of(spec: Any, types: Any, what: str, depth: int = 0) -> Encoder:
    """Return the encoder for a ``P4DataTypeSpec``, with the P4Info's ``type_info``. Raises UnimplementedError for a
    type without one."""
    kind = spec.WhichOneof("type_spec")
    if depth > _DEEPEST:
        raise UnimplementedError(f"{what}: types are nested deeper than {_DEEPEST}")
    match kind:
        case "bitstring":
            return _bitstring(spec.bitstring)
        case "bool":
            return _bool
        case "struct" if spec.struct.name in types.structs:
            members = types.structs[spec.struct.name].members
            return _struct([encoder_of(each.type_spec, types, what, depth + 1) for each in members])
        case "tuple":
            return _tuple([encoder_of(each, types, what, depth + 1) for each in spec.tuple.members])
        case "new_type" if spec.new_type.name in types.new_types:
            named = types.new_types[spec.new_type.name]
            if named.WhichOneof("representation") == "original_type":
                return encoder_of(named.original_type, types, what, depth + 1)
    raise UnimplementedError(f"{what}: values of type {kind} are not offered")


def _bitstring(spec: Any) -> Encoder:
    kind = spec.WhichOneof("type_spec") or "bit"
    width = max(1, getattr(spec, kind).bitwidth if kind != "varbit" else spec.varbit.max_bitwidth)
    mask = (1 << width) - 1

    def encode(message: Any, numbers: Iterator[int]) -> None:
        message.bitstring = entries.encode_value(next(numbers) & mask)

    return encode


def _bool(message: Any, numbers: Iterator[int]) -> None:
    message.bool = bool(next(numbers))


def _struct(members: Sequence[Encoder]) -> Encoder:
    def encode(message: Any, numbers: Iterator[int]) -> None:
        message.struct.SetInParent()
        for member in members:
            member(message.struct.members.add(), numbers)

    return encode


def _tuple(members: Sequence[Encoder]) -> Encoder:
    def encode(message: Any, numbers: Iterator[int]) -> None:
        message.tuple.SetInParent()
        for member in members:
            member(message.tuple.members.add(), numbers)

    return encode


def numbers_of(encoder: Encoder) -> int:
    """Return how many numbers a value has."""
    drawn = count()
    encoder(p4data_pb2.P4Data(), drawn)
    return next(drawn)


def encoded(encoder: Encoder, numbers: Sequence[int]) -> Any:
    """Encode a value. Raises RuntimeError if there are too few numbers."""
    message = p4data_pb2.P4Data()
    encoder(message, iter(numbers))
    return message


#: Digests of a list, also where the controller allows more.
MAX_LIST = 1024
#: Lists of a digest that wait for their acknowledgement; of more the oldest is forgotten.
MAX_UNACKNOWLEDGED = 64

_UPDATE = p4runtime_pb2.Update
Numbers = tuple[int, ...]
#: Gets a finished list, as a StreamMessageResponse; must not block.
Send = Callable[[int, Any], None]


@dataclass
class _Digest:
    """One that is told. ``first_ns``: when the oldest of ``buffer`` came. ``sent``: lists without acknowledgement, by
    id, with the time when they were sent."""

    config: Any
    encoder: Encoder
    buffer: dict[Numbers, None] = field(default_factory=dict)
    first_ns: int = 0
    sent: dict[int, tuple[int, frozenset[Numbers]]] = field(default_factory=dict)
    next_list: int = 1

    @property
    def deadline_ns(self) -> int | None:
        return self.first_ns + self.config.max_timeout_ns if self.buffer else None

    @property
    def is_due(self) -> bool:
        return not self.config.max_timeout_ns or len(self.buffer) >= min(
            self.config.max_list_size or MAX_LIST, MAX_LIST
        )

    def knows(self, numbers: Numbers, now_ns: int) -> bool:
        """Is it in the buffer, or in a list that waits for its acknowledgement?"""
        while self.sent:
            oldest, (sent_ns, _) = next(iter(self.sent.items()))
            if now_ns - sent_ns < self.config.ack_timeout_ns:
                break
            del self.sent[oldest]
        return numbers in self.buffer or any(numbers in told for _, told in self.sent.values())


class Digests:
    """The digests of one pipeline. Data plane, controllers and its thread may call it at the same time.

    The thread sends lists that have waited long enough. It starts when the first digest is configured.
    """

    def __init__(self, info: P4Info, send: Send, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._info = info
        self._send = send
        self._clock = clock
        self._changed = threading.Condition()
        self._told: dict[int, _Digest] = {}
        self._ids = {digest.name: number for number, digest in info.digests.items()}
        self._thread: threading.Thread | None = None
        self._ended = False

    def __bool__(self) -> bool:
        return bool(self._told)

    def write(self, update_type: int, entry: Any) -> None:
        """Apply one update of a ``DigestEntry``."""
        digest = self._info.digest(entry.digest_id)
        what = f"digest {digest.name!r}"
        for name in ("max_timeout_ns", "max_list_size", "ack_timeout_ns"):
            if getattr(entry.config, name) < 0:
                raise InvalidArgumentError(f"{what}: {name} is {getattr(entry.config, name)}, below 0")
        with self._changed:
            if update_type == _UPDATE.INSERT and entry.digest_id in self._told:
                raise AlreadyExistsError(f"{what} is told already")
            if update_type != _UPDATE.INSERT and entry.digest_id not in self._told:
                raise NotThereError(f"{what} is not told")
            config = p4runtime_pb2.DigestEntry.Config()
            config.CopyFrom(entry.config)
            if update_type == _UPDATE.DELETE:
                del self._told[entry.digest_id]
            elif update_type == _UPDATE.MODIFY:
                self._told[entry.digest_id].config = config
            else:
                encoder = encoder_of(digest.type_spec, self._info.types, what)
                self._told[entry.digest_id] = _Digest(config, encoder)
                self._start()
            self._changed.notify()

    def read(self, entry: Any) -> Iterator[Any]:
        """Yield an ``Entity`` for each configured digest: one, or all (id 0). Raises NotThereError."""
        with self._changed:
            configs = {number: told.config for number, told in sorted(self._told.items())}
        if entry.digest_id:
            digest = self._info.digest(entry.digest_id)
            if entry.digest_id not in configs:
                raise NotThereError(f"digest {digest.name!r} is not told")
            configs = {entry.digest_id: configs[entry.digest_id]}
        entities = []
        for number, config in configs.items():
            entity = p4runtime_pb2.Entity()
            entity.digest_entry.digest_id = number
            entity.digest_entry.config.CopyFrom(config)
            entities.append(entity)
        return iter(entities)

    def learn(self, name: str, numbers: Numbers) -> None:
        """Take a packet's digest. Never blocks for long: only lists are made under the lock."""
        with self._changed:
            number = self._ids.get(name, 0)
            told = self._told.get(number)
            now_ns = self._clock()
            if told is None or told.knows(numbers, now_ns):
                return
            if not told.buffer:
                told.first_ns = now_ns
                self._changed.notify()
            told.buffer[numbers] = None
            if told.is_due:
                self._flush(number, told, now_ns)

    def acknowledge(self, message: Any) -> None:
        """Process a ``DigestListAck``. Raises InvalidArgumentError for an unknown digest. The list may already be
        forgotten."""
        self._info.digest(message.digest_id)
        with self._changed:
            told = self._told.get(message.digest_id)
            if told is not None:
                told.sent.pop(message.list_id, None)

    def end(self) -> None:
        """Send no more digests, and end the thread."""
        with self._changed:
            self._ended = True
            self._told.clear()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="p4runtime-digests", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        with self._changed:
            while not self._ended:
                now_ns = self._clock()
                for number, told in self._told.items():
                    if told.deadline_ns is not None and told.deadline_ns <= now_ns:
                        self._flush(number, told, now_ns)
                deadlines = [told.deadline_ns for told in self._told.values() if told.deadline_ns is not None]
                self._changed.wait((min(deadlines) - now_ns) / 1e9 if deadlines else None)

    def _flush(self, number: int, told: _Digest, now_ns: int) -> None:
        message = p4runtime_pb2.StreamMessageResponse()
        message.digest.digest_id = number
        message.digest.list_id = told.next_list
        message.digest.timestamp = time.time_ns()
        message.digest.data.extend(encoded(told.encoder, numbers) for numbers in told.buffer)
        if told.config.ack_timeout_ns:
            told.sent[told.next_list] = (now_ns, frozenset(told.buffer))
            if len(told.sent) > MAX_UNACKNOWLEDGED:
                del told.sent[next(iter(told.sent))]
        told.next_list += 1
        told.buffer = {}
        self._send(number, message)
