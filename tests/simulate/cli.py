# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""``python -m simulate``: many schedules side by side, or one of them in all its detail (docs/simulator.md)."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

from simulate.flow import SURE_BELOW, Tally, told_apart
from simulate.many import ProcessDiedError, be_quiet, play_all
from simulate.mutations import MUTATIONS, OF_BLIND, OF_BYZANTINE, OF_KEYS, OF_PREEMPTION, mutated
from simulate.play import Outcome, play
from simulate.preempt import MODULES
from simulate.schedule import Variant
from simulate.shrink import shrunk

_LINE_S: Final = 1.0


def main(arguments: list[str] | None = None) -> int:
    """0 if no schedule violates anything, 1 if one does, 2 if a process died, 130 after Ctrl-C."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.long and (asked.keys or asked.aggregators):
        parser.error("--long: packets with tags are short, and software aggregators have no others")
    asked.keys |= asked.mutation in OF_KEYS
    asked.flow |= asked.mutation in OF_BLIND
    asked.byzantine |= asked.mutation in OF_BYZANTINE
    asked.preempt = asked.preempt or OF_PREEMPTION.get(asked.mutation, ())
    variant = Variant(**{name: getattr(asked, name) for name in Variant._fields})
    if asked.seed is not None:
        return _replay(asked.seed, asked.mutation, variant)
    seeds = range(asked.first, asked.first + asked.seeds)
    began = line_at = time.monotonic()
    failed: list[tuple[int, str]] = []
    done, cpu_s, tally = 0, 0.0, Tally()
    try:
        with contextlib.closing(play_all(seeds, asked.mutation, asked.jobs, variant)) as parts:
            for part in parts:
                done, cpu_s = done + part.schedules, cpu_s + part.cpu_s
                failed += part.failed
                tally += part.tally
                for seed, text in part.failed:
                    print(f"\rseed {seed}: {text.splitlines()[0]}", file=sys.stderr)
                if time.monotonic() >= line_at:
                    line_at = time.monotonic() + _LINE_S
                    _progress(done, len(seeds), failed, began)
                if (failed or tally.problems(SURE_BELOW)) and not asked.keep_going:
                    break
    except KeyboardInterrupt:
        _progress(done, len(seeds), failed, began)
        print("\nsimulate: interrupted", file=sys.stderr)
        return 130
    except ProcessDiedError as error:
        print(f"\nsimulate: {error}", file=sys.stderr)
        return 2
    _progress(done, len(seeds), failed, began)
    print(file=sys.stderr)
    failed.sort()
    for problem in tally.problems():
        print(f"over all schedules: {problem}", file=sys.stderr)
    if asked.json:
        seen = {"p_values": tally.p_values, "correlation": tally.correlation} if asked.flow else {}
        _write(asked.json, {"seeds": done, "first": asked.first, "seconds": time.monotonic() - began, "cpu_s": cpu_s,
                            "violations": [{"seed": seed, "text": text} for seed, text in failed], **seen})  # fmt: skip
    if failed and not asked.quiet:
        _explain(failed[0][0], asked.mutation, variant)
    return 1 if failed or tally.problems() else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="play only this one, and show what happens")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("--json", type=Path, help="write the numbers there")
    parser.add_argument("--keep-going", action="store_true", help="play all seeds, whatever is found")
    parser.add_argument("--quiet", action="store_true", help="do not make a failing schedule smaller")
    parser.add_argument("--keys", action="store_true", help="jobs have a key, and bits of packets change on the way")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--blind", action="store_true", help="jobs are blind, and have a process group")
    group.add_argument("--flow", action="store_true", help="blind jobs, in two worlds that no switch may tell apart")
    parser.add_argument("--byzantine", action="store_true", help="switches do what they like to packets")
    group.add_argument("--lanes", action="store_true", help="jobs are in lanes, whose calls overlap")
    group.add_argument("--long", action="store_true", help="packets of THC have 8192 values")
    group.add_argument("--restarts", action="store_true", help="workers are killed and started again, one at a time")
    parser.add_argument("--fast", action="store_true", help="calls are long, and C makes most of each exchange alone")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--aggregators", action="store_true", help="trees of software aggregators instead of switches")
    place.add_argument("--queues", action="store_true", help="virtual queues; packets lost or cut on purpose")
    parser.add_argument(
        "--preempt", type=_modules, nargs="?", const=MODULES, default=(), metavar="MODULE[,MODULE]",
        help=f"threads change places at any line of these; alone: of {','.join(MODULES)}",
    )  # fmt: skip
    parser.add_argument("--mutation", choices=sorted(MUTATIONS), help="break a rule of the protocol first")
    return parser


def _modules(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if not any(f"{known}.".startswith(f"{name}.") for known in sys.modules):
            raise argparse.ArgumentTypeError(f"{name}: must be a module that is loaded, such as {MODULES[0]}")
    return names


def _progress(done: int, seeds: int, failed: list[tuple[int, str]], began: float) -> None:
    rate = done / max(time.monotonic() - began, 1e-9)
    print(f"\r{done}/{seeds} schedules, {len(failed)} violated, {rate:.0f} a second  ", end="", file=sys.stderr)


def _explain(seed: int, mutation: str | None, variant: Variant) -> None:
    """Make a failing schedule smaller, and tell how to see it again."""
    be_quiet()
    with mutated(mutation):
        if variant.flow:
            # Its two plays cannot be made smaller one at a time.
            print(f"seed {seed}:", *told_apart(variant.of(seed))[0], sep="\n  ")
            return
        schedule, outcome = shrunk(variant.of(seed))
    again = f"PYTHONPATH=tests python -m simulate --seed {seed}" + (f" --mutation {mutation}" if mutation else "")
    again = " ".join([again, *variant.flags])
    print(f"seed {seed}:\n  {_short(outcome)}\nthe smallest that fails in the same way:\n  {schedule}")
    print(f"to see it whole: {again}")


def _replay(seed: int, mutation: str | None, variant: Variant) -> int:
    be_quiet()
    schedule = variant.of(seed)
    with mutated(mutation):
        outcome = play(schedule, traced=True)
    print("\n".join(outcome.trace))
    print(f"{schedule}\n{outcome.runs} runs, {outcome.frames} frames, {outcome.virtual_s:.3f} s; errors on the way:")
    print("\n".join(f"  {error}" for error in outcome.errors) or "  none")
    print("\n".join(outcome.violations) or "nothing is violated")
    return 1 if outcome.violations else 0


def _short(outcome: Outcome) -> str:
    return outcome.violations[0] if outcome.violations else "nothing is violated any more"


def _write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
