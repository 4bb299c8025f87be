# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``softswitch``. Its command line has the shape of bmv2's ``simple_switch_grpc``."""

from __future__ import annotations

import argparse
import gc
import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path

from commonlib import log_context, logs, privileges
from commonlib.events import ProgramEvent
from commonlib.metrics import MetricsEndpoint, MetricsEndpointError, MetricsError, parse_endpoint
from commonlib.privileges import PrivilegeError
from commonlib.shutdown import ShutdownSignal
from commonlib.version import __version__
from nativelib import NativeError, programs

from softswitch.errors import DeviceError
from softswitch.events import SwitchEvent
from softswitch.metrics import SwitchMetrics, installed
from softswitch.native.emit import emit_c
from softswitch.program.load.node import read_program
from softswitch.program.load.program import load_program
from softswitch.program.standard import DROP_PORT
from softswitch.python.emit import emit_program
from softswitch.runtime.engine import PortRunner
from softswitch.runtime.impair import ImpairmentError, ImpairmentSpec, parse_impairment
from softswitch.runtime.interface import PortCounters, PortError, TrainSpec
from softswitch.switch import ENGINES, SoftSwitch

_GC_THRESHOLDS = (50_000, 20, 20)
_log = logging.getLogger("softswitch")

PATTERN = "%(asctime)s %(levelname)s %(name)s: %(message)s"
DEFAULT_ADDRESS = "127.0.0.1:9559"
LOG_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL,
}


def _interface(text: str) -> tuple[int, str]:
    number, separator, name = text.partition("@")
    if not separator or not name or not number.isdigit() or int(number) >= DROP_PORT:
        raise argparse.ArgumentTypeError(f"{text!r}: write PORT@INTERFACE with a port in 0..{DROP_PORT - 1}")
    return int(number), name


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="softswitch",
        description="Runs a P4 program that p4c compiled for bmv2 (v1model).",
        epilog="Options may stand before or after '--', as with simple_switch_grpc.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("program", nargs="?", type=Path, help="the JSON that p4c emits for bmv2")
    parser.add_argument("--no-p4", action="store_true", help="start without a program, P4Runtime will bring it")
    parser.add_argument(
        "-i", "--interface", action="append", default=[], type=_interface, metavar="PORT@INTERFACE", dest="interfaces"
    )
    parser.add_argument("--device-id", type=int, default=0, help="P4Runtime device id (0)")
    parser.add_argument("--cpu-port", type=int, default=None, help="port of packet-in and packet-out")
    _add_doors(parser)
    parser.add_argument("--seed", type=int, default=None, help="fixes what P4's random() draws")
    parser.add_argument(
        "--impair",
        type=_impairment,
        default=None,
        metavar="SPEC",
        help="for tests: drop=0.01,dup=0.01,reorder=0.02,seed=7[,ports=1+2][,direction=rx|tx|both]",
    )
    parser.add_argument(
        "--link-mbit",
        type=_rate,
        default=None,
        metavar="MBIT",
        help="rate of the links, where it is lower than that of the interfaces: a train takes half a millisecond of it",
    )
    parser.add_argument("--no-trains", action="store_true", help="packets come and go one by one, and finished")
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="native compiles the program to machine code, python to Python; auto is native where there is a compiler",
    )
    parser.add_argument("-L", "--log-level", choices=sorted(LOG_LEVELS), default="info")
    logs.add_option(parser)
    parser.add_argument("--log-console", action="store_true", help="accepted for bmv2's sake: logs always go to stderr")
    parser.add_argument("--metrics", type=_place, metavar="[ADDRESS:]PORT", help="serve metrics there")
    dumps = parser.add_mutually_exclusive_group()
    dumps.add_argument("--dump-python", action="store_true", help="print the Python generated for the program, and end")
    dumps.add_argument("--dump-c", action="store_true", help="print the C generated for the program, and end")
    return parser


