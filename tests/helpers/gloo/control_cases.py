# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the ranks of the control thread's tests do. Each function runs on every rank and returns plain data."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import sumwire
import torch
import torch.distributed as dist
from helpers.gloo.ddp_cases import inputs, open_job
from helpers.logs import Line, logged
from sumwire.job import gloo
from sumwire.job.control import Change
from sumwire.training.comm_thread import CommThread
from sumwire.transport.recovery_service import recovery_port

LENGTH = 3000


@contextlib.contextmanager
def log_lines(tell: Callable[[str], None] = lambda _: None) -> Iterator[list[str]]:
    """The log's lines, each of which ``tell`` gets too."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())
            tell(lines[-1])

    handler = Lines()
    logging.getLogger("sumwire").addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger("sumwire").removeHandler(handler)


def text_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def until_returned(rank: int, mapping: dict[str, Any], after: int, options: dict[str, Any]) -> dict[str, Any]:
    """Operations until ``after`` have been made since the return to the switch. Digests of their results."""
    results: list[float] = []
    changes: list[Change] = []
    error = ""

    def fails(change: Change) -> None:
        raise RuntimeError("a callback's own error, which ends nothing")

    with logged() as lines, open_job(rank, mapping, **options) as job:
        job.on_change(fails)
        job.on_change(changes.append)
        try:
            while not (changes and changes[-1].kind == "return" and len(results) >= changes[-1].operation + after):
                mean, _ = job.reduce(inputs(rank, len(results), LENGTH), len(results))
                results.append(float(mean.double().square().sum()))
        except sumwire.SumwireError as raised:
            error = text_of(raised)
    return {"results": results, "changes": changes, "error": error, "stats": job.stats.as_dict(), "lines": lines}


def fixed_operations(rank: int, mapping: dict[str, Any], count: int, options: dict[str, Any]) -> dict[str, Any]:
    """``count`` operations, or as many as there are before an error."""
    results: list[float] = []
    error = again = ""
    with logged() as lines:
        job: sumwire.Job | None = None
        try:
            job = open_job(rank, mapping, **options)
            for number in range(count):
                mean, _ = job.reduce(inputs(rank, number, LENGTH), number)
                results.append(float(mean.double().square().sum()))
        except (sumwire.SumwireError, KeyboardInterrupt) as raised:
            error = text_of(raised)
            try:
                if job is not None:
                    job.reduce(inputs(rank, 0, LENGTH))
            except sumwire.SumwireError as later:
                again = text_of(later)
        if job is not None:
            job.close(agree=not error)
    stats = {} if job is None else job.stats.as_dict()
    return {"results": results, "error": error, "again": again, "stats": stats, "lines": lines}


def lengths(rank: int, mapping: dict[str, Any], by_rank: list[int], options: dict[str, Any]) -> str:
    """One operation of a common length, then one whose length is the rank's own: its error."""
    with open_job(rank, mapping, **options) as job:
        job.reduce(torch.ones(100))
        try:
            job.reduce(torch.ones(by_rank[rank]), bucket=3)
        except sumwire.SumwireError as error:
            return text_of(error)
    return ""


def without_a_job(rank: int, mapping: dict[str, Any], how: str) -> str:
    """Rank 0 has no job: it ``raises``, ``ends``, or "raises and ends". The errors of all."""
    if rank == 0 and how == "ends":
        os._exit(1)
    if rank == 1 and how == "ends":
        # The others notice the end before this rank comes.
        dist.distributed_c10d._get_default_store().wait([f"sumwire/{next(copy.copy(gloo._NUMBERS))}/2"])
        time.sleep(0.2)
    try:
        open_job(rank, mapping, deadline_s=0 if rank == 0 else 10.0).close()
    except sumwire.SumwireError as error:
        if rank == 0 and how == "raises and ends":
            # The others are not yet there.
            os._exit(1)
        return text_of(error)
    return ""


def late_job(rank: int, mapping: dict[str, Any]) -> list[Line]:
    """Rank 2 makes its job once rank 0 has warned, by a clock that goes ahead when rank 1 has come. The warnings."""
    store = dist.distributed_c10d._get_default_store()
    warned = threading.Event()

    def tell(line: str) -> None:
        warned.set()
        store.set("warned", line)

    first, second = (f"sumwire/{next(copy.copy(gloo._NUMBERS))}/{each}" for each in (0, 1))
    began = time.monotonic()
    with log_lines(tell), logged(level=logging.WARNING) as lines:
        if rank == 2:
            store.wait(["warned"])
        elif rank == 1:
            # By then rank 0 has looked at its clock.
            store.wait([first])
        else:
            ahead = SimpleNamespace(monotonic=lambda: began + 10.1 * store.check([second]), sleep=time.sleep)
            gloo.time = ahead  # type: ignore[assignment]
        open_job(rank, mapping).close()
    gloo.time = time
    return lines


def close_in_the_middle(rank: int, mapping: dict[str, Any]) -> list[str]:
    """Rank 0 waits in a thread for an operation that no other rank makes, and closes the job because of an error."""
    errors: list[str] = []
    job = open_job(rank, mapping)
    job.reduce(torch.ones(100))
    thread = CommThread("test")
    job.on_close(thread.close)
    if rank == 0:
        future = thread.submit(lambda: job.reduce(torch.ones(100)))
        job.close(agree=False)
        try:
            future.wait()
        except sumwire.SumwireError as error:
            errors.append(type(error).__name__)
    else:
        try:
            while True:
                job.results_ahead()
                threading.Event().wait(0.01)
        except sumwire.SumwireError as error:
            errors.append(text_of(error))
        job.close()
    return errors


def ports_beside_a_child(rank: int, mapping: dict[str, Any]) -> list[str]:
    """Which ports of a closed job cannot be had while a child lives that was forked before."""
    with open_job(rank, mapping, metrics="127.0.0.1:0") as job:
        job.reduce(torch.ones(100))
        reader, writer = os.pipe()
        if not (child := os.fork()):
            os.close(writer)
            # Until the parent closes its end, or has ended.
            os.read(reader, 1)
            os._exit(0)
        own = job.config.own_address
        assert job.metrics is not None
        ports = {
            "switch": (socket.SOCK_DGRAM, own.ip, own.udp_port),
            "workers": (socket.SOCK_DGRAM, own.ip, recovery_port(own)),
            "metrics": (socket.SOCK_STREAM, "127.0.0.1", int(job.metrics.rpartition(":")[2])),
        }
    taken = [name for name, place in ports.items() if _is_taken(*place)]
    os.close(writer)
    os.waitpid(child, 0)
    os.close(reader)
    return taken


def _is_taken(kind: int, ip: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, kind == socket.SOCK_STREAM)
        try:
            probe.bind((ip, port))
        except OSError:
            return True
    return False
