# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The slot protocol as a table: what comes in one after the other, what leaves, and what is counted.

A step is WHO WORDS -> FRAMES WORDS. WHO is one or more workers that contribute (``012``), probe (``?1``), greet
(``hello1``) or contribute without the low planes (``cut1``); or the switch above, which sends a result (``above``) or a
notice (``stale``, ``refused``). Words are the packet's fields, ``@5`` is its round, and a flag's name sets it. Behind
the arrow are the number of frames that leave, and fields that each of them has. The golden model says the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
from golden import model
from golden.model import Job
from helpers.packet.play import Frames, Game, Rig, contribution, random_payload
from helpers.packet.star import ALL_OPS, ELASTIC, EVERY, FULL, LEAF, MIDDLE, NORMS, QUORUM, ROOT, SINGLE, WIDE

# The job, the steps, and the verdicts and reject reasons that are counted, with their numbers if not 1.
Row = tuple[Job, str, str]
HALF = 1 << 31
LATE = HALF + 500
# contribution() has bucket 7: one bit less, one more in each byte, and all of them.
BUCKETS = (6, 0x87, 0x107, 0x8007, 0, 0xFFFF)
ASKED = (0, 6, 7, 8, HALF + 7, 2**32 - 1)


def each(steps: str, values: Iterable[int]) -> str:
    """The steps once for each value {n}, which is number {k}; {next} is the round after it."""
    return "; ".join(steps.format(n=n, k=k, next=k + 1) for k, n in zip(range(0, 99, 2), values, strict=False))


def tos(priority: int, drop_class: int, ecn: int) -> int:
    return (priority << 3 | drop_class << 1) << 2 | ecn


