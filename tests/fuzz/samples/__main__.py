# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Holds both engines to p4c's v1model samples: ``python -m fuzz.samples P4C --work FOLDER --json FILE``.

Every program that p4c compiles is loaded, and committed over P4Runtime with its P4Info. Where a packet test (STF) lies
beside it, the test is run on each engine, and then mutated packets on all of them. Nothing of p4c's is kept but
compiled programs in FOLDER.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from nativelib import NativeError, find_compiler
from softswitch.switch import EngineChoice

from fuzz.samples import bmv2
from fuzz.samples.programs import (
    Findings,
    Served,
    check_load,
    check_packets,
    check_served,
    compare_with_bmv2,
    compile_samples,
)
from fuzz.samples.stf import Sample, StfError

_PROGRESS = 50


def _say(text: str) -> None:
    sys.stderr.write(f"samples: {text}\n")


def engines() -> list[EngineChoice]:
    """Those of this machine: the native one needs a compiler."""
    try:
        find_compiler(wide_bitint=True)
    except NativeError as error:
        _say(f"only the Python engine: {error}")
        return ["python"]
    return ["python", "native"]


def _beside_bmv2(samples: Sequence[Sample], engine: EngineChoice, mutations: int, found: Findings) -> None:
    asked = [sample for sample in samples if sample.test is not None and sample.name in found.loaded]
    with bmv2.wires() as wired, tempfile.TemporaryDirectory(prefix="softswitch-samples-") as folder:
        for number, sample in enumerate(asked, 1):
            try:
                beside = compare_with_bmv2(sample, wired, Path(folder), engine=engine, mutations=mutations)
            except (bmv2.NoBmv2Error, StfError) as error:
                _say(f"{sample.name}: not beside bmv2: {error}")
                continue
            if beside.packets:
                found.bmv2_samples.append(sample.name)
                found.bmv2_packets += beside.packets
            if beside.difference:
                found.bmv2_differences[sample.name] = beside.difference
            if number % _PROGRESS == 0:
                _say(f"{number} of {len(asked)} samples beside bmv2")


def _tell(found: Findings) -> None:
    """What went otherwise than it should."""
    for told in (found.refused, found.unserved, found.failed, found.wrong, found.crashes):
        for name, why in told.items():
            _say(f"{name}: {why}")
    for name, why in found.differences.items():
        _say(f"{name}: engines differ: {why}")
    for name, why in found.bmv2_differences.items():
        _say(f"{name}: bmv2 differs: {why}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, 1 where something crashed or engines differ, 2 without compiler or checkout."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.samples", description=__doc__)
    parser.add_argument("checkout", type=Path, help="a checkout of p4c")
    parser.add_argument("--work", type=Path, required=True, help="where compiled programs are kept")
    parser.add_argument("--json", type=Path, help="write what was found there")
    parser.add_argument("--mutations", type=int, default=20, help="mutated packets for each packet test, %(default)s")
    parser.add_argument("--only", default="", help="samples whose name has this in it")
    parser.add_argument("--every", type=int, default=1, help="only every N-th sample, %(default)s")
    parser.add_argument(
        "--bmv2", action="store_true", help="mutated packets through bmv2 too, on veth pairs; needs root"
    )
    options = parser.parse_args(arguments)
    if options.bmv2 and (lacking := bmv2.missing()):
        _say(lacking)
        return 2
    try:
        samples = compile_samples(options.checkout, options.work, _say)
    except FileNotFoundError as error:
        _say(str(error))
        return 2
    samples = [sample for sample in samples if options.only in sample.name][:: options.every]
    found, chosen, served = Findings(), engines(), Served()
    for number, sample in enumerate(samples, 1):
        program = check_load(sample, found)
        if program is None and sample.test is not None:
            found.tested.append(sample.name)
        if program is not None:
            check_served(sample, served, found)
        if program is not None and sample.test is not None:
            check_packets(sample, program, chosen, options.mutations, found)
        if number % _PROGRESS == 0:
            _say(f"{number} of {len(samples)} samples")
    served.end()
    if options.bmv2:
        _beside_bmv2(samples, chosen[-1], options.mutations, found)
    record = {"compiled": len(samples), "engines": chosen, **asdict(found)}
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    _tell(found)
    passed = ", ".join(f"{len(found.passed.get(engine, ()))} pass in {engine}" for engine in chosen)
    sys.stdout.write(
        f"{len(samples)} programs: {len(found.loaded)} load, {len(found.served)} of them over P4Runtime;"
        f" {len(found.tested)} packet tests: {passed};"
        f" {found.packets} mutated packets: {len(found.differences)} differences; {len(found.crashes)} crashes\n"
    )
    return 1 if found.crashes or found.differences else 0


if __name__ == "__main__":
    sys.exit(main())
