# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Mutated programs over SetForwardingPipelineConfig: each runs, or is refused by a typed error.

``python -m fuzz.p4runtime.pipelines COUNT P4INFO...`` prints how they ended, as a JSON object in the last line.
"""

from __future__ import annotations

import json
import random
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from p4.v1 import p4runtime_pb2
from softswitch.p4runtime.calls import Stream
from softswitch.p4runtime.errors import InvalidArgumentError
from softswitch.p4runtime.service import P4RuntimeService
from softswitch.switch import SoftSwitch

from fuzz.mutations import mutated
from fuzz.p4runtime.target import DEVICE_ID, config_of

_TOLD: Final = 1000


@dataclass
class Ended:
    """How mutations ended. `others`: in another error than a refusal of the request, which a client would not see."""

    ran: int = 0
    refused: int = 0
    others: list[str] = field(default_factory=list)


def set_mutated(p4infos: Sequence[Path], count: int) -> Ended:
    """Set `count` mutated programs one after the other in a switch of this process. The seed of each is its number."""
    configs = [config_of(path) for path in p4infos]
    roots = [json.loads(config.p4_device_config) for config in configs]
    service, outcome = service_with_primary(), Ended()
    for number in range(count):
        generator = random.Random(f"set:{number}")
        chosen = generator.randrange(len(configs))
        root, done = mutated(roots[chosen], generator)
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(
            device_id=DEVICE_ID, action=3, config=configs[chosen]
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
            sys.stderr.write(f"{number + 1} programs set\n")
    return outcome


def service_with_primary(cpu_port: int | None = None) -> P4RuntimeService:
    """Of a switch that is :data:`DEVICE_ID`, without a connection. The primary's election id is 1."""
    service = P4RuntimeService(SoftSwitch(engine="python", cpu_port=cpu_port), DEVICE_ID, cpu_port, None)
    message = p4runtime_pb2.StreamMessageRequest()
    message.arbitration.device_id = DEVICE_ID
    message.arbitration.election_id.low = 1
    service.stream_message(Stream(1), message)
    return service


if __name__ == "__main__":
    done = set_mutated([Path(name) for name in sys.argv[2:]], int(sys.argv[1]))
    sys.stdout.write(f"{json.dumps(asdict(done))}\n")
