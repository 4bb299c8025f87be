# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Mutations of a program's JSON and of its intermediate form, and whether their text escapes into generated code.

Hostile texts hold a marker between characters that no name has. Where such a text is code, the marker is a word of its
own outside comments and literals. Where the text was made into a name, the marker is a part of a longer word.
"""

from __future__ import annotations

import ast
import copy
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from softswitch.program import ir
from softswitch.program.standard import STANDARD

MARKER = "ESCAPED"

# What a compiler of C does before it looks at comments: trigraphs, and lines that go on.
_TRIGRAPH = "??/"
_JOINED = re.compile(r"\\[ \t\v\f]*\n")
_LINE_ENDS = re.compile(r"\r\n|\r")
_C = re.compile(
    r"""(?P<skipped>//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(?P<word>\w+)|(?P<other>.)""",
    re.DOTALL,
)


def escapes_in_c(source: str) -> list[int]:
    """Lines, from 0, on which the marker is a word of code. A text that does not end on its line counts."""
    text = _LINE_ENDS.sub("\n", source)
    text = _JOINED.sub("", text.replace(_TRIGRAPH, "\\"))
    found: list[int] = []
    line = 0
    for match in _C.finditer(text):
        opened = match["other"] in ('"', "'")
        if match["word"] == MARKER or opened or ((match["skipped"] or "").startswith("/*") and not _closed(match[0])):
            found.append(line)
        line += match[0].count("\n")
    return found


def _closed(comment: str) -> bool:
    return len(comment) >= 4 and comment.endswith("*/")


