# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Commands of child processes that run nothing from a place where another user can write.

Every package that starts a process builds its command and its environment here. `python -m` would otherwise look for
modules in the working directory first, and an empty part of ``PATH`` or ``PYTHONPATH`` means the working directory too.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from nativelib.errors import UntrustedError

# Lists of folders in which an empty part means the working directory. A relative part of the first is left out, too.
_RUN: Final = ("PATH", "LD_LIBRARY_PATH", "COMPILER_PATH")
_READ: Final = ("PYTHONPATH", "CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH")
_SAFE_PATH: Final = "PYTHONSAFEPATH"
_UNSET: Final = ("/usr/bin/env", "-u", _SAFE_PATH)


def python(*words: str) -> list[str]:
    """The command that runs this Python without the working directory, or a script's folder, on its path."""
    return [sys.executable, "-P", *words]


def module(name: str, *words: str) -> list[str]:
    """The command that runs a module of this Python's environment."""
    return python("-m", name, *words)


def script(path: Path, *words: str) -> list[str]:
    """The command that runs a user's script. Its own folder is on its path, as when the user starts it."""
    return [*_UNSET, sys.executable, str(path), *words]


def starter(name: str, *words: str) -> list[str]:
    """The command that runs a module which starts users' scripts, as torchrun and pytest do."""
    return [*_UNSET, *module(name, *words)]


def program(name: str) -> str:
    """Return the absolute path of a program in an absolute folder of ``PATH``.

    Raises FileNotFoundError if there is none, and UntrustedError if another user could have put it there or replace it.
    """
    found = shutil.which(name, path=environment()["PATH"])
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    check_program(Path(found))
    return found


def check_program(path: Path) -> None:
    """Raise UntrustedError if a user other than this one, root and the owner of this Python could have put a program
    there, or if everybody could replace it."""
    trusted = (Path("/"), Path(sys.executable), Path(sys.prefix))
    owners = {0, os.geteuid(), *(place.stat().st_uid for place in trusted)}
    real = path.resolve()
    for place in (path.absolute(), path.parent.resolve(), real, *real.parents):
        status = place.lstat()
        if stat.S_ISLNK(status.st_mode):
            wrong = status.st_uid not in owners
        else:
            sticky = status.st_mode & stat.S_ISVTX and place not in (real.parent, path.parent.resolve())
            wrong = status.st_uid not in owners or bool(status.st_mode & stat.S_IWOTH and not sticky)
        if wrong:
            raise UntrustedError(
                f"{path}: not run: {place} belongs to user {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o}: "
                f"another user could have put it there; use `chown` and `chmod o-w`, or take the folder out of PATH"
            )


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: this process's with ``variables``, and without parts that mean the working
    directory. Python processes that the child starts keep the working directory off their paths too."""
    merged = {**os.environ, **(variables or {}), _SAFE_PATH: "1"}
    for name in (*_RUN, *_READ):
        if folders := _cleaned(merged.pop(name, ""), relative=name in _READ):
            merged[name] = folders
    merged.setdefault("PATH", os.defpath)
    return merged


def close_environment() -> None:
    """Give this process, and so all that it starts, the environment of :func:`environment`.

    For commands of our own, also for what `multiprocessing` starts; a library leaves its user's environment alone.
    """
    closed = environment()
    for name in set(os.environ) - set(closed):
        del os.environ[name]
    os.environ.update(closed)


def _cleaned(folders: str, *, relative: bool) -> str:
    """A list of folders without empty parts. ``relative``: relative parts stay, as absolute ones."""
    parts = [part for part in folders.split(os.pathsep) if part and (relative or Path(part).is_absolute())]
    return os.pathsep.join(map(os.path.abspath, parts))
