# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Under a framework: what gets the hook, and what is said where nothing does."""

from __future__ import annotations

import logging
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sumwire
import torch
import torch.distributed as dist
from helpers.logs import events_of
from sumwire.errors import UsageError
from sumwire.start import attach, script
from sumwire.start.attach import Attachment, reason_for_nothing
from sumwire.training.ddp import check_ranks
from sumwire_protocol.events import Event
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel


def wrapped(monkeypatch: pytest.MonkeyPatch, ranks: int) -> DistributedDataParallel:
    """One that was never made, since that needs a process group."""
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: ranks)
    return DistributedDataParallel.__new__(DistributedDataParallel)


def test_a_plain_model_gets_nothing_and_that_is_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped(monkeypatch, 2)
    with caplog.at_level(logging.WARNING, "sumwire"):
        assert not Attachment().attach(nn.Linear(2, 2))
    assert "sumwire does nothing: the model is a Linear, not a DistributedDataParallel" in caplog.text
    assert events_of(caplog.records) == [Event.NOTHING_TO_DO]


def test_one_rank_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A framework wraps no model then, and more ranks are the cure."""
    assert "one rank only" in reason_for_nothing(wrapped(monkeypatch, 1))
    assert "one rank only" in reason_for_nothing(nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("option", "words"), [("silense_s", "give silence_s, or"), ("precision", "give one of address, aggregator, ")]
)
def test_a_misspelt_option_is_named_before_any_rank_waits(option: str, words: str) -> None:
    for call in (Attachment, sumwire.init):
        with pytest.raises(UsageError, match=f"sumwire.init has no option '{option}': {words}"):
            call(**{option: 4})  # type: ignore[operator]


def test_a_callback_takes_no_system() -> None:
    with pytest.raises(UsageError, match="system = 'auto': a framework's callback sums by a job: leave it out, or"):
        Attachment(system="auto")


def test_a_job_is_no_state_of_the_hook() -> None:
    job: Any = object()
    with pytest.raises(
        UsageError, match=r"given a object for its state: call `register_comm_hook\(DdpState\(job\), ddp_hook\)"
    ):
        sumwire.ddp_hook(job, job)


def test_the_hook_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    class FakeJob:
        def close(self, *, agree: bool) -> None:
            closed.append(agree)

    given: list[Any] = []
    monkeypatch.setattr(attach, "init", lambda **options: given.append(options) or FakeJob())
    monkeypatch.setattr(attach, "DdpState", lambda job, scaler: ("state", job, scaler))
    monkeypatch.setattr(attach, "check_ranks", lambda model, job: None)
    monkeypatch.setattr(DistributedDataParallel, "register_comm_hook", lambda self, *hook: given.append(hook))
    model, scaler = wrapped(monkeypatch, 2), GradScaler("cpu")
    attachment = Attachment(aggregator="rank0")
    assert attachment.attach(model, scaler) and attachment.attach(model, scaler)
    assert given == [{"aggregator": "rank0"}, (attachment._now, attach._hook_of_now)]
    assert attachment._now.state == ("state", attachment.job, scaler)
    attachment.close(agree=False)
    attachment.close()
    assert closed == [False] and attachment.job is None
    # A framework trains the same model again: torch takes no second hook, so the first one finds the new job.
    assert attachment.attach(model)
    assert given[2:] == [{"aggregator": "rank0"}]
    monkeypatch.setattr(attach, "ddp_hook", lambda state, bucket: (state, bucket))
    hook: Any = given[1][1]
    assert hook.__annotations__["bucket"] is GradBucket, "torch looks at it"
    assert hook(attachment._now, "bucket") == (("state", attachment.job, None), "bucket")


def callback_of(name: str, framework: str, base: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The callback in a module of its own, also where its framework is not installed."""
    monkeypatch.setitem(sys.modules, framework, SimpleNamespace(**{base: object}))
    spec = spec_from_file_location(f"alone_{name}", Path(attach.__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SumwireCallback


def test_callbacks_hand_the_frameworks_scaler_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it residuals would stay at the old scale when the scaler changes its own."""
    lightning = callback_of("lightning", "lightning", "Callback", monkeypatch)
    trainer = callback_of("trainer", "transformers", "TrainerCallback", monkeypatch)
    given: list[tuple[object, ...]] = []
    monkeypatch.setattr(Attachment, "attach", lambda self, *arguments: given.append(arguments))
    scaler, strategy = GradScaler("cpu"), SimpleNamespace(model="wrapped")
    for plugin in (SimpleNamespace(scaler=scaler), SimpleNamespace()):
        lightning().on_train_start(SimpleNamespace(strategy=strategy, precision_plugin=plugin), None)
    huggingface = SimpleNamespace(model_wrapped="wrapped", accelerator=SimpleNamespace(scaler=scaler))
    trainer(huggingface).on_train_begin(None, None, None)
    assert given == [("wrapped", scaler), ("wrapped", None), ("wrapped", scaler)]


@pytest.mark.parametrize("by_framework", [True, False])
def test_a_model_over_some_of_the_jobs_ranks_is_refused(monkeypatch: pytest.MonkeyPatch, by_framework: bool) -> None:
    class FakeJob:
        summands = 4

    model: Any = wrapped(monkeypatch, 4)
    model.process_group = None
    monkeypatch.setattr(dist, "get_process_group_ranks", lambda group: [1, 3])
    monkeypatch.setattr(attach, "init", lambda **options: FakeJob())
    job: Any = FakeJob()
    with pytest.raises(UsageError, match=r"over ranks \[1, 3\], and a job of 4 ranks: .* leave out process_group"):
        Attachment().attach(model) if by_framework else check_ranks(model, job)


@pytest.mark.parametrize(
    ("cuda", "nccl", "backend"),
    [(True, True, "cpu:gloo,cuda:nccl"), (True, False, "gloo"), (False, True, "gloo"), (False, False, "gloo")],
)
def test_nccl_only_where_torch_has_it(monkeypatch: pytest.MonkeyPatch, cuda: bool, nccl: bool, backend: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(dist, "is_nccl_available", lambda: nccl)
    assert script._backend() == backend
