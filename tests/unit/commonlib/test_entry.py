# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The handler of Ctrl-C before a program has begun, and after; and that each program begins there."""

from __future__ import annotations

import signal
import tomllib
from collections.abc import Callable

import pytest
from commonlib import entry
from helpers.paths import ROOT


def test_a_program_has_the_handler_that_it_expects(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def load() -> Callable[[], int]:
        seen.append(signal.getsignal(signal.SIGINT))
        return lambda: seen.append(signal.getsignal(signal.SIGINT)) or 3

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert entry.run(load) == 3
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert entry.run(load) == 3
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIG_DFL, signal.default_int_handler, signal.SIG_IGN, signal.SIG_IGN]


@pytest.mark.parametrize("project", ["pyproject.toml", "switch/pyproject.toml"])
def test_every_command_begins_there(project: str) -> None:
    scripts = tomllib.loads((ROOT / project).read_text())["project"]["scripts"]
    for target in scripts.values():
        module, _, name = target.partition(":")
        [path] = [*ROOT.glob(f"*/{module.replace('.', '/')}.py")]
        text = path.read_text()
        assert path.name == "__main__.py" and "entry.run(_load)" in text
        # Other names go there too.
        body = text.partition(f"def {name}() -> int:")[2].partition("\ndef ")[0]
        assert name == "main" or body.endswith("return main()\n\n")
