# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Simulated schedules in short form; `make simulate` plays many."""

from __future__ import annotations

import contextlib
import json
import operator
import re
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from golden import model
from simulate import cli, flow, many, mutations, shrink
from simulate.flow import Tally, told_apart
from simulate.network import Terms, Weather
from simulate.play import Outcome, Play, play
from simulate.schedule import Fault, Schedule, Step, Variant, drawn, with_key, with_masks, with_restarts
from simulate.switches import Frames
from simulate.world import WRONG_SUM
from sumwire.transport.congestion import WindowLimit
from sumwire_lab.verify import papers_dlcp
from sumwire_protocol import constants as p4

pytestmark = pytest.mark.cc

CALM = Schedule(
    seed=1, terms=Terms("star3", 4, 3), weather=Weather(), steps=(Step("reduce", 3000, 7),), skew_s=(0,) * 3
)


FORGOTTEN = Schedule(
    seed=2565269077536216397,
    terms=Terms("tree11", 8, 2),
    weather=Weather(0.2, 0.02, 0.1, 0.01, (5e-05, 0.0001)),
    steps=(Step("reduce", 1018, 64762, 0.05), Step("reduce", 3058, 37077, 0.001)),
    faults=(
        Fault("switch", 0.0, frame=92, who=1, for_s=0.01, empty=True),
        Fault("sends", 0.0, frame=192, who=1, for_s=0.012301574495274317),
        Fault("renew", 0.003570683115103894),
    ),
    group=True,
    loss_bound=0.1,
    trains=True,
    skew_s=(0.0, 2.826646755603499),
    renews=False,
)


# A job that is renewed in mid-run, so that workers know of different latest rounds when they greet once more.
UNLIKE_ROUNDS = Schedule(
    seed=2790346173377689596,
    terms=Terms("star3", 4, 3),
    weather=Weather(0.2, 0.02, 0.1, 0.1, (0.0005, 0.0005)),
    steps=(
        Step("reduce", 1018, 38851, 1.5), Step("reduce", 1018, 38851, 1.5), Step("reduce", 767, 28367, 1.5)
    ),
    faults=(Fault("renew", 0.0, frame=83, who=1, for_s=2.450644582229997, empty=True),),
    group=True,
    loss_bound=0.3,
    one_trip=False,
    skew_s=(0.0, 0.0, 0.0),
)  # fmt: skip


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.long) for first in range(20, 200, 20))])
def test_drawn_schedules_violate_nothing(first: int) -> None:
    found = {seed: violations for seed in range(first, first + 20) if (violations := play(drawn(seed)).violations)}
    assert found == {}


@pytest.mark.parametrize("seed", [301759, 303655])
def test_a_straggler_of_a_renewed_job_does_not_open_its_run_once_more(seed: int) -> None:
    """Before openings named the generation, the straggler's results differed from the others'."""
    assert play(drawn(seed)).violations == []


def test_greetings_in_different_rounds_meet_where_chunks_are_sprayed() -> None:
    """Their first chunks once went to different roots, so nobody heard of the newer round."""
    assert play(drawn(304045)).violations == []


def test_a_rank_in_a_run_that_another_rank_has_left_for_a_new_greeting_falls_back() -> None:
    """The job was renewed while its ranks returned to the switch. Rank 0 had joined the run, and rank 1 had not. Rank 0
    took rank 1's next greeting for a run of other processes, and ended the job."""
    assert play(drawn(1969)).violations == []


def test_ranks_that_return_and_do_not_meet_fall_back_again() -> None:
    """With a quorum of one. Two ranks that had never greeted before greeted 10 rounds away from the third, which took
    that for its own run, and all ended because no result came."""
    assert play(drawn(2857)).violations == []


@pytest.mark.parametrize("seed", [1004997, 1025733])
def test_a_late_packet_closes_no_round_behind_a_newer_greeting(seed: int) -> None:
    """At the aggregator, and at the P4 program. With a quorum of one it closed a slot for the second time."""
    assert play(drawn(seed)).violations == []


def test_a_greeting_that_ends_while_the_ranks_agree_was_a_greeting() -> None:
    """The root of a tree was down, and came back in the round in which the ranks told that they wait for it."""
    assert play(drawn(1005149)).violations == []


def test_a_rank_that_greets_for_the_first_time_after_a_return_falls_back_too() -> None:
    """The job was renewed before its first greeting ended, so the ranks fell back. One got its only result from
    another. Then they returned, and the switch was down."""
    assert play(drawn(2025131)).violations == []


