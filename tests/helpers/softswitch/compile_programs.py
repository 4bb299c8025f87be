# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles the test programs and examples/p4 with p4c: ``python tests/helpers/softswitch/compile_programs.py``."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path

from helpers.paths import ROOT

PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES = ROOT / "examples" / "p4"
MANIFEST = PROGRAMS / "sources.json"
# Where others find p4src/aggregation.p4.
LIBRARY = Path("p4src")
# What the examples share; no program by itself.
_INCLUDED = EXAMPLES / "around.p4"


def names() -> list[str]:
    return sorted(_sources())


def _sources() -> dict[str, Path]:
    return {path.stem: path for folder in (PROGRAMS, EXAMPLES) for path in folder.glob("*.p4") if path != _INCLUDED}


def folder_of(name: str) -> Path:
    """Where a program's compiled files are: beside its source."""
    return _sources()[name].parent


def included(source: Path) -> list[Path]:
    """A source and all that it includes by a name in quotes, each once."""
    found, left = [], [source]
    while left:
        one = left.pop()
        if one not in found:
            found.append(one)
            names = re.findall(r'^#include "(.+)"$', one.read_text(), re.MULTILINE)
            near = [((one.parent / name).resolve(), ROOT / LIBRARY / name) for name in names]
            left += [beside if beside.exists() else library for beside, library in near]
    return found


def source_hash(name: str) -> str:
    texts = [path.read_bytes() for path in included(_sources()[name])]
    return hashlib.sha256(b"".join(texts)).hexdigest()


def compile_program(name: str, into: Path) -> None:
    """Writes NAME.json and NAME.p4info.txtpb. Paths are relative to the root, so the JSON is reproducible."""
    source = _sources()[name].relative_to(ROOT)
    outputs = ["-o", str(into / f"{name}.json"), "--p4runtime-files", str(into / f"{name}.p4info.txtpb")]
    command = ["p4c-bm2-ss", "--std", "p4-16", "-I", str(LIBRARY), *outputs, str(source)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def main() -> None:
    for name in names():
        compile_program(name, folder_of(name))
    MANIFEST.write_text(json.dumps({name: source_hash(name) for name in names()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
