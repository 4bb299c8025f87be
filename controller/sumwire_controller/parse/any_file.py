# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a file of either kind: a switch's configuration, or a topology, which has the key `switches`."""

from __future__ import annotations

from pathlib import Path

from sumwire_controller.model.config import Config
from sumwire_controller.model.topology import Topology
from sumwire_controller.parse.config_file import config_of
from sumwire_controller.parse.reader import Log
from sumwire_controller.parse.topology_file import topology_of
from sumwire_controller.parse.yamltree import load_tree, read_file


def load_any(path: Path | str) -> Config | Topology:
    """Reads and checks a file of either kind.

    :raises ConfigError: with every broken rule, or because the file cannot be read.
    """
    return parse_any(read_file(path), source=str(path))


def parse_any(text: str, source: str = "config") -> Config | Topology:
    """Parses and checks a text of either kind. `source` names it in messages.

    :raises ConfigError: with every broken rule.
    """
    tree, repeated = load_tree(text, source)
    log = Log(problems=repeated)
    is_topology = isinstance(tree.value, dict) and "switches" in tree.value
    return topology_of(tree, log, source) if is_topology else config_of(tree, log, source)
