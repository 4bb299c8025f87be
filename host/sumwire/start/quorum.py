# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The ranks of an elastic training between them: this rank's worker, torchft's lighthouse, and a job for each quorum.

Used by `elastic`, and `up`, which starts the lighthouse. torchft is loaded on first use.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import torch
from commonlib.version import __version__
from sumwire_protocol import constants as p4
from sumwire_protocol.events import Event
from torch import Tensor

from sumwire.config import JobConfig, parse_job
from sumwire.errors import PeerLostError, RecreateError, SumwireError, UsageError
from sumwire.job.gloo import Ranks, first_clause
from sumwire.job.job import Job
from sumwire.start.addresses import is_local
from sumwire.start.errors import PlaceError, StartError
from sumwire.start.rendezvous import named_anew

if TYPE_CHECKING:
    from torch._C._distributed_c10d import PrefixStore, Store, TCPStore
else:
    from torch.distributed import PrefixStore, Store, TCPStore

_LOG: Final = logging.getLogger("sumwire")
LIGHTHOUSE_PORT: Final = 29510
# A rank that has sent no heartbeat for so long counts as gone. It sends ten a second.
_HEARTBEAT_MS: Final = 2000
# How long a quorum waits for ranks that live and have not asked for it yet.
_JOIN_MS: Final = 3000
# So long the members of a quorum have to meet. One of them may have been killed meanwhile.
_MEET_S: Final = 3.0
# A rank without any heartbeat in the job's group for so long counts as gone. The end of a process is noticed at once.
SILENCE: Final = timedelta(seconds=10)
_VERSION: Final = f"{__version__}, program revision {p4.PROGRAM_REVISION}"
_CURE: Final = "pip install 'sumwire[elastic]'"


@contextlib.contextmanager
def needing_torchft() -> Iterator[None]:
    """Context manager for its imports. Raises StartError where it is not installed."""
    # Its lighthouse and managers, which are programs of Rust, write a page for each step.
    os.environ.setdefault("RUST_LOG", "warn")
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torchft":
            raise
        raise StartError(f"torchft is not installed, and elastic training needs it: {_CURE}") from error


@contextlib.contextmanager
def lighthouse(address: str, ranks_min: int, port: int = LIGHTHOUSE_PORT) -> Iterator[str]:
    """Run torchft's lighthouse at an address of this machine, until the block ends. Yields its URL. ``ranks_min``: no
    quorum has fewer ranks. Raises StartError without torchft, and where the port is taken."""
    with needing_torchft():
        from torchft.coordination import LighthouseServer
    try:
        server = LighthouseServer(
            bind=f"{address}:{port}", min_replicas=ranks_min, join_timeout_ms=_JOIN_MS,
            heartbeat_timeout_ms=_HEARTBEAT_MS,
        )  # fmt: skip
    except RuntimeError as error:
        raise StartError(
            f"cannot start torchft's lighthouse at {address}:{port}: {first_clause(str(error))}: end the program that "
            f"has the port: `ss -ltnp 'sport = :{port}'`"
        ) from error
    try:
        yield f"http://{address}:{port}"
    finally:
        server.shutdown()


def claimed(description: Mapping[str, Any]) -> tuple[JobConfig, socket.socket]:
    """Return the job as a worker of this machine sees it that no other rank is, and a socket that keeps others off.

    It has the TCP port with the number of the worker's UDP port. Raises PlaceError if none is free, and for a job that
    needs all of its workers.
    """
    config = parse_job(description, 0)
    if config.workers_min == config.workers:
        raise PlaceError(
            f"job {config.name}: needs all of its {config.workers} workers: must have runs of fewer: `sumwire up "
            "--hosts A,B --elastic 1`, with all hosts that may ever take part"
        )
    for worker, address in enumerate(config.addresses):
        if is_local(address.ip):
            place = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                place.bind((address.ip, address.udp_port))
            except OSError:
                place.close()
                continue
            return parse_job(description, worker), place
    hosts = json.dumps([address.ip for address in config.addresses])
    raise PlaceError(
        f"job {config.name}: no worker of this machine is free among {hosts}: name the host once for each of its "
        "ranks: `sumwire up --hosts A,A,B,B --elastic 1`, or start no further rank here"
    )


