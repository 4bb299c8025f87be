# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""State of training in checkpoints.

`state_dict()` of a job, a hook, an optimizer or a system returns one entry: ``{"worker0": (version, state)}`` on worker
0, ``{"worker1": ...}`` on worker 1. Residuals differ between workers, so every worker saves its own entry, to a file of
its own or with torch.distributed.checkpoint, which keeps one copy of a key that several ranks have. The state holds
dicts, lists, numbers, strings and tensors on the processor, all of them copies; torch.load reads it with
``weights_only=True``.

`load_state_dict()` takes this worker's entry out of its argument. If another number of workers saved, it needs the
entries of all of them, and divides the residuals: worker j of m takes m/n times the sum of those of the old workers j,
j + m, j + 2m ... of n. The mean over the workers, which training applies, then stays the same.

    4 workers with residuals 1, 2, 3, 4      mean 2.5
    2 workers: 2/4 (1 + 3), 2/4 (2 + 4)      2 and 3, mean 2.5
    8 workers: 8/4 times 1, 2, 3, 4          2, 4, 6, 8, 0, 0, 0, 0, mean 2.5

New worker j takes everything else, such as counters and momentum, from old worker j mod n.
"""

from __future__ import annotations

import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, runtime_checkable

import torch
import torch.distributed as dist
from torch import Tensor

from sumwire.errors import UsageError

VERSION: Final = 1
# How messages about the state of something else end.
OTHER: Final = "load it into what it was saved from, made with the same arguments"

# (name, shape) of parameters, in the model's order.
Shapes = Sequence[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Content:
    """One worker's state. ``residuals``: what it has not sent yet, tensors or dicts of them, which are divided anew for
    another number of workers. ``rest``: everything else, plain values and tensors."""

    residuals: dict[Any, Any] = field(default_factory=dict)
    rest: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def joined(cls, parts: Mapping[str, Content]) -> Content:
        """Return one content made of several, by name."""
        return cls(
            {name: part.residuals for name, part in parts.items()}, {name: part.rest for name, part in parts.items()}
        )

    def part(self, name: str, where: str) -> Content:
        """Return a part of a joined content. Raises UsageError if it has no such part."""
        if name not in self.rest:
            raise UsageError(f"{where}: the state has {', '.join(self.rest) or 'nothing'}, not {name}: {OTHER}")
        return Content(self.residuals[name], self.rest[name])


@runtime_checkable
class Kept(Protocol):
    """An object with state between steps that affects the results of the next steps."""

    def kept(self) -> Content:
        """Return the state. Tensors need not be copies."""

    def restore(self, content: Content, /) -> None:
        """Continue from a state, whose tensors may be kept. Raises UsageError for the state of another kind of
        object."""


@dataclass(frozen=True)
class Place:
    """A worker's number, and how many workers there are."""

    worker: int
    workers: int

    @classmethod
    def here(cls, otherwise: Place | None = None) -> Place:
        """Return this process's rank and the number of ranks if torch.distributed is initialised; else ``otherwise``,
        or worker 0 of 1."""
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        return otherwise or cls(0, 1)


class Saved(ABC):
    """Has `state_dict` and `load_state_dict`, so it is what torch.distributed.checkpoint calls Stateful."""

    @abstractmethod
    def kept(self) -> Content:
        """See :class:`Kept`."""

    @abstractmethod
    def restore(self, content: Content, /) -> None:
        """See :class:`Kept`."""

    def place(self) -> Place:
        """Return which worker's state this is."""
        return Place.here()

    def kind(self) -> str:
        """Return in words what the state belongs to. A state of another kind cannot be loaded."""
        return type(self).__name__

    def state_dict(self) -> dict[str, Any]:
        """Return this worker's state, in copies. Call it between steps. See :mod:`sumwire.checkpoint`."""
        return packed(self.kind(), self.place(), self.kept())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from this worker's :meth:`state_dict`, or from those of all workers of a run that had another number
        of them.

        All workers call it, between steps. Raises UsageError for a state of another kind.
        """
        self.restore(unpacked(self.kind(), self.place(), state_dict))


def packed(kind: str, place: Place, content: Content) -> dict[str, Any]:
    """Return the checkpoint entry of one worker. It is a tuple, which torch.distributed.checkpoint saves as one
    value."""
    state = {
        "kind": kind,
        "worker": place.worker,
        "workers": place.workers,
        "residuals": copied(content.residuals),
        "rest": copied(content.rest),
    }
    return {_key(place.worker): (VERSION, state)}


def unpacked(kind: str, place: Place, entries: Mapping[str, Any]) -> Content:
    """Return this worker's content of a state, from one or more workers' entries. Its tensors are copies.

    Raises UsageError for a state of another kind or version, or if a needed entry is missing.
    """
    states = [_state(kind, key, entry) for key, entry in entries.items() if _WORKER.fullmatch(str(key))]
    if not states:
        raise UsageError(f"state of {kind}: no worker's entry in it: must be what state_dict() returned")
    _complete(states)
    workers = int(states[0]["workers"])
    by_worker = {int(state["worker"]): state for state in states}
    needed = [place.worker] if workers == place.workers else list(range(workers))
    missing = [number for number in needed if number not in by_worker]
    if missing or any(state["workers"] != workers for state in states):
        raise UsageError(_incomplete(kind, place, workers, sorted(by_worker), missing))
    if workers == place.workers:
        own = by_worker[place.worker]
        return Content(copied(own["residuals"]), copied(own["rest"]))
    return _divided([by_worker[number] for number in needed], place)


def _complete(states: Sequence[dict[str, Any]]) -> None:
    """Give each what only others have, with residuals of zero: of a node's ranks, only the first has the job's."""
    rest = {name: value for state in states for name, value in state["rest"].items()}
    like = {name: value for state in states for name, value in state["residuals"].items()}
    for state in states:
        missing = rest.keys() - state["rest"].keys()
        state["rest"] = {**state["rest"], **{name: rest[name] for name in missing}}
        zeros = {name: _scaled_sum([], like.get(name, {}), 0) for name in missing}
        state["residuals"] = {**state["residuals"], **zeros}


def _incomplete(kind: str, place: Place, workers: int, there: Sequence[int], missing: Sequence[int]) -> str:
    what = f"state of {kind}: saved by {workers} workers, loaded by worker {place.worker} of {place.workers}: "
    if not missing:
        return what + "the entries are those of several checkpoints: load those of one"
    needs = "its own" if workers == place.workers else "those of all workers that saved"
    cure = "those of torch.distributed.checkpoint with sumwire.checkpoint.read(path, name)"
    return (
        what + f"needs {needs}, has workers {list(there)}, not {list(missing)}: load the files of all ranks together; "
        f"{cure}"
    )


def _state(kind: str, key: str, entry: Any) -> dict[str, Any]:
    if not (isinstance(entry, tuple | list) and len(entry) == 2):
        raise UsageError(f"state of {kind}: {key}: must be what state_dict() returned")
    version, state = entry
    if version != VERSION:
        raise UsageError(f"state of {kind}: version {version!r}: must be {VERSION}: load it with the release it is of")
    if state["kind"] != kind:
        raise UsageError(f"state of {state['kind']}: must be one of {kind}: {OTHER}")
    return dict(state)


def _divided(states: Sequence[Mapping[str, Any]], place: Place) -> Content:
    """Return the new worker's share of what all old workers, in their order, have saved."""
    taken = [state["residuals"] for state in states[place.worker :: place.workers]]
    scale = place.workers / len(states)
    like = states[place.worker % len(states)]
    return Content(_scaled_sum(taken, like["residuals"], scale), copied(like["rest"]))


