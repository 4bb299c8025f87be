# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures the error of every codec's result against the workers' mean, on gradients recorded from the lab's own
trainings in one process.

numpy does the switch's aggregation of the codecs' words.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire import systems
from sumwire.codec import tables
from sumwire.codec.base import GradientCodec
from sumwire.codec.naive import NaiveCodec
from sumwire.codec.oracles import nmse, sum_words
from sumwire.codec.sign import pack_signs, unpack_signs
from sumwire.codec.sum32 import pack_elements, unpack_elements
from sumwire.codec.thc import ThcCodec
from sumwire.lowrank.fusion import Phase
from sumwire.lowrank.matrices import draw_factor, orthonormal
from sumwire.systems.spec import SWITCH, Member
from sumwire_protocol.ops import SUM32, VOTE
from sumwire_protocol.tables import AUTO, UNIFORM
from torch import Tensor, nn

from sumwire_lab.bench.benchmark import Chart, PageTable, Presentation, Row, Rows, Series, Suite
from sumwire_lab.options.bench_options import BenchOptions
from sumwire_lab.options.recipes import BASELINE, TASKS, parse
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.study.study import Study
from sumwire_lab.training import digits_data, workload
from sumwire_lab.training.trainer import make_optimizer

Words = NDArray[np.uint8]
_JOB: Final = 1

# A codec of CODECS -> the system of the library that it is from.
CODECS: Final[Mapping[str, str]] = {
    **{name: name for name in ("thc", "thc-uniform", "naive4", "sum32", "ef-sign", "ssdm", "vote")},
    "sign": "marsit",
}


@functools.cache
def _thc_table(kind: str | None, workers: int) -> tables.ThcTable | None:
    """THC's table of a job with this many workers. `kind`: of `SystemSpec.table`."""
    return None if kind is None else tables.for_workers(workers, kind=UNIFORM if kind == UNIFORM else AUTO)


def make_codec(name: str, worker: int, workers: int) -> GradientCodec:
    """Return a codec of CODECS for one worker of a job."""
    spec = systems.TABLE[CODECS[name]]
    make = spec.routes[SWITCH].codec
    assert make is not None
    return make(Member(_JOB, worker, workers, _thc_table(spec.table, workers)))


def aggregate(codec: GradientCodec, contributions: Sequence[Words], draws: np.random.Generator) -> Words:
    """Return the switch's result for the workers' words, each of shape (chunks, words_up, 128)."""
    if isinstance(codec, ThcCodec | NaiveCodec):
        return sum_words(codec.table, contributions)
    if codec.info.op == SUM32.code:
        length = contributions[0].size // 4
        total = sum(unpack_elements(words, length).astype(np.int64) for words in contributions)
        return pack_elements(np.asarray(total).astype(np.int32))
    count = contributions[0].size * 8
    signs = np.stack([unpack_signs(words, count) for words in contributions])
    if codec.info.op == VOTE.code:
        merged = 2 * signs.sum(axis=0) >= len(signs)
    else:
        merged = np.take_along_axis(signs, draws.integers(len(signs), size=(1, count)), axis=0)[0]
    return pack_signs(merged, codec.info.words_down)


def round_trip(name: str, gradients: Sequence[Tensor], sequence: int = 0) -> Tensor:
    """Return the workers' aggregate as every worker decodes it, with a codec of CODECS and without a network."""
    workers = len(gradients)
    codecs = [make_codec(name, worker, workers) for worker in range(workers)]
    rounds = [codec.begin(x, sequence, 0) for codec, x in zip(codecs, gradients, strict=True)]
    agreed = np.maximum.reduce([round_.preliminary() for round_ in rounds])
    words = [round_.encode(agreed) for round_ in rounds]
    summed = aggregate(codecs[0], words, np.random.default_rng(sequence))
    return rounds[0].decode(summed, np.full(len(summed), workers)).to(torch.float32)


