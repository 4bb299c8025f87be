# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Drops root's rights: a program that root starts opens its sockets, and then becomes another user for good."""

from __future__ import annotations

import ctypes
import os
import pwd
import resource
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# linux/prctl.h
_SET_PDEATHSIG: Final = 1
_GET_PDEATHSIG: Final = 2
_SET_DUMPABLE: Final = 4
_SET_NO_NEW_PRIVS: Final = 38
# Where a user's compiled code is kept, whose own folders root's programs cannot know to be there.
_CACHES: Final = Path("/var/cache/nativelib")
_CACHE_VARIABLE: Final = "NATIVELIB_CACHE"
_FOLDERS: Final = ("TMPDIR", "TEMP", "TMP", "XDG_CACHE_HOME", _CACHE_VARIABLE)


class PrivilegeError(Exception):
    """Root's rights cannot be left behind."""


class UnknownUserError(PrivilegeError):
    """There is no such user, or it is root."""


class NotRootError(PrivilegeError):
    """Only root can become another user."""


@dataclass(frozen=True)
class Account:
    """A user to become. ``home``: its folder."""

    name: str
    uid: int
    gid: int
    home: str


def account_of(name: str) -> Account:
    """Return the account with this name, which this process may become. Raises UnknownUserError and NotRootError."""
    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError) as error:
        raise UnknownUserError(
            f"there is no user {name!r}; make one: useradd --system NAME, or take another: --user nobody"
        ) from error
    if found.pw_uid == 0:
        raise UnknownUserError(f"user {name!r} is root; leave --user out, or name another: --user nobody")
    if os.geteuid() != 0:
        raise NotRootError(f"only root can become user {name!r}; run it with sudo, or leave --user out")
    return Account(name, found.pw_uid, found.pw_gid, found.pw_dir)


def prepare() -> None:
    """Stop child programs from gaining rights, and prevent core dumps. Call it before threads start."""
    _prctl(_SET_NO_NEW_PRIVS, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def become(account: Account) -> None:
    """Become this user, in all threads and for good, without other groups or capabilities. Other processes can no
    longer read the memory.

    From now on, compiled code is cached in a folder of the user's own. Raises PrivilegeError.
    """
    cache = _cache_for(account)
    at_parents_end = ctypes.c_int(0)
    _prctl(_GET_PDEATHSIG, ctypes.addressof(at_parents_end))
    try:
        os.setgroups([])
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)
    except OSError as error:
        raise PrivilegeError(
            f"cannot become user {account.name!r}: {error.strerror}; run it outside of a user namespace, "
            "or leave --user out"
        ) from error
    _prctl(_SET_PDEATHSIG, at_parents_end.value)  # which a change of the user has cleared
    # The kernel has done so already, unless fs.suid_dumpable says otherwise.
    _prctl(_SET_DUMPABLE, 0)
    for name in _FOLDERS:
        os.environ.pop(name, None)
    os.environ["HOME"] = account.home
    tempfile.tempdir = None
    if cache is not None:
        os.environ[_CACHE_VARIABLE] = str(cache)


def _cache_for(account: Account) -> Path | None:
    """The user's folder, made if need be; None where there can be none, and code is then compiled each time."""
    folder = _CACHES / str(account.uid)
    try:
        _CACHES.mkdir(exist_ok=True)
        _CACHES.chmod(0o755)  # whatever the umask is
        folder.mkdir(mode=0o700, exist_ok=True)
        # Only root can write the folder above, so that nobody puts a link here.
        os.chown(folder, account.uid, account.gid, follow_symlinks=False)
    except OSError:
        return None
    return folder


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
