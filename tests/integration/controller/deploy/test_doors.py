# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Unix sockets and mutual TLS between the controller and both switches: what opens, and what is refused with a cure."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers.certificates import Authority, Signed, authority
from helpers.controller.config_texts import star, text
from helpers.controller.real_switches import bmv2, soft_switch
from softswitch.p4runtime.server import ServerTls
from softswitch.switch import SoftSwitch
from sumwire_controller.cli import main
from sumwire_controller.deploy.channel import VARIABLES, LivenessProbe, why_closed
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.reconcile import EntryChange, Write
from sumwire_controller.deploy.switch import P4Switch
from sumwire_controller.derive.entries import TableEntry
from sumwire_controller.errors import SwitchRefusedError, TlsFilesError
from sumwire_controller.model import Switch, Tls
from sumwire_controller.parse.files import parse_config

PROGRAM = Program.load()
ROUTE = TableEntry("forward", (0x0A000001, 32), (3,))
DEADLINE_S = 5.0
NOBODY = 65534
BOTH = ["soft", pytest.param("bmv2", marks=pytest.mark.bmv2)]

pytestmark = pytest.mark.openssl


@dataclass(frozen=True)
class Pki:
    """An authority with a switch and a controller, one that has expired, and somebody else's."""

    ours: Authority
    switch: Signed
    controller: Signed
    expired: Signed
    others: Authority
    stranger: Signed

    def tls(self, signed: Signed | None, ca: Path | None = None) -> Tls:
        """What a controller with this certificate uses."""
        files = (None, None) if signed is None else (signed.certificate, signed.key)
        return Tls(ca or self.ours.certificate, *files)

    def served(self, signed: Signed) -> ServerTls:
        """What a switch with this certificate uses."""
        return ServerTls(signed.certificate, signed.key, self.ours.certificate, client_auth=True)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    folder = tmp_path_factory.mktemp("pki")
    ours, others = authority(folder / "ours"), authority(folder / "others")
    expired = ours.sign("old", days=-1)
    return Pki(ours, ours.sign("switch"), ours.sign("controller"), expired, others, others.sign("stranger"))