def transport_at(address: str, timeout: timedelta) -> Any:
    """torchft's transport of states, at an address that the others know: this machine's own name may mean nothing to
    them. It takes tensors, numbers, texts and containers of them alone: torchft's own runs what a pickle says."""
    with needing_torchft():
        from torchft.checkpointing import HTTPTransport
        from torchft.checkpointing._serialization import _streaming_load

    class Transport(HTTPTransport):  # type: ignore[misc]
        def metadata(self) -> str:
            return f"http://{address}:{self._server.socket.getsockname()[1]}/checkpoint/"

        def recv_checkpoint(self, src_rank: int, metadata: str, step: int, timeout: timedelta) -> Any:
            # Neither redirected nor asked of a proxy of the environment.
            connection = http.client.HTTPConnection(urlsplit(metadata).netloc, timeout=timeout.total_seconds())
            with contextlib.closing(connection):
                connection.request("GET", f"/checkpoint/{step}/full")
                answer = connection.getresponse()
                if answer.status != http.HTTPStatus.OK:
                    raise RuntimeError(f"{metadata}{step}/full: {answer.status} {answer.reason}")
                return _streaming_load(answer, weights_only=True)

    return Transport(timeout=timeout, num_chunks=0)


def group_of_one() -> Any:
    """A process group of this rank alone, for DDP, whose sums its hook makes.

    DDP sums by it which parameters have been used. Here all count as used. A parameter that one rank has used and
    another has not would otherwise keep its old gradient there, and the replicas would differ.
    """
    with needing_torchft():
        from torchft.process_group import ProcessGroupDummy

    class Alone(ProcessGroupDummy):  # type: ignore[misc]
        def allreduce(self, tensors: list[Tensor], opts: object) -> Any:
            for tensor in tensors:
                if tensor.dtype == torch.int32:
                    tensor.fill_(1)
            return super().allreduce(tensors, opts)

    return Alone(0, 1)


class ElasticGroup:
    """The job of the present quorum's members: torchft calls :meth:`configure` with each new quorum.

    ``config``: the whole job, as this rank's worker sees it. ``options``: those of :class:`sumwire.Job`.
    """

    def __init__(self, config: JobConfig, options: Mapping[str, Any]) -> None:
        self.config = config
        self.job: Job | None = None
        self.quorum = -1
        # An error that another quorum will not mend.
        self.fatal: SumwireError | None = None
        # Of this rank's latest step.
        self.step = 0
        self.meet_s = _MEET_S
        self._options = dict(options)

    def configure(
        self, store_addr: str, replica_id: str, rank: int, world_size: int, quorum_id: int, *more: object
    ) -> None:
        """Leave the job, and make one with the quorum's members. ``store_addr``: HOST:PORT/PREFIX of their store.

        Does not wait for those that are gone. Raises PeerLostError or another RecreateError for a member that has gone
        meanwhile, and keeps a UsageError in ``fatal``.
        """
        self.leave()
        within = timedelta(seconds=self.meet_s)
        try:
            at, _, prefix = store_addr.partition("/")
            host, _, port = at.rpartition(":")
            with _meeting(rank, self.meet_s):
                tcp = TCPStore(host, int(port), None, False, within, wait_for_workers=False)
                store: Store = PrefixStore(prefix, tcp)
                # The lighthouse counts anew once it has been restarted.
                store = named_anew(store, rank, world_size, within)
                store.set(f"member{rank}", json.dumps([self.config.worker, self.step, _VERSION]))
                told = [json.loads(store.get(f"member{other}")) for other in range(world_size)]
            check_version(told)
            members = [worker for worker, _, _ in told]
            ranks = Ranks(PrefixStore("job", store), rank, world_size, SILENCE, connect=within)
            self.job = Job(self.config.among(members), ranks=ranks, **{"fallback": "always", **self._options})
            self.quorum = quorum_id
        except UsageError as error:
            self.fatal = error
            raise
        _LOG.info(
            "job %s: quorum %d has workers %s", self.config.name, quorum_id, members,
            extra=Event.QUORUM_MADE(
                job=self.config.job, worker=self.config.worker, name=self.config.name, quorum=quorum_id, members=members
            ),
        )  # fmt: skip

    def leave(self, *, agree: bool = False) -> None:
        """End this rank's part in the job. ``agree``: wait until the others end theirs too."""
        job, self.job = self.job, None
        if job is not None:
            with contextlib.suppress(RecreateError):
                job.close(agree=agree)

    def errored(self) -> Exception | None:
        """Return None: :meth:`Elastic.commit` reports errors."""
        return None


def check_version(told: Sequence[tuple[int, int, str]]) -> None:
    """Raise PlaceError if this rank has another version of sumwire than the rank that has made most steps, since all
    must compute the same bits. ``told``: worker, steps and version of each rank."""
    first = max(told, key=lambda one: one[1])[2]
    if first != _VERSION:
        raise PlaceError(f"sumwire {_VERSION} here, {first} on the other ranks: must be the same: install that one")


@contextlib.contextmanager
def _meeting(rank: int, meet_s: float) -> Iterator[None]:
    """Raises PeerLostError where members of the quorum do not come in time."""
    try:
        yield
    except (RuntimeError, PlaceError) as error:
        raise PeerLostError(
            f"rank {rank} of a quorum: another one did not come within {meet_s:g} s "
            f"({first_clause(str(error))}); begin again: the next quorum is without those that have ended"
        ) from error
