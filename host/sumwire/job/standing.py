# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a rank tells the others in every round: how far it is, what it does, and what it wants.

On the wire it is a JSON object of the fields that are not as usual.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any, Final

from sumwire import errors
from sumwire.errors import RecreateError, SumwireError, UsageError

#: The most that a standing takes on the wire.
STANDING_BYTES: Final = 4096


@dataclass(frozen=True)
class Failure:
    """An error in a form that can be sent to the other ranks. ``kind``: the name of its class in sumwire.errors."""

    kind: str
    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, error: SumwireError) -> Failure:
        """Describe an error. What it has beyond its text is kept where JSON can hold it."""
        known = {name: value for name, value in vars(error).items() if _plain(value)}
        return cls(type(error).__name__, str(error), known)

    def error(self) -> RecreateError | UsageError:
        """The error itself, of the same class and with the same text on every rank."""
        kind = getattr(errors, self.kind, RecreateError)
        found: RecreateError | UsageError = kind.__new__(kind, self.text)
        # Their own constructors would write the text anew.
        BaseException.__init__(found, self.text)
        vars(found).update({name: tuple(v) if isinstance(v, list) else v for name, v in self.fields.items()})
        return found


@dataclass(frozen=True)
class Standing:
    """One rank in one round.

    ``completed``, ``started``: operations of the job. The one under way, if any, has the number ``completed``, and
    ``call`` describes it. Of its results by the network the rank still has those from ``kept_from`` on.

    ``greeted``: it has taken part in a greeting, or returned to the switch with all others. ``joined``: in the greeting
    of the present run. ``halted``: it does not use the network, and will not before the next decision. ``lost``: why it
    wants the fall-back. ``stalled``: its exchange has waited long without any new result. ``sees_switch``: during the
    fall-back, the switch answers and serves this job.

    ``paused``: it is silent on purpose. ``closing``: it makes no more operations. ``left``: it takes part in no further
    round, and why. ``failure``: an error that ends the job on every rank.
    """

    worker: int
    completed: int = 0
    started: int = 0
    kept_from: int = 0
    call: str = ""
    greeted: bool = False
    joined: bool = False
    halted: bool = False
    lost: str = ""
    stalled: bool = False
    sees_switch: bool = False
    paused: bool = False
    closing: bool = False
    left: str = ""
    failure: Failure | None = None

    @property
    def working(self) -> bool:
        """Whether an operation is under way."""
        return self.started > self.completed

    def encode(self) -> bytes:
        """At most STANDING_BYTES bytes. Texts that are too long for them are cut."""
        content, most = self._json(), STANDING_BYTES
        while len(content) > STANDING_BYTES:
            most //= 2
            content = self._cut(most)._json()
        return content

    @classmethod
    def decode(cls, content: bytes) -> Standing:
        """The inverse of :meth:`encode`. Spaces after the content do not count."""
        data = json.loads(content)
        failure = data.pop("failure", None)
        return cls(**data, failure=None if failure is None else Failure(**failure))

    def _json(self) -> bytes:
        unusual = {name: value for name, value in asdict(self).items() if value != _USUAL.get(name)}
        return json.dumps(unusual, ensure_ascii=False, separators=(",", ":")).encode()

    def _cut(self, most: int) -> Standing:
        failure = self.failure and replace(self.failure, text=self.failure.text[:most])
        return replace(self, call=self.call[:most], lost=self.lost[:most], left=self.left[:most], failure=failure)


_USUAL: Final = {each.name: each.default for each in fields(Standing) if each.default is not MISSING}

# One round: the standings of all ranks.
Vector = Sequence[Standing]


def _plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(_plain(each) for each in value)
    return value is None or isinstance(value, bool | int | float | str)
