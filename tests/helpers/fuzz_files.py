# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Mutated files: configurations, topologies, job files, tuning tables, captures, programs, runs of the lab, lists of
targets and metrics. Each loads or ends in a typed error whose text is one line of a terminal or several, in bounded
time and memory.

``python -m helpers.fuzz_files --mutations 20000 --seed 1`` with tests/ on PYTHONPATH, as `make fuzz-files` does. The
first finding ends the run with status 1, and prints the command that repeats it.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from commonlib.untrusted import escaped
from golden import packets
from helpers.controller import config_texts, topology_texts
from helpers.lab import runs
from helpers.paths import ROOT
from helpers.see import pcaps
from softswitch.errors import UnsupportedProgramError
from softswitch.program.load.node import read_program
from softswitch.program.load.program import load_program
from sumwire.aggregator.jobs import load_jobs
from sumwire.config import load_job, parse_job
from sumwire.errors import UsageError
from sumwire.job.tuning import load_table, tuning_path
from sumwire.see import show, timeline
from sumwire.see.captures import CaptureReader
from sumwire.top.picture import Scrape, endpoints, parsed, picture
from sumwire_controller.errors import ControllerError
from sumwire_controller.parse.files import load_any
from sumwire_lab.errors import OptionError
from sumwire_lab.options import layout
from sumwire_lab.run import report
from sumwire_lab.run.page import render
from sumwire_protocol import metrics

#: Of one file, on a slow and busy machine.
SECONDS_MOST = 5.0
MEMORY_MOST_MIB = 400
TEXT_MOST = 20_000
_EVERY = 2000

_PIECES = (
    b"&a [*a, *a]", b"&a", b"*a", b"<<: *a", b"!!python/object/apply:os.system [x]", b"!!binary", b"!!set {", b"%TAG",
    b"---\n", b"[" * 40, b"{" * 40, b"[" * 5000, b"- " * 5000, b"{\"a\":" * 2000, b"9" * 40, b"9" * 41, b"9" * 6000,
    b"1e999", b"-1", b"0x"+b"f" * 300, b"0o17", b"1_000", b".inf", b".nan", b"NaN", b"Infinity", b"1:30:00",
    b"2026-01-01", b"~", b"null", b"yes", b"true", b"\x00", b"\x1b[2J", b"\r\n", b"\x85", b"\xe2\x80\xa8",
    b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\t", b"'", b'"', b'"' * 3000, b"\\", b"\\u0000", b"\\ud800",
    b"#", b"|", b">", b"? ", b": ", b", ", b"]", b"}", b"",
)  # fmt: skip


class FindingError(Exception):
    """A file did something else than to load or to be refused."""


class Kind:
    """``load`` raises one of ``errors`` for a file that it refuses."""

    def __init__(self, text: str | bytes, load: Callable[[Path], object], *errors: type[Exception]) -> None:
        self.text = text.encode() if isinstance(text, str) else text
        self.load = load
        self.errors = errors


JOB: dict[str, Any] = {
    "format": 3,
    "name": "digits",
    "job": 1,
    "ops": ["thc", "max32"],
    "workers": 2,
    "quorum": 2,
    "workers_min": 1,
    "slots": 16,
    "lanes": [{"job": 1, "slots": 16}],
    "addresses": [
        {"worker": k, "ip": f"10.0.0.{k + 1}", "udp_port": 41000 + k, "aggregator": "10.0.0.100", "seat": k}
        for k in range(2)
    ],
    "thc": {"bits": 4, "p": 0.03125, "table": config_texts.PUBLISHED_TABLE, "granularity": 30},
}
_CONFIG = parse_job(JOB, 0)
_TUNING: dict[str, Any] = {
    "format": 1,
    "aggregators": ["10.0.0.100"],
    "workers": 2,
    "backend": "gloo",
    "codecs": {"thc": [[1000, 0.001, 0.002], [100000, 0.01, 0.02]]},
}


def _load_tuning(path: Path) -> object:
    """One that is broken is ignored with a warning."""
    tuning_path(_CONFIG).write_bytes(path.read_bytes())
    return load_table(_CONFIG)


