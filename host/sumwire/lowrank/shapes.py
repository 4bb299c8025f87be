# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Parameter shapes of well-known models, in order of registration, and what ACP-SGD makes of them.

ResNets are torchvision's, BERT-Base and BERT-Large are the pre-training models with their vocabulary padded to 30528.
Only shapes are here, no weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sumwire.errors import UsageError
from sumwire.lowrank.fusion import Phase, Plan, make_plan

# (name, shape)
Named = tuple[str, tuple[int, ...]]

MEGABYTE: Final = 1 << 20
RESNET_BLOCKS: Final = {"resnet50": (3, 4, 6, 3), "resnet152": (3, 8, 36, 3)}
# Width and layers.
BERT_SIZES: Final = {"bert-base": (768, 12), "bert-large": (1024, 24)}
# Model -> the rank it is usually trained with.
RANKS: Final = {"resnet50": 4, "resnet152": 4, "bert-base": 32, "bert-large": 32}
_EXPANSION: Final = 4


def model_shapes(name: str) -> tuple[Named, ...]:
    """Return names and shapes of a model's parameters. Raises UsageError for an unknown model."""
    if name in RESNET_BLOCKS:
        return tuple(_resnet(RESNET_BLOCKS[name]))
    if name in BERT_SIZES:
        hidden, layers = BERT_SIZES[name]
        return tuple(_bert(hidden=hidden, layers=layers, intermediate=4 * hidden, vocabulary=30528))
    raise UsageError(f"model {name!r}: known are {', '.join(RANKS)}")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The cost of one step. Bytes are of float32 values; ``dense`` is the uncompressed gradient."""

    parameters: int
    tensors: int
    matrices: int
    dense_bytes: int
    p_bytes: int
    q_bytes: int
    p_threshold: float
    q_threshold: float
    p_groups: int
    q_groups: int
    dense_groups: int

    @property
    def ratio(self) -> float:
        """Uncompressed bytes over those of ACP-SGD: the mean of a P step and a Q step."""
        return 2 * self.dense_bytes / (self.p_bytes + self.q_bytes)

    @property
    def ratio_both(self) -> float:
        """Uncompressed bytes over those of P and Q together, with 1-D tensors counted twice."""
        return self.dense_bytes / (self.p_bytes + self.q_bytes)


def sizes(name: str, rank: int | None = None) -> Sizes:
    """Return the sizes of a known model, without the minimum-compression test; rank None is the model's usual one."""
    shapes = [shape for _, shape in model_shapes(name)]
    plan = make_plan(shapes, RANKS[name] if rank is None else rank, min_compression=0.0)
    return Sizes(
        parameters=sum(math.prod(shape) for shape in shapes),
        tensors=len(shapes),
        matrices=sum(item.rank > 0 for item in plan.items),
        dense_bytes=plan.dense_bytes,
        p_bytes=plan.sent_bytes(Phase.P),
        q_bytes=plan.sent_bytes(Phase.Q),
        p_threshold=plan.scaled_threshold(Phase.P),
        q_threshold=plan.scaled_threshold(Phase.Q),
        p_groups=len(plan.groups[Phase.P]),
        q_groups=len(plan.groups[Phase.Q]),
        dense_groups=len(_uncompressed(shapes).groups[Phase.P]),
    )


def _uncompressed(shapes: list[tuple[int, ...]]) -> Plan:
    """Return the plan that sends everything whole."""
    return make_plan([(math.prod(shape),) for shape in shapes], 1)


def _resnet(blocks: tuple[int, ...], classes: int = 1000) -> Iterator[Named]:
    """Yield the parameters of a ResNet of bottleneck blocks."""
    yield "conv1.weight", (64, 3, 7, 7)
    yield from _norm("bn1", 64)
    before = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for block in range(count):
            yield from _bottleneck(f"layer{stage + 1}.{block}", before, width)
            before = width * _EXPANSION
    yield from _linear("fc", before, classes)


def _bottleneck(name: str, before: int, width: int) -> Iterator[Named]:
    after = width * _EXPANSION
    kernels = ((before, width, 1), (width, width, 3), (width, after, 1))
    for number, (inputs, outputs, side) in enumerate(kernels, start=1):
        yield f"{name}.conv{number}.weight", (outputs, inputs, side, side)
        yield from _norm(f"{name}.bn{number}", outputs)
    # The first block of a stage has a shortcut, whose parameters come last.
    if name.endswith(".0"):
        yield f"{name}.downsample.0.weight", (after, before, 1, 1)
        yield from _norm(f"{name}.downsample.1", after)


def _bert(hidden: int, layers: int, intermediate: int, vocabulary: int) -> Iterator[Named]:
    """Yield the parameters of BERT. The decoder's weight is the word embedding's and is not repeated."""
    for name, rows in (("word", vocabulary), ("position", 512), ("token_type", 2)):
        yield f"embeddings.{name}.weight", (rows, hidden)
    yield from _norm("embeddings.norm", hidden)
    for layer in range(layers):
        for name in ("query", "key", "value", "attention.output"):
            yield from _linear(f"layer.{layer}.{name}", hidden, hidden)
        yield from _norm(f"layer.{layer}.attention.norm", hidden)
        yield from _linear(f"layer.{layer}.intermediate", hidden, intermediate)
        yield from _linear(f"layer.{layer}.output", intermediate, hidden)
        yield from _norm(f"layer.{layer}.norm", hidden)
    yield from _linear("pooler", hidden, hidden)
    yield "decoder.bias", (vocabulary,)
    yield from _linear("transform", hidden, hidden)
    yield from _norm("transform.norm", hidden)
    yield from _linear("next_sentence", hidden, 2)


def _linear(name: str, inputs: int, outputs: int) -> Iterator[Named]:
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def _norm(name: str, width: int) -> Iterator[Named]:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)
