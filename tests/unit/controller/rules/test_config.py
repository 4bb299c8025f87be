# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every rule on a switch's configuration, with one example that keeps it and one that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

import pytest
from helpers.controller.config_texts import PUBLISHED_TABLE, Change, drop, job, put, queue, star, text, worker
from helpers.paths import ROOT
from sumwire_controller.errors import MISSING, ConfigError, Problem
from sumwire_controller.model import AggregatorAddress, Job, SlotRange, Switch, Thc, Worker
from sumwire_controller.parse.files import load_config, parse_config
from sumwire_controller.rules.switch_config import validate
from sumwire_protocol.ops import CODES
from sumwire_protocol.tables import AUTO, made

EXAMPLE = ROOT / "controller" / "examples" / "star4.yaml"


def problems_of(data: object) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text(data) if not isinstance(data, str) else data)
    return caught.value.problems


def test_the_example_is_what_its_text_says() -> None:
    config = load_config(EXAMPLE)
    assert config.switch == Switch("s1", "127.0.0.1:9559", 1)
    assert config.aggregator == AggregatorAddress(IPv4Address("10.0.0.100"), "02:53:57:00:00:64")
    assert config.ports == (1, 2, 3, 4)
    assert config.workers[2] == Worker("h3", IPv4Address("10.0.0.3"), "00:00:00:00:00:03", 3, 21335)
    thc = Thc(4, 0.03125, made(AUTO, 4, 1 / 32, workers=4))
    assert config.jobs == (Job("digits", 1, ("thc", "max32"), ("h1", "h2", "h3", "h4"), 4, SlotRange(0, 256), thc),)
    assert thc.granularity == 53


def test_defaults() -> None:
    data = star(3)
    data["workers"][0]["udp_port"] = 4000
    data["jobs"][0]["quorum"] = 2
    data["jobs"].append(job("all", 2, 3, 256, 2))
    config = parse_config(text(data))
    assert [host.udp_port for host in config.workers] == [4000, 21335, 21335]
    assert [each.quorum for each in config.jobs] == [2, 3]


# Packets of 8192 values, and one slot too many.
LONG = {"ops": ["thc", "max32", "jumbo"], "slots": {"base": 257, "count": 256}}


def _add_job(**fields: Any) -> Change:
    return lambda data: data["jobs"].append({**job("second", 2, 2, 256, 16), **fields})


def _many(op: str, hosts: int) -> Change:
    """A job of one op; its workers are three hosts and a lower switch with `hosts` hosts."""
    return lambda data: (
        data["workers"][0].update(stands_for=hosts),
        data.update(jobs=[job("many", 1, 4, 0, 2, op)]),
    )


def _lower(op: str, *hosts: int) -> Change:
    """A job of one op with four workers, the first of which are lower switches with so many hosts."""

    def change(data: dict[str, Any]) -> None:
        for at, behind in zip(data["workers"], hosts, strict=False):
            at.update(stands_for=behind)
        data.update(jobs=[job("many", 1, 4, 0, 2, op)])

    return change


def _parents(count: int) -> Change:
    return _set_parents(lambda parents: None, count)


def _set_parents(change: Callable[[list[dict[str, Any]]], object], count: int = 1) -> Change:
    """A switch whose ports from 5 on lead to parents."""

    def apply(data: dict[str, Any]) -> None:
        data["ports"] = list(range(1, 5 + count))
        data["jobs"][0]["parents"] = [
            {"port": 5 + k, "ip": f"10.0.1.{k}", "mac": f"02:00:00:00:01:0{k}", "worker": k} for k in range(count)
        ]
        change(data["jobs"][0]["parents"])

    return apply


def _queue(*changes: dict[str, Any]) -> Change:
    """Virtual queues, each with these keys changed, at port 1 if they do not say."""
    return lambda data: data.update(queues=[{**queue(1), **change} for change in changes])


LOSS: dict[str, Any] = {"degrade": {"seed": 1, "share": 0.5, "mode": "drop"}}

