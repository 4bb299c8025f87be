# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Compares blind jobs with open ones: bits of the means, the payload of one worker that the switch sees, and CPU time.

Ranks and a software aggregator run on loopback, without root. The aggregator keeps the packets that it gets.

    python -m sumwire_lab.experiments.secure_aggregation
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire.aggregator.batches import Batch
from sumwire.aggregator.jobs import lanes_of
from sumwire.aggregator.processes import listen
from sumwire.aggregator.server import Server
from sumwire.aggregator.sharing import HandOverReceiver
from sumwire.aggregator.sockets import UdpReceiver
from sumwire.aggregator.state import State
from sumwire.codec.layout import unpack_index_planes
from sumwire.config import OP_CODES, parse_job
from sumwire.wire.packets import HEADER_BYTES, first_byte, headers
from sumwire_protocol import constants as p4

from sumwire_lab.errors import ProcessDiedError

OCTETS: Final = 256
# Uniform bytes have a larger chi-square, of 255 degrees of freedom, in one of 1000 samples.
CHI_SQUARE_MOST: Final = 330.52
# The greeting's packets have higher ones.
_TAGS: Final = p4.BUCKET_OPENS_RUN
# Independent values exceed it in one of 1000 samples.
_SIGMAS: Final = 3.29


@dataclass(frozen=True)
class Noise:
    """A test for noise. ``correlation``: that of the payload with the worker's own values. ``most``: the largest
    correlation that chance explains."""

    bytes: int
    chi_square: float
    correlation: float
    most: float

    @property
    def tells_nothing(self) -> bool:
        """Whether statistical tests take the payload for noise."""
        return self.chi_square <= CHI_SQUARE_MOST and abs(self.correlation) <= self.most


def payload_of(datagrams: list[bytes], op: int, worker: int, slots: int) -> NDArray[np.uint8]:
    """Return the payload of a worker's contributions by an op, without retransmissions, in order: uint8 (chunks, packet
    bytes)."""
    found: dict[int, bytes] = {}
    for datagram in datagrams:
        packet = np.frombuffer(datagram, np.uint8).reshape(1, -1)
        [record] = headers(packet)
        contributes = record["version_kind"] == first_byte(p4.KIND_CONTRIBUTE) and record["bucket"] < _TAGS
        if contributes and record["op"] == op and record["worker"] == worker:
            found.setdefault(int(record["round"]) * slots + int(record["slot"]), datagram[HEADER_BYTES:])
    return np.array([np.frombuffer(found[place], np.uint8) for place in sorted(found)])


def values_of(payload: NDArray[np.uint8], op: int) -> NDArray[Any]:
    """Return the numbers of an open job's payload, by THC or SUM32, in order."""
    if op == p4.OP_THC:
        return unpack_index_planes(payload.reshape(len(payload), -1, p4.WORD_BYTES)).reshape(-1)
    return payload.reshape(-1).view(">i4")


def noise_of(payload: NDArray[np.uint8], values: NDArray[Any]) -> Noise:
    """Test a payload for noise. ``payload``: that of SUM32 packets, as a switch receives them. ``values``: those that
    this worker has sent in them, in bytes or elements. Without masks they are the payload's own numbers."""
    counts = np.bincount(payload.reshape(-1), minlength=OCTETS)
    expected = payload.size / OCTETS
    # What comes before the values are other numbers, such as norms.
    numbers = payload.reshape(-1) if values.dtype == np.uint8 else payload.reshape(-1).view(">i4")
    seen = numbers[len(numbers) - len(values) :].astype(np.float64)
    return Noise(
        payload.size,
        float(np.square(counts - expected).sum() / expected),
        float(np.corrcoef(seen, values.astype(np.float64))[0, 1]),
        _SIGMAS / float(np.sqrt(len(values))),
    )


CODECS: Final = ("thc", "sum32")


