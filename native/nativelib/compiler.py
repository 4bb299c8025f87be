# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Finds a C compiler and tests its features. The results are cached beside the compiled code.

Only results of real compilers are cached: a script, or a program such as ccache, may start another compiler later.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nativelib.cache import cache_folder
from nativelib.errors import NoCompilerError, UntrustedError
from nativelib.programs import check_program, environment, search_path
from nativelib.trusted import open_file

_COMPILER_NAME = re.compile(r"clang(-[\d.]+)?|([\w.-]+-)?gcc(-[\d.]+)?")
_ELF_MAGIC = b"\x7fELF"
_CPU_LINES = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU ")
_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "COMPILER_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX")


def probe_key(program: str, options: Sequence[str], tests: Sequence[str]) -> str | None:
    """Return a cache key for the result of ``tests`` with the compiler ``program``; None if it must not be cached.

    It changes with the compiler's file, its options, the environment variables that it reads, and the CPU.
    """
    file = Path(program).resolve()
    if not _COMPILER_NAME.fullmatch(file.name) or not all(option.startswith("-") for option in options):
        return None
    try:
        with file.open("rb") as opened:
            if opened.read(len(_ELF_MAGIC)) != _ELF_MAGIC:
                return None
            status = os.fstat(opened.fileno())
        cpu = _cpu()
    except OSError:
        return None
    given = environment()
    variables = [given.get(name) for name in _VARIABLES]
    known = [str(file), status.st_size, status.st_mtime_ns, program, *options, *tests, variables, cpu]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:32]


def _cpu() -> list[str]:
    """What the system says of the first CPU."""
    first, _, _ = Path("/proc/cpuinfo").read_text().partition("\n\n")
    return [line for line in first.splitlines() if line.startswith(_CPU_LINES)]


def recall_probe(key: str) -> Any:
    """Return what :func:`keep_probe` wrote, or None if nothing can be read or another user could have written it."""
    try:
        with open_file(_probe_path(key)) as file:
            return json.loads(file.read())
    except (OSError, ValueError, UntrustedError):
        return None


def keep_probe(key: str, found: Any) -> None:
    """Cache ``found`` as JSON. If that fails, the next process tests the compiler again."""
    try:
        with tempfile.NamedTemporaryFile("w", dir=cache_folder(), prefix="compiler-", delete=False) as new:
            json.dump(found, new)
        Path(new.name).replace(_probe_path(key))
    except (OSError, UntrustedError):
        return


def _probe_path(key: str) -> Path:
    return cache_folder() / f"compiler-{key}.json"


