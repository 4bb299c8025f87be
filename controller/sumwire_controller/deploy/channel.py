# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The controller's channel to a switch, over a Unix socket, TLS or plain TCP, and the diagnosis of why it stays
closed."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import grpc
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from sumwire_controller.errors import SwitchRefusedError, TlsFilesError
from sumwire_controller.model import Switch, Tls

UNIX: Final = "unix:"
VARIABLES: Final = {"ca": "SUMWIRE_TLS_CA", "certificate": "SUMWIRE_TLS_CERT", "key": "SUMWIRE_TLS_KEY"}
_OPTIONS: Final = {"ca": "--tls-ca", "certificate": "--tls-cert", "key": "--tls-key"}
_LOOK_S: Final = 1.0
# HTTP/2's preface and empty settings. A server that refuses our certificate says so only when we speak (TLS 1.3).
_HELLO: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_ANOTHER: Final = "give one that the switch's authority has signed: --tls-cert FILE --tls-key FILE"
_ALL: Final = "give --tls-ca FILE --tls-cert FILE --tls-key FILE"


def tls_from(files: Mapping[str, Path | None]) -> Tls | None:
    """Return TLS with the given files; one that is None or missing is taken from the environment (VARIABLES). None
    without any.

    :param files: by the fields of `Tls`.
    :raises TlsFilesError: some are given, but not enough.
    """
    found = {name: files.get(name) or _of_environment(variable) for name, variable in VARIABLES.items()}
    if not any(found.values()):
        return None
    if found["ca"] is None:
        raise TlsFilesError(f"TLS without the authority that signs the switches' certificates; {_ALL}")
    if (found["certificate"] is None) != (found["key"] is None):
        raise TlsFilesError(f"a certificate and its key go together; {_ALL}")
    return Tls(found["ca"], found["certificate"], found["key"])


def _of_environment(variable: str) -> Path | None:
    text = os.environ.get(variable)
    return Path(text) if text else None


def tls_of(switch: Switch) -> Tls | None:
    """Return the switch's own TLS files, else those of the environment. None for a Unix socket, which needs none."""
    return None if switch.grpc.startswith(UNIX) else switch.tls or tls_from({})


def open_channel(switch: Switch, options: Any) -> Any:
    """:raises TlsFilesError: as `credentials_of`."""
    credentials = credentials_of(switch)
    if credentials is None:
        return grpc.insecure_channel(switch.grpc, options=options)
    return grpc.secure_channel(switch.grpc, credentials, options=options)


def credentials_of(switch: Switch) -> Any | None:
    """Return gRPC's credentials for TLS; None without TLS.

    :raises TlsFilesError: a file cannot be read.
    """
    tls = tls_of(switch)
    if tls is None:
        return None
    certificate = None if tls.certificate is None else _read(tls.certificate, "certificate")
    key = None if tls.key is None else _read(tls.key, "key")
    return grpc.ssl_channel_credentials(_read(tls.ca, "ca"), key, certificate)


