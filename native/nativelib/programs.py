# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Commands of child processes that run nothing from a place where another user can write.

Every package that starts a process builds its command and its environment here. `python -m` would otherwise look for
modules in the working directory first, and an empty part of ``PATH`` or ``PYTHONPATH`` means the working directory too.
Variables can also make a child run code. So a child gets only the variables named here, and of paths in them only those
parts that no other user could have written.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import pwd
import shutil
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from nativelib.errors import UntrustedError

_log = logging.getLogger("nativelib")

# Lists of folders in which an empty part means the working directory. A relative part of the first is left out, too.
_RUN: Final = ("PATH", "LD_LIBRARY_PATH", "COMPILER_PATH")
_READ: Final = ("PYTHONPATH", "CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH")
# A list of libraries, with colons or spaces between. Names without a folder are those of the system's loader.
_PRELOADED: Final = "LD_PRELOAD"
_LISTS: Final = (*_RUN, *_READ, _PRELOADED)
# What a child is given of this process's variables, beside those lists. Not here, as they name code and nobody needs
# them: LD_AUDIT, PYTHONSTARTUP, PYTHONBREAKPOINT, CFLAGS, CCC_OVERRIDE_OPTIONS, GIT_*, OPENSSL_MODULES and the like.
_NAMES: Final = frozenset((
    "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TMP", "TEMP", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",
    "TZ", "LANG", "LANGUAGE", "TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR",
    "CC", "GCC_EXEC_PREFIX", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS",
    "VIRTUAL_ENV", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONHASHSEED", "PYTHONFAULTHANDLER", "PYTHONDEVMODE",
    "SSH_AUTH_SOCK", "KRB5CCNAME", "SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF", "CREDENTIALS_DIRECTORY",
    *(each for name in ("http", "https", "all", "no") for each in (f"{name}_proxy", f"{name.upper()}_PROXY")),
))  # fmt: skip
_FAMILIES: Final = (
    "SUMWIRE_", "NATIVELIB_", "LC_", "CONDA_", "PYENV_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_",
    "CUDA_", "NVIDIA_", "NCCL_", "GLOO_", "TORCH_", "PYTORCH_", "GRPC_", "MALLOC_",
)  # fmt: skip
# Paths among them that are no code, or that are looked at where they are opened.
_LOOKED_AT_LATER: Final = ("SUMWIRE_", "NATIVELIB_", "XDG_", "CC", "SSH_AUTH_SOCK")
# What has been said of variables, once a process.
_said: Final = set[str]()
# What `close_environment` has taken or changed of this process's variables.
_taken: Final = dict[str, str]()

_SAFE_PATH: Final = "PYTHONSAFEPATH"
_UNSET: Final = ("/usr/bin/env", "-u", _SAFE_PATH)


def python(*words: str) -> list[str]:
    """Return the command that runs this Python without the working directory, or a script's folder, on its path."""
    return [sys.executable, "-P", *words]


def module(name: str, *words: str) -> list[str]:
    """Return the command that runs a module in this Python's environment."""
    return python("-m", name, *words)


def script(path: Path, *words: str) -> list[str]:
    """Return the command that runs a user's script. The script's folder is on its path, as when the user starts it."""
    return [*_UNSET, sys.executable, str(path), *words]


def starter(name: str, *words: str) -> list[str]:
    """Return the command that runs a module which starts users' scripts, such as torchrun and pytest."""
    return [*_UNSET, *module(name, *words)]


def program(name: str) -> str:
    """Return the absolute path of a program in an absolute folder of ``PATH``.

    Raises FileNotFoundError if there is none, and UntrustedError if another user could have put it there or replace it.
    """
    found = shutil.which(name, path=search_path())
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    check_program(Path(found))
    return found


def search_path() -> str:
    """``PATH`` without parts that mean the working directory. :func:`check_program` checks the programs found there."""
    return _without_here("PATH", os.environ.get("PATH", "")) or os.defpath


def check_program(path: Path) -> None:
    """Raise UntrustedError if a user other than this one, root and the owner of this Python could have put a program
    there, or if everybody could replace it."""
    wrong = _of_another(path, in_it=(path.resolve().parent, path.parent.resolve()))
    if wrong:
        raise UntrustedError(
            f"{path}: not run: {wrong}: another user could have put it there; use `chown` and `chmod o-w`, or take the "
            "folder out of PATH"
        )


