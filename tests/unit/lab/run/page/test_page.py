# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The report's page: its numbers are summary.json's, and nothing from outside becomes markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.lab import runs
from matplotlib.figure import Figure
from sumwire_lab.run import report
from sumwire_lab.run.page import charts, network, opening, render
from sumwire_lab.run.results import SystemResult, answers

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


def test_the_answer() -> None:
    found = answers(runs.summary()["systems"])["thc"]
    assert found["communication"] == pytest.approx(6.0)
    assert found["bound"] == pytest.approx(8.0), "2000 bytes sent, over 250 received"
    assert found["time_to_accuracy"] == pytest.approx(4.0)
    assert found["bytes"] == pytest.approx(10.0)
    assert found["accuracy_points"] == pytest.approx(0.0)
    assert answers({"thc": {}}) == {}
    assert (found["best_baseline"], found["over_best"]) == ("gloo", pytest.approx(4.0))
    empty = dict.fromkeys((*found,))
    assert answers({"gloo": {}, "thc": {"comm_s_per_step": 0.0}}) == {"thc": empty}


def test_every_number_of_the_answer_is_that_of_the_summary(tmp_path: Path) -> None:
    render.write(tmp_path, runs.summary(), runs.results())
    summary = json.loads((tmp_path / "summary.json").read_text())
    page = runs.Page((tmp_path / "report.html").read_text())
    assert {path: json.loads(value) for path, value in page.numbers.items()} == {
        path: runs.value_at(summary, path) for path in page.numbers
    }
    assert page.words == {
        "answer.thc.communication": "6.00×",
        "answer.thc.time_to_accuracy": "4.00×",
        "answer.thc.accuracy_points": "+0.00",
        "answer.thc.bytes": "10.0×",
    }
    assert "thc spends 6.00 times less time on communication than gloo, reaches 95% test accuracy" in page.text


def test_the_page_loads_nothing() -> None:
    page = runs.Page(render.page(runs.summary(), runs.results()))
    loaded = [given for _, given in page.tags for name in ("src", "href", "xlink:href") if given.get(name)]
    assert [one for one in loaded if not re.match("#|data:,", one.get("href") or one.get("xlink:href") or "")] == []
    assert not re.search(r"url\((?!#)|@import", page.text)
    assert len(page.text) < 200_000


def test_the_policy_names_the_scripts_that_run() -> None:
    for text in (render.page(runs.summary(), runs.results()), render.live()):
        scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
        hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
        [policy] = re.findall(r"script-src ([^;]*);", text)
        assert {f"'sha256-{one}'" for one in hashes} <= {*policy.split()}
        assert "unsafe" not in policy


def test_text_from_outside_is_escaped() -> None:
    summary = {**runs.summary(), "topology": HOSTILE, "impair": HOSTILE, "switch": HOSTILE}
    summary["systems"]["thc"]["links"][0]["lower"] = HOSTILE
    page = runs.Page(render.page(summary, runs.results()))
    assert "alert(1)" in page.text, "it is shown"
    assert not any(tag == "img" or "onerror" in given for tag, given in page.tags)
    clean = runs.Page(render.page(runs.summary(), runs.results()))
    scripts = [sum(tag == "script" for tag, _ in one.tags) for one in (clean, page)]
    assert scripts[0] == scripts[1]


def test_a_run_of_one_system_has_a_page() -> None:
    only = runs.results()[1:]
    page = render.page(runs.summary(only), only)
    assert "there is no comparison without gloo" in page
    assert runs.Page(page).numbers == {}


def test_the_words_of_the_answer_when_sumwire_is_behind() -> None:
    slow = [runs.results()[0], replace(runs.results()[1], workers=runs.results()[0].workers)]
    summary = runs.summary(slow)
    summary["answer"]["thc"] |= {"communication": 0.5, "time_to_accuracy": None, "accuracy_points": -1.25}
    assert opening.headline(summary, "thc") == (
        "thc spends 2.00 times more time on communication than gloo and ends 1.25 points below."
    )
    notes = [card.note for card in opening.cards(summary, "thc", render.colours_of(["gloo", "thc"]))]
    assert "At least one of them did not reach it." in notes


