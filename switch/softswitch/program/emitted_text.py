# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Text of a program in generated code: every name and every comment of both engines comes from here.

The loader admits harmless names only. The engines do not rely on it.
"""

from __future__ import annotations

import re

_COMMENT_LENGTH = 400
# Printable ASCII, without what could end a comment or join its line with the next one: `*/`, a backslash, `??/`.
_HARMFUL = re.compile(r"[^ -~]|\\|\*/|/\*|\?\?")


def identifier(name: str, taken: set[str]) -> str:
    """Return an identifier of Python and C that resembles ``name`` and is not in ``taken``; add it there.

    ``name`` starts with a prefix of the engine's, so that the result is no keyword.
    """
    base = re.sub(r"\W", "_", name, flags=re.ASCII)
    candidate, number = base, 2
    while candidate in taken:
        candidate, number = f"{base}_{number}", number + 1
    taken.add(candidate)
    return candidate


def comment_text(text: str) -> str:
    """``text`` as it may stand in a comment of one line, in C behind ``//`` and in Python behind ``#``."""
    return _HARMFUL.sub(lambda found: "_" * len(found[0]), text[:_COMMENT_LENGTH])


def literal(text: str) -> str:
    """A literal of Python that stands for ``text``, in ASCII."""
    return ascii(text)
