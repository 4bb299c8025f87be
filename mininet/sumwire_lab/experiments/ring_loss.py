# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures an all-reduce without a switch on links that lose packets: gloo, and UDP rings with and without a loss
bound. The ranks are processes in a separate network namespace. They share one device, whose rate is the sum of all
ranks' links. Frames cross it one by one, as on a wire. `python -m sumwire_lab.experiments.ring_loss OPTIONS` is the
first process in the namespace: it prepares the device and starts the ranks."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final

from nativelib import programs

from sumwire_lab.errors import ProcessDiedError
from sumwire_lab.network.shaping import RandomLoss, off_command, shaping_commands
from sumwire_lab.options.run_options import LinkOptions

GLOO: Final = "gloo"
RELIABLE: Final = "udp-ring"
BOUNDED: Final = "dlcp-ring"
WAYS: Final = (GLOO, RELIABLE, BOUNDED)


@dataclass(frozen=True)
class RingLoss:
    """Options: ``turns`` all-reduces of ``values`` float32 by each way, in turn, over links of ``mbit`` that lose
    ``loss`` of all packets. ``bound``: that of the bounded ring."""

    ranks: int = 4
    mbit: float = 20.0
    loss: float = 0.01
    bound: float = 0.03
    values: int = 300_000
    turns: int = 15
    seed: int = 1


@dataclass(frozen=True)
class RingOutcome:
    """``seconds``: of every all-reduce on the slowest rank, by way. ``equal``: whether all ranks had the same bits.
    ``missing``: the largest share of a tensor's contributions that was missing in the bounded ring. ``again``:
    retransmitted packets, by way. ``off``: the largest difference of the ring without a bound from the true mean."""

    seconds: Mapping[str, list[float]]
    equal: bool
    missing: float
    again: Mapping[str, int]
    off: float


def measured(options: RingLoss) -> RingOutcome:
    """Run the experiment. Needs root, for the namespace. Raises ProcessDiedError if a rank fails."""
    command = ["unshare", "--net", *programs.module("sumwire_lab.experiments.ring_loss")]
    done = subprocess.run([*command, json.dumps(asdict(options))], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ProcessDiedError(f"the ranks of a ring ended with {done.returncode}; see what they wrote above")
    return RingOutcome(**json.loads(done.stdout.splitlines()[-1]))


_DEVICE: Final = "lo"
_ADDRESS: Final = "127.0.0.1"
_MTU: Final = 1500
_QUEUE_S: Final = 0.05
_PATIENCE: Final = timedelta(seconds=300)


def prepare(options: RingLoss) -> None:
    """Make the namespace's device a link with the summed rate of all ranks' links, and 50 ms of queue."""
    rate = options.ranks * options.mbit
    link = LinkOptions(rate, queue_packets=round(rate * _QUEUE_S * 1e6 / 8 / _MTU))
    up = ["ip", "link", "set", _DEVICE, "mtu", str(_MTU), "up"]
    for command in (up, off_command(_DEVICE), *shaping_commands(_DEVICE, link)):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def given(options: RingLoss, rank: int, turn: int) -> Any:
    """Return a rank's tensor. It has whole numbers, so that sums in float32 are exact in any order."""
    import torch

    draws = torch.Generator().manual_seed(1000 * options.seed + 100 * turn + rank)
    return torch.randint(-99, 100, (options.values,), generator=draws).float()


def rank_of(rank: int, options: RingLoss, folder: str, answers: Any) -> None:
    """The process of one rank: runs every way in every turn, each started by all ranks at once."""
    import torch
    import torch.distributed as dist
    from sumwire.dlcp.tags import LayerMagnitude, tagger
    from sumwire.multihop import GroupRing

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = _DEVICE
    method = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=options.ranks, timeout=_PATIENCE)
    tag = tagger(LayerMagnitude((7,)), 0.5)
    reliable = GroupRing(address=_ADDRESS)
    bounded = GroupRing(address=_ADDRESS, loss_bound=options.bound, tag=tag)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    missing, sums, off = [], [], []
    for turn in range(options.turns):
        gradient = given(options, rank, turn)
        for way in WAYS:
            total = gradient.clone()
            dist.barrier()
            began, before = time.monotonic(), bounded.stats.missing
            if way == GLOO:
                dist.all_reduce(total)
            else:
                total, kept = (reliable if way == RELIABLE else bounded).mean(gradient)
            seconds[way].append(time.monotonic() - began)
            if way == BOUNDED:
                packets = bounded.stats.contributions // (turn + 1)
                missing.append((bounded.stats.missing - before) / packets)
            sums.append(total.sum(dtype=torch.float64).item())
            if way == RELIABLE:
                true = sum(given(options, other, turn) for other in range(options.ranks)) / options.ranks
                off.append(float((total - true).abs().max() + kept.abs().max()))
    again = {RELIABLE: reliable.stats.again, BOUNDED: bounded.stats.again}
    for ring in (reliable, bounded):
        ring.close()
    answers.put({"seconds": seconds, "sums": sums, "missing": max(missing), "again": again, "off": max(off)})
    dist.destroy_process_group()


def slowest(of_ranks: list[list[float]]) -> list[float]:
    """Return the seconds of the slowest rank, for each turn."""
    return [max(turn) for turn in zip(*of_ranks, strict=True)]


def main(arguments: list[str]) -> None:
    options = RingLoss(**json.loads(arguments[0]))
    prepare(options)
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder, closing(RandomLoss(_DEVICE, options.loss)):
        ranks = [context.Process(target=rank_of, args=(n, options, folder, answers)) for n in range(options.ranks)]
        for process in ranks:
            process.daemon = True
            process.start()
        for process in ranks:
            process.join()
            if process.exitcode:
                sys.exit(1)
        found = [answers.get() for _ in ranks]
    outcome = RingOutcome(
        seconds={way: slowest([one["seconds"][way] for one in found]) for way in WAYS},
        equal=all(one["sums"] == found[0]["sums"] for one in found),
        missing=max(one["missing"] for one in found),
        again={way: sum(one["again"][way] for one in found) for way in found[0]["again"]},
        off=max(one["off"] for one in found),
    )
    sys.stdout.write(json.dumps(asdict(outcome)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
