# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A switch, a job and four ranks from installed commands alone. A program of its own, for a network namespace.

Usage: scenario.py COMMANDS CONFIG.yaml JOB RANK.py

COMMANDS is the folder of the installed commands. The working folder takes the files. The namespace's loopback interface
gets the addresses of the configuration's hosts and of its aggregator, so that all of them are in this namespace.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path


def main(commands: Path, config: Path, job: str, rank_program: Path) -> None:
    job_file = Path(f"{job}.json")
    run(commands / "sumwire-controller", "job-file", config, "--job", job, "-o", job_file)
    description = json.loads(job_file.read_text())
    addresses = {entry[key] for entry in description["addresses"] for key in ("ip", "aggregator")}
    run("ip", "link", "set", "lo", "up")
    for address in sorted(addresses):
        run("ip", "address", "add", f"{address}/32", "dev", "lo")
    with ExitStack() as stack:
        stack.enter_context(started("ready:", commands / "softswitch", "--no-p4", "--device-id", "1", "--insecure"))
        assert json.loads(run(commands / "sumwire-controller", "apply", config, "--json"))["program_loaded"]
        assert json.loads(run(commands / "sumwire-controller", "status", config, "--json"))["in_sync"]
        stack.enter_context(started("ready:", commands / "sumwire-aggregator", job_file))
        ranks = [
            subprocess.Popen(
                [commands / "python", rank_program, job_file, str(rank), Path("store").absolute()],
                env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
            )
            for rank in range(description["workers"])
        ]
        failed = [rank for rank, process in enumerate(ranks) if process.wait()]
    if failed:
        sys.exit(f"ranks {failed} failed")


def run(*command: object) -> str:
    return subprocess.run([*map(str, command)], check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def started(ready: str, *command: object) -> Iterator[None]:
    """Run a command until the end of the block, which begins when the command has printed `ready`."""
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if ready in line:
                break
        else:
            sys.exit(f"{command[0]} ended: {''.join(lines)}")
        try:
            yield
        finally:
            process.terminate()
            process.stdout.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
