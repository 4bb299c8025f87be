# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The door for commands of ``simple_switch_CLI``: its sockets, hostile callers, the client, controllers beside it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.docs import pages
from helpers.p4runtime.client import DEVICE_ID, PROGRAMS, TIMEOUT_SECONDS, Controller, Program, delete, insert, modify
from helpers.paths import ROOT
from p4.v1 import p4runtime_pb2 as p4rt
from softswitch.cli_door import server
from softswitch.cli_door.commands import Commander
from softswitch.cli_door.server import CLIENTS_MOST, CommandDoor
from softswitch.cli_door.values import LINE_MOST
from softswitch.events import SwitchEvent
from softswitch.p4runtime.server import BindError, serve
from softswitch.p4runtime.service import P4RuntimeService
from softswitch.switch import EngineChoice, SoftSwitch
from sumwire_lab.network.switches import free_tcp_port

INTRO = "Obtaining JSON from switch...\nDone\nControl utility for runtime P4 table manipulation\n"
PROMPT = "RuntimeCmd: "
COMMANDS = """
# the commands of a lab
table_set_default exact_t drop
table_add exact_t forward 00:00:00:00:00:01 => 7
table_add exact_t mark 00:00:00:00:00:02 => 12 0xabc
table_add exact_t forward 00:00:00:00:00:01 => 7
table_add lpm_t forward 00:00:00:00:01:00/40 => 3
table_add ternary_t mark 0x1&&&0xf 0x800 => 1 2 10
table_add range_t mark 0->0xffff => 3 4 2
table_dump exact_t
table_dump ternary_t
table_dump range_t
table_dump_entry exact_t 1
table_num_entries exact_t
table_modify exact_t forward 0 4
table_dump_entry exact_t 0
counter_read ingress.exact_hits 0
counter_write ingress.exact_hits 0 3 400
counter_read ingress.exact_hits 0
counter_write ingress.seen 1 5 6
counter_read ingress.seen 1
counter_read ingress.seen 8
table_delete exact_t 0
table_delete exact_t 77
table_info lpm_t
mc_mgrp_create 1
mc_node_create 5 0 3
mc_node_create 6 7
mc_node_associate 1 0
mc_node_associate 1 1
mc_dump
mc_node_dissociate 1 0
mc_node_destroy 1
mc_dump
mc_mgrp_destroy 1
mirroring_add 5 7
mirroring_get 5
mirroring_add_mc 5 22
mirroring_get 5
mirroring_delete 5
mirroring_get 5
register_read nope 1
table_add exact_t
table_delete exact_t x
nonsense
"""


class Caller:
    """A connection to the door, without the client."""

    def __init__(self, address: Any) -> None:
        self.socket = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self.socket.settimeout(TIMEOUT_SECONDS)
        self.socket.connect(address)
        self._lines = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def line(self) -> bytes:
        """What comes next; empty at the end of the connection."""
        try:
            return self._lines.readline()
        except ConnectionResetError:
            return b""

    def __call__(self, command: str) -> list[str]:
        self.send(json.dumps({"command": command}).encode() + b"\n")
        out: list[str] = json.loads(self.line())["out"]
        return out

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


@contextmanager
def door_of(switch: SoftSwitch, path: Path | None, port: int | None = None) -> Iterator[CommandDoor]:
    with CommandDoor(path, port) as door:
        door.open(Commander(switch, P4RuntimeService(switch, 0, None, None), {}))
        yield door


@pytest.fixture
def switch() -> SoftSwitch:
    return SoftSwitch((PROGRAMS / "tables.json").read_text(), engine="python")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cli.sock"


