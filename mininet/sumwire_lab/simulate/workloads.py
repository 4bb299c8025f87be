# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What workers compute and send in a step: tensors of well-known models and of the lab's tasks, each with the seconds
of its forward and backward pass, and DDP's buckets of them.

Seconds come from a published throughput, which a workload's ``source`` names. A third of a step is the forward pass and
two thirds are the backward pass, because that multiplies twice (Megatron-LM, arXiv 2205.05198). Within a pass, a tensor
has the share of the seconds that its multiplications have of all. Normalisation, activation and optimizer are part of
the throughput, and so spread alike. A throughput is taken for every batch size; a small batch is slower in truth.

Example: ResNet-50 at 2470 images/s takes 13 ms for 32 images, 4.3 ms forward and 8.6 ms backward. Its first convolution
has 118 of 4089 million multiplications, so 2.9 % of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final

from sumwire.lowrank.fusion import Phase, make_plan
from sumwire.lowrank.shapes import BERT_SIZES, MEGABYTE, RESNET_BLOCKS, Named, model_shapes

from sumwire_lab.options.fields import at_least, one_of
from sumwire_lab.options.recipes import DIGITS, DIGITS_CNN, TASKS, TEXT
from sumwire_lab.options.run_options import BUFFER_MB

VALUE_BYTES: Final = 4
"""Of a gradient's value, float32."""
FIRST_MB: Final = 1.0
"""DDP's first bucket, in units of 2^20 bytes, where a training leaves the size of buckets to DDP."""
_PASSES: Final = 3
_FLOPS: Final = 2
"""Of a multiplication and its addition."""


@dataclass(frozen=True)
class Layer:
    """One parameter tensor. ``forward_s``, ``backward_s``: seconds of one step's batch."""

    name: str
    shape: tuple[int, ...]
    forward_s: float
    backward_s: float

    @property
    def values(self) -> int:
        """Values of its gradient."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Workload:
    """The model that every worker trains, layers in order of the forward pass. ``batch``: samples a worker and step;
    ``device`` and ``source``: on what the seconds were measured, and who published them."""

    name: str
    layers: tuple[Layer, ...]
    batch: int
    device: str
    source: str

    @property
    def values(self) -> int:
        """Values of the whole gradient."""
        return sum(layer.values for layer in self.layers)

    @property
    def forward_s(self) -> float:
        """Seconds of the forward pass."""
        return math.fsum(layer.forward_s for layer in self.layers)

    @property
    def backward_s(self) -> float:
        """Seconds of the backward pass."""
        return math.fsum(layer.backward_s for layer in self.layers)

    def at_batch(self, batch: int) -> Workload:
        """Return it with another batch, whose seconds are in proportion. Raises OptionError for a batch below 1."""
        at_least(1).check("batch", batch)
        return replace(self.taking((self.forward_s + self.backward_s) * batch / self.batch), batch=batch)

    def taking(self, seconds: float) -> Workload:
        """Return it with so many seconds for the two passes together, as one has measured them. Raises OptionError for
        a negative number."""
        at_least(0).check("seconds", seconds)
        factor = seconds / (self.forward_s + self.backward_s)
        layers = (
            replace(one, forward_s=one.forward_s * factor, backward_s=one.backward_s * factor) for one in self.layers
        )
        return replace(self, layers=tuple(layers))


@dataclass(frozen=True)
class Bucket:
    """Gradients that are sent together. ``ready_s``: when the last of them is there, seconds after the backward pass
    began; ``forward_s``: of its layers' forward pass."""

    values: int
    ready_s: float
    forward_s: float = 0.0