def _scaled_sum(taken: Sequence[Any], like: Any, scale: float) -> Any:
    """Return scale times the sum of the nested dicts' tensors. What is in some only counts as zero in the others; with
    none, zeros as in ``like``."""
    if isinstance(like, Mapping) or any(isinstance(one, Mapping) for one in taken):
        names = dict.fromkeys(name for one in (*taken, like) if one is not None for name in one)
        return {
            name: _scaled_sum(
                [one.get(name) for one in taken if one is not None], None if like is None else like.get(name), scale
            )
            for name in names
        }
    tensors = [one for one in taken if one is not None]
    if not tensors:
        return None if like is None else torch.zeros_like(like)
    total = tensors[0].clone()
    for tensor in tensors[1:]:
        total += tensor
    return total.mul_(scale)


_WORKER: Final = re.compile(r"worker\d+")


def _key(worker: int) -> str:
    return f"worker{worker}"


def copied(value: Any) -> Any:
    """Return a copy of nested dicts, lists and tuples, with copies of their tensors on the processor."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(copied(item) for item in value)
    return value


def check_shapes(where: str, saved: Shapes, here: Shapes) -> None:
    """Raise UsageError if a saved parameter does not exist here, or has another shape here. The message names it."""
    shapes = dict(here)
    for name, shape in saved:
        if name not in shapes:
            raise UsageError(f"{where}: parameter {name} of shape {tuple(shape)}: the model has none: {_MODEL}")
        if tuple(shape) != tuple(shapes[name]):
            here_it_has = f"in the model it has {tuple(shapes[name])}"
            raise UsageError(f"{where}: parameter {name} of shape {tuple(shape)}: {here_it_has}: {_MODEL}")


_MODEL: Final = "load the state into the model that it was saved with, or begin without it"


def owner_of(call: object) -> Kept | None:
    """Return the object that keeps the state of a function or wrapper; None if no such object is known.

    It is the callable itself, the object whose method it is, or the same for the function that it wraps
    (functools.wraps, functools.partial).
    """
    seen: Any = call
    while not isinstance(seen, Kept):
        way = next((name for name in ("__wrapped__", "__self__", "func") if hasattr(seen, name)), None)
        if way is None:
            return None
        seen = getattr(seen, way)
    return seen


def refuse_pickling(owner: object, holds: str) -> NoReturn:
    """Raise UsageError: an object with sockets and threads cannot be pickled. The message says to save its state
    instead."""
    name = type(owner).__name__
    cure = f"save its state_dict(), and load that into a new {name}"
    raise UsageError(f"{name}: cannot be pickled or copied, as it holds {holds}: {cure}")


def place_of(*owners: object) -> Place:
    """Return the place of the first of these objects that has one, else this process's."""
    return next((owner.place() for owner in owners if isinstance(owner, Saved)), None) or Place.here()


def read(path: str | Path, name: str) -> dict[str, Any]:
    """Read all workers' entries that ``torch.distributed.checkpoint.save({name: ...})`` saved.

    For `load_state_dict` with another number of workers. In ``name`` dots separate the keys of nested dicts. Not a
    collective call. Raises UsageError for a checkpoint without that name.
    """
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = FileSystemReader(path)
    entries = {
        full: str(key[-1])
        for full, key in (reader.read_metadata().planner_data or {}).items()
        if ".".join(map(str, key[:-1])) == name and _WORKER.fullmatch(str(key[-1]))
    }
    if not entries:
        raise UsageError(f"checkpoint {path}: holds no state of Sumwire named {name}: give the name that was saved")
    found: dict[str, Any] = dict.fromkeys(entries)
    with warnings.catch_warnings():
        # That one process loads is what is wanted.
        warnings.filterwarnings("ignore", message=".*torch.distributed is disabled")
        load(found, storage_reader=reader, no_dist=True)
    return {key: found[full] for full, key in entries.items()}
