# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire pays`: what it asks, what it computes, and what it recommends. Nothing is measured here."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import pytest
from sumwire import cli
from sumwire.dlcp.layers import shapes_of
from sumwire.errors import ConfigError
from sumwire.start import launchers, paths, trial
from sumwire.start.errors import PlaceError
from sumwire.systems import pays
from sumwire.systems.pays import Answer, HostCost, Measured, Question

STEP_S = 2.7e-4
FAST = Measured(
    {name: HostCost(1e-12) for name in (pays.GLOO, "fp16", pays.POWER_SGD, "thc", "sum32", "acp", "marsit")}, STEP_S
)


def asked(
    params: str = "102.4M",
    rate: str = "100M",
    rtt: str = "0.2ms",
    workers: int = 8,
    *,
    shapes: str | None = None,
    rank: int = 4,
    aggregator: str | None = None,
) -> Question:
    return pays.question(pays.tensors_of(params, shapes, None), rate, rtt, workers, rank=rank, aggregator=aggregator)


def answers(question: Question) -> dict[str, Answer]:
    return {one.system: one for one in pays.answers(question, FAST)}


@pytest.mark.parametrize(
    ("params", "values"), [("110M", 110_000_000), ("6.0M", 6_000_000), ("1500", 1500), (".5k", 500), ("1.3G", 1.3e9)]
)
def test_units(params: str, values: int) -> None:
    assert asked(params).values == values
    assert asked(rate="2.5G").link_bps == 2.5e9
    assert [asked(rtt=text).rtt_s for text in ("200us", "0.2ms", "2s")] == pytest.approx([2e-4, 2e-4, 2])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("params", text) for text in ("", "M", "1X", "0M", "-1M", "1e6", "1001G", "nan", "inf")),
        *(("rate", text) for text in ("10", "0", "1Gbit", "1 G")[2:]),
        *(("rtt", text) for text in ("1", "0ms", "1M")),
        ("aggregator", "fast"),
        *(
            ("shapes", text)
            for text in ("", "3y4", "3x", "0x3", "2x2,", "20000x20000", "1x1*9999999999999", "1x1*100001")
        ),
        ("workers", 1),
        ("rank", 0),
    ],
)
def test_what_is_wrong_is_named(option: str, value: str | int) -> None:
    with pytest.raises(ConfigError, match=rf"pays: --{option} = .*must .*; (write|correct)"):
        asked(**{option: value})  # type: ignore[arg-type]


def test_shapes_and_the_rest() -> None:
    told = [item.shape for item in asked("1M", shapes="300x400*2,5x4x3,7").plan.items]
    assert told == [(300, 400), (300, 400), (5, 4, 3), (7,), (1_000_000 - 240_067,)]
    assumed = [item.shape for item in asked("2.5M").plan.items]
    assert assumed == [(1024, 1024), (1024, 1024), (2_500_000 - 2 * 1024 * 1024,)]


def test_bytes_by_hand() -> None:
    found = answers(asked("102.4M", shapes="1024x1000*100"))
    # A ring of eight, 1.75 times 409.6 MB, in segments of 1448 of 1514.
    assert found["ssgd"].up_bytes == found["ssgd"].down_bytes == pytest.approx(1.75 * 409.6e6 * 1514 / 1448)
    assert found["fp16"].up_bytes == pytest.approx(found["ssgd"].up_bytes / 2)
    # 100,000 packets of 74 + 512 up, 74 + 1024 down, in 16 buckets.
    assert found["thc"].up_bytes == pytest.approx(586e5, rel=1e-3)
    assert found["thc"].down_bytes == pytest.approx(1098e5, rel=1e-3)
    # P and Q of rank 4: 100 times 4 * 2024 values, ACP one of them by turns.
    assert found["powersgd"].up_bytes == pytest.approx(1.75 * 4 * 809_600 * 1514 / 1448)
    assert found["acp"].up_bytes == pytest.approx(404_800 / 256 * 1098, rel=0.01)
    # 99 rounds of 12,500 packets with signs, one of 400,000.
    assert found["marsit"].up_bytes == pytest.approx(0.99 * 12_500 * 1098 + 0.01 * 400_000 * 1098, rel=1e-3)


def test_what_limits() -> None:
    found = answers(asked())
    assert (found["ssgd"].limit, found["thc"].limit) == ("link", "link")
    # 8 bits of 109.8 MB at 100 Mbit/s, the rest is below 4 %.
    assert found["thc"].seconds == pytest.approx(8.784, rel=0.04)
    # The results of eight workers over one link as fast as theirs.
    shared = answers(asked(aggregator="100M"))
    assert shared["thc"].limit == "aggregator's link"
    assert shared["thc"].seconds == pytest.approx(8 * 8.784, rel=0.04)
    assert shared["ssgd"] == found["ssgd"]
    # 2048 packets under way in a second.
    far = answers(asked(rtt="1s"))["thc"]
    assert far.limit == "round trips"
    assert far.seconds > 100_000 / 2048
    # Fourteen hops of half a second for each of 16 buckets; thrice with Power-SGD.
    hops = {name: one.seconds for name, one in answers(asked(rate="1000G", rtt="1s")).items()}
    assert (hops["ssgd"], hops["powersgd"]) == pytest.approx((112, 336), rel=0.01)
    slow = pays.answers(asked(rate="100G"), Measured({"thc": HostCost(1e-6)}, STEP_S))[0]
    assert slow.limit == "processor"
    assert slow.seconds == pytest.approx(102.4 / pays.BUSY, rel=0.01)