# Played once with each op, in a slot of its own.
WITH_EACH_OP: dict[str, Row] = {
    "all contribute and all get the result": (EVERY, "012 -> 0; 3 -> 4 count=4 flags=0", "FIRST ADD2 LAST"),
    "who asks again gets the result alone": (EVERY, "0123; 303 -> 1 kind=RESULT", "FIRST ADD2 LAST DUPLICATE3"),
    "a repeat is counted once": (EVERY, "1; 1 -> 0; 023", "FIRST REPEAT ADD2 LAST"),
    # The first one opens and does not close; who is late is told the result that all have.
    "a flush closes with those who are in": (
        EVERY, "0 FLUSH -> 0; 2; 2 FLUSH -> 4 count=2 contributors=0b101 flags=INCOMPLETE; 1 -> 1 contributors=0b101",
        "FIRST ADD FLUSH DUPLICATE"),
    # Three of four are in: enough for up to three. The fourth comes late, and is told that it is out.
    "a flush needs as many as it says": (
        EVERY, each("013 @{k}; 1 @{k} FLUSH contributors={n} -> 4 count=3 contributors=0b1011 flags=MISSING; "
                    "2 @{k} -> 1 contributors=0b1011 count=3 flags=MISSING", (1, 2, 3))
        + "; 013 @9; 1 @9 FLUSH contributors=4 -> 0", "FIRST4 ADD8 FLUSH3 DUPLICATE3 REPEAT"),
    "a run of two workers": (
        ELASTIC, "0 contributors=2 -> 0; 1 contributors=2 -> 4 count=2 flags=0; "
        "0 @1 contributors=2 -> 0; 1 @1 contributors=2 -> 4 count=2; 0 @1", "FIRST2 LAST2 DUPLICATE"),
    "a run of three workers": (
        ELASTIC, "01 contributors=3 -> 0; 2 contributors=3 -> 4 count=3 flags=0", "FIRST ADD LAST"),
    # -- calls: a slot's round belongs to the op and the bucket that opened it
    "another bucket is refused until the next round": (
        EVERY, each("0 @{k}; 1 @{k} bucket={n}; 0 @{k} FLUSH bucket={n}; 12 @{k}; 3 @{k} -> 4; 0 @{k} bucket={n}; "
                    "012 @{next} bucket={n}; 3 @{next} bucket={n} -> 4 bucket={n}", BUCKETS),
        "FIRST12 ADD24 LAST12 CALL18"),
    "a probe is of a call too": (
        EVERY, "0 @3; ?1 @3 bucket=8; ?1 @2 bucket=8 -> 1 kind=STALE; ?1 @4 bucket=8 -> 1 kind=INFORM",
        "FIRST CALL STALE INFORM"),
    # A newer one opens its round here with its own call.
    "a result of another call is refused": (
        LEAF, "01; above bucket=8 -> 0; above -> 2; above @1 bucket=8 -> 2; 0 @1; 0 @1 bucket=8 -> 1",
        "FIRST LAST DOWN2 CALL2 DUPLICATE"),
    # -- questions
    "a probe from nobody to closed": (
        EVERY, "?1 @3 -> 1 kind=INFORM round=3 contributors=0 count=0 flags=0 words=0; 20 @3; "
        "?12 @3 -> 1 kind=INFORM round=3 contributors=0b101 count=2 flags=0 words=0; 13 @3; "
        "?1 @3 -> 1 kind=INFORM round=3 contributors=0b1111 count=4 flags=CLOSED words=0", "FIRST ADD2 LAST INFORM4"),
    # Of a newer round too: the slot still holds the result of the round before.
    "a probe changes nothing": (
        EVERY, "0123 @7; ?0 @8 -> 1 kind=INFORM round=8 contributors=0 count=0 flags=0; "
        "0 @7 -> 1 contributors=0b1111; 0 @8 -> 0", "FIRST2 ADD2 LAST DUPLICATE INFORM"),
    # CLOSED only once the result is here.
    "probes at a leaf": (
        LEAF, "01; ?0 -> 1 kind=INFORM contributors=0b11 count=2 flags=0; above; "
        "?1 -> 1 contributors=0b11 count=9 flags=CLOSED", "FIRST LAST DOWN INFORM2"),
    "probes at a root": (ROOT, "0; ?1 -> 1 kind=INFORM contributors=1 count=2 flags=0", "FIRST INFORM"),
    "greetings of a fresh slot": (
        EVERY, each("hello1 @{n} -> 1 kind=INFORM round={n} contributors=0 count=0 flags=0 words=0", ASKED), "INFORM6"),
    # Also those that are rounds behind or ahead, and of another call than the slot's.
    "greetings are told the slot's own round": (
        EVERY, "20 @7; "
        + each("hello1 @{n} bucket=9 -> 1 kind=INFORM round=7 contributors=0b101 count=2 flags=0", ASKED)
        + "; 13 @7; " + each("hello1 @{n} -> 1 kind=INFORM round=7 contributors=0b1111 count=4 flags=CLOSED", ASKED),
        "FIRST ADD2 LAST INFORM12"),
    # -- congestion: the next round starts without it
    **{f"congestion of worker {met} is told to all": (
        EVERY, "; ".join(f"{w} tos={tos(7, 0, 3 if w == met else 2)}" for w in range(4)) + " -> 4 flags=CE; "
        f"012 @1 tos={tos(7, 0, 2)}; 3 @1 -> 4 flags=0", "FIRST2 ADD4 LAST2") for met in range(4)},
    # -- trees
    "a leaf's partial result goes up and the result comes down": (
        LEAF, "0 -> 0; 1 -> 1 port=4 kind=CONTRIBUTE worker=3 count=2; above -> 2 contributors=0b11",
        "FIRST LAST DOWN"),
    "a partial result in the middle": (
        MIDDLE, "0 -> 0; 1 -> 1 port=4 kind=CONTRIBUTE worker=0 count=3; above -> 2 contributors=0b11",
        "FIRST LAST DOWN"),
    # The partial result or its answer was lost; then the result was lost below, and is this switch's own copy.
    **{f"loss above the {name} is repaired by any worker": (
        job, "0; 1; 10 -> 1 kind=CONTRIBUTE; above; 0 -> 1 kind=RESULT", "FIRST LAST ASK2 DOWN DUPLICATE")
        for name, job in (("leaf", LEAF), ("middle", MIDDLE))},
    "a second result and a late one are dropped": (
        LEAF, "01 @5; above @5; 01 @6; above @6; above @6 -> 0; above @5 -> 0; 0 @6",
        "FIRST2 LAST2 DOWN2 KNOWN2 DUPLICATE"),
    # The switch above closed without this one: nobody here is in, and all get the result.
    "left out above": (
        LEAF, "0; above contributors=0xF7 flags=INCOMPLETE -> 2 contributors=0; 1; "
        "above @1 contributors=0xF7 -> 2; 1 @1", "FIRST DOWN2 DUPLICATE2"),
    "a result before anyone here has sent": (LEAF, "above -> 2 contributors=0; 1 -> 1", "DOWN DUPLICATE"),
    "a flush goes up only when asked again": (
        LEAF, "0; 0 FLUSH -> 1 flags=INCOMPLETE; 0 FLUSH -> 1 flags=INCOMPLETE|FLUSH; 1; "
        "above flags=INCOMPLETE -> 2 contributors=1", "FIRST FLUSH ASK2 DOWN"),
    "a flush that says how many does not go up": (
        LEAF, "0; 0 FLUSH contributors=1 -> 1 flags=MISSING; 0 FLUSH contributors=1 -> 1 flags=MISSING; "
        "0 FLUSH -> 1 contributors=0 flags=MISSING|FLUSH", "FIRST FLUSH ASK2"),
    "missing below is said at the root": (ROOT, "0 flags=MISSING count=1; 1; 2 -> 3 flags=MISSING", "FIRST ADD LAST"),
    "a root of uneven switches": (ROOT, "20 -> 0; 1 -> 3 count=7; 2 -> 1", "FIRST ADD LAST DUPLICATE"),
    # A refusal has its reason, and changes nothing: a repeat still asks above.
    **{f"a refusal of the round goes to all workers of the {name}": (
        job, "01 @4; refused @4 count=15 chunk=77 -> 2 kind=REFUSED count=15 round=4 chunk=77 bucket=7 words=0; "
        "0 @4 -> 1", "FIRST LAST RELAY ASK") for name, job in (("leaf", LEAF), ("middle", MIDDLE))},
    # Whatever call it is about, and only while it is news. The slot here stays in its own round.
    **{f"a newer round above is told to all workers of the {name}": (
        job, "01 @4; stale @20 count=0 bucket=99 -> 2 kind=STALE round=20 count=0 contributors=0; hello0 -> 1 round=4; "
        "stale @4 bucket=99 -> 0; stale @3 bucket=99 -> 0; stale @0x80000004 bucket=99 -> 0",
        "FIRST LAST RELAY INFORM KNOWN3") for name, job in (("leaf", LEAF), ("middle", MIDDLE))},
}  # fmt: skip

