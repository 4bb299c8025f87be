# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What makes a training comparable: data order, schedule, measuring hook, specification."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from sumwire_lab.faults.training_worker import Overflow, RankTrainingSpec
from sumwire_lab.load.generator import LoadSpec
from sumwire_lab.load.malformed import Endpoints, ForgedSender, MalformedSpec
from sumwire_lab.load.traffic import TrafficSpec
from sumwire_lab.options.plain import from_json, to_json
from sumwire_lab.options.priority_lanes import DegradeOptions, LanedOptions
from sumwire_lab.options.recipes import SYSTEMS, TASKS, parse
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.system.counters import LinkBytes, parse_counters
from sumwire_lab.training import digits_data, text_data, workload
from sumwire_lab.training.timing import HookTimer
from sumwire_lab.training.trainer import OperationTimer, StepTimer, make_optimizer, system_options
from sumwire_lab.training.worker import WorkerSpec, sampled_steps, total_steps

# Both headings, then interface: bytes packets errs drop fifo frame compressed multicast, and the same for sending.
NET_DEV = """Inter-|   Receive            |  Transmit
 face |bytes    packets errs drop ... |bytes    packets errs ...
    lo:     10  1  0  0  0  0  0  0     20  2  0  0  0  0  0  0
sw12af-h1: 1234 5  0  0  0  0  0  0   5678  9  0  0  0  0  0  0
"""


def test_counters_of_one_interface() -> None:
    assert parse_counters(NET_DEV, "sw12af-h1") == LinkBytes(rx=1234, tx=5678, rx_packets=5, tx_packets=9)
    assert LinkBytes(5, 7, 3, 4) - LinkBytes(1, 2, 1, 1) == LinkBytes(4, 5, 2, 3)
    with pytest.raises(ValueError, match="sw12af-h2"):
        parse_counters(NET_DEV, "sw12af-h2")


@pytest.mark.parametrize(("samples", "workers", "batch"), [(100, 4, 6), (24, 4, 6), (1347, 3, 64)])
def test_workers_share_an_epoch_without_overlap(samples: int, workers: int, batch: int) -> None:
    steps = digits_data.steps_per_epoch(samples, workers, batch)
    for epoch in range(2):
        seen = torch.cat(
            [
                digits_data.batch_indices(samples, 5, epoch * steps + s, rank=r, workers=workers, batch=batch)
                for s in range(steps)
                for r in range(workers)
            ]
        )
        assert len(seen) == steps * workers * batch
        assert len(set(seen.tolist())) == len(seen)
        assert int(seen.min()) >= 0 and int(seen.max()) < samples


def test_the_order_depends_on_seed_and_epoch_only() -> None:
    def first(seed: int, step: int) -> list[int]:
        return digits_data.batch_indices(100, seed, step, rank=0, workers=2, batch=10).tolist()

    steps = digits_data.steps_per_epoch(100, 2, 10)
    assert first(1, 0) == first(1, 0)
    assert first(1, 0) != first(2, 0)
    assert first(1, 0) != first(1, steps)


def test_the_digits_are_split_by_class_and_held_out() -> None:
    digits = digits_data.load()
    assert len(digits.train_y) + len(digits.test_y) == 1797
    assert len(digits.test_y) == 450
    assert digits.train_x.dtype == torch.float32
    shares = torch.bincount(digits.test_y) / 450 - torch.bincount(digits.train_y) / 1347
    assert float(shares.abs().max()) < 0.005
    test_rows = {row.numpy().tobytes() for row in digits.test_x}
    assert sum(row.numpy().tobytes() in test_rows for row in digits.train_x) < 5


@pytest.mark.parametrize(("task", "values"), [("digits", 1_126_410), ("digits-cnn", 283_786), ("text", 1_532_257)])
def test_a_model_has_the_documented_size_and_repeats(task: str, values: int) -> None:
    options = TrainOptions.of(task)
    assert sum(p.numel() for p in workload.network(options).parameters()) == values
    small = TrainOptions.of(task, hidden=8)
    assert workload.fingerprint(workload.network(small)) == workload.fingerprint(workload.network(small))
    assert workload.fingerprint(workload.network(small)) != workload.fingerprint(
        workload.network(TrainOptions.of(task, hidden=8, seed=2))
    )