def _captured() -> list[pcaps.CapturedPacket]:
    worker, switch = (packets.Host(1, bytes(6), bytes([10, 0, 0, k])) for k in (1, 9))
    sent = packets.Packet(packets.CONTRIBUTE, 2, 7, 2, 1, 1, 3, 0, 0, 1, 4, 6, payload=bytes(128))
    up = packets.udp_frame(worker, switch, sent.encode())
    down = packets.udp_frame(switch, worker, sent._replace(kind=packets.RESULT).encode())
    return [(0.0, "h1", up), (0.001, "s1", up), (0.002, "s1", down), (0.003, "h1", down)]


def _decode(path: Path) -> None:
    """What is shown of a capture has no control characters."""
    with path.open("rb") as stream:
        timelines = timeline.read([("run", CaptureReader(stream, "run"))], timeline.PacketFilter())
    lines = [
        *show.as_text(timelines, timeline.PacketFilter()),
        json.dumps(show.as_dict(timelines, timeline.PacketFilter())),
    ]
    assert all(line.isprintable() for line in lines), lines


_LAYOUT = """switches: [{name: top}, {name: left, above: [top], mbit: 50}, {name: right, above: [top]}]
hosts: [{switch: left, count: 3}, {switch: right, mbit: 10}]
"""
_TARGETS = [{"targets": ["10.0.0.1:9464", "10.0.0.2:9464"], "labels": {"job": "sumwire"}}]


def _compare(path: Path) -> None:
    """What terminal and page show of a run has no control characters."""
    folder = path.parent / "run"
    folder.mkdir(exist_ok=True)
    (folder / "summary.json").write_bytes(path.read_bytes())
    run = report.Recorded.of(folder)
    found = report.compare(run, report.Recorded(run.name, {}, {"systems": {"thc": {"step_s": 1.0}}}))
    shown = report.text(found) + render.comparison(found)
    assert shown.replace("\n", "").isprintable(), shown


def _metrics() -> str:
    lines = []
    for metric in metrics.metrics():
        labels = ",".join(f'{label}="{number}"' for number, label in enumerate(metric.labels))
        lines.append(f"{metric.served}{{{labels}}} {len(lines)}.5")
    return "\n".join(lines) + "\n"


def _top(path: Path) -> None:
    """As `sumwire top` reads what an endpoint says, twice."""
    try:
        values = parsed(path.read_bytes().decode())
    except ValueError as error:
        # It shows why in this way.
        raise ValueError(escaped(str(error))) from error
    picture([Scrape("a:1", 2.0, values)], [Scrape("a:1", 1.0, values)]).as_dict()


def kinds() -> dict[str, Kind]:
    job = json.dumps(JOB, indent=1)
    program = (ROOT / "tests/helpers/softswitch/programs/parse.json").read_text()
    return {
        "configuration": Kind(config_texts.text(config_texts.star(2)), load_any, ControllerError),
        "topology": Kind(config_texts.text(topology_texts.leaf_spine()), load_any, ControllerError),
        "job": Kind(job, lambda path: load_job(path, 0), UsageError),
        "aggregator's jobs": Kind(job, lambda path: load_jobs([path]), UsageError),
        "tuning": Kind(json.dumps(_TUNING, indent=1), _load_tuning),
        "pcap": Kind(pcaps.pcap((at_s, frame) for at_s, _, frame in _captured()), _decode, UsageError),
        "pcapng": Kind(pcaps.pcapng(_captured()), _decode, UsageError),
        "layout": Kind(_LAYOUT, layout.load, OptionError),
        "run": Kind(json.dumps(runs.summary()), _compare, OptionError),
        "targets": Kind(json.dumps(_TARGETS), lambda path: endpoints([str(path)]), UsageError),
        "metrics": Kind(_metrics(), _top, ValueError),
        "program": Kind(program, lambda path: load_program(read_program(path)), UnsupportedProgramError),
    }


