# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Time of many inserts into an LPM table over P4Runtime: the soft switch's engines beside bmv2, by turns.

``python -m fuzz.p4runtime.inserts P4INFO COUNT BATCH`` prints seconds by switch, as a JSON object in the last line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

from fuzz.p4runtime.clients import with_id
from fuzz.p4runtime.target import (
    DEVICE_ID,
    Target,
    TargetError,
    bmv2,
    config_of,
    folder,
    programmed,
    require_ok,
    soft,
)  # fmt: skip

_TABLE, _ACTION = "lpm_t", "forward"
_LENGTHS: Final = 8
_TURNS: Final = 3
ENGINES: Final = ("native", "python")
_SWITCHES: Final[dict[str, Callable[[Path], Target]]] = {
    "bmv2": bmv2,
    **{engine: partial(soft, engine=engine) for engine in ENGINES},
}


class InsertError(RuntimeError):
    """A switch refused what it has to take, or did not start."""


def by_turns(p4info: Path, count: int, batch: int) -> dict[str, float]:
    """Seconds of `count` inserts, of bmv2 and of each engine: the best of three turns, in which they follow each other.

    Raises InsertError.
    """
    config = _config(p4info, count)
    best: dict[str, float] = {}
    for turn in range(_TURNS):
        for name, start in _SWITCHES.items():
            seconds = _of_a_turn(name, start, config, (count, batch))
            sys.stderr.write(f"turn {turn + 1}: {name} {seconds:.2f} s\n")
            best[name] = min(seconds, best.get(name, seconds))
    return best


def _of_a_turn(name: str, start: Callable[[Path], Target], config: Any, size: tuple[int, int]) -> float:
    try:
        with folder() as where, start(Path(where)) as target:
            return _time(target, config, size)
    except TargetError as error:
        raise InsertError(f"{name}: {error}") from error


def _config(p4info: Path, count: int) -> Any:
    """The program with room for the entries."""
    config = config_of(p4info)
    program = json.loads(config.p4_device_config)
    for table in (table for pipeline in program["pipelines"] for table in pipeline["tables"]):
        if table["name"].endswith(_TABLE):
            table["max_size"] = count
    _named(config.p4info.tables, _TABLE).size = count
    config.p4_device_config = json.dumps(program).encode()
    return config


def _named(objects: Any, alias: str) -> Any:
    return next(each for each in objects if each.preamble.alias == alias)


def _time(target: Target, config: Any, size: tuple[int, int]) -> float:
    with programmed(target, config) as (client, election_id):
        requests = _requests(config.p4info, *size, election_id)
        started = time.monotonic()
        for each in requests:
            require_ok(client.write(each))
        return time.monotonic() - started


def _requests(info: p4info_pb2.P4Info, count: int, batch: int, election_id: int | None) -> Sequence[bytes]:
    """Writes of different prefixes of several lengths, as bytes: a client's own time is not the switch's."""
    table, action = _named(info.tables, _TABLE), _named(info.actions, _ACTION)
    width = table.match_fields[0].bitwidth
    requests = []
    for first in range(0, count, batch):
        request = with_id(p4runtime_pb2.WriteRequest(device_id=DEVICE_ID), election_id)
        for number in range(first, min(count, first + batch)):
            entry = request.updates.add(type=p4runtime_pb2.Update.INSERT).entity.table_entry
            entry.table_id = table.preamble.id
            length = width - number % _LENGTHS
            lpm = entry.match.add(field_id=table.match_fields[0].id).lpm
            lpm.value, lpm.prefix_len = (number << _LENGTHS).to_bytes(width // 8, "big"), length
            entry.action.action.action_id = action.preamble.id
            entry.action.action.params.add(param_id=action.params[0].id, value=bytes([1 + number % 255]))
        requests.append(request.SerializeToString())
    return requests


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(by_turns(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))}\n")
