# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Workloads: sizes and multiplications of the published models, seconds of the published figures, and DDP's buckets."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import pytest
from sumwire.lowrank.fusion import Phase
from sumwire.lowrank.shapes import sizes
from sumwire_lab.errors import OptionError
from sumwire_lab.options.recipes import TASKS
from sumwire_lab.simulate import workloads
from sumwire_lab.simulate.workloads import WORKLOADS, Bucket, Layer, Workload, buckets, low_rank_buckets, workload_of

PUBLISHED = {
    # name: values, samples a second of both passes, words or pixels' worth of one sample
    "resnet50": (25_557_032, 2470.0),
    "resnet152": (60_192_808, 2470.0 * 4_089_184_256 / 11_513_626_624),
    "bert-large": (336_232_258, 694.0),
    "gpt2": (124_439_808, 148_289 / 1024),
    "decoder-7b": (6_658_859_008, 10_643 / 2048),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_and_throughputs_are_the_published_ones(name: str) -> None:
    values, samples_s = PUBLISHED[name]
    found = WORKLOADS[name]
    assert found.values == values
    assert found.batch / (found.forward_s + found.backward_s) == pytest.approx(samples_s, rel=1e-12)
    assert found.backward_s == pytest.approx(2 * found.forward_s)
    assert found.device.startswith("NVIDIA")
    assert f"{found.source}".count(":") >= 1


@pytest.mark.parametrize(("name", "multiplications"), [("resnet50", 4_089_184_256), ("resnet152", 11_513_626_624)])
def test_multiplications_of_resnets_are_torchvisions(name: str, multiplications: int) -> None:
    """Its pages say 4.09 and 11.51 thousand millions."""
    assert sum(workloads._of_resnet(*one) for one in workloads.model_shapes(name)) == multiplications


def test_a_decoder_of_7_billion_does_what_its_table_says() -> None:
    """46.44 % of 989.5 Tflop/s, by the table's formula: six operations a parameter and token, and attention."""
    shape = workloads.DECODER_7B
    work = sum(shape.multiplications(*one) for one in shape.shapes())
    flops = 6 * work * 10_643 / 2048
    assert flops == pytest.approx(4.595096e14, rel=0.01)


def test_bert_base_has_bert_larges_utilisation() -> None:
    def flops(name: str) -> float:
        found = WORKLOADS[name]
        width = workloads.BERT_SIZES[name][0]
        work = sum(workloads._of_bert(*one, width) for one in workloads.model_shapes(name))
        return work * found.batch / (found.forward_s + found.backward_s)

    assert flops("bert-base") == pytest.approx(flops("bert-large"))
    assert "derived" in WORKLOADS["bert-base"].source
    assert "derived" not in WORKLOADS["bert-large"].source


@pytest.mark.parametrize(("name", "values"), [("digits", 1_126_410), ("digits-cnn", 283_786), ("text", 1_532_257)])
def test_tasks_have_the_labs_networks(name: str, values: int) -> None:
    import torch

    state = torch.random.get_rng_state()
    found = workloads._of_task(name)
    assert found.values == values
    assert found.batch == TASKS[name].batch
    assert found.forward_s > 0
    # Random numbers of whoever asks are left as they were.
    assert torch.equal(torch.random.get_rng_state(), state)


def test_every_workload_has_layers_that_add_up() -> None:
    assert set(WORKLOADS) == {*PUBLISHED, "bert-base", *TASKS}
    for name, found in WORKLOADS.items():
        assert found.name == name
        assert all(layer.values > 0 and layer.forward_s >= 0 for layer in found.layers)
        assert sum(layer.backward_s for layer in found.layers) == pytest.approx(found.backward_s)


def test_a_batch_scales_seconds_and_nothing_else() -> None:
    found, twice = workload_of("resnet50"), workload_of("resnet50", 128)
    assert twice.batch == 2 * found.batch
    assert twice.forward_s == pytest.approx(2 * found.forward_s)
    assert twice.values == found.values
    measured = found.taking(0.3)
    assert measured.forward_s + measured.backward_s == pytest.approx(0.3)
    assert measured.batch == found.batch


def layered(*megabytes: float) -> Workload:
    """Layers of so many MB from the input on, each of 1 s backward."""
    layers = tuple(Layer(str(index), (round(size * (1 << 18)),), 0.5, 1.0) for index, size in enumerate(megabytes))
    return Workload("made", layers, 1, "", "")


@pytest.mark.parametrize(
    ("megabytes", "sizes", "expected"),
    [
        # As in the docstring.
        ((30, 4, 2), (25.0, None), [(2, 1.0), (34, 3.0)]),
        # A bucket is closed when it has its size, not before it would exceed it.
        ((1, 24, 0.5, 0.5), (25.0, None), [(1, 2.0), (25, 4.0)]),
        ((1, 24, 0.5, 0.4), (25.0, None), [(24.9, 3.0), (1, 4.0)]),
        # The lab's size is that of the first one too.
        ((30, 4, 2), (25.0, 25.0), [(36, 3.0)]),
        ((3, 3, 3), (0.0, 0.0), [(3, 1.0), (3, 2.0), (3, 3.0)]),
        ((8,), (25.0, None), [(8, 1.0)]),
    ],
)
def test_buckets_are_ddps(
    megabytes: tuple[float, ...], sizes: tuple[float, float | None], expected: list[tuple[float, float]]
) -> None:
    found = buckets(layered(*megabytes), *sizes)
    assert [one.values / (1 << 18) for one in found] == pytest.approx([size for size, _ in expected], rel=1e-5)
    assert [one.ready_s for one in found] == [ready for _, ready in expected]


@pytest.mark.parametrize("first_mb", [0.5, 1.0, 25.0])
def test_buckets_are_torchs(first_mb: float) -> None:
    """Torch's own rule, on the tensors in the order in which their gradients are ready."""
    import torch
    import torch.distributed as dist

    found = WORKLOADS["bert-base"]
    tensors = [torch.empty(layer.values, device="meta") for layer in reversed(found.layers)]
    groups, _ = dist._compute_bucket_assignment_by_size(tensors, [int(first_mb * (1 << 20)), 25 << 20])
    expected = [sum(tensors[index].numel() for index in group) for group in groups]
    assert [one.values for one in buckets(found, 25.0, first_mb)] == expected


def test_all_values_are_in_buckets_and_the_last_is_ready_last() -> None:
    for name in PUBLISHED:
        found = WORKLOADS[name]
        made = buckets(found)
        assert sum(one.values for one in made) == found.values
        assert [one.ready_s for one in made] == sorted(one.ready_s for one in made)
        assert made[-1].ready_s == pytest.approx(found.backward_s)


@pytest.mark.parametrize("phase", Phase)
def test_low_rank_buckets_are_the_librarys_groups(phase: Phase) -> None:
    found = WORKLOADS["bert-base"]
    golden = sizes("bert-base", 32)
    made = low_rank_buckets(found, 32, phase)
    assert len(made) == (golden.p_groups if phase is Phase.P else golden.q_groups)
    assert 4 * sum(one.values for one in made) == (golden.p_bytes if phase is Phase.P else golden.q_bytes)
    assert max(one.ready_s for one in made) == pytest.approx(found.backward_s)
    assert isinstance(made[0], Bucket)


def test_wrong_values_are_refused() -> None:
    for wrong, told in [
        (lambda: workload_of("alexnet"), "model=alexnet: known are resnet50"),
        (lambda: workload_of("gpt2", 0), "batch=0: must be at least 1"),
        (lambda: workload_of("gpt2").taking(-1.0), "seconds=-1.0: must be at least 0"),
        (lambda: buckets(WORKLOADS["gpt2"], -1.0), "buffer_mb=-1.0: must be at least 0"),
        (lambda: buckets(WORKLOADS["gpt2"], 25.0, math.nan), "first_mb=nan: must be at least 0"),
        (lambda: low_rank_buckets(WORKLOADS["resnet50"], 0, Phase.P), "rank=0: must be at least 1"),
    ]:
        with pytest.raises(OptionError, match=told.replace(".", r"\.")):
            wrong()


def test_no_module_loads_torch_at_its_head() -> None:
    """Starting a simulation must not take the seconds that torch takes; only the lab's tasks need it."""
    for path in Path(workloads.__file__).parent.glob("*.py"):
        head = ast.parse(path.read_text()).body
        names = {alias.name for node in head if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in head if isinstance(node, ast.ImportFrom)}
        assert not {name for name in names if name.startswith(("torch", "sumwire_lab.training"))}, path