@pytest.mark.parametrize("seed", [2104471, 2125851])
def test_a_worker_that_lost_a_greetings_result_does_not_end_the_run_of_the_others(seed: int) -> None:
    """With a quorum of one and two slots. The others were 16 rounds on before it asked, in the opening and before it.
    It took that for a newer greeting, and began one, in which it was alone."""
    assert play(drawn(seed)).violations == []


def test_a_late_result_from_above_does_not_take_the_next_runs_slot() -> None:
    """A leaf was restarted empty. Its worker was told that others make another call, and the job ended."""
    assert play(drawn(2125516)).violations == []


def test_a_late_greeting_of_processes_before_ends_no_run_of_a_group() -> None:
    assert play(drawn(3022974)).violations == []


def test_late_answers_let_nobody_spin_who_asks_who_is_missing() -> None:
    assert play(drawn(1013498)).violations == []


def test_workers_of_a_tree_do_not_overtake_each_others_greetings_for_ever() -> None:
    assert play(drawn(1080835)).violations == []


PAGE = Path(__file__).parents[3] / "docs" / "simulator.md"
KEYED = replace(
    CALM,
    terms=Terms("star3", 4, 3, keyed=True),
    weather=Weather(flip=0.1),
    steps=(Step("reduce", 20_000, 7), Step("sum32", 4000, 8)),
)


@pytest.mark.parametrize("native", [True, False])
def test_changed_bits_change_no_sum_of_a_job_with_a_key(native: bool) -> None:
    outcome = play(replace(KEYED, native=native))
    assert (outcome.violations, outcome.errors) == ([], [])


def test_without_a_look_at_tags_changed_bits_are_found() -> None:
    with mutations.mutated("workers-check-no-tags"):
        assert play(KEYED).violations


@pytest.mark.parametrize("shape", ["star3", "tree21"])
@pytest.mark.parametrize("reason", [p4.REJECT_CALL, p4.REJECT_TOKEN, p4.REJECT_JOB])
def test_made_up_refusals_end_no_run_of_a_job_with_a_key(reason: int, shape: str) -> None:
    """In the tree the workers of one leaf wait for the switch above."""
    outcome, sent = _with_refusals(replace(KEYED, terms=replace(KEYED.terms, shape=shape)), reason)
    assert (outcome.violations, outcome.errors, outcome.runs) == ([], [], 1)
    assert outcome.virtual_s > 8.0 and sent > 100


def test_without_a_key_made_up_refusals_end_runs() -> None:
    outcome, _ = _with_refusals(replace(KEYED, terms=Terms("star3", 4, 3)), p4.REJECT_JOB)
    assert any("JOB" in error for error in outcome.errors)


def _with_refusals(schedule: Schedule, reason: int) -> tuple[Outcome, int]:
    """Play a schedule in which somebody on the way answers each contribution and question by a REFUSED too, while one
    worker is stopped for 8 s. And how many were made up."""
    stopped = Fault("pause", 0.0, frame=60, who=2, for_s=8.0)
    run, sent = Play(replace(schedule, weather=Weather(), faults=(stopped,))), [0]

    def refuse(source: str, target: str, frame: bytes, delays: list[float]) -> None:
        packet = model.decode(frame[42:])
        if packet.kind not in (model.CONTRIBUTE, model.PROBE) or "-" in source:
            return
        changed = {"kind": model.REFUSED, "count": reason, "contributors": 0, "flags": 0, "words": 0, "cut": 0}
        data = packet._replace(payload=b"", tag=b"", **changed).encode()
        worker, switch = ((socket.inet_ntoa(frame[at : at + 4]), int.from_bytes(frame[port : port + 2]))
                          for at, port in ((26, 34), (30, 36)))  # fmt: skip
        sent[0] += 1
        run.world.after(0.0001, lambda: run.machine.deliver(worker, data, switch, tos=0))

    run.network.on_wire = refuse
    return run.play(), sent[0]


