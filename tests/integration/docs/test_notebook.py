# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The notebook of docs/tutorials/notebook.md, executed as a whole."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import nbformat
import pytest
from helpers.docs.tutorials import PACKAGES, blocks_of
from helpers.paths import ROOT
from nbclient import NotebookClient

PAGE = "notebook.md"


def notebook() -> Path:
    """The one that the page's command executes."""
    _, command = [block for block in blocks_of(PAGE) if not block.language]
    *program, path = shlex.split(command.text)
    assert program == ["python", "-m", "nbclient.cli"]
    return ROOT / path


@pytest.mark.long
def test_the_notebook_is_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(ROOT / package) for package in PACKAGES))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    book = nbformat.read(notebook(), 4)
    NotebookClient(book, timeout=100).execute()
    told = "".join(output["text"] for cell in book.cells for output in cell.get("outputs", ()) if "text" in output)
    assert "4096 bytes of float32 become 512 bytes" in told
    assert "worker 0 sends 512 bytes: 0 replies\nworker 1 sends 512 bytes: 2 replies" in told
    largest, step = re.findall(r"largest error (\d\.\d+), a step is (\d\.\d+)", told)[0]
    assert 0 < float(largest) <= float(step)


def test_outputs_are_not_committed() -> None:
    book = nbformat.read(notebook(), 4)
    assert len(book.cells) > 10
    assert [cell.id for cell in book.cells if cell.get("outputs") or cell.get("execution_count")] == []
