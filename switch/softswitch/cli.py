# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``softswitch``. Its command line follows bmv2's ``simple_switch_grpc``."""

from __future__ import annotations

import argparse
import gc
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from commonlib import log_context, logs, privileges
from commonlib.events import ProgramEvent
from commonlib.metrics import MetricsError
from commonlib.p4runtime import load_messages
from commonlib.privileges import PrivilegeError
from commonlib.shutdown import ShutdownSignal
from nativelib import NativeError, programs

from softswitch import options, trace
from softswitch.capture import Capture
from softswitch.coverage import coverage_lines
from softswitch.errors import DeviceError, MalformedProgramError, UnsupportedProgramError
from softswitch.events import SwitchEvent
from softswitch.metrics import SwitchMetrics, installed
from softswitch.native.emit import emit_c
from softswitch.program import ir
from softswitch.program.load.node import read_program
from softswitch.program.load.program import load_program
from softswitch.python.emit import emit_program
from softswitch.runtime.engine import Packet, PortRunner, Tracer
from softswitch.runtime.interface import PortCounters, PortError, TrainSpec
from softswitch.switch import SoftSwitch

_GC_THRESHOLDS = (50_000, 20, 20)
_log = logging.getLogger("softswitch")

PATTERN = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM. Returns 0; 2 if the given file is not a P4 program; 1 if the program cannot run
    here, or if a port or the server cannot be used."""
    if argv is None:
        programs.close_environment()
    arguments = options.parse(sys.argv[1:] if argv is None else argv)
    _start_logs(arguments)
    try:
        program = None if arguments.program is None else _program(arguments.program)
        if program is not None and (arguments.dump_python or arguments.dump_c):
            emit = emit_c if arguments.dump_c else emit_program
            print(emit(replace(program, drop_port=arguments.drop_port)).source, end="")
            return 0
        if program is not None and arguments.coverage is not None:
            print("\n".join(coverage_lines(program, arguments.coverage)))
            return 0
        become = _becoming(arguments.user)
        switch = SoftSwitch(
            program, seed=arguments.seed, cpu_port=arguments.cpu_port, drop_port=arguments.drop_port,
            engine=arguments.engine, trace=_tracer(arguments),
        )  # fmt: skip
        return _run(switch, arguments, become)
    except (DeviceError, NativeError, PortError, PrivilegeError, MetricsError, OSError) as error:
        _log.error("%s", error, extra=ProgramEvent.FAILED(reason=str(error)))
        return 2 if isinstance(error, MalformedProgramError) else 1


def _start_logs(arguments: argparse.Namespace) -> None:
    logs.to_stderr(arguments.log_format, options.LOG_LEVELS[arguments.log_level], PATTERN)
    if arguments.log_file is not None:
        arguments.log_file.setFormatter(logs.formatter(arguments.log_format, PATTERN))
        logging.getLogger().addHandler(arguments.log_file)
    log_context.is_switch(str(arguments.device_id))
    for name, text in options.ignored(arguments):
        _log.warning("%s is ignored: %s", name, text, extra=SwitchEvent.OPTION_IGNORED(option=name))


def _program(path: Path) -> ir.Program:
    """Raises UnsupportedProgramError with the name of the file."""
    text = read_program(path)
    try:
        return load_program(text)
    except UnsupportedProgramError as error:
        raise type(error)(str(error), str(path)) from error


def _tracer(arguments: argparse.Namespace) -> Tracer | None:
    """Where traces of packets go."""
    to: list[Tracer] = [] if arguments.trace is None else [arguments.trace]
    if arguments.log_level == "trace" and arguments.engine != "native":
        to.append(trace.to_log)

    def tell(packet: Packet) -> None:
        for each in to:
            each(packet)

    return tell if to else None


def _becoming(user: str | None) -> Callable[[], object]:
    """What leaves root's rights behind, to be called once all is open. Raises PrivilegeError."""
    if user is None:
        return lambda: None
    account = privileges.account_of(user)
    privileges.prepare()
    return partial(privileges.become, account)


def _run(switch: SoftSwitch, arguments: argparse.Namespace, become: Callable[[], object]) -> int:
    try:
        # Before the door, whose modules import the messages that this makes for protobuf 4 and later.
        load_messages()
        from softswitch.cli_door.commands import Commander
        from softswitch.cli_door.server import CommandDoor
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

        for folder, pcapng in ((arguments.pcap, False), (arguments.pcapng, True)):
            if folder is not None:
                stack.enter_context(Capture(folder, dict(arguments.interfaces), pcapng=pcapng))
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
        door = stack.enter_context(CommandDoor(arguments.cli_socket, arguments.thrift_port))
        server = serve(switch, address, device_id, cpu_port, verify=switch.verify, tls=tls, on_bound=become)
        stack.callback(server.stop)
        door.open(Commander(switch, server.service, dict(arguments.interfaces)))
        for place in door.places:
            _log.info("softswitch-cli: %s", place, extra=SwitchEvent.COMMANDS_TAKEN(at=place))
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
