# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Prints what of a program no packet reached: ``python -m fuzz.coverage FOLDER``.

FOLDER has a JSON file from each process: how often packets came to each point of the program.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path


def merged(folder: Path) -> Counter[str]:
    """Points of all files in the folder, with their counts."""
    total: Counter[str] = Counter()
    for file in sorted(folder.glob("*.json")):
        total.update(json.loads(file.read_text()))
    return total


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.coverage", description=__doc__)
    parser.add_argument("folder", type=Path)
    points = merged(parser.parse_args(arguments).folder)
    missed = [point for point, count in points.items() if count == 0]
    for point in missed:
        sys.stdout.write(f"not reached: {point}\n")
    sys.stdout.write(f"{len(points) - len(missed)} of {len(points)} points of the program reached\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