@dataclass(frozen=True)
class BlindSpec:
    """The input of a rank. ``mapping``: the job file of the open job. ``means``: how many means of ``values`` values
    are computed in each of ``blocks`` jobs and with each codec, in an open and a blind job by turns. ``store``: that of
    the process group."""

    mapping: dict[str, Any]
    values: int
    means: int
    blocks: int
    store: str


def work(rank: int, spec: BlindSpec, pipe: Connection) -> None:
    """Send a record of each job: codec, whether it is blind, a digest of the means' bits, seconds of processor time.

    Waits before each job for a message from the other end.
    """
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    ranks = spec.mapping["workers"]
    dist.init_process_group("gloo", init_method=f"file://{spec.store}", rank=rank, world_size=ranks)
    for _ in range(spec.blocks):
        for codec in CODECS:
            for blind in (False, True):
                pipe.recv()
                pipe.send({"codec": codec, "blind": blind, **_block(rank, spec, codec, blind=blind)})
    dist.destroy_process_group()


def _block(rank: int, spec: BlindSpec, codec: str, *, blind: bool) -> dict[str, Any]:
    import torch
    from sumwire.config import parse_job
    from sumwire.job.job import Job

    config = parse_job({**spec.mapping, "blind": blind}, rank)
    x = torch.randn(spec.values, generator=torch.Generator().manual_seed(rank))
    digest, seconds = hashlib.sha256(), 0.0
    with Job(config) as job:
        for number in range(1 + spec.means):
            began = time.process_time()
            mean = job.reduce(x)[0] if codec == "thc" else job.mean(x)
            # The first one greets, and finds memory.
            seconds += (time.process_time() - began) * (number > 0)
            digest.update(mean.numpy().tobytes())
    return {"digest": digest.hexdigest(), "cpu_s": seconds}


SLOTS: Final = 256
# The worker whose payload is looked at.
_SEEN: Final = 1
_ANSWER_SECONDS: Final = 120.0


class Keeper(Server):
    """An aggregator that keeps every packet that it gets."""

    def __init__(self, udp: socket.socket, state: State) -> None:
        super().__init__(udp, state)
        self.datagrams: list[bytes] = []

    def _in_one_call(self) -> None:
        return None

    def _take(self, receiver: UdpReceiver | HandOverReceiver) -> Batch:
        batch = super()._take(receiver)
        places = zip(batch.addresses()[: batch.count].tolist(), batch.sizes[: batch.count].tolist(), strict=True)
        self.datagrams += [ctypes.string_at(at, size) for at, size in places]
        return batch


def run_blind(
    *, workers: int = 4, values: int = 1_000_000, means: int = 3, blocks: int = 3, context: BaseContext | None = None
) -> dict[str, Any]:
    """Return a record by codec: whether the bits are equal; the payload's chi-square and its correlation with the
    worker's own values, open and blind, as medians over ``blocks`` jobs; CPU seconds of a rank per million values.

    Raises ProcessDiedError.
    """
    mapping = _mapping(workers)
    context = context or multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, _keeping(mapping) as keeper:
        spec = BlindSpec(mapping, values, means, blocks, str(Path(folder) / "store"))
        rounds = list(_rounds(spec, context, keeper))
    codecs = {codec: _summary([each for each in rounds if each["codec"] == codec], spec) for codec in CODECS}
    return {"workers": workers, "values": values, "chi_square_most": CHI_SQUARE_MOST, "codecs": codecs}


def _rounds(spec: BlindSpec, context: Any, keeper: Keeper) -> Iterator[dict[str, Any]]:
    """An open and a blind job of a codec: what the ranks say, and what the switch has seen."""
    pipes, processes = [], []
    for rank in range(spec.mapping["workers"]):
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(rank, spec, theirs), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    for _ in range(spec.blocks):
        for codec in CODECS:
            said: dict[bool, list[dict[str, Any]]] = {}
            seen: dict[bool, list[bytes]] = {}
            for blind in (False, True):
                keeper.datagrams = []
                for pipe in pipes:
                    pipe.send("go on")
                said[blind] = [_answer(pipe) for pipe in pipes]
                seen[blind] = keeper.datagrams
            yield {"codec": codec, "said": said, "noise": _noises(OP_CODES[codec], seen, 1 + spec.means)}
    for process in processes:
        process.join(_ANSWER_SECONDS)


