# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Asks a switch whether it is alive, with P4Runtime's smallest request (Capabilities) on a channel of its own."""

from __future__ import annotations

from typing import Any, Final

import grpc
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from sumwire_controller.deploy.door import open_channel
from sumwire_controller.model.config import Switch

_SILENCE: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_CHANNEL_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),  # a switch is never behind a web proxy
    ("grpc.use_local_subchannel_pool", 1),  # else a new channel gets the old one's broken connection
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
_SECOND_LOOK: Final = 1 / 3
"""The second attempt may take this fraction of the patience."""


class Pulse:
    """Asks one switch.

    :param patience_s: how long an answer may take, in seconds.
    """

    def __init__(self, switch: Switch, patience_s: float) -> None:
        self._switch = switch
        self._patience_s = patience_s
        self._connect()

    def _connect(self) -> None:
        self._channel: Any = open_channel(self._switch, _CHANNEL_OPTIONS)
        self._stub: Any = p4runtime_pb2_grpc.P4RuntimeStub(self._channel)

    def answers(self) -> bool:
        """Return True if the switch answers; a refusal is an answer too.

        Without an answer it asks once more over a new connection. The old connection may have broken although the
        switch is well, and this process may itself have been suspended.
        """
        if self._asks(self._patience_s):
            return True
        self.close()
        self._connect()
        return self._asks(self._patience_s * _SECOND_LOOK)

    def _asks(self, patience_s: float) -> bool:
        try:
            self._stub.Capabilities(p4runtime_pb2.CapabilitiesRequest(), timeout=patience_s)
        except grpc.RpcError as error:
            return error.code() not in _SILENCE
        return True

    def close(self) -> None:
        self._channel.close()
