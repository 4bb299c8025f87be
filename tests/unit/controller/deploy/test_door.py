# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which files TLS uses, and how the switch of an error is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from sumwire_controller.deploy.channel import VARIABLES, credentials_of, start_options, tls_from, tls_of
from sumwire_controller.errors import TlsFilesError
from sumwire_controller.model import Switch, Tls

CA, CERT, KEY = Path("ca.pem"), Path("c.pem"), Path("c.key")
ALL = {"ca": CA, "certificate": CERT, "key": KEY}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)


def test_no_file_is_no_tls() -> None:
    assert tls_from({}) is None
    assert tls_from(dict.fromkeys(ALL)) is None


def test_an_option_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLES["ca"], "other.pem")
    monkeypatch.setenv(VARIABLES["key"], "other.key")
    assert tls_from({"certificate": CERT}) == Tls(Path("other.pem"), CERT, Path("other.key"))
    assert tls_from(ALL) == Tls(CA, CERT, KEY)
    monkeypatch.setenv(VARIABLES["key"], "")
    assert tls_from({}) == Tls(Path("other.pem"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("certificate", "key"), "without the authority"),
        (("ca", "certificate"), "go together"),
        (("ca", "key"), "go together"),
    ],
)
def test_files_that_do_not_make_a_whole(given: tuple[str, ...], words: str) -> None:
    with pytest.raises(TlsFilesError, match=f"{words}.*; give --tls-ca FILE --tls-cert FILE --tls-key FILE$"):
        tls_from({name: ALL[name] for name in given})


def test_a_unix_socket_needs_no_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLES["ca"], "ca.pem")
    at = Switch("s1", "unix:/run/s1.sock", 1, Tls(CA))
    assert tls_of(at) is None
    assert credentials_of(at) is None
    assert tls_of(Switch("s1", "192.0.2.1:9559", 1)) == Tls(CA)


def test_how_a_switch_is_started() -> None:
    assert start_options(Switch("s1", "unix:/run/s1.sock", 1)) == ""
    assert start_options(Switch("s1", "192.0.2.1:9559", 1)) == " --insecure"
    secured = start_options(Switch("s1", "192.0.2.1:9559", 1, Tls(CA)))
    assert secured.startswith(" --grpc-server-ssl --grpc-server-with-client-auth ")
