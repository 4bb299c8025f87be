# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A study in a Python file of the user's own, which has it under the name `study`."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from sumwire_lab.errors import OptionError
from sumwire_lab.study.study import Study


def load(path: Path) -> Study:
    """The study in a file. Raises OptionError, with the line for a mistake in the file."""
    found = getattr(_module(path), "study", None)
    if not isinstance(found, Study):
        rule = "must have a Study under the name `study`, as study = Study(name=..., cases=..., worker=...)"
        raise OptionError(f"{path}: {rule}")
    return found


def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise OptionError(f"{path}: there is no such file; name a study, as my_study.py or grid.yaml")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise OptionError(f"{path}: must be a Python file, NAME.py, or a grid, NAME.yaml")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and workers' children look their module up by name.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except OptionError as error:
        raise OptionError(f"{path}:{_line(error, path)}: {error}") from error
    except Exception as error:
        raise OptionError(f"{path}:{_line(error, path)}: {type(error).__name__}: {error}") from error
    return module


def _line(error: Exception, path: Path) -> int:
    """The last line of the file that the error came through."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    return next((one.lineno or 1 for one in reversed(frames) if one.filename == str(path)), 1)
