# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The fuzzers of programs and of trains find nothing, and find errors that are put in. Long runs: ``make fuzz``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fuzz import packets
from fuzz.state import describe
from fuzz.trains import fuzz_trains
from helpers.paths import ROOT
from nativelib import CompileError, NoCompilerError, build
from softswitch.native.emit import CProgram, emit_c
from softswitch.native.runtime_library import FOLDER
from softswitch.program.load.program import load_program
from softswitch.switch import SoftSwitch

PROGRAM = ROOT / "tests/helpers/softswitch/programs/multicast.json"
PACKETS = 20_000
TRAINS = 2000


def need_sanitizers() -> None:
    """Skips where the compiler's sanitizers are not installed, before a whole program is compiled with them."""
    text = "int main(void) { return 0; }"
    try:
        build("sanitizers", [], generated={"main.c": text}, flags=packets.SANITIZED, shared=False)
    except (CompileError, NoCompilerError) as error:
        pytest.skip(f"the compiler has no sanitizers: {str(error).splitlines()[-1]}")


# -- programs --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sanitizers() -> None:
    need_sanitizers()


def run() -> packets.Result:
    text = PROGRAM.read_text()
    switch = SoftSwitch(text, engine="python")
    frames = [(1, bytes([0, 0, 0, group, *range(20)])) for group in range(8)]
    return packets.fuzz(load_program(text), describe(switch, frames), PACKETS, 7)


@pytest.mark.cc
@pytest.mark.usefixtures("sanitizers")
def test_nothing_is_found_in_a_whole_program() -> None:
    result = run()
    assert result.packets == PACKETS
    assert result.sent > PACKETS // 4


@pytest.mark.cc
@pytest.mark.usefixtures("sanitizers")
def test_a_missing_check_of_the_length_is_found(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def unchecked(*arguments: object, **options: bool) -> CProgram:
        emitted = emit_c(*arguments, **options)  # type: ignore[arg-type]
        assert "if (p->size - at0 < " in emitted.source
        return replace(emitted, source=emitted.source.replace("if (p->size - at0 < ", "if (0 && p->size - at0 < "))

    monkeypatch.setattr(packets, "emit_c", unchecked)
    with pytest.raises(subprocess.CalledProcessError):
        run()
    report = capfd.readouterr().err
    assert "ERROR: AddressSanitizer" in report
    assert "fuzz: packet " in report


@pytest.mark.cc
@pytest.mark.usefixtures("sanitizers")
def test_frames_that_reach_something_new_lead_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """From one frame of zeros, to states that only a few values of several fields lead to."""
    text = (ROOT / "tests/helpers/softswitch/programs/parse.json").read_text()
    program = load_program(text)
    state = describe(SoftSwitch(text, engine="python"), [(1, bytes(64))])

    def blind(*arguments: object, **options: bool) -> CProgram:
        emitted = emit_c(*arguments, **options)  # type: ignore[arg-type]
        news = "if (ss_reached[point]++ == 0) ss_new_points++;"
        assert news in emitted.source
        return replace(emitted, source=emitted.source.replace(news, "ss_reached[point]++;"))

    guided = packets.fuzz(program, state, PACKETS, 7)
    monkeypatch.setattr(packets, "emit_c", blind)
    unguided = packets.fuzz(program, state, PACKETS, 7)
    assert guided.points == unguided.points > 20
    assert len(guided.missed) < len(unguided.missed)


# -- trains ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["", "gcc"])
def both(request: pytest.FixtureRequest) -> Iterator[None]:
    """The first compiler, and gcc: one of them may have its sanitizers installed."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param:
            patch.setenv("CC", request.param)
        need_sanitizers()
        yield


@pytest.mark.usefixtures("both")
def test_nothing_is_found_in_trains() -> None:
    result = fuzz_trains(TRAINS, 7)
    assert result.trains == TRAINS
    assert result.packets > 10 * TRAINS
    assert result.joined > result.packets // 3
    assert 0 < result.refused < TRAINS // 2


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize(
    ("file", "right", "wrong", "report"),
    [
        ("cut.c", "check + 2u > length", "0 && check + 2u > length", "AddressSanitizer"),
        ("layers.c", "return length - at >= size;", "(void)length, (void)at, (void)size; return 1;", "AddressSan"),
        ("cut.c", "cutter->id + number", "cutter->id", "not the same packet again"),
        ("cut.c", "left < cutter->size ? left : cutter->size", "cutter->size", "fuzz: "),
        ("join.c", "memcmp(alike, train->alike, at->payload) != 0", "0", "not the same packet again"),
        ("join.c", "sequence_of(packet, at) == train->sequence &&", "", "not the same packet again"),
    ],
    ids=["checksum", "lengths", "identification", "odd tail", "headers", "sequence"],
)
@pytest.mark.few(4)
def test_what_is_broken_in_trains_is_found(
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