def test_a_small_tensor_takes_a_step_and_its_processor_time() -> None:
    """One of six chunks, in which nothing else takes time."""
    question = asked("1500", "1000G", ".001us", aggregator="1000G")
    cost = HostCost(1e-3 / 1500, aggregator_s=2e-3 / 1500 / 8)
    (alone,) = pays.answers(question, Measured({"sum32": replace(cost, aggregator_s=0.0)}, STEP_S))
    assert alone.seconds == pytest.approx(STEP_S + 1e-3 / pays.BUSY, rel=0.01)
    # The aggregator is the slower one.
    (beside,) = pays.answers(question, Measured({"sum32": cost}, STEP_S))
    assert beside.seconds == pytest.approx(STEP_S + 2e-3 / pays.BUSY, rel=0.01)
    (switch,) = pays.answers(replace(question, aggregator_bps=None), Measured({"sum32": cost}, STEP_S))
    assert switch.seconds == pytest.approx(alone.seconds, rel=1e-3), "a P4 switch is as fast as its ports"


def test_the_slowest_machine_counts() -> None:
    """Each of its numbers."""
    quick = asdict(Measured({"ssgd": HostCost(2e-9), "thc": HostCost(5e-9, 3e-10, asks=True)}, 3e-4, {"vote": "why"}))
    slow = asdict(Measured({"ssgd": HostCost(9e-9), "thc": HostCost(4e-9, 4e-10, asks=True)}, 2e-4, {"vote": "why"}))
    found = Measured.slowest([quick, slow])
    assert found.hosts == {"ssgd": HostCost(9e-9), "thc": HostCost(5e-9, 4e-10, asks=True)}
    assert (found.step_s, found.left_out) == (3e-4, {"vote": "why"})


def test_power_sgd_sums_three_times_and_hides_nothing() -> None:
    """In each of 16 buckets: whole tensors, P and Q, one after the other, and computation between them."""
    hosts = {pays.GLOO: HostCost(1e-10), **dict.fromkeys((pays.POWER_SGD, "acp", "thc"), HostCost(1e-8))}
    costs = Measured(hosts, STEP_S)
    _, power, acp, thc = pays.answers(asked(shapes="1024x1000*100", rtt="1us"), costs)
    computing = 102.4e6 * 1e-8 / pays.BUSY
    steps = 16 * 3 * 14 * (STEP_S + 0.5e-6)
    assert power.seconds == pytest.approx(computing + steps + 8 * power.up_bytes / 1e8, rel=1e-3)
    # One round trip for each bucket, and P or Q.
    assert acp.seconds == pytest.approx(computing + 16 * STEP_S + 8 * acp.up_bytes / 1e8, rel=1e-3)
    # THC's packets leave while the next ones are encoded.
    assert thc.seconds < 0.9 * computing + 8 * thc.down_bytes / 1e8


def test_conversions_of_the_fp16_hook_are_not_hidden_behind_its_ring() -> None:
    """Its ring takes half of gloo's processor time: of 4 ns a value 1 ns, or all of 1 ns."""
    question = replace(asked("1M", "2G", "1us"), cores=8)
    wire = 8 * pays.answers(question, FAST)[1].up_bytes / 2e9
    for value_s, apart in ((4e-9, 0.25 * pays.APART + 0.75), (1e-9, pays.APART)):
        costs = Measured({pays.GLOO: HostCost(2e-9), "fp16": HostCost(value_s)}, STEP_S)
        gloo, fp16 = pays.answers(question, costs)
        shorter, longer = sorted((wire, 1e6 * value_s / pays.BUSY))
        assert fp16.seconds - 14 * (STEP_S + 0.5e-6) == pytest.approx(longer + apart * shorter, rel=1e-3)
        shorter, longer = sorted((2 * wire, 1e6 * 2e-9 / pays.BUSY))
        assert gloo.seconds - 14 * (STEP_S + 0.5e-6) == pytest.approx(longer + pays.APART * shorter, rel=1e-3)


def answer(system: str, seconds: float) -> Answer:
    return Answer(system, seconds, 1e6, 1e6, 1.0, "link")


