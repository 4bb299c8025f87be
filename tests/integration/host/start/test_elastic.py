# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Elastic training with jobs on loopback, and a manager in place of torchft's that gives out quorums as it does.

Ranks are threads. One "is killed" by leaving its job in the midst of a step. tests/system/test_elastic.py kills
processes, with torchft.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import sumwire
import torch
import torch.distributed as dist
from helpers.aggregator.served import every_op_mapping, serving
from helpers.logs import logged, of
from helpers.transport.udp_bridge import run_workers
from sumwire.config import parse_job
from sumwire.errors import PeerLostError, RecreateError
from sumwire.start import elastic, quorum
from sumwire.start.elastic import Elastic
from sumwire.start.errors import PlaceError
from sumwire.start.job_request import JobRequest, job_file_for
from sumwire.start.quorum import ElasticGroup
from sumwire_protocol.events import Event
from torch import Tensor, nn

VALUES = 3000


class Done(dist._Work):  # type: ignore[name-defined, misc]
    def __init__(self, result: object) -> None:
        super().__init__()
        self._future: torch.futures.Future[Any] = torch.futures.Future()
        self._future.set_result(result)

    def wait(self, timeout: object = None) -> bool:
        return True

    def get_future(self) -> torch.futures.Future[Any]:
        return self._future


class Alone(dist.ProcessGroup):
    """What DDP needs of the group of one rank."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def allreduce(self, tensors: list[Tensor], opts: object) -> Done:
        return Done(tensors)

    def broadcast(self, tensors: list[Tensor], opts: object) -> Done:
        return Done(tensors)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: object) -> Done:
        for output, own in zip(outputs[0], inputs, strict=True):
            output.copy_(own)
        return Done(outputs)

    def getBackendName(self) -> str:
        return "alone"


class Lighthouse:
    """Quorums of those members of `present` that ask, and the latest states for those that are behind."""

    def __init__(self, present: set[int]) -> None:
        self.present = present
        self.store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        self._changed = threading.Condition()
        self._asking: dict[int, Manager] = {}
        self._round = 0
        self.quorum: tuple[int, list[Manager]] = (0, [])

    def ask(self, manager: Manager) -> tuple[int, list[Manager]]:
        with self._changed:
            self._asking[manager.worker] = manager
            if self._asking.keys() == self.present:
                number, before = self.quorum
                members = [self._asking[worker] for worker in sorted(self._asking)]
                # As torchft does: another number after a failure too.
                if members != before or any(member.failures for member in members):
                    number += 1
                self.quorum, self._asking = (number, members), {}
                self._round += 1
                self._changed.notify_all()
                return self.quorum
            asked = self._round
            assert self._changed.wait_for(lambda: self._round > asked, 60), f"{self.present} have not asked"
            return self.quorum


class Manager:
    """One rank's manager."""

    def __init__(self, lighthouse: Lighthouse, worker: int, group: ElasticGroup) -> None:
        self.worker = worker
        self.training: Elastic
        self.step = 0
        self.failures = 0
        self._lighthouse, self._group = lighthouse, group
        self._number, self._members = 0, list[Manager]()
        self._error: Any = None

    def start_quorum(self) -> None:
        self._error = None
        number, self._members = self._lighthouse.ask(self)
        if number != self._number:
            self._number = number
            at = f"127.0.0.1:{self._lighthouse.store.port}/torchft/{number}/0"
            try:
                self._group.configure(at, f"worker{self.worker}", self.participating_rank(), len(self._members), number)
            except Exception as error:  # noqa: BLE001 - as torchft does
                self.report_error(error)
                return
        first = max(self._members, key=lambda one: one.step)
        if self.step < first.step:
            self.training.load(first.training.saved())
            self.step = first.step

    def errored(self) -> Any:
        return self._error

    def report_error(self, error: Exception) -> None:
        self._error = SimpleNamespace(original_exception=error)

    def should_commit(self) -> bool:
        self.failures = 0 if self._error is None else self.failures + 1
        self.step += self._error is None
        return self._error is None

    def current_step(self) -> int:
        return self.step

    def participating_rank(self) -> int:
        return self._members.index(self)

    def num_participants(self) -> int:
        return len(self._members)

    def shutdown(self, wait: bool) -> None:
        pass


