# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A session: a network that is up, with its switches ready and its jobs admitted, and the programs on its hosts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from nativelib import programs

from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import Fabric, HostPlan, plan
from sumwire_lab.network.shaping import kept
from sumwire_lab.network.switches import fitted
from sumwire_lab.network.topology import MininetNetwork
from sumwire_lab.options.run_options import AGGREGATOR, RunOptions
from sumwire_lab.study.workers import AGGREGATOR_READY, Worker, WorkerCall, answer_in, call_ranks, command_of, name_of
from sumwire_lab.system import counters
from sumwire_lab.system.counters import Counted
from sumwire_lab.system.leftovers import Ledger
from sumwire_lab.system.metrics_sockets import LAST_S, MetricsSockets
from sumwire_lab.system.processes import stop_process, wait_said

# Name of the process that delays packets.
_DELAY: Final = "delay"


@dataclass
class Session:
    """A network that is up, with its switches ready and, for a system that uses them, the jobs admitted."""

    fabric: Fabric
    network: MininetNetwork
    ledger: Ledger
    folder: Path
    job_files: dict[str, Path]
    """Job files by job name; empty with kernel bridges."""
    grpc: Mapping[str, str] = field(default_factory=dict)
    """The P4Runtime address of each P4 switch."""
    aggregator: subprocess.Popen[bytes] | None = None
    """The software aggregator's process, if it takes the switch's place."""
    metrics: MetricsSockets | None = None
    link_mbit: float | None = None
    """What hosts are told of their links' rate, if metrics are on."""
    trace: Path | None = None
    """File for a worker's trace, with "{worker}" for its number; None: no traces."""

    @property
    def job_file(self) -> Path | None:
        """Job file of the training job; None with kernel bridges."""
        return self.job_files.get(control_plane.JOB)

    def start(self, name: str, host: HostPlan, command: list[str], /, **variables: str) -> subprocess.Popen[bytes]:
        """Start a program on a host; its output goes to `NAME.log`."""
        return self._start(name, host, command, variables)

    def _start(
        self, name: str, host: HostPlan, command: list[str], variables: Mapping[str, str], fds: Sequence[int] = ()
    ) -> subprocess.Popen[bytes]:
        """Start a program like :meth:`start`, with descriptors that the program inherits."""
        with self.log(name).open("wb") as log:
            return self.network.popen(host, command, stdout=log, env={**os.environ, **variables}, pass_fds=fds)

    def _start_worker(self, name: str, host: HostPlan, command: list[str]) -> subprocess.Popen[bytes]:
        """Start a worker, which serves metrics if the run has them and the system a job."""
        told = {} if self.trace is None or not self.job_files else {"SUMWIRE_TRACE": str(self.trace)}
        if self.metrics is None or not self.job_files:
            return self._start(name, host, command, told)
        with self.metrics.handed_over("host") as fd:
            told |= {"SUMWIRE_METRICS": f"fd:{fd}", "SUMWIRE_METRICS_LAST_S": f"{LAST_S:g}"}
            told |= {} if self.link_mbit is None else {"SUMWIRE_LINK_MBIT": f"{self.link_mbit:g}"}
            return self._start(name, host, command, told, [fd])

    def work(self, name: str, host: HostPlan, function: Worker, argument: Any) -> subprocess.Popen[bytes]:
        """Call a function in a process on a host, which logs to `NAME.log`. :meth:`answer` returns its return value."""
        return self.start(name, host, command_of(WorkerCall(name_of(function), argument, str(self.folder / name))))

    def answer(self, name: str) -> Any:
        """Return what a function returned whose process has ended."""
        return answer_in(self.folder / name)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def serving(self) -> dict[str, subprocess.Popen[bytes]]:
        """Return the processes that must live as long as the session."""
        processes = {
            self.fabric.label(name): getattr(node, "process", None) for name, node in self.network.switches.items()
        }
        processes[AGGREGATOR] = self.aggregator
        processes[_DELAY] = getattr(self.network.relay, "process", None)
        return {name: process for name, process in processes.items() if process is not None}

    def start_aggregator(self, name: str = AGGREGATOR) -> None:
        """Start the software aggregator on its host, and return when it is ready. Its log is `NAME.log`."""
        assert self.fabric.server is not None
        jobs = map(str, self.job_files.values())
        command = programs.module("sumwire.aggregator.cli", *switches.unprivileged(), *jobs)
        if self.metrics is None:
            self.aggregator = self.start(name, self.fabric.server, command)
        else:
            with self.metrics.handed_over("aggregator") as fd:
                self.aggregator = self._start(name, self.fabric.server, [*command, "--metrics", f"fd:{fd}"], {}, [fd])
        wait_said(self.aggregator, AGGREGATOR_READY, self.log(name))

    def stop_aggregator(self) -> None:
        """End the software aggregator, which then writes its counters to its log."""
        if self.aggregator is not None:
            stop_process(self.aggregator)

    def counted(self) -> Counted:
        """Return the loss counters, which can only be read while the network is up."""
        logs = [self.log(name) for name in self.serving() if name != _DELAY]
        sockets = None if self.aggregator is None else counters.host_sockets(self.aggregator.pid)
        return Counted(self.network.queue_drops(), logs, sockets)

    def logs(self, names: Iterable[str]) -> dict[str, Path]:
        """Return the log files of these programs and of the switches, by name."""
        return {name: self.log(name) for name in [*names, *self.serving()]}

    def call(
        self,
        function: Worker,
        argument: Any,
        deadline_s: float,
        *,
        tick: Callable[[], None] = lambda: None,
        serving: Mapping[str, subprocess.Popen[bytes]] | None = None,
        folder: Path | None = None,
    ) -> list[Any]:
        """Call a worker on every host at once, each in a separate process. Returns their return values by rank.

        ``serving``: the processes that must keep running; by default the session's. ``folder``: for the workers' input
        and output; by default the session's. Raises the errors of `wait_all`. No worker outlives the call.
        """
        hosts = self.fabric.hosts
        call = WorkerCall(
            name_of(function),
            argument,
            str(self.folder if folder is None else folder),
            tuple(host.host_interface for host in hosts),
            hosts[0].ip,
            None if self.job_file is None else str(self.job_file),
        )
        return call_ranks(
            call,
            lambda name, rank, command: self._start_worker(name, hosts[rank], command),
            deadline_s,
            serving=self.serving() if serving is None else serving,
            logs=self.logs,
            tick=tick,
        )