def test_a_fingerprint_sees_one_changed_bit() -> None:
    network = workload.mlp(8)
    before = workload.fingerprint(network)
    with torch.no_grad():
        next(network.parameters()).view(-1)[3:4].view(torch.int32)[0] ^= 1
    assert workload.fingerprint(network) != before


@pytest.mark.parametrize("task", TASKS)
def test_a_task_learns_by_the_recipe_of_the_baseline(task: str) -> None:
    options = TrainOptions.of(task, hidden=32, learning_rate=0.03)
    samples, network = workload.samples(options), workload.network(options)
    optimizer = make_optimizer(parse("gloo"), network, options)
    x, y = samples.train_x[:16], samples.train_y[:16]
    before = float(workload.loss(network, x, y).detach())
    for _ in range(15):
        optimizer.zero_grad()
        loss = workload.loss(network, x, y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert float(loss.detach()) < 0.9 * before
    score = workload.score(network, samples)
    assert 0 <= score.accuracy <= 1 and score.bits > 0


def test_a_score_counts_right_answers_and_bits() -> None:
    network = torch.nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        network.weight.copy_(torch.eye(2))
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 1.0], [0.0, 2.0]])
    score = workload.score(network, digits_data.Samples(x, x, x, torch.tensor([0, 1, 1, 1])))
    assert score.accuracy == 0.75
    # log2(1 + e^(other - right)) of each, by hand.
    assert score.bits == pytest.approx((2 * 0.451941 + 3.068512 + 0.183118) / 4, abs=1e-4)


def test_the_text_is_cut_into_samples_and_whole_topics_are_held_out() -> None:
    samples = text_data.load()
    assert samples.train_x.shape[1] == text_data.CONTEXT and samples.test_x.shape == (
        text_data.TEST_SAMPLES,
        text_data.CONTEXT,
    )
    flat_x, flat_y = samples.train_x.flatten(), samples.train_y.flatten()
    assert torch.equal(flat_x[1:], flat_y[:-1]), "what follows each character"
    assert len(flat_x) > 300_000
    assert int(flat_x.max()) < text_data.VOCABULARY and int(flat_x.min()) >= 0
    train_rows = {row.numpy().tobytes() for row in samples.train_x}
    assert sum(row.numpy().tobytes() in train_rows for row in samples.test_x) == 0


def test_characters_beyond_the_alphabet_share_a_number() -> None:
    assert text_data.encode("\n ~").tolist() == [0, 1, 95]
    assert set(text_data.encode("\t\u00e9\u2026").tolist()) == {text_data.VOCABULARY - 1}


def test_the_transformer_sees_no_character_that_follows() -> None:
    network = workload.network(TrainOptions.of("text", hidden=64))
    with torch.no_grad():
        for parameter in network.parameters():
            # Not as it begins, where whole layers say nothing.
            parameter.data += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
        x = torch.randint(0, text_data.VOCABULARY, (2, text_data.CONTEXT), generator=torch.Generator().manual_seed(2))
        changed = x.clone()
        changed[:, 40:] = 5
        out, other = network(x), network(changed)
    assert torch.allclose(out[:, :40], other[:, :40], atol=1e-5)
    assert not torch.allclose(out[:, 40], other[:, 40], atol=1e-3)
    assert not torch.allclose(network(x)[:, 63], network(x.roll(1, 0))[:, 63], atol=1e-3), "but those before"


def test_a_width_that_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="width 100"):
        text_data.Transformer(100)


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("task", TASKS)
def test_every_system_has_an_optimizer_for_every_task(task: str, name: str) -> None:
    options = TrainOptions.of(task)
    network = torch.nn.Linear(2, 2)
    optimizer = make_optimizer(parse(name), network, options)
    rates = parse(name).recipe.rates
    adam = rates is None and TASKS[task].adam
    assert isinstance(optimizer, torch.optim.AdamW if adam else torch.optim.SGD)
    expected = options.learning_rate if rates is None else rates[task].learning_rate
    assert optimizer.param_groups[0]["lr"] == expected
    if not adam:
        assert optimizer.param_groups[0]["momentum"] == (0.9 if rates is None else 0)


