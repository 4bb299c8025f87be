# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while a program's modules are imported, and one that the program lets through."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

# Ends itself as Ctrl-C would, while modules are imported or in the program.
PROGRAM = """
import os, signal, sys
from commonlib import entry
def main():
    os.kill(os.getpid(), signal.SIGINT)
    return 0
def load():
    if sys.argv[1] == "importing":
        main()
    return main
sys.exit(entry.run(load))
"""


@pytest.mark.parametrize(("when", "status"), [("importing", -signal.SIGINT), ("running", 130)])
def test_ctrl_c_prints_no_traceback(when: str, status: int) -> None:
    done = subprocess.run([sys.executable, "-P", "-c", PROGRAM, when], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")
