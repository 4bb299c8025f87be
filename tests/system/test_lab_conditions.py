# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Conditions and priorities on real links: what gets through, in which order, and how much of it."""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commonlib.events import ProgramEvent
from helpers.logs import logged, of
from sumwire_lab.options.conditions import Conditions, OfHost
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.conditions import apply_conditions
from sumwire_lab.run.session import Session, open_session
from sumwire_lab.system.processes import wait_all, wait_said

pytestmark = [pytest.mark.mininet, pytest.mark.root]

# Each receiver has its own: ends of an earlier transfer may still be on their way.
PORTS = itertools.count(29700)
# Says ready, then counts datagrams by their first byte until a datagram `.`, in the order of their coming.
RECEIVE = """
import json, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 25)
s.bind(("0.0.0.0", int(sys.argv[2])))
print("ready:", flush=True)
s.settimeout(8)
order = ""
try:
    while not order.endswith("."):
        order += chr(s.recv(2000)[0])
except TimeoutError:
    pass
open(sys.argv[1], "w").write(order)
"""
# Datagrams of 1000 bytes: so many of TOS 0, at once so many of another TOS; then ends until somebody stops us.
SEND = """
import socket, sys, time
peer, port, plain, urgent, tos, pause = sys.argv[1], *map(int, sys.argv[2:6]), float(sys.argv[6])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 32, 1 << 25)
for letter, count, value in (("p", plain, 0), ("u", urgent, tos)):
    s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, value)
    for _ in range(count):
        s.sendto(letter.encode() * 1000, (peer, port))
        if pause:
            time.sleep(pause)
s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0)
for _ in range(30):
    s.sendto(b"." * 1000, (peer, port))
"""


CLEAN = Conditions()


@contextmanager
def session_of(kind: str | None, link: LinkOptions, folder: Path, conditions: Conditions = CLEAN) -> Iterator[Session]:
    with open_session(RunOptions(workers=2, link=link, conditions=conditions), kind, folder) as session:
        yield session


def sent(session: Session, folder: Path, *words: object, sender: int = 0) -> str:
    """What the other host received, as letters in their order."""
    from sumwire_lab.system.processes import wait_said

    hosts, out, port = session.fabric.hosts, folder / "order.txt", str(next(PORTS))
    there, here = hosts[1 - sender], hosts[sender]
    receiver = session.start("receive", there, [sys.executable, "-c", RECEIVE, str(out), port])
    wait_said(receiver, "ready:", session.log("receive"))
    send = [sys.executable, "-c", SEND, there.ip, port, *map(str, words)]
    processes = {"receive": receiver, "send": session.start("send", here, send)}
    wait_all(processes, {}, session.logs(processes), 30, lambda: None)
    return out.read_text()


@pytest.mark.parametrize("kind", [None, "soft"])
def test_urgent_packets_overtake(kind: str | None, tmp_path: Path) -> None:
    """200 packets wait on a link of 2 Mbit/s, for 0.8 s, when 20 urgent ones come: those are through before most of the
    200."""
    link = LinkOptions(2, 400, priorities=True)
    with session_of(kind, link, tmp_path) as session:
        # So that the hosts know each other's addresses: few packets may wait for an answer to ARP.
        sent(session, tmp_path, 1, 0, 0, 0)
        order = sent(session, tmp_path, 200, 20, 7 << 5, 0)
    assert order.count("p") == 200
    assert order.count("u") == 20
    assert order.rindex("u") < 150
    with session_of(kind, LinkOptions(2, 400), tmp_path) as session:
        sent(session, tmp_path, 1, 0, 0, 0)
        order = sent(session, tmp_path, 200, 20, 7 << 5, 0)
    assert order.index("u") == 200


def test_drops_of_a_full_queue_are_told_by_priority(tmp_path: Path) -> None:
    with session_of(None, LinkOptions(10, 50, priorities=True), tmp_path) as session:
        order = sent(session, tmp_path, 300, 20, 5 << 5, 0)
        drops = session.network.priority_drops()
        assert sum(drops.values()) == session.network.queue_drops()
    assert order.count("u") == 20
    # Of the 30 dots, untagged as well, the last ones may be lost too.
    assert set(drops) == {0}
    assert 300 - order.count("p") <= drops[0] <= 300 - order.count("p") + 30


@pytest.mark.parametrize("kind", [None, "soft"])
@pytest.mark.parametrize("sender", [0, 1])
def test_each_direction_of_each_link_loses_its_share_once(kind: str | None, sender: int, tmp_path: Path) -> None:
    """Two links are crossed: one with 10 % loss, the gray one with 28 %."""
    conditions, packets = Conditions(loss=0.1, gray=OfHost(2, 0.2)), 4000
    through = 0.9 * 0.9 * 0.8
    link = LinkOptions(1000, 5000)
    with session_of(kind, link, tmp_path, conditions) as session:
        # So that the hosts know each other's addresses: an ARP request that is lost costs a second.
        sent(session, tmp_path, 1, 0, 0, 0, sender=sender)
        with logged("sumwire_lab") as lines, apply_conditions(session, conditions) as applied:
            order = sent(session, tmp_path, packets, 0, 0, 1e-5, sender=sender)
            told = applied.lost()
    got = order.count("p")
    # Five standard deviations of a binomial count.
    assert abs(got - packets * through) < 5 * math.sqrt(packets * through * (1 - through))
    assert packets - got <= told <= packets - got + 60
    assert of(lines, ProgramEvent.IMPAIRED)[0]["conditions"] == conditions.as_dict()