def _add_doors(parser: argparse.ArgumentParser) -> None:
    """Where P4Runtime listens, whom it lets in, and what whoever gets in may do. All but --insecure and --user are
    options of simple_switch_grpc."""
    address_help = f"P4Runtime address: HOST:PORT, or unix:PATH for a socket of mode 0600 ({DEFAULT_ADDRESS})"
    parser.add_argument("--grpc-server-addr", default=DEFAULT_ADDRESS, metavar="ADDRESS", help=address_help)
    parser.add_argument("--grpc-server-ssl", action="store_true", help="P4Runtime over TLS")
    parser.add_argument("--grpc-server-cacert", type=Path, metavar="FILE", help="PEM: who signs clients' certificates")
    parser.add_argument("--grpc-server-cert", type=Path, metavar="FILE", help="PEM: the switch's certificate")
    parser.add_argument("--grpc-server-key", type=Path, metavar="FILE", help="PEM: the key of that certificate")
    parser.add_argument(
        "--grpc-server-with-client-auth", action="store_true", help="every client needs a certificate (mutual TLS)"
    )
    insecure_help = "let in whoever reaches the address: he may replace the program"
    parser.add_argument("--insecure", action="store_true", help=insecure_help)
    parser.add_argument("--user", metavar="NAME", help="become this user once ports and P4Runtime are open; needs root")


