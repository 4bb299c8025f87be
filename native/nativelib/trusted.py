# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Opens files and folders that only this user and root can have written or can replace.

Every folder of the path is opened relative to the one before and checked on its descriptor, so the folder checked is
the folder used. Symbolic links are followed by hand, and only those of this user and of root.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from nativelib.errors import UntrustedError

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_FOLDER_MODE: Final = 0o700
_LINKS_MOST: Final = 40
_PART: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK the open of a planted FIFO would wait for its writer.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_folder(path: Path, *, make: bool = False) -> int:
    """Return a descriptor (``O_PATH``) of the folder; the caller closes it.

    ``make``: create missing folders, for this user only whatever the umask is. Raises OSError, and UntrustedError if
    another user could write the folder, or replace it or a folder on the way.
    """
    folder, place = _walk(path.absolute(), make)
    try:
        _check(os.fstat(folder), place, shared=False)
    except UntrustedError:
        os.close(folder)
        raise
    return folder


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading, in a folder that :func:`open_folder` accepts.

    Raises OSError, and UntrustedError if another user could write or replace the file. A symbolic link is an OSError.
    """
    folder = open_folder(path.parent)
    try:
        file = os.fdopen(os.open(path.name, _FILE, dir_fd=folder), "rb")
    finally:
        os.close(folder)
    try:
        _check(os.fstat(file.fileno()), path, shared=False)
    except UntrustedError:
        file.close()
        raise
    return file


def _walk(path: Path, make: bool) -> tuple[int, Path]:
    """A descriptor of the folder, and its path without links."""
    waiting = [*reversed(path.parts)]
    here, place, links = os.open("/", _PART), Path("/"), 0
    try:
        while waiting:
            name = waiting.pop()
            following = _opened(name, here, make)
            status = os.fstat(following)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                target = _target(following, status, place / name, links)
                waiting += reversed(Path(target).parts)
                continue
            os.close(here)
            here, place = following, place / name
            _check(status, place, shared=True)
    except BaseException:
        os.close(here)
        raise
    return here, place


def _opened(name: str, here: int, make: bool) -> int:
    """A descriptor of ``name`` in the folder ``here``, a folder or a link."""
    if make:
        # Where that fails, it is there already, or the open says why not.
        with contextlib.suppress(OSError):
            os.mkdir(name, _FOLDER_MODE, dir_fd=here)
    found = os.open(name, _PART, dir_fd=here)
    kind = os.fstat(found).st_mode
    if stat.S_ISDIR(kind) or stat.S_ISLNK(kind):
        return found
    os.close(found)
    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)


def _target(link: int, status: os.stat_result, place: Path, links: int) -> str:
    """Where a link points; closes its descriptor."""
    try:
        if status.st_uid not in (os.geteuid(), 0):
            raise UntrustedError(
                f"{place}: a symbolic link of user {status.st_uid}: it must belong to {_owners()}; remove it"
            )
        if links > _LINKS_MOST:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(place))
        return os.readlink("", dir_fd=link)
    finally:
        os.close(link)


def _check(status: os.stat_result, place: Path, *, shared: bool) -> None:
    """``shared``: others may add entries, if the folder is sticky, as ``/tmp`` is: nobody then replaces another's."""
    mode = stat.S_IMODE(status.st_mode)
    sticky = shared and bool(mode & stat.S_ISVTX)
    regular = stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
    # Whoever owns "/" can replace everything. In a user namespace (`unshare -r`) that is not user 0 but one that has no
    # number there.
    owners = (os.geteuid(), 0, *((Path("/").stat().st_uid,) if shared else ()))
    if regular and status.st_uid in owners and (sticky or not mode & _OTHERS_WRITE):
        return
    raise UntrustedError(
        f"{place}: belongs to user {status.st_uid}, mode {mode:04o}: it must belong to {_owners()}, "
        f"and nobody else may write it; use `chown` and `chmod go-w`"
    )


def _owners() -> str:
    user = os.geteuid()
    return f"user {user} or root" if user else "root"