@pytest.mark.parametrize("native", [True, False], ids=["c", "python"])
def test_marks_of_queues_reach_the_windows_of_simulated_hosts(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third datagram to a host is marked on its way, in trains and between them."""
    run = Play(replace(CALM, loss_bound=0.05, trains=True, native=native, steps=(Step("reduce", 60_000, 7),)))
    deliver, count, seen = run.machine.deliver, [0], [0]

    def marked(target: tuple[str, int], data: bytes, sender: tuple[str, int], tos: int) -> None:
        count[0] += 1
        deliver(target, data, sender, tos | p4.ECN_CE if count[0] % 3 == 0 else tos)

    results = WindowLimit.results

    def observed(limit: WindowLimit, count: int, now: float, *, marked: int) -> None:
        seen[0] += marked
        results(limit, count, now, marked=marked)

    monkeypatch.setattr(WindowLimit, "results", observed)
    monkeypatch.setattr(run.machine, "deliver", marked)
    assert run.play().violations == []
    # Nearly all that hosts get are results.
    assert 0.9 * count[0] / 3 < seen[0] <= count[0] / 3


@pytest.mark.parametrize("seed", [2, 5, 13])
def test_drawn_schedules_with_keys_violate_nothing(seed: int) -> None:
    assert play(with_key(drawn(seed))).violations == []


def test_a_greeting_sees_that_another_one_has_begun_less_than_16_rounds_later() -> None:
    """It was in round 17 and others in 32. It took that for rounds of the same run, and waited for its result."""
    assert play(UNLIKE_ROUNDS).violations == []


@pytest.mark.parametrize("seed", [3, 8])
def test_drawn_schedules_of_blind_jobs_violate_nothing(seed: int) -> None:
    assert play(with_masks(drawn(seed))).violations == []


def test_blind_jobs_send_sums_of_masked_elements_alone() -> None:
    run, ops = Play(with_masks(CALM)), Counter[int]()

    def look(name: str, port: int, frame: bytes, leaving: Frames) -> None:
        packet = model.decode(frame[42:])
        if packet.kind == model.CONTRIBUTE:
            ops[packet.op] += 1

    run.network.on_frame = look
    assert run.play().violations == []
    # The greeting looks at the table by one chunk of THC.
    assert (ops[model.THC], ops[model.SUM32] > 5) == (CALM.workers, True)


@pytest.mark.parametrize("seed", [1, 11, 20])
def test_drawn_schedules_with_restarts_of_single_workers_violate_nothing(seed: int) -> None:
    assert play(with_restarts(drawn(seed))).violations == []


def test_a_worker_that_is_started_again_alone_is_in_no_earlier_sum() -> None:
    outcome = play(replace(CALM, faults=(Fault("restart", 0.0, frame=30, who=1, for_s=0.1),)))
    assert (outcome.violations, outcome.runs) == ([], 2)
    # The new process waits in its greeting for those that go on, or ends their run.
    assert any("worker 1 again 1" in error for error in outcome.errors)


def test_a_greeting_under_a_loss_bound_that_is_overtaken_in_a_tree_begins_again() -> None:
    # The root was down for 7 s. Then one leaf's workers greeted in a later round than the other leaf's, which asked
    # each other for a result that nobody had.
    assert play(drawn(407622)).violations == []


@pytest.mark.parametrize("seed", [1, 10, 36])
def test_a_seed_plays_the_same_twice(seed: int) -> None:
    first, second = (play(drawn(seed), traced=True) for _ in range(2))
    assert len(first.trace) > 20
    assert first == second


def test_runs_end_well_after_a_worker_was_killed() -> None:
    outcome = play(replace(CALM, faults=(Fault("crash", 0.0, frame=20, who=1),)))
    assert (outcome.violations, outcome.runs) == ([], 2)
    assert any("DeadlineError" in error for error in outcome.errors)


def test_the_group_takes_the_place_of_a_switch_that_is_down() -> None:
    down = (Fault("switch", 0.0, frame=38, for_s=20.0, empty=True),)
    steps = (*CALM.steps, Step("sum32", 700, 9, gap_s=0.1))
    outcome = play(replace(CALM, group=True, faults=down, steps=steps))
    assert (outcome.violations, outcome.runs, outcome.errors) == ([], 1, [])
    assert 3.0 < outcome.virtual_s < 20.0


def test_a_full_socket_loses_questions_only() -> None:
    """It once ended the job with TransportError."""
    outcome = play(replace(CALM, fills=0.5, weather=Weather(drop=0.2)))
    assert (outcome.violations, outcome.errors) == ([], [])


def test_a_schedule_that_never_ends_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulate.play.LIMIT_S", 2.0)
    outcome = play(replace(CALM, weather=Weather(drop=1.0)))
    assert "hangs" in outcome.violations[0] and "worker 0: main" in outcome.violations[0]


def test_a_schedule_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums go wrong whatever happens: all that happens can be left out."""

    @contextlib.contextmanager
    def deaf() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("simulate.workload.given", lambda *_: (_ for _ in ()).throw(AssertionError("broken")))
            patch.setattr("simulate.play.given", lambda *_: (_ for _ in ()).throw(AssertionError("broken")))
            yield

    monkeypatch.setitem(mutations.MUTATIONS, "deaf", deaf)
    faults = (Fault("pause", 1.0, who=1, for_s=0.1), Fault("link", 2.0, for_s=0.1))
    with mutations.mutated("deaf"):
        smallest, outcome = shrink.shrunk(replace(CALM, faults=faults, weather=Weather(drop=0.1)))
    assert "broken" in outcome.violations[0]
    assert (smallest.faults, smallest.weather.drop, smallest.terms.shape) == ((), 0.0, "star2")


OF_DRAWN_SCHEDULES = {*mutations.MUTATIONS} - mutations.OF_BLIND - {*mutations.OF_PREEMPTION, "runs-have-no-token"}


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(OF_DRAWN_SCHEDULES))
def test_the_page_names_a_seed_that_shows_a_broken_rule(name: str) -> None:
    (seed,) = re.findall(rf"^\| {name}[^|]*\| (\d+) \|", PAGE.read_text(), re.MULTILINE)
    schedule = drawn(int(seed))
    with mutations.mutated(name):
        assert play(with_key(schedule) if name in mutations.OF_KEYS else schedule).violations


