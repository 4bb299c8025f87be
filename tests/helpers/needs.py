# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a machine may lack: a marker for each."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable

from nativelib import NoCompilerError, find_compiler


def _has_mininet() -> bool:
    # `import mininet` alone succeeds from the repository's root without Mininet: the folder mininet/ is in the way.
    return os.geteuid() == 0 and importlib.util.find_spec("mininet") is not None and _finds("mininet.net")


def _finds(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _has_wide_compiler() -> bool:
    try:
        find_compiler(wide_bitint=True)
    except NoCompilerError:
        return False
    return True


def _has_slurm() -> bool:
    return (
        shutil.which("srun") is not None and subprocess.run(["sinfo"], check=False, capture_output=True).returncode == 0
    )


# marker -> (is it here, what is missing)
NEEDS: dict[str, tuple[Callable[[], bool], str]] = {
    "root": (lambda: os.geteuid() == 0, "needs root"),
    "bmv2": (lambda: shutil.which("simple_switch_grpc") is not None, "simple_switch_grpc is not on PATH"),
    "p4c": (lambda: shutil.which("p4c-bm2-ss") is not None, "p4c-bm2-ss is not on PATH"),
    "tofino": (lambda: any(map(shutil.which, ("p4c-barefoot", "bf-p4c"))), "p4c-barefoot is not on PATH"),
    "cc": (_has_wide_compiler, "no C compiler with _BitInt(2048), such as clang 16"),
    "openssl": (lambda: shutil.which("openssl") is not None, "openssl is not on PATH"),
    "spin": (lambda: all(map(shutil.which, ("spin", "gcc"))), "spin or gcc is not on PATH"),
    "tshark": (lambda: shutil.which("tshark") is not None, "tshark is not on PATH"),
    "chromium": (
        lambda: all(map(shutil.which, ("chromium", "chromedriver"))) and _finds("selenium"),
        "chromium or chromedriver (Debian: chromium-driver) is not on PATH, or selenium is not installed",
    ),
    "frameworks": (
        lambda: all(map(_finds, ("lightning", "accelerate", "transformers"))),
        "needs lightning, accelerate and transformers: pip install '.[frameworks]'",
    ),
    "srun": (_has_slurm, "no srun on PATH, or no Slurm that answers it"),
    "mpirun": (lambda: shutil.which("mpirun") is not None, "mpirun is not on PATH"),
    "mininet": (_has_mininet, "needs Mininet (mininet.net) and root"),
}


@functools.cache
def missing(need: str) -> str | None:
    """What this machine lacks for a marker, or None."""
    is_here, what = NEEDS[need]
    return None if is_here() else what
