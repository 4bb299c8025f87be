# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A command whose reader has gone ends with its own exit code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# As a thread of `sumwire up` that is just about to say something when the program ends.
PROGRAM = """
import sys
from sumwire import cli
sys.stdin.read()
sys.{stream}.write("half a line for nobody")
sys.exit(cli.main(["--version"]))
"""


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_line_that_nobody_read_is_no_error_at_the_end(stream: str) -> None:
    command = [sys.executable, "-P", "-c", PROGRAM.format(stream=stream)]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=buffered
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0
