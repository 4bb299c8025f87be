# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What options mean to a simulation: its own ones, those of a run, and cases of studies in YAML."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from helpers.docs import pages
from sumwire.lowrank.fusion import Phase, make_plan
from sumwire_lab.cli import main
from sumwire_lab.errors import OptionError
from sumwire_lab.network.control_plane import thresholds
from sumwire_lab.options.conditions import Conditions
from sumwire_lab.options.fabric import Fabric
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.options.simulate_options import FLOWS, LAB_CORES, PACKETS, SimulateOptions, of_run, with_values
from sumwire_lab.run.grid import check, load, simulated, train
from sumwire_lab.simulate import measure, network
from sumwire_lab.simulate.systems import SYSTEMS
from sumwire_lab.simulate.workloads import workload_of
from sumwire_lab.study.study import Context

SMALL: dict[str, Any] = {"model": "digits", "workers": 4, "rate-bit-s": 1e8}


def options(**more: Any) -> SimulateOptions:
    return with_values(SimulateOptions(), {**SMALL, **{name.replace("_", "-"): one for name, one in more.items()}})


@pytest.mark.parametrize("engine", [PACKETS, FLOWS])
def test_both_engines_measure_every_system(engine: str) -> None:
    names = [name for name, system in SYSTEMS.items() if engine == PACKETS or not system.tagged]
    rows = measure.rows(options(engine=engine, systems=",".join(names), costs="soft"))
    assert [row["system"] for row in rows] == names
    for row in rows:
        assert 0 < row["comm_s_per_step"] <= row["step_s"] * 1.001, row
        assert row["wire_bytes_per_step"] > 0