def test_options_of_a_system_come_from_the_run() -> None:
    options = TrainOptions.of("text", rank=3, k=0.25)
    assert system_options(parse("acp"), options, 4, lambda _: 1.0) == {"rank": 3}
    assert system_options(parse("topk"), options, 4, lambda _: 1.0) == {"k": 0.25}
    assert system_options(parse("topk10"), options, 4, lambda _: 1.0) == {"k": 0.1}
    assert system_options(parse("thc"), options, 4, lambda _: 1.0) == {}, "the switch adds by the job's table"
    assert system_options(parse("thc@group"), options, 17, lambda _: 1.0) == {}, "the group's size decides"
    ablated = TrainOptions.of("digits", bits=2, p=0.1, error_feedback=False)
    assert system_options(parse("thc@group"), ablated, 4, lambda _: 1.0) == {
        "bits": 2, "p": 0.1, "error_feedback": False
    }  # fmt: skip
    assert system_options(parse("thc"), ablated, 4, lambda _: 1.0) == {"error_feedback": False}
    marsit = system_options(parse("marsit100"), options, 4, lambda round_: 0.5 * round_)
    rates = parse("marsit100").recipe.rates
    assert rates is not None and rates["text"].global_lr is not None
    assert marsit["full_precision_every"] == 100
    assert marsit["global_lr"](3) == pytest.approx(1.5 * rates["text"].global_lr)


@pytest.mark.parametrize("name", ["marsit", "marsit100", "marsit-adaptive", "marsit-ring", "marsit-torus"])
def test_a_run_chooses_marsits_local_optimizer_and_period(name: str) -> None:
    own = TrainOptions.of("digits", inner="adam", full_precision_every=20)
    optimizer = make_optimizer(parse(name), torch.nn.Linear(2, 2), own)
    assert isinstance(optimizer, torch.optim.Adam) and optimizer.param_groups[0]["lr"] == 3e-3
    given = system_options(parse(name), own, 6, lambda _: 1.0)
    rule = {"rule": "adaptive", "lead": None} if name == "marsit-adaptive" else {"rule": "published"}
    assert given == {"full_precision_every": 20, **rule} | ({"rows": 2} if name == "marsit-torus" else {})
    never = TrainOptions.of("digits", inner="momentum", full_precision_every=0)
    optimizer = make_optimizer(parse(name), torch.nn.Linear(2, 2), never)
    assert isinstance(optimizer, torch.optim.SGD)
    assert (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]) == (0.1, 0.9)
    assert system_options(parse(name), never, 6, lambda _: 1.0)["full_precision_every"] is None
    tasks = make_optimizer(parse("marsit-adaptive"), torch.nn.Linear(2, 2), TrainOptions.of("digits"))
    assert tasks.param_groups[0]["nesterov"], "the task's own optimizer"
    others = make_optimizer(parse("gloo"), torch.nn.Linear(2, 2), own)
    assert isinstance(others, torch.optim.SGD), "only Marsit has a local optimizer"


def test_the_schedule_warms_up_and_ends_near_zero() -> None:
    factors = [workload.learning_rate_factor(step, 100) for step in range(100)]
    assert factors[0] == pytest.approx(0.1)
    assert max(factors) == pytest.approx(0.98, abs=0.01)
    assert factors.index(max(factors)) == 9
    assert factors[-1] < 0.001
    assert workload.learning_rate_factor(0, 1) == pytest.approx(1.0)


@pytest.mark.parametrize(("steps", "samples", "expected"), [(100, 4, {2, 26, 51, 75}), (2, 4, set()), (9, 0, set())])
def test_sampled_steps_are_spread_behind_the_first_two(steps: int, samples: int, expected: set[int]) -> None:
    assert sampled_steps(steps, samples) == expected


