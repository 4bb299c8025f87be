# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The command line of ``softswitch``: every option of bmv2 is taken, and a file that is no program is refused."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from commonlib import log_context
from helpers.logs import events_of
from helpers.paths import ROOT
from helpers.softswitch.compile_programs import PROGRAMS
from softswitch import cli, options
from softswitch.cli import main
from softswitch.events import SwitchEvent

# Of simple_switch and simple_switch_grpc 1.15, as their sources declare them; with a value where they need one.
BMV2 = """
--help -h --version -v --json-version
--interface=1@veth1 -i=1@veth1 --pcap --pcap=pcaps --use-files=0 --packet-in=ipc:///tmp/packets --max-port-count=16
--thrift-port=9090 --device-id=1 --nanolog=ipc:///tmp/log.ipc --notifications-addr=ipc:///tmp/notifications.ipc
--log-console --log-file=switch.log --log-level=trace -L=debug --log-flush --log-file-max-size=5242880
--log-file-max-files=3 --debugger --debugger-addr=ipc:///tmp/debug.ipc --restore-state=state --dump-packet-data=64
--enable-swap --disable-swap --drop-port=510 --priority-queues=8 --max-mc-groups=16 --max-l1-entries=16
--max-l2-entries=16 --load-modules=extern.so --grpc-server-addr=0.0.0.0:50051 --grpc-server-ssl
--grpc-server-cacert=ca.pem --grpc-server-cert=c.pem --grpc-server-key=c.key --grpc-server-with-client-auth
--cpu-port=255 --dp-grpc-server-addr=0.0.0.0:50052
"""
ENDING = {"--help", "-h", "--version", "-v", "--json-version"}
CERTIFICATES = ["--grpc-server-cert", "c.pem", "--grpc-server-key", "c.key", "--grpc-server-cacert", "ca.pem"]
TLS = ["--grpc-server-ssl", *CERTIFICATES]
# Taken and ignored, in a harness's way to write values.
TAKEN = ["--use-files", "0", "--debugger", "--nanolog", "x", "--priority-queues", "4", "--debugger"]


@pytest.fixture(autouse=True)
def as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In an empty folder, where log files are opened. Afterwards the log of this process is as it was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(log_context, "is_switch", lambda name: None)
    before = logging.getLogger().handlers[:]
    yield
    for handler in set(logging.getLogger().handlers) - set(before):
        logging.getLogger().removeHandler(handler)
        with contextlib.suppress(OSError):  # of a full disk
            handler.close()


def words_of(option: str) -> list[str]:
    name, _, value = option.partition("=")
    words = [name, value] if value else [name]
    return [*words, *TLS] if name.startswith("--grpc-server-") and name != "--grpc-server-addr" else words


@pytest.mark.parametrize("before", [[], ["--"]], ids=["before", "behind"])
@pytest.mark.parametrize("option", BMV2.split())
def test_every_option_of_bmv2_is_taken(option: str, before: list[str]) -> None:
    words = ["--no-p4", "--insecure", *before, *words_of(option)]
    if option in ENDING:
        with pytest.raises(SystemExit) as ended:
            options.parse(words)
        assert ended.value.code == 0
        return
    assert options.parse(words).no_p4


def test_the_list_has_each_option_that_is_ignored() -> None:
    names = {option.partition("=")[0] for option in BMV2.split()}
    assert {name for option in options.IGNORED for name in option.names} < names


@pytest.mark.parametrize("word", ["--nonsense", "--pcaps", "--thrift-port"])
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(SystemExit) as ended:
        options.parse(["--no-p4", "--insecure", word])
    assert ended.value.code == 2


def test_a_line_for_each_option_that_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    assert main(["--insecure", *TAKEN, "missing.json", "--log-console", "--enable-swap"]) == 2
    told = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage().partition(":")[0] for record in told] == [
        f"{name} is ignored" for name in ("--use-files", "--debugger", "--nanolog", "--priority-queues")
    ]
    assert "events of packets are not published" in told[2].getMessage()
    assert events_of(told) == [SwitchEvent.OPTION_IGNORED] * 4


def test_the_page_has_the_tables() -> None:
    page = (ROOT / "docs" / "softswitch.md").read_text()
    for heading, rows in options.HEADINGS.items():
        assert "\n".join(options.as_markdown(rows, heading)) + "\n\n" in page


def test_a_port_for_commands_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    secured = ["--no-p4", "--grpc-server-addr", "unix:s1.sock"]
    with pytest.raises(SystemExit) as ended:
        options.parse([*secured, "--thrift-port", "9090"])
    assert ended.value.code == 2
    assert "whoever reaches port 9090 could change tables: give --cli-socket PATH" in capsys.readouterr().err
    assert options.parse([*secured, "--thrift-port", "9090", "--insecure"]).thrift_port == 9090
    assert options.parse([*secured, "--cli-socket", "c.sock"]).cli_socket == Path("c.sock")


