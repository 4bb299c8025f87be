# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Errors between controller and switch end with the command or the setting that mends them."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
import pytest
from sumwire_controller.deploy.session import rpc_error
from sumwire_controller.errors import NotPrimaryError, SwitchError, SwitchRefusedError, SwitchUnreachableError
from sumwire_controller.model import Switch

Code = grpc.StatusCode
SWITCH = Switch("s1", "192.0.2.1:9559", 7)
AGAIN = "; run it again: sumwire-controller apply CONFIG"


@dataclass
class Failed:
    """A failed call."""

    status: grpc.StatusCode | None

    def code(self) -> grpc.StatusCode | None:
        return self.status

    def details(self) -> str:
        return "in gRPC's words"


@pytest.mark.parametrize(
    ("code", "kind", "end"),
    [
        (Code.UNAVAILABLE, SwitchUnreachableError,
         "correct `grpc` in the configuration, or start the switch: softswitch --no-p4 --device-id 7 "
         "--grpc-server-addr 192.0.2.1:9559 --insecure -i PORT@INTERFACE"),
        (Code.DEADLINE_EXCEEDED, SwitchUnreachableError, " -i PORT@INTERFACE"),
        (Code.PERMISSION_DENIED, NotPrimaryError, "or take over: sumwire-controller apply CONFIG --take-over"),
        (Code.NOT_FOUND, SwitchRefusedError,
         "correct `device_id` in the configuration, or load the program: sumwire-controller apply CONFIG"),
        (Code.RESOURCE_EXHAUSTED, SwitchRefusedError, "take jobs out of the configuration"),
        (Code.UNIMPLEMENTED, SwitchRefusedError, "correct `grpc` in the configuration"),
        (Code.UNKNOWN, SwitchRefusedError, AGAIN),
        (Code.INTERNAL, SwitchRefusedError, AGAIN),
        (None, SwitchRefusedError, AGAIN),
    ],
)  # fmt: skip
def test_a_failed_call(code: grpc.StatusCode | None, kind: type[SwitchError], end: str) -> None:
    error = rpc_error(SWITCH, "reading the tables", Failed(code))
    assert type(error) is kind
    name = code.name if code is not None else "NO STATUS"
    assert str(error).startswith(f"switch s1 at 192.0.2.1:9559: reading the tables: {name}: in gRPC's words")
    assert str(error).endswith(end)