@pytest.fixture(scope="module", params=BOTH)
def secured(request: pytest.FixtureRequest, pki: Pki, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a switch with mutual TLS."""
    if request.param == "soft":
        with soft_switch(SoftSwitch(engine="python"), tls=pki.served(pki.switch)) as address:
            yield address
        return
    options = ["--grpc-server-ssl", "--grpc-server-with-client-auth", "--grpc-server-cacert", pki.ours.certificate]
    options += ["--grpc-server-cert", pki.switch.certificate, "--grpc-server-key", pki.switch.key]
    log = tmp_path_factory.mktemp("bmv2") / "log"
    with bmv2(log, options=options, tls=pki.tls(pki.controller)) as address:
        yield address


def check_it_works(at: Switch) -> None:
    """Load the program, write and read back."""
    with P4Switch(at, DEADLINE_S) as switch:
        switch.push(PROGRAM)
        switch.write(PROGRAM, EntryChange(Write.INSERT, ROUTE))
    with P4Switch(at, DEADLINE_S, read_only=True) as switch:
        assert switch.entries(PROGRAM) == {ROUTE}
    probe = LivenessProbe(at, DEADLINE_S)
    assert probe.answers()
    probe.close()


def refused(at: Switch, words: str) -> None:
    """Opening a session and reading alone both end in an error with these words."""
    with pytest.raises(SwitchRefusedError, match=words):
        P4Switch(at, DEADLINE_S)
    with P4Switch(at, DEADLINE_S, read_only=True) as switch, pytest.raises(SwitchRefusedError, match=words):
        switch.loaded(PROGRAM)


def test_mutual_tls(secured: str, pki: Pki) -> None:
    check_it_works(Switch("s1", secured, 1, pki.tls(pki.controller)))


def test_no_certificate(secured: str, pki: Pki) -> None:
    refused(
        Switch("s1", secured, 1, pki.tls(None)), "the switch wants a certificate; give one .*--tls-cert FILE --tls-key"
    )


def test_an_expired_certificate(secured: str, pki: Pki) -> None:
    refused(
        Switch("s1", secured, 1, pki.tls(pki.expired)),
        "controller's certificate: certificate has expired; give one .*--tls-cert",
    )


def test_a_certificate_of_another_authority(secured: str, pki: Pki) -> None:
    refused(
        Switch("s1", secured, 1, pki.tls(pki.stranger)),
        "controller's certificate: unable to get .*issuer.*; give one",
    )


def test_a_switch_of_another_authority(secured: str, pki: Pki) -> None:
    tls = pki.tls(pki.controller, pki.others.certificate)
    refused(
        Switch("s1", secured, 1, tls), "the switch's certificate: .*; renew it, or give the authority .*--tls-ca FILE"
    )


def test_plain_tcp_to_a_switch_with_tls(secured: str) -> None:
    words = "the switch speaks TLS; give --tls-ca FILE --tls-cert FILE --tls-key FILE"
    refused(Switch("s1", secured, 1), words)


def test_tls_to_a_switch_without(pki: Pki) -> None:
    with soft_switch(SoftSwitch(engine="python")) as address:
        refused(Switch("s1", address, 1, pki.tls(pki.controller)), r"speaks no TLS \(.*; start it with --grpc-se")


@pytest.mark.parametrize(
    ("address", "days", "words"),
    [
        ("127.0.0.1", -1, "the switch's certificate: certificate has expired; renew it"),
        ("192.0.2.1", 2, "the switch's certificate: .*mismatch.*; correct `grpc` in the configuration"),
    ],
)
def test_a_switch_with_a_bad_certificate(pki: Pki, address: str, days: int, words: str) -> None:
    bad = pki.ours.sign(f"bad{days}", address=address, days=days)
    with soft_switch(SoftSwitch(engine="python"), tls=pki.served(bad)) as at:
        refused(Switch("s1", at, 1, pki.tls(pki.controller)), words)


def test_files_of_the_environment_and_of_the_command_line(
    pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    path, ours = tmp_path / "c.yaml", pki.controller
    words = ["--tls-ca", str(pki.ours.certificate), "--tls-cert", str(ours.certificate), "--tls-key", str(ours.key)]
    with soft_switch(SoftSwitch(engine="python"), tls=pki.served(pki.switch)) as address:
        path.write_text(text(star()).replace("127.0.0.1:9559", address))
        assert main(["apply", str(path)]) == 1
        assert "the switch speaks TLS" in capsys.readouterr().err
        assert main(["apply", str(path), *words]) == 0
        monkeypatch.setenv(VARIABLES["ca"], str(pki.ours.certificate))
        monkeypatch.setenv(VARIABLES["certificate"], str(pki.expired.certificate))
        monkeypatch.setenv(VARIABLES["key"], str(pki.expired.key))
        assert main(["status", str(path)]) == 1
        assert "certificate has expired" in capsys.readouterr().err
        assert main(["status", str(path), *words]) == 0
        monkeypatch.setenv(VARIABLES["certificate"], str(ours.certificate))
        monkeypatch.setenv(VARIABLES["key"], str(ours.key))
        assert main(["status", str(path)]) == 0
        assert main(["status", str(path), "--tls-key", str(tmp_path / "absent")]) == 1
        shown = capsys.readouterr()
    assert shown.err.endswith(
        f"{tmp_path / 'absent'}: No such file or directory; name a file that is there: --tls-key FILE\n"
    )
    secret = ours.key.read_text().splitlines()[1]
    assert secret not in shown.out + shown.err + caplog.text


def test_files_that_are_not_what_they_should_be(pki: Pki, tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("nothing")
    with soft_switch(SoftSwitch(engine="python"), tls=pki.served(pki.switch)) as address:
        tls = Tls(pki.ours.certificate, nonsense, nonsense)
        closed = why_closed(Switch("s1", address, 1, tls), "testing", DEADLINE_S)
        assert f"{nonsense} are not files for TLS" in str(closed)


@pytest.mark.parametrize("kind", BOTH)
def test_a_unix_socket(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "s1.sock"
    running = (
        soft_switch(SoftSwitch(engine="python"), address=f"unix:{path}")
        if kind == "soft"
        else bmv2(tmp_path / "log", address=f"unix:{path}")
    )
    with running as address:
        check_it_works(Switch("s1", address, 1))
        if kind == "soft":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    data = parse_config(text(star()).replace("127.0.0.1:9559", f"unix:{path}"))
    assert data.switch.grpc == f"unix:{path}"


@pytest.mark.root
def test_a_unix_socket_of_another_user(tmp_path: Path) -> None:
    with soft_switch(SoftSwitch(engine="python"), address=f"unix:{tmp_path}/s1.sock") as address:
        os.seteuid(NOBODY)
        try:
            refused(
                Switch("s1", address, 1), "the socket is another user's; run the controller as the user who started"
            )
        finally:
            os.seteuid(0)


def test_a_missing_file_is_said_before_anything_is_sent(tmp_path: Path) -> None:
    at = Switch("s1", "127.0.0.1:1", 1, Tls(tmp_path / "absent"))
    with pytest.raises(TlsFilesError, match="name a file that is there: --tls-ca FILE"):
        P4Switch(at, DEADLINE_S)
