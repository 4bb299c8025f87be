# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The command line of ``softswitch``: one table of options, and the rules between them.

Every option of bmv2's ``simple_switch`` and ``simple_switch_grpc`` 1.15 is in the table. Options without effect in the
soft switch are in ``IGNORED``. ``python -m softswitch.options`` prints the tables of docs/softswitch.md.
"""

from __future__ import annotations

import argparse
import logging
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from commonlib import logs
from commonlib.metrics import MetricsEndpoint, MetricsEndpointError, parse_endpoint
from commonlib.version import __version__

from softswitch.program.standard import DROP_PORT
from softswitch.python.unix_port import UNIX
from softswitch.runtime.impair import ImpairmentError, ImpairmentSpec, parse_impairment
from softswitch.switch import ENGINES, MAX_PORT, NOT_NATIVE
from softswitch.trace import TraceFile

DEFAULT_ADDRESS: Final = "127.0.0.1:9559"
LOG_LEVELS: Final = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL,
}
#: That of the JSON that p4c writes. Each construct is checked for itself, whatever version the program names.
_JSON_VERSION: Final = "2.23"
_TCP_PORT_MAX: Final = 65535
_U64_MAX: Final = (1 << 64) - 1  # P4Runtime's device_id is a uint64


@dataclass(frozen=True, slots=True)
class Option:
    """An option. ``value``: the name of its value, "" for a flag. ``settings``: argparse's, beside those of every
    option.

    ``text``: what it does; for an ignored option, what is not done.
    """

    names: tuple[str, ...]
    value: str
    text: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The option as the first column in docs/softswitch.md has it."""
        last = f"{self.names[-1]} {self.value}".rstrip()
        return ", ".join(f"`{each}`" for each in (*self.names[:-1], last))


def _interface(text: str) -> tuple[int, str]:
    word, separator, name = text.partition("@")
    number = _number(word, MAX_PORT)
    if not separator or not name or number is None:
        raise argparse.ArgumentTypeError(f"{text!r}: write PORT@INTERFACE with a port in 0..{MAX_PORT}")
    return number, name


def _port(text: str) -> int:
    number = _number(text, MAX_PORT)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a port in 0..{MAX_PORT}")
    return number


def _tcp_port(text: str) -> int:
    number = _number(text, _TCP_PORT_MAX)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a port in 0..{_TCP_PORT_MAX}")
    return number


def _u64(text: str) -> int:
    number = _number(text, _U64_MAX)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number in 0..{_U64_MAX}")
    return number


def _number(text: str, most: int) -> int | None:
    """None for what is no decimal number in 0..most."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    return int(text) if is_number and int(text) <= most else None


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0.0 < rate < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}: write the rate in Mbit/s, a number above 0")
    return rate


def _place(text: str) -> MetricsEndpoint:
    try:
        return parse_endpoint(text)
    except MetricsEndpointError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _impairment(text: str) -> ImpairmentSpec:
    try:
        return parse_impairment(text)
    except ImpairmentError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


class _LogFile(logging.FileHandler):
    """Where a disk is full, that is said once: a traceback for each line would fill the other log."""

    _failed = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Called for a line that could not be written."""
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._failed:
            self._failed = True
            sys.stderr.write(f"--log-file {logs.printable(self.baseFilename)}: {error.strerror}: lines are missing\n")


def _log_file(text: str) -> logging.Handler:
    """Opened here: before root's rights are given up, and so that a wrong name is an error of the command line."""
    try:
        return _LogFile(text, encoding="utf-8")
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error.strerror}; name a file that can be written") from error


def _folder(text: str) -> Path:
    try:
        Path(text).mkdir(exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error.strerror}; name a folder that can be written") from error
    return Path(text)


def _trace(text: str) -> TraceFile:
    """Opened here, as a log file is."""
    try:
        return TraceFile(text)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error.strerror}; name a file that can be written") from error


