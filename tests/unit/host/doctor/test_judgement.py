# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the doctor makes of answers, of their absence, and of what the controller says."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from typing import Any

import pytest
from helpers.transport.udp_bridge import job_mapping
from sumwire.config import JobConfig, parse_job
from sumwire.doctor import controller, findings, machine, switch
from sumwire.doctor.findings import Finding
from sumwire.doctor.machine import NetworkPlace
from sumwire.doctor.switch import SwitchAnswers
from sumwire.transport.switch_answers import SwitchState
from sumwire_protocol import constants as p4

NEAR = NetworkPlace(True, True, "eth0")
GATEWAY = NetworkPlace(True, True, "eth0", "192.0.2.1")


@pytest.fixture(autouse=True)
def no_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch, "words_of", lambda command: None)
    monkeypatch.setattr(machine, "words_of", lambda command: None)


@pytest.fixture
def config() -> JobConfig:
    return parse_job(job_mapping(2, 16), 0)


def _state(config: JobConfig, **other: Any) -> SwitchState:
    given = {"round": 3, "contributors": 2, "closed": False, "digest": config.digest, "revision": p4.PROGRAM_REVISION}
    given["generation"] = 1
    return SwitchState(**{**given, **other})


def _bad(config: JobConfig, answers: SwitchAnswers, place: NetworkPlace = NEAR) -> dict[str, str]:
    found = switch.judged(config, answers, place)
    return {one.name: f"{one.text} -> {one.cure}" for one in found if one.state == findings.BAD}


def test_all_is_well(config: JobConfig) -> None:
    answers = SwitchAnswers(_state(config), times_s=[0.001, 0.003, 0.002], long_passes=True, long_bytes=572)
    found = {one.name: one for one in switch.judged(config, answers, NEAR)}
    assert {one.state for one in found.values()} == {findings.GOOD}
    assert "after 2.00 ms (at best 1.00 ms)" in found["switch"].text
    assert found["quorum"].text == "2 of 2 workers close a chunk; slot 0 is in round 3, workers 1 are in it, open"


@pytest.mark.parametrize(
    ("other", "name", "words"), [({"revision": 1}, "program", "revision 1"), ({"digest": 5}, "table", "00000005")]
)
def test_a_switch_that_differs(config: JobConfig, other: dict[str, int], name: str, words: str) -> None:
    bad = _bad(config, SwitchAnswers(_state(config, **other), times_s=[0.001], long_passes=True))
    assert list(bad) == [name] and words in bad[name] and "apply" in bad[name]


@pytest.mark.parametrize("reason", [p4.REJECT_JOB, p4.REJECT_PORT, p4.REJECT_ADDRESS, p4.REJECT_WORKER, p4.REJECT_TAG])
def test_a_refusal_says_the_switchs_own_reason(config: JobConfig, reason: int) -> None:
    bad = _bad(config, SwitchAnswers(refused=reason, long_passes=True))
    assert list(bad) == ["admission"] and "apply" in bad["admission"]


def test_a_refused_port_is_well_where_a_run_has_the_right_one(config: JobConfig) -> None:
    assert _bad(config, SwitchAnswers(refused=p4.REJECT_UDP_PORT, long_passes=True, own_port=False)) == {}
    assert list(_bad(config, SwitchAnswers(refused=p4.REJECT_UDP_PORT, long_passes=True))) == ["admission"]


def test_long_packets_that_vanish(config: JobConfig) -> None:
    bad = _bad(config, SwitchAnswers(_state(config), times_s=[0.1], long_passes=False, long_bytes=572))
    assert list(bad) == ["width"] and "ip link set dev DEVICE mtu" in bad["width"]


@pytest.mark.parametrize(
    ("answers", "name", "words"),
    [
        (SwitchAnswers(failure=OSError(errno.EPERM, "x")), "firewall", "drops what is sent"),
        (
            SwitchAnswers(watched=True, seen_out=True, seen_in=True),
            "firewall",
            "answers arrive, and this host's firewall",
        ),
        (SwitchAnswers(watched=True), "firewall", "does not leave this host"),
        (SwitchAnswers(watched=True, seen_out=True), "switch", "has no entries yet"),
        (SwitchAnswers(), "switch", "a firewall on the way"),
        (SwitchAnswers(failure=OSError(errno.ECONNREFUSED, "x")), "switch", "start sumwire-aggregator"),
    ],
)
def test_silence(config: JobConfig, answers: SwitchAnswers, name: str, words: str) -> None:
    bad = _bad(config, answers)
    assert list(bad) == [name] and words in bad[name]