def test_the_log_goes_to_a_file_too(caplog: pytest.LogCaptureFixture) -> None:
    Path("switch.log").write_text("an earlier line\n")
    assert main(["missing.json", "--insecure", "--log-file", "switch.log", "--log-flush", "--nanolog", "x"]) == 2
    earlier, ignored, failed = Path("switch.log").read_text().splitlines()
    assert earlier == "an earlier line"
    assert "WARNING softswitch: --nanolog is ignored" in ignored
    assert "ERROR softswitch: missing.json: No such file or directory" in failed
    assert "missing.json" in caplog.text


def test_a_log_file_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options.parse(["--no-p4", "--insecure", "--log-file", "none/switch.log"])
    assert "'none/switch.log': No such file or directory; name a file that can be written" in capsys.readouterr().err


def test_a_full_disk_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["missing.json", "--insecure", "--log-file", "/dev/full", "--nanolog", "x", "--debugger"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "--log-file /dev/full: No space left on device: lines are missing"


@pytest.mark.parametrize("number", ["-1", "²", "٣", "0x1", "9" * 5000, ""])
@pytest.mark.parametrize(
    ("option", "rule"),
    [
        ("--cpu-port={}", "must be a port in 0..511"),
        ("--drop-port={}", "must be a port in 0..511"),
        ("--interface={}@veth1", "write PORT@INTERFACE with a port in 0..511"),
        ("--device-id={}", "must be a whole number in 0..18446744073709551615"),
        ("--seed={}", "must be a whole number in 0..18446744073709551615"),
        ("--thrift-port={}", "must be a port in 0..65535"),
    ],
)
def test_what_is_no_number(option: str, rule: str, number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options.parse(["--no-p4", "--insecure", option.format(number)])
    value = option.partition("=")[2].format(number)
    assert f"{value!r}: {rule}\n" in capsys.readouterr().err


def test_the_largest_device_id(capsys: pytest.CaptureFixture[str]) -> None:
    assert options.parse(["--no-p4", "--insecure", "--device-id", str(2**64 - 1)]).device_id == 2**64 - 1
    with pytest.raises(SystemExit):
        options.parse(["--no-p4", "--insecure", "--device-id", str(2**64)])
    assert "must be a whole number" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "shown"), [("--dump-python", " == 9:"), ("--dump-c", " == 9u)")])
def test_the_drop_port_reaches_the_program(option: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(PROGRAMS / "tables.json"), option]
    assert main(words) == 0
    assert shown not in capsys.readouterr().out
    assert main([*words, "--drop-port", "9"]) == 0
    assert shown in capsys.readouterr().out


def test_the_drop_port_is_the_switchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_run", lambda switch, *_: switch.drop_port)
    assert main(["--no-p4", "--insecure", "--engine", "python", "--drop-port", "9"]) == 9


@pytest.mark.parametrize("words", [["-i", "9@veth1"], ["--cpu-port", "9"]])
def test_no_port_is_the_drop_port(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert options.parse(["--no-p4", "--insecure", "-i", "511@veth1", "--drop-port", "510"]).interfaces == [
        (511, "veth1")
    ]
    with pytest.raises(SystemExit):
        options.parse(["--no-p4", "--insecure", "--drop-port", "9", *words])
    assert "port 9 is the drop port: give another to -i, --cpu-port or --drop-port" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "No such file or directory: the program must be a file to read; compile the P4 program with p4c"),
        (b"", "the program is empty; compile the P4 program with p4c"),
        (b" \n", "the program is empty; compile the P4 program with p4c"),
        (b"control c() {}", "line 1, column 1: the program is not JSON: Expecting value; compile the P4 program"),
        (b"\xff\xfe", "the program is not JSON: it must be UTF-8"),
        (b"{}", "the program is not a bmv2 JSON: it has no pipelines; compile the P4 program with p4c"),
        (b"[1]", "the program is not a bmv2 JSON: it has no pipelines; compile the P4 program with p4c"),
        (b'{"pipelines": []}', "the program: an object has no member"),
    ],
)
def test_a_file_that_is_no_program(content: bytes | None, told: str, caplog: pytest.LogCaptureFixture) -> None:
    if content is not None:
        Path("given.json").write_bytes(content)
    assert main(["given.json", "--insecure"]) == 2
    (record,) = caplog.records
    assert record.getMessage().startswith(f"given.json: {told}")


def test_a_folder_is_no_program(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert main([str(tmp_path), "--insecure"]) == 2
    assert f"{tmp_path}: Is a directory: the program must be a file to read; compile" in caplog.text


def test_a_program_outside_the_subset_has_another_status(caplog: pytest.LogCaptureFixture) -> None:
    program = (PROGRAMS / "tables.json").read_text()
    Path("given.json").write_text(program.replace('"mark_to_drop"', '"mark_to_keep"'))
    assert main(["given.json", "--insecure"]) == 1
    assert "mark_to_keep" in caplog.text
