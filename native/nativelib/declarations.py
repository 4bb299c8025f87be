# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reads functions and structures from our own C sources, so that Python declares none of them a second time.

It reads the C of this project, not all of C. Functions and structures must begin in the first column. A structure's
fields are numbers, pointers, other structures and arrays of a known length; a structure with any other field is left
out. Code between ``#ifdef`` and ``#endif`` is read if the name is one of the constants.

Example: of ``struct pair { uint64_t left; double right; };`` and ``int pair_sum(const struct pair *of);`` it makes a
ctypes structure ``pair``, and lets the library's ``pair_sum`` take one.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

_NUMBERS: Final[dict[str, Any]] = {
    "void": None, "int": ctypes.c_int, "unsigned": ctypes.c_uint, "short": ctypes.c_short, "size_t": ctypes.c_size_t,
    "float": ctypes.c_float, "double": ctypes.c_double, "bool": ctypes.c_bool,
    **{f"{sign}int{bits}_t": getattr(ctypes, f"c_{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_IF_DEFINED: Final = re.compile(r"^#ifdef (\w+)\n(.*?)^#endif[^\n]*\n", re.DOTALL | re.MULTILINE)
_NOTES: Final = re.compile(r"//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.MULTILINE)
_STRUCT: Final = re.compile(r"^struct (\w+) \{([^{}]*)\};", re.MULTILINE)
_ALIAS: Final = re.compile(r"^typedef (\w+) (\w+);", re.MULTILINE)
_FUNCTION: Final = re.compile(
    r"^(?!static|extern|typedef)([a-z]\w*(?: \w+)* \*?)(\w+)\(([^(){};]*)\)\s*[;{]", re.MULTILINE
)
_FUNCTION_POINTER: Final = re.compile(r".*\(\*(\w+)\)\(.*\)", re.DOTALL)
_DECLARATION: Final = re.compile(
    r"(?P<type>(?:struct |enum )?\w+)\s*(?P<stars>\**)\s*(?P<name>\w*)\s*(?:\[(?P<length>\w+)\])?"
)
_LIST: Final = re.compile(r"((?:struct )?\w+) (\*?\w+(?:, \*?\w+)+)")
_QUALIFIERS: Final = re.compile(r"\b(?:const|volatile|restrict)\b\s*")


class Native:
    """The functions of a loaded library, and the structures that they take, by their names in C.

    Where C wants a pointer to a structure, pass the structure; for any other pointer pass an address, or None for NULL.
    A returned pointer to a structure is a ctypes pointer, any other an address, or None for NULL.
    """

    def __init__(self, library: ctypes.CDLL, declared: Mapping[str, Any]) -> None:
        self.library = library
        self.__dict__.update(declared)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def declare(
    library: ctypes.CDLL,
    sources: Iterable[Path],
    constants: Mapping[str, int | str],
    structs: Collection[str] | None = None,
) -> Native:
    """Declare the functions of a library, as the C files and headers that it was compiled from have them. Functions
    that the library lacks are left out.

    ``constants``: values of names used in array lengths. ``structs``: the structures that Python makes or reads, by
    default all; pointers to other structures are addresses.
    """

    def wanted(conditional: re.Match[str]) -> str:
        return conditional[2] if conditional[1] in constants else ""

    text = "\n".join(_NOTES.sub("", _IF_DEFINED.sub(wanted, path.read_text())) for path in sources)
    for meant, alias in _ALIAS.findall(text):
        text = re.sub(rf"\b{alias}\b", meant, text)
    structures: dict[str, type[ctypes.Structure]] = {}
    for name, fields in _STRUCT.findall(text):
        found = _fields(fields, structures, constants) if structs is None or name in structs else None
        if found is not None:
            structures[name] = type(name, (ctypes.Structure,), {"_fields_": found})
    functions = {}
    for result, name, arguments in _FUNCTION.findall(text):
        kinds = [_type(each, structures) for each in arguments.split(",") if each.strip() != "void"]
        if hasattr(library, name) and None not in kinds:
            function = functions[name] = getattr(library, name)
            function.restype, function.argtypes = _type(result, structures), kinds
    return Native(library, {**structures, **functions})


def _fields(
    text: str, structures: Mapping[str, type[ctypes.Structure]], constants: Mapping[str, int | str]
) -> list[tuple[str, Any]] | None:
    """The fields of a structure for ctypes; None if one of them is of a kind that is not known."""
    fields: list[tuple[str, Any]] = []
    for declaration in _declarations(_QUALIFIERS.sub("", text)):
        if (pointer := _FUNCTION_POINTER.fullmatch(declaration)) is not None:
            fields.append((pointer[1], ctypes.c_void_p))
            continue
        match = _DECLARATION.fullmatch(declaration)
        length = match["length"] if match else None
        known: Any = _kind(match["type"], structures) if match else None
        count = (int(length) if length.isdecimal() else constants.get(length)) if length else 1
        kind: Any = ctypes.c_void_p if match and match["stars"] else known
        if match is None or kind is None or not isinstance(count, int):
            return None
        fields.append((match["name"], kind * count if length else kind))
    return fields


def _declarations(text: str) -> Iterator[str]:
    """Those of a structure's fields, one field each: ``uint64_t packets, bytes;`` are two."""
    for each in text.split(";"):
        declaration = " ".join(each.split())
        if (listed := _LIST.fullmatch(declaration)) is not None:
            yield from (f"{listed[1]} {name}" for name in listed[2].split(", "))
        elif declaration:
            yield declaration


def _type(text: str, structures: Mapping[str, type[ctypes.Structure]]) -> Any:
    """The type of a result or an argument."""
    match = _DECLARATION.fullmatch(" ".join(_QUALIFIERS.sub("", text).split()))
    if match is None:
        return ctypes.c_void_p
    kind = _kind(match["type"], structures)
    if not match["stars"] and match["length"] is None:
        return kind
    to_structure = match["type"].startswith("struct ") and kind is not None and match["stars"] == "*"
    return ctypes.POINTER(kind) if to_structure else ctypes.c_void_p


def _kind(name: str, structures: Mapping[str, type[ctypes.Structure]]) -> Any:
    """The ctypes of a number or structure; None for void, and for what is not known."""
    if name.startswith("enum "):
        return ctypes.c_int
    return structures.get(name.removeprefix("struct ")) if name.startswith("struct ") else _NUMBERS.get(name)
