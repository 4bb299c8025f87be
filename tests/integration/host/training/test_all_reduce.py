# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire.all_reduce` from tensors to tensors, with the golden switch on loopback."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sumwire
import torch
from golden import model
from helpers.transport.udp_bridge import Bridge, Impairment, configs, golden_switch, job_mapping, run_workers
from numpy.typing import NDArray
from sumwire.codec.base import CodecRound
from sumwire.config import parse_job
from sumwire.job.codec_operation import CodecOperation
from sumwire.job.handshake import GREETING_BUCKET
from sumwire.job.operations import CachedResult
from sumwire.transport.udp import Transport
from sumwire.wire.packets import OP_WORDS, WORD_BYTES
from sumwire_protocol import constants as p4
from torch import Tensor

WORKERS = 4


def inputs(length: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [torch.randn(length, generator=torch.Generator().manual_seed(w)).to(dtype) for w in range(WORKERS)]


def play(
    work: Callable[[sumwire.Job, int], Any],
    *,
    slots: int = 16,
    impairment: Impairment | None = None,
    **options: Any,
) -> list[Any]:
    """``work(job, worker)`` on all workers of a fresh job."""
    mapping = job_mapping(WORKERS, slots)

    def run(worker: int) -> Any:
        with sumwire.Job(configs(mapping)[worker], block=1024, **options) as job:
            return work(job, worker)

    with Bridge(mapping, golden_switch(mapping), impairment):
        return run_workers(run, WORKERS)


@pytest.mark.parametrize("op", ["mean", "sum"])
@pytest.mark.parametrize("length", [0, 1, 2, 1023, 1024, 1025, 40_000])
def test_result_and_residuals_account_for_the_inputs(length: int, op: Any) -> None:
    """Equal bits on all workers; mean of the results' shares plus mean of the residuals is the exact mean."""
    tensors = inputs(length)

    def work(job: sumwire.Job, worker: int) -> tuple[Tensor, Tensor]:
        tensor = tensors[worker].clone()
        result = sumwire.all_reduce(tensor, job, op=op, feedback="t")
        assert result is tensor
        return result, job.feedback.compensate("t", torch.zeros(length))

    outcomes = play(work)
    exact = torch.stack(tensors).mean(0)
    mean = outcomes[0][0] / (WORKERS if op == "sum" else 1)
    left = torch.stack([residual for _, residual in outcomes]).mean(0)
    torch.testing.assert_close(mean + left, exact, rtol=0, atol=1e-5)
    assert all(torch.equal(result, outcomes[0][0]) for result, _ in outcomes)
    if length > 1000:
        # 4 independent workers: 0.0109 of the mean's energy.
        assert 0.005 < float((mean - exact).square().sum() / exact.square().sum()) < 0.016


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_kept(dtype: torch.dtype) -> None:
    tensors = inputs(3000, dtype)
    outcomes = play(lambda job, worker: sumwire.all_reduce(tensors[worker].clone(), job))
    exact = torch.stack(tensors).float().mean(0)
    for result in outcomes:
        assert result.dtype == dtype
        assert torch.equal(result, outcomes[0])
    assert float((outcomes[0].float() - exact).square().sum() / exact.square().sum()) < 0.016


def test_any_shape_and_stride_in_place() -> None:
    tensors = [tensor.view(40, 50) for tensor in inputs(2000)]

    def work(job: sumwire.Job, worker: int) -> tuple[Tensor, Tensor]:
        transposed = tensors[worker].clone().t()
        parameter = tensors[worker].clone().requires_grad_()
        sumwire.all_reduce(transposed, job)
        sumwire.all_reduce(parameter, job)
        return transposed, parameter.detach()

    exact = torch.stack(tensors).mean(0)
    for transposed, parameter in play(work):
        assert transposed.shape == (50, 40)
        for result in (transposed.t(), parameter):
            assert float((result - exact).square().sum() / exact.square().sum()) < 0.016


@pytest.mark.parametrize("precision", ["4bit", "8bit"])
@pytest.mark.parametrize("feedback", [None, "t"])
def test_values_that_torch_only_says_to_be_negated(precision: Any, feedback: str | None) -> None:
    """Their memory has the other sign."""

    def work(job: sumwire.Job, worker: int) -> tuple[Tensor, Tensor]:
        view = torch._neg_view(torch.full((1,), 1.0 + worker))
        assert view.is_neg() and view.is_contiguous()
        exact = job.reduce(view)[0].clone()
        sumwire.all_reduce(view, job, op="sum", precision=precision, feedback=feedback)
        return view.resolve_neg(), exact

    for found, exact in play(work):
        torch.testing.assert_close(exact, torch.tensor([-2.5]), rtol=0.1, atol=0)
        torch.testing.assert_close(found, torch.tensor([-10.0]), rtol=0.1, atol=0)


@pytest.mark.parametrize("options", [{}, {"feedback": "t"}, {"op": "sum"}])
def test_a_result_lands_in_the_tensor_itself(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bits of one that is copied there. Autograd learns of it."""
    written: list[Tensor] = []
    write_to = CodecRound.write_to
    monkeypatch.setattr(CodecRound, "write_to", lambda self, into: (written.append(into), write_to(self, into))[1])
    tensors = inputs(40_000)

    def work(job: sumwire.Job, worker: int) -> tuple[Tensor, int]:
        tensor = tensors[worker].clone()
        before = tensor._version
        sumwire.all_reduce(tensor, job, **options)
        return tensor, tensor._version - before

    here = play(work)
    assert len(written) == WORKERS
    copied = play(work, nonfinite="raise")
    assert len(written) == WORKERS, "with raise, the tensor is only written once the result is known to be finite"
    for (tensor, versions), (other, _) in zip(here, copied, strict=True):
        assert torch.equal(tensor, other)
        assert versions > 0


def keep_results(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[CachedResult]]:
    """The results that workers keep for others, by worker."""
    through_switch = CodecOperation.through_switch
    kept: dict[int, list[CachedResult]] = {worker: [] for worker in range(WORKERS)}

    def keeping(self: CodecOperation, transport: Transport, config: Any, stats: Any) -> Tensor:
        result = through_switch(self, transport, config, stats)
        kept[config.worker].append(self.kept(result))
        return result

    monkeypatch.setattr(CodecOperation, "through_switch", keeping)
    return kept


@pytest.mark.parametrize("length", [3000, 40_000])
def test_a_kept_result_is_not_the_callers_tensor(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller changes its tensors, and the next operation is over; then the result before is handed out."""
    tensors = inputs(length)
    kept = keep_results(monkeypatch)

    def work(job: sumwire.Job, worker: int) -> None:
        tensor, expected = tensors[worker].clone(), []
        for _ in range(3):
            expected.append(sumwire.all_reduce(tensor, job).clone())
            tensor.add_(worker)
            for result, before in zip(kept[worker][-2:], expected[-2:], strict=True):
                assert torch.equal(result.tensor(), before)

    play(work)


def test_the_first_operation_takes_the_memory_of_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are kept while the next operation has its own, in other memory."""
    tensors, taken, results = inputs(40_000), [0], 40 * p4.SLOT_WORDS * WORD_BYTES

    def take(size: int) -> NDArray[np.uint8]:
        taken.append(size)
        return np.empty(size, np.uint8)

    monkeypatch.setattr("sumwire.transport.buffers.new_block", take)

    def work(job: sumwire.Job, worker: int) -> list[int]:
        counts = []
        for _ in range(3):
            sumwire.all_reduce(tensors[worker].clone(), job)
            # Nobody is past it before all have their results.
            job.max32(np.zeros(1, np.uint32))
            counts.append(taken.count(results))
        return counts

    assert play(work) == [[2 * WORKERS] * 3] * WORKERS


@pytest.mark.parametrize("options", [{}, {"feedback": "t"}])
def test_a_kept_result_does_not_hold_the_callers_memory(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the sums, a quarter of the tensor's size. The tensor is freed as soon as its owner lets it go."""
    tensors = inputs(40_000)
    kept = keep_results(monkeypatch)

    def work(job: sumwire.Job, worker: int) -> list[bool]:
        alive = []
        for _ in range(2):
            values = tensors[worker].numpy().copy()
            memory = weakref.ref(values)
            sumwire.all_reduce(torch.from_numpy(values), job, **options)
            del values
            alive.append(memory() is not None)
        return alive

    assert play(work) == [[False, False]] * WORKERS
    assert [len(results) for results in kept.values()] == [2] * WORKERS


def test_signs_take_no_feedback() -> None:
    with sumwire.Job(configs(job_mapping(WORKERS, 8))[0]) as job:
        with pytest.raises(sumwire.UsageError, match="feedback = 'w'"):
            sumwire.all_reduce(torch.ones(3), job, op="sign", feedback="w")
        with pytest.raises(sumwire.ConfigError, match="must have sign"):
            sumwire.all_reduce(torch.ones(3), job, op="sign")


def test_bad_network_changes_no_bit() -> None:
    tensors = inputs(30_000)

    def work(job: sumwire.Job, worker: int) -> Tensor:
        return torch.cat([sumwire.all_reduce(t[:n].clone(), job) for n in (30_000, 5, 2047) for t in [tensors[worker]]])

    clean = play(work, slots=9)
    bad = play(work, slots=9, impairment=Impairment(3, drop=0.02, duplicate=0.02, reorder=0.04, late=0.02))
    for result in (*clean, *bad):
        assert torch.equal(result, clean[0])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_block_that_is_not_finite_is_nan_on_all_and_leaves_the_residual(value: float) -> None:
    good = inputs(9000)

    def work(job: sumwire.Job, worker: int) -> tuple[Tensor, bool]:
        sumwire.all_reduce(good[worker].clone(), job, feedback="w")
        before = job.feedback.compensate("w", torch.zeros(9000)).clone()
        bad = good[worker].clone()
        if worker == 1:
            bad[3] = value
        result = sumwire.all_reduce(bad, job, feedback="w")
        return result, torch.equal(job.feedback.compensate("w", torch.zeros(9000)), before)

    outcomes = play(work)
    for result, kept in outcomes:
        assert kept
        assert np.array_equal(result.numpy().view(np.uint32), outcomes[0][0].numpy().view(np.uint32))
        assert torch.equal(result.isnan(), torch.arange(9000) < 1024)


def test_a_job_that_raises_does_so_on_all_workers_and_goes_on() -> None:
    def work(job: sumwire.Job, worker: int) -> Tensor:
        tensor = torch.tensor([float("nan") if worker == 1 else 1.0])
        with pytest.raises(sumwire.NonFiniteError, match="bucket 7"):
            sumwire.all_reduce(tensor, job, bucket=7)
        return sumwire.all_reduce(torch.ones(1), job)

    for result in play(work, nonfinite="raise"):
        torch.testing.assert_close(result, torch.ones(1), rtol=0, atol=0.2)


@pytest.mark.parametrize("tensor", [torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.int32)])
def test_other_dtypes_are_refused(tensor: Tensor) -> None:
    with sumwire.Job(configs(job_mapping(1, 8))[0]) as job, pytest.raises(sumwire.UsageError, match=str(tensor.dtype)):
        sumwire.all_reduce(tensor, job)


def made_in_inference() -> Tensor:
    with torch.inference_mode():
        return torch.ones(4)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: torch.ones(4).to_sparse(), r"torch\.sparse_coo: must be dense: call to_dense"),
        (lambda: torch.ones(2, 2, dtype=torch.int32).to_sparse_csr(), r"torch\.sparse_csr: must be dense"),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "nested tensor: must be dense"),
        (lambda: torch.empty(4, device="meta"), "on meta: must be one with values"),
        (lambda: torch.ones(1).expand(4), "expanded tensor.*must have a place for each: call clone"),
        (made_in_inference, "tensor of inference_mode.*call clone"),
        (lambda: [1.0], "list: must be a tensor"),
    ],
    ids=["sparse", "sparse-rows", "nested", "meta", "expanded", "inference", "list"],
)
def test_other_layouts_are_refused(make: Callable[[], Tensor], words: str) -> None:
    with sumwire.Job(configs(job_mapping(1, 8))[0]) as job, pytest.raises(sumwire.UsageError, match=words):
        sumwire.all_reduce(make(), job)


