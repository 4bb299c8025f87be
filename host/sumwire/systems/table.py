# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""All systems by name, and the tables of docs/systems.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sumwire.systems import gradients, low_rank, marsit, thc
from sumwire.systems.spec import SystemSpec

TABLE: Final[Mapping[str, SystemSpec]] = {**gradients.SYSTEMS, **thc.SYSTEMS, **low_rank.SYSTEMS, **marsit.SYSTEMS}
# The text of every option of a system.
MEANINGS: Final[Mapping[str, str]] = {
    name: meaning
    for spec in TABLE.values()
    for route in spec.routes.values()
    for name, meaning in route.options.meanings().items()
}

_MEBI: Final = 1 << 20
# A default of at most this denominator is written as a fraction.
_DENOMINATOR_MAX: Final = 1024


def as_markdown() -> str:
    """Return the tables of docs/systems.md."""
    routes = [["name", "what travels", "transport", "bits up", "bits down", "ops of the job", "options"]]
    for name, spec in TABLE.items():
        for number, (transport, route) in enumerate(spec.routes.items()):
            first = [f"`{name}`", spec.what] if number == 0 else ["", ""]
            names = " ".join(f"`{option}`" for option in route.options.names())
            routes.append([*first, transport, route.cost.up, route.cost.down, " ".join(route.ops), names])
    more = [["name", "acts in", "keeps", "limits", "source"]]
    more += [[f"`{name}`", spec.acts, spec.keeps, spec.limits, spec.paper] for name, spec in TABLE.items()]
    options = [["option", "default", "meaning"]]
    options += [[f"`{name}`", _default(name), meaning] for name, meaning in MEANINGS.items()]
    return "\n".join(_rows(table) for table in (routes, more, options))


def _default(option: str) -> str:
    for spec in TABLE.values():
        for route in spec.routes.values():
            if option in route.options.defaults():
                return _shown(route.options.defaults()[option])
    return "required"


def _shown(default: Any) -> str:
    if isinstance(default, float):
        numerator, denominator = default.as_integer_ratio()
        if 1 < denominator <= _DENOMINATOR_MAX:
            return f"{numerator}/{denominator}"
    if isinstance(default, int) and default >= _MEBI and default % _MEBI == 0:
        return f"{default // _MEBI} MiB"
    return str(default)


def _rows(table: list[list[str]]) -> str:
    lines = [table[0], ["---"] * len(table[0]), *table[1:]]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
