# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What was lost and sent again in a captured run, from what its links did, and whether tshark finds it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from golden import packets as golden
from helpers.see import pcaps
from simulate.capture import Capture

Key = tuple[bytes, bytes, int, int, int, int, int, int]
"""One worker's part in one slot and round, at whatever switch: the worker's address, the switch's, job, slot, worker,
round, token, and the kind of question."""
Place = tuple[str, Key]


def key(frame: bytes) -> Key:
    """Of a packet, whichever way it goes."""
    packet, source, target = golden.decode(frame[42:]), frame[26:30], frame[30:34]
    up = packet.kind in (golden.CONTRIBUTE, golden.PROBE)
    asked = packet.kind in (golden.PROBE, golden.INFORM)
    ends = (source, target) if up else (target, source)
    # The answer to a HELLO has the slot's round, and the job's generation in the token's place.
    round_, token = (0, 0) if packet.op == golden.NO_OP else (packet.round, packet.token)
    return (*ends, packet.job, packet.slot, packet.worker, round_, token, int(asked))


def is_of_hello(key: Key) -> bool:
    """Whether it is a HELLO's, which is of no run."""
    *_, token, asked = key
    return bool(asked) and token == 0


def resent(capture: Capture) -> Counter[Place]:
    """How often each contribution was seen again, and each question that had no answer, by the end of a link."""
    found: Counter[Place] = Counter()
    sent: dict[Place, bool] = {}
    for one in capture.in_order():
        packet, place = golden.decode(one.frame[42:]), (one.end, key(one.frame))
        if packet.kind == golden.CONTRIBUTE or (packet.kind == golden.PROBE and sent.get(place)):
            found[place] += place in sent
        if packet.kind in (golden.CONTRIBUTE, golden.PROBE):
            sent[place] = True
        elif packet.kind == golden.INFORM:
            sent[place] = False
    return +found


def lost_at_hosts(capture: Capture) -> set[Place]:
    """Where a host's own link has lost its contribution, or the result that it had not got before."""
    found, had = set(), set()
    for one in capture.crossings:
        kind = golden.decode(one.frame[42:]).kind
        host = next((end for end in (one.source, one.target) if "-eth" not in end), None)
        if host is None or kind not in (golden.CONTRIBUTE, golden.RESULT):
            continue
        place = (host, key(one.frame))
        if one.arrived and kind == golden.RESULT:
            had.add(place)
        elif not one.arrived and place not in had:
            found.add(place)
    return found


def check_seen(capture: Capture, path: Path) -> Counter[Place]:
    """All fields are the golden model's, nothing is malformed, and lost and resent chunks are all found. The resent."""
    frames = capture.in_order()
    pcaps.write(path, [(one.at_s, one.end, one.frame) for one in frames])
    seen = pcaps.packets(path, *pcaps.EXPERTS)
    assert not any(row["_ws.malformed"] for row in pcaps.rows(path, ["_ws.malformed"]))
    decoded = [golden.decode(one.frame[42:]) for one in frames]
    assert [fields for fields, _ in seen] == [pcaps.fields(packet) for packet in decoded]
    assert not [row for _, row in seen if any(row[name] for name in pcaps.EXPERTS if name.startswith("bad_"))]
    places = [(one.end, key(one.frame)) for one in frames]
    marked = {
        name: Counter(place for place, (_, row) in zip(places, seen, strict=True) if row[name])
        for name in ("resent", "lost")
    }
    again, lost = resent(capture), lost_at_hosts(capture)
    assert again and marked["resent"] == again
    assert lost and not lost - set(marked["lost"])
    return again