def test_other_ops_are_refused() -> None:
    with sumwire.Job(configs(job_mapping(1, 8))[0]) as job, pytest.raises(sumwire.UsageError, match="'max'"):
        sumwire.all_reduce(torch.zeros(1), job, op="max")  # type: ignore[arg-type]


def test_closed_job_refuses() -> None:
    job = sumwire.Job(configs(job_mapping(1, 8))[0])
    job.close()
    job.close()
    with pytest.raises(sumwire.ClosedError, match="closed"):
        sumwire.all_reduce(torch.zeros(1), job)


def test_after_a_deadline_the_job_is_unusable() -> None:
    mapping = job_mapping(2, 8)
    with Bridge(mapping, golden_switch(mapping)), sumwire.Job(configs(mapping)[0], join_s=0.3) as job:
        with pytest.raises(sumwire.DeadlineError) as first:
            sumwire.all_reduce(torch.zeros(1), job)
        sent = job.stats.packets_sent
        with pytest.raises(sumwire.DeadlineError) as second:
            sumwire.all_reduce(torch.zeros(1), job)
        assert second.value is first.value
        assert job.stats.packets_sent == sent > 0


def summed(mapping: dict[str, Any], length: int) -> Callable[[int], int]:
    """A run of one operation: the sum of ones over the workers, rounded."""

    def work(worker: int) -> int:
        with sumwire.Job(configs(mapping)[worker], join_s=10.0) as job:
            x = torch.ones(length)
            sumwire.all_reduce(x, job, op="sum")
            return round(float(x.mean()))

    return work


