# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The settings of a run as a file in its folder, from which the run can be repeated."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from commonlib.untrusted import UntrustedInputError, bounded_text, json_of, shown
from commonlib.version import __version__

from sumwire_lab.errors import OptionError
from sumwire_lab.options.layout import NetworkLayout
from sumwire_lab.options.run_options import RunOptions

SETTINGS: Final = "settings.json"
TOPOLOGY: Final = "topology.yaml"
FORMAT: Final = 1
_BYTES_MOST: Final = 1 << 16
_NAME: Final = re.compile(r"[a-z][a-z_]{0,40}")
# Where results go, and what only shows a run, are no settings of it.
_NOT_SETTINGS: Final = frozenset(
    {"command", "results", "script", "words", "cli", "keep", "live", "metrics", "trace", "log_format"}
)


def recorded(arguments: argparse.Namespace, options: RunOptions) -> dict[str, Any]:
    """Return the settings of a `run`, defaults included, for JSON. `options`: the parsed options of the arguments."""
    settings = {name: value for name, value in vars(arguments).items() if name not in _NOT_SETTINGS}
    settings["workers"] = options.workers
    if options.layout is not None:
        settings["topology"] = TOPOLOGY
    return {"format": FORMAT, "version": __version__, "settings": settings}


def save(folder: Path, record: Mapping[str, Any], layout: NetworkLayout | None = None) -> None:
    """Write `settings.json`, and `topology.yaml` if the network is the user's own."""
    (folder / SETTINGS).write_text(json.dumps(record, indent=1) + "\n")
    if layout is not None:
        (folder / TOPOLOGY).write_text(yaml.safe_dump(layout.as_dict(), sort_keys=False))


def settings_in(folder: Path) -> dict[str, Any]:
    """Return the settings in a run's folder, by name. Raises OptionError."""
    path = folder / SETTINGS
    try:
        record = json_of(bounded_text(path, _BYTES_MOST))
    except (OSError, UntrustedInputError) as error:
        raise OptionError(f"{path}: {error}: name the folder of a run, as results/latest") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT or not isinstance(record.get("settings"), dict):
        raise OptionError(f"{path}: must be an object with format {FORMAT} and settings")
    settings: dict[str, Any] = record["settings"]
    for name, value in settings.items():
        if not _NAME.fullmatch(name) or name in _NOT_SETTINGS or not isinstance(value, str | int | float | bool | None):
            raise OptionError(f"{path}: setting {shown(name)}={shown(value)}: must be one that `run` has")
    return settings


def words_of(settings: Mapping[str, Any], folder: Path) -> list[str]:
    """Return the settings in a folder as words for the command `run`. A flag and its value are one word, so that no
    value is mistaken for a flag."""
    words = []
    for name, found in settings.items():
        value = str(folder / TOPOLOGY) if name == "topology" and found == TOPOLOGY else found
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words.append(f"{option}={value}")
    return words