ACCEPTED: dict[str, Change] = {
    "no jobs": put("jobs", to=[]),
    "no hosts": lambda data: data.update(workers=[], jobs=[]),
    "highest port": lambda data: (data["ports"].append(510), data["workers"].append({**worker(9), "port": 510})),
    "two hosts behind one port": put("workers", 1, "port", to=1),
    "one interface, two addresses": lambda data: data["workers"][1].update(mac="00:00:00:00:00:01", port=1),
    "mac in capitals": put("workers", 0, "mac", to="0A:0B:0C:0D:0E:0F"),
    "granularity repeated": put("jobs", 0, "thc", to={"bits": 2, "table": [0, 1, 2, 2]}),
    "a solved table": put("jobs", 0, "thc", to={"table": "auto", "granularity": 30}),
    "no table": drop("jobs", 0, "thc"),
    "granularity given": put("jobs", 0, "thc", "granularity", to=30),
    "largest product": put("jobs", 0, "thc", "table", 15, to=63),  # 63 * 4 = 252
    "one bit": put("jobs", 0, "thc", to={"bits": 1, "p": 0.5, "table": [0, 1]}),
    "last slots": put("jobs", 0, "slots", to={"base": 4094, "count": 2}),
    "adjacent slots": _add_job(),
    "adjacent before": lambda data: (
        data["jobs"][0]["slots"].update(base=16),
        _add_job(slots={"base": 0, "count": 16})(data),
    ),
    "highest job id": put("jobs", 0, "id", to=32766),
    "job id 0": put("jobs", 0, "id", to=0),
    "quorum 1": put("jobs", 0, "quorum", to=1),
    "eight lanes": lambda data: data["jobs"][0].update(lanes=8, slots={"base": 0, "count": 16}),
    "last id of lanes": lambda data: data["jobs"][0].update(lanes=4, id=32763),
    "ids behind those of lanes": lambda data: (data["jobs"][0].update(lanes=4), _add_job(id=5)(data)),
    "last ports of lanes": lambda data: (data["jobs"][0].update(lanes=8), data["workers"][1].update(udp_port=64528)),
    "spray": put("jobs", 0, "spray", to="hash"),
    "loss on purpose": put("jobs", 0, "degrade", to={"seed": 2**32 - 1, "share": 1, "mode": "trim-results"}),
    "no loss": put("jobs", 0, "degrade", to={"seed": 0, "share": 0, "mode": "drop"}),
    "queues": _queue({"port": 1, "trim": True}, {"port": 4}),
    "one threshold for all": _queue({"mark_bytes": 9, "drop_bytes": [9, 9, 9, 9], "drop_all_bytes": 9}),
    "mark at once": _queue({"mark_bytes": 0}),
    "a slow queue": _queue({"rate_mbit": 0.01}),
    "long packets in the last slots": lambda data: data["jobs"][0].update(
        {**LONG, "slots": {"base": 256, "count": 256}}
    ),
    "every op": put("jobs", 0, "ops", to=list(CODES)),
    "a switch of one host": put("workers", 0, "stands_for", to=1),
    "a switch below": put("workers", 0, "stands_for", to=5),  # 30 * (5 + 3) = 240
    "less in this job": lambda data: (
        data["workers"][0].update(stands_for=200),
        put("jobs", 0, "stands_for", to=[5, 1, 1, 1])(data),
    ),
    "sign of 16 hosts": _many("sign", 13),
    "vote of 15 hosts": _lower("vote", 7, 6),
    "fewer workers": put("jobs", 0, "workers_min", to=1),
    "no fewer workers": put("jobs", 0, "workers_min", to=4),
    "no fewer workers below parents": lambda data: (_parents(1)(data), data["jobs"][0].update(workers_min=4)),
    "7 hosts below parents": lambda data: (_lower("vote", 4)(data), _parents(1)(data)),
    "max32 of 255 hosts": _many("max32", 252),
    "one parent": _parents(1),
    "two parents": _parents(2),
    "four parents": _parents(4),
    "two parents behind one port": _set_parents(lambda parents: parents[1].update(port=5), 2),
    "last seat": _set_parents(lambda parents: parents[0].update(worker=31)),
    "two slots, two parents": lambda data: (_parents(2)(data), data["jobs"][0]["slots"].update(count=2)),
    "max32 alone needs no table": lambda data: (
        put("jobs", 0, "ops", to=["max32"])(data),
        drop("jobs", 0, "thc")(data),
    ),
}

# what is changed -> (the change, path of the one problem, value, words of its rule)
_LONG_PORT = "h:" + "1" * 6000
_LONG_PATH = "unix:/" + "s" * 107

