# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Docstrings are written with Sphinx's roles; the site is Markdown, where the role's target alone is the readable form."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc|obj):`~?([^`]+)`")
_LITERAL = re.compile(r"``([^`]+)``")


class Roles(Extension):
    """Rewrites ``:class:`sumwire.Job``` to `` `sumwire.Job` `` in every docstring that the site shows."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called by griffe for every module, class, function and attribute that it has read."""
        if obj.docstring is not None:
            obj.docstring.value = _LITERAL.sub(r"`\1`", _ROLE.sub(r"`\1`", obj.docstring.value))
