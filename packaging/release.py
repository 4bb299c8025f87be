# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Builds a release and tries it: `make release`.

    python packaging/release.py --out dist

Checks that the version has its entry in CHANGELOG, builds the sdist, the wheel with compiled kernels and the wheel of
the soft switch alone, and installs the sdist, the soft switch, and each extra of a plain wheel, into empty
environments. That pages are current is for `make test`, and publishing is left to a person.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENTRY_LINES_MOST = 120
# What is tried in empty environments; it needs the package index.
TRIED = "tests/system/test_packages.py"
TRIED_CASES = "extra or sdist or kernels_come or library or soft_switch"


def main() -> None:
    parser = argparse.ArgumentParser(description="Build a release and try each extra in an empty environment.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of sdist and wheels; default: dist")
    out: Path = parser.parse_args().out.resolve()
    if problems := disagreements(version(), (ROOT / "CHANGELOG.md").read_text()):
        raise SystemExit("\n".join(problems))
    out.mkdir(parents=True, exist_ok=True)
    backend = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
    run([sys.executable, "-P", "-c", backend, str(out)])
    run([sys.executable, "-P", str(ROOT / "packaging" / "wheels.py"), "--out", str(out)])
    run([sys.executable, "-P", "-m", "pytest", "-q", "--long", TRIED, "-k", TRIED_CASES])
    sys.stdout.write(f"sumwire {version()}: {', '.join(sorted(path.name for path in out.iterdir()))} in {out}\n")


def version() -> str:
    """The version, from the one file that has it."""
    text = (ROOT / "common" / "commonlib" / "version.py").read_text()
    [found] = re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    return str(found)


def disagreements(wanted: str, changelog: str) -> list[str]:
    """What keeps a version from being released, one sentence each: its entry must be the newest, dated and short."""
    entries = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    newest = entries[0] if entries else ""
    head, _, body = newest.partition("\n")
    if not re.fullmatch(rf"\[{re.escape(wanted)}\] - \d{{4}}-\d\d-\d\d", head):
        return [f"CHANGELOG.md: the newest entry is {head!r}; name it '[{wanted}] - YYYY-MM-DD', or change version.py"]
    lines = len(body.strip().splitlines())
    if lines > ENTRY_LINES_MOST:
        return [f"CHANGELOG.md: the entry of {wanted} has {lines} lines; shorten it to {ENTRY_LINES_MOST}"]
    return []


def run(command: list[str]) -> None:
    """Run a step of the release in the checkout; it ends the release if it fails."""
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise SystemExit(f"not released: {' '.join(command)} failed")


if __name__ == "__main__":
    main()
