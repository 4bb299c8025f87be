# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Compares jobs with and without a key: CPU time per packet, and how many forged packets are accepted.

The native switch runs in this process. A worker runs on loopback, beside a software aggregator in a thread. It needs no
root.

    python -m sumwire_lab.experiments.authentication
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from softswitch.p4runtime.server import serve
from softswitch.switch import SoftSwitch
from sumwire.aggregator.jobs import lanes_of
from sumwire.aggregator.processes import listen
from sumwire.aggregator.server import Server
from sumwire.aggregator.state import State
from sumwire.config import JobConfig, parse_job
from sumwire.transport.udp import Transport
from sumwire.wire.authentication import Tags, key_record
from sumwire.wire.packets import HEADER_BYTES, WORD_BYTES, Header, pack
from sumwire_controller.deploy.operations import bring_about
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.switch import P4Switch
from sumwire_controller.parse.files import parse_config
from sumwire_protocol import constants as p4

from sumwire_lab.load import malformed
from sumwire_lab.load.malformed import Endpoints
from sumwire_lab.study.experiment import Say

WORKERS: Final = 4
SLOTS: Final = 64
PLAIN, KEYED = 1, 2
_SWITCH_IP: Final = "10.0.0.100"
_SWITCH_MAC: Final = "02:53:57:00:00:64"
# Loops of each kind, by turns. The least of them is the one that was disturbed least.
_TURNS: Final = 12
_ROUNDS: Final = 6
_CHUNKS: Final = 20_000
_BATCH: Final = 10_000
_FLIPS_MOST: Final = 8
# In a reply the receiver's number, which is not in the tag: one tag is for all workers. They compare it themselves.
_WORKER_BYTE: Final = 6


def run_keyed(say: Say, forged: int) -> dict[str, Any]:
    """Return CPU us of a packet, plain and keyed, at switch and host, and how many of ``forged`` forged packets each
    accepted."""
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder) / "job.key"
        key.touch(0o600)
        key.write_text(secrets.token_hex(32))
        with _switch(str(key)) as switch:
            record: dict[str, Any] = {"forged": forged, "switch_us": switch.times()}
            say(f"the switch: {_shown(record['switch_us'])}")
            record["switch_taken"] = switch.taken(forged)
        say(f"{record['switch_taken']} of {forged} forged contributions taken by the switch")
        record["host_us"] = host_times(str(key))
        say(f"a worker: {_shown(record['host_us'])}")
    record["host_taken"] = host_taken(forged)
    say(f"{record['host_taken']} of {forged} forged results taken by a worker")
    return record


def _shown(times: dict[str, float]) -> str:
    return ", ".join(f"{name} {us:.2f} us a packet" for name, us in times.items())


# -- the switch ------------------------------------------------------------


@dataclass
class _Switch:
    """The native engine with two jobs, the second with a key."""

    device: SoftSwitch
    control: P4Switch
    program: Program
    tags: Tags

    def __post_init__(self) -> None:
        self._rounds = {PLAIN: itertools.count(), KEYED: itertools.count()}
        self._rng = np.random.default_rng(1)

    def round_of(self, job: int) -> list[tuple[int, bytes]]:
        """The contributions of a round to all slots, as (port, frame)."""
        number = next(self._rounds[job])
        tag_bytes = p4.TAG_BYTES if job == KEYED else 0
        rows = np.zeros((SLOTS * WORKERS, HEADER_BYTES + p4.THC_WORDS_UP * WORD_BYTES + tag_bytes), np.uint8)
        for row, (slot, worker) in zip(rows, itertools.product(range(SLOTS), range(WORKERS)), strict=True):
            header = Header(p4.KIND_CONTRIBUTE, p4.OP_THC, job, slot, worker, round=number, words=p4.THC_WORDS_UP)
            payload = self._rng.bytes(p4.THC_WORDS_UP * WORD_BYTES)
            row[: len(row) - tag_bytes] = np.frombuffer(pack(header, payload), np.uint8)
        if tag_bytes:
            self.tags.write(rows, np.arange(len(rows)))
        return [(1 + k % WORKERS, frame_of(k % WORKERS, row.tobytes())) for k, row in enumerate(rows)]

    def times(self) -> dict[str, float]:
        """Least CPU us of a packet."""
        process, least = self.device.process, {PLAIN: np.inf, KEYED: np.inf}
        for _, job in itertools.product(range(_TURNS), least):
            sent = [packet for _ in range(_ROUNDS) for packet in self.round_of(job)]
            began = time.process_time()
            for port, frame in sent:
                process(port, frame)
            least[job] = min(least[job], (time.process_time() - began) / len(sent) * 1e6)
        return {"plain": float(least[PLAIN]), "keyed": float(least[KEYED])}

    def taken(self, count: int) -> int:
        """How many of so many forged contributions get another verdict than REJECT."""
        before, sent = self._verdicts(), 0
        while sent < count:
            for port, frame in self.round_of(KEYED)[: count - sent]:
                self.device.process(port, flipped(frame, self._rng))
                sent += 1
        refused = self._verdicts() - before
        return count - int(refused[p4.VERDICT_REJECT])

    def _verdicts(self) -> NDArray[np.int64]:
        cells = self.control.counter(self.program.verdicts_id, list(range(p4.VERDICTS)))
        return np.array([cells[number][0] for number in range(p4.VERDICTS)])


