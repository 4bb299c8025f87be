# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every rule on configurations of several switches, with one example that keeps it and one that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.controller.config_texts import job, star, text
from sumwire_controller.cli import main
from sumwire_controller.derive.desired import upper_first
from sumwire_controller.errors import MISSING, ConfigError
from sumwire_controller.parse.files import parse_config
from sumwire_controller.rules.agreement import check_together

Files = dict[str, dict[str, Any]]


def _switch(name: str, k: int, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    data = star(4, jobs=jobs)
    data["switch"] = {"name": name, "grpc": f"127.0.0.1:{9558 + k}", "device_id": 1}
    data["aggregator"] = {"ip": f"10.0.1.{k}", "mac": f"02:53:57:00:01:{k:02x}"}
    data["ports"] = list(range(1, 9))
    return data


def _leaf(name: str, k: int, seat: int, roots: tuple[int, ...]) -> dict[str, Any]:
    parents = [{"port": 5 + i, "ip": f"10.0.1.{r}", "mac": f"02:53:57:00:01:{r:02x}", "worker": seat}
               for i, r in enumerate(roots)]  # fmt: skip
    return _switch(name, k, [{**job("digits", 1, 2, 0, 256, "thc max32"), "parents": parents}])


def _spine(name: str, k: int) -> dict[str, Any]:
    data = _switch(name, k, [{**job("digits", 1, 2, 0, 256, "max32 thc"), "workers": ["a", "b"]}])
    data["workers"] = [
        {"name": name, "ip": f"10.0.1.{at}", "mac": f"02:53:57:00:01:{at:02x}", "port": at, "stands_for": 2}
        for name, at in (("a", 3), ("b", 4))
    ]
    return data


def two_spines() -> Files:
    """Two leaves of two hosts each under two spines."""
    return {
        "leaf1": _leaf("leaf1", 3, 0, (1, 2)),
        "leaf2": _leaf("leaf2", 4, 1, (1, 2)),
        "spine1": _spine("spine1", 1),
        "spine2": _spine("spine2", 2),
    }


def _job(files: Files, name: str) -> Any:
    return files[name]["jobs"][0]


def check(files: Files) -> None:
    check_together([parse_config(text(data)) for data in files.values()])


def test_they_fit() -> None:
    check(two_spines())
    check({})
    check({"leaf1": two_spines()["leaf1"]})  # alone, nothing can be said


def test_switches_without_a_common_job_fit() -> None:
    check({"a": _switch("a", 1, [job("x", 1, 2, 0, 8)]), "b": _switch("b", 2, [job("y", 2, 2, 0, 8)])})


def test_slots_may_lie_elsewhere_on_each_switch() -> None:
    files = two_spines()
    _job(files, "leaf1")["slots"]["base"] = 512
    check(files)


def test_a_leaf_after_its_spine() -> None:
    order = upper_first([parse_config(text(data)) for data in two_spines().values()])
    assert [config.switch.name for config in order] == ["spine1", "spine2", "leaf1", "leaf2"]


Change = Callable[[Files], object]

# what is changed -> (the change, path of a problem, value, words of its rule)
REFUSED: dict[str, tuple[Change, str, object, str]] = {
    "slots": (lambda files: _job(files, "leaf2")["slots"].update(count=128),
              "leaf2.jobs[0].slots.count", 128, "must be as in spine1.jobs[0]: 256"),
    "most": (lambda files: _job(files, "leaf2").update(slots={"most": 256}),
             "leaf2.jobs[0].slots.most", 256, "must be as in spine1.jobs[0]: none"),
    "ops": (lambda files: _job(files, "leaf2")["ops"].append("sign"),
            "leaf2.jobs[0].ops", ["max32", "sign", "thc"], "must be as in spine1.jobs[0]: ['max32', 'thc']"),
    "lanes": (lambda files: _job(files, "leaf2").update(lanes=2), "leaf2.jobs[0].lanes", 2, "must be as in spine1"),
    "spray": (lambda files: _job(files, "leaf2").update(spray="hash"), "leaf2.jobs[0].spray", "hash", "must be as in"),
    "an id of another job's lane": (
        lambda files: files.update(other=_switch("other", 9, [{**job("lone", 8, 2, 256, 8)}]),
                                   another=_switch("another", 8, [{**job("laned", 5, 2, 256, 8), "lanes": 4}])),
        "other.jobs[0].id", 8, "is an id of a lane of another.jobs[0] (laned), which has 5..8"),
    "table": (lambda files: _job(files, "leaf1")["thc"].update(p=0.5), "leaf1.jobs[0].thc", None, "must be as in"),
    "name": (lambda files: _job(files, "leaf1").update(name="other"), "leaf1.jobs[0].name", "other", "must be as in"),
    "id": (lambda files: _job(files, "spine2").update(id=2), "spine2.jobs[0].id", 2, "digits is 1 in leaf1.jobs[0]"),
    "no spine": (lambda files: files.pop("spine2"),
                 "leaf1.jobs[0].parents[1].ip", "10.0.1.2", "no switch with this aggregator has job 1"),
    "no leaf": (lambda files: files.pop("leaf2"),
                "spine1.jobs[0].workers[1]", "b", "no switch with its aggregator 10.0.1.4 has job 1"),
    "no parents": (lambda files: _job(files, "leaf2").pop("parents"),
                   "leaf2.jobs[0].parents", MISSING, "must name spine1, as spine1.jobs[0] expects"),
    "one parent of two": (lambda files: _job(files, "leaf2")["parents"].pop(),
                          "leaf2.jobs[0].parents", "10.0.1.1", "must be as in leaf1.jobs[0]: 10.0.1.1, 10.0.1.2"),
    "parents in another order": (lambda files: _job(files, "leaf2")["parents"].reverse(),
                                 "leaf2.jobs[0].parents", "10.0.1.2, 10.0.1.1", "must be as in leaf1.jobs[0]"),
    "another's seat": (lambda files: _job(files, "leaf2")["parents"][0].update(worker=0),
                       "leaf2.jobs[0].parents[0].worker", 0, "spine1.jobs[0] has this switch as worker 1"),
    "no seat": (lambda files: files["spine1"]["workers"][1].update(ip="10.0.1.9"),
                "leaf2.jobs[0].parents[0].worker", 1, "spine1.jobs[0] has this switch as no worker"),
    "a seat for a host": (lambda files: files["spine1"]["workers"][1].pop("stands_for"),
                          "leaf2.jobs[0].parents[0].worker", 1, "has this switch as no worker"),
    "a parent's mac": (lambda files: _job(files, "leaf1")["parents"][1].update(mac="02:00:00:00:00:01"),
                       "leaf1.jobs[0].parents[1].mac", "02:00:00:00:00:01", "of spine2, 02:53:57:00:01:02"),
    "a worker's mac": (lambda files: files["spine2"]["workers"][0].update(mac="02:00:00:00:00:01"),
                       "spine2.workers.a.mac", "02:00:00:00:00:01", "of leaf1, 02:53:57:00:01:03"),
    "fewer hosts than thought": (lambda files: _job(files, "leaf1")["workers"].pop(),
                                 "leaf1.jobs[0].workers", "1 hosts", "spine1.jobs[0] has 2 hosts behind this switch"),
    "a name twice": (lambda files: files["leaf2"]["switch"].update(name="leaf1"),
                     "leaf1.switch.name", "leaf1", "already that of leaf1"),
    "a server twice": (lambda files: files["leaf2"]["switch"].update(grpc="127.0.0.1:9561"),
                       "leaf2.switch.grpc", "127.0.0.1:9561 device 1", "already that of leaf1"),
    "an aggregator twice": (lambda files: files.update(other={**_switch("other", 4, []), "switch": {
                                "name": "other", "grpc": "h:1", "device_id": 1}}),
                            "other.aggregator.ip", "10.0.1.4", "already that of leaf2"),
    "a stranger with the job": (lambda files: files.update(other=_switch("other", 9, [
                                    job("digits", 1, 2, 0, 256, "thc max32")])),
                                "other.jobs[0].parents", MISSING, "is in no tree with the other switches"),
    "two strangers": (lambda files: _instead(files, {
                          name: _switch(name, k, [job("digits", 1, 2, 0, 256)]) for k, name in ((1, "a"), (2, "b"))}),
                      "b.jobs[0].parents", MISSING, "is in no tree"),
    "several in the middle": (lambda files: files.update(
                                  top={**_spine("top", 9), "workers": [
                                      {"name": name, "ip": f"10.0.1.{at}", "mac": f"02:53:57:00:01:{at:02x}",
                                       "port": at, "stands_for": 4} for name, at in (("a", 1), ("b", 2))]},
                                  spine1=_under_top(_spine("spine1", 1), 0), spine2=_under_top(_spine("spine2", 2), 1)),
                              "leaf1.jobs[0].parents", "2 parents", "several must be roots of the job"),
    "a circle": (lambda files: _instead(files, {
                     "a": _ring("a", 1, 2), "b": _ring("b", 2, 3), "c": _ring("c", 3, 1)}),
                 "parents", "a, b, c", "in a circle"),
}  # fmt: skip


def _instead(files: Files, others: Files) -> None:
    files.clear()
    files.update(others)


def _under_top(data: dict[str, Any], seat: int) -> dict[str, Any]:
    parent = {"port": 8, "ip": "10.0.1.9", "mac": "02:53:57:00:01:09", "worker": seat}
    data["jobs"][0]["parents"] = [parent]
    return data


def _ring(name: str, k: int, above: int) -> dict[str, Any]:
    below = {2: 1, 3: 2, 1: 3}[k]
    data = _switch(name, k, [{**job("digits", 1, 1, 0, 8), "workers": ["w"]}])
    data["workers"] = [{"name": "w", "ip": f"10.0.1.{below}", "mac": f"02:53:57:00:01:{below:02x}",
                        "port": 1, "stands_for": 1}]  # fmt: skip
    data["jobs"][0]["parents"] = [
        {"port": 2, "ip": f"10.0.1.{above}", "mac": f"02:53:57:00:01:{above:02x}", "worker": 0}
    ]
    return data


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    change, path, value, words = REFUSED[name]
    files = two_spines()
    change(files)
    with pytest.raises(ConfigError) as caught:
        check(files)
    problems = caught.value.problems
    found = [problem for problem in problems if problem.full_path == path and words in problem.rule]
    assert found, problems
    assert value is None or repr(found[0].value) == repr(value)


def test_check_config_takes_several_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = two_spines()
    paths = []
    for name, data in files.items():
        paths.append(str(tmp_path / f"{name}.yaml"))
        Path(paths[-1]).write_text(text(data))
    assert main(["check-config", *paths]) == 0
    assert capsys.readouterr().out.splitlines()[2] == f"{paths[2]}: switch spine1, 2 workers, 1 jobs: good"
    _job(files, "leaf2")["slots"]["count"] = 128
    Path(paths[1]).write_text(text(files["leaf2"]))
    for command in (["check-config"], ["apply", "--timeout", "0.1"], ["status", "--timeout", "0.1"]):
        assert main([*command, *paths]) == 1
        assert capsys.readouterr().err == (
            "configurations: leaf2.jobs[0].slots.count = 128: must be as in spine1.jobs[0]: 256\n"
        )