_FLAG: Final = {"action": "store_true"}
_FILE: Final = {"type": Path}
# fmt: off
OPTIONS: Final = (
    Option(("--no-p4",), "", "start without a program: every frame is dropped until P4Runtime brings one", _FLAG),
    Option(("-i", "--interface"), "PORT@INTERFACE", "a port on a Linux interface, which needs root, or at a Unix "
           "socket, unix:PATH, which does not",
           {"action": "append", "default": [], "type": _interface, "dest": "interfaces"}),
    Option(("--device-id",), "N", "P4Runtime device id, 0 if not given", {"type": _u64, "default": 0}),
    Option(("--grpc-server-addr",), "ADDRESS", "P4Runtime: unix:PATH for a socket of mode 0600, or HOST:PORT, where "
           f"port 0 takes a free one; {DEFAULT_ADDRESS} if not given (bmv2: 0.0.0.0:9559)",
           {"default": DEFAULT_ADDRESS}),
    Option(("--grpc-server-ssl",), "", "P4Runtime over TLS", _FLAG),
    Option(("--grpc-server-cert",), "FILE", "the switch's certificate (PEM)", _FILE),
    Option(("--grpc-server-key",), "FILE", "the key of that certificate (PEM)", _FILE),
    Option(("--grpc-server-with-client-auth",), "", "every client needs a certificate (mutual TLS)", _FLAG),
    Option(("--grpc-server-cacert",), "FILE", "the authority that signs clients' certificates (PEM)", _FILE),
    Option(("--insecure",), "", "let in whoever reaches the address, who may replace the program; bmv2 has no such "
           "option and always does", _FLAG),
    Option(("--cli-socket",), "PATH", "take the commands of softswitch-cli at a socket of mode 0600", {"type": Path}),
    Option(("--thrift-port",), "PORT", "take them at a port of 127.0.0.1, where 0 takes a free one; it is not Thrift, "
           "so bmv2's own simple_switch_CLI cannot connect", {"type": _tcp_port}),
    Option(("--user",), "NAME", "become this user once ports and P4Runtime are open; needs root"),
    Option(("--cpu-port",), "N", "the port of packet-in and packet-out", {"type": _port}),
    Option(("--drop-port",), "N", f"the port at which packets end, {DROP_PORT} if not given; mark_to_drop assigns it",
           {"type": _port, "default": DROP_PORT}),
    Option(("--enable-swap",), "", "nothing more: P4Runtime may replace the program in any case", _FLAG),
    Option(("--seed",), "N", "fixes what P4's random() draws", {"type": _u64}),
    Option(("--impair",), "SPEC", "loss, duplication, reordering, delay for tests: drop=0.01,dup=0.01,seed=7",
           {"type": _impairment}),
    Option(("--link-mbit",), "MBIT", "rate of the links, where it is lower than that of the interfaces: bounds trains",
           {"type": _rate}),
    Option(("--no-trains",), "", "packets come and go one by one, and finished", _FLAG),
    Option(("-L", "--log-level"), "LEVEL", "debug, info, warn, error or off, info if not given; trace is "
           "debug, and the text of --trace",
           {"choices": sorted(LOG_LEVELS), "default": "info"}),
    Option(("--log-console",), "", "nothing more: logs go to stderr in any case (bmv2: stdout)", _FLAG),
    Option(("--log-file",), "FILE", "logs go to the end of this file, too", {"type": _log_file}),
    Option(("--log-flush",), "", "nothing more: each line goes to the file at once", _FLAG),
    Option(("--pcap",), "[FOLDER]", "capture each interface in INTERFACE_in.pcap and INTERFACE_out.pcap there, in the "
           "current folder if none is given", {"nargs": "?", "const": Path(), "type": _folder, "metavar": "FOLDER"}),
    Option(("--pcapng",), "[FOLDER]", "the same in one file a port, INTERFACE.pcapng, with nanoseconds and directions",
           {"nargs": "?", "const": Path(), "type": _folder, "metavar": "FOLDER"}),
    Option(("--trace",), "FILE", "tell what happens to each packet: as text, as JSON lines in FILE.jsonl, or on stderr "
           "for -; with the Python engine", {"type": _trace}),
    Option(("--metrics",), "[ADDRESS:]PORT", "serve metrics there", {"type": _place}),
    Option(("--engine",), "ENGINE", "native compiles the program to machine code, python to Python; auto (if not given)"
           " is native where there is a compiler", {"choices": ENGINES, "default": "auto"}),
    Option(("--coverage",), "FILE.jsonl", "print what of the program the packets of this trace did not reach, and end",
           {"type": Path, "metavar": "FILE.jsonl"}),
    Option(("--dump-python",), "", "print the Python generated for the program, and end", _FLAG),
    Option(("--dump-c",), "", "print the C generated for the program, and end; needs no compiler", _FLAG),
    Option(("-v", "--version"), "", "print the version, and end",
           {"action": "version", "version": f"%(prog)s {__version__}"}),
    Option(("--json-version",), "", f"print the version of bmv2's JSON that p4c writes ({_JSON_VERSION}), and end",
           {"action": "version", "version": _JSON_VERSION}),
)
_NO_PACKETS: Final = "packets come and go by interfaces and Unix sockets; give -i PORT@INTERFACE or PORT@unix:PATH"
_NO_LIMIT: Final = "groups are not limited by it"
IGNORED: Final = (
    Option(("--use-files",), "SECONDS", _NO_PACKETS),
    Option(("--packet-in",), "ADDRESS", _NO_PACKETS),
    Option(("--dp-grpc-server-addr",), "ADDRESS", _NO_PACKETS),
    Option(("--nanolog",), "ADDRESS", "events of packets are not published"),
    Option(("--notifications-addr",), "ADDRESS", "nothing is published there; digests and idle timeouts come over "
           "P4Runtime"),
    Option(("--debugger",), "", "there is no debugger"),
    Option(("--debugger-addr",), "ADDRESS", "there is no debugger"),
    Option(("--restore-state",), "FILE", "tables begin empty; let the controller write them"),
    Option(("--dump-packet-data",), "BYTES", "packets are not logged"),
    Option(("--log-file-max-size",), "BYTES", "the log file grows without bound"),
    Option(("--log-file-max-files",), "N", "there is one log file"),
    Option(("--max-port-count",), "N", f"any port in 0..{MAX_PORT} but the drop port may have an interface"),
    Option(("--priority-queues",), "N", "packets wait in no queue, so their priority has no effect"),
    Option(("--max-mc-groups",), "N", _NO_LIMIT),
    Option(("--max-l1-entries",), "N", _NO_LIMIT),
    Option(("--max-l2-entries",), "N", _NO_LIMIT),
    Option(("--load-modules",), "FILES", "no libraries are loaded, and a program that needs their externs is refused"),
    Option(("--disable-swap",), "", "P4Runtime may still replace the program"),
)
# fmt: on
_ONE_OF: Final = ("--dump-python", "--dump-c", "--coverage")


