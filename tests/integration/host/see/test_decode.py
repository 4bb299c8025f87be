# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire decode` finds every packet that a lossy tree has lost, and all that was sent again."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from golden import packets as golden
from helpers.see import on_links, pcaps, truth
from simulate.capture import Capture, Crossing, lossy_tree, play_captured
from sumwire import cli
from sumwire.see import captures

MARK = b"seen once"
CHUNKS = int(os.environ.get("SUMWIRE_SEE_CHUNKS", "40"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Capture, Path]:
    capture, outcome = play_captured(lossy_tree(2, 1024 * CHUNKS, drop=0.02))
    assert not outcome.violations
    seen = [(one.at_s, one.end, one.frame) for one in capture.in_order()]
    return capture, pcaps.write(tmp_path_factory.mktemp("see") / "run.pcapng", seen)


def _decoded(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert cli.main(["decode", *words, "--json"]) == 0
    told: dict[str, object] = json.loads(capsys.readouterr().out)
    return told


def test_every_loss_and_every_copy_of_a_run(run: tuple[Capture, Path], capsys: pytest.CaptureFixture[str]) -> None:
    capture, path = run
    told = _decoded(capsys, str(path))
    assert (told["packets"], told["malformed"], told["others"]) == (len(capture.seen), 0, 0)
    events = [event for chunk in told["chunks"] for event in chunk["events"]]  # type: ignore[attr-defined]
    found = Counter((event["point"], event["kind"]) for event in events if event["what"] == "lost")
    kinds = {golden.CONTRIBUTE: "CONTRIBUTE", golden.RESULT: "RESULT", golden.PROBE: "PROBE", golden.INFORM: "INFORM"}
    lost = [one for one in capture.crossings if not one.arrived]
    assert found == Counter((one.source, kinds[golden.decode(one.frame[42:]).kind]) for one in lost) and found
    resent = Counter(event["point"] for event in events if event["what"] == "resent")
    right = truth.resent(capture)
    contributions = Counter[str]()
    for (end, key), count in right.items():
        contributions[end] += count if not key[-1] else 0
    assert resent == +contributions


def test_the_text_and_its_filters(run: tuple[Capture, Path], capsys: pytest.CaptureFixture[str]) -> None:
    _, path = run
    assert cli.main(["decode", str(path), "--troubled", "--worker", "1"]) == 0
    text = capsys.readouterr().out
    assert "worker 1 (10.0.0.2) sends" in text and "worker 0" not in text.replace("workers 0", "")


def test_from_a_pipe(run: tuple[Capture, Path]) -> None:
    capture, path = run
    command = [sys.executable, "-m", "sumwire.cli", "decode", "-", "--json"]
    with path.open("rb") as stream:
        done = subprocess.run(command, stdin=stream, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == len(capture.seen)
    assert all("text" in json.loads(line) for line in done.stdout.splitlines()[:20])


def test_a_reader_that_has_enough_ends_it(run: tuple[Capture, Path]) -> None:
    _, path = run
    command = f"{sys.executable} -m sumwire.cli decode {path} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1 and done.stderr == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["no-such.pcap"], "no-such.pcap: No such file or directory: name a file that is there"),
        ([], "give FILE, - or -i DEVICE"),
        (["-i", "no-such-device"], "name an interface that is there and up"),
        ([__file__], "begins with 23205350"),
    ],
)
def test_errors_say_what_to_do(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "-i" in words and os.geteuid() != 0:
        pytest.skip("needs root")
    assert cli.main(["decode", *words]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_loopback_device_shows_each_packet_once() -> None:
    done = threading.Event()

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for number in itertools.count():
                sender.sendto(MARK + number.to_bytes(4), ("127.0.0.1", golden.UDP_PORT))
                if done.wait(0.001):
                    return

    sending = threading.Thread(target=send)
    sending.start()
    try:
        ours = (frame.data for frame in captures.frames_of("lo") if frame.data[42 : 42 + len(MARK)] == MARK)
        seen = list(itertools.islice(ours, 10))
    finally:
        done.set()
        sending.join()
    assert len(set(seen)) == len(seen)


def test_it_needs_no_torch() -> None:
    code = "import sys; from sumwire import cli; cli.main(['decode', '/dev/null']); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def interface(end: str) -> str:
    """As the lab would call the end."""
    return end.replace("-eth", "-p") if "-eth" in end else f"sw1234-{end}"


def known(crossing: Crossing) -> tuple[str, str, bytes, int]:
    names = (interface(end).removesuffix("-eth") for end in (crossing.source, crossing.target))
    return (*names, crossing.frame, min(crossing.arrived, 1))


@pytest.mark.long
def test_losses_of_a_run_from_its_captures(tmp_path: Path) -> None:
    capture, _ = play_captured(lossy_tree(3, 1024 * 20, drop=0.05))
    links = sorted({tuple(sorted((one.source, one.target))) for one in capture.crossings})
    for end in {end for link in links for end in link}:
        frames = [(one.at_s, one.frame) for one in capture.in_order() if one.end == end]
        (tmp_path / f"{interface(end)}.pcap").write_bytes(pcaps.pcap(frames))
    found = on_links.capture_of([(interface(one), interface(other)) for one, other in links], tmp_path)
    assert len(found.seen) == len(capture.seen)
    wanted = Counter(known(one) for one in capture.crossings)
    assert sum(count for (*_, arrived), count in wanted.items() if not arrived) > 10
    told = Counter(
        (one.source.removesuffix("-eth"), one.target.removesuffix("-eth"), one.frame, min(one.arrived, 1))
        for one in found.crossings
    )
    assert told == wanted
