# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-faithful."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from fuzz.p4runtime import inserts
from fuzz.p4runtime.target import Target, TargetError
from helpers.paths import ROOT
from sumwire_lab.verify import conformance
from sumwire_lab.verify.plan import Ended, Verification

TRACED: dict[str, Any] = {
    "samples": ["s"] * 100, "packets": 300, "events": {"state": 900, "table": 100}, "differences": {},
    "registers": {"s": 2}, "register_differences": {},
}  # fmt: skip


def test_a_switch_that_does_not_start_fails_its_row_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def never(folder: Path) -> Target:
        raise TargetError("the switch does not answer")

    monkeypatch.setattr(inserts, "_SWITCHES", {"bmv2": never})
    p4info = ROOT / "tests/helpers/p4runtime/programs/tables.p4info.txtpb"
    with pytest.raises(inserts.InsertError, match="bmv2: the switch does not answer"):
        inserts.by_turns(p4info, 1, 1)


@pytest.mark.parametrize(
    ("changed", "verdicts"),
    [
        ({}, [True, True, True]),
        ({"samples": ["s"] * 99}, [False, True, True]),
        ({"differences": {"s": "packet 1"}}, [True, False, True]),
        ({"register_differences": {"s": "r= 1"}}, [True, True, False]),
        ({"absent": "this simple_switch logs nothing of packets"}, [None, None]),
        (None, [None, None]),
    ],
)
def test_the_trace_beside_a_log(
    changed: dict[str, Any] | None, verdicts: list[bool | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """None: no checkout is named."""

    def ran(words: list[str]) -> Ended:
        Path(words[words.index("--json") + 1]).write_text(json.dumps({**TRACED, **(changed or {})}))
        return Ended(0, "")

    compiler = tmp_path / conformance.COMPILER
    compiler.touch(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(conformance.CHECKOUT, "" if changed is None else str(tmp_path))
    monkeypatch.setattr(conformance, "run_words", ran)
    checks = conformance.GROUPS["v1model"]["trace"](Verification(tmp_path, print))
    assert [check.holds for check in checks] == verdicts
