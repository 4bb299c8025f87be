# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Blind jobs beside open ones: bits of the means, what the switch sees of one worker, and the processor's time.

Ranks and a software aggregator on loopback, without root. The aggregator keeps what it gets.

    python -m sumwire_lab.experiments.blind_run
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, Final

import numpy as np
from sumwire.aggregator.batches import Batch
from sumwire.aggregator.jobs import lanes_of
from sumwire.aggregator.processes import listen
from sumwire.aggregator.server import Server
from sumwire.aggregator.sockets import HandOverReceiver, UdpReceiver
from sumwire.aggregator.state import State
from sumwire.config import OP_CODES, parse_job
from sumwire_protocol import constants as p4

from sumwire_lab.errors import ProcessDiedError
from sumwire_lab.experiments.blind_worker import CODECS, BlindSpec, work
from sumwire_lab.experiments.noise import CHI_SQUARE_MOST, Noise, noise_of, payload_of, values_of

SLOTS: Final = 256
# The worker whose payload is looked at.
_SEEN: Final = 1
_ANSWER_SECONDS: Final = 120.0


class Keeper(Server):
    """An aggregator that keeps what it gets."""

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
    """A record by codec: whether bits are equal; chi-square of the payload's bytes and its correlation with the
    worker's own values, open and blind, the medians over ``blocks`` jobs; CPU seconds of a rank per million values.

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
    """Of one worker's payload, without and with masks. It is compared with the values of the last mean."""
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
