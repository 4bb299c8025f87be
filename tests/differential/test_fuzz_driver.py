# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The fuzzer finds nothing in a small program, and finds an error if a check is removed. Long runs: ``make fuzz``."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest
from fuzz import packets
from fuzz.state import describe
from helpers.paths import ROOT
from nativelib import CompileError, build
from softswitch.native.emit import CProgram, emit_c
from softswitch.program.load.program import load_program
from softswitch.switch import SoftSwitch

PROGRAM = ROOT / "tests/helpers/softswitch/programs/multicast.json"
PACKETS = 20_000

pytestmark = pytest.mark.cc


@pytest.fixture(scope="module", autouse=True)
def sanitizers() -> None:
    """Skips where the compiler's sanitizers are not installed, before a whole program is compiled with them."""
    try:
        build(
            "sanitizers",
            [],
            generated={"main.c": "int main(void) { return 0; }"},
            flags=packets.SANITIZED,
            shared=False,
        )
    except CompileError as error:
        pytest.skip(f"the compiler has no sanitizers: {str(error).splitlines()[-1]}")


def run() -> packets.Result:
    text = PROGRAM.read_text()
    switch = SoftSwitch(text, engine="python")
    frames = [(1, bytes([0, 0, 0, group, *range(20)])) for group in range(8)]
    return packets.fuzz(load_program(text), describe(switch, frames), PACKETS, 7)


def test_nothing_is_found_in_a_whole_program() -> None:
    result = run()
    assert result.packets == PACKETS
    assert result.sent > PACKETS // 4


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