# Played with the job's first op in its last slot.
ONCE: dict[str, Row] = {
    "a quorum leaves the late one out": (QUORUM, "2; 0 -> 3; 1 -> 1", "FIRST LAST DUPLICATE"),
    "a newer round overwrites": (FULL, "01; 0123 @5; 0123 @6 op=MAX32", "FIRST3 ADD5 LAST2"),
    "a stale packet changes nothing however late": (
        FULL, f"0 @{LATE}; " + each(f"1 @{{n}} -> 1 kind=STALE round={LATE} words=0",
                                    (LATE - k for k in (1, 2, 3, 1000, HALF - 1))) + f"; 123 @{LATE}",
        "FIRST STALE5 ADD2 LAST"),
    "rounds wrap around": (FULL, "0123 @0xFFFFFFFF; 0123; 0123 @1; 0 @0xFFFFFFFF -> 1", "FIRST3 ADD6 LAST3 STALE"),
    "half the circle away is not newer": (FULL, f"0; 1 @{HALF}", "FIRST STALE"),
    "a lost result, then a stale packet": (FULL, "0123; 0123 @1; 2; 2 @1", "FIRST2 ADD4 LAST2 STALE DUPLICATE"),
    "a job of one worker": (SINGLE, "0 -> 1; 0 -> 1", "LAST DUPLICATE"),
    # Below the fewest, the quorum itself, more, and numbers whose low bits would be good ones.
    "other numbers of a run are the job's quorum": (
        ELASTIC, each("012 @{k} contributors={n} -> 0; 3 @{k} contributors={n} -> 4",
                      (0, 1, 4, 5, 255, 256 + 2, 2**16 + 2, HALF, 2**32 - 2)), "FIRST9 ADD18 LAST9"),
    "a job without such runs takes no notice": (
        EVERY, "0 contributors=1 -> 0; 1 contributors=2 -> 0; 2 contributors=3 -> 0", "FIRST ADD2"),
    "each packet speaks for itself": (ELASTIC, "01 -> 0; 2 contributors=3 -> 4", "FIRST ADD LAST"),
    "a repeat does not close": (ELASTIC, "01; 0 contributors=2 -> 0", "FIRST ADD REPEAT"),
    "with flush the field means something else": (
        ELASTIC, "01 FLUSH contributors=2 -> 0; 1 FLUSH contributors=2 -> 4 flags=MISSING", "FIRST ADD FLUSH"),
    "a flush of one who is not in is a contribution": (
        FULL, "012 FLUSH contributors=1 -> 0; 3 FLUSH contributors=1 -> 4", "FIRST ADD2 LAST"),
    "such a flush fills a quorum": (QUORUM, "0 FLUSH contributors=1 -> 0; 1 FLUSH contributors=1 -> 3", "FIRST LAST"),
    "a flush for more than there can be": (
        FULL, "0; " + each("0 FLUSH contributors={n} -> 0", (2, 256, HALF, 2**32 - 1)), "FIRST REPEAT4"),
    # -- calls and questions
    "op and bucket both count": (QUORUM, "0; 1 op=MAX32; 1 bucket=8; 1 -> 3; 2 op=MAX32", "FIRST LAST CALL3"),
    "an older packet is stale whatever its call": (FULL, "0 @9; 1 @8 bucket=8 -> 1 kind=STALE", "FIRST STALE"),
    "a probe does not close a slot of one worker": (SINGLE, "?0 -> 1 kind=INFORM contributors=0", "INFORM"),
    "a probe with FLUSH does not close": (
        FULL, "0; ?0 FLUSH -> 1 kind=INFORM contributors=1 count=1 flags=0", "FIRST INFORM"),
    "a probe of an older round": (
        FULL, "0 @9; ?1 @8 -> 1 kind=STALE round=9 count=0 contributors=0 words=0", "FIRST STALE"),
    "a greeting changes nothing": (
        FULL, "0 @3; hello1 @2 FLUSH; hello1 @3 FLUSH; hello1 @4 FLUSH; 12 @3; 3 @3 -> 4", "FIRST INFORM3 ADD2 LAST"),
    "a greeting whatever the job's ops are": (NORMS, "hello2 -> 1 kind=INFORM round=0 contributors=0", "INFORM"),
    "greetings at a leaf": (
        LEAF, "01; hello0 @5 -> 1 round=0 contributors=0b11 count=2 flags=0; above; "
        "hello1 @5 -> 1 round=0 contributors=0b11 count=9 flags=CLOSED", "FIRST LAST DOWN INFORM2"),
    "greetings at a root": (ROOT, "0; hello1 @5 -> 1 round=0 contributors=1 count=2 flags=0", "FIRST INFORM"),
    # -- contributions that lack their low planes: two words cannot grow to eight
    "a cut duplicate of a whole result is told to come again": (
        FULL, "cut0; 123; cut0 -> 1 kind=INFORM words=0 contributors=0b1111 flags=TRIMMED|CLOSED; 0 -> 1 words=8",
        "FIRST ADD2 LAST INFORM DUPLICATE"),
    "a slot that a cut packet flushes": (
        FULL, "0; cut1; cut1 FLUSH contributors=2 -> 4 words=6 cut=0x82 flags=TRIMMED|MISSING", "FIRST ADD FLUSH"),
    "cut is forgotten in the next round": (
        SINGLE, "cut0; 0 @1 -> 1 words=8 cut=0 flags=0; ?0 @2 -> 1 cut=0", "LAST2 INFORM"),
    "cut ones repeat and get stale as others do": (
        WIDE, "cut0 @5; cut0 @5 -> 0; cut1 @4 -> 1 kind=STALE; ?1 @5 -> 1 cut=2", "FIRST REPEAT STALE INFORM"),
    "no cut ones at a leaf": (LEAF, "cut0", "WORDS"),
    "no cut ones from a lower switch": (ROOT, "cut0 count=2", "WORDS"),
    # -- priority and drop class: RESULT to all and to one, and STALE have class 0 and are ECN-capable
    **{f"replies to priority {p} are as urgent and protected": (
        SINGLE, f"0 @5 tos={tos(p, 3, 0)} -> 1 kind=RESULT tos={tos(p, 0, 2)}; "
        f"0 @5 tos={tos(p, 1, 0)} -> 1 kind=RESULT tos={tos(p, 0, 2)}; "
        f"0 @4 tos={tos(p, 1, 0)} -> 1 kind=STALE tos={tos(p, 0, 2)}", "LAST DUPLICATE STALE") for p in range(8)},
    "a partial result keeps its priority": (
        LEAF, f"0 tos={tos(2, 3, 0)}; 1 tos={tos(6, 2, 0)} -> 1 tos={tos(6, 0, 2)}", "FIRST LAST"),
    "ECN-capable is not congested": (EVERY, "0; 1 tos=1; 2 tos=2; 3 -> 4 flags=0", "FIRST ADD2 LAST"),
    "congestion of a repeat says nothing": (EVERY, "01; 1 tos=3; 2; 3 -> 4 flags=0", "FIRST ADD2 REPEAT LAST"),
    "congestion below is told above, and that above below": (
        LEAF, "0 tos=3; 1 -> 1 flags=CE; above @1 flags=CE -> 2 flags=CE", "FIRST LAST DOWN"),
    "flags of lower switches stay": (ROOT, "01 flags=MISSING|CE; 2 -> 3 flags=MISSING|CE", "FIRST ADD LAST"),
    # -- trees: one of the two hosts of a switch may be missing, but it stands for no more
    "a switch stands for no more than it may": (ROOT, "0 count=3; 0 count=0; 0 count=1", "COUNT2 FIRST"),
    "a refusal of another round is known": (
        LEAF, "01 @4; refused @3 -> 0; refused @5 -> 0; refused @0x80000000 -> 0", "FIRST LAST KNOWN3"),
    "after the result notices are known": (
        LEAF, "01 @4; above @4; refused @4 -> 0; stale @4 -> 0; 0 @4 -> 1", "FIRST LAST DOWN KNOWN2 DUPLICATE"),
    # After a renewal here: what the switch above has is newer than nothing, and nothing was asked.
    "notices in a slot of nobody": (LEAF, "refused -> 0; stale @3 -> 2", "KNOWN RELAY"),
}  # fmt: skip


