# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""``softswitch-cli``, which is ``simple_switch_CLI`` too: sends the lines of its input to a running soft switch."""

from __future__ import annotations

import argparse
import json
import os
import select
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from softswitch.cli_door.values import ANSWER_MOST, LINE_MOST

_PROMPT: Final = "RuntimeCmd: "
#: bmv2 says this, and then what to look at.
_UNREACHABLE: Final = (
    "Could not connect to thrift client on {place}\nMake sure the switch is running and that you have "
)
_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 120.0


class _Switch:
    """A connection to the switch, made anew where the switch has ended it because nothing was said."""

    def __init__(self, address: Any) -> None:
        self._address = address
        self._connect()

    def _connect(self) -> None:
        family = socket.AF_UNIX if isinstance(self._address, str) else socket.AF_INET
        self._socket = socket.socket(family)
        self._socket.settimeout(_CONNECT_S)
        self._socket.connect(self._address)
        self._socket.settimeout(_ANSWER_S)
        self._answers = self._socket.makefile("rb")

    def ask(self, command: str) -> dict[str, list[str]]:
        """Return the answer to a command. Raises OSError."""
        if select.select([self._socket], [], [], 0)[0]:  # its end: nothing else comes without a request
            self._socket.close()
            self._connect()
        self._socket.sendall(json.dumps({"command": command}).encode() + b"\n")
        line = self._answers.readline(4 * ANSWER_MOST)
        if not line.endswith(b"\n"):
            raise ConnectionResetError("the switch has ended the connection")
        answer: dict[str, list[str]] = json.loads(line)
        return answer


def _shown(line: str) -> str:
    return "".join(one if one.isprintable() or one == "\t" else one.encode("unicode_escape").decode() for one in line)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="softswitch-cli",
        description="Reads and changes tables, registers and other state of a running softswitch.",
    )
    parser.add_argument("--cli-socket", metavar="PATH", help="the switch's socket: what its --cli-socket says")
    parser.add_argument("--thrift-port", type=int, default=9090, help="the switch's port: what its --thrift-port says")
    parser.add_argument("--thrift-ip", default="127.0.0.1", help="the address of that port")
    for ignored, text in (
        ("--json", "taken and ignored: the switch knows its program"),
        ("--pre", "taken and ignored"),
    ):
        parser.add_argument(ignored, help=text)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out the lines of the input. Returns 0 at its end, whatever the answers say, and 1 without the switch."""
    arguments = _options(argv)
    address = arguments.cli_socket or (arguments.thrift_ip, arguments.thrift_port)
    try:
        try:
            switch = _Switch(address)
        except (OSError, OverflowError) as error:
            place = arguments.cli_socket or f"port {arguments.thrift_port}"
            print(_UNREACHABLE.format(place=place) + f"the right port: {error}")
            return 1
        print("Obtaining JSON from switch...\nDone\nControl utility for runtime P4 table manipulation")
        return _session(switch)
    except BrokenPipeError:
        # Who read the output has ended, and Python would complain when it flushes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _session(switch: _Switch) -> int:
    if sys.stdin.isatty():
        with suppress(ImportError):
            import readline  # noqa: F401 - gives input() a history
    while True:
        try:
            line = input(_PROMPT)
        except EOFError:
            line = "EOF"
        if line.strip() == "EOF":
            print()
            return 0
        if len(json.dumps(line)) > LINE_MOST - 64:
            print(f"Error: the line is longer than {LINE_MOST >> 10} KiB")
            continue
        try:
            answer = switch.ask(line)
        except BrokenPipeError as error:
            print(f"Error: the switch has gone: {error}")
            return 1
        except OSError as error:
            print(f"Error: the switch does not answer: {error}")
            return 1
        for said in answer["out"]:
            print(_shown(said))
        sys.stdout.flush()
        for noted in answer["err"]:
            print(_shown(noted), file=sys.stderr)