REFUSED: dict[str, tuple[Change, str, object, str]] = {
    **{f"limit {limit}": (put("jobs", 0, "limit_mbit", to=limit), "jobs[0].limit_mbit", limit, "")
       for limit in (0.0, -1.0, 0.005, 1e9, "fast")},
    "blind without sum32": (put("jobs", 0, "blind", to=True), "jobs[0].ops", ["thc", "max32"],
                            "must have sum32, which sums what a blind job masks"),
    "a quorum of a blind job": (lambda data: data["jobs"][0].update(blind=True, quorum=2, ops=["thc", "sum32"]),
                                "jobs[0].quorum", 2, "must be all 4 workers: masks of a blind job only cancel"),
    "blind 1": (put("jobs", 0, "blind", to=1), "jobs[0].blind", 1, "must be true or false"),
    "unknown key": (put("colour", to=1), "colour", 1, "unknown key; known are switch, aggregator"),
    "unknown key in switch": (put("switch", "port", to=1), "switch.port", 1, "unknown key"),
    "unknown key in job": (put("jobs", 0, "slot", to={}), "jobs[0].slot", "{...}", "unknown key"),
    "unknown key in slots": (put("jobs", 0, "slots", "size", to=1), "jobs[0].slots.size", 1, "unknown key"),
    "unknown key in thc": (put("jobs", 0, "thc", "g", to=1), "jobs[0].thc.g", 1, "unknown key"),
    "no switch": (drop("switch"), "switch", MISSING, "is required"),
    "no ports": (drop("ports"), "ports", MISSING, "is required"),
    "no worker name": (drop("workers", 3, "name"), "workers[3].name", MISSING, "is required"),
    "no slots": (drop("jobs", 0, "slots"), "jobs[0].slots", MISSING, "is required"),
    "no slot count": (drop("jobs", 0, "slots", "count"), "jobs[0].slots.count", MISSING, "is required"),
    "switch a list": (put("switch", to=[1]), "switch", "[...]", "must be a mapping"),
    "workers a mapping": (lambda data: data.update(workers={"h1": {}}, jobs=[]), "workers", "{...}", "must be a list"),
    "a worker a number": (lambda data: data["workers"].append(7), "workers[4]", 7, "must be a mapping"),
    "id a bool": (put("jobs", 0, "id", to=True), "jobs[0].id", True, "must be an integer"),
    "id a text": (put("jobs", 0, "id", to="1"), "jobs[0].id", "1", "must be an integer"),
    "port a float": (put("ports", 0, to=1.0), "ports[0]", 1.0, "must be an integer"),
    "p a text": (put("jobs", 0, "thc", "p", to="1/32"), "jobs[0].thc.p", "1/32", "must be a number"),
    "worker number": (put("jobs", 0, "workers", 0, to=1), "jobs[0].workers[0]", 1, "must be a non-empty text"),
    "empty name": (put("switch", "name", to=""), "switch.name", "", "must be a non-empty text"),
    "name with a slash": (put("jobs", 0, "name", to="a/b"), "jobs[0].name", "a/b", "must be letters, digits"),
    "grpc no port": (put("switch", "grpc", to="localhost"), "switch.grpc", "localhost", "must be host:port"),
    "grpc long port": (put("switch", "grpc", to=_LONG_PORT), "switch.grpc", _LONG_PORT, "must be host:port"),
    "grpc no path": (put("switch", "grpc", to="unix:"), "switch.grpc", "unix:", "or unix:/path"),
    "grpc relative path": (put("switch", "grpc", to="unix:s1"), "switch.grpc", "unix:s1", "or unix:/path"),
    "grpc long path": (put("switch", "grpc", to=_LONG_PATH), "switch.grpc", _LONG_PATH, "or unix:/path"),
    "grpc port 0": (put("switch", "grpc", to="h:0"), "switch.grpc", "h:0", "must be host:port"),
    "device id": (put("switch", "device_id", to=-1), "switch.device_id", -1, "must be 0..2^64-1"),
    "ip": (put("workers", 0, "ip", to="10.0.0.256"), "workers[0].ip", "10.0.0.256", "must be an IPv4 address"),
    "ip multicast": (put("workers", 0, "ip", to="224.0.0.1"), "workers[0].ip", "224.0.0.1", "unicast"),
    "mac": (put("workers", 0, "mac", to="1:2:3:4:5:6"), "workers[0].mac", "1:2:3:4:5:6", "MAC address in quotes"),
    "mac multicast": (put("workers", 0, "mac", to="01:00:5e:00:00:01"),
                    "workers[0].mac", "01:00:5e:00:00:01", "unicast"),
    "mac zero": (put("aggregator", "mac", to="00:00:00:00:00:00"), "aggregator.mac", "00:00:00:00:00:00", "unicast"),
    "port 0": (lambda data: data["ports"].append(0), "ports[4]", 0, "must be 1..510"),
    "drop port": (lambda data: data["ports"].append(511), "ports[4]", 511, "511 is the drop port"),
    "port above": (lambda data: data["ports"].append(512), "ports[4]", 512, "must be 1..510"),
    "port twice": (lambda data: data["ports"].append(2), "ports[4]", 2, "already that of ports[1]"),
    "no port at all": (lambda data: data.update(ports=[], workers=[], jobs=[]), "ports", [], "at least one port"),
    "unlisted port": (put("workers", 0, "port", to=5), "workers[0].port", 5, "one of the switch's ports [1, 2, 3, 4]"),
    "udp port": (put("workers", 0, "udp_port", to=65536), "workers[0].udp_port", 65536, "must be 1..65535"),
    "name twice": (lambda data: (data["ports"].append(5), data["workers"].append({**worker(5), "name": "h2"})),
                   "workers[4].name", "h2", "already that of workers[1]"),
    "ip twice": (put("workers", 3, "ip", to="10.0.0.1"), "workers[3].ip", "10.0.0.1", "already that of workers[0]"),
    "mac behind two ports": (put("workers", 3, "mac", to="00:00:00:00:00:01"), "workers[3].mac", "00:00:00:00:00:01",
                             "workers[0] has the same address behind port 1"),
    "aggregator's ip": (put("aggregator", "ip", to="10.0.0.2"),
                    "workers[1].ip", "10.0.0.2", "not be the aggregator's"),
    "aggregator's mac": (put("aggregator", "mac", to="00:00:00:00:00:02"), "workers[1].mac", "00:00:00:00:00:02",
                         "not be the aggregator's"),
    "job name twice": (_add_job(name="digits"), "jobs[1].name", "digits", "already that of jobs[0]"),
    "job id twice": (_add_job(id=1), "jobs[1].id", 1, "already that of jobs[0]"),
    "job id below": (put("jobs", 0, "id", to=-1), "jobs[0].id", -1, "must be 0..32766"),
    "job id above": (put("jobs", 0, "id", to=32767), "jobs[0].id", 32767, "must be 0..32766"),
    "no ops": (_add_job(ops=[]), "jobs[1].ops", [], "at least one of thc, max32"),
    "unknown op": (_add_job(ops=["max32", "avg"]), "jobs[1].ops[1]", "avg", "unknown op; known are thc, max32, sum32"),
    "op twice": (_add_job(ops=["max32", "max32"]), "jobs[1].ops[1]", "max32", "already that of jobs[1].ops[0]"),
    "a solved table at a lower switch": (lambda data: (_parents(2)(data), drop("jobs", 0, "thc", "table")(data)),
                                         "jobs[0].thc.table", "auto", "does not know all hosts of the job: give its"),
    "no table at a lower switch": (lambda data: (_parents(2)(data), drop("jobs", 0, "thc")(data)),
                                   "jobs[0].thc", "auto", "give its table as a list"),
    "another kind of table": (put("jobs", 0, "thc", "table", to="best"), "jobs[0].thc.table", "best", "a list"),
    "no granularity": (put("jobs", 0, "thc", to={"granularity": 0}), "jobs[0].thc.granularity", 0, "must be 1..255"),
    "a granularity for fewer": (put("jobs", 0, "thc", to={"granularity": 64}), "jobs[0].thc.granularity", 64,
                                "at most 3 workers"),
    "p of a solved table": (put("jobs", 0, "thc", to={"p": 1}), "jobs[0].thc.p", 1.0, "between 0 and 1"),
    "bits of a solved table": (put("jobs", 0, "thc", to={"bits": 5}), "jobs[0].thc.bits", 5, "must be 1..4"),
    "long packets without thc": (_add_job(ops=["max32", "jumbo"]), "jobs[1].ops", ["max32", "jumbo"], "must have thc"),
    "long packets of a blind job": (lambda data: data["jobs"][0].update(blind=True, ops=["thc", "sum32", "jumbo"]),
                                    "jobs[0].ops", ["thc", "sum32", "jumbo"], "blind job or one with a key"),
    "long packets that are lost on purpose": (
        lambda data: data["jobs"][0].update(LONG, degrade={"mode": "drop", "share": 0.1, "seed": 1},
                                            slots={"base": 0, "count": 256}),
        "jobs[0].degrade", "{...}", "leave it, or jumbo, out"),
    "long packets beyond their slots": (lambda data: data["jobs"][0].update(LONG), "jobs[0].slots", "257..512",
                                        "must be below 512"),
    "table without thc": (put("jobs", 0, "ops", to=["max32"]), "jobs[0].thc", "{...}", "only for op thc"),
    "unknown worker": (_add_job(workers=["h1", "h9"]), "jobs[1].workers[1]", "h9", "no worker of that name"),
    "worker twice": (_add_job(workers=["h1", "h2", "h1"]), "jobs[1].workers[2]", "h1", "that of jobs[1].workers[0]"),
    "quorum 0": (put("jobs", 0, "quorum", to=0), "jobs[0].quorum", 0, "must be 1..4, the number of workers"),
    "quorum above": (put("jobs", 0, "quorum", to=5), "jobs[0].quorum", 5, "must be 1..4, the number of workers"),
    "a quorum above a switch": (lambda data: (data["workers"][0].update(stands_for=2),
                                              data["jobs"][0].update(quorum=3)),
                                "jobs[0].quorum", 3, "must be all 4 workers: h1 has a part in this job too"),
    "a quorum below a switch": (lambda data: (_parents(2)(data), data["jobs"][0].update(quorum=3)),
                                "jobs[0].quorum", 3, "must be all 4 workers: a switch above has a part"),
    "no lane": (put("jobs", 0, "lanes", to=0), "jobs[0].lanes", 0, "must be 1..8, the priorities there are"),
    "nine lanes": (put("jobs", 0, "lanes", to=9), "jobs[0].lanes", 9, "must be 1..8, the priorities there are"),
    "lanes a list": (put("jobs", 0, "lanes", to=[4]), "jobs[0].lanes", "[...]", "must be an integer"),
    "odd lanes": (put("jobs", 0, "lanes", to=3), "jobs[0].slots.count", 256, "a multiple of 3, so that all lanes"),
    "lanes of one slot": (lambda data: data["jobs"][0].update(lanes=8, slots={"base": 0, "count": 8}),
                          "jobs[0].slots.count", 8, "at least 16: 2 for each of 8 lanes"),
    "lanes of odd slots": (lambda data: (_parents(2)(data), data["jobs"][0].update(lanes=4),
                                         data["jobs"][0]["slots"].update(count=20)),
                           "jobs[0].slots.count", 20, "a multiple of 8 (4 lanes), the number of parents"),
    "ids of lanes above": (lambda data: data["jobs"][0].update(lanes=4, id=32764), "jobs[0].id", 32764,
                           "the last of its 4 lanes would have the id 32767: at most 32766"),
    "id of a lane": (lambda data: (data["jobs"][0].update(lanes=4), _add_job(id=4)(data)), "jobs[1].id", 4,
                     "ids 4 of its lanes overlap ids 1..4 of jobs[0] (digits)"),
    "ids of two jobs' lanes": (lambda data: (_add_job(id=4, lanes=4)(data), data["jobs"][0].update(id=7, lanes=2)),
                               "jobs[1].id", 4, "ids 4..7 of its lanes overlap ids 7..8 of jobs[0] (digits)"),
    "ports of lanes": (lambda data: (data["jobs"][0].update(lanes=8), data["workers"][1].update(udp_port=64529)),
                       "jobs[0].lanes", 8, "h2 has udp_port 64529: must be at most 64528, as 8 lanes use ports up to "
                                           "udp_port + 1007"),
    "port of one lane": (put("workers", 1, "udp_port", to=64536), "jobs[0].lanes", 1, "h2 has udp_port 64536: must"),
    "spray": (put("jobs", 0, "spray", to="random"), "jobs[0].spray", "random", "must be slot or hash"),
    "loss above a switch": (lambda data: (data["workers"][0].update(stands_for=2), data["jobs"][0].update(LOSS)),
                            "jobs[0].degrade", "{...}", "that one switch has alone; h1 has a part in this one"),
    "loss below a switch": (lambda data: (_parents(2)(data), data["jobs"][0].update(LOSS)),
                            "jobs[0].degrade", "{...}", "one switch has alone; a switch above has a part"),
    "loss without thc": (_add_job(**LOSS), "jobs[1].degrade", "{...}", "is only for op thc"),
    "loss key": (put("jobs", 0, "degrade", to={**LOSS["degrade"], "p": 1}), "jobs[0].degrade.p", 1, "known are seed"),
    "loss seed": (put("jobs", 0, "degrade", to={**LOSS["degrade"], "seed": 2**32}),
                  "jobs[0].degrade.seed", 2**32, "must be 0..2^32-1"),
    "loss share": (put("jobs", 0, "degrade", to={**LOSS["degrade"], "share": 1.01}),
                   "jobs[0].degrade.share", 1.01, "must be 0..1, the share"),
    "loss mode": (put("jobs", 0, "degrade", to={**LOSS["degrade"], "mode": "delay"}),
                  "jobs[0].degrade.mode", "delay", "must be one of trim, drop, trim-results"),
    "queue rate": (_queue({"rate_mbit": 0}), "queues[0].rate_mbit", 0.0, "must be above 0: 1/128..33554431 Mbit/s"),
    "queue rate below": (_queue({"rate_mbit": -5}), "queues[0].rate_mbit", -5.0, "must be above 0"),
    "queue rate nan": (_queue({"rate_mbit": float("nan")}), "queues[0].rate_mbit", float("nan"), "must be above 0"),
    "queue port": (_queue({"port": 5}), "queues[0].port", 5, "one of the switch's ports [1, 2, 3, 4]"),
    "queue port twice": (_queue({"port": 2}, {"port": 2}), "queues[1].port", 2, "already that of queues[0]"),
    "a hole in the thresholds": (_queue({"drop_bytes": [1, 2, 3]}), "queues[0].drop_bytes", [1, 2, 3],
                                 "must have 4 thresholds, for drop classes 3, 2, 1, 0, not 3"),
    "no threshold": (_queue({"drop_bytes": None}), "queues[0].drop_bytes", None, "must be a list"),
    "an empty threshold": (_queue({"drop_bytes": [1, None, 3, 4]}), "queues[0].drop_bytes[1]", None, "an integer"),
    "threshold 0": (_queue({"drop_bytes": [0, 6000, 9000, 12000]}), "queues[0].drop_bytes[0]", 0, "must be above 0"),
    "thresholds out of order": (_queue({"drop_bytes": [4000, 9000, 6000, 12000]}), "queues[0].drop_bytes[2]", 6000,
                                "must not be below 9000: class 2 is lost before class 1"),
    "above the highest": (_queue({"drop_bytes": [4000, 6000, 9000, 20001]}), "queues[0].drop_bytes[3]", 20001,
                          "must not be above drop_all_bytes, 20000"),
    "mark above": (_queue({"mark_bytes": 20001}), "queues[0].mark_bytes", 20001, "must be 0..20000"),
    "mark below": (_queue({"mark_bytes": -1}), "queues[0].mark_bytes", -1, "must be 0..20000"),
    "all of 2^32": (_queue({"drop_all_bytes": 2**32}), "queues[0].drop_all_bytes", 2**32, "must be 1..4294967295"),
    "trim a number": (_queue({"trim": 1}), "queues[0].trim", 1, "must be true or false"),
    "queue key": (_queue({"depth": 5}), "queues[0].depth", 5, "unknown key; known are port, rate_mbit"),
    "queue without rate": (lambda data: (_queue({})(data), data["queues"][0].pop("rate_mbit")),
                           "queues[0].rate_mbit", MISSING, "is required"),
    "slot base": (put("jobs", 0, "slots", "base", to=-1), "jobs[0].slots.base", -1, "must be 0 or more"),
    "one slot": (put("jobs", 0, "slots", "count", to=1), "jobs[0].slots.count", 1, "at least 2"),
    "slots beyond": (put("jobs", 0, "slots", to={"base": 4094, "count": 3}), "jobs[0].slots.count", 3,
                     "slots 4094..4096 end beyond the switch's 4096"),
    "overlap": (_add_job(slots={"base": 255, "count": 2}),
                "jobs[1].slots", "255..256", "overlaps slots 0..255 of jobs[0] (digits)"),
    "overlap inside": (_add_job(slots={"base": 8, "count": 2}), "jobs[1].slots", "8..9", "overlaps slots 0..255"),
    "bits 0": (put("jobs", 0, "thc", "bits", to=0), "jobs[0].thc.bits", 0, "must be 1..4"),
    "bits 5": (put("jobs", 0, "thc", "bits", to=5), "jobs[0].thc.bits", 5, "must be 1..4"),
    "table length": (put("jobs", 0, "thc", "bits", to=3),
                    "jobs[0].thc.table", PUBLISHED_TABLE, "2^bits = 8 values, not 16"),
    "table start": (put("jobs", 0, "thc", "table", 0, to=1), "jobs[0].thc.table[0]", 1, "must be 0"),
    "table not rising": (put("jobs", 0, "thc", "table", 7, to=13),
                    "jobs[0].thc.table[7]", 13, "above the value before it, 13"),
    "only zeros": (put("jobs", 0, "thc", to={"bits": 1, "table": [0, 0]}), "jobs[0].thc.table[1]", 0, "above the"),
    "table value": (lambda data: data["jobs"].__setitem__(0, {**job("wide", 1, 1, 0, 2, "thc"),
                                                              "thc": {"bits": 1, "p": 0.1, "table": [-1, 5]}}),
                    "jobs[0].thc.table[0]", -1, "must be 0..255"),
    "no op of ours": (_add_job(ops=["avg"]), "jobs[1].ops[0]", "avg", "known are thc, max32, sum32, sign, vote"),
    "stands for none": (put("workers", 0, "stands_for", to=0), "workers[0].stands_for", 0, "must be 1..255 hosts"),
    "stands for a name": (put("workers", 0, "stands_for", to="h1"), "workers[0].stands_for", "h1", "an integer"),
    "stands for too many": (lambda data: (data["workers"][0].update(stands_for=256), data.update(jobs=[])),
                            "workers[0].stands_for", 256, "must be 1..255 hosts"),
    "a switch's udp port": (lambda data: data["workers"][0].update(stands_for=1, udp_port=4000),
                            "workers[0].udp_port", 4000, "must be 21335 at a switch"),
    "sign of 17 hosts": (_many("sign", 14), "jobs[0].workers", "17 hosts", "at most 16 with op sign"),
    "vote of 16 hosts": (_many("vote", 13), "jobs[0].workers", "16 hosts", "at most 15 with op vote"),
    "vote of 8 hosts below": (_lower("vote", 5, 8), "jobs[0].workers[1]", "8 hosts",
                              "at most 7 with op vote below h2"),
    "vote of 8 hosts below parents": (lambda data: (_lower("vote", 5)(data), _parents(1)(data)), "jobs[0].workers",
                                      "8 hosts", "at most 7 with op vote below this switch"),
    "no workers in a run": (put("jobs", 0, "workers_min", to=0), "jobs[0].workers_min", 0, "must be 1..4, the number"),
    "more workers in a run": (put("jobs", 0, "workers_min", to=5), "jobs[0].workers_min", 5, "must be 1..4"),
    "fewer workers in words": (put("jobs", 0, "workers_min", to="two"), "jobs[0].workers_min", "two", "an integer"),
    "fewer workers below parents": (lambda data: (_parents(1)(data), data["jobs"][0].update(workers_min=3)),
                                    "jobs[0].workers_min", 3, "must be all 4 workers, since a switch above has"),
    "max32 of 256 hosts": (_many("max32", 253), "jobs[0].workers", "256 hosts", "at most 255, the largest count"),
    "overflow below": (put("workers", 0, "stands_for", to=6), "jobs[0].thc.granularity", 30,
                       "granularity 30 * 9 workers = 270 overflows the sums of 8 planes (at most 255); at most 8"),
    "numbers of hosts": (put("jobs", 0, "stands_for", to=[1, 1, 1]), "jobs[0].stands_for", [1, 1, 1],
                         "one number for each of the 4 workers"),
    "a host of two": (put("jobs", 0, "stands_for", to=[1, 2, 1, 1]), "jobs[0].stands_for[1]", 2, "1..1, what h2"),
    "a part of nothing": (lambda data: (data["workers"][3].update(stands_for=5),
                                        put("jobs", 0, "stands_for", to=[1, 1, 1, 0])(data)),
                          "jobs[0].stands_for[3]", 0, "1..5, what h4"),
    "three parents": (_parents(3), "jobs[0].parents", "3 parents", "must be 1, 2 or 4, or none"),
    "no list of parents": (put("jobs", 0, "parents", to={}), "jobs[0].parents", "{...}", "must be a list"),
    "a parent's key": (_set_parents(lambda parents: parents[0].update(name="s2")),
                       "jobs[0].parents[0].name", "s2", "unknown key; known are port, ip, mac, worker"),
    "a parent's seat": (_set_parents(lambda parents: parents[0].pop("worker")),
                        "jobs[0].parents[0].worker", MISSING, "is required"),
    "seat 32": (_set_parents(lambda parents: parents[0].update(worker=32)),
                "jobs[0].parents[0].worker", 32, "must be 0..31"),
    "a parent's mac": (_set_parents(lambda parents: parents[0].update(mac="01:00:00:00:00:01")),
                       "jobs[0].parents[0].mac", "01:00:00:00:00:01", "unicast"),
    "its own parent": (_set_parents(lambda parents: parents[0].update(ip="10.0.0.100")),
                       "jobs[0].parents[0].ip", "10.0.0.100", "not be this switch's own"),
    "parents on one address": (_set_parents(lambda parents: parents[1].update(ip="10.0.1.0"), 2),
                               "jobs[0].parents[1].ip", "10.0.1.0", "already that of jobs[0].parents[0]"),
    "a parent nowhere": (_set_parents(lambda parents: parents[0].update(port=9)),
                         "jobs[0].parents[0].port", 9, "one of the switch's ports [1, 2, 3, 4, 5]"),
    "a parent at a worker": (_set_parents(lambda parents: parents[0].update(port=2)),
                             "jobs[0].parents[0].port", 2, "not be the port of a worker, h2"),
    "odd slots": (lambda data: (_parents(2)(data), data["jobs"][0]["slots"].update(count=255)),
                  "jobs[0].slots.count", 255, "a multiple of 2, the number of parents"),
    "slots of four": (lambda data: (_parents(4)(data), data["jobs"][0]["slots"].update(count=6)),
                      "jobs[0].slots.count", 6, "a multiple of 4"),
    "p 0": (put("jobs", 0, "thc", "p", to=0), "jobs[0].thc.p", 0.0, "between 0 and 1"),
    "p 1": (put("jobs", 0, "thc", "p", to=1), "jobs[0].thc.p", 1.0, "between 0 and 1"),
    "p nan": (put("jobs", 0, "thc", "p", to=float("nan")), "jobs[0].thc.p", float("nan"), "between 0 and 1"),
    "other granularity": (put("jobs", 0, "thc", "granularity", to=31),
                    "jobs[0].thc.granularity", 31, "last value, 30"),
    "overflow": (put("jobs", 0, "thc", "table", 15, to=64), "jobs[0].thc.granularity", 64,
                 "granularity 64 * 4 workers = 256 overflows the sums of 8 planes (at most 255); at most 3 workers"),
}  # fmt: skip