def _processes(
    kind: str,
    options: RunOptions,
    fabric: Fabric,
    folder: Path,
    ledger: Ledger,
    *,
    offloads: bool,
    metrics: MetricsSockets | None,
) -> dict[str, switches.P4Process]:
    """The P4 switches of a network by name, not started yet."""
    return {
        switch.name: switches.P4Process(
            kind,
            folder / f"{fabric.label(switch.name)}.log",
            ledger,
            engine=options.engine,
            impair=options.impair,
            device_id=switch.device_id,
            seed=options.train.seed,
            # Where the hosts' interfaces carry single packets, the links' queues count packets.
            trains=offloads,
            link_mbit=fabric.slowest_mbit(),
            metrics=metrics,
        )
        for switch in fabric.switches
    }


@contextmanager
def open_session(
    options: RunOptions,
    kind: str | None,
    folder: Path,
    jobs: Callable[[Fabric], list[dict[str, Any]]] = control_plane.training_job,
    queues: Callable[[Fabric], Sequence[dict[str, Any]]] = lambda _: (),
) -> Iterator[Session]:
    """Context manager: a session with network, switches and jobs.

    `kind`: `soft`, `bmv2`, `aggregator`, or None for kernel bridges. `queues`: the virtual queues of the P4 switches.
    On bmv2 the jobs have fewer slots (:mod:`sumwire_lab.network.switches`).
    """
    # The one module that needs Mininet to be imported.
    from sumwire_lab.network import mininet_nodes

    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        ledger = Ledger.create()
        stack.callback(ledger.remove)
        behind = options.server and kind not in (None, AGGREGATOR)
        fabric = plan(
            options.workers,
            options.link,
            ledger.token,
            options.topology,
            server=behind or kind == AGGREGATOR,
            server_behind=behind,
            layout=options.layout,
        )
        offloads = kept(kind, options)
        metrics = stack.enter_context(MetricsSockets(Path(options.metrics))) if options.metrics else None
        processes: dict[str, switches.P4Process] = {}
        if kind is not None and kind != AGGREGATOR:
            processes = _processes(kind, options, fabric, folder, ledger, offloads=offloads, metrics=metrics)
        factory = mininet_nodes.p4(processes) if processes else mininet_nodes.bridge()
        delay_s = options.conditions.delay_ms / 1000
        relay = mininet_nodes.delaying(delay_s, folder / f"{_DELAY}.log", ledger) if delay_s else None
        network = stack.enter_context(MininetNetwork(fabric, ledger, factory, offloads=offloads, make_relay=relay))
        session = Session(fabric, network, ledger, folder, {}, metrics=metrics, link_mbit=options.link.known_mbit)
        session.trace = folder / "trace-{worker}.json" if options.trace else None
        if processes:
            session.grpc = {name: process.grpc for name, process in processes.items()}
            # A switch before a server only forwards.
            own = [] if behind else fitted(jobs(fabric), kind)
            session.job_files = control_plane.install(fabric, session.grpc, folder, own, queues(fabric))
        if fabric.server is not None:
            session.job_files = control_plane.describe(fabric, folder, jobs(fabric))
            stack.callback(session.stop_aggregator)
            session.start_aggregator()
        yield session
