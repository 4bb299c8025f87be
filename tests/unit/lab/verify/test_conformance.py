# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-faithful."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.p4runtime import inserts
from fuzz.p4runtime.target import Target, TargetError
from helpers.paths import ROOT


def test_a_switch_that_does_not_start_fails_its_row_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def never(folder: Path) -> Target:
        raise TargetError("the switch does not answer")

    monkeypatch.setattr(inserts, "_SWITCHES", {"bmv2": never})
    p4info = ROOT / "tests/helpers/p4runtime/programs/tables.p4info.txtpb"
    with pytest.raises(inserts.InsertError, match="bmv2: the switch does not answer"):
        inserts.by_turns(p4info, 1, 1)
