# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire-lab COMMAND`: calls the function that a command names, and prints its result. The only part of the lab that
prints."""

from __future__ import annotations

import argparse
import logging
import os
import pkgutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from commonlib import logs
from commonlib.events import ProgramEvent
from nativelib import programs
from sumwire_protocol.events import Event

from sumwire_lab.errors import LabError, OptionError
from sumwire_lab.options import arguments as options
from sumwire_lab.options import recorded, run_options
from sumwire_lab.options.fields import from_arguments, given_flags
from sumwire_lab.options.layout import SUFFIXES
from sumwire_lab.options.run_options import RunOptions, ScriptOptions
from sumwire_lab.options.simulate_options import SimulateOptions

if TYPE_CHECKING:
    from sumwire_lab.run.own_lab import DetachedLab
    from sumwire_lab.study.study import Study

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
# What commands need is imported when they run: torch alone takes seconds.


_NAME: Final = "sumwire_lab"
_voices: Final = [logs.Voice(logs.Form.TEXT, _NAME)]


def say(line: str) -> None:
    """Print one line at once."""
    _voices[-1].say(line, Event.LAB_SAID())


def _run(arguments: argparse.Namespace) -> int:
    chosen, work = run_options.run_options(arguments), run_options.script_options(arguments)
    if work.keep:
        from sumwire_lab.run import own_lab

        return own_lab.in_background(lambda stays: _ended(lambda: _work(arguments, chosen, work, stays)))
    return _work(arguments, chosen, work) if work.any else _train(arguments, chosen)


def _work(
    arguments: argparse.Namespace, chosen: RunOptions, work: ScriptOptions, stays: DetachedLab | None = None
) -> int:
    from sumwire_lab.run import own_lab

    record, folder = own_lab.run(chosen, work, arguments.results, say, stays)
    say(f"\n{folder / own_lab.RECORD}" if record else f"\n{folder}")
    return 0


def _train(arguments: argparse.Namespace, chosen: RunOptions) -> int:
    _trained(arguments, chosen)
    return 0


def _trained(arguments: argparse.Namespace, chosen: RunOptions) -> Path:
    from sumwire_lab.run import report
    from sumwire_lab.run.training_run import run

    summary, folder = run(chosen, arguments.results, say, recorded.recorded(arguments, chosen), arguments.live)
    say("")
    say(report.table(summary))
    say(f"\n{folder / 'report.html'}")
    return folder


def _replay(arguments: argparse.Namespace) -> int:
    words = recorded.words_of(recorded.settings_in(arguments.folder), arguments.folder)
    again = options.parser().parse_args(["run", *words, f"--results={arguments.results}"])
    folder = _trained(again, run_options.run_options(again))
    return _compared(arguments.folder, folder, folder / "compare.html")


def _compare(arguments: argparse.Namespace) -> int:
    return _compared(arguments.first, arguments.second, arguments.html)


def _compared(first: Path, second: Path, page: Path | None) -> int:
    from sumwire_lab.run import report
    from sumwire_lab.run.page import render

    found = report.compare(report.Recorded.of(first), report.Recorded.of(second))
    say("\n" + report.text(found))
    if page is not None:
        page.write_text(render.comparison(found))
        say(f"\n{page}")
    return 0


def _study(arguments: argparse.Namespace) -> int:
    from sumwire_lab.run import grid
    from sumwire_lab.study import study

    load = grid.load if arguments.file.suffix in SUFFIXES else study.load
    return _studied(arguments, load(arguments.file))


def _simulate(arguments: argparse.Namespace) -> int:
    from sumwire_lab.simulate import measure, studies
    from sumwire_lab.study import figures

    if arguments.study is not None:
        in_yaml = Path(arguments.study).suffix in SUFFIXES
        for flag in given_flags(arguments, SimulateOptions):
            if not (in_yaml and flag.name == "engine"):
                told = f"{flag.name}={flag.value(arguments)}"
                raise OptionError(f"{told}: a study has its own options; leave it out, or put it into a file of yours")
        if in_yaml:
            from sumwire_lab.run.grid import load

            return _studied(arguments, load(Path(arguments.study), engine=arguments.engine))
        return _studied(arguments, studies.named(arguments.study))
    found = measure.rows(from_arguments(SimulateOptions, arguments), say)
    columns = [(one.name, one.head, one.form) for one in measure.COLUMNS if found[0][one.name] is not None]
    say(figures.table(found, ["system"], columns))
    return 0


def _studied(arguments: argparse.Namespace, chosen: Study) -> int:
    from sumwire_lab.study import check, study

    done = study.run(chosen, arguments.results, say, again=arguments.again)
    say(f"\n{done.table()}")
    checks = done.checks()
    if checks:
        say("\n" + check.table(checks))
    say(f"\n{arguments.results / chosen.name}")
    return EXIT_FAILED if done.failed or any(one.holds is False for one in checks) else 0


def _down(arguments: argparse.Namespace) -> int:
    from sumwire_lab.system import leftovers

    for folder in leftovers.take_down():
        say(f"took down {folder}")
    return 0


def _bench(arguments: argparse.Namespace) -> int:
    line = options.BENCHES[arguments.name]
    chosen = line.chosen(arguments)
    command = pkgutil.resolve_name(line.command)
    if line.of_study:
        told, right = command(chosen).carry_out(say, vars(arguments).get("results"), vars(arguments).get("json"))
    else:
        told, right = command(chosen, arguments.results, say)
    say("\n" + told)
    return 0 if right else EXIT_FAILED


def _verify(arguments: argparse.Namespace) -> int:
    chosen = options.verify_options(arguments)
    from sumwire_lab.study.check import table
    from sumwire_lab.verify.commands import verify

    done = verify(arguments.topic, arguments.results, say, chosen)
    say("\n" + table(done))
    return EXIT_FAILED if any(check.holds is False for check in done) else 0


def _models(arguments: argparse.Namespace) -> int:
    from sumwire_lab.models.suite import search, table

    names = [name for name in arguments.only.split(",") if name]
    done = search(names, arguments.json, say)
    say("\n" + table(done))
    return 0 if all(outcome.holds for outcome in done) else EXIT_FAILED


def _clean(arguments: argparse.Namespace) -> int:
    from sumwire_lab.system import leftovers

    for line in leftovers.clean():
        say(f"removed {line}")
    return 0


_COMMANDS: Final[dict[str, Callable[[argparse.Namespace], int]]] = {
    "run": _run,
    "study": _study,
    "simulate": _simulate,
    "replay": _replay,
    "compare": _compare,
    "down": _down,
    "bench": _bench,
    "verify": _verify,
    "models": _models,
    "clean": _clean,
}
_TORCH_LOG: Final = "TORCH_CPP_LOG_LEVEL"


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0, 1 for a failed experiment, 2 for wrong options, 130 after Ctrl-C."""
    if argv is None:
        programs.close_environment()
    arguments = options.parser().parse_args(argv)
    _log_in(arguments.log_format)
    return _ended(lambda: _COMMANDS[arguments.command](arguments))