@pytest.mark.parametrize(
    ("name", "value", "grows"),
    [
        ("rate-bit-s", 2e8, False), ("delay-s", 0.01, True), ("loss", 0.05, True), ("slots", 4, True),
        ("costs", "bmv2", True), ("passes-s", 0.5, True), ("buffer-mb", 0.01, False), ("model", "text", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("engine", [PACKETS, FLOWS])
def test_an_option_changes_a_step(engine: str, name: str, value: Any, grows: bool) -> None:
    usual = measure.rows(options(engine=engine, systems="thc"))[0]["step_s"]
    if name == "slots":
        usual = measure.rows(options(engine=engine, systems="thc", delay_s=0.001))[0]["step_s"]
    more = {"delay-s": 0.001} if name == "slots" else {}
    found = measure.rows(with_values(options(engine=engine, systems="thc"), {**more, name: value}))[0]["step_s"]
    assert found > usual if grows else found < usual


def test_workers_that_vary_are_waited_for() -> None:
    for engine in (PACKETS, FLOWS):
        calm = measure.rows(options(engine=engine, systems="thc", passes_s=0.1))[0]["step_s"]
        slow = measure.rows(options(engine=engine, systems="thc", passes_s=0.1, slow=0.3, steps=5))[0]["step_s"]
        assert slow > calm


@pytest.mark.parametrize("engine", [PACKETS, FLOWS])
def test_low_rank_systems_send_factors(engine: str) -> None:
    """Power-SGD sends both in a step, ACP-SGD one of them; a ring's bytes are those of its numbers."""
    given: dict[str, Any] = {"engine": engine, "passes_s": 0.1}
    ring, both, one, packed, fine = (
        measure.rows(options(systems=system, **given, **more))[0]
        for system, more in (("gloo", {}), ("powersgd", {}), ("acp@group", {}), ("acp", {}), ("acp@group", {"rank": 8}))
    )
    plan = make_plan([layer.shape for layer in workload_of("digits").layers], 4, min_compression=0.0)
    sent = [plan.sent_bytes(phase) for phase in Phase]
    values = ring["wire_bytes_per_step"] / plan.dense_bytes
    assert one["wire_bytes_per_step"] == pytest.approx(values * fmean(sent), rel=0.02)
    assert both["wire_bytes_per_step"] == pytest.approx(values * sum(sent), rel=0.02)
    assert one["step_s"] < both["step_s"] < ring["step_s"]
    assert one["wire_bytes_per_step"] * 1.5 < fine["wire_bytes_per_step"]
    assert packed["step_s"] != one["step_s"]


def test_power_sgd_begins_after_the_backward_pass() -> None:
    both, one = (
        measure.rows(options(systems=name, engine=FLOWS, model="bert-base", rank=64, passes_s=0.3))[0]
        for name in ("powersgd", "acp@group")
    )
    assert both["step_s"] == pytest.approx(0.3 + both["comm_s_per_step"])
    assert one["step_s"] < 0.3 + one["comm_s_per_step"]


def test_dlcp_is_thc_with_lanes_marks_and_priorities() -> None:
    given: dict[str, Any] = {"model": "text", "rate_bit_s": 2.5e8, "passes_s": 0.02, "steps": 3, "buffer_mb": 1.0,
                             "queue_bytes": 100_000}  # fmt: skip
    marks = thresholds(given["queue_bytes"])["mark_bytes"]
    spelled: dict[str, Any] = {
        "lanes": 4,
        "early_forward": True,
        "limited": True,
        "order": "levels",
        "mark_bytes": marks,
    }
    named, thc, plain = (
        measure.rows(options(systems=name, **given, **more))[0]
        for name, more in (("dlcp", {}), ("thc", spelled), ("thc", {}))
    )
    assert {**named, "system": "thc"} == thc
    assert named["step_s"] != plain["step_s"]


def test_flows_know_no_lanes() -> None:
    told = "systems=dlcp: engine=flows knows no lanes; take --engine packets"
    with pytest.raises(OptionError, match=told):
        measure.check(options(systems="thc,dlcp", engine=FLOWS))
    with pytest.raises(OptionError, match=told):
        measure.rows(options(systems="dlcp", engine=FLOWS))


# -- options of a run --------------------------------------------------------------------------------------


def test_a_run_s_network_is_simulated() -> None:
    found = of_run(RunOptions(workers=8, topology="leaf-spine2", systems=("thc", "gloo")))
    assert found.fabric == Fabric(
        workers=8, levels=(4, 2), spines=2, rate_bit_s=1e8, delay_s=0.0, queue_bytes=256 * 1514
    )
    assert (found.costs, found.cores, found.model, found.systems) == ("soft", LAB_CORES, "digits", ("thc", "gloo"))


def test_a_run_s_congestion_control() -> None:
    """The lab gives its hosts CUBIC, unless it is told otherwise, and so does a simulation of its run."""
    assert of_run(RunOptions()).control == "cubic"
    assert of_run(RunOptions(link=LinkOptions(control="bbr"))).control == "bbr"
    with pytest.raises(OptionError, match="control=reno"):
        of_run(RunOptions(link=LinkOptions(control="reno")))
    with pytest.raises(OptionError, match=r"control=cubic;x: a kernel names it with up to 15 small letters"):
        LinkOptions(control="cubic;x")


def test_a_run_s_background_traffic() -> None:
    """A step beside it takes longer, as the option tells and not otherwise."""
    run = RunOptions(systems=("gloo",), conditions=Conditions(background=0.5))
    assert of_run(run).background == 0.5
    beside, alone = (measure.rows(replace(of_run(run), background=share))[0]["step_s"] for share in (0.5, 0.0))
    assert beside > 1.3 * alone


def test_a_server_sums_where_a_run_has_one() -> None:
    systems = ("thc", "thc-wide", "gloo")
    found = of_run(RunOptions(systems=systems, switch="aggregator")).systems
    assert found == ("thc@server", "thc-wide@server", "gloo")


@pytest.mark.parametrize(("topology", "workers"), [("star", 3), ("leaf-spine", 5), ("three-level", 9)])
def test_every_topology_has_room_for_all_workers(topology: str, workers: int) -> None:
    assert of_run(RunOptions(workers=workers, topology=topology)).fabric.workers == workers


# -- studies -----------------------------------------------------------------------------------------------

GRID = """
name: rates
engine: ENGINE
options: {task: digits, steps: 2}
grid: {systems: [thc, gloo], bw: [10, 100], workers: [4, 8], topology: [star, leaf-spine]}
columns: [step_s, comm_s_per_step]
figures: [{x: bw, y: step_s, by: systems}]
"""


@pytest.mark.parametrize("engine", [PACKETS, FLOWS])
def test_a_study_of_the_lab_is_simulated(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(GRID.replace("ENGINE", engine))
    study = load(path)
    assert len(study.cases) == 16
    rows = train(study.cases[0], Context(tmp_path, print))
    assert rows[0]["system"] == "thc"
    assert rows[0]["accuracy"] is None
    assert rows[0]["step_s"] > rows[0]["comm_s_per_step"] > 0


def test_lab_and_simulator_may_be_in_one_grid(tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(
        "name: both\noptions: {task: digits, bw: 100, systems: thc}\ngrid: {engine: [native, packets, flows]}\n"
    )
    found = [check(case) for case in load(path).cases]
    assert [type(one) for one in found] == [RunOptions, SimulateOptions, SimulateOptions]


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ({"engine": PACKETS, "bw": 10, "gray": "1:0.1"}, "gray='1:0.1': not simulated; take it out"),
        ({"engine": PACKETS, "malformed": 3}, "malformed=3: not simulated"),
        ({"engine": FLOWS, "systems": "topk"}, "systems=topk: known are thc,"),
        ({"engine": FLOWS, "model": "alexnet"}, "=alexnet: known are"),
        ({"engine": FLOWS, "workers": "four"}, "workers='four': must be a whole number"),
        ({"engine": FLOWS, "workers": 4.5}, "workers=4.5: must be a whole number"),
        ({"engine": FLOWS, "levels": "1_6,2"}, "levels=1_6,2: must be whole numbers with commas"),
        ({"engine": FLOWS, "levels": "9999999999999999999"}, "levels=9999999999999999999: must be whole numbers"),
        ({"engine": FLOWS, "levels": "32x32"}, "levels=32x32: must be whole numbers with commas"),
        ({"engine": FLOWS, "workers": 64, "levels": "16"}, "workers=64: must be at most 16"),
        ({"engine": FLOWS, "costs": "asic"}, "costs=asic: known are none"),
        ({"engine": FLOWS, "trim": 1}, "trim=1: must be true or false"),
        ({"delay-s": float("inf")}, "delay-s=inf: must be 0 to 100"),
        ({"delay-s": 1e9}, "delay-s=1000000000.0: must be 0 to 100"),
        ({"passes-s": float("inf")}, "passes-s=inf: must be 0 to 10000"),
        ({"buffer-mb": float("inf")}, "buffer-mb=inf: must be 0 to"),
        ({"queue-bytes": 1 << 32}, "queue-bytes=4294967296: must be 1 to"),
        ({"mark-bytes": 1 << 32}, "mark-bytes=4294967296: must be 0 to"),
        ({"seed": 1 << 64}, "seed=18446744073709551616: must be 0 to"),
        ({"batch": 10**400}, "must be 1 to 1e"),
        ({"cores": 10**9}, "cores=1000000000: must be 0 to 10000"),
        ({"lanes": 8, "slots": 2}, "lanes=8: must divide slots=2 into 2 or more each; give --slots 512"),
        ({"lanes": 3}, "lanes=3: must divide slots=512"),
        ({"background": 0.5, "workers": 1}, "background=0.5 with workers=1: there is no other host; give more workers"),
        ({"background": 1}, "background=1: a share of a link, 0 to 0.95"),
        ({"background": 0.5, "engine": "flows"}, "background=0.5: engine=flows has no packets"),
        ({"early-forward": True}, "early-forward with steps=1: there is no next forward pass; give --steps 2"),
        ({"control": "dctcp"}, "control=dctcp: follows marks; give --mark-bytes"),
        ({"control": "pfabric"}, "control=pfabric: wants queues in its order; give --order smallest"),
        ({"control": "ndp", "order": "levels"}, "control=ndp: wants headers .*; give --trim and --order levels"),
        ({"engine": FLOWS, "lanes": 4}, "lanes=4: engine=flows has no packets and no queues; take --engine packets"),
        ({"engine": FLOWS, "control": "bbr"}, "control=bbr: engine=flows has no packets"),
        ({"engine": FLOWS, "mark-bytes": 9}, "mark-bytes=9: engine=flows has no packets"),
        ({"engine": FLOWS, "cores": 2}, "cores=2: in engine=flows cores share what --costs tell"),
        ({"engine": FLOWS, "loss": 0.01, "systems": "gloo"}, "loss=0.01: engine=flows does not know what losses do"),
        (
            {"workers": 1_000_000, "systems": "gloo"},
            "workers=1000000: system=gloo by packets would take .* GB of memory",
        ),
        ({"engine": FLOWS, "workers": 1_000_000, "steps": 10_000}, "steps=10000 of slow workers would take 240 GB"),
        (
            {"model": "decoder-7b", "workers": 1, "steps": 1000, "systems": "thc"},
            "steps=1000: .* chunks, at most 4.29e",
        ),
    ],
)
def test_what_a_simulation_cannot_do_is_refused(case: dict[str, Any], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        measure.rows(simulated(case))


def test_a_long_simulation_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "SLICE_EVENTS", 1000)
    monkeypatch.setattr(measure, "LINE_S", 0.0)
    said: list[str] = []
    (row,) = measure.rows(options(systems="thc"), said.append)
    assert len(said) == row["events"] // 1000
    assert re.fullmatch(r"thc: 0\.\d+ s simulated, 1000 events", said[0])
    monkeypatch.undo()
    assert measure.rows(options(systems="thc"), said.append) == [row]


def test_ctrl_c_ends_a_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[Any] = []
    close = network.Network.close

    def closed(self: network.Network) -> None:
        freed.append(self)
        close(self)

    def interrupt(_line: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(network.Network, "close", closed)
    monkeypatch.setattr(network, "SLICE_EVENTS", 1000)
    monkeypatch.setattr(measure, "LINE_S", 0.0)
    with pytest.raises(KeyboardInterrupt):
        measure.rows(options(systems="thc"), interrupt)
    assert len(freed) == 1


@pytest.mark.parametrize("wrong", ["systems: nobody", "model: alexnet", "costs: asic"])
def test_an_unknown_name_is_told_before_any_case_runs(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(f"name: wrong\nengine: flows\noptions: {{{wrong}}}\ngrid: {{workers: [2, 4]}}\n")
    with pytest.raises(OptionError, match=rf"grid\.yaml:4: {wrong.replace(': ', '=')}: known are "):
        load(path)


def test_a_wrong_engine_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(GRID.replace("ENGINE", "quantum"))
    with pytest.raises(OptionError, match=r"grid\.yaml:3: engine: .*quantum.*: known are packets, flows"):
        load(path)


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--model=digits", "--systems=thc,gloo", "--rate-bit-s=1e8", "--engine=flows"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["system", "step_s"]
    assert [line.split()[0] for line in lines[1:3]] == ["thc", "gloo"]


BLOCKS = [block for block in pages.blocks("console") if block.path.name == "simulate.md"]
(RATES,) = (block for block in pages.blocks("yaml") if block.path.name == "simulate.md")


def words_of(text: str) -> list[str]:
    return shlex.split(text.splitlines()[0].removeprefix("$ sumwire-lab "))


def test_the_first_table_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words_of(BLOCKS[0].text)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(BLOCKS[0].text.splitlines()[1].removesuffix("  ..."))
    assert [(line.split()[0], line.split()[-1]) for line in lines[1:3]] == [("thc", "downlink"), ("marsit", "uplink")]


def test_the_first_figure_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rates.yaml").write_text(RATES.text)
    assert main(words_of(BLOCKS[1].text)) == 0
    assert Path("results/rates/rates.svg").is_file()
    assert len(Path("results/rates/records.jsonl").read_text().splitlines()) == 9


def test_options_beside_a_study_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "acp", "--workers=8"]) == 2
    assert "workers=8: a study has its own options" in capsys.readouterr().err


@pytest.mark.parametrize("workers", [4, 8])
def test_engines_mean_the_same_by_communication(workers: int) -> None:
    given = {"systems": "thc", "model": "resnet50", "workers": workers, "rate-bit-s": 2e9}
    one, other = (measure.rows(options(**{"engine": engine, **given}))[0] for engine in (PACKETS, FLOWS))
    assert one["comm_s_per_step"] == pytest.approx(other["comm_s_per_step"], rel=0.02)


def test_a_wrong_study_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "nothing"]) == 2
    assert "study=nothing: known are acp, dlcp" in capsys.readouterr().err