def in_two_worlds(seeds: range, *, byzantine: bool = False) -> tuple[dict[int, list[str]], Tally]:
    found, tally = {}, Tally()
    for seed in seeds:
        problems, seen = told_apart(Variant(flow=True, byzantine=byzantine).of(seed))
        tally += seen
        if problems:
            found[seed] = problems
    return found, tally


@pytest.mark.parametrize("byzantine", [False, True])
def test_a_switch_cannot_tell_two_worlds_of_a_blind_job_apart(byzantine: bool) -> None:
    found, tally = in_two_worlds(range(6), byzantine=byzantine)
    assert found == {}
    # More tests than one look at the same seeds: nothing here is a matter of luck.
    assert tally.problems(flow.SURE_BELOW) == []
    assert tally.payloads.sum() > 20_000


def test_worlds_are_different() -> None:
    """Where every worker's values are its own in both worlds, nothing could be told apart by anybody."""
    schedule = Variant(flow=True).of(0)
    a, b = (flow._world(schedule, name)[0] for name in ("a", "b"))
    different = [
        host for place, given in a.sent.items() for host, payloads in given.items() if payloads != b.sent[place][host]
    ]
    assert {*different} == {0, 1}


@pytest.mark.parametrize(
    ("name", "seeds", "byzantine"),
    [
        ("blind-sends-in-the-clear", range(3), False),
        ("blind-masks-come-twice", range(3), False),
        ("blind-runs-share-keys", range(22, 23), False),
        ("blind-norms-in-the-clear", range(24), False),
        ("blind-sums-some-and-then-all", range(19, 20), False),
        ("blind-norms-have-no-tags", range(957, 958), True),
        ("blind-sums-are-not-checked", range(20), True),
        ("blind-believes-overflows", range(4), False),
    ],
)
@pytest.mark.few(2)
def test_a_broken_rule_of_blind_jobs_shows(name: str, seeds: range, byzantine: bool) -> None:
    with mutations.mutated(name):
        found, tally = in_two_worlds(seeds, byzantine=byzantine)
    assert found or tally.problems(flow.SURE_BELOW)


def test_whoever_has_no_key_ends_a_job_with_one_or_does_nothing() -> None:
    """A Byzantine device on the way."""
    schedules = {seed: Variant(keys=True, byzantine=True).of(seed) for seed in range(6)}
    assert {seed: found for seed, one in schedules.items() if (found := play(one).violations)} == {}


def test_a_byzantine_switch_makes_wrong_sums_of_open_jobs() -> None:
    """That it does is what jobs with a key, and blind ones, are there for."""
    found = [play(Variant(byzantine=True).of(seed)).violations for seed in (17, 35, 41)]
    assert all(WRONG_SUM in text for [text, *_] in found)


