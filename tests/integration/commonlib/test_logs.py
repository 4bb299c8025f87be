# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Programs that log in JSON say nothing in another form."""

from __future__ import annotations

import json
import subprocess
import sys

UNCAUGHT = """
import logging, threading, warnings
from commonlib.logs import Form, to_stderr

to_stderr(Form.JSON, logging.INFO, "%(message)s", only="program")
warnings.warn("slow")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
raise ValueError("of main")
"""


def test_what_nobody_catches_is_a_line_too() -> None:
    """Warnings, and exceptions of threads and of the program: each line is an object."""
    done = subprocess.run([sys.executable, "-c", UNCAUGHT], capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    told = [(line["level"], line["event"], line["message"].partition(" ")[2].strip()) for line in lines]
    assert told == [
        ("warning", "other", "UserWarning: slow"),
        ("error", "thread_failed", "division by zero"),
        ("error", "failed", "of main"),
    ]
    assert done.returncode == 1 and all("Traceback" in line["traceback"] for line in lines[1:])
