# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Short whole runs in Mininet: both systems, then the switch path again through losses and malformed packets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import ledgers
from helpers.logs import logged
from sumwire_lab.options import arguments, recorded, run_options
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run import report
from sumwire_protocol.events import Event

pytestmark = [pytest.mark.mininet, pytest.mark.root]

STEPS = 12
TRAIN = TrainOptions(hidden=96, max_steps=STEPS, nmse_samples=2)
OPTIONS = RunOptions(workers=2, link=LinkOptions(200.0, 256), train=TRAIN, switch="soft", deadline_s=100.0)


def run(options: RunOptions, results: Path, **more: Any) -> tuple[dict[str, Any], Path, list[str]]:
    from sumwire_lab.run.training_run import run as run_lab

    said: list[str] = []
    summary, folder = run_lab(options, results, said.append, **more)
    assert not ledgers.of_this_process(), "nothing of the run is left"
    return summary, folder, said


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path, list[str]]:
    settings = recorded.recorded(arguments.parser().parse_args(["run"]), OPTIONS)
    with logged("sumwire_lab") as lines:
        done = run(OPTIONS, tmp_path_factory.mktemp("results"), settings=settings, live=0)
    assert [(line["event"], line["system"]) for line in lines] == [
        (event.word, system) for system in ("gloo", "thc") for event in (Event.RUN_BEGAN, Event.RUN_ENDED)
    ]
    return done


def test_both_systems_train_alike(plain: tuple[dict[str, Any], Path, list[str]]) -> None:
    summary, _, said = plain
    gloo, thc = summary["systems"]["gloo"], summary["systems"]["thc"]
    assert (summary["workers"], summary["link_mbit"], summary["switch"]) == (2, 200.0, "soft")
    for entry in (gloo, thc):
        assert entry["steps"] == STEPS
        assert entry["replicas_equal"]
        assert 0 < entry["comm_s_per_step"] < 5
    # A tenth of the images is right by chance; a sum that goes wrong does not learn.
    assert min(gloo["accuracy"], thc["accuracy"]) > 0.5
    assert abs(gloo["accuracy"] - thc["accuracy"]) < 0.1
    assert gloo["fingerprints"] != thc["fingerprints"], "THC is lossy: the same bits would mean gloo did the work"
    assert 0.005 < thc["nmse"] < 0.2
    assert thc["fallbacks"] == 0
    lost = thc["lost"]
    assert (lost["link_queues"], lost["host_sockets"], lost["switch"]) == (0, 0, 0), "nobody impairs anything here"
    assert gloo["lost"]["switch"] is None, "bridges do not tell"
    # 4 bits up and 8 bits down a value instead of 32 bits each way (and 2 (n-1)/n = 1 of the tensor for gloo).
    assert thc["wire_bytes_per_step"] < 0.5 * gloo["wire_bytes_per_step"]
    assert any(f"{STEPS}/{STEPS}" in line for line in said)


def test_the_folder_holds_report_and_logs(plain: tuple[dict[str, Any], Path, list[str]]) -> None:
    summary, folder, _ = plain
    assert (folder.parent / "latest").resolve() == folder.resolve()
    assert json.loads((folder / "summary.json").read_text()) == summary
    page = (folder / "report.html").read_text()
    assert page.count('class="plot"') == 4
    assert page.count('aria-label="Network of') == page.count("step-of") == 2
    for name in ["gloo/worker0.log", "gloo/worker1.jsonl", "thc/switch.log", "thc/controller.yaml", "thc/job.json"]:
        assert (folder / name).is_file(), name


def test_the_run_can_be_made_again_and_compared(plain: tuple[dict[str, Any], Path, list[str]]) -> None:
    _, folder, said = plain
    assert any(line.startswith("live: http://127.0.0.1:") for line in said)
    words = recorded.words_of(recorded.settings_in(folder), folder)
    again = run_options.run_options(arguments.parser().parse_args(["run", *words]))
    assert (again.workers, again.train.seed) == (OPTIONS.workers, OPTIONS.train.seed)
    found = report.compare(report.Recorded.of(folder), report.Recorded.of(folder))
    assert found.comparable
    assert {line.ratio for line in found.lines} <= {1.0, None}


def test_what_was_on_the_links(plain: tuple[dict[str, Any], Path, list[str]]) -> None:
    """Both hosts send alike, and what one sends the other gets, by the switch or by gloo's ring."""
    for entry in plain[0]["systems"].values():
        first, second = entry["links"]
        assert [first["lower"], second["lower"], first["upper"]] == ["h1", "h2", "s1"]
        # Counted from the start, where steps are so few: then rank 0's broadcast of the parameters is in it.
        assert first["up_bytes"] == pytest.approx(second["up_bytes"], rel=0.25)
        assert 0 < first["up_load"] <= 1.1
        assert (first["up_lost"], second["down_lost"]) == (0, 0)


def test_a_training_may_end_at_its_target_with_each_kind_of_baseline(tmp_path: Path) -> None:
    train = TrainOptions(hidden=96, until_target=True)
    options = RunOptions(
        workers=2, link=OPTIONS.link, train=train, systems=("bf16", "powersgd4", "naive4"), switch="soft"
    )
    summary, _, _ = run(options, tmp_path)
    for entry in summary["systems"].values():
        assert entry["accuracy"] >= 0.95 and entry["replicas_equal"]
        assert entry["steps"] == entry["steps_to_target"]
    naive = summary["systems"]["naive4"]
    assert (naive["fallbacks"], summary["systems"]["bf16"]["nmse"] < 1e-3) == (0, True)
    assert naive["payload_bits_per_value_up"] < 5 and naive["nmse"] < 0.2


def test_losses_and_malformed_packets_change_no_bit(
    plain: tuple[dict[str, Any], Path, list[str]], tmp_path: Path
) -> None:
    options = RunOptions(
        workers=2,
        link=OPTIONS.link,
        train=TRAIN,
        systems=("thc",),
        switch="soft",
        impair="drop=0.02,dup=0.02,reorder=0.02,seed=7",
        malformed=240,
        deadline_s=100.0,
    )
    summary, _, _ = run(options, tmp_path)
    thc = summary["systems"]["thc"]
    assert thc["fingerprints"] == plain[0]["systems"]["thc"]["fingerprints"]
    assert (thc["fallbacks"], thc["steps"]) == (0, STEPS)
    assert sum(thc["malformed"]["sent"].values()) == 240
    # The impaired ports drop and double some of them on their way in.
    assert 200 < sum(thc["malformed"]["counted"].values()) < 280
