# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The folder where compiled code is kept, with a checksum beside every file.

A file that another user could have written is never used, so that root does not run a user's code.
"""

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

from nativelib.errors import NativeError, UntrustedError
from nativelib.trusted import open_file, open_folder

_log = logging.getLogger("nativelib")


def cache_folder() -> Path:
    """Return ``$NATIVELIB_CACHE``, else ``$XDG_CACHE_HOME/nativelib``, else ``~/.cache/nativelib``.

    If that folder cannot be written, or another user could write it, returns a temporary folder that is removed when
    this process ends. Raises UntrustedError if others could replace that one too.
    """
    return _usable(_wanted_folder(), os.geteuid())


def _wanted_folder() -> Path:
    if own := os.environ.get("NATIVELIB_CACHE"):
        return Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared, "nativelib")
    return Path(os.path.expanduser("~"), ".cache", "nativelib")  # noqa: PTH111 - Path.home() raises without a home


@functools.cache
def _usable(wanted: Path, user: int) -> Path:
    """``user``: of this process, which may leave root's rights behind."""
    try:
        os.close(open_folder(wanted, make=True))
        with tempfile.TemporaryFile(dir=wanted):
            return wanted.absolute()
    except UntrustedError as error:
        _log.warning("compiled code is not kept: %s, or name another folder: NATIVELIB_CACHE=FOLDER", error)
    except OSError as error:
        _log.info("compiled code is not kept: %s: %s", wanted, error.strerror or error)
    folder = Path(_private_folder(user).name)
    os.close(open_folder(folder))
    return folder


@functools.cache
def _private_folder(user: int) -> tempfile.TemporaryDirectory[str]:
    """Of one user. Kept as an object: it removes the folder at the end of the process."""
    return tempfile.TemporaryDirectory(prefix="nativelib-", ignore_cleanup_errors=True)


def cached(path: Path, make: Callable[[Path], None]) -> Path:
    """Return ``path``. If the file does not exist or its checksum is wrong, ``make(new path)`` creates it first.

    A file that another user could have written is created again. If several processes ask for the same file, one
    creates it and the others wait. Raises NativeError.
    """
    try:
        if is_whole(path):
            return path
        with _locked(path.with_name(path.name + ".lock")):
            if not is_whole(path):
                _replace(path, make)
    except OSError as error:
        raise NativeError(
            f"cannot keep {path}: {error.strerror or error}; name another folder: NATIVELIB_CACHE=FOLDER"
        ) from error
    return path


def _replace(path: Path, make: Callable[[Path], None]) -> None:
    aside = Path(tempfile.mkdtemp(prefix=f"{path.name}.", dir=path.parent))
    try:
        new = aside / path.name
        make(new)
        checksum = aside / "sha256"
        checksum.write_text(hashlib.sha256(new.read_bytes()).hexdigest())
        # Whatever the umask is: what others can write is never loaded.
        new.chmod(0o700)
        checksum.chmod(0o600)
        # Renamed, not overwritten: a process that has the old file mapped keeps its content.
        new.replace(path)
        checksum.replace(_checksum_path(path))
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _checksum_path(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def is_whole(path: Path) -> bool:
    """Return whether a file matches its checksum, and no other user could have written either."""
    try:
        with open_file(path) as file, open_file(_checksum_path(path)) as checksum:
            return checksum.read() == hashlib.sha256(file.read()).hexdigest().encode()
    except UntrustedError as error:
        _log.warning("it is compiled again: %s", error)
        return False
    except OSError:
        return False


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
