# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Makes text of a program safe for generated code. Both engines get every name and comment from here.

The loader only accepts harmless names, but the engines do not rely on that.
"""

from __future__ import annotations

import re

_COMMENT_LENGTH = 400
# Printable ASCII, without what could end a comment or join its line with the next one: `*/`, a backslash, `??/`.
_HARMFUL = re.compile(r"[^ -~]|\\|\*/|/\*|\?\?")


def identifier(name: str, taken: set[str]) -> str:
    """Return an identifier for Python and C that resembles ``name`` and is not in ``taken``, and add it to ``taken``.

    ``name`` starts with a prefix of the engine, so that the result is not a keyword.
    """
    base = re.sub(r"\W", "_", name, flags=re.ASCII)
    candidate, number = base, 2
    while candidate in taken:
        candidate, number = f"{base}_{number}", number + 1
    taken.add(candidate)
    return candidate


def comment_text(text: str) -> str:
    """Return ``text`` in a form that is safe in a one-line comment, after ``//`` in C and after ``#`` in Python."""
    return _HARMFUL.sub(lambda found: "_" * len(found[0]), text[:_COMMENT_LENGTH])


def literal(text: str) -> str:
    """Return a literal of Python for ``text``, in ASCII."""
    return ascii(text)
