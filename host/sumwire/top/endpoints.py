# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where metrics are served: from words of a command line, a job file, or a list of targets as Prometheus reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from sumwire_protocol.outside import OutsideError, bounded_text, json_of, shown

from sumwire.config import parse_job
from sumwire.errors import ConfigError, UsageError

# The port that a job file's hosts are asked at, unless another one is given.
DEFAULT_PORT: Final = 9464
_LOOPBACK: Final = "127.0.0.1"
_WORD: Final = re.compile(r"(?:([A-Za-z0-9][A-Za-z0-9.-]{0,252}):)?(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
_PORT_MOST: Final = (1 << 16) - 1
_MOST: Final = 1024
_BYTES_MOST: Final = 1 << 20
_CURE: Final = "give [ADDRESS:]PORT, [ADDRESS:]PORT-PORT, a job file, or a list of targets"


def endpoints(words: Sequence[str], port: int = DEFAULT_PORT) -> list[str]:
    """ADDRESS:PORT of each endpoint that the words name, each once, in their order.

    A word is [ADDRESS:]PORT, [ADDRESS:]PORT-PORT for several ports, or a file: a job file, whose hosts and aggregator
    serve metrics at ``port``, or a list of targets in JSON as Prometheus reads it (file_sd_configs).
    Raises UsageError, ConfigError.
    """
    found = dict.fromkeys(place for word in words for place in _of(word, port))
    if not 0 < len(found) <= _MOST:
        raise UsageError(f"{len(found)} endpoints to read metrics from: must be 1 to {_MOST}; {_CURE}")
    return list(found)


def _of(word: str, port: int) -> Iterator[str]:
    match = _WORD.fullmatch(word)
    if match is None:
        yield from _in_file(Path(word), port)
        return
    address, first, last = match[1] or _LOOPBACK, int(match[2]), int(match[3] or match[2])
    if not 0 < first <= last <= _PORT_MOST:
        raise UsageError(f"endpoint {shown(word)}: must have ports of 1..{_PORT_MOST}, the lower one first; {_CURE}")
    yield from (f"{address}:{number}" for number in range(first, last + 1))


def _in_file(path: Path, port: int) -> Iterator[str]:
    try:
        content = json_of(bounded_text(path, _BYTES_MOST))
    except (OSError, OutsideError) as error:
        told = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"endpoint {shown(str(path))}: is no port, and as a file: {told}; {_CURE}") from error
    if isinstance(content, dict):
        config = parse_job(content, 0, where=str(path))
        addresses = dict.fromkeys(one.ip for one in config.addresses)
        yield from (f"{ip}:{port}" for ip in (*addresses, *dict.fromkeys(one.aggregator for one in config.addresses)))
    else:
        yield from _targets(content, path)


def _targets(groups: Any, path: Path) -> Iterator[str]:
    for group in groups if isinstance(groups, list) else ():
        for target in group.get("targets", ()) if isinstance(group, dict) else ():
            match = _WORD.fullmatch(target) if isinstance(target, str) else None
            if match is None or not match[1] or match[3] or not 0 < int(match[2]) <= _PORT_MOST:
                rule = "must be ADDRESS:PORT"
                raise ConfigError("targets", target, rule, where=str(path), cure="write each target so")
            yield str(target)
