# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The emitted C stays inside the frame and the sink: a child process runs it between guard pages."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.cc
@pytest.mark.parametrize("name", ["parse", "wide", "corner", "checksum"])
def test_no_frame_leads_outside_frame_and_sink(name: str) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-m", "helpers.softswitch.guarded", name], env=environ, check=False)
    assert ended.returncode == 0, f"signal or code {ended.returncode}; 3: no frame left at all"