def test_the_best_baseline_is_in_the_answer_on_the_page_and_below_the_table() -> None:
    made = runs.results()
    for name, share in (("powersgd4", 5), ("naive4", 2)):
        steps = [replace(one, clock_s=one.clock_s / share) for one in made[0].workers[0].steps]
        made.insert(1, replace(made[0], system=name, workers=(replace(made[0].workers[0], steps=steps),)))
    summary = runs.summary(made)
    found = summary["answer"]["thc"]
    assert (found["best_baseline"], found["over_best"]) == ("powersgd4", pytest.approx(0.8))
    assert opening.headline(summary, "thc").endswith(
        "It reaches 95% test accuracy 1.25 times later than powersgd4, the best baseline."
    )
    assert "thc spends" in render.page(summary, made), "not a baseline's answer"
    assert "0.80× with powersgd4, the best baseline." in render.page(summary, made)
    assert report.best(summary) == [
        "Best baseline to 95% accuracy: powersgd4. By time to it, powersgd4 / thc is 0.80, gloo / thc 4.00."
    ]
    assert report.rows(summary)[0][-1] == "gloo / thc"
    assert report.best(runs.summary()) == [], "the table says it"


def test_where_sumwire_loses() -> None:
    summary = runs.summary()
    found = opening.regressions(summary)
    assert "thc: communication reaches 75% of the speed-up that its bytes allow." in found
    assert "thc: 6 packets were sent again." in found
    assert not any("rest of a step" in one for one in found), "1 s is less than gloo's 2 s"
    summary["systems"]["thc"] |= {"compute_s_per_step": 2.5, "accuracy": 0.9, "time_to_target_s": None, "nmse": 0.02}
    found = opening.regressions(summary)
    assert "thc: the rest of a step takes 2.50 s; gloo's takes 2.00 s." in found
    assert "thc: it does not reach the target accuracy, and gloo does." in found
    assert "thc: it ends at 90.00 % test accuracy, gloo at 100.00 %." in found
    assert any("2.00% of its squared norm" in one for one in found)


def test_the_network_is_drawn_from_the_top_switch_to_the_hosts() -> None:
    trunks = [runs.link(leaf, "spine1") for leaf in ("leaf1", "leaf2")]
    hosts = [runs.link(f"h{k}", "leaf1" if k < 3 else "leaf2", up_lost=7 * (k == 2)) for k in (1, 2, 3, 4)]
    drawing = network.drawing("thc", [*hosts, *trunks])
    assert drawing is not None
    at = {node.name: (node.x, node.y) for node in drawing.nodes}
    assert at["spine1"][0] < at["leaf1"][0] == at["leaf2"][0] < at["h1"][0] == at["h4"][0] < network.WIDTH
    assert [at[f"h{k}"][1] for k in (1, 2, 3, 4)] == sorted({at[f"h{k}"][1] for k in (1, 2, 3, 4)})
    assert at["leaf1"][1] == pytest.approx((at["h1"][1] + at["h2"][1]) / 2)
    assert {node.name for node in drawing.nodes if node.switch} == {"spine1", "leaf1", "leaf2"}
    assert [link.lost for link in drawing.links] == ["", "7 lost", "", "", "", ""]
    assert [[way.lossy for way in link.ways] for link in drawing.links][1] == [True, False]
    assert drawing.links[0].words == "↑ 50 %  ↓ 25 %"
    up, down = drawing.links[0].ways
    assert up.width > down.width
    assert "5 MB, 50 % of its rate, 7 packets lost" in drawing.links[1].tip
    assert network.drawing("thc", []) is None