def test_command_plays_seeds_in_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = tmp_path / "numbers.json"
    assert cli.main(["--seeds", "3", "--jobs", "1", "--json", str(numbers)]) == 0
    found = json.loads(numbers.read_text())
    assert (found["seeds"], found["violations"]) == (3, [])
    assert "3/3 schedules, 0 violated" in capsys.readouterr().err


def test_the_lab_knows_the_words_for_a_wrong_sum() -> None:
    assert papers_dlcp.WRONG_SUM == WRONG_SUM


def test_a_process_that_dies_is_told_with_its_signal_and_seeds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fault in C, or a machine without memory: not a number of schedules that went well."""

    def submitted(pool: ProcessPoolExecutor, *_: object) -> Future[object]:
        return submit(pool, signal.raise_signal, signal.SIGKILL)

    submit = ProcessPoolExecutor.submit
    # Any function of two arguments that a process finds.
    monkeypatch.setattr(many, "begin_process", operator.is_)
    monkeypatch.setattr(ProcessPoolExecutor, "submit", submitted)
    assert cli.main(["--first", "7", "--seeds", "30", "--jobs", "1"]) == 2
    assert "ended by SIGKILL in one of the seeds 7 to 26, 27 to 36" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [[], ["--blind"], ["--restarts", "--keys"]])
def test_command_shows_one_seed(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--seed", "4", *flags]) == 0
    out = capsys.readouterr().out
    assert "nothing is violated" in out
    assert ("blind=True" in out, "kind='restart'" in out, "keyed=True" in out) == (
        "--blind" in flags, "--restarts" in flags, "--keys" in flags
    )  # fmt: skip


def test_a_run_never_takes_an_earlier_runs_results() -> None:
    """A switch forgot everything under a run. The next run begins in round 0 too, since slot 0 is unused."""
    outcome = play(FORGOTTEN)
    assert (outcome.violations, outcome.runs) == ([], 2)


def test_a_result_that_is_handed_out_says_whose_contributions_are_in_it() -> None:
    """Two of three workers closed a sum. The third, whose way to the switch was cut, took what it had sent as included:
    its residual lacked it."""
    step = Step("reduce", 3068, 28450, 0.001)
    outcome = play(
        Schedule(
            seed=2175688526371787408,
            terms=Terms("star3", 2, 2),
            weather=Weather(duplicate=0.1, delay_s=(0.0005, 0.0005)),
            steps=(step, Step("reduce", 2020, 440, 0.001), step),
            faults=(Fault("link", 0.0, frame=44, for_s=7.8),),
            group=True,
            loss_bound=0.3,
            trains=True,
            fills=0.05,
            skew_s=(0.0, 0.048680582483746127, 0.0),
        )
    )
    assert (outcome.violations, outcome.errors) == ([], [])


def test_a_whole_sum_contains_what_the_own_switch_has_forgotten() -> None:
    """The job was renewed while results came down a tree: the lower switch named nobody in whole sums, and workers kept
    in their residuals what was in the sums."""
    outcome = play(
        Schedule(
            seed=960815591823876668,
            terms=Terms("tree21", 8, 3),
            weather=Weather(0.01, 0.02, 0.02, 0.001, (5e-05, 5e-05)),
            steps=(Step("reduce", 8174, 30860),),
            faults=(Fault("renew", 0.0, frame=71),),
            group=True,
            trains=True,
            kept_chunks=1,
            skew_s=(0.0,) * 3,
            renews=False,
        )
    )
    assert (outcome.violations, outcome.errors) == ([], [])


def test_replicas_are_equal_after_slots_are_forgotten_under_a_loss_bound() -> None:
    """A sum closes with worker 1 alone and reaches worker 0; then the job is renewed. Without a token the same slot
    closes once more, with another worker. With one the switch takes nothing more of the run."""
    step = Step("reduce", 5118, 43781)
    schedule = Schedule(
        seed=1890423418429023635,
        terms=Terms("star2", 4, 2),
        weather=Weather(0.2, 0.0, 0.0, 1.0, (5e-05, 0.0001)),
        steps=(step, step, step, step),
        faults=(Fault("renew", 0.0, frame=41),),
        group=True,
        loss_bound=0.3,
        trains=True,
        one_trip=False,
        skew_s=(0.001994832210898453, 0.0005478935611108471),
    )
    assert play(schedule).violations == []
    with mutations.MUTATIONS["runs-have-no-token"]():
        assert any(WRONG_SUM in violation and "differ" in violation for violation in play(schedule).violations)
