# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Environments of their own for packages that do not bear what the lab has installed."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from nativelib import programs

from sumwire_lab.errors import LabError

_CACHE: Final = Path(__file__).resolve().parents[3] / ".cache"
_INSTALL_S: Final = 900.0


class AbsentError(LabError):
    """A package cannot be had."""


def python_with(package: str, version: str, *more: str) -> Path:
    """Return the Python of an environment in `.cache` that has this package from PyPI, and others (as pip takes them)
    beside it, made the first time.

    Raises AbsentError.
    """
    home = _CACHE / f"{package}-{version}-{sysconfig.get_python_version()}"
    python, ready = home / "bin" / "python", home / "ready"
    # It says what is beside the package: an environment with other neighbours is made again.
    beside = "\n".join(more)
    if ready.is_file() and ready.read_text() == beside:
        return python
    sys.stderr.write(f"installing {package} {version} into {home}\n")
    try:
        subprocess.run(programs.module("venv", "--clear", str(home)), check=True, timeout=_INSTALL_S)
        # Isolated: pip would count what PYTHONPATH has as installed.
        install = [str(python), "-I", "-m", "pip", "install", "--quiet", f"{package}=={version}", *more]
        subprocess.run(install, check=True, timeout=_INSTALL_S, capture_output=True, text=True)
    except (OSError, subprocess.SubprocessError) as error:
        told = str(getattr(error, "stderr", "") or error).strip().splitlines()[-1:]
        raise AbsentError(f"{package} {version} cannot be installed from PyPI: {' '.join(told)}") from error
    ready.write_text(beside)
    return python