# For clang and gcc alike. Sums of floats must not depend on the machine: no fused multiply-add.
COMMON_FLAGS = ("-std=gnu2x", "-O2", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra")
_THIS_CPU = "-march=native"

_CLANGS = ("clang-19", "clang-18", "clang-17", "clang-16", "clang")
_PLAIN_ONLY = ("cc", "gcc")

_PROBE = "int probe(int x) { return x + 1; }\n"
_WIDE_PROBE = "void probe(unsigned _BitInt(2048) *x) { *x += *x << 7; }\n"


@dataclass(frozen=True)
class Compiler:
    """A compiler. ``command``: the program and the options of every compilation. ``identity``: version, target and CPU
    features.

    Code built by compilers of different identity is not exchanged.
    """

    command: tuple[str, ...]
    identity: str


def find_compiler(*, wide_bitint: bool = False) -> Compiler:
    """Return the first compiler that works: only ``$CC`` if it is set, else clang-19 to clang-16, clang, cc and gcc.

    ``wide_bitint``: it must support ``_BitInt(2048)``; cc and gcc are not tried then. Raises NoCompilerError.
    """
    chosen, path = os.environ.get("CC", "").strip(), search_path()
    names = [chosen] if chosen else [*_CLANGS, *(() if wide_bitint else _PLAIN_ONLY)]
    failures = []
    for name in names:
        candidate = _examine(name, path)
        if candidate.compiler is not None and (candidate.wide or not wide_bitint):
            return candidate.compiler
        failures.append(f"{'$CC = ' if chosen else ''}{name}: {candidate.reason}")
    what = "C compiler with _BitInt(2048)" if wide_bitint else "C compiler"
    hint = "name another one in $CC, or unset it" if chosen else "install clang 16 or later, or name one in $CC"
    raise NoCompilerError(f"no {what}: {'; '.join(failures)}; {hint}")


@dataclass(frozen=True)
class _Candidate:
    """A compiler that was tried. ``reason``: why it cannot be used at all, or not for wide integers."""

    compiler: Compiler | None
    wide: bool
    reason: str


@functools.cache
def _examine(name: str, path: str) -> _Candidate:
    try:
        words = shlex.split(name)
    except ValueError as error:
        return _Candidate(None, False, str(error))
    program = shutil.which(words[0], path=path)
    if program is None:
        return _Candidate(None, False, "not found")
    try:
        check_program(Path(program))
    except UntrustedError as error:
        return _Candidate(None, False, str(error))
    key = probe_key(program, words[1:], (*COMMON_FLAGS, _THIS_CPU, _PROBE, _WIDE_PROBE))
    if key is not None and (known := _read(recall_probe(key), (program, *words[1:]))) is not None:
        return known
    candidate = _test(program, words[1:])
    if key is not None and candidate.compiler is not None:
        this_cpu, identity = _THIS_CPU in candidate.compiler.command, candidate.compiler.identity
        keep_probe(
            key, {"this_cpu": this_cpu, "identity": identity, "wide": candidate.wide, "reason": candidate.reason}
        )
    return candidate


def _read(known: Any, program: tuple[str, ...]) -> _Candidate | None:
    """The candidate in what :func:`recall_probe` returned, None if it is malformed.

    The command is made of ``program`` here: no file says what will be run.
    """
    match known:
        case {"this_cpu": bool(this_cpu), "identity": str(identity), "wide": bool(wide), "reason": str(reason)}:
            command = (*program, *COMMON_FLAGS, *((_THIS_CPU,) if this_cpu else ()))
            return _Candidate(Compiler(command, identity), wide, reason)
    return None


def _test(program: str, options: Sequence[str]) -> _Candidate:
    reason = ""
    for cpu in ((_THIS_CPU,), ()):
        command = (program, *options, *COMMON_FLAGS, *cpu)
        wide_reason = _compiles(command, _WIDE_PROBE)
        reason = wide_reason and _compiles(command, _PROBE)
        if not reason:
            return _Candidate(Compiler(command, _identity(command)), not wide_reason, wide_reason)
    return _Candidate(None, False, reason)


def _compiles(command: tuple[str, ...], text: str) -> str:
    """Compile ``text`` to a library; return the reason if that fails, else an empty string."""
    with tempfile.TemporaryDirectory(prefix="nativelib-") as folder:
        source, library = Path(folder, "probe.c"), Path(folder, "probe.so")
        source.write_text(text)
        try:
            done = run_compiler((*command, "-shared", str(source), "-o", str(library)))
        except OSError as error:
            return str(error.strerror or error)
        if done.returncode != 0:
            return first_lines(done.stderr, 1) or f"ended with status {done.returncode}"
        return "" if library.exists() else "made no library"


def _identity(command: tuple[str, ...]) -> str:
    """Version, and a hash of the compiler's predefined macros, which name the target and the CPU's features."""
    predefined = run_compiler((*command, "-dM", "-E", "-x", "c", "/dev/null")).stdout
    version = next((line.split(" ", 2)[2] for line in predefined.splitlines() if " __VERSION__ " in line), "unknown")
    return f"{version.strip(chr(34))} {hashlib.sha256(predefined.encode()).hexdigest()}"


def run_compiler(command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run a compiler. Raises OSError if it cannot be started."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=environment({"LC_ALL": "C"}),
        check=False,
    )


def first_lines(text: str, count: int) -> str:
    return "\n".join(text.strip().splitlines()[:count])
