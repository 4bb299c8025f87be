# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Fuzzes the C of aggregator and hosts that reads what comes from the network: libFuzzer, which coverage guides, under
AddressSanitizer and UndefinedBehaviorSanitizer.

``python -m fuzz.libfuzzer --seconds 1800`` (`make fuzz-c`). It needs a clang with libFuzzer, ``$CC`` or the first that
is found, and LLVM's tools of its version (Debian: clang-14, libclang-rt-14-dev, llvm-14). A target ends at its first
finding, and the command then with status 1; the input is in the folder, beside what the fuzzer has learned (the corpus,
from which the next run starts). Of each file it says how many branches the inputs took.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from nativelib import NativeError, NoCompilerError, build, find_compiler
from sumwire.aggregator.kernels import NATIVE as AGGREGATOR
from sumwire.native import constants_header
from sumwire.transport.steady import NATIVE as TRANSPORT
from sumwire.wire.messages import NATIVE as WIRE

_CLANGS: Final = tuple(f"clang-{version}" for version in range(19, 13, -1))
# The targets play these, see fuzz_input.h.
_PLAYED: Final = ("recvmmsg", "sendmmsg", "ppoll", "clock_gettime")
_FLAGS: Final = (
    *("-O1", "-g", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"),
    *("-fprofile-instr-generate", "-fcoverage-mapping"),
    *(f"-D{name}=fuzz_{name}" for name in _PLAYED),
)
# Longer inputs reach nothing more.
_INPUT_BYTES: Final = 2048
_EXECUTED: Final = re.compile(r"stat::number_of_executed_units: (\d+)")
_REPORT: Final = re.compile(r"^.*(ERROR: |runtime error: |fuzz: ).*$", re.MULTILINE)
# Of a report, from its beginning.
_REPORT_LINES: Final = 20
# To start from: the targets make packets of any bytes.
_SEEDS: Final = 32
_SEED_BYTES: Final = 400


@dataclass(frozen=True)
class Target:
    """``file`` includes or drives C in ``folders``. ``sources``: those of its files that are compiled by themselves."""

    file: str
    folders: tuple[Path, ...]
    sources: tuple[str, ...]

    def within(self, folder: Path) -> Target:
        """Return this target with another folder, to which all C has been copied."""
        return Target(self.file, (folder,), self.sources)

    def source(self, name: str) -> Path:
        return next(folder / name for folder in self.folders if (folder / name).exists())


TARGETS: Final[Mapping[str, Target]] = {
    "aggregator": Target(
        "fuzz_aggregator.c",
        (AGGREGATOR.folder, WIRE.folder),
        ("admit.c", "arrange.c", "fold.c", "process.c", "reply.c", "serve.c", "take_apart.c"),
    ),
    "host": Target("fuzz_host.c", (TRANSPORT.folder, WIRE.folder), ("runs.c", "steady.c")),
}


@dataclass(frozen=True)
class Coverage:
    """Branches of a file: each way of each condition counts as one."""

    taken: int
    branches: int


@dataclass(frozen=True)
class Fuzzed:
    """``finding``: the beginning of the sanitizer's report, "" without one. ``coverage``: by file, without one."""

    executions: int
    finding: str
    coverage: dict[str, Coverage]


@contextmanager
def fuzzing_compiler() -> Iterator[Path]:
    """What is built in the block is built by a compiler with libFuzzer: ``$CC``, or else the first clang that has it.

    Raises NoCompilerError.
    """
    chosen = os.environ.get("CC")
    try:
        for name in [chosen] if chosen else _CLANGS:
            os.environ["CC"] = name
            try:
                text = "int LLVMFuzzerTestOneInput(const char *at, long size) { return at && size < 0; }\n"
                build("libfuzzer", [], generated={"main.c": text}, flags=_FLAGS, shared=False)
            except NativeError:
                continue
            yield Path(find_compiler().command[0])
            return
    finally:
        os.environ.pop("CC", None)
        if chosen:
            os.environ["CC"] = chosen
    tried = chosen or f"{_CLANGS[-1]} to {_CLANGS[0]}"
    raise NoCompilerError(
        f"no compiler with libFuzzer: {tried}; install clang-14 and libclang-rt-14-dev, or name one in $CC"
    )


def _build(name: str, target: Target) -> Path:
    constants = {**AGGREGATOR.constants, **TRANSPORT.constants, **WIRE.constants}
    here = Path(__file__).parent
    return build(
        f"sumwire-fuzz-{name}",
        [here / target.file, *map(target.source, target.sources)],
        generated={"constants.h": constants_header(constants)},
        includes=[here, *target.folders],
        flags=_FLAGS,
        shared=False,
    )


def fuzz(name: str, target: Target, limit: str, seed: int, folder: Path) -> Fuzzed:
    """Fuzz a target. ``limit``: libFuzzer's option of how long. ``folder``: for the corpus, and the input of a finding.

    Raises nativelib.NativeError.
    """
    corpus, profile = folder / name, folder / f"{name}.profraw"
    corpus.mkdir(parents=True, exist_ok=True)
    generator = random.Random(seed)
    for number in range(_SEEDS):
        (corpus / f"seed-{number}").write_bytes(generator.randbytes(_SEED_BYTES))
    with fuzzing_compiler() as compiler:
        fuzzer = _build(name, target)
    options = [limit, f"-seed={seed}", f"-max_len={_INPUT_BYTES}", "-verbosity=0", "-print_final_stats=1"]
    command = [str(fuzzer), *options, f"-artifact_prefix={folder}/{name}-", str(corpus)]
    # Memory that a process keeps until it ends is not a leak.
    variables = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
    environment = os.environ | variables | {"LLVM_PROFILE_FILE": str(profile)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, errors="replace")
    executed = _EXECUTED.search(done.stderr)
    executions = int(executed[1]) if executed else 0
    if done.returncode:
        found = _REPORT.search(done.stderr)
        report = done.stderr[found.start() :] if found else done.stderr
        return Fuzzed(executions, "\n".join(report.strip().splitlines()[:_REPORT_LINES]), {})
    return Fuzzed(executions, "", _coverage(compiler, fuzzer, profile, target))


def _coverage(compiler: Path, fuzzer: Path, profile: Path, target: Target) -> dict[str, Coverage]:
    def tool(name: str, *words: str) -> str:
        path = compiler.resolve().with_name(name)
        if not path.exists():
            raise NoCompilerError(f"no {path}: install LLVM's tools of the version of {compiler} (Debian: llvm-14)")
        return subprocess.run([path, *words], stdout=subprocess.PIPE, text=True, check=True).stdout

    merged = profile.with_suffix(".profdata")
    tool("llvm-profdata", "merge", str(profile), "-o", str(merged))
    exported = tool("llvm-cov", "export", "--summary-only", str(fuzzer), f"-instr-profile={merged}")
    files = {Path(file["filename"]): file["summary"]["branches"] for file in json.loads(exported)["data"][0]["files"]}
    return {
        path.name: Coverage(branches["covered"], branches["count"])
        for path, branches in files.items()
        if path.parent in target.folders and branches["count"]
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.libfuzzer", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="of each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("results/fuzz-c"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    results = {}
    for name, target in TARGETS.items():
        try:
            result = fuzz(name, target, f"-max_total_time={options.seconds}", options.seed, options.folder)
        except NoCompilerError as error:
            sys.stderr.write(f"fuzz: {error}\n")
            return 1
        results[name] = asdict(result)
        sys.stdout.write(f"{result.finding or f'{name}: {result.executions} inputs, nothing found'}\n")
        for file, covered in result.coverage.items():
            sys.stdout.write(f"{name}: {file}: {covered.taken} of {covered.branches} branches taken\n")
    if options.json:
        options.json.write_text(json.dumps(results))
    return any(result["finding"] for result in results.values())


if __name__ == "__main__":
    sys.exit(main())