# mistakes that break several rules
TWICE = ("table value", "no worker name")


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    data = star()
    ACCEPTED[name](data)
    validate(parse_config(text(data)))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    change, path, value, words = REFUSED[name]
    data = star()
    change(data)
    problems = problems_of(data)
    found = [problem for problem in problems if problem.full_path == path and words in problem.rule]
    assert found, problems
    assert repr(found[0].value) == repr(value)
    assert found[0].line is not None
    assert len(problems) == 1 or name in TWICE, problems


def test_sizes_of_the_switch() -> None:
    hosts = [{**worker(1), "name": f"h{k}", "ip": f"10.{k // 256}.{k % 256}.1", "port": 1} for k in range(1025)]
    data = {**star(1), "workers": hosts[:1024], "jobs": []}
    jobs = [job(f"j{k}", k, 32, 2 * k, 2) for k in range(65)]
    for each in jobs:
        each["workers"] = [f"h{k}" for k in range(16)]
    assert [problem.value for problem in problems_of({**data, "jobs": jobs[:64]})] == ["1024 workers in all jobs"]
    jobs[63]["workers"].pop()
    parse_config(text({**data, "jobs": jobs[:64]}))
    assert [problem.full_path for problem in problems_of({**data, "jobs": jobs})] == ["jobs", "jobs"]
    assert [problem.full_path for problem in problems_of({**data, "workers": hosts})] == ["workers"]
    jobs[0]["workers"] = [f"h{k}" for k in range(32)]
    parse_config(text({**data, "jobs": jobs[:1]}))
    jobs[0]["workers"] = [f"h{k}" for k in range(33)]
    (problem,) = problems_of({**data, "jobs": jobs[:1]})
    assert (problem.full_path, problem.value) == ("jobs[0].workers", "33 workers")
    jobs[0]["workers"] = []
    assert {problem.full_path for problem in problems_of({**data, "jobs": jobs[:1]})} == {
        "jobs[0].workers",
        "jobs[0].quorum",
    }


