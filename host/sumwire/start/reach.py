# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Asks, before a job begins, whether its aggregator answers this worker. Called by `rank_placement`."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Iterator
from typing import Final

import numpy as np
from sumwire_protocol import constants as p4

from sumwire.config import JobConfig
from sumwire.start.errors import ReachError, ServiceError
from sumwire.start.service import PROBE, ServiceAddress
from sumwire.transport.switch_answers import hello_packet, is_hello_answer
from sumwire.wire.packets import HEADER_BYTES, headers

# Seconds to wait for the answer to each HELLO in turn.
_WAITS_S: Final = (0.2, 0.4, 0.8, 1.6)
_PROBE_S: Final = 1.0
_BYTES: Final = 2048


def check_reach(config: JobConfig, service: ServiceAddress | None = None) -> None:
    """Raise ReachError if the aggregator does not answer this worker. The message says what could be found out."""
    own = config.own_address
    with _socket_of(config) as udp:
        hello = hello_packet(config).tobytes()
        for wait_s in _WAITS_S:
            with contextlib.suppress(OSError):
                udp.sendto(hello, (own.aggregator, p4.SUMWIRE_PORT))
            if _comes(udp, wait_s, config):
                return
        found = _found_out(udp, config, service)
    raise ReachError(
        f"job {config.name}: the aggregator {own.aggregator}:{p4.SUMWIRE_PORT} does not answer worker {config.worker} "
        f"at {own.ip}:{own.udp_port}; {found}; let UDP port {p4.SUMWIRE_PORT} pass there, and {own.udp_port} here"
    )


@contextlib.contextmanager
def _socket_of(config: JobConfig) -> Iterator[socket.socket]:
    own = config.own_address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        try:
            udp.bind((own.ip, own.udp_port))
        except OSError as error:
            raise ReachError(
                f"job {config.name}: worker {config.worker} cannot use {own.ip}:{own.udp_port}: "
                f"{error.strerror or error}; a job of this script that has the port must be closed first: job.close(); "
                "another program that has it must end: `ss -ulnp`; a second job on these servers needs its own ports: "
                "`sumwire up --worker-port`"
            ) from error
        yield udp


def _comes(udp: socket.socket, wait_s: float, config: JobConfig | None) -> bool:
    """Return True if an answer to this worker's HELLO comes in time, or, without ``config``, a service's probe."""
    end = time.monotonic() + wait_s
    while (left := end - time.monotonic()) > 0 and select.select([udp], [], [], left)[0]:
        try:
            content, (source, _) = udp.recvfrom(_BYTES)
        except OSError:
            continue
        if config is None:
            if content == PROBE:
                return True
        elif source == config.aggregator and _answers(config, content):
            return True
    return False


def _answers(config: JobConfig, content: bytes) -> bool:
    """Return True if a datagram answers this worker's HELLO. A refusal does too: it shows that both directions work."""
    if len(content) < HEADER_BYTES:
        return False
    record = headers(np.frombuffer(content[:HEADER_BYTES], np.uint8)[None])[0]
    refused = int(record["version_kind"]) & 0xF == p4.KIND_REFUSED
    return refused or is_hello_answer(config, len(content), record)


def _found_out(udp: socket.socket, config: JobConfig, service: ServiceAddress | None) -> str:
    if service is None:
        return "it may not run, or a firewall is between"
    try:
        sent = service.probe(config.own_address.ip, config.own_address.udp_port)
    except ServiceError:
        return "the service does not answer any more either"
    if not sent:
        return f"the service knows no worker at {config.own_address.ip}, so an address is translated on the way"
    if _comes(udp, _PROBE_S, None):
        return "datagrams of the service's server reach this worker, so those of this worker get lost"
    return "datagrams of the service's server do not reach this worker either"