class GradientRecorder:
    """Trains one model in this process with the mean gradient of several workers, without compression."""

    def __init__(self, task: str, workers: int, seed: int = 1) -> None:
        self._options = TrainOptions.of(task, seed=seed)
        self._workers = workers
        self._samples = workload.samples(self._options)
        self._network = workload.network(self._options)
        self._parameters = list(self._network.parameters())
        self._optimizer = make_optimizer(parse(BASELINE), self._network, self._options)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the parameters, in their order."""
        return tuple(tuple(parameter.shape) for parameter in self._parameters)

    def gradients(self, steps: Sequence[int]) -> Iterator[Tensor]:
        """Train, and yield all workers' gradients at these steps, in rising order: float32 (workers, values)."""
        for step in range(max(steps) + 1):
            together = torch.stack([self._gradient(step, rank) for rank in range(self._workers)])
            if step in steps:
                yield together
            _apply(self._optimizer, self._parameters, together.mean(dim=0))

    def _gradient(self, step: int, rank: int) -> Tensor:
        samples, options = self._samples, self._options
        # Smaller with many workers: there are only so many samples.
        batch = min(options.batch, len(samples.train_y) // self._workers)
        chosen = digits_data.batch_indices(
            len(samples.train_y), options.seed, step, rank=rank, workers=self._workers, batch=batch
        )
        loss = workload.loss(self._network, samples.train_x[chosen], samples.train_y[chosen])
        return torch.cat([gradient.reshape(-1) for gradient in torch.autograd.grad(loss, self._parameters)])


def _apply(optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], gradient: Tensor) -> None:
    """One optimizer step with a flat gradient."""
    pieces = torch.split(gradient, [parameter.numel() for parameter in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.grad = piece.view_as(parameter)
    optimizer.step()


WORKERS: Final = (2, 4, 8, 16)
QUICK_WORKERS: Final = (2, 4)
# Early steps, with large and similar gradients, and later ones.
STEPS: Final = (2, 10, 40)
QUICK_STEPS: Final = (2, 8)
TOP_SHARE: Final = 0.01
ACP_RANK: Final = 4
# Updates of each factor, after which the factors hardly change.
ACP_TURNS: Final = 8
# Smaller errors are not drawn, because they would compress the rest of the chart.
DRAWN_MIN: Final = 1e-4
# Their result is a direction, not a length.
DIRECTIONS: Final = ("ssdm", "vote", "sign")
# Baselines.
_OTHERS: Final = ("fp16", "top-k")


HOW: Final = (
    "Each model is trained in one process, and the gradients of all workers are recorded at some steps. Each "
    "codec then compresses and sums them as hosts and switch would, without a network and without error "
    "feedback. NMSE is the squared distance to the true mean over the squared length of the mean: 0 is exact,"
    " 1 is as bad as sending nothing, and published THC has 0.02. Codecs that send only signs (vote, ssdm, "
    "sign) keep no length; their results are scaled to the best length first. top-k sends the largest 1 % of "
    "each worker's values. acp has rank 4, and factors that have settled on this gradient. Error feedback "
    "would send the rest in later steps, so a large error here need not mean bad training; see the time to "
    "accuracy."
)


def study(options: BenchOptions) -> Study:
    """Return the study of every codec's error, named after its system. A case has one model and one number of
    workers."""
    counts, steps = (QUICK_WORKERS, QUICK_STEPS) if options.quick else (WORKERS, STEPS)
    cases = [
        {"task": task, "workers": workers, "steps": steps, "seed": options.seed} for task in TASKS for workers in counts
    ]
    return Study("codec-error", "what compression loses", cases, measure)


def measure(case: Row) -> list[dict[str, Any]]:
    """Return a row for each codec. `nmse`: mean over the recorded steps of |result - mean|^2 / |mean|^2. `best_length`:
    whether the result was scaled to the best length first, because the codec keeps only a direction."""
    recorder = GradientRecorder(case["task"], case["workers"], case["seed"])
    found = estimators(recorder.shapes)
    errors: dict[str, list[float]] = {name: [] for name in found}
    for gradients in recorder.gradients(case["steps"]):
        for name, estimate in found.items():
            errors[name].append(error(name, estimate, gradients))
    about = {"task": case["task"], "workers": case["workers"]}
    return [
        {**about, "codec": name, "nmse": fmean(of), "best_length": name in DIRECTIONS} for name, of in errors.items()
    ]


def present(rows: Rows) -> Presentation:
    """Present a table and a chart for each model."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    return Presentation(
        tables=tuple(_table(task, rows) for task in tasks),
        charts=tuple(_chart(task, rows) for task in tasks),
        behind=tuple(sentence for task in tasks for sentence in _behind(task, rows)),
    )


CODEC_ERROR: Final = Suite(
    "codec-error",
    "What compression loses",
    "How far is the summed gradient from the true mean, and does it get better with more workers?",
    HOW,
    study,
    present,
)

Estimate = Callable[[Tensor], Tensor]


def estimators(shapes: Sequence[tuple[int, ...]]) -> Mapping[str, Estimate]:
    """Return by name functions from the workers' gradients to what they get instead of the mean."""
    through_codecs = {name: functools.partial(_through, name) for name in CODECS}
    return {
        **through_codecs,
        "fp16": lambda gradients: (gradients.half() / len(gradients)).sum(dim=0).float(),
        "top-k": top_share_mean,
        "acp": functools.partial(low_rank, shapes=shapes),
    }


def _through(name: str, gradients: Tensor) -> Tensor:
    return round_trip(name, list(gradients))


def top_share_mean(gradients: Tensor) -> Tensor:
    """Return the mean of every worker's largest values, TOP_SHARE of them."""
    count = max(1, int(TOP_SHARE * gradients.shape[1]))
    kept = torch.zeros_like(gradients)
    places = gradients.abs().topk(count, dim=1).indices
    return kept.scatter_(1, places, gradients.gather(1, places)).mean(dim=0)


def low_rank(gradients: Tensor, shapes: Sequence[tuple[int, ...]]) -> Tensor:
    """ACP-SGD's result once its factors have settled. It is linear in the gradients, so only their mean is needed."""
    pieces = torch.split(gradients.mean(dim=0), [int(torch.Size(shape).numel()) for shape in shapes])
    restored = [
        _restored(piece, shape, number) for number, (piece, shape) in enumerate(zip(pieces, shapes, strict=True))
    ]
    return torch.cat(restored)


def _restored(flat: Tensor, shape: tuple[int, ...], number: int) -> Tensor:
    if len(shape) < 2:
        return flat
    matrix = flat.view(shape[0], -1)
    rank = min(ACP_RANK, *matrix.shape)

    def drawn(phase: Phase) -> Tensor:
        rows = matrix.shape[0] if phase is Phase.P else matrix.shape[1]
        return torch.from_numpy(draw_factor(1, number, phase, (rows, rank))).to(matrix.dtype)

    p, q = drawn(Phase.P), drawn(Phase.Q)
    for _ in range(ACP_TURNS):
        q = orthonormal(q, lambda: drawn(Phase.Q))
        p = orthonormal(matrix @ q, lambda: drawn(Phase.P))
        q = matrix.T @ p
    return (p @ q.T).reshape(-1)


def fitted(result: Tensor, truth: Tensor) -> Tensor:
    """Return the result, scaled to be as near to the truth as possible."""
    energy = float(result.double().square().sum())
    return result * (float((result.double() * truth.double()).sum()) / energy if energy else 0.0)


def error(name: str, estimate: Estimate, gradients: Tensor) -> float:
    """Return the NMSE of one estimate of the workers' mean gradient."""
    truth, result = gradients.mean(dim=0), estimate(gradients)
    return nmse(fitted(result, truth) if name in DIRECTIONS else result, truth)


def _of(task: str, rows: Rows) -> dict[str, dict[int, float]]:
    """NMSE by codec and number of workers."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        if row["task"] == task:
            found.setdefault(row["codec"], {})[row["workers"]] = row["nmse"]
    return found


def _table(task: str, rows: Rows) -> PageTable:
    by_codec = _of(task, rows)
    counts = sorted({row["workers"] for row in rows if row["task"] == task})
    cells = (
        (name, *(f"{of[workers]:.3g}" if workers in of else "-" for workers in counts)) for name, of in by_codec.items()
    )
    return PageTable(f"NMSE, {task}", ("codec", *(f"{workers} workers" for workers in counts)), tuple(cells))


def _chart(task: str, rows: Rows) -> Chart:
    by_codec = _of(task, rows)
    small = [name for name, of in by_codec.items() if max(of.values()) < DRAWN_MIN]
    series = tuple(
        Series(name, tuple((float(workers), value) for workers, value in sorted(of.items())))
        for name, of in by_codec.items()
        if name not in small
    )
    note = f"Below {DRAWN_MIN:g} and not drawn: {', '.join(small)}." if small else ""
    title = f"Error over the number of workers, {task}"
    return Chart(title, "workers", "NMSE (no unit)", series, log_y=True, note=note)


def _behind(task: str, rows: Rows) -> list[str]:
    """Sentences on codecs of Sumwire with a larger error than float16 or top-k for any number of workers."""
    by_codec = _of(task, rows)
    own = [name for name in by_codec if name in CODECS or name == "acp"]
    sentences = []
    for other in _OTHERS:
        if other not in by_codec:
            continue
        worse = [name for name in own if _always_above(by_codec[name], by_codec[other])]
        if worse:
            sentences.append(
                f"{task}: for any number of workers, {', '.join(worse)} lose more of a gradient than {other}."
            )
    return sentences


def _always_above(mine: Mapping[int, float], theirs: Mapping[int, float]) -> bool:
    return all(mine[workers] > theirs[workers] for workers in mine.keys() & theirs.keys())
