# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Random numbers, and impairments that draw from them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from softswitch.runtime.impair import (
    HOLD_LIMIT_NS,
    MAX_HELD_FRAMES,
    Impairment,
    ImpairmentError,
    ImpairmentSpec,
    SplitMix,
    parse_impairment,
)

# What the authors' own C code prints for this seed.
SEED = 1234567
FIRST = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]


def test_the_sequence_is_the_published_one() -> None:
    generator = SplitMix(SEED)
    assert [generator.next() for _ in FIRST] == FIRST


def test_seeds_count_modulo_two_to_the_64() -> None:
    assert SplitMix(SEED + (1 << 64)).next() == SplitMix(SEED - (1 << 64)).next() == FIRST[0]


def test_without_a_seed_every_generator_is_another() -> None:
    assert len({SplitMix().next() for _ in range(20)}) == 20


def test_one_limb_scales_the_first_draw() -> None:
    """FIRST[0] / 2^64 is 0.35007..."""
    assert SplitMix(SEED).integer(0, 99, 1) == 35
    assert SplitMix(SEED).integer(-50, 49, 1) == -15
    assert SplitMix(SEED).integer(7, 7, 1) == 7


def test_more_limbs_are_drawn_from_the_lowest_on() -> None:
    generator = SplitMix(SEED)
    assert generator.integer(0, (1 << 128) - 1, 2) == FIRST[0] | FIRST[1] << 64
    assert generator.next() == FIRST[2]


@pytest.mark.parametrize("limbs", [1, 3])
def test_every_number_of_the_range_comes_about_as_often(limbs: int) -> None:
    generator = SplitMix(3)
    seen = Counter(generator.integer(10, 15, limbs) for _ in range(6000))
    assert sorted(seen) == [10, 11, 12, 13, 14, 15]
    assert all(850 < times < 1150 for times in seen.values())  # five standard deviations


FRAMES = [number.to_bytes(4) for number in range(4000)]


def passed(spec: ImpairmentSpec, direction: str = "1 rx", gap_ns: int = 0) -> list[bytes]:
    """Everything that comes through when FRAMES go in ``gap_ns`` apart, and the rest at the end."""
    impairment = Impairment(spec, direction)
    out: list[bytes] = []
    for number, frame in enumerate(FRAMES):
        out += impairment.poll(number * gap_ns)
        out += impairment.push(frame, number * gap_ns)
    return out + impairment.poll(len(FRAMES) * gap_ns + HOLD_LIMIT_NS)


def test_nothing_is_nothing() -> None:
    assert passed(ImpairmentSpec()) == FRAMES


def test_all_lost() -> None:
    assert passed(ImpairmentSpec(drop=1.0)) == []


def test_all_doubled() -> None:
    assert passed(ImpairmentSpec(dup=1.0)) == [frame for frame in FRAMES for _ in range(2)]


@pytest.mark.parametrize(("key", "change"), [("drop", -1), ("dup", 1)])
def test_rates(key: str, change: int) -> None:
    out = passed(ImpairmentSpec(**{key: 0.1}, seed=3))  # type: ignore[arg-type]
    # 400 expected, standard deviation 19.
    assert 320 < change * (len(out) - len(FRAMES)) < 480


def test_reordering_keeps_every_frame_and_moves_it_by_at_most_the_limit() -> None:
    out = passed(ImpairmentSpec(reorder=0.1, seed=5))
    assert Counter(out) == Counter(FRAMES)
    late = [frame for place, frame in enumerate(out) if any(later > frame for later in out[max(0, place - 3) : place])]
    assert 320 < len(late) < 480
    # Frames that go by while one is held: 1..3, and those held in the same moment besides.
    places = {frame: place for place, frame in enumerate(out)}
    assert max(places[frame] - number for number, frame in enumerate(FRAMES)) <= 2 * MAX_HELD_FRAMES


def test_a_held_frame_goes_out_when_its_time_is_up() -> None:
    impairment = Impairment(ImpairmentSpec(reorder=1.0), "1 tx")
    assert impairment.push(b"frame", 10) == []
    assert impairment.deadline_ns == 10 + HOLD_LIMIT_NS
    assert impairment.poll(10 + HOLD_LIMIT_NS // 2) == []
    assert impairment.poll(10 + HOLD_LIMIT_NS) == [b"frame"]
    assert impairment.deadline_ns is None


def test_slow_traffic_is_delayed_but_never_overtaken() -> None:
    assert passed(ImpairmentSpec(reorder=0.5, seed=1), gap_ns=2 * HOLD_LIMIT_NS) == FRAMES


def test_seed_and_direction_decide() -> None:
    spec = ImpairmentSpec(drop=0.1, dup=0.1, reorder=0.1, seed=7)
    assert passed(spec) == passed(spec)
    assert passed(spec) != passed(spec, direction="1 tx")
    assert passed(spec) != passed(ImpairmentSpec(drop=0.1, dup=0.1, reorder=0.1, seed=8))


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.integers(0, 99))
def test_counters_account_for_every_frame(drop: float, dup: float, reorder: float, seed: int) -> None:
    impairment = Impairment(ImpairmentSpec(drop=drop, dup=dup, reorder=reorder, seed=seed), "2 rx")
    out: list[bytes] = []
    for frame in FRAMES[:200]:
        out += impairment.push(frame, 0)
    out += impairment.poll(HOLD_LIMIT_NS)
    assert len(out) == 200 - impairment.counters.dropped + impairment.counters.duplicated
    assert set(out) <= set(FRAMES[:200])


def test_parse() -> None:
    assert parse_impairment("drop=0.01,dup=0.02,reorder=0.03,seed=7") == ImpairmentSpec(0.01, 0.02, 0.03, 7)
    assert parse_impairment("ports=1+2,drop=1") == ImpairmentSpec(drop=1.0, ports=frozenset({1, 2}))
    assert parse_impairment("drop=0.5,direction=tx") == ImpairmentSpec(drop=0.5, receive=False)
    assert parse_impairment("") == ImpairmentSpec()
    spec = parse_impairment("ports=1+2")
    assert [spec.applies(port) for port in (1, 2, 3)] == [True, True, False]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lose=0.1", "lose=0.1: unknown key"),
        ("drop", "write key=value"),
        ("drop=much", "drop=much: not a number"),
        ("drop=1.5", "drop=1.5: a probability is in 0..1"),
        ("dup=-0.1", "dup=-0.1"),
        ("drop=nan", "drop=nan"),
        ("seed=x", "seed=x: not an integer"),
        ("ports=1+b", "ports=b"),
        ("direction=up", "direction=up"),
        ("drop=0.1,drop=0.2", "drop: given twice"),
    ],
)
def test_parse_errors(text: str, words: str) -> None:
    with pytest.raises(ImpairmentError, match=words.replace("+", r"\+")):
        parse_impairment(text)


def test_a_delayed_frame_arrives_that_much_later_in_order() -> None:
    impairment = Impairment(parse_impairment("delay=12.5"), "1 tx")
    assert impairment.push(b"first", 0) == []
    assert impairment.push(b"second", 1_000_000) == []
    assert impairment.deadline_ns == 12_500_000
    assert impairment.poll(12_499_999) == []
    assert impairment.push(b"third", 12_500_000) == [b"first"]
    assert impairment.poll(25_000_000) == [b"second", b"third"]
    assert impairment.deadline_ns is None


def test_a_delay_beyond_the_limit_is_refused() -> None:
    with pytest.raises(ImpairmentError, match=r"delay=10001\.0: milliseconds are in 0\.\.10000"):
        parse_impairment("delay=10001")