def test_uplinks_of_the_switch() -> None:
    above = [{"port": 2, "ip": f"10.0.1.{k}", "mac": f"02:00:00:00:01:0{k}", "worker": 0} for k in range(4)]
    jobs = [{**job(f"j{k}", k, 1, 4 * k, 4), "parents": above} for k in range(17)]
    data = {**star(1), "ports": [1, 2]}
    parse_config(text({**data, "jobs": jobs[:16]}))
    assert [problem.value for problem in problems_of({**data, "jobs": jobs})] == ["68 parents in all jobs"]


def test_all_problems_at_once_in_the_order_of_the_text() -> None:
    problems = problems_of(
        """switch: {name: s1, grpc: nowhere, device_id: yes}
aggregator: {ip: 10.0.0.1, mac: "02:53:57:00:00:64"}
ports: [1, 0]
workers:
  - {name: h1, ip: 10.0.0.1, mac: "00:00:00:00:00:01", port: 1}
  - {name: h2, ip: 10.0.0.2, mac: "00:00:00:00:00:02", port: 1, speed: 3}
jobs:
  - name: a
    id: 70000
    ops: [max32]
    workers: [h1, h2]
    quorum: 3
    slots:
      base: 0
      count: 5000
"""
    )
    assert [(problem.line, problem.full_path) for problem in problems] == [
        (1, "switch.device_id"),
        (3, "ports[1]"),
        (5, "workers[0].ip"),
        (6, "workers[1].speed"),
        (9, "jobs[0].id"),
        (12, "jobs[0].quorum"),
        (15, "jobs[0].slots.count"),
    ]


