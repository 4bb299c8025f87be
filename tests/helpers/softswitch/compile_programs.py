# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles the test programs with p4c: ``python tests/helpers/softswitch/compile_programs.py``."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

from helpers.paths import ROOT

PROGRAMS = Path(__file__).parent / "programs"
MANIFEST = PROGRAMS / "sources.json"


def names() -> list[str]:
    return sorted(path.stem for path in PROGRAMS.glob("*.p4"))


def source_hash(name: str) -> str:
    return hashlib.sha256((PROGRAMS / f"{name}.p4").read_bytes()).hexdigest()


def compile_program(name: str, into: Path) -> None:
    """Writes NAME.json and NAME.p4info.txtpb. Paths are relative to the root, so the JSON is reproducible."""
    source = (PROGRAMS / f"{name}.p4").relative_to(ROOT)
    outputs = ["-o", str(into / f"{name}.json"), "--p4runtime-files", str(into / f"{name}.p4info.txtpb")]
    subprocess.run(["p4c-bm2-ss", "--std", "p4-16", *outputs, str(source)], cwd=ROOT, check=True, capture_output=True)


def main() -> None:
    for name in names():
        compile_program(name, PROGRAMS)
    MANIFEST.write_text(json.dumps({name: source_hash(name) for name in names()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