def _read(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsFilesError(f"{path}: {error.strerror}; name a file that is there: {_OPTIONS[name]} FILE") from error


def start_options(switch: Switch) -> str:
    """Return the soft switch's options that let this controller connect."""
    if switch.grpc.startswith(UNIX):
        return ""
    if tls_of(switch) is None:
        return " --insecure"
    files = "--grpc-server-cacert CA --grpc-server-cert CERT --grpc-server-key KEY"
    return f" --grpc-server-ssl --grpc-server-with-client-auth {files}"


def where(switch: Switch) -> str:
    """Return the name and address that messages give a switch."""
    return f"switch {switch.name} at {switch.grpc}"


def why_closed(switch: Switch, what: str, patience_s: float) -> SwitchRefusedError | None:
    """Examine a switch that did not answer. Returns the error if it refuses the connection, None if the reason is
    another one.

    :param what: what the controller wanted, for the message.
    """
    patience_s, at = min(patience_s, _LOOK_S), f"{where(switch)}: {what}"
    tls = tls_of(switch)
    try:
        if switch.grpc.startswith(UNIX):
            return _at_socket(at, switch.grpc.removeprefix(UNIX), patience_s)
        return _speaks_tls(at, switch, patience_s) if tls is None else _refusal(at, switch, tls, patience_s)
    except OSError:  # it is not there, or broke off without a word
        return None


def _at_socket(at: str, path: str, patience_s: float) -> SwitchRefusedError | None:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(patience_s)
        try:
            probe.connect(path)
        except PermissionError:
            return SwitchRefusedError(
                f"{at}: the socket is another user's; run the controller as the user who started the switch, or as root"
            )
    return None


def _speaks_tls(at: str, switch: Switch, patience_s: float) -> SwitchRefusedError | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        _greet(switch, context, patience_s)
    except ssl.SSLError as error:
        if "ALERT" not in (error.reason or ""):
            return None
    return SwitchRefusedError(f"{at}: the switch speaks TLS; {_ALL}")


def _refusal(at: str, switch: Switch, tls: Tls, patience_s: float) -> SwitchRefusedError | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(tls.ca)
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, tls.key)
    except ssl.SSLError as error:
        files = f"{tls.ca}, {tls.certificate} and {tls.key}"
        return SwitchRefusedError(f"{at}: {files} are not files for TLS ({error.reason or error}); {_ALL}")
    try:
        answers = _greet(switch, context, patience_s)
    except ssl.SSLCertVerificationError as error:
        flaw = f"{at}: the switch's certificate: {error.verify_message}"
        if "mismatch" in error.verify_message:
            return SwitchRefusedError(f"{flaw}; correct `grpc` in the configuration to an address in the certificate")
        return SwitchRefusedError(f"{flaw}; renew it, or give the authority that has signed it: --tls-ca FILE")
    except ssl.SSLError as error:
        return _by_alert(at, error.reason or str(error))
    return None if answers else _turned_away(at, tls)


def _by_alert(at: str, reason: str) -> SwitchRefusedError:
    words = reason.lower().replace("_", " ")
    if "ALERT" in reason:
        return SwitchRefusedError(f"{at}: the switch refuses the connection ({words}); {_ANOTHER}")
    return SwitchRefusedError(
        f"{at}: the switch speaks no TLS ({words}); start it with --grpc-server-ssl, or leave out the TLS files"
    )


def _turned_away(at: str, tls: Tls) -> SwitchRefusedError:
    """The switch closed the connection on seeing our certificate. gRPC does not say why."""
    if tls.certificate is None:
        return SwitchRefusedError(f"{at}: the switch wants a certificate; {_ANOTHER}")
    flaw = _flaw(tls) or "it knows another authority"
    return SwitchRefusedError(f"{at}: the switch refuses the controller's certificate: {flaw}; {_ANOTHER}")


def _flaw(tls: Tls) -> str | None:
    """What our own authority would say of our certificate: a handshake with ourselves, in memory."""
    judge = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    judge.verify_mode = ssl.CERT_REQUIRED
    judge.load_verify_locations(tls.ca)
    bearer = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bearer.check_hostname, bearer.verify_mode = False, ssl.CERT_NONE
    for context in (judge, bearer):
        context.load_cert_chain(str(tls.certificate), tls.key)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (bearer.wrap_bio(back, there), judge.wrap_bio(there, back, server_side=True))
    for end in ends * 2:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
    return None


def _greet(switch: Switch, context: ssl.SSLContext, patience_s: float) -> bool:
    """A handshake; True if an answer comes after it."""
    host, _, port = switch.grpc.rpartition(":")
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection((host.strip("[]"), int(port)), timeout=patience_s) as plain,
        context.wrap_socket(plain, server_hostname=host.strip("[]")) as wrapped,
    ):
        try:
            wrapped.sendall(_HELLO)
            return bool(wrapped.recv(1))
        except (ConnectionError, ssl.SSLEOFError):
            return False


_SILENCE: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_CHANNEL_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),  # a switch is never behind a web proxy
    ("grpc.use_local_subchannel_pool", 1),  # else a new channel gets the old one's broken connection
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
_SECOND_LOOK: Final = 1 / 3
"""The second attempt may take this fraction of the patience."""


class LivenessProbe:
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