def buckets(workload: Workload, buffer_mb: float = BUFFER_MB, first_mb: float | None = None) -> tuple[Bucket, ...]:
    """Return DDP's buckets, those that are ready first being first.

    Sizes are in units of 2^20 bytes. A bucket takes tensors, the model's last one first, until it has its size or more.
    ``first_mb``: size of the first one, by default FIRST_MB. The lab gives DDP a size (`--buffer-mb`), and DDP then
    takes it for the first bucket too. Raises OptionError for a negative size.

    Example: tensors of 30, 4 and 2 MB from the input on, and the default sizes. The first bucket has the 2 MB, the
    second one the 4 MB and, since 4 is below 25, the 30 MB.
    """
    first_mb = FIRST_MB if first_mb is None else first_mb
    for name, size in (("buffer_mb", buffer_mb), ("first_mb", first_mb)):
        at_least(0).check(name, size)
    made: list[Bucket] = []
    values, at, forward_s = 0, 0.0, 0.0
    for layer in reversed(workload.layers):
        values, at, forward_s = values + layer.values, at + layer.backward_s, forward_s + layer.forward_s
        if values * VALUE_BYTES >= (buffer_mb if made else first_mb) * MEGABYTE:
            made.append(Bucket(values, at, forward_s))
            values, forward_s = 0, 0.0
    return (*made, Bucket(values, at, forward_s)) if values else tuple(made)


def low_rank_buckets(workload: Workload, rank: int, phase: Phase) -> tuple[Bucket, ...]:
    """Return ACP-SGD's buffers in a P step or a Q step, those that are ready first being first; the seconds of its own
    computation are not in them.

    Groups are the library's (`sumwire.lowrank.fusion`), without its test of the least compression. Raises OptionError
    for a rank below 1.
    """
    at_least(1).check("rank", rank)
    plan = make_plan([layer.shape for layer in workload.layers], rank, min_compression=0.0)
    after = [0.0]
    for layer in reversed(workload.layers):
        after.append(after[-1] + layer.backward_s)
    ready = after[:0:-1]
    groups = plan.groups[phase]
    return tuple(
        Bucket(
            sum(plan.items[index].sent(phase) for index in group),
            max(ready[index] for index in group),
        )
        for group in groups
    )


# -- multiplications of one sample ----------------------------------------------------------------------


def _multiplications(shape: tuple[int, ...], positions: int) -> int:
    """Of a weight that is applied at so many places of a sample. Vectors are added, not multiplied."""
    return math.prod(shape) * positions if len(shape) > 1 else 0


def _attention(length: int, width: int) -> int:
    """Of queries by keys, and of the result by values."""
    return 2 * length * length * width


_SIDE: Final = 224
"""Pixels of an image's side: ImageNet's."""


def _of_resnet(name: str, shape: tuple[int, ...]) -> int:
    """The stride of a stage is in its first block's second convolution, as in torchvision."""
    if name.startswith("fc"):
        return _multiplications(shape, 1)
    if name == "conv1.weight":
        side = _SIDE // 2
    elif name.startswith("layer"):
        stage = int(name[len("layer")])
        side = _SIDE >> (stage + 1)
        if stage > 1 and ".0.conv1." in name:
            side *= 2
    else:
        return 0
    return _multiplications(shape, side * side)


BERT_LENGTH: Final = 128
_BERT_MASKED: Final = 20
"""Words of a sequence that BERT predicts: max_predictions_per_seq of its published training with this length."""


def _of_bert(name: str, shape: tuple[int, ...], width: int) -> int:
    if name == "decoder.bias":
        # Its weight is the word embedding.
        return shape[0] * width * _BERT_MASKED
    if name.startswith("embeddings"):
        return 0
    if name.startswith(("pooler", "next_sentence")):
        return _multiplications(shape, 1)
    if name.startswith("transform"):
        return _multiplications(shape, _BERT_MASKED)
    scores = _attention(BERT_LENGTH, width) if name.endswith("attention.output.weight") else 0
    return _multiplications(shape, BERT_LENGTH) + scores