@pytest.mark.parametrize("earlier", [1, 3000], ids=["shorter", "longer"])
def test_runs_of_one_job_file_one_after_the_other(earlier: int) -> None:
    mapping = job_mapping(2, 8)
    with Bridge(mapping, golden_switch(mapping)):
        for length in (earlier, 1, earlier, 5000):
            assert run_workers(summed(mapping, length), 2) == [2, 2]


@pytest.mark.parametrize("op", [p4.OP_MAX32, p4.OP_THC])
def test_a_run_that_died_at_its_first_packets_does_not_disturb_the_next(op: int) -> None:
    """Its packet is in the open slot's sum, once as in a greeting, once of data."""
    mapping = job_mapping(2, 8)
    with Bridge(mapping, golden_switch(mapping)):
        with Transport(configs(mapping)[0]) as killed:
            killed.start(op, np.ones((1, OP_WORDS[op][0], 128), np.uint8), GREETING_BUCKET)
        assert run_workers(summed(mapping, 10), 2) == [2, 2]


def test_missing_worker_is_named_to_all_at_the_start_and_the_next_run_begins() -> None:
    mapping = job_mapping(3, 8)

    def work(worker: int) -> Any:
        with sumwire.Job(configs(mapping)[worker], join_s=1.0) as job:
            with pytest.raises(sumwire.DeadlineError, match=r"join_s=SECONDS") as caught:
                sumwire.all_reduce(torch.ones(1), job)
            return caught.value.missing

    with Bridge(mapping, golden_switch(mapping)):
        assert run_workers(work, 2) == [(2,), (2,)]
        assert run_workers(summed(mapping, 10), 3) == [3] * 3


