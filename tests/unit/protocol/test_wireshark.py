# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The dissector's table is current."""

from __future__ import annotations

import re

from helpers.paths import ROOT
from sumwire_protocol import constants as p4
from sumwire_protocol.wireshark import table as wireshark


def test_the_table_is_current() -> None:
    assert wireshark.SPEC.read_text() == wireshark.render(), "stale: run `python p4src/tools/build.py --constants`"


def test_the_table_has_every_field_in_its_order() -> None:
    text = wireshark.SPEC.read_text().partition("  header = {")[2].partition("\n  },")[0]
    found = re.findall(r'\{ name = "(\w+)", bits = (\d+) \}', text)
    assert [(name, int(bits)) for name, bits in found] == list(p4.SUMWIRE_FIELDS)


def test_the_dissector_has_no_number_of_the_protocol_of_its_own() -> None:
    code = re.sub(r"--.*", "", wireshark.DISSECTOR.read_text())
    assert not set(re.findall(r"\b\d{3,}\b", code)) - {"65536"}


def test_both_files_lie_side_by_side_and_belong_to_the_package() -> None:
    assert wireshark.DISSECTOR.parent == wireshark.SPEC.parent
    assert '"wireshark/*.lua"' in (ROOT / "pyproject.toml").read_text()
