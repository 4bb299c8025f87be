# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make p4-tna`: compiles the program for Tofino 1 and writes what it takes of the chip.

Writes p4src/tna/build/{report.json,manifest.json}. The compiler is p4c's Tofino backend. It is not part of the
repository, and neither is what it makes of the program beside the report.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path("p4src/tna/sumwire_tna.p4")
BUILD = Path("p4src/tna/build")
REPORT = BUILD / "report.json"
MANIFEST = BUILD / "manifest.json"
COMPILERS = ("p4c-barefoot", "bf-p4c")
# What the program includes of the one for v1model.
SHARED = ("sizes.p4", "codes.p4", "types.p4", "headers.p4")
# Of a stage in resources.json: name here, name there, and the list in it.
_OF_A_STAGE = {
    "tables": ("logical_tables", "ids"),
    "srams": ("rams", "srams"),
    "map_rams": ("map_rams", "maprams"),
    "tcams": ("tcams", "tcams"),
    "gateways": ("gateways", "gateways"),
    "stateful_alus": ("meter_alus", "meters"),
    "vliw_instructions": ("vliw", "instructions"),
}


class TofinoError(Exception):
    """The compiler is missing, refused the program, or wrote no report."""


def compiler() -> str | None:
    """The compiler's name, if it is on PATH."""
    return next((name for name in COMPILERS if shutil.which(name)), None)


def compile_program(folder: Path) -> dict[str, Any]:
    """Compiles into the folder, and returns the report. Raises TofinoError."""
    name = compiler()
    if name is None:
        raise TofinoError(f"none of {', '.join(COMPILERS)} is on PATH: p4c has it, built with ENABLE_TOFINO=ON")
    command = [name, "--target", "tofino", "--arch", "tna", "-g", "-o", str(folder), str(PROGRAM)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise TofinoError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return report(folder)


def report(folder: Path) -> dict[str, Any]:
    """What the program takes of a pipe, from the compiler's logs in the folder. Raises TofinoError."""
    resources, phv = (_log(folder, name) for name in ("resources.json", "phv.json"))
    stages = [_stage(stage) for stage in resources["resources"]["mau"]["mau_stages"]]
    used = [stage for stage in stages if stage["tables"]]
    return {
        "target": phv["target"],
        "compiler": resources["compiler_version"],
        "stages": {"used": len(used), "of": resources["resources"]["mau"]["nStages"]},
        "phv_bits": _phv(resources, phv),
        "of_all_stages": {name: sum(stage[name] for stage in stages) for name in _OF_A_STAGE},
        "by_stage": used,
    }


def _log(folder: Path, name: str) -> Mapping[str, Any]:
    found = sorted(folder.rglob(name))
    if not found:
        raise TofinoError(f"{folder}: the compiler wrote no {name}")
    content: Mapping[str, Any] = json.loads(found[0].read_text())
    return content


def _stage(stage: Mapping[str, Any]) -> dict[str, int]:
    """How many of each resource a stage uses."""
    counted = {name: len(stage[there][units]) for name, (there, units) in _OF_A_STAGE.items()}
    return {"stage": stage["stage_number"], **counted}


def _phv(resources: Mapping[str, Any], phv: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Bits of the containers that hold something, by kind: those of the stages, and those that only go along."""
    found = {}
    for kind, sizes in resources["resources"]["phv_containers"].items():
        used = [one for one in phv["containers"] if one["container_type"] == kind and one["slices"]]
        found[kind] = {
            "used": sum(one["bit_width"] for one in used),
            "of": sum(size["width"] * size["units"] for size in sizes),
        }
    return found


def sources() -> list[Path]:
    """Every P4 file of the program, relative to the root, in a fixed order."""
    own = [path.relative_to(ROOT) for path in (ROOT / PROGRAM.parent).rglob("*.p4")]
    return sorted([*own, *(Path("p4src/include") / name for name in SHARED)])


def hashes() -> dict[str, dict[str, str]]:
    """SHA-256 for the manifest, of the files as they are now."""

    def sha256(path: Path) -> str:
        return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()

    return {"sources": {str(path): sha256(path) for path in sources()}, "artifacts": {str(REPORT): sha256(REPORT)}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", type=Path, metavar="FILE", help="only write the report, to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = compile_program(Path(folder))
        except TofinoError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    if arguments.report:
        arguments.report.write_text(json.dumps(found, indent=2) + "\n")
        return 0
    (ROOT / BUILD).mkdir(exist_ok=True)
    (ROOT / REPORT).write_text(json.dumps(found, indent=2) + "\n")
    manifest = {"compiler": found["compiler"], **hashes()}
    (ROOT / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    sys.stdout.write(f"{found['compiler']}: {found['stages']['used']} stages, wrote {REPORT}, {MANIFEST}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