def test_steps_of_a_training() -> None:
    assert total_steps(TrainOptions(epochs=20, batch=64), 1347, 4) == 100
    assert total_steps(TrainOptions(epochs=20, batch=64, max_steps=7), 1347, 4) == 7
    assert total_steps(TrainOptions(epochs=1, batch=64, max_steps=7), 1347, 4) == 5


LANED = LanedOptions(quorum=3, degrade=DegradeOptions("drop", 0.1))
ENDS = Endpoints("00:00:00:00:00:01", "02:53:57:00:00:64", "10.0.0.1", "10.0.0.100")


@pytest.mark.parametrize(
    "told",
    [
        WorkerSpec("thc", TrainOptions(seed=4)),
        WorkerSpec("dlcp", TrainOptions(), "barrier", (1.0, 3.0), LANED),
        RankTrainingSpec("thc", overflow=Overflow([3], [0, 1]), until="until"),
        MalformedSpec("sw12af-h1", ForgedSender(ENDS, 1, 4), 10, 5.0, 3),
        TrafficSpec("10.0.0.1", "barrier", "10.0.0.2", 1000),
        LoadSpec(["a"], [ENDS], 1, 4, slots=6, window=6, batch=3, seconds=1.0, listen=True),
    ],
)
def test_what_workers_are_told_survives_its_file(told: Any) -> None:
    assert from_json(type(told), json.loads(json.dumps(to_json(told)))) == told


def test_a_wrapped_optimizers_communication_ends_with_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([1.0, 3.0, 9.0, 20.0, 26.0])
    monkeypatch.setattr("sumwire_lab.training.trainer.time.perf_counter", lambda: next(clock))
    timer = StepTimer()
    timer.enter()
    timer.communicates()
    timer.communicates()
    timer.leave()
    assert timer.seconds() == 6.0, "from the first call, not from the second and not from the local update"
    timer.enter()
    timer.leave()
    assert timer.seconds() == 6.0, "nobody said when it began: the whole step"


def test_operations_of_a_step_are_its_communication() -> None:
    seconds = iter([5.0, 7.5])
    timer = OperationTimer(lambda: {"operation_s": next(seconds)})
    timer.enter()
    assert timer.seconds() == 2.5


class FakeBucket:
    """As much of a GradBucket as the timer looks at."""

    def __init__(self, index: int, values: list[float]) -> None:
        self._index = index
        self.values = torch.tensor(values)

    def index(self) -> int:
        return self._index

    def buffer(self) -> torch.Tensor:
        return self.values


def test_the_timer_spans_from_the_first_bucket_to_the_last_result(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 11.0, 13.5, 12.0])
    monkeypatch.setattr("sumwire_lab.training.timing.time.perf_counter", lambda: next(clock))
    futures: list[torch.futures.Future[torch.Tensor]] = [torch.futures.Future(), torch.futures.Future()]
    given: list[Any] = []

    def inner(state: object, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        given.append(state)
        return futures[bucket.index()]

    timer = HookTimer(inner, "state")
    timer.begin_step(keep=True)
    assert timer.seconds() == 0.0
    buckets: list[Any] = [FakeBucket(0, [1.0, 2.0]), FakeBucket(1, [3.0])]
    outs = [timer.hand_over(bucket) for bucket in buckets]
    buckets[0].values.zero_()
    futures[1].set_result(torch.tensor([30.0]))
    futures[0].set_result(torch.tensor([10.0, 20.0]))
    assert [out.wait().tolist() for out in outs] == [[10.0, 20.0], [30.0]]
    assert given == ["state", "state"]
    assert timer.seconds() == pytest.approx(2.0), "the last to be done decides: 12.0 - 10.0"
    assert timer.take_tensors() == [
        {"bucket": 1, "values": 1, "at_s": 11.0, "seconds": 2.5},
        {"bucket": 0, "values": 2, "at_s": 10.0, "seconds": 2.0},
    ]
    assert timer.take_tensors() == [], "taken once"
    assert timer.gradients[0].tolist() == [1.0, 2.0], "kept as handed over"
    assert timer.results[1].tolist() == [30.0]
    timer.begin_step(keep=False)
    assert not timer.gradients and not timer.results