def number(text: str) -> int:
    """Numbers and names of the model's, joined by |."""
    return sum(getattr(model, part) if hasattr(model, part) else int(part, 0) for part in text.split("|"))


def fields_of(words: list[str]) -> dict[str, int]:
    found = {}
    for word in words:
        name, _, value = word.replace("@", "round_=").partition("=")
        found[name if value else "flags"] = number(value or name)
    return found


def outcomes(game: Game, job: Job, who: str, slot: int, *, op: int, round_: int = 0, **fields: int) -> list[Frames]:
    """What leaves because of each packet."""
    if who == "above":
        return [game.result_from_above(job, slot, round_, op, **fields)]
    if who in ("stale", "refused"):
        return [game.notice_from_above(number(who.upper()), job, slot, round_, op, **fields)]
    kind = who.rstrip("0123456789")
    workers = list(map(int, who.removeprefix(kind)))
    if kind == "cut":
        return [game.cut(job, worker, slot, round_, **fields) for worker in workers]
    if not kind:
        return [game.contribute(job, worker, slot, round_, op, **fields) for worker in workers]
    op = model.NO_OP if kind == "hello" else op
    asked = [contribution(job, w, slot, round_, b"", op, count=job.workers[w].weight, **fields) for w in workers]
    return [game.send(job, packet._replace(kind=model.PROBE)) for packet in asked]