def _check_doors(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Refuse TLS without its files, and an address that lets anybody in who was not asked to."""
    files = (arguments.grpc_server_cert, arguments.grpc_server_key)
    if arguments.grpc_server_ssl:
        if None in files:
            parser.error("--grpc-server-ssl needs --grpc-server-cert FILE and --grpc-server-key FILE")
        if arguments.grpc_server_with_client_auth and arguments.grpc_server_cacert is None:
            parser.error("--grpc-server-with-client-auth needs --grpc-server-cacert FILE")
    elif arguments.grpc_server_with_client_auth or any((*files, arguments.grpc_server_cacert)):
        parser.error("certificates are used only with --grpc-server-ssl: give it too")
    secured = arguments.grpc_server_with_client_auth or arguments.grpc_server_addr.startswith("unix:")
    if not secured and not arguments.insecure and not (arguments.dump_python or arguments.dump_c):
        parser.error(
            f"whoever reaches {arguments.grpc_server_addr} could replace the program: give a Unix socket "
            "(--grpc-server-addr unix:PATH), mutual TLS (--grpc-server-ssl, --grpc-server-with-client-auth and their "
            "files), or --insecure"
        )


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    words = [word for word in (sys.argv[1:] if argv is None else argv) if word != "--"]
    parser = _parser()
    arguments = parser.parse_args(words)
    if (arguments.program is None) != arguments.no_p4:
        parser.error("give either a program or --no-p4")
    numbers = [number for number, _ in arguments.interfaces]
    if len(set(numbers)) != len(numbers):
        parser.error(f"-i: port {next(n for n in numbers if numbers.count(n) > 1)} is given twice")
    if (arguments.dump_python or arguments.dump_c) and arguments.program is None:
        parser.error("--dump-python and --dump-c need a program")
    _check_doors(parser, arguments)
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM. Return 0, or 1 if the program, a port or the server cannot be used."""
    if argv is None:
        programs.close_environment()
    arguments = _arguments(argv)
    logs.to_stderr(arguments.log_format, LOG_LEVELS[arguments.log_level], PATTERN)
    log_context.is_switch(str(arguments.device_id))
    try:
        text = read_program(arguments.program) if arguments.program is not None else None
        if text is not None and (arguments.dump_python or arguments.dump_c):
            emit = emit_c if arguments.dump_c else emit_program
            print(emit(load_program(text)).source, end="")
            return 0
        become = _becoming(arguments.user)
        switch = SoftSwitch(text, seed=arguments.seed, cpu_port=arguments.cpu_port, engine=arguments.engine)
        return _run(switch, arguments, become)
    except (DeviceError, NativeError, PortError, PrivilegeError, MetricsError, OSError) as error:
        _log.error("%s", error, extra=ProgramEvent.FAILED(reason=str(error)))
        return 1


def _becoming(user: str | None) -> Callable[[], object]:
    """What leaves root's rights behind, to be called once all is open. Raises PrivilegeError."""
    if user is None:
        return lambda: None
    account = privileges.account_of(user)
    privileges.prepare()
    return partial(privileges.become, account)


def _run(switch: SoftSwitch, arguments: argparse.Namespace, become: Callable[[], object]) -> int:
    try:
        from softswitch.p4runtime.server import ServerTls, allow_connections, serve
    except ImportError as error:
        told = ProgramEvent.FAILED(reason=str(error))
        _log.error("P4Runtime needs the packages p4runtime and grpcio: %s", error, extra=told)
        return 1
    # Rows and requests are many small objects without cycles. At the usual thresholds looking for cycles among them
    # took half of the time of long writes.
    gc.set_threshold(*_GC_THRESHOLDS)
    failures: list[BaseException] = []
    with ExitStack() as stack:
        ending = stack.enter_context(ShutdownSignal())

        def failed(error: BaseException) -> None:
            failures.append(error)
            ending.set()

        trains = TrainSpec(arguments.link_mbit, not arguments.no_trains)
        runner = switch.port_runner(dict(arguments.interfaces), arguments.impair, failed, trains=trains)
        stack.enter_context(runner)
        address, tls = arguments.grpc_server_addr, None
        if arguments.grpc_server_ssl:
            tls = ServerTls(
                arguments.grpc_server_cert,
                arguments.grpc_server_key,
                arguments.grpc_server_cacert,
                arguments.grpc_server_with_client_auth,
            )
        device_id, cpu_port = arguments.device_id, arguments.cpu_port
        _serve_metrics(stack, switch, runner, arguments)
        allow_connections()
        server = serve(switch, address, device_id, cpu_port, verify=switch.verify, tls=tls, on_bound=become)
        stack.callback(server.stop)
        ports = " ".join(f"{number}@{name}" for number, name in arguments.interfaces) or "none"
        _log.info("%s engine", switch.engine, extra=SwitchEvent.ENGINE_CHOSEN(engine=switch.engine))
        if arguments.impair is not None:
            impaired = arguments.impair.ports
            conditions = asdict(arguments.impair) | {"ports": None if impaired is None else sorted(impaired)}
            _log.info("impaired: %s", arguments.impair, extra=ProgramEvent.IMPAIRED(conditions=conditions))
        at = address if address.startswith("unix:") else f"port {server.port}"
        _log.info(
            "ready: device %d, P4Runtime %s, ports %s", arguments.device_id, at, ports, extra=ProgramEvent.READY(at=at)
        )
        ending.wait()
        _report(runner.counters, dict(arguments.interfaces))
    return 1 if failures else 0


def _serve_metrics(stack: ExitStack, switch: SoftSwitch, runner: PortRunner, arguments: argparse.Namespace) -> None:
    """Serve metrics until the stack closes, if that is asked for. Raises MetricsError."""
    if arguments.metrics is None:
        return
    from commonlib.metrics_server import Exposition

    exposition = stack.enter_context(Exposition(arguments.metrics))
    source = SwitchMetrics(
        str(arguments.device_id), switch, runner, dict(arguments.interfaces), arguments.link_mbit, programs=installed()
    )
    exposition.add(source)
    stack.callback(exposition.remove, source)
    place = str(exposition.endpoint)
    _log.info("metrics: http://%s/metrics", place, extra=ProgramEvent.METRICS_SERVED(at=place))


def _report(counters: Mapping[int, PortCounters], interfaces: Mapping[int, str]) -> None:
    """Log the counters of every port."""
    for number, values in counters.items():
        found = asdict(values)
        counted = " ".join(f"{name}={value}" for name, value in found.items())
        _log.info(
            "port %d on %s: %s", number, interfaces[number], counted,
            extra=ProgramEvent.COUNTED(counters={"port": number, **found}),
        )  # fmt: skip
    _log.info("stopped", extra=ProgramEvent.STOPPED())


if __name__ == "__main__":
    sys.exit(main())
