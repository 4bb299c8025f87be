# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""P4Runtime from outside: finsy's checks, the time of many inserts beside bmv2, and mutated programs.

finsy, a client that nobody of this project wrote, has an environment of its own, since it needs a newer protobuf than
the controller bears; its checks are in finsy_checks.py.
"""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sysconfig
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from google.protobuf import text_format
from nativelib import programs
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2
from softswitch.fuzz.mutations import mutated
from softswitch.fuzz.p4runtime.client import Client
from softswitch.fuzz.p4runtime.elections import Elections, with_id
from softswitch.fuzz.p4runtime.target import DEVICE_ID, Target, TargetError, bmv2, folder, soft
from softswitch.p4runtime.errors import InvalidArgumentError
from softswitch.p4runtime.service import Service
from softswitch.p4runtime.stream import Stream
from softswitch.switch import SoftSwitch

from sumwire_lab.errors import LabError
from sumwire_lab.study.experiment import Say

VERSION: Final = "0.30.0"
# As the programs of the checks have them.
FINSY_DEVICE_ID: Final = 7
CPU_PORT: Final = 255
_FINSY_CHECKS: Final = Path(__file__).with_name("finsy_checks.py")
_CACHE: Final = Path(__file__).resolve().parents[3] / ".cache"
_INSTALL_S: Final = 600.0
_CHECKS_S: Final = 1800.0


class NoFinsyError(LabError):
    """finsy cannot be installed."""


class FinsyError(LabError):
    """The checks did not come to their end."""


def finsy_environment(say: Say) -> Path:
    """The Python of an environment with finsy, which is made the first time. Raises NoFinsyError."""
    home = _CACHE / f"finsy-{VERSION}-{sysconfig.get_python_version()}"
    python = home / "bin" / "python"
    ready = home / "ready"
    if ready.is_file():
        return python
    say(f"installing finsy {VERSION} into {home}")
    try:
        subprocess.run(programs.module("venv", "--clear", str(home)), check=True, timeout=_INSTALL_S)
        install = [str(python), "-P", "-m", "pip", "install", "--quiet", f"finsy=={VERSION}"]
        subprocess.run(install, check=True, timeout=_INSTALL_S, capture_output=True, text=True)
    except (OSError, subprocess.SubprocessError) as error:
        told = str(getattr(error, "stderr", "") or error).strip().splitlines()[-1:]
        raise NoFinsyError(f"finsy {VERSION} cannot be installed from PyPI: {' '.join(told)}") from error
    ready.touch()
    return python


def finsy_checks(python: Path, programs: Sequence[Path], results: Path) -> dict[str, str]:
    """What came of each check against a soft switch: "ok", or what went wrong. Raises FinsyError."""
    with folder() as name, _finsy_target(Path(name)) as target:
        command = [str(python), str(_FINSY_CHECKS), target.address, *map(str, programs)]
        done = subprocess.run(command, cwd=name, env={}, check=False, timeout=_CHECKS_S, capture_output=True, text=True)
        switch_log = target.log.read_text(errors="replace")
    (results / "finsy.log").write_text(f"{done.stderr}\n\nthe switch:\n{switch_log}")
    if done.returncode != 0:
        raise FinsyError(f"finsy's checks ended with status {done.returncode}: see {results / 'finsy.log'}")
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _finsy_target(where: Path) -> Target:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    ports = ["--device-id", str(FINSY_DEVICE_ID), "--cpu-port", str(CPU_PORT), "--insecure"]

    def command(at: str, _folder: Path) -> list[str]:
        return programs.module("softswitch", "--no-p4", *ports, "--grpc-server-addr", at)

    try:
        return Target(command, address, where)
    except TargetError as error:
        raise FinsyError(str(error)) from error


BATCH: Final = 1000
_TABLE, _ACTION = "lpm_t", "forward"
_LENGTHS: Final = 8
_TURNS: Final = 3
ENGINES: Final = ("native", "python")
_SWITCHES: Final[dict[str, Callable[[Path], Target]]] = {
    "bmv2": bmv2,
    **{engine: partial(soft, engine=engine) for engine in ENGINES},
}


class InsertError(LabError):
    """A switch refused what it has to take, or did not start."""


def insert_seconds(p4info: Path, count: int, say: Say) -> dict[str, float]:
    """Seconds of `count` inserts, of bmv2 and of each engine: the best of three turns, in which they follow each other.

    Raises InsertError.
    """
    config = _roomy_config(p4info, count)
    best: dict[str, float] = {}
    for turn in range(_TURNS):
        for name, start in _SWITCHES.items():
            seconds = _of_a_turn(name, start, config, count)
            say(f"turn {turn + 1}: {name} {seconds:.2f} s")
            best[name] = min(seconds, best.get(name, seconds))
    return best


def _of_a_turn(name: str, start: Callable[[Path], Target], config: Any, count: int) -> float:
    try:
        with folder() as where, start(Path(where)) as target:
            return _time(target, config, count)
    except TargetError as error:
        raise InsertError(f"{name}: {error}") from error


def _roomy_config(p4info: Path, count: int) -> Any:
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


def _time(target: Target, config: Any, count: int) -> float:
    with closing(Client(target.address)) as client:
        elections = Elections([client], DEVICE_ID, 1, random.Random(1), _refused)
        elections.settle()
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=DEVICE_ID, config=config, action=3)
        _require_ok(client.set_pipeline(with_id(request, elections.primary_id)))
        requests = _requests(config.p4info, count, elections.primary_id)
        started = time.monotonic()
        for each in requests:
            _require_ok(client.write(each))
        seconds = time.monotonic() - started
        elections.leave_all()
    return seconds


def _requests(info: p4info_pb2.P4Info, count: int, election_id: int | None) -> Sequence[bytes]:
    """Writes of different prefixes of several lengths, as bytes: a client's own time is not the switch's."""
    table, action = _named(info.tables, _TABLE), _named(info.actions, _ACTION)
    width = table.match_fields[0].bitwidth
    requests = []
    for first in range(0, count, BATCH):
        request = with_id(p4runtime_pb2.WriteRequest(device_id=DEVICE_ID), election_id)
        for number in range(first, min(count, first + BATCH)):
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


_SET_DEVICE_ID: Final = 1
_TOLD: Final = 1000


@dataclass
class MutatedPrograms:
    """How mutations ended. `others`: in another error than a refusal of the request, which a client would not see."""

    ran: int = 0
    refused: int = 0
    others: list[str] = field(default_factory=list)


def set_mutated(p4infos: Sequence[Path], count: int, say: Say) -> MutatedPrograms:
    """Set `count` mutated programs one after the other in a switch of this process. The seed of each is its number."""
    configs = [_config_of(path) for path in p4infos]
    roots = [json.loads(config.p4_device_config) for config in configs]
    service, outcome = _service(), MutatedPrograms()
    for number in range(count):
        generator = random.Random(f"set:{number}")
        chosen = generator.randrange(len(configs))
        root, done = mutated(roots[chosen], generator)
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(
            device_id=_SET_DEVICE_ID, action=3, config=configs[chosen]
        )
        request.election_id.low = 1
        request.config.p4_device_config = json.dumps(root).encode()
        try:
            service.set_pipeline(request)
            outcome.ran += 1
        except InvalidArgumentError:
            outcome.refused += 1
        except Exception as error:  # noqa: BLE001 - any other error is what is looked for
            where = "".join(traceback.format_exception(error)[-2:]).strip()
            outcome.others.append(f"{p4infos[chosen].name}, mutation {number} ({'; '.join(done)}): {where[:500]}")
        if number % _TOLD == _TOLD - 1:
            say(f"{number + 1} programs set")
    return outcome


def _config_of(p4info: Path) -> Any:
    config = p4runtime_pb2.ForwardingPipelineConfig()
    text_format.Parse(p4info.read_text(), config.p4info)
    config.p4_device_config = p4info.with_name(p4info.name.replace(".p4info.txtpb", ".json")).read_bytes()
    return config


def _service() -> Service:
    """With a primary controller."""
    service = Service(SoftSwitch(engine="python"), _SET_DEVICE_ID, None, None)
    message = p4runtime_pb2.StreamMessageRequest()
    message.arbitration.device_id = _SET_DEVICE_ID
    message.arbitration.election_id.low = 1
    service.stream_message(Stream(1), message)
    return service
