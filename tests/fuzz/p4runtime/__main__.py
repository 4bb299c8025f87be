# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sends thousands of fuzzed P4Runtime requests of four clients to a switch, and holds its answers against a model.

``python -m fuzz.p4runtime PROGRAM.p4info.txtpb PROGRAM.json --writes 20000 --seed 1``. Every update must be
answered with a code that the model allows, never with UNKNOWN or INTERNAL, and every read with what the model holds.
The first finding ends the run with status 1, and prints the command that repeats it. With ``--switch bmv2`` deviations
are counted and listed, and the model follows the switch. ``--load-test`` lets crowds of callers hold the soft switch up
afterwards, and says how soon others are answered.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

from fuzz.p4runtime.episode import CLIENTS, Episode, Tally
from fuzz.p4runtime.load_test import run_load_test
from fuzz.p4runtime.model import schema_of
from fuzz.p4runtime.target import DEVICE_ID, Target, TargetError, bmv2, folder, soft

#: Updates of an episode: enough to fill tables, few enough to repeat.
EPISODE = 500


class FindingError(Exception):
    """The switch did what the model does not allow."""


class _CrashError(FindingError):
    """It has ended by itself."""


@dataclass
class Result:
    """``deviations``: how often a switch that is not held to the model differed, by what."""

    tally: Tally = field(default_factory=Tally)
    deviations: Counter[str] = field(default_factory=Counter)
    crashes: list[int] = field(default_factory=list)
    seconds: float = 0.0
    grown_kib: int = 0

    def __str__(self) -> str:
        tally = self.tally
        refused = ", ".join(f"{count} {name}" for name, count in tally.refused.most_common())
        lines = [
            f"{tally.updates} updates in {tally.writes} writes, {tally.reads} reads: {tally.accepted} accepted, refused"
            f" {refused}; {tally.updates / max(self.seconds, 1e-9):.0f} updates/s, memory +{self.grown_kib} KiB"
        ]
        if self.crashes:
            lines.append(f"the switch crashed in {len(self.crashes)} episodes: {self.crashes}")
        lines += [f"{count:6} {what}" for what, count in self.deviations.most_common()]
        return "\n".join(lines)

    def record(self) -> dict[str, Any]:
        """For a JSON file."""
        return {
            "clients": CLIENTS,
            "updates": self.tally.updates,
            "reads": self.tally.reads,
            "accepted": self.tally.accepted,
            "refused": dict(self.tally.refused),
            "deviations": sum(self.deviations.values()),
            "crashes": len(self.crashes),
            "updates_per_s": round(self.tally.updates / max(self.seconds, 1e-9)),
            "grown_mib": round(self.grown_kib / 1024, 1),
        }


class Campaign:
    """``switch``: "soft", which is held to the model, or "bmv2", whose deviations are counted."""

    def __init__(self, p4info: Path, program: Path, seed: int, switch: str, engine: str = "auto") -> None:
        info = p4info_pb2.P4Info()
        text_format.Parse(p4info.read_text(), info)
        self._schema = schema_of(info)
        self.config = p4runtime_pb2.ForwardingPipelineConfig(p4info=info, p4_device_config=program.read_bytes())
        self._files = (p4info, program)
        self._seed = seed
        self._switch = switch
        self._engine = engine
        self._result = Result()

    def run(self, updates: int, only: int | None = None) -> Result:
        """Raises FindingError and TargetError."""
        numbers = list(range(-(-updates // EPISODE))) if only is None else [only]
        started = time.monotonic()
        while numbers:
            numbers = self._with_one_switch(numbers)
        self._result.seconds = time.monotonic() - started
        return self._result

    def _with_one_switch(self, numbers: Sequence[int]) -> list[int]:
        """Run episodes until the switch crashes; return those that are left."""
        with folder() as name, self._start(Path(name)) as target:
            before = told = 0.0
            for position, number in enumerate(numbers):
                self._run_episode(target, number)
                if target.status is not None:
                    return list(numbers[position + 1 :])
                before = before or target.resident_kib()  # after the first: it loads the program
                if time.monotonic() - told > 10:
                    told = time.monotonic()
                    sys.stderr.write(f"fuzz: {self._result.tally.updates} updates, episode {number}\n")
            self._result.grown_kib = int(target.resident_kib() - before)
        return []

    def _start(self, where: Path) -> Target:
        return bmv2(where) if self._switch == "bmv2" else soft(where, self._engine)

    def _run_episode(self, target: Target, number: int) -> None:
        def report(what: str, how: str) -> None:
            if target.status is not None:
                log = target.log.read_text(errors="replace")[-2000:]
                raise _CrashError(f"the switch ended with status {target.status}: {log}\n{what}: {how}")
            if self._switch == "soft":
                raise FindingError(f"{what}: {how}\nfuzz: repeat it: {self._again(number)}")
            self._result.deviations[what] += 1

        episode = Episode(
            address=target.address,
            device_id=DEVICE_ID,
            schema=self._schema,
            config=self.config,
            seed=f"{self._seed}:{number}",
            base=(number + 1) << 64,
            updates=EPISODE,
            report=report,
            bmv2=self._switch == "bmv2",
        )
        try:
            self._result.tally += episode.run()
        except _CrashError as error:
            if self._switch == "soft":
                raise FindingError(f"{error}\nfuzz: repeat it: {self._again(number)}") from error
            self._result.crashes.append(number)

    def _again(self, number: int) -> str:
        files = " ".join(map(str, self._files))
        how = f"--seed {self._seed} --only {number} --switch {self._switch} --engine {self._engine}"
        return f"python -m fuzz.p4runtime {files} {how}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.p4runtime", description=__doc__)
    parser.add_argument("p4info", type=Path, help="P4Info as text")
    parser.add_argument("program", type=Path, help="bmv2 JSON")
    parser.add_argument("--writes", type=int, default=20_000, help="updates that are sent")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="repeat the episode of this number")
    parser.add_argument("--switch", choices=("soft", "bmv2"), default="soft")
    parser.add_argument("--engine", choices=("auto", "native", "python"), default="auto", help="of the soft switch")
    parser.add_argument("--load-test", action="store_true")
    parser.add_argument("--json", type=Path, help="a file for the result")
    options = parser.parse_args(arguments)
    campaign = Campaign(options.p4info, options.program, options.seed, options.switch, options.engine)
    record: dict[str, Any] = {"finding": None}
    try:
        result = campaign.run(options.writes, options.only)
        sys.stdout.write(f"{result}\n")
        record |= result.record()
        if options.load_test:
            record["load_test"] = run_load_test(campaign.config, options.engine)
            sys.stdout.write(f"load test: {json.dumps(record['load_test'])}\n")
    except (FindingError, TargetError) as error:
        sys.stderr.write(f"fuzz: {error}\n")
        record["finding"] = str(error)
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=2) + "\n")
    return 0 if record["finding"] is None else 1


if __name__ == "__main__":
    sys.exit(main())
