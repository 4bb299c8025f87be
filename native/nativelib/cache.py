# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The folder where compiled code is kept, with a checksum beside every file."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nativelib.errors import NativeError

_log = logging.getLogger("nativelib")


def cache_folder() -> Path:
    """``$NATIVELIB_CACHE``, else ``$XDG_CACHE_HOME/nativelib``, else ``~/.cache/nativelib``.

    If that folder cannot be written, a temporary folder that is removed when this process ends.
    """
    return _usable(_wanted_folder())


def _wanted_folder() -> Path:
    if own := os.environ.get("NATIVELIB_CACHE"):
        return Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared, "nativelib")
    return Path(os.path.expanduser("~"), ".cache", "nativelib")  # noqa: PTH111 - Path.home() raises without a home


@functools.cache
def _usable(wanted: Path) -> Path:
    try:
        wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted.absolute()
    except OSError as error:
        _log.info("compiled code is not kept: %s: %s", wanted, error.strerror or error)
        return Path(_private_folder().name)


@functools.cache
def _private_folder() -> tempfile.TemporaryDirectory[str]:
    """Kept as an object: it removes the folder at the end of the process."""
    return tempfile.TemporaryDirectory(prefix="nativelib-", ignore_cleanup_errors=True)


def cached(path: Path, make: Callable[[Path], None]) -> Path:
    """Return ``path``, after ``make(path of the new file)`` has made it unless it exists and its checksum is right.

    If several processes ask for the same file, one makes it and the others wait. Raises NativeError.
    """
    if _is_whole(path):
        return path
    with _locked(path.with_name(path.name + ".lock")):
        if _is_whole(path):
            return path
        aside = Path(tempfile.mkdtemp(prefix=f"{path.name}.", dir=path.parent))
        try:
            new = aside / path.name
            make(new)
            checksum = aside / "sha256"
            checksum.write_text(_digest(new))
            # Renamed, not overwritten: a process that has the old file mapped keeps its content.
            new.replace(path)
            checksum.replace(_checksum_path(path))
        except OSError as error:
            raise NativeError(
                f"cannot keep {path}: {error.strerror or error}; name another folder: NATIVELIB_CACHE=FOLDER"
            ) from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return path


def _checksum_path(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _is_whole(path: Path) -> bool:
    try:
        return _checksum_path(path).read_text() == _digest(path)
    except (OSError, UnicodeDecodeError):
        return False


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