def escapes_in_python(source: str) -> list[int]:
    """Lines, from 1, on which the marker is a name. Line 0: the source is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return [0]
    return [
        getattr(node, "lineno", 0)
        for node in ast.walk(tree)
        if MARKER in (getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "name", ""))
    ]


Json = Any
JsonPath = tuple[str | int, ...]

# Each would leave a comment, a literal or a line of C or Python if it stood there as it is.
ATTACKS = (
    f"a */ {MARKER}(); /* ",
    f"a\n{MARKER}();\n",
    f"a\r    {MARKER}()\r    #",
    f"a\r\n{MARKER}()\r\n",
    f"a\u2028{MARKER}()\u2028",
    f"a\u0085{MARKER}()\u0085",
    f"a\v{MARKER}()\f{MARKER}()\x1c{MARKER}()",
    f"a\x00{MARKER}()",
    f"{MARKER} a\\",
    f"{MARKER} a??/",
    f"a\\\n{MARKER}();",
    f'a"; {MARKER}(); "',
    f"a'; {MARKER}(); '",
    f"a}} {MARKER}(); {{",
    f"a{{}}\n\"\"\"{MARKER}()'''",
    f"a\u202e{MARKER}()\ud800",
    f"#include <{MARKER}>",
    f"a = {MARKER} = b",
    f"a ({MARKER}) %s {{0}} $({MARKER}) `{MARKER}`",
)
_NAMES = (*ATTACKS, "", "x" * 256, "x" * 100_000, "__import__", "static", "None", "$valid$", "..", "a" * 255, "١")
_NUMBERS = (
    0, 1, -1, 2, 7, 8, 63, 64, 65, 255, 511, 512, 2047, 2048, 2049, 4096, 65535, 65536, 2**24, 2**24 + 1, 2**31 - 1,
    2**31, 2**32 - 1, 2**32, 2**32 + 8, 2**63, 2**64, 10**30, 10**4000, -(2**63), 0.5, 1e308, float("nan"),
    float("inf"), float("-inf"), True, False,
)  # fmt: skip
_HEXADECIMAL = (
    "0x0", "0x1", "-0x1", "0xff", "0xffffffffffffffff", "0x1" + "0" * 64, "0x" + "f" * 1024, "0x" + "f" * 1025,
    "-0x" + "f" * 1024, "0xzz", "", "nan", "1e9", "0b1", "0x1_0", " 0x1", f"0); {MARKER}(); (0",
)  # fmt: skip
_OTHERS: tuple[Json, ...] = (
    None,
    True,
    False,
    0,
    -1,
    0.5,
    "",
    "x",
    [],
    {},
    [[]],
    [None],
    {"op": "+"},
    {"type": "expression"},
    2**40,
)
_OPS = (
    "+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "~", "==", "<", "and", "or", "not", "d2b", "b2d", "valid",
    "two_comp_mod", "usat_cast", "sat_cast", "?", "access_field", "exit", "truncate", "assign", "assign_header",
    "add_header", "remove_header", "mark_to_drop", "register_read", "register_write", "count", "log_msg", "_jump",
    "_jump_if_zero", "extract", "set", "verify", "advance", "shift", "primitive", "no_op", "recirculate",
    "modify_field_rng_uniform", "modify_field_with_hash_based_offset",
)  # fmt: skip
_DEPTH = 40


def mutated(root: Json, generator: random.Random) -> tuple[Json, list[str]]:
    """A copy of ``root`` with one to four mutations, and what they were."""
    changed = copy.deepcopy(root)
    done = []
    for _ in range(generator.choice((1, 1, 1, 2, 4))):
        paths = list(_paths(changed, ()))
        path = generator.choice(paths)
        parent = _at(changed, path[:-1])
        kind = generator.choice(_KINDS)
        kind(parent, path[-1], generator, changed, paths)
        done.append(f"{kind.__name__.strip('_')} {'.'.join(map(str, path))}"[:200])
    return changed, done


def _paths(value: Json, above: JsonPath) -> Iterator[JsonPath]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, child in items:
        if key == "source_fragment":
            continue
        yield (*above, key)
        yield from _paths(child, (*above, key))


def _at(value: Json, path: JsonPath) -> Json:
    for key in path:
        value = value[key]
    return value


def _extreme(parent: Json, key: Any, generator: random.Random, _root: Json, _paths: list[JsonPath]) -> None:
    """A value of the same kind that is hostile."""
    value = parent[key]
    if isinstance(value, bool) or value is None or isinstance(value, dict | list):
        parent[key] = generator.choice(_OTHERS)
    elif isinstance(value, int | float):
        parent[key] = generator.choice(_NUMBERS)
    elif key == "op":
        parent[key] = generator.choice(_OPS)
    elif value.startswith(("0x", "-0x")):
        parent[key] = generator.choice(_HEXADECIMAL)
    else:
        parent[key] = generator.choice(_NAMES)


def _rename(parent: Json, key: Any, generator: random.Random, root: Json, _paths: list[JsonPath]) -> None:
    """A name that is replaced wherever it is used, so that only a check of names can refuse it."""
    value = parent[key]
    if isinstance(value, str) and value not in ("ingress", "egress", STANDARD):
        _replace_all(root, value, generator.choice(_NAMES))
    else:
        _extreme(parent, key, generator, root, _paths)


def _replace_all(value: Json, old: str, new: str) -> None:
    if isinstance(value, dict):
        for key in [key for key in value if key == old]:
            value[new] = value.pop(key)
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in list(items):
        if child == old:
            value[key] = new
        else:
            _replace_all(child, old, new)


def _retype(parent: Json, key: Any, generator: random.Random, _root: Json, _paths: list[JsonPath]) -> None:
    parent[key] = copy.deepcopy(generator.choice(_OTHERS))


def _remove(parent: Json, key: Any, _generator: random.Random, _root: Json, _paths: list[JsonPath]) -> None:
    del parent[key]


def _duplicate(parent: Json, key: Any, generator: random.Random, _root: Json, _paths: list[JsonPath]) -> None:
    if isinstance(parent, list):
        times = generator.choice((1, 1, 2, 64, 300))
        parent[key:key] = [copy.deepcopy(parent[key]) for _ in range(times)]
    else:
        parent[generator.choice(_NAMES)] = copy.deepcopy(parent[key])


def _transplant(parent: Json, key: Any, generator: random.Random, root: Json, paths: list[JsonPath]) -> None:
    """A value from elsewhere in the program."""
    parent[key] = copy.deepcopy(_at(root, generator.choice(paths)))


def _nest(parent: Json, key: Any, generator: random.Random, _root: Json, _paths: list[JsonPath]) -> None:
    """An expression of many levels around a value, or lists around it."""
    op = generator.choice(_OPS)
    value = parent[key]
    for _ in range(generator.choice((2, 8, _DEPTH, 3 * _DEPTH))):
        if isinstance(value, dict):
            leaf = {"type": "hexstr", "value": "0x3"}
            left, right = (value, leaf) if generator.random() < 0.3 else (leaf, value)
            value = {"type": "expression", "value": {"op": op, "left": left, "right": right, "cond": leaf}}
        else:
            value = [value]
    parent[key] = value


_Mutation = Callable[[Json, Any, random.Random, Json, list[JsonPath]], None]
_KINDS: tuple[_Mutation, ...] = (
    *(_extreme, _extreme, _extreme, _rename, _rename),
    *(_retype, _remove, _duplicate, _transplant, _nest),
)


# ---------------------------------------------------------------- the intermediate form


def renamed(program: ir.Program, attack: str) -> ir.Program:
    """``program`` with ``attack`` in all its texts, as if the loader had let it pass. Names stay different."""
    kept = {
        STANDARD,
        "ingress",
        "egress",
        *program.errors,
        *(member.name for member in program.headers[STANDARD].fields),
    }
    names: dict[str, str] = {}

    def rename(value: Any) -> Any:
        if isinstance(value, str):
            return value if value in kept else names.setdefault(value, f"{attack}{len(names)}" if names else attack)
        if isinstance(value, ir.Source):
            return replace(value, file=attack)
        if isinstance(value, ir.Unary | ir.Binary | ir.Cast):
            parts = {part.name: rename(getattr(value, part.name)) for part in fields(value) if part.name != "op"}
            return replace(value, **parts)
        if isinstance(value, ir.Calculation):
            return replace(value, name=rename(value.name), chunks=rename(value.chunks), source=rename(value.source))
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{part.name: rename(getattr(value, part.name)) for part in fields(value)})
        if isinstance(value, dict):
            return {rename(key): rename(each) for key, each in value.items()}
        return tuple(map(rename, value)) if isinstance(value, tuple) else value

    changed: ir.Program = rename(program)
    return changed
