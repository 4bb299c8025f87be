# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Puts a :class:`Machine` in place of the operating system, and of gloo, within the product's modules."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import random
import secrets
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, Final
from unittest import mock

import sumwire.blind.keys
import sumwire.job.control
import sumwire.job.gloo
import sumwire.job.group_session
import sumwire.job.handshake
import sumwire.job.heartbeat
import sumwire.job.metrics
import sumwire.job.session
import sumwire.lifecycle
import sumwire.transport.exchange
import sumwire.transport.kept_results
import sumwire.transport.link
import sumwire.transport.recovery_service
import sumwire.transport.window
import sumwire.wire.batch
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from sumwire.aggregator import parent_link
from sumwire.training import comm_thread
from sumwire.transport.udp import Transport

from simulate.groups import GlooGroup, Groups
from simulate.locks import OfEachProcess
from simulate.machine import Instead, Machine, modules
from simulate.native import FastKernels, Kernels

_blind, _job, _transport = sumwire.blind, sumwire.job, sumwire.transport
# Messages of a host's system call.
_BATCH: Final = 16


class _ToldTransport(Transport):
    """Its process knows the run that it is in."""

    def __init__(self, machine: Machine, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, clock=machine.clock, **options)
        self._machine = machine

    def enter_run(self, token: int) -> None:
        super().enter_run(token)
        self._machine.world.process.token = token


@contextlib.contextmanager
def instead_of_the_system(machine: Machine, groups: Groups | None) -> Iterator[None]:
    """Within it the product's code runs on this machine. ``groups``: None where ranks have no process group."""
    given, draws = modules(machine), random.Random(machine.world.rng.random())
    chance = Instead(secrets, randbelow=draws.randrange, token_bytes=draws.randbytes)
    kernels = Kernels(machine) if machine.wire.native else None

    def private_key() -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(draws.randbytes(32))

    # gloo's group, as the job sees the default one.
    ranks = Instead(None, get_world_size=lambda: groups.ranks if groups else 0)
    others: list[tuple[object, dict[str, Any]]] = [
        (_transport.link, {"socket": given["socket"], "select": given["select"]}),
        (
            _transport.recovery_service,
            {name: given[name] for name in ("socket", "select", "os")}
            | {"time": Instead(time, monotonic=machine.world.clock)},
        ),
        (_transport.recovery_service, {"secrets": chance}),
        (_job.handshake, {"secrets": chance}),
        (parent_link, {"secrets": chance}),
        (_blind.keys, {"secrets": chance, "X25519PrivateKey": Instead(X25519PrivateKey, generate=private_key)}),
        (sumwire.wire.batch, {"calls": lambda: (machine.sendmmsg, machine.recvmmsg), "kernels": lambda: kernels}),
        # So that a batch is full now and then, and a socket's memory small.
        (_transport.link, {"_BATCH": _BATCH}),
        (_job.control, {"threading": given["threading"]}),
        (sumwire.lifecycle, {"threading": given["threading"], "atexit": Instead(atexit, register=_no, unregister=_no)}),
        (_transport.kept_results, {"threading": given["threading"]}),
        # Nobody may sleep who has a lock of Python's own.
        (_job.metrics, {"_servers_lock": OfEachProcess(machine.world)}),
        (
            comm_thread,
            {name: given[name] for name in ("threading", "queue")} | {"_lock_of_queues": OfEachProcess(machine.world)},
        ),
        (_job.gloo, {"available": lambda: False}),
        (_job.session, {"available": lambda: groups is not None, "dist": ranks}),
        (_job.group_session, {"load_table": lambda _: None}),
        (_job.session, {"Transport": partial(_ToldTransport, machine)}),
        (_job.heartbeat, {"GlooGroup": partial(GlooGroup, groups)}),
        (_job.gloo, {"GlooGroup": partial(GlooGroup, groups)}),
    ]
    if kernels is not None and machine.wire.fast:
        fast = machine.fast_kernels = FastKernels(machine, kernels)
        others += [
            (_transport.exchange, {"time": Instead(time, monotonic=machine.clock)}),
            (_transport.window, {"kernels": lambda: fast}),
            (sumwire.wire.batch, {"ctypes": Instead(ctypes, cast=kernels.cast)}),
        ]
    with contextlib.ExitStack() as stack:
        for module, names in others:
            stack.enter_context(mock.patch.multiple(module, **names))
        yield


def _no(*_: Any) -> None:
    """Nothing is to be done at the end of this process."""
