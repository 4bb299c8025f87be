# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which ranks share which worker."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist
from helpers.logs import events_of
from helpers.transport.udp_bridge import configs, job_mapping
from sumwire.start import rank_placement, supervisor
from sumwire.start.errors import NotReadyError, PlaceError, PortTakenError, ServiceError, StartError
from sumwire.start.rank_placement import JobSource, plan
from sumwire.start.service import ServiceAddress
from sumwire.start.supervisor import Say
from sumwire_protocol.events import Event

CONFIG = configs(job_mapping(2, 64))[1]


def entries(*ips: str) -> list[dict[str, str]]:
    return [{"ip": ip} for ip in ips]


EIGHT = [f"m{number // 8}" for number in range(64)]


@pytest.mark.parametrize(
    ("machines", "own", "ips", "nodes"),
    [
        (EIGHT, [[rank // 8] for rank in range(64)], "abcdefgh", [range(8 * node, 8 * node + 8) for node in range(8)]),
        # In another order than hosts.
        ("yyx", [[1], [1], [0]], "xy", [(2,), (0, 1)]),
        # A machine with several addresses: all ranks on loopback are two workers with four and three ranks.
        ("m" * 7, [[0, 1]] * 7, "ab", [(0, 1, 2), (3, 4, 5, 6)]),
        ("mm", [[0, 1]] * 2, "ab", [(0,), (1,)]),
    ],
)
def test_ranks_share_the_workers_of_their_machines(
    machines: Sequence[str], own: list[list[int]], ips: str, nodes: list[Sequence[int]]
) -> None:
    assert plan(list(machines), own, entries(*ips)) == tuple(map(tuple, nodes))


def test_places_that_cannot_be() -> None:
    with pytest.raises(PlaceError, match=r"ranks \[1\]: no address of their machine is one of the job's \[\"a\"\]"):
        plan(["m", "n"], [[0], []], entries("a"))
    with pytest.raises(PlaceError, match="workers at b have no rank"):
        plan(["m"], [[0]], entries("a", "b"))


def test_a_worker_for_each_rank() -> None:
    with pytest.raises(PlaceError, match="name the host once for each"):
        plan(["m", "m"], [[0], [0]], entries("a"), each_rank=True)
    assert plan(["m", "m"], [[0, 1], [0, 1]], entries("a", "a"), each_rank=True) == ((0,), (1,))


def test_a_name_that_is_its_machine_s_own_only_there() -> None:
    """Rank 0's machine knows its name as 127.0.1.1, and so takes the address that the others know it by."""
    said = [
        {"machine": "m", "address": "127.0.0.1", "master": "127.0.1.1"},
        {"machine": "m", "address": "10.0.0.7", "master": "127.0.1.1"},
        {"machine": "n", "address": "10.0.0.2", "master": "10.0.0.1"},
    ]
    known = rank_placement._as_others_know(said)
    assert [one["address"] for one in known] == ["10.0.0.1", "10.0.0.7", "10.0.0.2"]
    assert [one["master"] for one in known] == ["10.0.0.1"] * 3
    alone = said[:2]
    assert rank_placement._as_others_know(alone) == alone


def test_versions_that_differ_are_named_by_rank() -> None:
    rank_placement.check_versions(["1.0"] * 3)
    with pytest.raises(
        PlaceError, match=r"differ: '1.0' on ranks \[0, 2\]; '0.9' on ranks \[1\]: install the same one"
    ):
        rank_placement.check_versions(["1.0", "0.9", "1.0"])


def test_a_job_file_is_for_all_ranks_or_none() -> None:
    for alike in (True, False):
        rank_placement.check_files([alike] * 3, [None] * 3)
    match = r"SUMWIRE_JOB, or job= .* on ranks \[0, 2\], but not on ranks \[1\]: give it to all ranks, or to none"
    with pytest.raises(PlaceError, match=match):
        rank_placement.check_files([True, False, True], [None] * 3)
    match = r"not on ranks \[0, 1\], where SUMWIRE_SERVICE, or service=, goes before it on ranks \[1\]: give"
    with pytest.raises(PlaceError, match=match):
        rank_placement.check_files([False, False, True], [None, "10.0.0.9", None])


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("SUMWIRE_SERVICE", "SUMWIRE_JOB", "SUMWIRE_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


FILE = {"SUMWIRE_JOB": "/run/job.json"}
SERVED = {"SUMWIRE_SERVICE": "10.0.0.9"}


@pytest.mark.parametrize(
    ("given", "environ", "found"),
    [
        (JobSource(), {}, JobSource()),
        (JobSource(), FILE, JobSource(job="/run/job.json")),
        (JobSource(), SERVED, JobSource(service="10.0.0.9")),
        # A service of the environment goes before a file of it.
        (JobSource(), FILE | SERVED, JobSource(service="10.0.0.9")),
        # What the script says goes before the environment.
        *((given, FILE | SERVED, given) for given in (JobSource(job=Path("own.json")), JobSource(service="a"))),
        (JobSource(aggregator="rank0"), FILE | SERVED, JobSource(aggregator="rank0")),
    ],
)
def test_sources(environment: pytest.MonkeyPatch, given: JobSource, environ: dict[str, str], found: JobSource) -> None:
    for name, value in environ.items():
        environment.setenv(name, value)
    assert given.checked() == found


def test_sources_that_cannot_be() -> None:
    with pytest.raises(PlaceError, match="service and job: must be one of them"):
        JobSource("a", "b.json").checked()
    with pytest.raises(PlaceError, match="must be 'rank0', or left out"):
        JobSource(aggregator="rank1").checked()


def test_a_wait_for_the_service_is_told(caplog: pytest.LogCaptureFixture, environment: pytest.MonkeyPatch) -> None:
    """Rank 0 asks with the time that the script has given, and says what it waits for."""

    def first_of(services: list[ServiceAddress], wait_s: float, tell: Say) -> tuple[ServiceAddress, dict[str, str]]:
        tell(f"{', '.join(map(str, services))} for {wait_s}")
        return services[0], {}

    environment.setattr(rank_placement, "first_of", first_of)
    told = [{"machine": "m", "address": "127.0.0.1", "service": "10.0.0.9", "master": ""}]
    with caplog.at_level(logging.WARNING, "sumwire"):
        rank_placement._described(JobSource(wait_s=7), told, False, [])
    assert caplog.messages == ["http://10.0.0.9:21334 for 7"]
    assert events_of(caplog.records) == [Event.SERVICE_AWAITED]


ON_ONE_MACHINE = [{"machine": "m", "address": "127.0.0.1"}, {"machine": "m", "address": "127.0.0.1"}]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Addresses with an aggregator, and whether it shows before another one is started."""
    by_address: dict[str, bool] = {}

    def check_free(address: str, otherwise: str, *, port: int = 0, holder: str = "") -> None:
        place = f"{address}:{port}" if port else address
        if by_address.get(place, False):
            raise PortTakenError(f"{place} is taken{holder and f' by {holder}'}: {otherwise}")

    def started(_: object, job: dict[str, Any], *__: object) -> str:
        address = str(job["addresses"][0]["aggregator"])
        if address not in by_address:
            return address
        by_address[address] = True
        raise StartError("the aggregator has ended: -: cannot listen")

    monkeypatch.setattr(supervisor, "check_free", check_free)
    monkeypatch.setattr(supervisor, "started", started)
    return by_address


@pytest.mark.parametrize("shows", [True, False])
def test_jobs_of_one_machine_find_places(taken: dict[str, bool], shows: bool) -> None:
    taken |= {"127.0.0.1": shows, "127.0.0.2": shows}
    found: list[Any] = []
    job = rank_placement._described(JobSource(aggregator="rank0"), ON_ONE_MACHINE, False, found)["description"]
    assert found == ["127.0.0.3"]
    assert [entry["ip"] for entry in job["addresses"]] == ["127.0.0.3"] * 2


@pytest.mark.parametrize("worker", [0, 1])
def test_a_job_makes_way_for_another_job_s_worker(taken: dict[str, bool], worker: int) -> None:
    """The other job's aggregator is elsewhere, so only the worker's own port is taken."""
    job = rank_placement._described(JobSource(aggregator="rank0"), ON_ONE_MACHINE, False, [])["description"]
    port = job["addresses"][worker]["udp_port"]
    taken[f"127.0.0.1:{port}"] = True
    found: list[Any] = []
    rank_placement._described(JobSource(aggregator="rank0"), ON_ONE_MACHINE, False, found)
    assert found == ["127.0.0.2"]
    with pytest.raises(PortTakenError, match=f"127.0.0.1:{port} is taken by a worker of another job: or call"):
        rank_placement._described(JobSource(aggregator="rank0", address="127.0.0.1"), ON_ONE_MACHINE, False, [])


@pytest.mark.parametrize("shows", [True, False])
def test_an_aggregator_stays_where_the_user_wants_it(taken: dict[str, bool], shows: bool) -> None:
    taken["127.0.0.1"] = shows
    with pytest.raises(PortTakenError) as error:
        rank_placement._described(JobSource(aggregator="rank0", address="127.0.0.1"), ON_ONE_MACHINE, False, [])
    assert str(error.value) == (
        "127.0.0.1 is taken: or call job.close() first if it is this script's; or give this script another address: "
        'sumwire.init(aggregator="rank0", address="127.0.0.2")'
    )


def test_a_second_aggregator_over_machines_needs_another_address_of_each() -> None:
    told = [{"machine": "a", "address": "10.0.0.1"}, {"machine": "b", "address": "10.0.0.2"}]
    assert rank_placement._elsewhere(told) == "set SUMWIRE_ADDRESS to another address of each machine"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """What the ranks' environments say of a service. Its job has two workers, and this machine is worker 1."""
    services: list[str | None] = [None, "10.0.0.1"]
    monkeypatch.delenv("SUMWIRE_SERVICE", raising=False)
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    place = SimpleNamespace(config=CONFIG)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(rank_placement, "beside", lambda host: [ServiceAddress(host)])
    monkeypatch.setattr(rank_placement, "default_timeout", lambda: timedelta(seconds=1))
    monkeypatch.setattr(rank_placement, "Rendezvous", lambda *_: SimpleNamespace(gather=lambda own: services))
    monkeypatch.setattr(rank_placement, "job_for", lambda *_, each_rank, **rest: place if each_rank else None)
    return services


def test_the_worker_of_a_rank(told: list[str | None]) -> None:
    store: Any = None
    assert rank_placement.find(1, 2, store) == CONFIG
    with pytest.raises(PlaceError, match="rank 0 is on the machine of worker 1 of job test: name the hosts"):
        rank_placement.find(0, 2, store)


def test_where_there_is_nothing_to_find(told: list[str | None]) -> None:
    """A group of fewer ranks, and ranks none of which knows a service."""
    store: Any = None
    assert rank_placement.find(1, 3, store) is None
    told[1] = None
    assert rank_placement.find(1, 2, store) is None


def test_a_service_on_rank_0_s_machine(told: list[str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's environment names it. Only rank 0 looks, and only a service that answers counts."""
    store: Any = None
    meeting = SimpleNamespace(gather=lambda own: [own, None])
    monkeypatch.setattr(rank_placement, "Rendezvous", lambda *_: meeting)
    answers = [job_mapping(2, 64)]

    def job(service: ServiceAddress) -> dict[str, Any]:
        if service.host != "10.0.0.1" or not answers:
            raise ServiceError("Connection refused")
        return answers[0]

    monkeypatch.setattr(ServiceAddress, "job", job)
    assert rank_placement.find(0, 2, store) is None
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    with pytest.raises(PlaceError, match="rank 0 is on the machine of worker 1"):
        rank_placement.find(0, 2, store)
    assert rank_placement.find(1, 2, store) is None
    answers.clear()
    assert rank_placement.find(0, 2, store) is None


def test_a_service_whose_aggregator_is_not_ready_counts(
    told: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group waits for it, in place of going on without a job."""
    store: Any = None
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")

    def job(service: ServiceAddress) -> dict[str, Any]:
        raise NotReadyError("not yet")

    monkeypatch.setattr(ServiceAddress, "job", job)
    monkeypatch.setattr(rank_placement, "Rendezvous", lambda *_: SimpleNamespace(gather=lambda own: [own, None]))
    with pytest.raises(PlaceError, match="rank 0 is on the machine of worker 1"):
        rank_placement.find(0, 2, store)