@pytest.mark.parametrize("other", [{"op": "sum"}, {"dtype": torch.float16}])
def test_calls_that_differ_in_op_or_dtype_are_refused(other: dict[str, Any]) -> None:
    """The worker that comes second to the slot is told; the other one gets no sum."""
    mapping = job_mapping(2, 8)

    def work(worker: int) -> str:
        op, dtype = (
            ("mean", torch.float32) if worker == 0 else (other.get("op", "mean"), other.get("dtype", torch.float32))
        )
        with sumwire.Job(configs(mapping)[worker], deadline_s=1.0) as job:
            sumwire.all_reduce(torch.ones(1), job)
            with pytest.raises((sumwire.OrderError, sumwire.DeadlineError)) as caught:
                sumwire.all_reduce(torch.ones(1, dtype=dtype), job, op=op)
            return type(caught.value).__name__

    with Bridge(mapping, golden_switch(mapping)):
        assert sorted(run_workers(work, 2)) == ["DeadlineError", "OrderError"]


def test_workers_with_other_settings_are_told() -> None:
    mapping = job_mapping(2, 8)

    def work(worker: int) -> str:
        with sumwire.Job(configs(mapping)[worker], block=1024 << worker) as job:
            with pytest.raises(sumwire.OrderError, match="not all workers have the same job file and settings"):
                sumwire.all_reduce(torch.ones(1), job)
            return "told"

    with Bridge(mapping, golden_switch(mapping)):
        assert run_workers(work, 2) == ["told", "told"]