def test_a_worker_that_does_not_parse_is_not_called_unknown() -> None:
    data = star()
    data["workers"][2]["ip"] = "here"
    assert [problem.full_path for problem in problems_of(data)] == ["workers[2].ip"]


def test_message_names_file_line_value_and_rule() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text(star()).replace("10.0.0.100", "here"), source="s1.yaml")
    (line,) = str(caught.value).splitlines()
    assert line == "s1.yaml: line 6: aggregator.ip = 'here': must be an IPv4 address like 10.0.0.1"


@pytest.mark.parametrize(
    ("yaml_text", "words"),
    [
        ("switch: [", "not YAML"),
        ("a: 1\n---\nb: 2\n", "not YAML"),
        ("- 1", "must be a mapping"),
        ("3", "must be a mapping"),
    ],
)
def test_not_even_a_mapping(yaml_text: str, words: str) -> None:
    assert words in problems_of(yaml_text)[0].rule


def test_empty_text_lacks_everything() -> None:
    assert [problem.field for problem in problems_of("")] == ["switch", "aggregator", "ports", "workers", "jobs"]


def test_an_alias_may_not_contain_itself() -> None:
    assert any("contain itself" in problem.rule for problem in problems_of("switch: &a {name: *a}"))


def test_configurations_made_in_python_keep_the_same_rules() -> None:
    config = parse_config(text(star()))
    validate(config)
    broken = replace(config, ports=(1, 2, 3), workers=(replace(config.workers[0], mac="hello"), *config.workers[1:]))
    with pytest.raises(ConfigError) as caught:
        validate(broken)
    assert [problem.full_path for problem in caught.value.problems] == ["workers[0].mac", "workers[3].port"]