def play(game: Game, job: Job, op: int, slot: int, steps: str) -> None:
    for step in steps.split("; "):
        asked, _, wanted = step.partition(" -> ")
        who, *words = asked.split()
        for out in outcomes(game, job, who, slot, **{"op": op, **fields_of(words)}):
            if wanted:
                check(step, out, *wanted.split())


def check(step: str, out: Frames, frames: str, *words: str) -> None:
    assert len(out) == int(frames), step
    wanted = fields_of(list(words))
    for port, frame in out:
        packet = model.decode(frame[42:])
        # Random content of SUM32 earns OVERFLOW.
        seen = {**packet._asdict(), "flags": packet.flags & ~model.OVERFLOW, "port": port, "tos": frame[15]}
        assert {name: seen[name] for name in wanted} == wanted, step


def check_counted(game: Game, counted: str, times: int) -> None:
    wanted = {name: times * int(many or 1) for name, many in re.findall(r"([A-Z_]+)(\d*)", counted)}
    found = Counter({name: many for name, many in game.golden.verdicts.items() if name != "REJECT"})
    assert found + game.golden.rejects == wanted


@pytest.mark.parametrize("name", WITH_EACH_OP)
def test_a_schedule_with_each_op(game: Game, name: str) -> None:
    job, steps, counted = WITH_EACH_OP[name]
    for slot, op in enumerate(model.OPS):
        play(game, job, op, slot, steps)
    check_counted(game, counted, len(model.OPS))