def _log_in(form: logs.Form) -> None:
    """Say and log everything in this form, also what the lab starts."""
    _voices[:] = [logs.Voice(form, _NAME)]
    if form is logs.Form.JSON:
        os.environ[logs.VARIABLE] = form.value
        # PyTorch's own lines, of its C++ code, are no JSON. Its errors also come as exceptions.
        os.environ.setdefault(_TORCH_LOG, "ERROR")
        # For people, what is said has the same.
        logs.to_stderr(form, logging.INFO, "%(message)s", only=_NAME)


def _fail(text: str) -> None:
    if _voices[-1].form is logs.Form.JSON:
        logging.getLogger(_NAME).error("%s", text, extra=ProgramEvent.FAILED(reason=text))
    else:
        print(logs.printable_lines(f"sumwire-lab: {text}"), file=sys.stderr)


def _ended(command: Callable[[], int]) -> int:
    """The exit code of a command; errors are told."""
    try:
        return command()
    except ValueError as error:
        if not isinstance(error, LabError):
            raise
        _fail(str(error))
        return EXIT_USAGE
    except LabError as error:
        _fail(str(error))
        return EXIT_FAILED
    except KeyboardInterrupt:
        _fail("interrupted, everything is cleaned up")
        return EXIT_INTERRUPTED