def part(lighthouse: Lighthouse, mapping: Mapping[str, Any], worker: int) -> Elastic:
    """One rank's, whose model is its own until it has that of the others."""
    model = nn.Linear(VALUES, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(float(worker) if worker == 3 else 1.0)
    group = ElasticGroup(parse_job(mapping, worker), {"silence_s": 20.0})
    training = Elastic(model, torch.optim.SGD(model.parameters(), lr=1.0), group, alone=Alone())
    training.enter(Manager(lighthouse, worker, group))
    training._manager.training = training
    return training


def gradient(worker: int, step: int) -> Tensor:
    return torch.randn(VALUES, generator=torch.Generator().manual_seed(100 * step + worker))


def made(training: Elastic, worker: int) -> tuple[bool, Tensor, Tensor]:
    """One step: whether it counts, and this rank's residual before and after it."""
    training.begin()
    before = residual(training)
    training.model(gradient(worker, training.step)).sum().backward()
    return training.commit(), before, residual(training)


def residual(training: Elastic) -> Tensor:
    training.state.settle()
    kept = training.state.feedback.kept().residuals  # type: ignore[union-attr]
    return kept[0].clone() if kept else torch.zeros(VALUES)


def weight(training: Elastic) -> Tensor:
    return next(training.model.parameters()).detach().flatten().clone()


@contextmanager
def training_of(present: set[int]) -> Iterator[tuple[Lighthouse, dict[int, Elastic]]]:
    mapping = {**every_op_mapping(), "workers_min": 1}
    with serving(mapping):
        lighthouse = Lighthouse(present)
        parts = {worker: part(lighthouse, mapping, worker) for worker in range(4)}
        try:
            yield lighthouse, parts
        finally:
            for one in parts.values():
                one.close(agree=False)


def each(parts: Mapping[int, Elastic], do: Callable[[Elastic, int], Any], *workers: int) -> list[Any]:
    return run_workers(lambda place: do(parts[workers[place]], workers[place]), len(workers))


def check_step(parts: Mapping[int, Elastic], step: int, was: Tensor, done: list[Any], *workers: int) -> None:
    """All apply the same, and what was applied and what is left are what the ranks' gradients and residuals were."""
    now = [weight(parts[worker]) for worker in workers]
    assert all(torch.equal(one, now[0]) for one in now)
    owed = torch.stack([gradient(worker, step) + before for worker, (_, before, _) in zip(workers, done, strict=True)])
    left = torch.stack([after for _, _, after in done])
    applied = was - now[0]
    assert float((owed.mean(0) - applied - left.mean(0)).abs().max()) < 1e-4
    assert float((owed.mean(0) - applied).square().sum() / owed.mean(0).square().sum()) < 0.1


def leaves_in_the_midst(training: Elastic, worker: int) -> tuple[bool, Tensor, Tensor]:
    """As if it were killed once it has its sums, before its vote."""
    training.begin()
    before = residual(training)
    training.model(gradient(worker, training.step)).sum().backward()
    training._group.leave()
    return False, before, before


def test_ranks_come_and_go() -> None:
    with training_of({0, 1, 2}) as (lighthouse, parts):
        for step in range(2):
            was = weight(parts[0])
            done = each(parts, made, 0, 1, 2)
            assert all(counts for counts, _, _ in done)
            check_step(parts, step, was, done, 0, 1, 2)

        def last(training: Elastic, worker: int) -> Any:
            return leaves_in_the_midst(training, worker) if worker == 1 else made(training, worker)

        was = weight(parts[0])
        done = each(parts, last, 0, 1, 2)
        for counts, before, after in done:
            assert not counts and torch.equal(before, after) and before.any()
        assert torch.equal(weight(parts[0]), was) and parts[0].step == 2
        # Worker 1 has gone, and worker 3 is new: it takes the others' model, and owes nothing yet.
        lighthouse.present = {0, 2, 3}
        done = each(parts, made, 0, 2, 3)
        assert [counts for counts, _, _ in done] == [True] * 3 and not done[2][1].any()
        assert [parts[worker].step for worker in (0, 2, 3)] == [3] * 3
        check_step(parts, 2, was, done, 0, 2, 3)
        assert [parts[worker].ranks for worker in (0, 2, 3)] == [3] * 3
        lighthouse.present = {2}
        [(counts, _, _)] = each(parts, made, 2)
        assert counts and parts[2].ranks == 1 and parts[2].step == 4
        # Worker 0 was away, and is a step behind: what it owed, it owed another model.
        assert residual(parts[0]).any()
        lighthouse.present = {0, 2}
        done = each(parts, made, 0, 2)
        assert [counts for counts, _, _ in done] == [True] * 2 and not done[0][1].any() and done[1][1].any()


def test_a_vote_whose_result_one_rank_does_not_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its contribution is in the model that it then takes over, so that what it has left is still owed."""
    reduced, deaf = sumwire.all_reduce, threading.local()

    def all_reduce(*words: Any, **more: Any) -> Tensor:
        result = reduced(*words, **more)
        if getattr(deaf, "now", False):
            raise PeerLostError("the others have gone")
        return result

    monkeypatch.setattr(elastic, "all_reduce", all_reduce)

    def some(training: Elastic, worker: int) -> Any:
        deaf.now = worker == 1
        return made(training, worker)

    with training_of({0, 1}) as (_, parts), logged() as lines:
        each(parts, made, 0, 1)
        was = weight(parts[0])
        done = each(parts, some, 0, 1)
        assert [line["members"] for line in of(lines, Event.QUORUM_MADE)] == [[0, 1]] * 2
        (discarded,) = of(lines, Event.STEP_DISCARDED)
        assert (discarded["step"], discarded["reason"]) == (1, "the others have gone")
        assert [counts for counts, _, _ in done] == [True, False]
        assert torch.equal(done[1][1], done[1][2]) and parts[1].step == 1
        each(parts, lambda training, _: training.begin(), 0, 1)
        assert parts[1].step == 2 and not torch.equal(residual(parts[1]), done[1][1])
        done[1] = (True, done[1][1], residual(parts[1]))
        check_step(parts, 1, was, done, 0, 1)


def test_a_training_that_never_gets_a_job_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def configure(*_: object) -> None:
        raise PeerLostError("nobody came")

    with training_of({0}) as (_, parts):
        monkeypatch.setattr(parts[0]._group, "configure", configure)
        with pytest.raises(RecreateError, match=r"step 0 has come to nothing 11 times in a row, .* since nobody came"):
            parts[0].begin()


def test_an_error_that_no_other_quorum_mends_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum, "check_version", lambda _: (_ for _ in ()).throw(PlaceError("another version")))
    with training_of({0}) as (_, parts), pytest.raises(PlaceError, match="another version"):
        parts[0].begin()


def job(hosts: int = 2) -> dict[str, Any]:
    return job_file_for(["127.0.0.1"] * hosts, "127.0.0.1", JobRequest(workers_min=1))


def test_each_rank_of_a_machine_takes_a_worker_of_its_own() -> None:
    """A worker is free again once its process has ended, which closes the socket."""
    first, place = quorum.claimed(job())
    with closing(place):
        second, other = quorum.claimed(job())
        assert (first.worker, second.worker) == (0, 1)
        with closing(other), pytest.raises(PlaceError, match=r"no worker of this machine is free among .*: name the"):
            quorum.claimed(job())
        again, third = quorum.claimed(job())
        third.close()
        assert again.worker == 1


def test_a_quorum_whose_store_is_gone() -> None:
    """The process that had it was killed meanwhile."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    group = quorum.ElasticGroup(parse_job(job(), 0), {})
    group.meet_s = 0.2
    with pytest.raises(
        PeerLostError, match=r"rank 0 of a quorum: another one did not come within 0.2 s .*; begin again: the next"
    ):
        group.configure(f"127.0.0.1:{port}/quorum", "worker0", 0, 2, 1)
    assert group.job is None and group.fatal is None
