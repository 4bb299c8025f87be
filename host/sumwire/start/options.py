# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The options of `sumwire up`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from sumwire_protocol import constants as p4
from sumwire_protocol.logs.forms import Form, add_option

from sumwire.start import child, description
from sumwire.start.errors import ServiceError
from sumwire.start.fetch import Service
from sumwire.start.programs import Up
from sumwire.start.racks import Rack, names
from sumwire.start.service import PORT

_BITS: Final = (1, 2, 3, 4)


def add_to(start: argparse.ArgumentParser) -> None:
    """Add them to a parser."""
    start.add_argument(
        "--hosts",
        type=names,
        nargs="+",
        action="extend",
        default=[],
        metavar="HOST,HOST",
        help="the workers, one a server",
    )
    start.add_argument(
        "--tree", type=int, metavar="N", help="divide the hosts among N aggregators, the leaves, below a root"
    )
    start.add_argument(
        "--rack",
        nargs="+",
        action="append",
        default=[],
        metavar="[LEAF=]HOST,HOST",
        help="the hosts of one leaf, and its server (default: one of them); once for each leaf, in place of --hosts",
    )
    start.add_argument("--bits", type=int, choices=_BITS, metavar="N", help="of THC's indices, 1 to 4 (default: 4)")
    start.add_argument("--name", default=description.DEFAULT_NAME, help="of the job (default: %(default)s)")
    start.add_argument("--number", type=int, default=description.DEFAULT_NUMBER, help="of the job (default: 1)")
    start.add_argument(
        "--gbit", type=float, default=description.DEFAULT_GBIT, help="rate of a worker's link (default: %(default)g)"
    )
    start.add_argument(
        "--rtt-ms",
        type=float,
        default=description.DEFAULT_RTT_MS,
        metavar="MS",
        help="round trip to the aggregator (default: %(default)g)",
    )
    start.add_argument(
        "--worker-port",
        type=int,
        default=p4.SUMWIRE_PORT,
        metavar="PORT",
        help="the workers' first UDP port, for a second job on the same servers (default: %(default)s)",
    )
    start.add_argument(
        "--aggregator", metavar="ADDRESS", help="the aggregator's, or the root's (default: this machine's)"
    )
    start.add_argument(
        "--ssh",
        nargs="?",
        const="",
        metavar="[USER@]HOST",
        help="start the aggregator there; in a tree also each leaf on its server, and without HOST these alone",
    )
    start.add_argument(
        "--remote-command", default=child.REMOTE_COMMAND, metavar="COMMAND", help="with --ssh (default: %(default)s)"
    )
    start.add_argument(
        "--listen",
        type=_listen,
        metavar="ADDRESS[:PORT]",
        help=f"where the job is served (default: this machine's address, {PORT})",
    )
    start.add_argument(
        "--switches",
        type=Path,
        metavar="FILE",
        help="apply the job of this name in a controller's configuration to its switches, without an aggregator",
    )
    add_option(start)


def chosen(options: argparse.Namespace) -> Up:
    """What the parsed options want."""
    wanted = description.Wanted(
        options.name, options.number, options.bits, options.gbit, options.rtt_ms, options.worker_port
    )
    # Another version, on another machine, may not know the option.
    logging = ("--log-format", "json") if options.log_format is Form.JSON else ()
    hosts = tuple(host for some in options.hosts for host in some)
    racks = tuple(Rack.parse(words) for words in options.rack)
    return Up(
        hosts, wanted, racks, options.tree, options.aggregator, options.ssh, options.remote_command, options.listen,
        options.switches, logging,
    )  # fmt: skip


def _listen(text: str) -> tuple[str, int]:
    try:
        at = Service.parse(text)
        return description.address_of(at.host), at.port
    except ServiceError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
