# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Any words on the lab's command line: options, OptionError, or argparse's own error with status 2."""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sumwire_lab.errors import OptionError
from sumwire_lab.options import arguments, run_options
from sumwire_lab.options.verify_options import TOPICS

Read = Callable[[argparse.Namespace], object]
COMMANDS: dict[str, Read] = {
    "run": run_options.run_options,
    **{f"bench {name}": line.chosen for name, line in arguments.BENCHES.items()},
    **{f"verify {topic}": arguments.verify_options for topic in TOPICS},
}
PARSER = arguments.parser()
WORDS = st.text(max_size=12) | st.sampled_from([
    "", "0", "1", "-1", "9" * 5000, "1e999", "-1e999", "nan", "inf", "0x10", "1_0", "\0", "\x1b[2J", "\ud800", "3:3",
    ":", "1:nan", "nan:1", "0:1e999", "1:1:1", ",", "all", "thc@group", "@", "acp@", "random:0.5", "random:nan",
    "soft,soft", "unlimited", "٣",
])  # fmt: skip


def flags_of(command: str) -> list[str]:
    """The options of a command that take a value."""
    one = PARSER
    for word in command.split():
        [commands] = [each for each in one._actions if isinstance(each, argparse._SubParsersAction)]
        one = commands.choices[word]
    return [each.option_strings[-1] for each in one._actions if each.nargs != 0 and each.option_strings]


FLAGS = {command: flags_of(command) for command in COMMANDS}


@pytest.mark.parametrize("command", COMMANDS)
@settings(max_examples=100)
@given(st.data())
@pytest.mark.few(8)
def test_only_typed_errors_come_out(command: str, data: st.DataObject) -> None:
    given_ = data.draw(st.lists(st.tuples(st.sampled_from(FLAGS[command]), WORDS), max_size=3))
    words = [*command.split(), *(f"{flag}={word}" for flag, word in given_)]
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            COMMANDS[command](PARSER.parse_args(words))
        except OptionError:
            return
        except SystemExit as error:
            assert error.code == 2
