# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The script by which the images are made."""

from __future__ import annotations

import subprocess

from helpers.paths import ROOT

CONTAINERS = ROOT / "packaging" / "containers"


def test_install_is_a_shell_script_that_refuses_other_roles() -> None:
    script = str(CONTAINERS / "install.sh")
    subprocess.run(["sh", "-n", script], check=True)
    refused = subprocess.run(["sh", script, "host", "x.whl"], check=False, capture_output=True, text=True)
    assert refused.returncode == 2 and "known are aggregator, switch, controller" in refused.stderr