def mutated(text: bytes, generator: random.Random) -> bytes:
    """One to six mutations of a text's bytes: pieces come in, go, come again, or take others' places."""
    changed = bytearray(text)
    for _ in range(generator.choice((1, 1, 2, 3, 6))):
        start, size = generator.randrange(len(changed) + 1), generator.choice((0, 1, 2, 8, 64))
        kind = generator.randrange(5)
        if kind == 0:
            changed[start : start + size] = generator.choice(_PIECES)
        elif kind == 1:
            changed[start : start + size] = changed[start : start + size] * generator.choice((2, 3, 500))
        elif kind == 2:
            other = generator.randrange(len(changed) + 1)
            changed[start:start] = changed[other : other + size]
        elif kind == 3:
            changed[start : start + 1] = bytes([generator.randrange(256)])
        else:
            _replace_word(changed, generator)
    return bytes(changed)


def _replace_word(text: bytearray, generator: random.Random) -> None:
    """A value or a key of the file is replaced: what is between two characters that are none of a word's."""
    if not text:
        return
    start = end = generator.randrange(len(text))
    while start > 0 and text[start - 1 : start].isalnum():
        start -= 1
    while end < len(text) and text[end : end + 1].isalnum():
        end += 1
    text[start:end] = generator.choice(_PIECES)


class FileFuzzer:
    def __init__(self, folder: Path, seed: int) -> None:
        self._path = folder / "file"
        self._seed = seed
        self._kinds = kinds()
        self.endings: Counter[str] = Counter()
        self.slowest_s = 0.0

    def run(self, number: int) -> None:
        """Raises FindingError."""
        generator = random.Random(f"{self._seed}:{number}")
        name = generator.choice(sorted(self._kinds))
        kind = self._kinds[name]
        self._path.write_bytes(mutated(kind.text, generator))
        started = time.process_time()
        try:
            kind.load(self._path)
            self.endings["loaded"] += 1
        except kind.errors as error:
            self.endings["refused"] += 1
            _check_text(name, str(error))
        except Exception as error:
            text = "".join(traceback.format_exception(error)[-3:])
            raise FindingError(f"{name}: {text}") from error
        took_s = time.process_time() - started
        self.slowest_s = max(self.slowest_s, took_s)
        if took_s > SECONDS_MOST:
            raise FindingError(f"{name}: took {took_s:.1f} s of processor time")


def _check_text(name: str, text: str) -> None:
    if not text.replace("\n", "").isprintable() or len(text) > TEXT_MOST:
        raise FindingError(f"{name}: a refusal that is no text for a terminal: {ascii(text)[:500]}")


def fuzz(numbers: Sequence[int], seed: int) -> str:
    """What became of the mutations. Raises FindingError, whose text repeats it."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with TemporaryDirectory(prefix="sumwire-fuzz-") as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        tuning_path(_CONFIG).parent.mkdir(mode=0o700)
        fuzzer = FileFuzzer(Path(folder), seed)
        for number in numbers:
            try:
                fuzzer.run(number)
            except FindingError as error:
                raise FindingError(f"{error}\nrepeat it: --seed {seed} --only {number}") from error
            if number % _EVERY == _EVERY - 1:
                sys.stderr.write(f"fuzz: {number + 1} files\n")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    if grown > MEMORY_MOST_MIB:
        raise FindingError(f"memory grew by {grown:.0f} MiB")
    endings = ", ".join(f"{count} {ending}" for ending, count in fuzzer.endings.most_common())
    return (
        f"{len(numbers)} mutated files: {endings}; the slowest took {fuzzer.slowest_s:.2f} s, memory +{grown:.0f} MiB"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m helpers.fuzz_files", description=__doc__)
    parser.add_argument("--mutations", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="repeat the mutation of this number")
    options = parser.parse_args(arguments)
    logging.getLogger("sumwire").setLevel(logging.CRITICAL)
    try:
        done = fuzz(range(options.mutations) if options.only is None else [options.only], options.seed)
    except FindingError as error:
        sys.stderr.write(f"fuzz: {error}\n")
        return 1
    sys.stdout.write(f"{done}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
