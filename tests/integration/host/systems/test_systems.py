# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every system by its name, training a small model through soft switches; and what it puts on the wire."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sumwire
import torch
from helpers.aggregator.served import serving
from helpers.gloo.systems_cases import OVER_A_SWITCH
from helpers.training.replicas import backward, flat, in_threads, net
from helpers.transport.soft_tree import LEAF_SPINE, STAR, TreeRig, soft_tree
from helpers.transport.udp_bridge import Impairment, configs, job_mapping, run_workers
from sumwire import systems
from sumwire.lowrank.sync import AcpSgd
from sumwire.training.reductions import Collective
from torch import Tensor, nn

STEPS = 50
UNIFORM = {"bits": 4, "p": 0.03125, "table": list(range(16))}
OPTIONS = OVER_A_SWITCH | {"vote": {"scale": 0.3}, "ssdm": {"scale": 0.5}}


@pytest.fixture(scope="module")
def rig() -> Iterator[TreeRig]:
    with soft_tree(STAR, {"train": 16}) as running:
        yield running


def train(
    rig: TreeRig, name: str, steps: int, impairment: Impairment | None = None
) -> list[tuple[Tensor, list[float], dict[str, float]]]:
    """(parameters, losses, statistics) of every worker."""
    mapping = rig.fresh_job("train")

    def work(worker: int) -> tuple[Tensor, list[float], dict[str, float]]:
        model = net(torch.float32)
        with sumwire.Job(configs(mapping)[worker], fallback="never", block=1024) as job:
            system = systems.make(name, job, **OPTIONS[name])
            optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=0.03))
            losses = []
            for step in range(steps):
                optimizer.zero_grad()
                losses.append(backward(model, worker, step))
                optimizer.step()
            system.close()
            return flat(model), losses, system.stats

    with rig.bridge(mapping, impairment):
        return run_workers(work, rig.shape.workers)


def test_marsit_in_a_tree() -> None:
    with soft_tree(LEAF_SPINE, {"train": 16}) as rig:
        outcomes = train(rig, "marsit", 30, Impairment(7, 0.01, 0.01, 0.02, 0.01))
    losses = torch.tensor([losses for _, losses, _ in outcomes]).mean(0)
    assert float(losses[-5:].mean()) < float(losses[:5].mean()) / 2, losses.tolist()
    for parameters, _, _ in outcomes:
        assert torch.equal(parameters, outcomes[0][0])


