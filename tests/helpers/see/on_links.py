# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Captures at both ends of all links of a lab's network, and what was lost between them.

The lab loses packets before a packet socket of the receiver sees them. So a frame at one end alone was lost on its way
from there.

dumpcap forgets what it has not read yet when it is told to end, which on a busy machine is a lot. So a last frame goes
into each capture, and the capture ends when it is in the file.
"""

from __future__ import annotations

import re
import signal
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simulate.capture import Capture, Crossing, Seen
from sumwire_lab.network.topology import MininetNetwork

PATIENCE_S = 60
_HEAD, _RECORD = 24, struct.Struct("<IIII")
_FILTER = "udp port 21335"
_SOURCE = slice(26, 30)
_LAST = b"the last frame of this capture"
# To an address of RFC 5737, which nobody has.
_LAST_FRAME = (
    bytes.fromhex("020000000001 020000000002 0800 4500")
    + struct.pack(">HHHBBHII", 28 + len(_LAST), 0, 0, 1, 17, 0, 0xC0000201, 0xC0000202)
    + struct.pack(">HHHH", 21335, 21335, 8 + len(_LAST), 0)
    + _LAST
)
_SEND_LAST = """
import pathlib, socket, sys, time
interface, path, frame, last = sys.argv[1:]
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
    raw.bind((interface, 0))
    while bytes.fromhex(last) not in pathlib.Path(path).read_bytes():
        raw.send(bytes.fromhex(frame))
        time.sleep(0.1)
"""


@contextmanager
def captured(network: MininetNetwork, folder: Path) -> Iterator[None]:
    """For the time of the block, into a file for each end. AssertionError if a capture has dropped packets."""
    started, last = [], []
    for end in network.limited_ends():
        place, path = ["nsenter", "-t", str(end.node.pid), "-n"], str(folder / f"{end.interface}.pcap")
        command = [*place, "dumpcap", "-q", "-P", "-B", "64", "-f", _FILTER, "-i", end.interface, "-w", path]
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        words = [end.interface, path, _LAST_FRAME.hex(), _LAST.hex()]
        last.append([*place, sys.executable, "-c", _SEND_LAST, *words])
    for process in started:
        assert process.stderr is not None
        assert any("File:" in line for line in iter(process.stderr.readline, ""))
    try:
        yield
        _end_captures(last)
    finally:
        for process in started:
            process.send_signal(signal.SIGINT)
        told = [process.communicate(timeout=PATIENCE_S)[1] for process in started]
    dropped = [re.findall(r"received/dropped on interface .*?: \d+/(\d+)", text) for text in told]
    assert dropped == [["0"]] * len(started), told


def _end_captures(senders: list[list[str]]) -> None:
    """Run them until each has seen its frame in its file."""
    running = [subprocess.Popen(words) for words in senders]
    try:
        assert [sender.wait(PATIENCE_S) for sender in running] == [0] * len(running)
    finally:
        for sender in running:
            sender.kill()
            sender.wait()


def frames(path: Path) -> list[tuple[float, bytes]]:
    """Of a capture file of the old format, up to the last frame that the capture was given."""
    data, at, found = path.read_bytes(), _HEAD, []
    assert data[:4] == bytes.fromhex("d4c3b2a1")
    while at < len(data):
        seconds, fraction, length, whole = _RECORD.unpack_from(data, at)
        assert length == whole
        at += _RECORD.size
        frame = data[at : at + length]
        if frame.endswith(_LAST):
            break
        found.append((seconds + fraction / 1e6, frame))
        at += length
    return found


def capture_of(links: list[tuple[str, str]], folder: Path) -> Capture:
    """All frames, and what became of each, from the names of the interfaces at both ends of each link. Ends at switches
    have ``-eth`` in their names then."""
    made = Capture()
    for interfaces in links:
        ends = (_name(interfaces[0]), _name(interfaces[1]))
        seen = {end: frames(folder / f"{name}.pcap") for end, name in zip(ends, interfaces, strict=True)}
        made.seen.extend(Seen(at_s, end, frame) for end in ends for at_s, frame in seen[end])
        for source, target in (ends, ends[::-1]):
            sources = _sources(seen[source], seen[target])
            sent, came = (
                [(at_s, frame) for at_s, frame in seen[end] if frame[_SOURCE] in sources] for end in (source, target)
            )
            made.crossings.extend(_crossings(source, target, sent, came))
    made.crossings.sort(key=lambda one: one.at_s)
    return made


def _name(interface: str) -> str:
    return interface if re.search(r"-h\d+$", interface) else f"{interface}-eth"


def _sources(here: list[tuple[float, bytes]], there: list[tuple[float, bytes]]) -> set[bytes]:
    """Addresses whose packets enter the link here: most often they are seen here first."""
    earlier: defaultdict[bytes, float] = defaultdict(float)
    first_there: dict[bytes, float] = {}
    for at_s, frame in reversed(there):
        first_there[frame] = at_s
    for at_s, frame in here:
        if frame in first_there:
            earlier[frame[_SOURCE]] += 1 if at_s < first_there[frame] else -1 if at_s > first_there[frame] else 0
    return {source for source, votes in earlier.items() if votes > 0}


def _crossings(
    source: str, target: str, sent: list[tuple[float, bytes]], came: list[tuple[float, bytes]]
) -> Iterator[Crossing]:
    """Of equal frames, one that came is the last one that was sent before it and has not come yet."""
    on_the_way: defaultdict[bytes, list[int]] = defaultdict(list)
    arrived = [0] * len(sent)
    # At one time, what is sent goes first: a link may take less than the clock shows.
    events = [(at_s, 0, number, frame) for number, (at_s, frame) in enumerate(sent)]
    events += [(at_s, 1, number, frame) for number, (at_s, frame) in enumerate(came)]
    for _, is_arrival, number, frame in sorted(events):
        if not is_arrival:
            on_the_way[frame].append(number)
        elif on_the_way[frame]:
            arrived[on_the_way[frame].pop()] = 1
    yield from (Crossing(at_s, source, target, frame, arrived[n]) for n, (at_s, frame) in enumerate(sent))
