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
from typing import Any, Final

from google.protobuf import text_format
from p4.v1 import p4runtime_pb2
from softswitch.p4runtime.calls import Stream
from softswitch.p4runtime.errors import InvalidArgumentError
from softswitch.p4runtime.service import P4RuntimeService
from softswitch.switch import SoftSwitch

from fuzz.mutations import mutated

_DEVICE_ID: Final = 1
_TOLD: Final = 1000


@dataclass
class Ended:
    """How mutations ended. `others`: in another error than a refusal of the request, which a client would not see."""

    ran: int = 0
    refused: int = 0
    others: list[str] = field(default_factory=list)


def set_mutated(p4infos: Sequence[Path], count: int) -> Ended:
    """Set `count` mutated programs one after the other in a switch of this process. The seed of each is its number."""
    configs = [_config(path) for path in p4infos]
    roots = [json.loads(config.p4_device_config) for config in configs]
    service, outcome = _service(), Ended()
    for number in range(count):
        generator = random.Random(f"set:{number}")
        chosen = generator.randrange(len(configs))
        root, done = mutated(roots[chosen], generator)
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(
            device_id=_DEVICE_ID, action=3, config=configs[chosen]
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


def _config(p4info: Path) -> Any:
    config = p4runtime_pb2.ForwardingPipelineConfig()
    text_format.Parse(p4info.read_text(), config.p4info)
    config.p4_device_config = p4info.with_name(p4info.name.replace(".p4info.txtpb", ".json")).read_bytes()
    return config


def _service() -> P4RuntimeService:
    """With a primary controller."""
    service = P4RuntimeService(SoftSwitch(engine="python"), _DEVICE_ID, None, None)
    message = p4runtime_pb2.StreamMessageRequest()
    message.arbitration.device_id = _DEVICE_ID
    message.arbitration.election_id.low = 1
    service.stream_message(Stream(1), message)
    return service


if __name__ == "__main__":
    done = set_mutated([Path(name) for name in sys.argv[2:]], int(sys.argv[1]))
    sys.stdout.write(f"{json.dumps(asdict(done))}\n")