# Says ready, then answers one datagram.
ANSWER = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", int(sys.argv[1])))
print("ready:", flush=True)
data, peer = s.recvfrom(100)
s.sendto(data, peer)
"""
# Writes how many seconds an answer takes.
ASK = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(8)
began = time.monotonic()
s.sendto(b"?", (sys.argv[1], int(sys.argv[2])))
s.recv(100)
open(sys.argv[3], "w").write(str(time.monotonic() - began))
"""


@pytest.mark.parametrize("kind", [None, "soft"])
def test_each_link_delays_each_direction(kind: str | None, tmp_path: Path) -> None:
    """A question and its answer cross four links' directions. Nothing says how long they take at most."""
    conditions, port, file = Conditions(delay_ms=30.0), next(PORTS), tmp_path / "seconds"
    with session_of(kind, LinkOptions(1000, 5000), tmp_path, conditions) as session:
        asker, answerer = session.fabric.hosts
        answering = session.start("answer", answerer, [sys.executable, "-c", ANSWER, str(port)])
        wait_said(answering, "ready:", session.log("answer"))
        asking = session.start("ask", asker, [sys.executable, "-c", ASK, answerer.ip, str(port), str(file)])
        assert asking.wait(20) == 0
        assert "delay" in session.serving()
    assert float(file.read_text()) >= 4 * 0.03
    assert "dropped 0" in (tmp_path / "delay.log").read_text()


def test_nothing_is_lost_after_the_conditions(tmp_path: Path) -> None:
    with session_of(None, LinkOptions(1000, 5000), tmp_path) as session:
        with apply_conditions(session, Conditions(loss=0.5)):
            pass
        assert sent(session, tmp_path, 1000, 0, 0, 1e-5).count("p") == 1000


@pytest.mark.parametrize("kind", [None, "soft"])
def test_background_fills_its_share_of_every_link(kind: str | None, tmp_path: Path) -> None:
    with session_of(kind, LinkOptions(50, 256), tmp_path) as session:
        with apply_conditions(session, Conditions(background=0.4)) as applied:
            processes = list(applied.processes.values())
            # A second of traffic is a second of waiting: sent() takes about that long at this pause.
            sent(session, tmp_path, 400, 0, 0, 2e-3)
            applied.stop_traffic()
            rates = applied.received_mbit()
        assert all(process.poll() is not None for process in processes)
    assert len(rates) == 2
    assert all(0.75 * 20 < rate < 1.1 * 20 for rate in rates), rates
    call = json.loads((tmp_path / "traffic1" / "call.json").read_text())
    assert call["argument"]["flow_bytes_per_s"] == 312_500


def test_incast_reaches_the_first_host_alone(tmp_path: Path) -> None:
    with (
        session_of(None, LinkOptions(50, 256), tmp_path) as session,
        apply_conditions(session, Conditions(incast_kb=40)) as applied,
    ):
        sent(session, tmp_path, 700, 0, 0, 2e-3)
        applied.stop_traffic()
        first, second = applied.received_mbit()
    # 40 kB twice a second are 0.64 Mbit/s; how many bursts fall into the measured time is not fixed.
    assert 0.2 < first < 1.0
    assert second == 0


CONTROL_OF = """
import socket, sys
options = socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16
if len(sys.argv) == 1:
    listener = socket.create_server(("0.0.0.0", 29699))
    print("ready:", flush=True)
    one, _ = listener.accept()
else:
    one = socket.create_connection((sys.argv[1], 29699))
print(one.getsockopt(*options).rstrip(bytes(1)).decode())
one.sendall(b".")
one.recv(1)
"""


@pytest.mark.parametrize("control", ["cubic", "reno"])
def test_hosts_have_the_congestion_control_of_the_run(control: str, tmp_path: Path) -> None:
    """Not the machine's own: with BBR, gloo takes a quarter longer."""
    own = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    before = own.read_text()
    with session_of(None, LinkOptions(control=control), tmp_path) as session:
        there, here = session.fabric.hosts
        receiver = session.start("receive", there, [sys.executable, "-c", CONTROL_OF])
        wait_said(receiver, "ready:", session.log("receive"))
        sender = session.start("send", here, [sys.executable, "-c", CONTROL_OF, there.ip])
        processes = {"receive": receiver, "send": sender}
        wait_all(processes, {}, session.logs(processes), 30, lambda: None)
        assert [session.log(name).read_text().split()[-1] for name in processes] == [control, control]
    assert own.read_text() == before
