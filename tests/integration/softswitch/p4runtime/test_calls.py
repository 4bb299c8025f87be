# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is among calls that work in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from softswitch.p4runtime.calls import Call, Turns

NEWCOMERS = 5
MOST = 1000


async def pieces(turns: Turns, count: int, work: Callable[[], None]) -> None:
    call = Call()
    with turns.taking_part(call):
        for _ in range(count):
            await turns.run(call, work)


def test_a_long_call_goes_on_however_many_short_ones_come() -> None:
    done: list[str] = []

    async def newcomers(turns: Turns, long: asyncio.Task[None]) -> None:
        while not long.done() and len(done) < MOST:
            await asyncio.create_task(pieces(turns, 1, lambda: done.append("short")))

    async def run() -> None:
        with ThreadPoolExecutor(1) as threads:
            turns = Turns(threads, 64)
            long = asyncio.create_task(pieces(turns, 6, lambda: done.append("long")))
            await asyncio.gather(long, *(newcomers(turns, long) for _ in range(NEWCOMERS)))

    asyncio.run(run())
    places = [place for place, kind in enumerate(done) if kind == "long"]
    assert len(places) == 6
    for had, (before, after) in enumerate(pairwise(places), 1):
        assert after - before <= NEWCOMERS + had + 1


def test_a_short_call_goes_before_long_ones() -> None:
    done: list[str] = []

    async def run() -> None:
        with ThreadPoolExecutor(1) as threads:
            turns = Turns(threads, 64)
            long = [asyncio.create_task(pieces(turns, 100, lambda: done.append("long"))) for _ in range(10)]
            while len(done) < 500:
                await asyncio.sleep(0)
            begun = len(done)
            await asyncio.create_task(pieces(turns, 3, lambda: done.append("short")))
            assert len(done) - begun <= 8  # of all ten long ones three pieces each would be thirty
            await asyncio.gather(*long)

    asyncio.run(run())