def test_job_that_cannot_reduce_is_refused() -> None:
    with pytest.raises(sumwire.ConfigError, match="must have max32"):
        sumwire.Job(parse_job({**job_mapping(2, 8), "ops": ["thc"]}, 0))


def test_a_call_whose_op_the_job_lacks_is_refused() -> None:
    mapping = job_mapping(1, 8)
    with sumwire.Job(configs({**mapping, "ops": ["max32"]})[0]) as job:
        calls: list[tuple[str, Callable[[], Any]]] = [
            ("thc", lambda: sumwire.all_reduce(torch.ones(1), job)),
            ("sum32", lambda: job.mean(torch.ones(1))),
            ("sum32", lambda: job.sum32(np.ones(1, np.int32))),
            ("sign", lambda: job.sign_merge(torch.ones(1, dtype=torch.bool))),
            ("vote", lambda: job.vote(torch.ones(1, dtype=torch.bool))),
        ]
        for op, call in calls:
            with pytest.raises(sumwire.ConfigError, match=f"ops = .'max32',.*must have {op}"):
                call()
        assert job.stats.packets_sent == 0


@pytest.mark.parametrize("name", ["deadline_s", "join_s", "silence_s"])
def test_impossible_times_are_refused(name: str) -> None:
    times: dict[str, Any] = {name: 0}
    with pytest.raises(sumwire.ConfigError, match=rf"{name} = 0: must be a number of seconds above 0"):
        sumwire.Job(configs(job_mapping(2, 8))[0], **times)


def test_statistics_count_every_packet() -> None:
    """Per worker: HELLO, the greeting's 3 chunks, one of them THC, 4 that open the run, norms 1, THC 3. Sizes are from
    the wire format."""
    [stats, *_] = play(lambda job, worker: (sumwire.all_reduce(torch.ones(3000), job), job.stats)[1])
    header, small, up, down = (14 + 20 + 8 + 32 + words * 128 for words in (0, 1, 4, 8))
    assert (stats.operations, stats.values) == (1, 3000)
    sent = stats.packets_sent - stats.retransmissions - stats.probes
    assert sent == 11
    if not stats.retransmissions and stats.probes == 1:
        assert stats.bytes_sent == header + 7 * small + 4 * up
        assert stats.bytes_received == header + 7 * small + 4 * down
    assert 0 < stats.exchange_s < stats.operation_s + 1
    assert model.UDP_PORT == 21335