@dataclass(frozen=True)
class _Decoder:
    """A decoder in GPT-2's manner, whose output layer is its word embedding."""

    vocabulary: int
    length: int
    width: int
    layers: int

    def shapes(self) -> Iterator[Named]:
        width = self.width
        yield "wte.weight", (self.vocabulary, width)
        yield "wpe.weight", (self.length, width)
        matrices = (("attn.qkv", 3, 1), ("attn.out", 1, 1), ("mlp.up", 4, 1), ("mlp.down", 1, 4))
        for layer in range(self.layers):
            for index, (name, outputs, inputs) in enumerate(matrices):
                if index % 2 == 0:
                    yield from _norm(f"h.{layer}.ln_{index // 2 + 1}", width)
                yield f"h.{layer}.{name}.weight", (outputs * width, inputs * width)
                yield f"h.{layer}.{name}.bias", (outputs * width,)
        yield from _norm("ln_f", width)

    def multiplications(self, name: str, shape: tuple[int, ...]) -> int:
        if name == "ln_f.bias":
            return self.vocabulary * self.width * self.length
        if name.startswith("w"):
            return 0
        scores = _attention(self.length, self.width) if name.endswith("attn.out.weight") else 0
        return _multiplications(shape, self.length) + scores


def _norm(name: str, width: int) -> Iterator[Named]:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)


GPT2: Final = _Decoder(vocabulary=50257, length=1024, width=768, layers=12)
DECODER_7B: Final = _Decoder(vocabulary=50368, length=2048, width=4096, layers=32)


# -- models ---------------------------------------------------------------------------------------------

_A100: Final = "NVIDIA A100 80 GB, mixed precision"
_EXAMPLES: Final = "NVIDIA DeepLearningExamples"
_FOUNDRY: Final = "MosaicML llm-foundry, scripts/train/benchmarking"
_RESNET50_IMAGES_S: Final = 2470.0
_RESNET50: Final = f"{_EXAMPLES}, PyTorch/Classification/ConvNets/resnet50v1.5: {_RESNET50_IMAGES_S:g} images/s on one"
_BERT_LARGE_SEQUENCES_S: Final = 694.0
_BERT_LARGE: Final = (
    f"{_EXAMPLES}, PaddlePaddle/LanguageModeling/BERT: {_BERT_LARGE_SEQUENCES_S:g} sequences/s of {BERT_LENGTH} on "
    "one, pre-training"
)
# Of the published runs of ACP-SGD (arXiv 2306.08881).
_BATCHES: Final = {"resnet50": 64, "resnet152": 32, "bert-base": 32, "bert-large": 8}
_GPT2_TOKENS_S: Final = 148289.0
_DECODER_7B_TOKENS_S: Final = 10643.0
_CORE_FLOPS: Final = 2.45e9 * 32


@dataclass(frozen=True)
class _Published:
    """``sample_s``: seconds of a sample, both passes."""

    batch: int
    sample_s: float
    device: str
    source: str


def _timed(name: str, named: Sequence[Named], work: Sequence[int], published: _Published) -> Workload:
    """``work``: multiplications of a sample by tensor."""
    step_s, whole = published.batch * published.sample_s, sum(work)
    layers = (
        Layer(one, shape, step_s * part / whole / _PASSES, step_s * part / whole * (_PASSES - 1) / _PASSES)
        for (one, shape), part in zip(named, work, strict=True)
    )
    return Workload(name, tuple(layers), published.batch, published.device, published.source)


def _resnet(name: str, batch: int) -> Workload:
    named = model_shapes(name)
    work = [_of_resnet(*one) for one in named]
    published = sum(_of_resnet(*one) for one in model_shapes("resnet50"))
    derived = "" if name == "resnet50" else f"; derived for {name} by its multiplications, at equal utilisation"
    seconds = sum(work) / published / _RESNET50_IMAGES_S
    return _timed(name, named, work, _Published(batch, seconds, _A100, _RESNET50 + derived))


