# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make p4`: compiles sumwire.p4 and writes everything that is generated from the P4 sources.

Writes p4src/build/{sumwire.json,sumwire.p4info.txtpb,manifest.json}, sumwire_protocol's constants, and the table of the
Wireshark dissector. With --constants only the latter two, which need no p4c.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import constants

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path("p4src/sumwire.p4")
BUILD = Path("p4src/build")
JSON = BUILD / "sumwire.json"
P4INFO = BUILD / "sumwire.p4info.txtpb"
MANIFEST = BUILD / "manifest.json"
COMPILER = "p4c-bm2-ss"
HOW_TO_GET_P4C = f"""{COMPILER} is not on PATH, so the P4 sources cannot be compiled.
It comes with p4lang's packages (Ubuntu and Debian: https://github.com/p4lang/p4c#installing-packaged-versions-of-p4c,
package p4lang-p4c) and with the container docker.io/p4lang/p4c.
Without it everything still runs: {JSON} and {P4INFO} are part of the repository."""


class BuildError(Exception):
    """p4c is missing or refused the program."""


def compiler_version() -> str:
    """The version of p4c, for example "1.2.5.16". Raises BuildError if there is no p4c."""
    if shutil.which(COMPILER) is None:
        raise BuildError(HOW_TO_GET_P4C)
    done = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True)
    return (done.stdout + done.stderr).split("Version", 1)[1].split()[0]


def compile_program(program: Path, json_out: Path, p4info_out: Path) -> None:
    """Runs p4c from the repository's root: the paths in the JSON are relative, hence the same everywhere."""
    command = [COMPILER, "--Werror", str(program)]
    command += ["-o", str(json_out), "--p4runtime-files", str(p4info_out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)} failed:\n{done.stderr}")


def sha256(path: Path) -> str:
    return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()


def sources() -> list[Path]:
    """Every P4 file of the program, relative to the root, in a fixed order. That for Tofino is tna.py's."""
    found = [path.relative_to(ROOT) for path in (ROOT / "p4src").rglob("*.p4")]
    return sorted(path for path in found if not path.is_relative_to("p4src/tna"))


def hashes() -> dict[str, dict[str, str]]:
    """The hashes for the manifest, of the files as they are now."""
    return {
        "sources": {str(path): sha256(path) for path in sources()},
        "artifacts": {str(path): sha256(path) for path in (JSON, P4INFO)},
    }


def write_constants() -> None:
    (ROOT / constants.TARGET).write_text(constants.render(ROOT / "p4src/include"))
    # In a process of its own: it reads the constants that have just been written.
    command = [sys.executable, "-P", "-m", "sumwire_protocol.wireshark", "--write"]
    path = os.pathsep.join(filter(None, [str(ROOT / "protocol"), os.environ.get("PYTHONPATH")]))
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--constants", action="store_true", help="only write the Python constants and the dissector's table"
    )
    arguments = parser.parse_args()
    write_constants()
    if arguments.constants:
        return 0
    try:
        version = compiler_version()
        (ROOT / BUILD).mkdir(exist_ok=True)
        compile_program(PROGRAM, JSON, P4INFO)
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    manifest = {"p4c": version, **hashes()}
    (ROOT / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    sys.stdout.write(f"p4c {version}: wrote {JSON}, {P4INFO}, {MANIFEST}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
