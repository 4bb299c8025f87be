# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Turns the Sphinx roles of the docstrings into Markdown for the site."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc|obj):`~?([^`]+)`")
_LITERAL = re.compile(r"``([^`]+)``")
_RAISES = re.compile(r"^:raises ([\w.]+(?:, [\w.]+)+): ?(.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)


def _one_by_one(match: re.Match[str]) -> str:
    return "\n".join(f":raises {error}: {match[2]}" for error in match[1].split(", "))


def markdown(docstring: str) -> str:
    """Return ``docstring`` with roles as code; ``:raises A, B: text`` becomes a line for each error, for griffe."""
    return _RAISES.sub(_one_by_one, _LITERAL.sub(r"`\1`", _ROLE.sub(r"`\1`", docstring)))


class Roles(Extension):
    """Rewrites ``:class:`sumwire.Job``` to `` `sumwire.Job` `` in every docstring that the site shows."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called by griffe for every module, class, function and attribute that it has read."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
