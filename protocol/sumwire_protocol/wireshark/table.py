# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire_spec.lua`, the table of fields and codes that the Wireshark dissector reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from sumwire_protocol import constants as p4
from sumwire_protocol import layout
from sumwire_protocol.ops import OPS

FOLDER: Final = Path(__file__).parent
DISSECTOR: Final = FOLDER / "sumwire.lua"
SPEC: Final = FOLDER / "sumwire_spec.lua"
_HEAD: Final = """\
-- SPDX-FileCopyrightText: 2026 The Sumwire authors
-- SPDX-License-Identifier: Apache-2.0
--
-- What sumwire.lua must know of the packet. Generated from the constants of the P4 program by `make p4`; do not edit.

"""


def render() -> str:
    """Return the text of `sumwire_spec.lua`."""
    return f"{_HEAD}return {_lua(_spec(), 0)}\n"


def _spec() -> dict[str, Any]:
    return {
        "port": p4.SUMWIRE_PORT,
        "version": p4.SUMWIRE_VERSION,
        "header_bytes": p4.SUMWIRE_BYTES,
        "word_bytes": p4.WORD_BYTES,
        "opens_run": p4.BUCKET_OPENS_RUN,
        "cut_result": p4.CUT_RESULT,
        "cut_planes": p4.CUT_PLANES,
        "header": [{"name": name, "bits": bits} for name, bits in p4.SUMWIRE_FIELDS],
        "kind": {name: code for code, name in layout.KINDS.items()},
        "kinds": dict(layout.KINDS),
        "op_names": dict(layout.OP_NAMES),
        "flags": [
            {"bit": bit, "name": name, "means": layout.meaning(f"FLAG_{name}")} for bit, name in layout.FLAGS.items()
        ],
        "reasons": dict(layout.REASONS),
        "reasons_mean": {
            code: layout.meaning(f"REJECT_{name}")
            for code, name in layout.REASONS.items()
            if layout.meaning(f"REJECT_{name}")
        },
        "ops": {
            op.code: {
                "up": op.up.words,
                "partial": op.partial.words,
                "down": op.down.words,
                "groups": layout.groups_of(op),
                # 0 for an op with planes.
                "element_bytes": op.element_bytes,
                "signed": op.signed,
            }
            for op in OPS
        },
        "thc": p4.OP_THC,
        "none": p4.OP_NONE,
        "thc_trimmed": p4.THC_WORDS_TRIMMED,
        "thc_cut": p4.THC_WORDS_CUT,
        "extra": [
            {
                "name": header.name,
                "bytes": header.bytes,
                "before_words": header.before_words,
                "fields": [{"name": name, "bits": bits} for name, bits in header.fields],
            }
            for header in layout.EXTRA
        ],
    }


def _lua(value: Any, depth: int) -> str:
    """A value as Lua writes it."""
    inner = "  " * (depth + 1)
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case dict() if all(not isinstance(each, (dict, list)) for each in value.values()) and depth > 1:
            return "{ " + ", ".join(f"{_key(name)} = {_lua(each, depth)}" for name, each in value.items()) + " }"
        case dict():
            rows = [f"{inner}{_key(name)} = {_lua(each, depth + 1)},\n" for name, each in value.items()]
            return "{\n" + "".join(rows) + "  " * depth + "}"
        case list():
            rows = [f"{inner}{_lua(each, depth + 1)},\n" for each in value]
            return "{\n" + "".join(rows) + "  " * depth + "}" if rows else "{}"
    raise TypeError(f"{value!r} has no form in the table")


def _key(name: str | int) -> str:
    return f"[{name}]" if isinstance(name, int) else name
