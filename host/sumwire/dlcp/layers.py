# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire inspect`: the lane, priority and drop classes of a model's tensors, layer by layer."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import numpy as np

from sumwire.codec.layout import CHUNK_VALUES
from sumwire.dlcp.tags import CLASSES, Policy, check_priorities
from sumwire.errors import UsageError
from sumwire.lowrank.shapes import RANKS, Named, model_shapes

_COLUMNS: Final = ("layer", "values", "packets", "position", "lane", "priority", "protected", "class 1", "2", "3")


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer: parameters whose names differ in the last part only. ``shares`` of packets have classes 0 to 3."""

    layer: str
    values: int
    packets: int
    position: float
    lane: int
    priority: int
    shares: tuple[float, ...]


def shapes_of(model: str) -> tuple[Named, ...]:
    """Return names and shapes of the parameters of a known model (:mod:`sumwire.lowrank.shapes`) or FILE.py:CALLABLE.

    The callable takes no arguments and returns a torch module, or pairs of name and shape. Raises UsageError.
    """
    if ":" not in model:
        if model.lower() not in RANKS:
            known = ", ".join(RANKS)
            raise UsageError(f"model {model!r}: must be one of {known}, or your own as FILE.py:CALLABLE")
        return model_shapes(model.lower())
    made = loaded(model)()
    if hasattr(made, "named_parameters"):
        made = [(name, tuple(p.shape)) for name, p in made.named_parameters() if p.requires_grad]
    try:
        named = tuple((str(name), tuple(int(side) for side in shape)) for name, shape in made)
    except (TypeError, ValueError) as error:
        rule = "return a torch module, or a list of (name, shape)"
        raise UsageError(f"model {model}: gives neither a module nor pairs ({error}): {rule}") from error
    if not named:
        raise UsageError(f"model {model}: has no parameters: return a module that has some with requires_grad=True")
    return named


def loaded(place: str) -> Any:
    """Run FILE.py and return its callable NAME. Raises UsageError if there is none."""
    file, _, name = place.rpartition(":")
    path = Path(file)
    spec = importlib.util.spec_from_file_location(f"sumwire_inspected_{path.stem}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise UsageError(f"{place}: {file} is no Python file: name one that is there as FILE.py:CALLABLE")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module here.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if not callable(getattr(module, name, None)):
        raise UsageError(f"{place}: {file} has no callable {name!r}: name a function of it as FILE.py:CALLABLE")
    return getattr(module, name)


def rows(shapes: Iterable[Named], policy: Policy, lanes: int, *, by_parameter: bool = False) -> list[LayerRow]:
    """Return the model's layers, front first, each as if it were a bucket of its own.

    The shares of drop classes assume that all packets differ in magnitude.
    """
    priorities = check_priorities(policy.priorities, lanes)
    layers: dict[str, int] = {}
    for name, shape in shapes:
        layer = name if by_parameter else name.rpartition(".")[0] or name
        layers[layer] = layers.get(layer, 0) + math.prod(shape)
    total = sum(layers.values())
    ends = accumulate(layers.values())
    found = []
    for (layer, values), end in zip(layers.items(), ends, strict=True):
        position, packets = (end - values / 2) / total, -(-values // CHUNK_VALUES)
        priority = policy.priority(position)
        classes = policy.drop_classes(position, np.arange(packets, 0, -1).astype(np.float32))
        shares = np.bincount(classes, minlength=CLASSES) / max(packets, 1)
        found.append(LayerRow(layer, values, packets, position, priorities.index(priority), priority, tuple(shares)))
    return found


def by_lane(found: list[LayerRow], lanes: int) -> list[LayerRow]:
    """Return totals of every lane that has layers."""
    totals = []
    for lane in range(lanes):
        here = [row for row in found if row.lane == lane]
        packets = sum(row.packets for row in here)
        if not here:
            continue
        shares = tuple(sum(row.shares[k] * row.packets for row in here) / packets for k in range(CLASSES))
        values = sum(row.values for row in here)
        position = sum(row.position * row.values for row in here) / values
        totals.append(LayerRow(f"lane {lane}", values, packets, position, lane, here[0].priority, shares))
    return totals


def as_text(found: list[LayerRow]) -> str:
    """Return a table of the rows."""
    lines = [_COLUMNS, *(_cells(row) for row in found)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    )


def _cells(row: LayerRow) -> tuple[str, ...]:
    shares = (f"{100 * share:.0f} %" for share in row.shares)
    numbers = (f"{row.values:,}", f"{row.packets:,}", f"{row.position:.2f}", str(row.lane), str(row.priority))
    return (row.layer, *numbers, *shares)
