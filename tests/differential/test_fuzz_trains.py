# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The fuzzer of trains finds nothing, and finds errors that are put in. Long runs: ``make fuzz``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzz.packets import SANITIZED
from fuzz.trains import fuzz_trains
from nativelib import CompileError, NoCompilerError, build
from softswitch.native.runtime_library import FOLDER

TRAINS = 2000


@pytest.fixture(scope="module", autouse=True, params=["", "gcc"])
def sanitizers(request: pytest.FixtureRequest) -> Iterator[None]:
    """The first compiler, and gcc: one of them may have its sanitizers installed."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param:
            patch.setenv("CC", request.param)
        try:
            text = "int main(void) { return 0; }"
            build("sanitizers", [], generated={"main.c": text}, flags=SANITIZED, shared=False)
        except (CompileError, NoCompilerError) as error:
            pytest.skip(f"the compiler has no sanitizers: {str(error).splitlines()[-1]}")
        yield


def test_nothing_is_found() -> None:
    result = fuzz_trains(TRAINS, 7)
    assert result.trains == TRAINS
    assert result.packets > 10 * TRAINS
    assert result.joined > result.packets // 3
    assert 0 < result.refused < TRAINS // 2


@pytest.mark.parametrize(
    ("file", "right", "wrong", "report"),
    [
        ("cut.c", "check + 2u > length", "0 && check + 2u > length", "AddressSanitizer"),
        (
            "layers.c",
            "return length - at >= size;",
            "(void)length, (void)at, (void)size; return 1;",
            "AddressSanitizer",
        ),
        ("cut.c", "cutter->id + number", "cutter->id", "not the same packet again"),
        ("cut.c", "left < cutter->size ? left : cutter->size", "cutter->size", "fuzz: "),
        ("join.c", "memcmp(alike, train->alike, at->payload) != 0", "0", "not the same packet again"),
        ("join.c", "sequence_of(packet, at) == train->sequence &&", "", "not the same packet again"),
    ],
    ids=["checksum", "lengths", "identification", "odd tail", "headers", "sequence"],
)
def test_what_is_broken_is_found(
    file: str, right: str, wrong: str, report: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for source in FOLDER.glob("*.[ch]"):
        shutil.copy(source, tmp_path)
    text = (tmp_path / file).read_text()
    assert right in text
    (tmp_path / file).write_text(text.replace(right, wrong))
    with pytest.raises(subprocess.CalledProcessError):
        fuzz_trains(50 * TRAINS, 7, tmp_path)
    told = capfd.readouterr().err
    assert report in told
    assert "fuzz: train " in told
