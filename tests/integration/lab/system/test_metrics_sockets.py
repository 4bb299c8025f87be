# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A program in a network namespace of its own serves metrics at a port of the machine's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.scrape import scrape
from sumwire_lab.system.metrics_sockets import MetricsSockets

pytestmark = pytest.mark.root

PROGRAM = """
import sys
from sumwire_protocol import metrics
from commonlib.metrics import Reading
from commonlib.metrics import endpoint_of
from commonlib.metrics_server import Exposition
with Exposition(endpoint_of()) as exposition:
    exposition.add(lambda: [Reading(metrics.PROBES, ("7", "0"), 5)])
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_it_is_read_from_outside_and_listed_while_it_lasts(tmp_path: Path) -> None:
    path = tmp_path / "targets.json"
    with MetricsSockets(path) as sockets:
        assert json.loads(path.read_text()) == []
        with sockets.handed_over("host") as fd:
            process = subprocess.Popen(
                ["unshare", "--net", sys.executable, "-c", PROGRAM],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[fd], env={"SUMWIRE_METRICS": f"fd:{fd}",
                "PYTHONPATH": ":".join(sys.path)},
            )  # fmt: skip
        [group] = json.loads(path.read_text())
        assert group["labels"] == {"part": "host"}
        [target] = group["targets"]
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            assert list(scrape(target)["sumwire_job_probes_total"].values()) == [5]
        finally:
            process.communicate(b"", timeout=60)
        with pytest.raises(OSError, match="refused"):
            scrape(target)
    assert json.loads(path.read_text()) == []