def run_client(text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The client as a process, with ``text`` as its input."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "softswitch.cli_door", *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_a_script_of_commands(engine: EngineChoice, path: Path) -> None:
    """As `simple_switch_CLI --thrift-port PORT < commands.txt`, over both kinds of socket, with both engines."""
    lab = SoftSwitch((PROGRAMS / "tables.json").read_text(), engine=engine)
    with door_of(lab, path, 0) as door:
        port = door.places[1].rpartition(":")[2]
        done = run_client(
            "table_add exact_t forward 1 => 7\ncounter_read nope 0\n\n", "--thrift-port", port, "--json", "x"
        )
        assert done.stdout == (
            f"{INTRO}{PROMPT}Adding entry to exact match table exact_t\n"
            "match key:           EXACT-00:00:00:00:00:01\naction:              forward\n"
            "runtime data:        00:07\nEntry has been added with handle 0\n"
            f"{PROMPT}Error: Invalid counter name (nope)\n{PROMPT}{PROMPT}\n"
        )
        assert (done.returncode, done.stderr) == (0, "")
        done = run_client("table_num_entries exact_t\nEOF\ntable_clear exact_t", "--cli-socket", str(path))
        assert done.stdout == f"{INTRO}{PROMPT}1\n{PROMPT}\n"
    assert len(lab.entries("ingress.exact_t")) == 1


def test_without_a_switch(path: Path) -> None:
    done = run_client("show_tables\n", "--thrift-port", str(free_tcp_port()))
    assert done.returncode == 1 and "Could not connect to thrift client on port" in done.stdout
    done = run_client("show_tables\n", "--cli-socket", str(path))
    assert done.returncode == 1 and f"Could not connect to thrift client on {path}\n" in done.stdout


def test_the_client_bears_a_switch_that_hangs_up(
    switch: SoftSwitch, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that was idle is made anew; of a switch that has ended it says so."""
    monkeypatch.setattr(server._Handler, "timeout", 0.05)
    with door_of(switch, path):
        words = [sys.executable, "-P", "-m", "softswitch.cli_door", "--cli-socket", str(path)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            try:
                for _ in range(3):
                    process.stdin.write("table_num_entries exact_t\n")
                    process.stdin.flush()
                    while (line := process.stdout.readline()) != f"{PROMPT}0\n":
                        assert line in INTRO.splitlines(keepends=True)
                    await_end_of_connections(path)
                process.stdin.close()
                assert process.wait(TIMEOUT_SECONDS) == 0
            finally:
                process.kill()


def await_end_of_connections(path: Path) -> None:
    """A caller that says nothing is sent away; the client, which came before, was so earlier."""
    late = Caller(str(path))
    assert late.line() == b""
    late.close()


def test_the_socket_is_its_users_alone(switch: SoftSwitch, path: Path) -> None:
    with door_of(switch, path):
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(BindError, match="a server listens there; end it, or choose another: --cli-socket PATH"):
            CommandDoor(path, None)
        assert Caller(str(path))("table_num_entries exact_t") == ["0"]
    with door_of(switch, path):  # the file that the first has left
        assert Caller(str(path))("table_num_entries exact_t") == ["0"]


def test_a_file_in_the_place_of_the_socket_stays(path: Path) -> None:
    path.write_text("mine")
    with pytest.raises(BindError, match="choose another: --cli-socket PATH"):
        CommandDoor(path, None)
    assert path.read_text() == "mine"
    with pytest.raises(BindError, match="too long"):
        CommandDoor(path.with_name("n" * 120), None)


def test_a_taken_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BindError, match=f"cannot listen on 127.0.0.1:{port}: .*; choose another: --thrift-port"):
            CommandDoor(None, port)


@pytest.mark.parametrize(
    "data",
    [
        b"x" * (10 << 20) + b"\n",
        b'{"command": "' + b"x" * (2 * LINE_MOST) + b'"}\n',
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + b'{"command": "table_clear exact_t"}\n',
        b'{"command": 7}\n{"command": "table_clear exact_t"}\n',
        b'["table_clear exact_t"]\n{"command": "table_clear exact_t"}\n',
        b"[" * 1000 + b"\n",
        b"\xff\xfe\x00\n",
        b"\n",
    ],
    ids=["10 MB", "a long command", "HTTP", "a number", "a list", "deep", "no UTF-8", "nothing"],
)
def test_hostile_lines_end_their_connection_only(switch: SoftSwitch, path: Path, data: bytes) -> None:
    with door_of(switch, path, 0) as door:
        other = Caller(str(path))
        other("table_add exact_t forward 1 => 7")
        for address in (str(path), ("127.0.0.1", int(door.places[1].rpartition(":")[2]))):
            caller = Caller(address)
            try:
                caller.send(data)
                lines = list(iter(caller.line, b""))
            except (BrokenPipeError, ConnectionResetError):
                lines = []
            assert len(lines) <= 1, "nothing behind the first line was carried out"
            caller.close()
        assert other("table_num_entries exact_t") == ["1"]


def test_a_line_that_is_one_byte_too_long(switch: SoftSwitch, path: Path) -> None:
    with door_of(switch, path):
        for size, said in ((LINE_MOST, "Error: Invalid table name"), (LINE_MOST + 1, "Error: the line is longer")):
            caller = Caller(str(path))
            before, after = b'{"command": "table_dump ', b'"}\n'
            caller.send(before + b"x" * (size - len(before) - len(after)) + after)
            assert json.loads(caller.line())["out"][0].startswith(said)
            caller.close()


@pytest.mark.parametrize("command", ["table_dump \x1b[2J", "nonsense \x07", "table_dump \u202etca", "\ud800 x"])
def test_what_cannot_be_printed_comes_back_escaped(switch: SoftSwitch, path: Path, command: str) -> None:
    with door_of(switch, path):
        (line,) = Caller(str(path))(command)
        assert line.startswith("Error: the line has characters that cannot be printed: ") and line.isprintable()


def test_two_callers_at_once(switch: SoftSwitch, path: Path) -> None:
    """One has sent half a line, and does not take a long answer: the other goes on."""
    with door_of(switch, path):
        slow, other = Caller(str(path)), Caller(str(path))
        slow.send(b'{"command": "help"}\n' * 200 + b'{"command": "table_')
        for each in range(20):
            assert other(f"counter_write seen 1 {each} 0") == ["seen[1] has been updated"]
        slow.send(b'num_entries exact_t"}\n')
        answers = [json.loads(slow.line())["out"] for _ in range(201)]
        assert answers[-1] == ["0"] and all(answer == answers[0] for answer in answers[:200])


def test_silent_callers_keep_nobody_out(switch: SoftSwitch, path: Path) -> None:
    with door_of(switch, path, 0) as door:
        for address in (str(path), ("127.0.0.1", int(door.places[1].rpartition(":")[2]))):
            crowd = [Caller(address) for _ in range(2 * CLIENTS_MOST)]
            assert Caller(address)("table_num_entries exact_t") == ["0"]
            for each in crowd:
                each.close()


def test_a_caller_of_a_closed_door_is_sent_away(
    switch: SoftSwitch, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server._Handler, "timeout", None)
    with door_of(switch, path):
        caller = Caller(str(path))
        caller("show_tables")
    assert caller.line() == b""


# -- beside a controller ----------------------------------------------------


@contextmanager
def beside_a_controller(program: Program, engine: EngineChoice, path: Path) -> Iterator[tuple[Controller, Caller]]:
    switch = SoftSwitch(None, engine=engine)
    served = serve(switch, "127.0.0.1:0", DEVICE_ID)
    controller = Controller(served.port)
    try:
        controller.become(1)
        with CommandDoor(path, None) as door:
            door.open(Commander(switch, served.service, {}))
            cli = Caller(str(path))
            assert cli("show_tables") == ["Error: no program is loaded"]
            controller.set_pipeline(program.config())
            yield controller, cli
            cli.close()
    finally:
        controller.close()
        served.stop()


def test_entries_are_the_controllers_too(engine: EngineChoice, path: Path) -> None:
    program = Program("tables")
    with beside_a_controller(program, engine, path) as (controller, cli):
        assert cli("table_add exact_t forward 1 => 7")[-1] == "Entry has been added with handle 0"
        (read,) = controller.read_entries(program.entry("exact_t"))
        assert read.match[0].exact.value == b"\1" and read.action == program.action("forward", port=b"\7")
        forward = program.action("forward", port=b"\5")
        other = program.entry("exact_t", action=forward, dst=("exact", b"\2"))
        other.metadata = b"mine"
        controller.write(insert(other))
        assert cli("table_dump_entry exact_t 1")[0] == "Dumping entry 0x1"
        assert cli("table_dump_entry exact_t 2") == ["Invalid table operation (INVALID_HANDLE)"]
        assert [line for line in cli("table_dump exact_t") if "Dumping entry" in line] == [
            "Dumping entry 0x0",
            "Dumping entry 0x1",
        ]
        cli("table_modify exact_t forward 1 3")
        read = next(each for each in controller.read_entries(program.entry("exact_t")) if each.metadata)
        assert read.metadata == b"mine" and read.action == program.action("forward", port=b"\3")
        # One that the command line has deleted leaves nothing behind for the next of the same key.
        cli("table_delete exact_t 1")
        assert cli("table_add exact_t forward 2 => 5")[-1] == "Entry has been added with handle 2"
        assert [each.metadata for each in controller.read_entries(program.entry("exact_t"))] == [b"", b""]
        # One that the controller has deleted is no entry of the command line's.
        controller.write(delete(program.entry("exact_t", dst=("exact", b"\1"))))
        dumped = cli("table_dump exact_t")
        assert [line for line in dumped if "Dumping entry" in line] == ["Dumping entry 0x2"]
        assert cli("table_delete exact_t 0")[-1] == "Invalid table operation (INVALID_HANDLE)"


def test_priorities_are_bmv2s(engine: EngineChoice, path: Path) -> None:
    program = Program("tables")
    with beside_a_controller(program, engine, path) as (controller, cli):
        cli("table_add range_t drop 1->5 => 10")
        (read,) = controller.read_entries(program.entry("range_t"))
        assert read.priority == (1 << 31) - 1 - 10
        assert "Priority: 10" in cli("table_dump_entry range_t 0")


def test_groups_and_sessions_are_the_controllers_too(engine: EngineChoice, path: Path) -> None:
    program = Program("tables")
    with beside_a_controller(program, engine, path) as (controller, cli):
        entity = p4rt.Entity()
        group = entity.packet_replication_engine_entry.multicast_group_entry
        group.multicast_group_id = 4
        group.replicas.add(egress_port=1, instance=2)
        group.replicas.add(egress_port=3, instance=2)
        controller.write(p4rt.Update(type=p4rt.Update.INSERT, entity=entity))
        assert "  -> (L1h=0, rid=2) -> (ports=[1, 3], lags=[])" in cli("mc_dump")
        cli("mc_node_update 0 5")
        cli("mirroring_add 9 2")
        wanted = p4rt.Entity()
        wanted.packet_replication_engine_entry.multicast_group_entry.SetInParent()
        (read,) = controller.read(wanted)
        (replica,) = read.packet_replication_engine_entry.multicast_group_entry.replicas
        assert (replica.egress_port, replica.instance) == (5, 2)
        wanted.packet_replication_engine_entry.clone_session_entry.SetInParent()
        (read,) = controller.read(wanted)
        session = read.packet_replication_engine_entry.clone_session_entry
        assert (session.session_id, session.replicas[0].egress_port) == (9, 2)


def test_members_and_meters_are_the_controllers_too(engine: EngineChoice, path: Path) -> None:
    program = Program("selector")
    with beside_a_controller(program, engine, path) as (controller, cli):
        assert cli("act_prof_create_member chosen mark 5") == ["Member has been created with handle 0"]
        cli("act_prof_create_group chosen")
        cli("act_prof_add_member_to_group chosen 0 0")
        wanted = p4rt.Entity()
        wanted.action_profile_group.action_profile_id = program.id("action_profiles", "chosen")
        (read,) = controller.read(wanted)
        assert [member.member_id for member in read.action_profile_group.members] == [1]
        member = p4rt.Entity()
        member.action_profile_member.action_profile_id = program.id("action_profiles", "chosen")
        member.action_profile_member.member_id = 8
        member.action_profile_member.action.CopyFrom(program.action("mark", reason=b"\6").action)
        controller.write(p4rt.Update(type=p4rt.Update.INSERT, entity=member))
        assert cli("act_prof_dump_member chosen 7") == ["Dumping member 7", "Action entry: ingress.mark - 06"]
    path.unlink()
    program = Program("meter")
    with beside_a_controller(program, engine, path) as (controller, cli):
        cli("meter_set_rates rates 1 0.001:10 0.002:20")
        wanted = p4rt.Entity()
        wanted.meter_entry.meter_id = program.id("meters", "rates")
        configs = [each.meter_entry.config for each in controller.read(wanted)]
        assert configs[1] == p4rt.MeterConfig(cir=1000, cburst=10, pir=2000, pburst=20)
        assert configs[0] == p4rt.MeterConfig()
        entry = program.entry("hosts", action=program.action("measure"), src=("exact", b"\1"))
        entry.meter_config.CopyFrom(configs[1])
        controller.write(insert(entry))
        assert [line for line in cli("table_dump hosts") if "Dumping entry" in line] == ["Dumping entry 0x0"]
        assert cli("meter_get_rates host_rates 0")[0] == "0: info rate = 0.001, burst size = 10"
        entry.ClearField("meter_config")
        controller.write(modify(entry))
        assert cli("meter_get_rates host_rates 0")[0].startswith("WARNING")


def test_a_new_program_begins_anew(engine: EngineChoice, path: Path) -> None:
    program = Program("tables")
    with beside_a_controller(program, engine, path) as (controller, cli):
        cli("table_add exact_t forward 1 => 7")
        assert cli("reset_state") == []
        assert controller.read_entries(program.entry("exact_t")) == []
        assert cli("table_add exact_t forward 1 => 7")[-1] == "Entry has been added with handle 0"
        controller.set_pipeline(Program("selector").config())
        assert cli("table_num_entries exact_t") == ["Error: Invalid table name (exact_t)"]
        assert cli("table_num_entries selected") == ["0"]


# -- as programs -------------------------------------------------------------


@contextmanager
def running(tmp_path: Path, *words: str) -> Iterator[str]:
    """A softswitch of its own; gives what it said until it was ready."""
    command = [sys.executable, "-P", "-m", "softswitch", *words, "--engine", "python"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path) as process:
        try:
            assert process.stderr is not None
            said = ""
            for line in process.stderr:
                said += line
                if "ready:" in line:
                    break
            assert "ready:" in said, said
            yield said
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_SECONDS) == 0
        finally:
            process.kill()


def test_the_options_of_the_switch(tmp_path: Path) -> None:
    words = [
        "--cli-socket",
        "c.sock",
        "--thrift-port",
        "0",
        "--insecure",
        "--grpc-server-addr",
        "unix:p.sock",
        "--log-format",
        "json",
    ]
    with running(tmp_path, str(PROGRAMS / "tables.json"), *words) as said:
        told = [line for line in map(json.loads, said.splitlines()) if line["event"] == SwitchEvent.COMMANDS_TAKEN.word]
        places = [line["at"] for line in told]
        assert places[0] == "unix:c.sock" and places[1].startswith("127.0.0.1:")
        for words in (["--cli-socket", str(tmp_path / "c.sock")], ["--thrift-port", places[1].partition(":")[2]]):
            assert run_client("table_num_entries exact_t\n", *words).stdout == f"{INTRO}{PROMPT}0\n{PROMPT}\n"


def session() -> pages.Block:
    (block,) = [each for each in pages.blocks("") if each.name == "softswitch.md: Look into a running switch"]
    return block


def test_the_session_of_the_page(tmp_path: Path) -> None:
    """With the commands and the answers that the page has."""
    start, client, *lines = session().text.splitlines()
    program, words = start.removeprefix("$ softswitch ").split(maxsplit=1)
    told = "".join(f"{line}\n" for line in lines)
    commands = [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]
    wanted = re.sub(f"^{PROMPT}.*\n", PROMPT, told, flags=re.MULTILINE)
    with running(tmp_path, str(ROOT / program), *words.removesuffix(" &").split()):
        arguments = client.removeprefix("$ softswitch-cli ").split()
        arguments = [str(tmp_path / word) if word.endswith(".sock") else word for word in arguments]
        done = run_client("\n".join(commands), *arguments)
    assert len(commands) > 5
    assert done.stdout == f"{wanted}{PROMPT}\n"


def _has_bmv2_cli() -> bool:
    return (
        shutil.which("simple_switch") is not None
        and shutil.which("simple_switch_CLI") is not None
        and importlib.util.find_spec("thrift") is not None
    )


@pytest.mark.skipif(not _has_bmv2_cli(), reason="simple_switch, simple_switch_CLI or the package thrift is not there")
def test_bmv2_says_the_same(switch: SoftSwitch, path: Path) -> None:
    port = str(free_tcp_port())
    commands = COMMANDS.replace("# the commands of a lab\n", "").lstrip()
    command = ["simple_switch", "--thrift-port", port, str(PROGRAMS / "tables.json")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            bmv2_says = ""
            while "Done" not in bmv2_says:  # it listens after a while
                assert process.poll() is None
                done = subprocess.run(
                    ["simple_switch_CLI", "--thrift-port", port],
                    input=commands, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                )  # fmt: skip
                bmv2_says = done.stdout
        finally:
            process.kill()
    with door_of(switch, path):
        assert run_client(commands, "--cli-socket", str(path)).stdout == bmv2_says