def test_two_spines_over_the_same_leaves_are_drawn_apart() -> None:
    trunks = [runs.link(leaf, spine) for leaf in ("leaf1", "leaf2") for spine in ("spine1", "spine2")]
    drawing = network.drawing("thc", [runs.link("h1", "leaf1"), runs.link("h2", "leaf2"), *trunks])
    assert drawing is not None
    at = {node.name: (node.x, node.y) for node in drawing.nodes}
    assert at["spine1"][0] == at["spine2"][0]
    assert at["spine2"][1] - at["spine1"][1] > 30


def test_a_step_is_drawn_by_the_machines_clock() -> None:
    """thc's step of 2 s beside gloo's of 8 s: forward 0.125 s, hand-over at 0.25 s, result 1 s later, optimizer."""
    gloo, thc = charts.timelines(runs.results())
    assert (gloo.system, thc.system, len(thc.lanes)) == ("gloo", "thc", 2)
    spans = {one.kind: (one.left, one.width) for one in thc.lanes[0].computes}
    axis = 8.0
    assert spans["forward"] == pytest.approx((0.0, 12.5 / axis))
    assert spans["backward"] == pytest.approx((12.5 / axis, 12.5 / axis))
    assert spans["waiting"] == pytest.approx((25 / axis, 100 / axis))
    assert spans["optimizer"] == pytest.approx((125 / axis, 75 / axis))
    (sent,) = thc.lanes[0].sends
    assert (sent.left, sent.width) == pytest.approx((25 / axis, 100 / axis))
    assert "bucket 0 of 70 values" in sent.tip
    assert gloo.ticks == thc.ticks == (("0", 0.0), ("2 s", 25.0), ("4 s", 50.0), ("6 s", 75.0), ("8 s", 100.0))


def test_ticks_are_round_numbers() -> None:
    assert [words for words, _ in charts.ticks_of(0.608)] == ["0", "200 ms", "400 ms", "600 ms"]
    assert [words for words, _ in charts.ticks_of(0.02)] == ["0", "5 ms", "10 ms", "15 ms", "20 ms"]
    assert charts.ticks_of(0.608)[1][1] == pytest.approx(100 * 0.2 / 0.608)
    assert [words for words, _ in charts.ticks_of(23.4)] == ["0", "5 s", "10 s", "15 s", "20 s"]
    assert charts.ticks_of(0.0) == ()


def test_a_mean_that_few_steps_make_is_told_before_the_numbers() -> None:
    summary = runs.summary()
    assert "Few steps" not in render.page(summary, runs.results())
    summary["systems"]["gloo"] |= {"comm_s_per_step": 18.0, "comm_s_per_step_median": 6.0}
    told = (
        "gloo's time: its communication takes 18.000 s a step in the mean, and 6.000 s in the median. "
        "By medians gloo / thc is 6.00."
    )
    page = render.page(summary, runs.results())
    assert page.index("Few steps make up much of gloo") < page.index('class="number"')
    assert told in report.table(summary)
    summary["systems"]["thc"] |= {"comm_s_per_step": 3.0}
    assert "Few steps make up much of thc's time" in report.table(summary)


def test_a_ratio_beyond_what_the_bytes_allow_is_said_to_be_so() -> None:
    summary, colours = runs.summary(), render.colours_of(["gloo", "thc"])
    assert opening.cards(summary, "thc", colours)[0].note == "The bytes on a link allow 8.00×: the mark."
    summary["answer"]["thc"] |= {"communication": 9.0}
    assert "Beyond it, gloo leaves its links idle." in opening.cards(summary, "thc", colours)[0].note


def test_communication_without_times_of_tensors_is_before_the_optimizer_or_in_it() -> None:
    tensor = {"bucket": 0, "values": 70, "seconds": 0.5}
    step = replace(runs.results()[1].workers[0].steps[0], tensors=[tensor], comm_s=0.5, codec_s=0.25)
    assert charts.communication(step) == [(0.75, 0.5, "communication; encoding and decoding of the step: 0.250 s")]
    late = replace(step, backward_s=0.25, comm_s=1.5, tensors=[])
    assert charts.communication(late)[0][:2] == (0.5, 1.5)
    assert charts.communication(replace(step, comm_s=0.0)) == []


