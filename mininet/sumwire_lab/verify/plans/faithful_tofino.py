# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiment of `make verify-faithful` with the program for Tofino: its compiler says what the chip has to give."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sumwire_lab.options.faithful_options import FaithfulOptions
from sumwire_lab.study.check import Check, absent, at_most, holds, reported
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Experiment
from sumwire_lab.verify.processes import ROOT, run_words

COMPILERS: Final = ("p4c-barefoot", "bf-p4c")
_SCRIPT: Final = "p4src/tools/tna.py"
_COMMITTED: Final = ROOT / "p4src/tna/build/report.json"
_STAGES: Final = 12


def experiments(results: Path, say: Say, options: FaithfulOptions) -> Mapping[str, Experiment]:
    """By row."""
    return {"compile": lambda: _compile(results)}


def _compile(results: Path) -> list[Check]:
    label = "TNA program: stages of Tofino 1"
    if not any(map(shutil.which, COMPILERS)):
        return [absent(label, f"<= {_STAGES}", f"none of {', '.join(COMPILERS)} is on PATH")]
    file = results.resolve() / "tofino.json"
    file.unlink(missing_ok=True)
    ended = run_words([sys.executable, _SCRIPT, "--report", str(file)])
    if not file.exists():
        return [holds(label, ended.last_line, f"<= {_STAGES}", verdict=False)]
    found: dict[str, Any] = json.loads(file.read_text())
    same = _COMMITTED.exists() and found == json.loads(_COMMITTED.read_text())
    return [
        at_most(label, found["stages"]["used"], _STAGES),
        holds("TNA program: the committed report", "the same" if same else "none, or another", "the same", same),
        reported("TNA program: PHV bits, SRAMs and stateful ALUs", _taken(found)),
    ]


def _taken(found: Mapping[str, Any]) -> dict[str, int]:
    everywhere = found["of_all_stages"]
    phv = sum(kind["used"] for kind in found["phv_bits"].values())
    return {"phv_bits": phv, "srams": everywhere["srams"], "stateful_alus": everywhere["stateful_alus"]}
