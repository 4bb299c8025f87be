# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The report of the program for Tofino is current and within the chip, and each value of THC meets its place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers.p4_tools import tna
from helpers.paths import ROOT

FOLDER = ROOT / tna.PROGRAM.parent


def test_manifest_matches_sources_and_report() -> None:
    manifest = json.loads((ROOT / tna.MANIFEST).read_text())
    assert {key: manifest[key] for key in ("sources", "artifacts")} == tna.hashes(), "stale: run `make p4-tna`"


def test_it_is_within_twelve_stages() -> None:
    report = json.loads((ROOT / tna.REPORT).read_text())
    assert report["stages"]["used"] <= report["stages"]["of"] == 12
    assert [stage["stage"] for stage in report["by_stage"]] == list(range(report["stages"]["used"]))
    assert max(stage["stateful_alus"] for stage in report["by_stage"]) <= 4


def test_the_page_says_what_the_report_says() -> None:
    report, page = json.loads((ROOT / tna.REPORT).read_text()), (ROOT / "docs/tofino.md").read_text()
    rows = re.findall(r"^\| (\d+) \|" + r" (\d+) \|" * 6 + "$", page, re.MULTILINE)
    names = ("stage", "tables", "stateful_alus", "srams", "map_rams", "tcams", "vliw_instructions")
    assert [tuple(map(int, row)) for row in rows] == [
        tuple(stage[name] for name in names) for stage in report["by_stage"]
    ]


def test_the_page_tells_stages_containers_and_compiler_of_the_report() -> None:
    report, page = json.loads((ROOT / tna.REPORT).read_text()), (ROOT / "docs/tofino.md").read_text()
    stages, phv = report["stages"], report["phv_bits"]
    assert f"places it in {stages['used']} of the chip's {stages['of']} stages" in page
    assert f"Tofino backend {report['compiler']}:" in page
    normal, tagalong = (f"{phv[kind]['used']} of {phv[kind]['of']}" for kind in ("normal", "tagalong"))
    assert f"takes {normal} bits in normal containers and {tagalong} in tagalong ones" in page


def test_the_rates_follow_from_frames_and_the_lanes_of_the_page() -> None:
    """Ethernet, IPv4, UDP and Sumwire's header have 74 bytes, a word 8, and a frame on the wire 24 more."""
    page = (ROOT / "docs/tofino.md").read_text()
    packets = re.findall(r"^\| (\w+) \| (\d+): [^|]+ \| (\d+): [^|]+ \| (\d+) \|", page, re.MULTILINE)
    number = r"([\d.]+)"
    rates = re.compile(
        rf"\| (\d+) \| (\d+) \| {number} million \| {number} billion \| {number}, {number} \|$", re.MULTILINE
    )
    shown = {row[0]: rates.search(page, page.index(f"| {row[0]} | ", page.index("frame up"))) for row in packets[:3]}
    for op, up, down, values in packets[:3]:
        found = shown[op]
        assert found is not None
        frames = [74 + 8 * int(words) for words in (up, down)]
        assert [int(found[1]), int(found[2])] == frames
        million = 100e9 / 8 / (max(frames) + 24) / 1e6
        bits = [8 * (frame + 24) / int(values) for frame in frames]
        expected = [million, million * int(values) / 1e3, *bits]
        assert [float(one) for one in found.groups()[2:]] == pytest.approx(expected, abs=0.051)
    assert list(shown) == ["THC", "SIGN", "SUM32"]


def test_each_lane_has_four_values_of_all_planes() -> None:
    """Value i is bit i of its plane from the left: in pieces of 32 bits, bit 31 - i % 32 of piece i / 32."""
    text = (FOLDER / "include/control/thc.p4").read_text()
    found = [tuple(map(int, one)) for one in re.findall(r"LOOKUP\((\d+), (\d+), (\d+), (\d+)\);", text)]
    values = [(lane, [piece * 32 + 31 - bit for bit in range(high, low - 1, -1)]) for lane, piece, high, low in found]
    assert values == [(lane, list(range(4 * lane, 4 * lane + 4))) for lane in range(16)]


def test_headers_hold_what_the_sizes_say() -> None:
    text = (FOLDER / "include/headers.p4").read_text()
    sizes = (FOLDER / "include/sizes.p4").read_text()
    bits = {name: body.count("bit<32>") * 32 for name, body in re.findall(r"header (\w+) \{(.*?)\}", text, re.DOTALL)}
    assert bits == {"lanes_h": 8 * 8 * 8, "planes_h": 4 * 8 * 8}
    assert "TNA_WORD_BYTES = 8;" in sizes and "TNA_LANES = 16;" in sizes


def logs(folder: Path) -> Path:
    """What the compiler writes, as far as the report reads it: one stage with two tables, and an empty one."""
    units = {"logical_tables": "ids", "rams": "srams", "map_rams": "maprams", "tcams": "tcams", "gateways": "gateways"}
    units |= {"meter_alus": "meters", "vliw": "instructions"}
    stages = [
        {"stage_number": k, **{name: {there: [0] * n} for name, there in units.items()}} for k, n in enumerate((2, 0))
    ]
    mau = {"nStages": 12, "mau_stages": stages}
    (folder / "logs").mkdir()
    sizes = {"normal": [{"width": 32, "units": 16}, {"width": 16, "units": 32}], "tagalong": [{"width": 8, "units": 4}]}
    resources = {"compiler_version": "9.1", "resources": {"mau": mau, "phv_containers": sizes}}
    (folder / "logs/resources.json").write_text(json.dumps(resources))
    containers = [
        {"bit_width": 32, "container_type": "normal", "slices": [1]},
        {"bit_width": 16, "container_type": "normal", "slices": []},
        {"bit_width": 8, "container_type": "tagalong", "slices": [1]},
    ]
    (folder / "logs/phv.json").write_text(json.dumps({"target": "tofino", "containers": containers}))
    return folder


def test_the_report_counts_what_stages_and_containers_hold(tmp_path: Path) -> None:
    found = tna.report(logs(tmp_path))
    assert (found["target"], found["compiler"], found["stages"]) == ("tofino", "9.1", {"used": 1, "of": 12})
    assert found["phv_bits"] == {"normal": {"used": 32, "of": 1024}, "tagalong": {"used": 8, "of": 32}}
    assert set(found["of_all_stages"].values()) == {2}
    assert [stage["stage"] for stage in found["by_stage"]] == [0]


def test_without_logs_or_compiler_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(tna.TofinoError, match=r"wrote no resources\.json"):
        tna.report(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(tna.TofinoError, match="none of p4c-barefoot, bf-p4c is on PATH"):
        tna.compile_program(tmp_path)