def _of_another(path: Path, in_it: tuple[Path, ...]) -> str:
    """The place on the way that another user could have written, with owner and mode; "" if there is none. ``in_it``:
    folders in which nobody else may make files; others may be sticky, as ``/tmp`` is."""
    trusted = (Path("/"), Path(sys.executable), Path(sys.prefix))
    owners = {0, os.geteuid(), *(place.stat().st_uid for place in trusted)}
    real = path.resolve()
    for place in (path.absolute(), path.parent.resolve(), real, *real.parents):
        status = place.lstat()
        # What is written to a device, such as /dev/null, nobody reads there.
        is_kept = not stat.S_ISLNK(status.st_mode) and not stat.S_ISCHR(status.st_mode)
        shared = status.st_mode & stat.S_IWOTH and is_kept
        sticky = status.st_mode & stat.S_ISVTX and place not in in_it
        if status.st_uid not in owners or (shared and not sticky):
            return f"{place} belongs to user {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o}"
    return ""


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child: ``variables``, and those of this process's variables that this module
    lists, cleaned as by :func:`close_environment`. Others, such as LD_AUDIT or PYTHONSTARTUP, are left out."""
    closed = _closed(os.environ)
    named = {name: value for name, value in closed.items() if name in (*_LISTS, _SAFE_PATH) or _is_named(name)}
    # What a caller gives is its own, and is only kept from meaning the working directory.
    return named | {name: _without_here(name, value) for name, value in (variables or {}).items()}


def close_environment() -> None:
    """Remove from this process's variables, and so from its children's, every part that means the working directory or
    that another user could have written. Python children also keep the working directory off their paths.

    For this project's commands, also for what `multiprocessing` starts. A library must leave its user's environment
    alone. All other variables stay.
    """
    closed = _closed(os.environ)
    _taken.update({name: value for name, value in os.environ.items() if closed.get(name) != value})
    for name in set(os.environ) - set(closed):
        del os.environ[name]
    os.environ.update(closed)


def script_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a user's script: ``variables``, and everything that its user has set, as when the user
    starts it."""
    return {**os.environ, **_taken, **variables}


def _closed(variables: Mapping[str, str]) -> dict[str, str]:
    closed = {"PATH": os.defpath}
    for name, value in variables.items():
        kept = _trusted(name, _without_here(name, value))
        if kept or (not value and name not in _LISTS):
            closed[name] = kept
    if "HOME" in variables and "HOME" not in closed:
        with contextlib.suppress(KeyError):  # a user whom the system does not know
            closed["HOME"] = pwd.getpwuid(os.geteuid()).pw_dir
    return closed | {_SAFE_PATH: "1"}


def _is_named(name: str) -> bool:
    return name in _NAMES or name.startswith(_FAMILIES)


def _without_here(name: str, value: str) -> str:
    """A list of folders without empty parts, and absolute; any other value as it is."""
    if name not in (*_RUN, *_READ):
        return value
    parts = [part for part in value.split(os.pathsep) if part and (name in _READ or Path(part).is_absolute())]
    return os.pathsep.join(map(os.path.abspath, parts))


def _trusted(name: str, value: str) -> str:
    """A value without the paths that are not there or that another user could have written; says which those are."""
    if name in _LISTS:
        parts = value.replace(" ", os.pathsep) if name == _PRELOADED else value
        return os.pathsep.join(part for part in parts.split(os.pathsep) if part and _may_pass(name, part))
    if _is_named(name) and value.startswith("/") and not name.startswith(_LOOKED_AT_LATER):
        return value if _may_pass(name, value) else ""
    return value


def _may_pass(name: str, part: str) -> bool:
    """Whether no other user could have written a path of a variable, or, in a list of folders, put something there."""
    if "/" not in part:  # a library of the system
        return True
    path = place = Path(part)
    if name not in _LISTS:  # a file or folder that is made when it is needed, as TORCH_HOME
        place = next(each for each in (path, *path.parents) if os.path.lexists(each))
    try:
        wrong = _of_another(place, in_it=(place.resolve(),) if name in (*_RUN, *_READ) or place != path else ())
    except (OSError, RuntimeError):  # it is not there, or a circle of links
        return False
    text = (
        f"{name}: {path} is left out: {wrong}: another user could have put something there; name another place in "
        f"{name}, run this as the user of that one, or, if it is yours, use `chown` and `chmod o-w`"
    )
    if wrong and text not in _said:
        _said.add(text)
        _log.warning("%s", text)
    return not wrong
