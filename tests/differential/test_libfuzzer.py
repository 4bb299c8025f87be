# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""libFuzzer finds nothing in the C of aggregator and hosts, and finds checks that are taken out. Long runs: ``make
fuzz-c``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fuzz.libfuzzer import TARGETS, fuzz, fuzzing_compiler
from nativelib import NoCompilerError

RUNS = 10_000
BRANCHES_MIN = 0.85


@pytest.fixture(scope="module", autouse=True)
def libfuzzer() -> None:
    try:
        with fuzzing_compiler():
            pass
    except NoCompilerError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_found(name: str, tmp_path: Path) -> None:
    result = fuzz(name, TARGETS[name], f"-runs={RUNS}", 1, tmp_path)
    assert result.finding == ""
    assert result.executions >= RUNS
    assert set(TARGETS[name].sources) < set(result.coverage)
    parts = {file: covered.taken / covered.branches for file, covered in result.coverage.items()}
    assert {file: part for file, part in parts.items() if part < BRANCHES_MIN} == {}


@pytest.mark.parametrize(
    ("name", "file", "right", "wrong"),
    [
        ("aggregator", "admit.c", "if (size < SUMWIRE_BYTES) return REJECT_LENGTH;", ""),
        ("aggregator", "admit.c", "if (load16(row + AT_SLOT) >= job->slots) return REJECT_SLOT;", ""),
        ("aggregator", "admit.c", "if (!words_fit(kind, row)) return REJECT_WORDS;", ""),
        ("aggregator", "take_apart.c", "if (at == out->room) break;", ""),
        ("aggregator", "serve.c", "if (served->datagrams > udp->most) return 0;", ""),
        ("host", "arrivals.c", "in->room - in->filled, MSG", "in->room, MSG"),
        ("host", "runs.c", "if (exchange->first + count + datagrams > exchange->chunks) return 0;", ""),
        ("host", "steady.c", "chunk < upto && chunk < exchange->chunks", "chunk < upto"),
        ("host", "tags.c", "payload > SLOT_WORDS * WORD_BYTES || ", ""),
        ("host", "trains.c", "if (messages == out->room) break;", ""),
        ("host", "fast_path.c", "path->in_flight -= count;", ""),
    ],
)  # fmt: skip
@pytest.mark.few(2)
def test_a_check_that_is_taken_out_is_found(name: str, file: str, right: str, wrong: str, tmp_path: Path) -> None:
    target = TARGETS[name].within(tmp_path / "sources")
    target.folders[0].mkdir()
    for source in [source for folder in TARGETS[name].folders for source in folder.glob("*.[ch]")]:
        shutil.copy(source, target.folders[0])
    text = target.source(file).read_text()
    assert right in text
    target.source(file).write_text(text.replace(right, wrong))
    result = fuzz(name, target, f"-runs={RUNS}", 1, tmp_path)
    assert "AddressSanitizer" in result.finding or "runtime error" in result.finding or "fuzz: " in result.finding
    assert list(tmp_path.glob(f"{name}-crash-*"))