@pytest.mark.parametrize(
    ("state", "place", "at", "name", "words"),
    [
        ("FAILED", NEAR, "eth0", "switch", "not even to ARP"),
        ("FAILED", NEAR, "eth1", "route", "leave by eth0, where nobody answers ARP, and 127."),
        ("INCOMPLETE", GATEWAY, "eth0", "route", "the gateway 192.0.2.1 at eth0"),
        ("REACHABLE", NEAR, "eth0", "switch", "has answered ARP at eth0 lately"),
        ("REACHABLE", GATEWAY, "eth0", "switch", "a firewall on the way"),
        ("STALE", NEAR, "eth0", "switch", "a firewall on the way"),
    ],
)
def test_silence_and_arp(
    config: JobConfig, monkeypatch: pytest.MonkeyPatch, state: str, place: NetworkPlace, at: str, name: str, words: str
) -> None:
    """What ARP says of the next address on the way tells a dead gateway and a wrong device from a dead switch."""
    place = place if place.hop else replace(place, hop=config.aggregator)
    asked = ["ip", "-json", "neigh", "show", "to", place.hop, "dev", "eth0"]
    monkeypatch.setattr(
        switch, "words_of", lambda command: json.dumps([{"state": [state]}]) if command == asked else ""
    )
    monkeypatch.setattr(switch, "devices_of", lambda address: [(at, ["UP"])])
    bad = _bad(config, SwitchAnswers(watched=True, seen_out=state not in ("FAILED", "INCOMPLETE")), place)
    assert list(bad) == [name] and words in bad[name]


def test_a_narrow_device_is_named_once(config: JobConfig) -> None:
    answers = SwitchAnswers(_state(config), times_s=[0.1], long_passes=False, long_bytes=572)
    assert _bad(config, answers, replace(NEAR, narrow=True)) == {}


def test_a_firewalls_rules_are_shown(config: JobConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = (
        "table inet t {\n type filter hook input priority 0; policy drop;\n tcp dport 22 drop\n udp sport 21335 drop\n}"
    )
    monkeypatch.setattr(switch, "words_of", lambda command: rules if command[0] == "nft" else None)
    text = _bad(config, SwitchAnswers(watched=True, seen_out=True, seen_in=True))["firewall"]
    assert "udp sport 21335 drop" in text and "dport 22" not in text


def test_a_message_is_cut_into_cause_and_cure() -> None:
    assert findings.bad("x", "cause: why; do this; or that") == Finding("x", "bad", "cause: why", "do this; or that")
    assert findings.bad("x", "is it this? do that") == Finding("x", "bad", "is it this?", "do that")
    assert findings.bad("x", "cause; of two", "cure") == Finding("x", "bad", "cause; of two", "cure")


def test_text_and_json() -> None:
    found = [findings.good("a", "well"), findings.bad("b", "cause", "cure"), findings.unknown("c", "why not")]
    assert list(findings.as_text(found)) == [
        "good     a          well",
        "bad      b          cause",
        "                    -> cure",
        "unknown  c          why not",
        "1 to mend",
    ]
    assert findings.as_dict(found)["good"] is False and findings.as_dict(found[:1])["good"] is True
    assert list(findings.as_text(found[:1]))[-1] == "nothing to mend"


def _switch(**other: Any) -> dict[str, Any]:
    job = {"id": 1, "name": "digits", "generation": 9, "quorum": 2}
    given = {"switch": "s1", "program_runs": True, "program": "", "in_sync": True, "differences": [], "jobs": [job],
             "rejects": {"job": {"packets": 3}, "port": {"packets": 0}}}  # fmt: skip
    return {**given, **other}


class _Ended:
    """A status command that has said something."""

    def __init__(self, told: str, wrong: str = "") -> None:
        self._told = told, wrong

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        return self._told


def _status(told: str, wrong: str = "") -> list[Finding]:
    status = controller.ControllerStatus.__new__(controller.ControllerStatus)
    status._config, status._process = "s.yaml", _Ended(told, wrong)  # type: ignore[assignment]
    return list(status.findings())


def test_the_controllers_side() -> None:
    found = {one.name: one for one in _status(json.dumps(_switch()))}
    assert found["generation"].text == "s1: job 1 digits has generation 9, quorum 2"
    assert found["rejects"].text == "s1 has refused so far: 3 job"
    assert all(one.state == findings.GOOD for one in found.values())


@pytest.mark.parametrize(
    ("told", "wrong", "words"),
    [
        (json.dumps([_switch(program_runs=False)]), "", "s1 runs no program"),
        (json.dumps(_switch(in_sync=False, differences=["a", "b", "c", "d"])), "", "a, b, c and 1 more"),
        ("", "not of one build;\nmake p4 \x1b[2J", "not of one build; make p4 ?[2J"),
        ("", "", "it ends without a word"),
    ],
)
def test_the_controllers_side_is_wrong(told: str, wrong: str, words: str) -> None:
    first = _status(told, wrong)[0]
    assert (first.name, first.state) == ("entries", findings.BAD)
    assert words in first.text and "sumwire-controller apply s.yaml" in first.cure


@pytest.mark.parametrize(
    ("features", "driver", "state"),
    [
        ("generic-segmentation-offload: on\ngeneric-receive-offload: on\n", "driver: x", "good"),
        ("generic-segmentation-offload: on\ngeneric-receive-offload: off\n", "driver: x", "note"),
        ("generic-segmentation-offload: on\ngeneric-receive-offload: off\n", "driver: veth", "good"),
        ("generic-segmentation-offload: off [requested on]\ngeneric-receive-offload: on\n", "driver: veth", "note"),
        (None, None, "unknown"),
    ],
)
def test_offloads(monkeypatch: pytest.MonkeyPatch, features: str | None, driver: str | None, state: str) -> None:
    monkeypatch.setattr(machine, "words_of", lambda command: features if "-k" in command else driver)
    assert machine.offloads("eth0").state == state