def frame_of(worker: int, datagram: bytes) -> bytes:
    """Return a worker's frame."""
    ends = Endpoints(f"00:00:00:00:00:{worker + 1:02x}", _SWITCH_MAC, f"10.0.0.{worker + 1}", _SWITCH_IP)
    return malformed.ethernet(ends, malformed.ipv4(ends, malformed.udp(datagram)))


def flipped(frame: bytes, rng: np.random.Generator) -> bytes:
    """Return a frame with flipped bits in its datagram: either some random ones, or a new random 64-bit tag."""
    first = p4.ETHERNET_BYTES + p4.IPV4_BYTES + p4.UDP_BYTES
    changed = bytearray(frame)
    if rng.random() < 1 / _FLIPS_MOST:
        drawn = rng.bytes(p4.TAG_BYTES)
        changed[-p4.TAG_BYTES :] = drawn if drawn != frame[-p4.TAG_BYTES :] else bytes(p4.TAG_BYTES)
        return bytes(changed)
    bits = (len(frame) - first) * 8
    for bit in set(rng.integers(0, bits, rng.integers(1, _FLIPS_MOST + 1)).tolist()):
        changed[first + bit // 8] ^= 0x80 >> bit % 8
    return bytes(changed)


@contextmanager
def _switch(key: str) -> Iterator[_Switch]:
    with ExitStack() as stack:
        device = SoftSwitch(engine="native", seed=1)
        server = serve(device, "127.0.0.1:0", 1)
        stack.callback(server.stop)
        config, program = parse_config(_configuration(f"127.0.0.1:{server.port}", key)), Program.load()
        control = P4Switch(config.switch)
        stack.callback(control.close)
        bring_about(config, control, program, [job.name for job in config.jobs], int(time.time()))
        record = key_record(bytes.fromhex(Path(key).read_text()), KEYED, _SWITCH_IP)
        yield _Switch(device, control, program, Tags(record))


def _configuration(grpc: str, key: str) -> str:
    names = [f"h{k}" for k in range(1, WORKERS + 1)]
    workers = [
        {"name": name, "ip": f"10.0.0.{k}", "mac": f"00:00:00:00:00:{k:02x}", "port": k}
        for k, name in enumerate(names, 1)
    ]
    job: dict[str, Any] = {"ops": ["thc", "max32"], "workers": names}
    jobs = [
        {"name": "plain", "id": PLAIN, "slots": {"base": 0, "count": SLOTS}, **job},
        {"name": "keyed", "id": KEYED, "slots": {"base": SLOTS, "count": SLOTS}, "key": key, **job},
    ]
    ports = list(range(1, WORKERS + 1))
    switch, aggregator = {"name": "s1", "grpc": grpc, "device_id": 1}, {"ip": _SWITCH_IP, "mac": _SWITCH_MAC}
    # JSON is YAML.
    return json.dumps({"switch": switch, "aggregator": aggregator, "ports": ports, "workers": workers, "jobs": jobs})


# -- a worker ----------------------------------------------------------------


def host_times(key: str) -> dict[str, float]:
    """Return the least CPU us of a chunk (one packet out and one in) in a worker's thread, system calls included."""
    least = {"plain": np.inf, "keyed": np.inf}
    payload = np.random.default_rng(2).integers(0, 256, (_CHUNKS, p4.THC_WORDS_UP, WORD_BYTES), dtype=np.uint8)
    for _, name in itertools.product(range(_TURNS // 2), least):
        config = _job_config(key if name == "keyed" else None)
        with _serving(config), Transport(config) as transport:
            transport.exchange(p4.OP_THC, payload[:SLOTS])
            began = time.thread_time()
            transport.exchange(p4.OP_THC, payload)
            least[name] = min(least[name], (time.thread_time() - began) / _CHUNKS * 1e6)
    return {name: float(us) for name, us in least.items()}


def host_taken(count: int) -> int:
    """Return how many of ``count`` results with flipped bits pass a worker's check."""
    tags, rng = Tags(key_record(secrets.token_bytes(32), KEYED, _SWITCH_IP)), np.random.default_rng(3)
    size, taken = HEADER_BYTES + p4.THC_WORDS_DOWN * WORD_BYTES + p4.TAG_BYTES, 0
    header = Header(
        p4.KIND_RESULT, p4.OP_THC, KEYED, 1, 0, WORKERS, words=p4.THC_WORDS_DOWN, token=secrets.randbits(64)
    )
    for first in range(0, count, _BATCH):
        rows = rng.integers(0, 256, (min(_BATCH, count - first), size), dtype=np.uint8)
        rows[:, :HEADER_BYTES] = np.frombuffer(pack(replace(header, words=0)), np.uint8)
        rows[:, 17] = p4.THC_WORDS_DOWN
        tags.write(rows, np.arange(len(rows)))
        places = np.setdiff1d(np.arange(size), [_WORKER_BYTE])
        numbers = np.arange(len(rows))
        # A flip of one bit, and for half of them of others in other bytes.
        chosen = rng.permuted(np.broadcast_to(places, (1, len(places))), axis=1)[0]
        for flip in range(_FLIPS_MOST):
            which = numbers if not flip else numbers[rng.random(len(numbers)) < 1 / 2]
            octets = chosen[(which * _FLIPS_MOST + flip) % len(chosen)]
            rows[which, octets] ^= np.uint8(1) << rng.integers(0, 8, len(which)).astype(np.uint8)
        taken += len(rows) - tags.check(rows, np.full(len(rows), size))
    return taken


def _job_config(key: str | None) -> JobConfig:
    """One worker on loopback, at addresses of this process."""
    network = f"127.{1 + os.getpid() // 254 % 254}.{1 + os.getpid() % 254}"
    address = {
        "worker": 0,
        "ip": f"{network}.1",
        "seat": 0,
        "udp_port": p4.SUMWIRE_PORT,
        "aggregator": f"{network}.250",
    }
    mapping = {"format": 3, "name": "keyed", "job": 1, "ops": ["thc", "max32"], "workers": 1, "quorum": 1}
    keyed = {} if key is None else {"key": key}
    return parse_job({**mapping, "slots": 4 * SLOTS, "addresses": [address], **keyed}, 0)


@contextmanager
def _serving(config: JobConfig) -> Iterator[None]:
    """An aggregator that serves the job in a thread, until the block ends."""
    [udp] = listen(config.aggregator, p4.SUMWIRE_PORT, 1)
    reader, writer = os.pipe()
    with udp:
        server = Server(udp, State(lanes_of([config]), seed=1))
        thread = threading.Thread(target=server.run, args=(reader,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            os.close(writer)
            thread.join()
            os.close(reader)


if __name__ == "__main__":
    print(json.dumps(run_keyed(print, int(sys.argv[1]) if len(sys.argv) > 1 else 10_000), indent=1))  # noqa: T201
