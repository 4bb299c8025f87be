# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The file that keeps a tuning table on this machine: one for each network, that is aggregators and number of workers.

It is in ``$XDG_CACHE_HOME/sumwire``, or ``~/.cache/sumwire``. One that is broken, or that
another user could have written, is ignored with a warning.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from nativelib import UntrustedError, open_file
from sumwire_protocol.logs.events import Event
from sumwire_protocol.outside import json_of

from sumwire.config import JobConfig
from sumwire.errors import UsageError
from sumwire.job.tuning_table import BrokenTableError, TuningTable

_LOG: Final = logging.getLogger("sumwire")
FORMAT: Final = 1
# The whole file.
BYTES_MOST: Final = 16_384
# Of these, what rank 0 tells beside the table.
_OPTION_BYTES: Final = 64
_BACKEND: Final = "gloo"


def tuning_path(config: JobConfig) -> Path:
    """The file of this job's network."""
    key = hashlib.sha256(json.dumps(_network(config), sort_keys=True).encode()).hexdigest()
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - raises without a home
    return Path(cache, "sumwire", f"tuning-{key[:16]}.json")


def load_table(config: JobConfig) -> TuningTable | None:
    """The table of this job's network; None if there is none. Warns of one that cannot be used."""
    path = tuning_path(config)
    try:
        return _read(path, config)
    except FileNotFoundError:
        return None
    except (OSError, BrokenTableError, UntrustedError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        _LOG.warning(
            "job %s: %s is ignored: %s; remove it, or measure again: sumwire tune JOBFILE",
            config.name, path, reason,
            extra=Event.TUNING_IGNORED(job=config.job, worker=config.worker, name=config.name, reason=str(reason)),
        )  # fmt: skip
        return None


def save_table(config: JobConfig, table: TuningTable) -> Path:
    """Keep the table for later jobs on this machine. Raises UsageError if the file cannot be written."""
    path = tuning_path(config)
    content = json.dumps({"format": FORMAT, **_network(config), "codecs": table.content()}, indent=1) + "\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Readable and writeable for this user alone. Renamed, so that nobody reads half of it.
        handle, aside = tempfile.mkstemp(prefix=path.name, dir=path.parent)
        with os.fdopen(handle, "w") as file:
            file.write(content)
        Path(aside).replace(path)
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror or error}: the tuning table is not kept; name another folder: XDG_CACHE_HOME"
        ) from error
    return path


def _network(config: JobConfig) -> dict[str, Any]:
    aggregators = sorted({address.aggregator for address in config.addresses})
    return {"aggregators": aggregators, "workers": config.workers, "backend": _BACKEND}


def _read(path: Path, config: JobConfig) -> TuningTable:
    """Raises OSError, UntrustedError if another user could have written the file, and BrokenTableError."""
    with open_file(path) as file:
        content = file.read(BYTES_MOST + 1)
    if len(content) > BYTES_MOST:
        raise BrokenTableError(f"it is longer than {BYTES_MOST} bytes")
    try:
        data = json_of(content.decode())
    except ValueError as error:
        raise BrokenTableError(f"it cannot be read ({error})") from error
    expected = {"format": FORMAT, **_network(config)}
    if not isinstance(data, dict) or {name: data.get(name) for name in expected} != expected:
        raise BrokenTableError(f"it must have {json.dumps(expected)}")
    table = TuningTable.of(data.get("codecs"))
    # Rank 0 sends it so, with the options. Numbers may take more places than in the file.
    if len(json.dumps(table.content())) > BYTES_MOST - _OPTION_BYTES:
        raise BrokenTableError(f"its numbers take more than {BYTES_MOST - _OPTION_BYTES} bytes")
    return table
