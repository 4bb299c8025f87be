# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The entries of all systems: complete, free of torch, and what docs/systems.md says."""

from __future__ import annotations

import inspect

import pytest
import sumwire
from helpers.paths import ROOT
from sumwire import systems
from sumwire.lowrank.sync import AcpSgd
from sumwire.systems.cost import Gradient
from sumwire.systems.spec import TRANSPORTS, Member, Route
from sumwire.systems.table import MEANINGS, as_markdown
from sumwire_protocol.ops import BY_NAME

ROUTES = [(name, transport) for name, spec in systems.TABLE.items() for transport in spec.routes]


def route(name: str, transport: str) -> Route:  # type: ignore[type-arg]
    return systems.TABLE[name].routes[transport]


@pytest.mark.parametrize(("name", "transport"), ROUTES)
def test_an_entry_is_complete(name: str, transport: str) -> None:
    found = route(name, transport)
    assert transport in TRANSPORTS
    assert all(found.options.meanings().values())
    assert set(found.ops) <= set(BY_NAME)
    assert (transport == "switch") == bool(found.ops) == (found.codec is not None)
    assert found.cost.link_bytes(Gradient(100, 200, rank=4, share=0.01), 4) > 0
    assert found.cost.up and found.cost.down


@pytest.mark.parametrize("name", [name for name, spec in systems.TABLE.items() if spec.ops])
def test_a_codec_sends_packets_of_an_op_of_the_job(name: str) -> None:
    make = route(name, "switch").codec
    assert make is not None
    if systems.TABLE[name].table:
        with pytest.raises(sumwire.UsageError, match="needs the job's table"):
            make(Member(1, 0, 2))
    else:
        assert BY_NAME[route(name, "switch").ops[0]].code == make(Member(1, 0, 2)).info.op


def test_an_option_has_one_default_and_one_meaning() -> None:
    defaults: dict[str, set[object]] = {}
    meanings: set[tuple[str, str]] = set()
    required = set()
    for name, transport in ROUTES:
        options = route(name, transport).options
        required |= set(options.required())
        meanings |= set(options.meanings().items())
        for option, default in options.defaults().items():
            defaults.setdefault(option, set()).add(default)
    assert all(len(values) == 1 for values in defaults.values()), defaults
    assert set(defaults) | required == set(MEANINGS)
    assert meanings == set(MEANINGS.items())
    assert required == {"rows"}


def test_defaults_are_those_of_the_optimizers() -> None:
    acp = inspect.signature(AcpSgd.__init__).parameters
    for option, default in route("acp", "switch").options.defaults().items():
        assert default == acp[option].default, option
    marsit = inspect.signature(sumwire.optim.Marsit.__init__).parameters
    own = route("marsit", "switch").options.defaults()
    assert own == {option: marsit[option].default for option in ("rule", "global_lr", "full_precision_every", "lead")}


def test_public_names() -> None:
    assert {"TABLE", "System", "make"} <= set(dir(systems))
    assert issubclass(systems.System, object) and callable(systems.make)
    with pytest.raises(AttributeError, match="nothing"):
        _ = systems.nothing


def test_page_of_systems_is_current() -> None:
    page = (ROOT / "docs" / "systems.md").read_text()
    assert as_markdown() in page, "python -m sumwire.systems writes the tables"