class _Ignore(argparse.Action):
    """Keep that the option was given."""

    def __call__(self, parser: object, namespace: argparse.Namespace, *_: object) -> None:
        namespace.ignored = [*namespace.ignored, self.option_strings[-1]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="softswitch",
        usage="%(prog)s [options] PROGRAM.json|--no-p4 [-- options]",
        description="Runs a P4 program that p4c compiled for bmv2 (v1model).",
        epilog="Options may stand before or after '--', as with simple_switch_grpc.",
    )
    parser.add_argument("program", nargs="?", type=Path, help="the JSON that p4c emits for bmv2")
    logs.add_option(parser)
    dumps = parser.add_mutually_exclusive_group()
    for option in OPTIONS:
        named: dict[str, Any] = {"metavar": option.value} if option.value else {}
        group = dumps if option.names[0] in _ONE_OF else parser
        group.add_argument(*option.names, help=option.text, **{**named, **option.settings})
    ignored = parser.add_argument_group("options of bmv2 that are taken and ignored")
    for option in IGNORED:
        nargs: str | int = 0 if not option.value else "?" if option.value.startswith("[") else 1
        shown = option.value.strip("[]") or None
        ignored.add_argument(
            *option.names, action=_Ignore, nargs=nargs, metavar=shown, dest="ignored", default=(), help=option.text
        )
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options. If they break a rule, ends the process with status 2 and a message."""
    parser = _parser()
    arguments = parser.parse_args([word for word in argv if word != "--"])
    if (arguments.program is None) != arguments.no_p4:
        parser.error("give either a program or --no-p4")
    numbers = [number for number, _ in arguments.interfaces]
    if len(set(numbers)) != len(numbers):
        parser.error(f"-i: port {next(n for n in numbers if numbers.count(n) > 1)} is given twice")
    if arguments.drop_port in (*numbers, arguments.cpu_port):
        parser.error(f"port {arguments.drop_port} is the drop port: give another to -i, --cpu-port or --drop-port")
    sockets = [name for _, name in arguments.interfaces if name.startswith(UNIX)]
    if sockets and (arguments.pcap or arguments.pcapng) is not None:
        option = "--pcap" if arguments.pcapng is None else "--pcapng"
        parser.error(f"{option} captures interfaces, and {sockets[0]} is none: capture in the program at its other end")
    dumps = arguments.dump_python or arguments.dump_c or arguments.coverage is not None
    if dumps and arguments.program is None:
        parser.error("--dump-python, --dump-c and --coverage need a program")
    if arguments.trace is not None and arguments.engine == "native":
        parser.error(f"--trace: {NOT_NATIVE}")
    _check_doors(parser, arguments, prints=dumps)
    return arguments


def _check_doors(parser: argparse.ArgumentParser, arguments: argparse.Namespace, *, prints: bool) -> None:
    """Refuse TLS without its files, and an address that lets anybody in who was not asked to."""
    files = (arguments.grpc_server_cert, arguments.grpc_server_key)
    if arguments.grpc_server_ssl:
        if None in files:
            parser.error("--grpc-server-ssl needs --grpc-server-cert FILE and --grpc-server-key FILE")
        if arguments.grpc_server_with_client_auth and arguments.grpc_server_cacert is None:
            parser.error("--grpc-server-with-client-auth needs --grpc-server-cacert FILE")
    elif arguments.grpc_server_with_client_auth or any((*files, arguments.grpc_server_cacert)):
        parser.error("certificates are used only with --grpc-server-ssl: give it too")
    if arguments.thrift_port is not None and not arguments.insecure and not prints:
        parser.error(
            f"whoever reaches port {arguments.thrift_port} could change tables: give --cli-socket PATH in the place of "
            "--thrift-port, or --insecure"
        )
    secured = arguments.grpc_server_with_client_auth or arguments.grpc_server_addr.startswith("unix:")
    if not secured and not arguments.insecure and not prints:
        parser.error(
            f"whoever reaches {arguments.grpc_server_addr} could replace the program: give a Unix socket "
            "(--grpc-server-addr unix:PATH), mutual TLS (--grpc-server-ssl, --grpc-server-with-client-auth and their "
            "files), or --insecure"
        )


def ignored(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the given options that are ignored, each once, with what is not done."""
    if arguments.log_level == "trace" and arguments.engine == "native":
        yield "--log-level trace", NOT_NATIVE
    texts = {option.names[-1]: option.text for option in IGNORED}
    yield from ((name, texts[name]) for name in dict.fromkeys(arguments.ignored))


def as_markdown(options: Iterable[Option], heading: str) -> Iterator[str]:
    """Return the lines of a table of docs/softswitch.md."""
    yield f"| option | {heading} |"
    yield "|---|---|"
    yield from (f"| {option.shown} | {option.text} |" for option in options)


HEADINGS: Final = {"meaning": OPTIONS, "what is not done": IGNORED}

if __name__ == "__main__":
    for words, rows in HEADINGS.items():
        sys.stdout.writelines(f"{line}\n" for line in (*as_markdown(rows, words), ""))
