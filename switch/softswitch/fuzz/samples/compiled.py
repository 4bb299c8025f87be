# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles the v1model programs of p4c's test data, from a checkout of p4c.

P4-14 programs are taken as p4c has translated them to P4-16, which lies beside them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

COMPILER = "p4c-bm2-ss"
_SECONDS = 120.0
_OTHER_TARGETS = ("psa.p4", "pna.p4", "ebpf_model", "ubpf", "dpdk", "tofino", "tna.p4")
_STAGES = ("-first", "-frontend", "-midend")


@dataclass(frozen=True)
class Sample:
    """``json`` and ``p4info``: what p4c made of ``source``. ``test``: its packet test, None where there is none.

    ``p4info`` is empty where p4c makes none of the program.
    """

    name: str
    source: Path
    json: Path
    test: Path | None

    @property
    def p4info(self) -> Path:
        return self.json.with_suffix(".p4info.txtpb")


def sources(checkout: Path) -> Iterator[tuple[str, Path, Path]]:
    """Names, programs, and where their packet tests would lie. Raises FileNotFoundError if this is no checkout."""
    data = checkout / "testdata"
    if not (data / "p4_16_samples").is_dir():
        raise FileNotFoundError(f"{checkout}: no checkout of p4c, which has testdata/p4_16_samples; give its folder")
    for source in sorted((data / "p4_16_samples").rglob("*.p4")):
        text = source.read_text(errors="replace")
        if not any(word in text or word in source.name for word in _OTHER_TARGETS):
            name = str(source.relative_to(data / "p4_16_samples").with_suffix(""))
            yield name, source, source.with_suffix(".stf")
    outputs, tests = data / "p4_14_samples_outputs", data / "p4_14_samples"
    for source in sorted(outputs.rglob("*.p4")):
        if not source.stem.endswith(_STAGES):
            own = source.relative_to(outputs).with_suffix("")
            yield f"p4_14/{own}", source, (tests / own).with_suffix(".stf")


def compile_samples(checkout: Path, into: Path, say: Callable[[str], None]) -> list[Sample]:
    """The programs that compile for bmv2's simple_switch. What lies in ``into`` is not compiled again.

    Raises FileNotFoundError without a compiler or a checkout.
    """
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise FileNotFoundError(f"{COMPILER} is not on PATH; build p4c, or name its folder in PATH")
    into.mkdir(parents=True, exist_ok=True)
    found = list(sources(checkout))
    done = 0

    def compiled(entry: tuple[str, Path, Path]) -> Sample | None:
        nonlocal done
        name, source, test = entry
        target = into / f"{name.replace('/', '__')}.json"
        refused = target.with_suffix(".refused")
        described = target.with_suffix(".p4info.txtpb").exists() and target.exists()
        if not described and not refused.exists() and not _compile(compiler, checkout, source, target):
            refused.touch()
        done += 1
        if done % 200 == 0:
            say(f"{done} of {len(found)} programs given to p4c")
        return Sample(name, source, target, test if test.exists() else None) if target.exists() else None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [sample for sample in pool.map(compiled, found) if sample is not None]


def _compile(compiler: str, checkout: Path, source: Path, target: Path) -> bool:
    made, info = target.with_suffix(".made"), target.with_suffix(".p4info.txtpb")
    includes = ["-I", str(checkout / "p4include"), "-I", str(source.parent)]
    command = [compiler, "--std", "p4-16", "--arch", "v1model", *includes, "-o", str(made), str(source)]
    if not _done([*command, "--p4runtime-files", str(info)]):
        if not _done(command):
            made.unlink(missing_ok=True)
            return False
        info.write_text("")
    if made.exists():
        made.replace(target)
    return target.exists()


def _done(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False