def _bert(name: str, batch: int) -> Workload:
    def work_of(model: str) -> list[int]:
        return [_of_bert(*one, BERT_SIZES[model][0]) for one in model_shapes(model)]

    work = work_of(name)
    derived = "" if name == "bert-large" else f"; derived for {name} by its multiplications, at equal utilisation"
    seconds = sum(work) / sum(work_of("bert-large")) / _BERT_LARGE_SEQUENCES_S
    return _timed(name, model_shapes(name), work, _Published(batch, seconds, _A100, _BERT_LARGE + derived))


def _decoder(name: str, shape: _Decoder, tokens_s: float, published: _Published) -> Workload:
    named = tuple(shape.shapes())
    work = [shape.multiplications(*one) for one in named]
    source = f"{_FOUNDRY}: {tokens_s:g} tokens/s, {published.source}"
    return _timed(name, named, work, replace(published, sample_s=shape.length / tokens_s, source=source))


def _of_task(name: str) -> Workload:
    """A task of the lab, from its network. Its seconds are the least that a core can take (Workload.taking has others):
    an AMD EPYC 7763 makes 32 float32 operations a clock of 2.45 GHz, by its data sheet."""
    # Loading torch takes seconds, and only these tasks need it.
    import torch

    from sumwire_lab.options.run_options import TrainOptions
    from sumwire_lab.training import digits_data, text_data, workload

    task = TASKS[name]
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        network = workload.network(TrainOptions(task=name, hidden=task.hidden))
    named = [(one, tuple(tensor.shape)) for one, tensor in network.named_parameters()]
    places = {DIGITS.name: 1, DIGITS_CNN.name: digits_data.SIDE**2, TEXT.name: text_data.CONTEXT}[name]

    def work(one: str, shape: tuple[int, ...]) -> int:
        if name == TEXT.name:
            if one.startswith(("characters", "places")):
                return 0
            scores = _attention(places, task.hidden) if one.endswith("merge.weight") else 0
            return _multiplications(shape, places) + scores
        return _multiplications(shape, places if len(shape) == 4 else 1)

    works = [work(*one) for one in named]
    seconds = _FLOPS * _PASSES * sum(works) / _CORE_FLOPS
    source = "derived: its multiplications at the core's peak, a lower bound; give the seconds that the lab measured"
    return _timed(name, named, works, _Published(task.batch, seconds, "one core of an AMD EPYC 7763", source))


def _makers() -> dict[str, Callable[[], Workload]]:
    gpt2 = _Published(52, 0.0, "NVIDIA A100 40 GB, bf16", "its model of 125 million, micro-batch of the table")
    mpt = _Published(6, 0.0, "NVIDIA H100 80 GB, bf16", "MPT-7B, micro-batch of the table")
    return {
        **{name: partial(_resnet, name, _BATCHES[name]) for name in RESNET_BLOCKS},
        **{name: partial(_bert, name, _BATCHES[name]) for name in BERT_SIZES},
        "gpt2": partial(_decoder, "gpt2", GPT2, _GPT2_TOKENS_S, gpt2),
        "decoder-7b": partial(_decoder, "decoder-7b", DECODER_7B, _DECODER_7B_TOKENS_S, mpt),
        **{name: partial(_of_task, name) for name in TASKS},
    }


class _Workloads(Mapping[str, Workload]):
    """Makes a workload when it is first asked for."""

    def __init__(self) -> None:
        self._makers = _makers()
        self._made: Callable[[str], Workload] = cache(lambda name: self._makers[name]())

    def __getitem__(self, name: str) -> Workload:
        return self._made(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


WORKLOADS: Final[Mapping[str, Workload]] = _Workloads()


def workload_of(name: str, batch: int | None = None) -> Workload:
    """Return a known workload. Raises OptionError for an unknown name, and for a batch below 1."""
    one_of(tuple(WORKLOADS)).check("model", name)
    found = WORKLOADS[name]
    return found if batch is None else found.at_batch(batch)