def test_recommendations() -> None:
    gloo, thc, marsit = answer("ssgd", 6.0), answer("thc", 1.0), answer("marsit", 0.2)
    assert pays.recommendation([gloo, thc]) == "take thc: 1 s a step for gloo's 6, 6.0 times faster"
    assert pays.recommendation([gloo, thc, marsit]).splitlines()[1].startswith("faster, but try your model's accuracy")
    stock = pays.recommendation([gloo, thc, marsit, answer("powersgd", 0.5)]).splitlines()[1]
    assert stock.endswith("first: marsit (0.2 s), Power-SGD hook (0.5 s)")
    assert pays.recommendation([gloo, thc, answer("powersgd", 0.95)]).count("\n") == 0
    assert pays.recommendation([gloo, answer("fp16", 3.0)]).startswith("take fp16 hook: ")
    for other in (5.5, 7.0):
        assert pays.recommendation([gloo, answer("thc", other)]).startswith("stay with gloo: ")


def test_the_table_says_what_was_left_out_and_what_is_assumed() -> None:
    left_out = {"vote": "a switch takes 15 workers at most"}
    text = pays.as_text([answer("ssgd", 6.0)], left_out, asked(), assumed=True)
    assert text.splitlines()[1].split() == ["gloo", "6.0000", "1.00", "1.00", "1.00", "link"]
    assert "left out: vote: a switch takes 15 workers at most" in text
    assert "assumed: matrices of 1024x1024" in text
    assert "assumed" not in pays.as_text([answer("ssgd", 6.0)], {}, asked(), assumed=False)


def test_the_shapes_of_a_model() -> None:
    of_model = pays.tensors_of(None, None, "bert-base")
    assert of_model == [shape for _, shape in shapes_of("bert-base")]
    values = sum(map(math.prod, of_model))
    assert of_model != pays.tensors_of(str(values), None, None), "square matrices are assumed without it"
    with pytest.raises(ConfigError, match="--model = 'bert-base': must be given without --shapes; leave --shapes out"):
        pays.tensors_of(None, "2x2", "bert-base")


@pytest.mark.parametrize("rank", [0, 1])
def test_what_ranks_measure_is_what_is_asked(
    rank: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 0 alone prints, and with the highest costs of all ranks. An option goes before what was measured."""
    left: list[int] = []
    costs = [asdict(Measured({"ssgd": HostCost(value_s)}, STEP_S)) for value_s in (2e-9, 9e-9)]
    ranks = SimpleNamespace(rank=rank, gather=lambda own, patience_s: costs, leave=lambda: left.append(rank))
    monkeypatch.setattr(paths, "meeting", lambda: ranks)
    monkeypatch.setattr(paths, "measured", lambda given: paths.Paths(3, 5e7, 2e-3) if given is ranks else None)
    monkeypatch.setattr(trial, "measured", lambda asked: Measured({"ssgd": HostCost(2e-9)}, STEP_S))
    assert cli.main(["pays", "--params", "1M", "--rtt", "1ms", "--json"]) == 0
    assert left == [rank]
    printed = capsys.readouterr().out
    assert bool(printed) == (rank == 0)
    if printed:
        told = json.loads(printed)
        assert (told["workers"], told["link_bps"], told["rtt_s"]) == (3, 5e7, 1e-3)
        assert told["systems"][0]["host_ms"] == pytest.approx(9.0)


def test_one_machine_is_told_a_rate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert cli.main(["pays", "--params", "1M"]) == 1
    said = capsys.readouterr().err
    assert "--rate = None: must be given where one machine is asked; write --rate 1G, or have torchrun" in said


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"RANK": "0", "WORLD_SIZE": "4"}, "but no MASTER_ADDR, MASTER_PORT in the environment: start the ranks by"),
        ({"RANK": "x", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, "RANK = 'x' in the environment"),
        ({"RANK": "0", "WORLD_SIZE": "no", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, "WORLD_SIZE = 'no' in the env"),
    ],
)
def test_ranks_that_no_launcher_has_started(
    environment: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in launchers.RENDEZVOUS:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PlaceError, match=message):
        paths.meeting()


@pytest.mark.parametrize("error", [TimeoutError("timed out"), ConnectionResetError("reset")])
def test_a_rank_that_ends_meanwhile_is_a_typed_error(error: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(meeting: object, own: str) -> None:
        raise error

    monkeypatch.setattr(paths, "_own_address", lambda meeting: "10.0.0.1")
    monkeypatch.setattr(paths, "_by_rank", ended)
    ranks: Any = SimpleNamespace(ranks=2, gather=lambda own: ["a", "b"], telling=lambda make: make())
    with pytest.raises(PlaceError, match="a rank has ended while paths were measured: see its output"):
        paths.measured(ranks)


def test_ranks_of_one_machine_have_no_link_between_them() -> None:
    with pytest.raises(PlaceError, match="ranks 0 and 2 are on one machine, so no link is between them: start one"):
        paths._check_places(["a", "b", "a"])
