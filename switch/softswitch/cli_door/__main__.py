# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The command `softswitch-cli`, which `simple_switch_CLI` and `python -m softswitch.cli_door` are too."""

from __future__ import annotations

import sys
from collections.abc import Callable

from commonlib import entry


def main() -> int:
    """Run the program and return its exit status."""
    return entry.run(_load)


def _load() -> Callable[[], int]:
    from softswitch.cli_door.cli import main

    return main


if __name__ == "__main__":
    sys.exit(main())