def test_records_without_a_clock_have_no_timeline() -> None:
    one = runs.results()[1]
    for worker in one.workers:
        worker.steps[:] = [replace(step, at_s=None) for step in worker.steps]
    assert charts.timelines([one]) == []


def drawn_lines(results: list[SystemResult], key: str) -> Any:
    curve = next(one for one in charts.curves(results, 0.9) if one.key == key)
    return charts.draw(Figure(), curve, {name: k for k, name in enumerate(curve.points)}).get_lines()


def test_accuracy_is_drawn_over_the_bytes_that_were_sent_until_then() -> None:
    one = runs.results()[1]
    steps = one.workers[0].steps
    steps[:] = [replace(steps[0], accuracy=None), replace(steps[1], tx_bytes=40), replace(steps[2], tx_bytes=7)]
    line, target = drawn_lines([one], "bytes")
    assert list(line.get_xdata()) == [90, 97]
    assert list(line.get_ydata()) == pytest.approx([60.0, 70.0])
    assert list(target.get_ydata()) == [90.0, 90.0]


def test_points_of_a_plot_are_where_its_line_is() -> None:
    curve = next(one for one in charts.curves(runs.results(), 0.9) if one.key == "step")
    drawn = charts.drawn(curve, {"gloo": 0, "thc": 1})
    places = [(x, y) for x, y, _ in drawn.points["thc"]]
    assert drawn.points["thc"][2][2] == "2.00 s at step 3"
    path = re.search(r'id="step-1-series-1".*?d="([^"]+)"', drawn.svg, re.DOTALL)
    assert path is not None
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", path[1])]
    assert numbers[:2] == pytest.approx(places[0], abs=0.1)
    assert numbers[-2:] == pytest.approx(places[-1], abs=0.1)


@pytest.mark.parametrize(("most", "labels"), [(5e6, ["1 MB", "2 MB", "5 MB"]), (2e8, ["1 MB", "10 MB", "100 MB"])])
def test_an_axis_of_bytes_and_one_of_steps_have_labels_that_mean_something(most: float, labels: list[str]) -> None:
    def shown(curve: charts.Curve) -> list[str]:
        axes = charts.draw(Figure(), curve, {"thc": 1})
        low, high = axes.get_xlim()
        axes.figure.canvas.draw()
        return [tick.get_text() for tick in axes.get_xticklabels() if low <= tick.get_position()[0] <= high]

    made = {one.key: one for one in charts.curves(runs.results(), 0.9)}
    assert shown(replace(made["bytes"], points={"thc": [(9e5, 1.0), (most, 2.0)]})) == labels
    few = replace(made["step"], points={"thc": [(1.0, 1.0), (3.0, 2.0)]})
    assert [number for number in map(float, shown(few)) if number % 1] == []


def test_curves_of_long_runs_are_thinned() -> None:
    thin = charts._thinned([(float(k), 0.0) for k in range(1001)])
    assert (len(thin), thin[1][0]) == (334, 3.0)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (opening.seconds(0.0123), "12.3 ms"), (opening.seconds(1.5), "1.50 s"), (opening.seconds(61.25), "61.2 s"),
        (opening.seconds(0.635), "0.635 s"), (opening.seconds(None), "–"), (opening.times(5.389), "5.39×"),
        (opening.times(14.16), "14.2×"),
        (opening.times(51.1), "51×"), (opening.share(0.0512), "5.1 %"), (opening.share(0.834), "83 %"),
        (opening.size(13398041), "13.4 MB"), (opening.size(12), "12 B"), (opening.points(-0.889), "-0.89"),
    ],
)  # fmt: skip
def test_numbers_as_shown(shown: str, expected: str) -> None:
    assert shown == expected
