# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The command `softswitch`, which `python -m softswitch` is too, and the distribution's commands with bmv2's names."""

from __future__ import annotations

import sys
from collections.abc import Callable

from commonlib import entry


def main() -> int:
    """Run the program and return its exit status."""
    return entry.run(_load)


def in_place_of_bmv2() -> int:
    """Run as `simple_switch_grpc`, which lets in whoever reaches its address: harnesses use plain TCP."""
    sys.argv.insert(1, "--insecure")
    return main()


def in_place_of_bmv2_without_grpc() -> int:
    """Run as `simple_switch`, which has no P4Runtime: that is at a free port, so that harnesses start several switches.
    What the harness gives comes later, and counts."""
    sys.argv[1:1] = ["--insecure", "--grpc-server-addr", "127.0.0.1:0", "--thrift-port", "9090"]
    return main()


def _load() -> Callable[[], int]:
    from softswitch.cli import main

    return main


if __name__ == "__main__":
    sys.exit(main())
