# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sends thousands of fuzzed P4Runtime requests of four clients to a switch, and holds its answers against a model.

``python -m softswitch.fuzz.p4runtime PROGRAM.p4info.txtpb PROGRAM.json --writes 20000 --seed 1``. Every update must be
answered with a code that the model allows, never with UNKNOWN or INTERNAL, and every read with what the model holds.
The first finding ends the run with status 1, and prints the command that repeats it. With ``--switch bmv2`` deviations
are counted and listed, and the model follows the switch. ``--siege`` lets crowds of callers hold the soft switch up
afterwards, and says how soon others are answered.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from softswitch.fuzz.p4runtime.campaign import Campaign, FindingError
from softswitch.fuzz.p4runtime.siege import besiege
from softswitch.fuzz.p4runtime.target import TargetError


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m softswitch.fuzz.p4runtime", description=__doc__)
    parser.add_argument("p4info", type=Path, help="P4Info as text")
    parser.add_argument("program", type=Path, help="bmv2 JSON")
    parser.add_argument("--writes", type=int, default=20_000, help="updates that are sent")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="repeat the episode of this number")
    parser.add_argument("--switch", choices=("soft", "bmv2"), default="soft")
    parser.add_argument("--engine", choices=("auto", "native", "python"), default="auto", help="of the soft switch")
    parser.add_argument("--siege", action="store_true")
    parser.add_argument("--json", type=Path, help="a file for the result")
    options = parser.parse_args(arguments)
    campaign = Campaign(options.p4info, options.program, options.seed, options.switch, options.engine)
    record: dict[str, Any] = {"finding": None}
    try:
        result = campaign.run(options.writes, options.only)
        sys.stdout.write(f"{result}\n")
        record |= result.record()
        if options.siege:
            record["siege"] = besiege(campaign.config, options.engine)
            sys.stdout.write(f"siege: {json.dumps(record['siege'])}\n")
    except (FindingError, TargetError) as error:
        sys.stderr.write(f"fuzz: {error}\n")
        record["finding"] = str(error)
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=2) + "\n")
    return 0 if record["finding"] is None else 1


if __name__ == "__main__":
    sys.exit(main())
