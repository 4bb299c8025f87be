# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The command line: `sumwire up`, `doctor`, `decode`, `top`, `inspect`, `profile-loss`, `tune` and `pays`.

A command imports what it needs when it runs: torch alone takes seconds, and only the last four need it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import select
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from commonlib import logs
from commonlib.version import __version__
from nativelib import programs
from sumwire_protocol.events import Event as Logged

from sumwire.errors import CaptureError, SumwireError, UsageError
from sumwire.see import captures, show, timeline
from sumwire.see.captures import CaptureReader, Frame
from sumwire.see.timeline import PacketEvent, PacketFilter
from sumwire.start import estimate
from sumwire.start import up as start

if TYPE_CHECKING:
    from sumwire.dlcp.tags import Policy
    from sumwire.job.tuning import TuningTable

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_INTERRUPTED = 130
# Commands that are parsed without torch.
_LIGHT: Final = ("decode", "doctor", "pays", "top", "up")
_STANDARD_INPUT: Final = "-"


def main(given: Sequence[str] | None = None) -> int:
    """Run a command. Returns 0 on success, 1 for an error, 130 for Ctrl-C."""
    if given is None:
        programs.close_environment()
    words = sys.argv[1:] if given is None else list(given)
    words, own = estimate.divided(words) if words[:1] == ["pays"] else (words, [])
    try:
        options = _parser(light=words[:1] in ([name] for name in _LIGHT)).parse_args(words)
        options.script_arguments = own
        return int(options.run(options))
    except SumwireError as error:
        print(logs.printable_lines(f"sumwire: {error}"), file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever reads, such as `head`, has enough
        return 0
    except KeyboardInterrupt:
        print("sumwire: interrupted", file=sys.stderr)
        return _INTERRUPTED
    finally:
        _drop_what_nobody_reads()


def _drop_what_nobody_reads() -> None:
    """Send what is left for a closed pipe to nowhere, other threads' lines too: Python would exit with 120 for it."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a stream without a file, as in a notebook
            pipe = select.poll()
            pipe.register(stream.fileno(), 0)
            if any(event & select.POLLERR for _, event in pipe.poll(0)):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _parser(*, light: bool) -> argparse.ArgumentParser:
    """``light``: without the commands that need torch."""
    parser = argparse.ArgumentParser(prog="sumwire", description="Sums gradients inside the network.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="make a job, start its aggregator, and let scripts find both")
    start.add_options(up)
    up.set_defaults(run=_up)
    _add_doctor(commands)
    _add_decode(commands)
    _add_top(commands)
    pays = commands.add_parser(
        "pays",
        help="say what a step's communication takes by gloo, torch's hooks and each system, before anything is set up",
        description=estimate.DESCRIPTION,
    )
    estimate.add_options(pays)
    pays.set_defaults(run=_pays, name="pays")
    if not light:
        try:
            _add_others(commands)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            _add_missing(commands)
    return parser


def _add_missing(commands: Commands) -> None:
    """Of the commands that need torch, what there is without it."""
    for name in ("inspect", "profile-loss", "tune"):
        command = commands.add_parser(name, help="needs PyTorch: pip install 'sumwire[host]'", add_help=False)
        command.add_argument("words", nargs=argparse.REMAINDER)
        command.set_defaults(run=_without_torch, name=name)


def _without_torch(options: argparse.Namespace) -> int:
    raise UsageError(
        f"sumwire {options.name}: needs PyTorch, which is not installed here: install it: pip install 'sumwire[host]'"
    )


def _up(options: argparse.Namespace) -> int:
    form = options.log_format
    voice = logs.Voice(form, "sumwire.start", serves=True)

    def say(line: str) -> None:
        if form is logs.Form.JSON and line.startswith("{"):
            voice.pass_on(line)  # the aggregator's own
        else:
            voice.say(line, Logged.SERVICE_SAID())

    start.up(start.chosen(options), say)
    return 0


def _add_doctor(commands: Commands) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="find out what stands in a job's way on this host, and what mends it",
        description="Looks at the host, at the way to the job's switch, and at what the switch says. It changes "
        "nothing, and a running job goes on. Exit status: 0 if nothing stands in the way, 1 else.",
    )
    doctor.add_argument("job_file", metavar="JOBFILE", type=Path, nargs="?", help="default: only what needs no job")
    doctor.add_argument("--worker", type=int, metavar="NUMBER", help="default: the worker with this host's address")
    doctor.add_argument(
        "--config", type=Path, metavar="CONFIG", help="the switches' YAML file: ask the controller's side too"
    )
    doctor.add_argument("--p4", type=Path, metavar="DIR", help="with --config: the compiled program, as for apply")
    doctor.add_argument("--json", action="store_true", help="print one JSON object")
    doctor.set_defaults(run=_doctor)


def _add_decode(commands: Commands) -> None:
    decode = commands.add_parser(
        "decode",
        help="show chunks' timelines in captured packets: who sent, what was lost, sent again, closed",
        description="Shows what happened to each chunk in captures of the formats pcap and pcapng. With - or -i it "
        "shows packets as they come, until Ctrl-C.",
    )
    decode.add_argument("files", metavar="FILE", nargs="*", help="captures with one clock; - is standard input")
    decode.add_argument("-i", "--interface", metavar="DEVICE", help="capture at a network interface (needs root)")
    for name, help_text in (
        ("job", "of this job"),
        ("worker", "of this worker, by its number at its switch"),
        ("slot", "of this slot"),
        ("chunk", "of this chunk of a tensor"),
    ):
        decode.add_argument(f"--{name}", type=int, metavar="NUMBER", help=f"only packets {help_text}")
    decode.add_argument(
        "--troubled", action="store_true", help="only chunks with packets that were lost, sent again, refused, too late"
    )
    decode.add_argument("--json", action="store_true", help="print one JSON object, or, as packets come, one a line")
    decode.set_defaults(run=_decode)


def _add_top(commands: Commands) -> None:
    top = commands.add_parser(
        "top",
        help="show workers, switches and links while a job runs, from the metrics that they serve",
        description="Reads the metrics of hosts, switches, aggregator and controller, and shows them until Ctrl-C.",
    )
    top.add_argument(
        "endpoints",
        metavar="ENDPOINT",
        nargs="+",
        help="[ADDRESS:]PORT, [ADDRESS:]PORT-PORT, a job file, or a list of targets as Prometheus reads it",
    )
    top.add_argument("--port", type=int, default=9464, metavar="PORT", help="of a job file's hosts (default: 9464)")
    top.add_argument("--interval", type=_interval, default=2.0, metavar="SECONDS", help="default: 2")
    top.add_argument("--once", action="store_true", help="show what two scrapes say, and end")
    top.add_argument("--json", action="store_true", help="print one JSON object for each picture")
    top.set_defaults(run=_top)


def _pays(options: argparse.Namespace) -> int:
    if importlib.util.find_spec("torch") is None:
        return _without_torch(options)
    if told := estimate.answer(options, options.script_arguments):
        print(told)
    return 0


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r}: must be 0.1 to 3600 seconds")
    return seconds


def _top(options: argparse.Namespace) -> int:
    from sumwire.top import command

    command.run(command.TopOptions(options.endpoints, options.port, options.interval, options.once, options.json))
    return 0


def _add_others(commands: Commands) -> None:
    from sumwire.dlcp import packet_loss

    show = commands.add_parser("inspect", help="show lanes, priorities and drop classes of a model's tensors")
    show.add_argument("model", metavar="MODEL", help="resnet50, resnet152, bert-base, bert-large, or FILE.py:CALLABLE")
    show.add_argument("--lanes", type=int, default=4, help="number of lanes of the job (default: 4)")
    show.add_argument(
        "--policy", metavar="FILE.py:CALLABLE", help="returns the policy (default: by layer and magnitude)"
    )
    show.add_argument("--parameters", action="store_true", help="every parameter instead of every layer")
    show.add_argument("--json", action="store_true", help="print one JSON object")
    show.set_defaults(run=_inspect)

    find = commands.add_parser(
        "profile-loss",
        help="find the largest share of lost packets with which a training script reaches its accuracy",
        description=packet_loss.PROFILING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    find.add_argument("script", metavar="SCRIPT", type=Path, help="a Python file; its own arguments follow after --")
    find.add_argument("arguments", metavar="ARGUMENT", nargs="*", help="of the script, after --")
    goal = find.add_mutually_exclusive_group()
    goal.add_argument("--target", type=float, help="accuracy to reach, in the script's unit")
    goal.add_argument("--within", type=float, default=0.005, help="allowed loss of accuracy (default: 0.005)")
    find.add_argument("--grid", type=_shares, default=packet_loss.GRID, metavar="P,P,...", help="shares to choose from")
    find.add_argument(
        "--pattern", action="append", choices=packet_loss.PATTERNS, help="may be given twice (default: both)"
    )
    text = "which packets may be lost; may be given several times, for a profile each (default: all)"
    find.add_argument("--of", action="append", choices=packet_loss.PLACES, help=text)
    find.add_argument("--seeds", type=int, default=3, help="trainings per share and pattern (default: 3)")
    find.add_argument("--timeout", type=float, metavar="SECONDS", help="limit of one training")
    find.add_argument("--json", type=Path, metavar="FILE", help="write all runs to FILE")
    find.set_defaults(run=_profile_loss)

    tune = commands.add_parser(
        "tune",
        help="measure from which tensor size on the switch is faster than the process group",
        description="Run it by torchrun on all hosts of the job, as the training. The table is kept for later jobs.",
    )
    tune.add_argument("job_file", metavar="JOBFILE", type=Path)
    tune.set_defaults(run=_tune)


def _doctor(options: argparse.Namespace) -> int:
    from sumwire.doctor import findings
    from sumwire.doctor.controller import ControllerStatus

    with contextlib.ExitStack() as stack:
        # Begun before the examination is imported: on a busy machine each takes seconds.
        status = stack.enter_context(ControllerStatus(options.config, options.p4)) if options.config else None
        from sumwire.doctor.examination import examine

        found = list(examine(options.job_file, options.worker, status=status))
    if options.json:
        print(json.dumps(findings.as_dict(found)))
    else:
        print("\n".join(findings.as_text(found)))
    return 1 if findings.problems(found) else 0


def _decode(options: argparse.Namespace) -> int:
    wanted = PacketFilter(options.job, options.worker, options.slot, options.chunk, options.troubled)
    if (options.interface and options.files) or (not options.interface and not options.files):
        raise UsageError("sumwire decode needs captures or an interface; give FILE, - or -i DEVICE")
    if options.interface:
        _follow(captures.frames_of(options.interface), wanted, options.json)
    elif options.files == [_STANDARD_INPUT]:
        _follow(CaptureReader(sys.stdin.buffer, "standard input"), wanted, options.json)
    else:
        with contextlib.ExitStack() as stack:
            readers = [(name, CaptureReader(stack.enter_context(_opened(name)), name)) for name in options.files]
            timelines = timeline.read(readers, wanted)
        if options.json:
            print(json.dumps(show.as_dict(timelines, wanted)))
        else:
            for line in show.as_text(timelines, wanted):
                print(line)
        return 1 if timelines.counts.damaged else 0
    return 0


def _opened(name: str) -> BinaryIO:
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise CaptureError(f"{name}: {error.strerror or error}: name a file that is there") from error


def _follow(frames: Iterator[Frame] | CaptureReader, wanted: PacketFilter, as_json: bool) -> None:
    """Show packets as they come, until they end or Ctrl-C."""

    def say(event: PacketEvent, began_s: float) -> None:
        print(json.dumps(show.event_as_dict(event)) if as_json else show.line(event, began_s), flush=True)

    with contextlib.suppress(KeyboardInterrupt):
        show.follow(frames, wanted, say)


def _inspect(options: argparse.Namespace) -> int:
    from sumwire.dlcp import layers
    from sumwire.dlcp.tags import LayerMagnitude

    policy: Policy = LayerMagnitude.for_lanes(options.lanes)
    if options.policy:
        policy = layers.loaded(options.policy)()
    found = layers.rows(layers.shapes_of(options.model), policy, options.lanes, by_parameter=options.parameters)
    totals = layers.by_lane(found, options.lanes)
    if options.json:
        print(json.dumps({"layers": [asdict(row) for row in found], "lanes": [asdict(row) for row in totals]}))
    else:
        print(layers.as_text(found), layers.as_text(totals), sep="\n\n")
    return 0


def _profile_loss(options: argparse.Namespace) -> int:
    from sumwire.dlcp import packet_loss

    if options.json:
        _check_writable(options.json)
    places: list[str] = options.of or [packet_loss.ALL]
    profiles: dict[str, packet_loss.LossProfile] = {}
    for place in places:
        profiles[place] = packet_loss.profile(
            packet_loss.Script(options.script, tuple(options.arguments), options.timeout, place),
            target=options.target,
            within=options.within,
            grid=options.grid,
            patterns=options.pattern or packet_loss.PATTERNS,
            seeds=options.seeds,
            say=lambda line: print(line, flush=True),
        )
    records = {place: found.as_dict() for place, found in profiles.items()}
    if options.json:
        options.json.write_text(json.dumps(records if options.of else records[packet_loss.ALL], indent=1) + "\n")
    for place, found in profiles.items():
        trainings = f"{len(found.runs)} trainings"
        print(f"without loss: accuracy {found.baseline:.4f}; target {found.target:.4f}; {trainings}")
        which = "" if place == packet_loss.ALL else f", of {place} packets"
        largest = " (the end of the grid)" if found.bound == options.grid[-1] else ""
        print(f"largest p that reaches it{which}: {found.bound:g}{largest}")
    return 0


def _tune(options: argparse.Namespace) -> int:
    import torch.distributed as dist

    from sumwire.config import load_job
    from sumwire.job.job import Job
    from sumwire.job.tuning import tuning_path

    if not dist.is_torchelastic_launched():
        raise UsageError(
            "sumwire tune needs the process group that torchrun makes; start it by torchrun on every host: "
            f"torchrun -m sumwire.cli tune {options.job_file}"
        )
    dist.init_process_group("gloo")
    try:
        config = load_job(options.job_file, worker=dist.get_rank())
        with Job(config) as job:
            table = job.tune()
        if dist.get_rank() == 0:
            print(_tuned(table), f"kept in {tuning_path(job.config)}", sep="\n")
    finally:
        dist.destroy_process_group()
    return 0


def _tuned(table: TuningTable) -> str:
    lines = [f"{'codec':6} {'values':>10} {'switch, ms':>11} {'group, ms':>11}  goes by"]
    for codec, samples in table.samples.items():
        for sample in samples:
            way = "group" if sample.prefers_group else "switch"
            times = f"{sample.switch_s * 1e3:11.3f} {sample.group_s * 1e3:11.3f}"
            lines.append(f"{codec:6} {sample.values:10} {times}  {way}")
    return "\n".join(lines)


def _check_writable(path: Path) -> None:
    """Raise UsageError before the trainings, not after them, if the file cannot be written."""
    try:
        path.open("a").close()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}: name a file that can be written: --json FILE") from error


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: must be numbers with commas between") from error


if __name__ == "__main__":
    sys.exit(main())
