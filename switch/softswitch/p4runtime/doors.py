# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where a P4Runtime server listens, and whom it lets in.

Whoever reaches the server may become the primary controller, and replace the program. So it has a Unix socket that only
its owner may open, or mutual TLS; anything else takes a word of the user.
"""

from __future__ import annotations

import os
import resource
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

_UNIX = "unix:"


class BindError(OSError):
    """The address cannot be listened on."""


@dataclass(frozen=True)
class Tls:
    """Files in PEM. With ``client_auth`` every client needs a certificate that ``ca`` has signed."""

    certificate: Path
    key: Path
    ca: Path | None = None
    client_auth: bool = False

    def credentials(self) -> Any:
        """For gRPC. Raises BindError for a file that cannot be read."""
        certificate, key = _read(self.certificate, "cert"), _read(self.key, "key")
        ca = None if self.ca is None else _read(self.ca, "cacert")
        return grpc.ssl_server_credentials([(key, certificate)], ca, self.client_auth)


def _read(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BindError(f"{path}: {error.strerror}; name a file that is there: --grpc-server-{option} FILE") from error


def allow_connections() -> None:
    """Let this process open as many files as it may: where a crowd has them all, nobody else is let in."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def bind(server: Any, address: str, tls: Tls | None) -> int:
    """Let a gRPC server listen at "host:port" or "unix:path". Returns the TCP port. Raises BindError."""
    credentials = None if tls is None else tls.credentials()
    path = Path(address.removeprefix(_UNIX)) if address.startswith(_UNIX) else None
    if path is not None:
        _require_free(path)
    mask = os.umask(0o177) if path is not None else None  # the socket gets the mode 0600 when it is made
    try:
        if credentials is None:
            return int(server.add_insecure_port(address))
        return int(server.add_secure_port(address, credentials))
    except RuntimeError as error:
        raise BindError(f"cannot listen on {address}: {error}; choose another: --grpc-server-addr ADDRESS") from error
    finally:
        if mask is not None:
            os.umask(mask)


def _require_free(path: Path) -> None:
    """gRPC would take the path away from a server that listens there. A socket that nobody listens at may go."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return
        except OSError as error:
            raise BindError(
                f"cannot listen on {path}: {error.strerror}; choose another: --grpc-server-addr ADDRESS"
            ) from error
    raise BindError(
        f"cannot listen on {path}: a server listens there; end it, or choose another: --grpc-server-addr ADDRESS"
    )
