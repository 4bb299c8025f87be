# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Time of many inserts into an LPM table over P4Runtime: the soft switch's engines beside bmv2, by turns.

``python -m fuzz.p4runtime.inserts P4INFO COUNT BATCH`` prints seconds by switch, as a JSON object in the last line.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

from fuzz.p4runtime.clients import Client, Elections, with_id
from fuzz.p4runtime.target import DEVICE_ID, Target, TargetError, bmv2, folder, soft

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
    config = p4runtime_pb2.ForwardingPipelineConfig()
    text_format.Parse(p4info.read_text(), config.p4info)
    program = json.loads(p4info.with_name(p4info.name.replace(".p4info.txtpb", ".json")).read_text())
    for table in (table for pipeline in program["pipelines"] for table in pipeline["tables"]):
        if table["name"].endswith(_TABLE):
            table["max_size"] = count
    _named(config.p4info.tables, _TABLE).size = count
    config.p4_device_config = json.dumps(program).encode()
    return config


def _named(objects: Any, alias: str) -> Any:
    return next(each for each in objects if each.preamble.alias == alias)


def _time(target: Target, config: Any, size: tuple[int, int]) -> float:
    with closing(Client(target.address)) as client:
        elections = Elections([client], DEVICE_ID, 1, random.Random(1), _refused)
        elections.settle()
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=DEVICE_ID, config=config, action=3)
        _require_ok(client.set_pipeline(with_id(request, elections.primary_id)))
        requests = _requests(config.p4info, *size, elections.primary_id)
        started = time.monotonic()
        for each in requests:
            _require_ok(client.write(each))
        seconds = time.monotonic() - started
        elections.leave_all()
    return seconds


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


def _refused(what: str, how: str) -> None:
    raise InsertError(f"{what}: {how}; see the switch's log")


def _require_ok(outcome: Any) -> None:
    if outcome.code:
        raise InsertError(f"refused with code {outcome.code}: {outcome.text[:500]}")


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(by_turns(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))}\n")