@pytest.mark.parametrize("name", ONCE)
def test_a_schedule(game: Game, name: str) -> None:
    job, steps, counted = ONCE[name]
    play(game, job, min(job.ops), job.slots - 1, steps)
    check_counted(game, counted, 1)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.few(15)
def test_random_schedules(rig: Rig, seed: int) -> None:
    """Loss, duplication, reordering, stale packets, flushes, cut ones, questions, results and notices from above: 200
    packets each, all answers and counts compared."""
    game, rng = Game(rig, rng=np.random.default_rng(seed)), np.random.default_rng([seed, 1])
    jobs = ((FULL, QUORUM, WIDE), (EVERY, FULL, WIDE), (LEAF, MIDDLE, ROOT), (EVERY, QUORUM, LEAF))[seed % 4]
    old: list[tuple[Job, model.Packet]] = []
    for step in range(200):
        job, slot, round_ = jobs[rng.integers(3)], int(rng.integers(3)), step // 30 - int(rng.random() < 0.1)
        op = model.OPS[slot] if job.ops == ALL_OPS else int(rng.choice([model.THC] * 9 + [model.MAX32]))
        worker, bucket = int(rng.integers(len(job.workers))), 7 + int(rng.random() < 0.05)
        call = {"op": op, "round_": round_ % 2**32, "bucket": bucket}
        flush = {"flags": model.FLUSH, "contributors": int(rng.integers(4))} if rng.random() < 0.2 else {}
        match rng.choice(["above", "notice", "ask", "again", *["send"] * 5]):
            case "above" if job.parent:
                outcomes(game, job, "above", slot, **call, contributors=int(rng.integers(256)))
            case "notice" if job.parent:
                outcomes(game, job, str(rng.choice(["stale", "refused"])), slot, **call, count=int(rng.integers(256)))
            case "ask":
                outcomes(game, job, f"{rng.choice(['?', 'hello'])}{worker}", slot, **call)
            case "again" if old:
                game.send(*old[rng.integers(len(old))])
            case _ if op == model.THC and rng.random() < 0.2:
                outcomes(game, job, f"cut{worker}", slot, **call, **flush)
            case _ if job.workers[worker].is_switch:
                outcomes(game, job, str(worker), slot, **call, **flush, tos=int(rng.integers(256)))
            case _:
                payload = random_payload(rng, op)
                packet = contribution(job, worker, slot, round_ % 2**32, payload, op, bucket=bucket, **flush)
                old.append((job, packet))
                game.send(job, packet, tos=int(rng.integers(256)))
        game.later(int(rng.integers(0, 15_000)))
    game.check_counters()
