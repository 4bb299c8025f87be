# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Builds and loads libraries from C sources."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import logging
import shlex
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from nativelib import prebuilt
from nativelib.cache import cache_folder, cached
from nativelib.compiler import Compiler, find_compiler, first_lines, run_compiler
from nativelib.errors import CompileError, LoadError
from nativelib.trusted import open_file

_log = logging.getLogger("nativelib")

_STDERR_LINES = 20
_NOTHING: Mapping[str, str] = {}
_ANY: Final = Compiler((), "any")
_recorders: list[list[LibraryRecipe]] = []


def build(
    name: str,
    sources: Sequence[Path],
    *,
    generated: Mapping[str, str] = _NOTHING,
    includes: Sequence[Path] = (),
    flags: Sequence[str] = (),
    wide_bitint: bool = False,
    shared: bool = True,
) -> Path:
    """Compile and link. Returns the path of the shared library or the executable.

    ``generated`` maps file names to text: ``.c`` files are compiled, the others can be included. ``includes`` are
    folders with headers. ``flags`` come last, so libraries (``-lm``) can be among them. A prebuilt library of the same
    text (:mod:`nativelib.prebuilt`) is used instead, or an earlier result of the same text and compiler. Raises
    NoCompilerError and CompileError.
    """
    recipe = LibraryRecipe(name, tuple(sources), generated, tuple(includes), tuple(flags))
    for recipes in _recorders:
        recipes.append(recipe)
    if shared and (ready := prebuilt.find(name, recipe.key())) is not None:
        return ready
    compiler = find_compiler(wide_bitint=wide_bitint)
    link = ("-shared",) if shared else ()
    key = _key(compiler, sources, generated, includes, (*link, *flags))
    path = cache_folder() / f"{name}-{key[:32]}{'.so' if shared else ''}"

    def make(output: Path) -> None:
        started = time.monotonic()
        _log.info("compiling %s with %s, this is done once", name, compiler.command[0])
        written = _write(output.parent, generated)
        folders = [output.parent, *includes]
        files = [*sources, *(file for file in written if file.suffix == ".c")]
        _compile((*compiler.command, *link, *(f"-I{folder}" for folder in folders), *map(str, files)), output, flags)
        _log.debug("compiled %s in %.1f s", name, time.monotonic() - started)

    return cached(path, make)


@dataclass(frozen=True)
class LibraryRecipe:
    """The sources and flags of a shared library, as :func:`build` takes them."""

    name: str
    sources: tuple[Path, ...]
    generated: Mapping[str, str]
    includes: tuple[Path, ...]
    flags: tuple[str, ...]

    def key(self) -> str:
        """Return a hash of everything that is compiled, the compiler not included."""
        return _key(_ANY, self.sources, self.generated, self.includes, self.flags)

    def compile(self, command: Sequence[str], folder: Path) -> Path:
        """Compile with a compiler's command and options into ``folder``, and write a checksum file. Returns the
        compiled file."""
        output = folder / prebuilt.name_of(self.name, self.key())
        with tempfile.TemporaryDirectory() as written:
            files = [*self.sources, *(file for file in _write(Path(written), self.generated) if file.suffix == ".c")]
            folders = (f"-I{one}" for one in (written, *self.includes))
            _compile((*command, "-shared", *folders, *map(str, files)), output, self.flags)
        output.with_name(output.name + ".sha256").write_text(hashlib.sha256(output.read_bytes()).hexdigest())
        return output


@contextmanager
def recorded() -> Iterator[list[LibraryRecipe]]:
    """Record the libraries that :func:`build` is asked for within the block."""
    recipes: list[LibraryRecipe] = []
    _recorders.append(recipes)
    try:
        yield recipes
    finally:
        _recorders.remove(recipes)


def load(path: Path) -> ctypes.CDLL:
    """Load a shared library. Raises UntrustedError if another user could have written it, and LoadError."""
    try:
        with open_file(path) as file:
            return _loaded(file)
    except OSError as error:
        raise LoadError(f"cannot load {path}: {error}; remove the file, so that it is compiled again") from error


_loads: Final = itertools.count()


def _loaded(file: BinaryIO) -> ctypes.CDLL:
    """The library in the open file itself: no path is looked up again after the file was checked.

    The loader takes a library that it has loaded by the same name before, and numbers of descriptors come again. So
    the bits of a running number are in the name, "./" for 1 and "/" for 0: the kernel reads the same path.
    """
    unique = "".join("./" if bit == "1" else "/" for bit in f"{next(_loads):b}")
    return ctypes.CDLL(f"/proc/self/fd/{unique}{file.fileno()}")


def _key(
    compiler: Compiler,
    sources: Sequence[Path],
    generated: Mapping[str, str],
    includes: Sequence[Path],
    flags: Sequence[str],
) -> str:
    """Hash of everything that the result depends on, except the system's headers."""
    digest = hashlib.sha256()
    headers = {header for folder in (*includes, *(source.parent for source in sources)) for header in _headers(folder)}
    for text in ("v1", compiler.identity, *compiler.command, *flags):
        _add(digest, text.encode())
    for kind, files in (("source", sources), ("header", sorted(headers))):
        for file in files:
            _add(digest, kind.encode())
            _add(digest, file.name.encode())
            _add(digest, file.read_bytes())
    for file_name, text in generated.items():
        _add(digest, file_name.encode())
        _add(digest, text.encode())
    return digest.hexdigest()


def _headers(folder: Path) -> Iterable[Path]:
    return folder.resolve().glob("*.h")


def _add(digest: hashlib._Hash, part: bytes) -> None:
    # With its length, so that different lists of parts give different hashes.
    digest.update(len(part).to_bytes(8, "little"))
    digest.update(part)


def _write(folder: Path, generated: Mapping[str, str]) -> list[Path]:
    paths = []
    for file_name, text in generated.items():
        path = folder / file_name
        path.write_text(text)
        paths.append(path)
    return paths


def _compile(command: Sequence[str], output: Path, flags: Sequence[str]) -> None:
    complete = (*command, "-o", str(output), *flags)
    done = run_compiler(complete)
    if done.returncode != 0 or not output.exists():
        reason = first_lines(_from_first_error(done.stderr), _STDERR_LINES) or f"it ended with status {done.returncode}"
        raise CompileError(f"{shlex.join(complete)}\n{reason}")
    if done.stderr.strip():
        # Another version's opinion of code that its tests passed: for those who look.
        _log.debug("%s", first_lines(done.stderr, _STDERR_LINES))


def _from_first_error(told: str) -> str:
    """What a compiler says from its first error on. Dozens of warnings may come before it."""
    lines = told.splitlines()
    first = next((number for number, line in enumerate(lines) if "error:" in line), 0)
    return "\n".join(lines[first:])
