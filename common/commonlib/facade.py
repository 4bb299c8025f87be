# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Lazy public names: a package loads the module of a name when the name is first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def on_first_use(
    own: dict[str, Any], load: Callable[[str], Any], homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__``. ``own``: its globals. ``load``: imports one of its modules.
    ``homes``: by module, the names that it defines, with spaces between them; a module without any is a public name
    itself."""
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in homes and not homes[name]:
            return load(name)
        if name not in home_of:
            raise AttributeError(f"module {own['__name__']!r} has no attribute {name!r}")
        own[name] = getattr(load(home_of[name]), name)
        return own[name]

    return get, lambda: sorted(home_of)