def _answer(pipe: Any) -> dict[str, Any]:
    if not pipe.poll(_ANSWER_SECONDS):
        raise ProcessDiedError("a rank of the experiment on blind jobs does not answer; see what it wrote above")
    try:
        answer: dict[str, Any] = pipe.recv()
    except EOFError as error:
        raise ProcessDiedError("a rank of the experiment on blind jobs has ended; see what it wrote above") from error
    return answer


def _noises(op: int, seen: dict[bool, list[bytes]], means: int) -> dict[bool, Noise]:
    """Return the noise of one worker's payload without and with masks, compared with the values of the last mean."""
    sent = payload_of(seen[False], op, _SEEN, SLOTS)
    sent = sent[-(len(sent) // means) :]
    values = values_of(sent, op)
    hidden = payload_of(seen[True], p4.OP_SUM32, _SEEN, SLOTS)
    return {False: noise_of(values.view(np.uint8).reshape(len(sent), -1), values), True: noise_of(hidden, values)}


def _summary(rounds: list[dict[str, Any]], spec: BlindSpec) -> dict[str, Any]:
    def median(of: str, *, blind: bool) -> float:
        return float(statistics.median(abs(getattr(each["noise"][blind], of)) for each in rounds))

    def cpu_s(*, blind: bool) -> float:
        seconds = [answer["cpu_s"] for each in rounds for answer in each["said"][blind]]
        return float(statistics.median(seconds)) / spec.means / spec.values * 1e6

    digests = {answer["digest"] for each in rounds for answers in each["said"].values() for answer in answers}
    return {
        "bits_equal": len(digests) == 1,
        "bytes_seen": rounds[0]["noise"][True].bytes,
        "chi_square": {"open": median("chi_square", blind=False), "blind": median("chi_square", blind=True)},
        "correlation": {"open": median("correlation", blind=False), "blind": median("correlation", blind=True)},
        "correlation_most": rounds[0]["noise"][True].most,
        "cpu_s_per_million": {"open": cpu_s(blind=False), "blind": cpu_s(blind=True)},
    }


def _mapping(workers: int) -> dict[str, Any]:
    """A job file with loopback addresses of this process."""
    network = f"127.{1 + os.getpid() // 254 % 254}.{1 + os.getpid() % 254}"
    common = {"udp_port": p4.SUMWIRE_PORT, "aggregator": f"{network}.250"}
    addresses = [{"worker": rank, "ip": f"{network}.{1 + rank}", "seat": rank, **common} for rank in range(workers)]
    counts = {"workers": workers, "quorum": workers, "slots": SLOTS}
    ops = ["thc", "max32", "sum32"]
    return {"format": 3, "name": "blind", "job": 1, "ops": ops, "addresses": addresses, **counts}


@contextmanager
def _keeping(mapping: dict[str, Any]) -> Iterator[Keeper]:
    """An aggregator that serves the job in a thread, until the block ends."""
    [udp] = listen(mapping["addresses"][0]["aggregator"], p4.SUMWIRE_PORT, 1)
    reader, writer = os.pipe()
    with udp:
        keeper = Keeper(udp, State(lanes_of([parse_job(mapping, 0)]), seed=1))
        thread = threading.Thread(target=keeper.run, args=(reader,), daemon=True)
        thread.start()
        try:
            yield keeper
        finally:
            os.close(writer)
            thread.join()
            os.close(reader)


if __name__ == "__main__":
    print(json.dumps(run_blind(), indent=1))  # noqa: T201