@pytest.mark.parametrize("name", OPTIONS)
def test_every_system_learns_and_keeps_its_replicas_equal(rig: TreeRig, name: str) -> None:
    outcomes = train(rig, name, STEPS, Impairment(7, 0.005, 0.005, 0.01, 0.005))
    for parameters, _, stats in outcomes:
        assert torch.equal(parameters, outcomes[0][0])
        # Marsit's workers agree before each round that all have finite gradients, and three times between two exact
        # rounds on their steps, by two means.
        assert stats["operations"] == (2 * STEPS + 3 * 2 * STEPS // 5 if name == "marsit" else STEPS)
        assert name not in ("acp", "acp-thc") or stats["values"] < STEPS * len(parameters)
        assert stats["operation_s"] > 0
    losses = torch.tensor([losses for _, losses, _ in outcomes]).mean(0)
    # Stochastic signs of this few workers are mostly noise.
    share = 0.85 if name == "ssdm" else 0.5
    assert float(losses[-10:].mean()) < float(losses[:5].mean()) * share, losses.tolist()


def test_full_precision_is_the_mean_gradient(rig: TreeRig) -> None:
    """SUM32 against one optimizer on the mean of all workers' gradients."""
    outcomes = train(rig, "sum32", 10)
    model = net(torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
    for step in range(10):
        grads = []
        for worker in range(rig.shape.workers):
            backward(model, worker, step)
            grads.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
        for p, *pieces in zip(model.parameters(), *grads, strict=True):
            p.grad = torch.stack(pieces).mean(0)
        optimizer.step()
    torch.testing.assert_close(outcomes[0][0], flat(model), rtol=0, atol=1e-5)


def payload_bits(rig: TreeRig, values: int, every: int | None) -> tuple[tuple[float, float], float]:
    """Bits per value and step, (up, down), of Marsit's payloads, and how exact they are; without the job's greeting."""
    mapping = rig.fresh_job("train")
    header = 14 + 20 + 8 + 32

    def work(worker: int) -> tuple[int, float, float]:
        weight = nn.Parameter(torch.zeros(values))
        with sumwire.Job(configs(mapping)[worker], fallback="never") as job:
            system = systems.make("marsit", job, rule="published", global_lr=0.01, full_precision_every=every)
            marsit = system.attach(nn.ParameterList([weight]), torch.optim.SGD([weight], lr=0.01))
            assert isinstance(marsit, sumwire.optim.Marsit)
            job.vote(torch.ones(1, dtype=torch.bool))
            before = job.stats.as_dict()
            weight.grad = torch.randn(values)
            marsit.step()
            used = {key: value - before[key] for key, value in job.stats.as_dict().items()}
        # What was sent or came twice is left out, as packets of 8 words; one of a step's 33 or more has a single word.
        up = used["bytes_sent"] - used["packets_sent"] * header - used["retransmissions"] * 1024
        down = used["bytes_received"] - used["packets_received"] * header - used["duplicates"] * 1024
        return used["retransmissions"] + used["duplicates"], 8 * up / values, 8 * down / values

    with rig.bridge(mapping):
        twice, up, down = min(run_workers(work, rig.shape.workers))
    return (up, down), 0.01 + 8 * (1024 - 128) * twice / values


def test_bits_on_the_wire(rig: TreeRig) -> None:
    """Marsit-100 from its two kinds of rounds: 1 full-precision round in 100. Whole chunks, headers aside."""
    values = 32 * 8192
    sign, exact = payload_bits(rig, values, None)
    assert sign == pytest.approx((1.0, 1.0), abs=exact)
    full, exact = payload_bits(rig, values, 1)
    assert full == pytest.approx((32.125, 32.125), abs=0.2 + exact)
    for direction in range(2):
        assert (99 * sign[direction] + full[direction]) / 100 <= 1.32


def test_acp_over_the_switch_is_acp_with_exact_sums(rig: TreeRig) -> None:
    """Fixed point changes the parameters by at most 1e-5, compared with threads that add exactly."""

    def work(worker: int, collective: Collective) -> Tensor:
        model = net(torch.float32)

        def reduce(x: Tensor, number: int) -> tuple[Tensor, Callable[[], Tensor]]:
            return collective.mean(x), lambda: torch.zeros_like(x)

        inner = torch.optim.SGD(model.parameters(), lr=0.03)
        optimizer = AcpSgd(model, inner, reduce, **OPTIONS["acp"])
        for step in range(10):
            backward(model, worker, step)
            optimizer.step()
        return flat(model)

    expected = in_threads(work, rig.shape.workers)[0]
    assert float((expected - flat(net(torch.float32))).norm()) > 0.05
    torch.testing.assert_close(train(rig, "acp", 10)[0][0], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("marsit2", {}, "'marsit2': known are ssgd, fp16, bf16, sum32"),
        ("marsit", {}, "must have sum32 for system marsit"),
        ("vote", {"transport": "wire"}, "transport 'wire': known are auto, switch, group"),
        (
            "topk",
            {"transport": "switch"},
            "topk: transport 'switch': it runs over group; .*: .*sum32, vote,",
        ),
        (
            "marsit",
            {"transport": "group"},
            "marsit: transport 'group': it runs over switch; .* over group: .*ssgd, fp16",
        ),
        ("ssdm", {"speed": 1}, "ssdm: option 'speed': over switch its options are scale, momentum"),
        ("thc", {"bits": 3}, "thc: option 'bits': over switch its options are error_feedback"),
        ("naive4", {}, r"table = .*: must be 0, 1 \.\.\. for system naive4"),
        ("thc-uniform", {}, r"table = .*: must be 0, 1 \.\.\. for system thc-uniform"),
        ("ssdm", {"job": None}, "system ssdm: needs a job, with ops sum32, max32"),
        ("vote", {"job": None, "transport": "switch"}, "system vote: needs a job, with ops vote, max32"),
        ("vote", {"job": None}, "no process group: call torch"),
        ("marsit-torus", {"job": None}, "marsit-torus: needs option rows"),
    ],
)
def test_made_by_name_only_with_what_it_needs(name: str, options: dict[str, Any], text: str) -> None:
    refused = pytest.raises((sumwire.UsageError, sumwire.ConfigError), match=text)
    with sumwire.Job(configs({**job_mapping(1, 8), "ops": ["max32", "sign", "thc"]})[0]) as job, refused:
        systems.make(name, **{"job": job, **options})


@pytest.mark.parametrize(
    ("name", "options", "model", "text"),
    [
        ("acp-thc", {"rank": 0}, nn.Linear(4, 6), "rank = 0: must be a whole number"),
        ("thc", {}, nn.Flatten(), "thc: the model has no parameters"),
        ("thc", {}, nn.Linear(2, 1), "serves one model"),
    ],
)
def test_attached_once_to_a_model_with_parameters(
    name: str, options: dict[str, Any], model: nn.Module, text: str
) -> None:
    optimizer = torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1)
    with sumwire.Job(configs({**job_mapping(1, 8), "ops": ["max32", "sum32", "thc"]})[0]) as job:
        system = systems.make(name, job, **options)
        if isinstance(model, nn.Linear) and name == "thc":
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            system.attach(model, optimizer)
        with pytest.raises(sumwire.UsageError, match=text):
            system.attach(model, optimizer)


def test_uniform_thc_takes_a_job_with_the_uniform_table() -> None:
    plain = job_mapping(1, 8)
    job_file = {**plain, "thc": UNIFORM}
    with sumwire.Job(configs(job_file)[0]) as job:
        assert systems.make("thc-uniform", job).transport == "switch"


def test_naive_quantization_is_summed_as_thc_is_and_carries_what_it_left_out() -> None:
    """A quarter of an index step is rounded away, and after four steps it has arrived."""
    mapping = {**job_mapping(2, 8), "thc": UNIFORM}
    gradient = torch.zeros(3000)
    gradient[0], gradient[1] = 7.0, 0.25

    def work(worker: int) -> list[float]:
        model = nn.Linear(3000, 1, bias=False)
        with sumwire.Job(configs(mapping)[worker], fallback="never") as job:
            system = systems.make("naive4", job)
            optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
            before = model.weight.detach().clone()
            for _ in range(4):
                model.weight.grad = gradient[None, :].clone()
                optimizer.step()
            system.close()
            return (before - model.weight.detach())[0, :3].tolist()

    with serving(mapping):
        found = run_workers(work, 2)
    assert found == [pytest.approx([28.0, 1.0, 0.0], abs=1e-5)] * 2


def test_all_systems_over_a_switch_are_tried() -> None:
    assert set(OPTIONS) | {"thc-uniform", "naive4", "dlcp"} == {
        name for name, spec in systems.TABLE.items() if spec.ops
    }


def test_entries_are_read_without_torch() -> None:
    code = "import sys, sumwire.systems as s; s.TABLE['thc']; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
