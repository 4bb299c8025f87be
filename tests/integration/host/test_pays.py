# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire pays` on this machine: it measures every codec, and prints what where-it-pays.md says. And the paths between
machines, which are network namespaces here.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

import pytest
from helpers.docs import pages
from helpers.start.servers import servers
from nativelib import programs
from sumwire import cli
from sumwire.start import trial
from sumwire.start.errors import StartError
from sumwire.systems import pays
from sumwire.systems.spec import SWITCH

COMMAND, PRINTED = (
    next(block.text for block in pages.blocks(language) if block.name == "where-it-pays.md: Before anything is set up")
    for language in ("", "text")
)


def test_it_prints_the_page_s_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(shlex.split(COMMAND)[1:]) == 0
    told = capsys.readouterr().out.splitlines()
    printed = PRINTED.splitlines()
    advice = [line.split()[0] for line in printed].index("take")
    assert [line[:10] for line in told[:advice]] == [line[:10] for line in printed[:advice]]
    # Bytes are computed: they are the page's on every machine. Which system wins is the machine's.
    rows = slice(1, [line.split(":")[0] for line in told].index("measured here"))
    assert [line[25:45] for line in told[rows]] == [line[25:45] for line in printed[rows]]
    seconds = {line[:16].strip(): float(line[16:25]) for line in told[rows]}
    labels = [pays.LABELS.get(name, name) for name in pays.STAND_INS]
    assert told[advice].startswith(f"take {min(labels, key=seconds.__getitem__)}: ")


def test_every_system_has_a_cost_or_a_reason() -> None:
    """Packets and their aggregator count: SUM32 sends four times THC's."""
    found = trial.measured(pays.question_of([(512, 512)], 40, 1e9, 1e-3))
    switched = {name for name, spec in pays.TABLE.items() if SWITCH in spec.routes}
    assert found.hosts.keys() | found.left_out.keys() == {*pays.LABELS, *switched} - {"dlcp"}
    assert {"vote", "ef-sign", "marsit"} <= found.left_out.keys()
    assert all(cost.value_s > 0 for cost in found.hosts.values())
    assert {name for name, cost in found.hosts.items() if cost.aggregator_s == 0} == {*pays.LABELS}
    assert found.hosts["sum32"].aggregator_s > 1.5 * found.hosts["thc"].aggregator_s
    assert not any(found.hosts[name].asks for name in pays.LABELS) and found.hosts["thc"].asks
    assert 0 <= found.step_s < 0.1


def test_many_small_matrices_cost_more_than_their_values() -> None:
    """By Power-SGD, which gloo's tensors of as many values do not. Of one large matrix it costs 1.4 times gloo's."""
    found = trial.measured(pays.question_of([(32, 32)] * 512, 8, 1e9, 1e-3, rank=1), ()).hosts
    assert found["powersgd"].value_s > 3 * found["ssgd"].value_s


def test_a_rank_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait for ever, and are ended."""
    code = "import sys, time\nsys.exit('no loopback') if sys.argv[1] == '1' else time.sleep(1e6)"
    monkeypatch.setattr(programs, "module", lambda name, folder, rank: programs.python("-c", code, rank))
    with pytest.raises(
        StartError, match="steps between processes of this machine: no loopback; mend that, and try again"
    ):
        trial._steps({})


def test_a_rank_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "module", lambda *words: programs.python("-c", "import time; time.sleep(1e6)"))
    monkeypatch.setattr(trial, "_TIMEOUT_S", 0.2)
    with pytest.raises(StartError, match=r"not done after 0\.2 s: end what else it computes"):
        trial._steps({})


RANKS = 3
RATE_MBIT = 40
MEASURED = """
import dataclasses, json
from sumwire.start import paths
ranks = paths.meeting()
found = paths.measured(ranks)
ranks.leave()
print(json.dumps(dataclasses.asdict(found)))
"""


@pytest.mark.root
def test_paths_between_machines() -> None:
    """The second one's link is slower than the others', which bears it in both directions of the ring."""
    environment = os.environ | {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
    with servers(RANKS) as names:
        shaped = ["tc", "-n", names[1], "qdisc", "add", "dev", "eth0", "root"]
        subprocess.run([*shaped, "tbf", "rate", f"{RATE_MBIT}mbit", "burst", "20k", "limit", "100k"], check=True)
        ranks = [
            subprocess.Popen(
                ["ip", "netns", "exec", name, sys.executable, "-P", "-c", MEASURED],
                env={**environment, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True,
            )
            for rank, name in enumerate(names)
        ]  # fmt: skip
        told = [json.loads(rank.communicate(timeout=120)[0]) for rank in ranks]
    assert told == [told[0]] * RANKS, "all ranks know the slowest path"
    assert told[0]["ranks"] == RANKS
    # A busy machine sends less. Links that are not shaped carry a hundred times as much.
    assert 0.5 <= told[0]["link_bps"] / (RATE_MBIT * 1e6) <= 1.15
    assert 0 < told[0]["rtt_s"] < 1
