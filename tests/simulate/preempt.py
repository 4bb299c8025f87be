# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The second scheduler: threads change places at any line of chosen modules of the product.

Every so many lines, as the seed says, the thread that runs is held for a while of virtual time. Whoever can run does so
meanwhile: other threads of its process too. Python itself switches threads between any two instructions; here it is
lines, so that a seed plays the same again.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Sequence
from types import CodeType, FrameType, ModuleType
from typing import Any, Final, NamedTuple

from simulate.world import Process, World

# What threads of a rank share.
MODULES: Final = (
    *("sumwire.job", "sumwire.lifecycle", "sumwire.transport", "sumwire.training.comm_thread"),
    "sumwire.dlcp.lanes",
)
# Of the times that a thread is held, the share in which it only lets others run that can run at once.
_AT_ONCE: Final = 0.3
# Now and then a thread is held until another one of its process has run. That may take a second, so it is seldom: once
# in so many lines, and so often in each process.
_BEHIND_LINES: Final = (30, 3000)
_BEHIND_MOST: Final = 8
_BEHIND_S: Final = 1.5
_LEAST_S: Final = 1e-6


class Preemption(NamedTuple):
    """``modules``: names; a package stands for all in it. ``lines``: between two times, on average. ``held_s``: for how
    long a thread is held at most."""

    modules: tuple[str, ...]
    lines: int
    held_s: float


class Preempter:
    """Traces the threads of a world. ``times``: that threads were held."""

    def __init__(self, world: World, preemption: Preemption) -> None:
        self.times = 0
        self._world = world
        self._rng = random.Random(world.rng.random())
        self._asked = preemption
        # What is called for the lines of a function; None for nothing.
        self._own: dict[CodeType, Any] = {}
        # One object for all frames.
        self._lines = self._line
        least, most = _BEHIND_LINES
        self._behind_lines = least * (most / least) ** self._rng.random()
        self._until_held, self._until_behind = self._drawn(preemption.lines), self._drawn(self._behind_lines)

    def _drawn(self, lines: float) -> int:
        return int(self._rng.expovariate(1 / lines))

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """What sys.settrace wants: called for each new frame. Returns what is called for its lines."""
        try:
            own = self._own[frame.f_code]
        except KeyError:
            own = self._own[frame.f_code] = self._tracer_of(frame)
        return own if own is None or own is self._lines else self._quietly(frame, event, argument)

    def _tracer_of(self, frame: FrameType) -> Any:
        code = frame.f_code
        if code in _cached() or code.co_name == "<module>":
            return self._quietly
        return self._lines if _is_in(str(frame.f_globals.get("__name__")), self._asked.modules) else None

    def _quietly(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Only the first play of a process comes here, or Python holds a lock: lines of what is called do not count."""
        thread = self._world.current
        if thread is not None:
            thread.quiet += {"call": 1, "return": -1}.get(event, 0)
        return self._quietly

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        thread = self._world.current
        if event == "line" and thread is not None and not thread.quiet and not thread.process.dead:
            self._until_held -= 1
            self._until_behind -= 1
            began = self._world.now
            if self._until_held < 0:
                self._hold()
            if self._until_behind < 0 and not thread.process.dead:
                self._stand_back(thread.process)
            thread.process.held_s += self._world.now - began
        return self._lines

    def _hold(self) -> None:
        self._until_held = self._drawn(self._asked.lines)
        self.times += 1
        at_once, share = self._rng.random() < _AT_ONCE, self._rng.random()
        seconds = 0.0 if at_once else _LEAST_S * (self._asked.held_s / _LEAST_S) ** share
        self._world.sleep(self._world.now + seconds)

    def _stand_back(self, process: Process) -> None:
        self._until_behind = self._drawn(self._behind_lines)
        if process.overtaken < _BEHIND_MOST:
            self.times += 1
            process.overtaken += 1
            self._world.stand_back(_BEHIND_S)


def _is_in(module: str, packages: Sequence[str]) -> bool:
    return any(f"{module}.".startswith(f"{one}.") for one in packages)


@functools.cache
def _cached() -> frozenset[CodeType]:
    """The code of the product's functions whose results are kept: for later plays, or by a cached property, for all of
    which of one name Python has one lock."""
    modules = [module for name, module in list(sys.modules.items()) if _is_in(name, ("sumwire", "commonlib"))]
    places: list[ModuleType | type] = [*modules]
    places += [one for module in modules for one in vars(module).values() if isinstance(one, type)]
    return frozenset(
        code for place in places for value in vars(place).values() if (code := _code_of(value)) is not None
    )


def _code_of(value: object) -> CodeType | None:
    value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    if isinstance(value, functools.cached_property):
        return getattr(value.func, "__code__", None)
    return value.__wrapped__.__code__ if isinstance(value, functools._lru_cache_wrapper) else None
