# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a training script asks a service of `sumwire up`."""

from __future__ import annotations

import http.client
import math
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any, Final, Self

from sumwire_protocol.outside import OutsideError, escaped, json_of, shown
from sumwire_protocol.web.asking import get

from sumwire.errors import SumwireError
from sumwire.start.description import address_of, check_family, completed, is_local
from sumwire.start.errors import AbsentServiceError, NotReadyError, ServiceError
from sumwire.start.interfaces import own_addresses
from sumwire.start.service import PORT

_ANSWER_S: Final = 5.0
# From one question to the next, while a service is not there.
_AGAIN_S: Final = 0.5
_BYTES_MOST: Final = 1 << 16
_PORT_MOST: Final = 0xFFFF


@dataclass(frozen=True)
class Service:
    """The address of a service."""

    host: str
    port: int = PORT

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read HOST or HOST:PORT, also behind ``http://``. Raises ServiceError."""
        check_family(text, "service")
        host, colon, port = text.removeprefix("http://").removesuffix("/").partition(":")
        number = int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else 0
        number = number if colon else PORT
        if not host or not host.isprintable() or set(host) & set("/@?# ") or not 0 < number <= _PORT_MOST:
            raise ServiceError(f"service = {shown(text)}: must be HOST or HOST:PORT, as `sumwire up` prints it")
        return cls(host, number)

    def __str__(self) -> str:
        return f"http://{self.host}:{self.port}"

    def job_within(self, wait_s: float, tell: Callable[[str], object]) -> dict[str, Any]:
        """As :meth:`job`, but a service that is not there yet has so many seconds to come. ``tell`` gets one line, if
        it waits. Raises what :meth:`job` raises."""
        return first_of([self], wait_s, tell)[1]

    def job(self) -> dict[str, Any]:
        """The description that it serves.

        Raises ServiceError, which is an AbsentServiceError if it may come yet, and ConfigError for a description that
        breaks a rule.
        """
        status, content = self._get("/job")
        if status == http.client.SERVICE_UNAVAILABLE:
            raise NotReadyError(
                f"the aggregator of {self} is not ready; ask again soon, and see the lines of `sumwire up` there"
            )
        if status != http.client.OK:
            raise ServiceError(f"{self} answers with status {status}: give the address that `sumwire up` has printed")
        try:
            data = json_of(content.decode())
        except (OutsideError, UnicodeDecodeError) as error:
            raise ServiceError(
                f"{self} answers, but not with a job ({error}): give the address that `sumwire up` has printed"
            ) from error
        if not isinstance(data, Mapping):
            raise ServiceError(f"{self} answers, but not with a job: give the address that `sumwire up` has printed")
        # Whoever answers shall not choose a file of this machine that is then opened.
        if "key" in data:
            raise ServiceError(
                f"{self} answers with a job that has a key, and no service of `sumwire up` does: bring the job file to "
                'every server in a safe way, and give it to the script: sumwire.init(job="FILE")'
            )
        return completed(data, where=str(self))

    def probe(self, ip: str, udp_port: int) -> bool:
        """Let it send a datagram to this address and UDP port of this machine. Returns whether it has. Raises
        ServiceError."""
        return self._get(f"/probe?port={udp_port}", source=(ip, 0))[0] == http.client.OK

    def _known_as(self) -> str:
        """In words, that the name stands for an address of this machine alone, as Debian has it for its own name."""
        try:
            address = address_of(self.host)
        except ServiceError:
            return ""
        if address == self.host or not IPv4Address(address).is_loopback:
            return ""
        return f" ({self.host} is {address} here, and `sumwire up` is at the address that others know)"

    def _get(self, path: str, source: tuple[str, int] | None = None) -> tuple[int, bytes]:
        try:
            status, content = get(self.host, self.port, path, within_s=_ANSWER_S, bytes_most=_BYTES_MOST, source=source)
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            # An HTTP error may quote the answer.
            reason = escaped(getattr(error, "strerror", None) or str(error) or type(error).__name__)
            text = (
                f"no service at {self}: {reason}{self._known_as()}; start it: `sumwire up --hosts A,B`, or set "
                "SUMWIRE_SERVICE to its address"
            )
            # A name that stands for nothing will not do so in a minute.
            if isinstance(error, socket.gaierror | UnicodeError):
                raise ServiceError(text) from error
            raise AbsentServiceError(text) from error
        if len(content) > _BYTES_MOST:
            raise ServiceError(f"{self} answers with too much: give the address that `sumwire up` has printed")
        return status, content


def beside(host: str) -> list[Service]:
    """The service of a machine: at ``host``, or, where that is this machine, at another address of it. Raises
    ServiceError."""
    first = Service.parse(host)
    try:
        known = address_of(first.host)
    except ServiceError:
        return [first]
    others = own_addresses() if is_local(known) else []
    return [first, *(Service(address, first.port) for address in others if address != known)]


def first_of(
    services: Sequence[Service], wait_s: float, tell: Callable[[str], object]
) -> tuple[Service, dict[str, Any]]:
    """The first service that is there, and its job. They have so many seconds to come. ``tell`` gets one line, if it
    waits. Raises what :meth:`Service.job` of the first one raises."""
    if not 0 <= wait_s < math.inf:
        raise ServiceError(f"wait_s = {wait_s:g}: must be 0 or more seconds: leave it out for 60")
    end = time.monotonic() + wait_s
    told = False
    while True:
        failures: list[AbsentServiceError] = []
        for service in services:
            try:
                return service, service.job()
            except AbsentServiceError as error:
                failures.append(error)
            except SumwireError:
                if service is services[0]:
                    raise
        failure = next((one for one in failures if isinstance(one, NotReadyError)), failures[0])
        if time.monotonic() >= end:
            raise failure
        if not told:
            others = ", ".join(one.host for one in services[1:])
            tell(f"sumwire.init() waits up to {wait_s:g} s{others and f', also at {others}'}: {failure}")
        told = True
        threading.Event().wait(_AGAIN_S)
