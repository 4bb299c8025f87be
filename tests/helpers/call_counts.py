# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Counts the files, calls and changes of file that work passes: `PYTHONPATH=tests python -m helpers.call_counts`.

Few of them mean that whoever follows the work through the code reads few places. ``--calls`` also prints which function
is called how often. ``tests/integration/test_call_counts.py`` holds the numbers below their bounds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

from helpers.aggregator.served import every_op_mapping, serving
from helpers.gloo.ranks import Ranks
from helpers.paths import ROOT

VALUES = 65_536
# Steps that build what later steps reuse, and the most that are counted. The one with the fewest calls is taken: the
# others waited for packets more often, on a busy machine nearly all of them.
WARM_UP_STEPS = 5
STEPS = 40
_PRODUCT = tuple(f"{ROOT / folder}/" for folder in ("host", "controller", "switch", "protocol", "native", "common"))

# Files, calls, and changes of file.
Bounds = tuple[int, int, int]


@dataclass
class Counts:
    """``calls``: of functions of the product, by file and name. ``changes``: calls in another file than the call before
    in the same thread. ``returns``: those of them in a file that the thread had left."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    changes: int = 0
    returns: int = 0

    @property
    def files(self) -> int:
        return len({file for file, _ in self.calls})

    @property
    def total(self) -> int:
        return sum(self.calls.values())

    def within(self, bounds: Bounds) -> bool:
        return all(map(int.__le__, (self.files, self.total, self.changes), bounds))


class Counting:
    """Counts while it is ``on``, in this thread and in those that start after it was made."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.on = False
        self._seen: dict[int, list[str]] = {}
        threading.setprofile(self._event)
        sys.setprofile(self._event)

    def close(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def of(self, work: Callable[[], object]) -> Counts:
        """The counts of one call of ``work``, in all threads."""
        self.counts, self._seen, self.on = Counts(), {}, True
        try:
            work()
        finally:
            self.on = False
        return self.counts

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        if not self.on or event != "call":
            return
        file = frame.f_code.co_filename
        if not file.startswith(_PRODUCT):
            return
        if event == "call":
            self.counts.calls[file, frame.f_code.co_qualname] += 1
        seen = self._seen.setdefault(threading.get_ident(), [])
        if seen and seen[-1] != file:
            self.counts.changes += 1
            self.counts.returns += file in seen
            if file in seen:
                seen.remove(file)
        if not seen or seen[-1] != file:
            seen.append(file)


def _steps(rank: int, mapping: dict[str, Any], steps: int, enough: Bounds) -> Counts | None:
    """Runs on every rank. Returns the counts of rank 0: of the first step within the bounds, or of the best of so
    many."""
    import sumwire
    import torch
    import torch.distributed as dist
    from sumwire.codec.sum32 import Sum32Codec
    from sumwire.config import parse_job
    from sumwire.training.reductions import through_job
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    counting, found = Counting() if rank == 0 else None, list[Counts]()
    try:
        with sumwire.Job(parse_job(mapping, rank)) as job:
            model = DistributedDataParallel(nn.Linear(256, VALUES // 256, bias=False))
            state = sumwire.DdpState(job, reduce=through_job(job, Sum32Codec(workers=2)))
            model.register_comm_hook(state, sumwire.ddp_hook)
            for step in range(WARM_UP_STEPS + steps):
                model.zero_grad()
                loss = model(torch.ones(1, 256)).square().mean()
                if counting is None or step < WARM_UP_STEPS:
                    loss.backward()
                else:
                    found.append(counting.of(loss.backward))
                over = torch.tensor([bool(found) and found[-1].within(enough)])
                dist.broadcast(over, 0)
                if over:
                    break
    finally:
        if counting is not None:
            counting.close()
    return min(found, key=lambda counts: counts.total) if found else None


def of_bucket(steps: int = STEPS, enough: Bounds = (0, 0, 0)) -> Counts:
    """One step with one bucket of 65,536 values, by SUM32 between two ranks, through an aggregator on loopback."""
    mapping = every_op_mapping(workers=2, slots=1024)
    with tempfile.TemporaryDirectory() as folder, serving(mapping), Ranks(2, Path(folder)) as ranks:
        counts: Counts = ranks.run(_steps, mapping, steps, enough)[0]
    return counts


def of_check_config() -> Counts:
    """`sumwire-controller check-config` of one file, the second time: what it imports is loaded."""
    from sumwire_controller.cli import main

    def check() -> None:
        with redirect_stdout(StringIO()):
            assert main(["check-config", str(ROOT / "examples" / "soft_switch.yaml")]) == 0

    return _second_time(check)


def of_packet() -> Counts:
    """A packet that the program of the switch forwards, given to the native engine."""
    from softswitch.switch import SoftSwitch

    switch = SoftSwitch((ROOT / "p4src" / "build" / "sumwire.json").read_text(), seed=1, engine="native")
    return _second_time(partial(switch.process, 1, bytes(64)))


def _second_time(work: Callable[[], object]) -> Counts:
    work()
    counting = Counting()
    try:
        return counting.of(work)
    finally:
        counting.close()


WORKS = {"bucket": of_bucket, "check-config": of_check_config, "packet": of_packet}


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("work", nargs="*", choices=[*WORKS, []], help="all if none is named")
    parser.add_argument("--calls", action="store_true", help="also print the calls")
    options = parser.parse_args()
    say(f"{'work':14}{'files':>7}{'calls':>7}{'changes of file':>17}{'back to a file':>16}")
    for work in options.work or WORKS:
        counts = WORKS[work]()
        say(f"{work:14}{counts.files:7}{counts.total:7}{counts.changes:17}{counts.returns:16}")
        if options.calls:
            for (file, name), count in sorted(counts.calls.items()):
                say(f"  {count:5}  {Path(file).relative_to(ROOT)}: {name}")


if __name__ == "__main__":
    main()
